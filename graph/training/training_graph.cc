#include "graph/training/training_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/words.h"
#include "graph/training/forward_pass.h"
#include "graph/training/losses.h"
#include "graph/training/recorder.h"
#include "graph/training/rules.h"

namespace emplace {
namespace {

using nlohmann::json;
using training::Call;
using training::ForwardPass;
using training::Node;
using training::Recorder;

std::vector<std::string> names_of(const OpGraph& graph) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.num_ops(); ++i)
    names.emplace_back(graph.name(OpId{static_cast<std::uint32_t>(i)}));
  return names;
}

TensorSpec spec_of(const OpGraph& graph, TensorId tensor) {
  const auto shape = graph.shape(tensor);
  return {.dtype = graph.dtype(tensor), .shape = {shape.begin(), shape.end()}};
}

/// Records the pass node by node. Thread: one.
class Step {
 public:
  Step(const OpGraph& forward, models::Optimizer optimizer)
      : forward_{forward},
        optimizer_{optimizer},
        pass_{training::forward_pass(forward)},
        trains_{training::trainable(forward, pass_)},
        results_{training::results(forward, pass_, trains_)},
        needed_{training::needed(forward, pass_, results_)},
        recorder_{optimizer, names_of(forward)},
        tensor_(forward.num_tensors()) {}

  Result<OpGraph> run() {
    if (results_.empty()) return fail("no output depends on a parameter, so there is nothing to train");
    EMPLACE_TRY(all_known());
    add_state();
    for (std::size_t i = 0; i < pass_.nodes.size(); ++i) {
      if (!needed_[i]) continue;
      EMPLACE_TRY(add(pass_.nodes[i]));
    }
    std::vector<std::string> notes;
    const Tensor loss = training::total_loss(recorder_, outputs(), notes);
    if (auto folded = training::folded_norms(forward_)) notes.push_back(*std::move(folded));
    return recorder_.finish(loss, {forward_.name(), forward_.source(), meta(notes)});
  }

 private:
  using Tensor = models::Tensor;

  Error fail(const std::string& what) const {
    return invalid("'" + printable(forward_.name(), 80) + "'", what);
  }

  Error wrong(const Node& node, const std::string& what) const {
    return invalid(
        "'" + printable(forward_.name(), 80) + "': node '" + printable(forward_.name(node.op), 80) + "'",
        what);
  }

  bool trains(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](TensorId input) { return trains_[index(input)]; });
  }
  bool passes_gradients(const Node& node) const {
    return trains(node) && forward_.num_outputs(node.result) > 0 &&
           trains_[index(forward_.first_output(node.result))];
  }

  /// Errors: all kinds without a rule between a parameter and the loss.
  Result<Unit> all_known() const {
    std::map<std::string, std::size_t> unknown;
    for (std::size_t i = 0; i < pass_.nodes.size(); ++i) {
      const Node& node = pass_.nodes[i];
      if (needed_[i] && passes_gradients(node) && !training::rule_of(node.type)) ++unknown[node.type];
    }
    if (unknown.empty()) return Unit{};
    std::string kinds;
    for (const auto& [type, count] : unknown)
      kinds += fmt::format("{}{} ({})", kinds.empty() ? "" : ", ", printable(type, 60), count);
    return invalid("'" + printable(forward_.name(), 80) + "'",
                   "cannot be differentiated: no gradient is known for " + kinds,
                   "trace a training step instead, or import without --train");
  }

  void add_state() {
    for (const OpId op : forward_.topological_order()) {
      if (!forward_.is_state(op) || forward_.num_outputs(op) == 0) continue;
      const TensorId output = forward_.first_output(op);
      const TensorSpec spec = spec_of(forward_, output);
      const std::string name{forward_.name(op)};
      const std::string_view type = forward_.type_name(op);
      if (type == "Parameter" && training::is_constant(forward_, op)) {
        tensor_[index(output)] =
            recorder_.given({.name = name, .type = "Constant", .inputs = {}, .outputs = {spec}});
      } else if (type == "Parameter" && trains_[index(output)]) {
        tensor_[index(output)] = recorder_.trained(name, spec);
      } else if (type == "Parameter" || type == "Buffer") {
        tensor_[index(output)] = recorder_.kept(name, spec);
      } else {
        OpSpec state = spec_of_op(op);
        if (type == "Input") state.group = "input";
        tensor_[index(output)] = recorder_.given(state);
      }
    }
  }

  OpSpec spec_of_op(OpId op) const {
    OpSpec spec;
    spec.name = forward_.name(op);
    spec.type = forward_.type_name(op);
    for (std::size_t k = 0; k < forward_.num_outputs(op); ++k)
      spec.outputs.push_back(spec_of(forward_, forward_.output(op, k)));
    spec.attrs_json = forward_.attrs_json(op);
    spec.view = forward_.is_view(op);
    spec.conv_groups = forward_.conv_groups(op);
    spec.flops = forward_.flops(op);
    spec.group = forward_.group_name(op);
    return spec;
  }

  /// Records a node as ATen ops by its rule. A node without a rule, on integers, or known statically, is
  /// copied unchanged.
  Result<Unit> add(const Node& node) {
    const auto rule = training::rule_of(node.type);
    const bool floats = forward_.num_outputs(node.result) > 0 &&
                        models::carries_gradient(forward_.dtype(forward_.first_output(node.result)));
    const bool known = floats && pass_.is_static[index(forward_.first_output(node.result))];
    if (!rule || !floats || known) {
      keep(node);
      return Unit{};
    }
    const json attrs = json::parse(forward_.attrs_json(node.op), nullptr, false);
    const json none = json::object();
    Call call{.type = node.type,
              .attrs = attrs.is_object() ? attrs : none,
              .inputs = {},
              .number = {},
              .values = {},
              .outputs = {}};
    for (const TensorId input : node.inputs) {
      call.inputs.push_back(*tensor_[index(input)]);
      call.number.push_back(pass_.is_number(forward_, input));
      call.values.push_back(values_of(input));
    }
    for (std::size_t k = 0; k < forward_.num_outputs(node.result); ++k)
      call.outputs.push_back(spec_of(forward_, forward_.output(node.result, k)));
    recorder_.begin(forward_.name(node.op), forward_.group_name(node.op));
    const auto made = call.inputs.empty() ? training::contradiction(call) : (*rule)(recorder_, call);
    if (!made) return wrong(node, made.error().context);
    recorder_.end(made.value().front());
    for (std::size_t k = 0; k < made.value().size() && k < call.outputs.size(); ++k)
      tensor_[index(forward_.output(node.result, k))] = made.value()[k];
    return fill(node, made.value().size());
  }

  /// Outputs that a rule does not produce must be neither read nor results of the model.
  Result<Unit> fill(const Node& node, std::size_t made) const {
    for (std::size_t k = made; k < forward_.num_outputs(node.result); ++k) {
      const TensorId output = forward_.output(node.result, k);
      const bool result = std::find(results_.begin(), results_.end(), output) != results_.end();
      if (result || !forward_.consumers(output).empty())
        return wrong(
            node, fmt::format("its output {} is {}, but a training step of its kind does not produce it", k,
                              result ? "a result of the model" : "read"));
    }
    return Unit{};
  }

  void keep(const Node& node) {
    OpSpec spec = spec_of_op(node.op);
    for (const TensorId input : node.inputs) spec.inputs.push_back(*tensor_[index(input)]);
    const Tensor made = recorder_.copy_op(std::move(spec));
    for (std::uint32_t k = 0; k < forward_.num_outputs(node.op); ++k)
      tensor_[index(forward_.output(node.op, k))] = Tensor{made.op, k};
  }

  /// The values of a small constant, as stored by its reader.
  std::vector<double> values_of(TensorId tensor) const {
    const OpId op = forward_.producer(tensor);
    if (forward_.type_name(op) != "Constant") return {};
    const json attrs = json::parse(forward_.attrs_json(op), nullptr, false);
    if (!attrs.is_object() || !attrs.contains("value")) return {};
    const json& value = attrs["value"];
    std::vector<double> values;
    for (const json& number : value.is_array() ? value : json::array({value})) {
      if (!number.is_number()) return {};
      values.push_back(number.get<double>());
    }
    return values;
  }

  std::vector<training::Output> outputs() const {
    std::vector<training::Output> all;
    for (const TensorId result : results_) {
      const OpId op = forward_.producer(result);
      all.push_back(
          {*tensor_[index(result)], std::string{forward_.name(op)}, std::string{forward_.type_name(op)}});
    }
    return all;
  }

  std::string meta(const std::vector<std::string>& notes) const {
    json meta = json::parse(forward_.meta_json(), nullptr, false);
    if (!meta.is_object()) meta = json::object();
    for (const char* key : {"outputs", "folded_norms"}) meta.erase(key);  // Op numbers of the forward pass.
    meta["kind"] = "training";
    meta["optimizer"] = word_of(optimizer_);
    if (!meta.contains("notes") || !meta["notes"].is_array()) meta["notes"] = json::array();
    for (const std::string& note : notes) meta["notes"].push_back(note);
    return meta.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  const OpGraph& forward_;
  const models::Optimizer optimizer_;
  const ForwardPass pass_;
  const std::vector<bool> trains_;  // [tensors]
  const std::vector<TensorId> results_;
  const std::vector<bool> needed_;  // [nodes]
  Recorder recorder_;
  std::vector<std::optional<Tensor>> tensor_;  // [tensors] Tensor on the tape.
};

}  // namespace

Result<OpGraph> training_graph(const OpGraph& forward, models::Optimizer optimizer) {
  for (std::size_t i = 0; i < forward.num_ops(); ++i) {
    const OpId op{static_cast<std::uint32_t>(i)};
    if (forward.phase(op) != Phase::kForward)
      return invalid("'" + printable(forward.name(), 80) + "'",
                     "is a training graph already: it has backward or update ops",
                     "import it without --train");
  }
  return Step{forward, optimizer}.run();
}

}  // namespace emplace
