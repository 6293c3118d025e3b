#include <fmt/core.h>
#include <tf_graphdef.pb.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "base/text/words.h"
#include "graph/formats/tensorflow/tf_inline.h"
#include "graph/formats/tensorflow/tf_joins.h"
#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/formats/tensorflow/tf_outputs.h"
#include "graph/formats/tensorflow/tf_saved_model.h"
#include "graph/formats/tensorflow/tf_step.h"
#include "graph/formats/tensorflow/tf_variables.h"

namespace emplace::tf {
namespace {

using nlohmann::json;

// Maximum elements of a constant that is treated as shape arithmetic instead of a weight.
constexpr std::int64_t kSmall = 64;
constexpr std::size_t kLongestText = 64;  // Larger attributes do not affect the cost.
constexpr int kLongestList = 64;

/// The scope of a gradient op is that of the op it differentiates: "gradients/a/b_grad/MatMul" → "a". Other
/// ops have their own.
std::string scope_of(std::string_view name) {
  const auto parent = [](std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
  };
  constexpr std::string_view kGradients = "gradients/";
  std::size_t at = name.starts_with(kGradients) ? 0 : name.find("/gradients/");
  if (at == std::string_view::npos) return std::string{parent(name)};
  at += kGradients.size() + (at == 0 && name.starts_with(kGradients) ? 0 : 1);
  std::string_view scope = parent(name.substr(at));
  for (std::string_view path = scope; !path.empty(); path = parent(path))
    if (path.ends_with("_grad")) return std::string{parent(path.substr(0, path.size() - 5))};
  return std::string{scope};
}

/// Facts about the nodes of a graph.
struct Parts {
  GraphDef graph;
  Step step;
  Variables variables;
  Outputs outputs;
  std::size_t calls = 0, conditionals = 0;
  std::vector<std::string> notes;
};

class GraphReader {
 public:
  GraphReader(const Parts& parts, const DimUsage& dims, std::string_view where)
      : graph_{parts.graph},
        step_{parts.step},
        parts_{parts},
        dims_{dims},
        where_{where},
        n_{static_cast<std::uint32_t>(graph_.node_size())},
        large_constant_{parts.variables.any ? "Buffer" : "Parameter"} {}

  Result<OpGraph> read() {
    EMPLACE_TRY(check_inputs());
    find_dependencies();
    find_views();
    builder_.reserve(n_ + joins_.producers.size());
    for (std::uint32_t i = 0; i < n_; ++i) {
      EMPLACE_TRY_ASSIGN(auto op, op_of(i));
      builder_.add(std::move(op));
    }
    add_joins();
    builder_.set_name(name());
    builder_.set_source(fmt::format("tensorflow graphdef, producer {}", graph_.versions().producer()));
    builder_.set_meta_json(meta());
    return built(std::move(builder_), where_);
  }

 private:
  const NodeDef& node(std::uint32_t i) const { return graph_.node(static_cast<int>(i)); }
  const std::vector<TensorSpec>& outputs(std::uint32_t i) const { return parts_.outputs.of[i]; }
  Error fail(std::uint32_t i, std::string_view what, std::string_view cure = {}) const {
    return invalid(std::string{where_} + ": node " + in_quotes(node(i).name()), what, cure);
  }
  Role role(std::uint32_t i) const { return step_.role[i]; }

  bool carries_data(std::uint32_t reader, const Edge& edge) const {
    return !edge.control && !step_.one_off[reader] && !step_.one_off[edge.node];
  }
  /// State exists from the start, so it neither waits nor is waited for.
  bool is_dependency(std::uint32_t reader, const Edge& edge) const {
    return !carries_data(reader, edge) && role(edge.node) == Role::kWork && role(reader) == Role::kWork;
  }

  Result<Unit> check_inputs() const {
    for (std::uint32_t i = 0; i < n_; ++i) {
      for (const Edge& edge : step_.inputs[i]) {
        if (!carries_data(i, edge) || role(i) != Role::kWork || edge.output < outputs(edge.node).size())
          continue;
        const std::string sizes = fmt::format("with --shape {0}.0=…,{0}.1=…, one for each dimension",
                                              printable(node(edge.node).name(), 60));
        if (outputs(edge.node).empty() && role(edge.node) == Role::kPlaceholder)
          return fail(edge.node, "has no shape in the file, but " + in_quotes(node(i).name()) + " reads it",
                      "set its sizes " + sizes);
        if (outputs(edge.node).empty() && find(node(edge.node), "_output_shapes") == nullptr)
          return fail(
              edge.node,
              "has no shape in the file (_output_shapes), and none can be inferred from its inputs (" +
                  printable(node(edge.node).op(), 60) + "), but " + in_quotes(node(i).name()) + " reads it",
              "write graph.as_graph_def(add_shapes=True), or set its sizes " + sizes);
        return fail(i, fmt::format("reads output {} of {}, which has {}", edge.output,
                                   in_quotes(node(edge.node).name()), outputs(edge.node).size()));
      }
    }
    return Unit{};
  }

  /// Collects control dependencies. Nodes that others wait for get an additional output of zero bytes.
  void find_dependencies() {
    Waits waits(n_);
    waited_for_.assign(n_, false);
    for (std::uint32_t i = 0; i < n_; ++i) {
      for (const Edge& edge : step_.inputs[i]) {
        if (!is_dependency(i, edge)) continue;
        waited_for_[edge.node] = true;
        waits[i].push_back(edge.node);
      }
      std::sort(waits[i].begin(), waits[i].end());
      waits[i].erase(std::unique(waits[i].begin(), waits[i].end()), waits[i].end());
    }
    joins_ = joined(waits);
  }

  /// A reader of a view waits for everything that the view reads, transitively through views. These lists are
  /// copied for every view and reader and could double through diamonds of views. Above a limit a view
  /// therefore becomes an op. One-off nodes read nothing.
  void find_views() {
    constexpr std::uint32_t kMaxWaits = 1'000, kMaxCopies = 20'000;
    std::vector<std::uint32_t> waits(n_, 0), readers(n_, 0);
    for (std::uint32_t i = 0; i < n_; ++i)
      for (const Edge& edge : step_.inputs[i]) ++readers[edge.node];
    view_.assign(n_, false);
    for (const std::uint32_t i : step_.order) {
      if (role(i) != Role::kWork || !(is_view(node(i).op()) || step_.one_off[i])) continue;
      std::uint32_t all = 0;
      for (const Edge& edge : step_.inputs[i])
        if (all <= kMaxWaits && (carries_data(i, edge) || is_dependency(i, edge)))
          all += 1 + waits[edge.node];
      view_[i] = all <= kMaxWaits && std::uint64_t{all} * readers[i] <= kMaxCopies;
      if (view_[i]) waits[i] = all;
    }
  }

  /// The number of the op for join `k`.
  std::uint32_t join_op(std::uint32_t k) const { return n_ + k; }

  /// Adds the joins: ops without time and data that represent control edges.
  void add_joins() {
    std::unordered_set<std::string_view> taken;
    for (const NodeDef& one : graph_.node())
      if (one.name().starts_with(kJoin)) taken.insert(one.name());
    std::uint32_t number = 0;
    for (const std::vector<std::uint32_t>& producers : joins_.producers) {
      OpSpec op;
      do op.name = std::string{kJoin} + std::to_string(number++);
      while (taken.contains(op.name));
      op.type = "NoOp";
      op.group = "emplace";
      op.attrs_json = R"({"join":true})";
      op.measured_us = no_time();
      op.outputs.push_back({DType::kU8, {0}});
      for (const std::uint32_t producer : producers) {
        op.inputs.push_back({producer, static_cast<std::uint32_t>(outputs(producer).size())});
        op.phase = std::max(op.phase, step_.phase[producer]);
      }
      builder_.add(std::move(op));
    }
  }
  static std::vector<std::pair<std::string, double>> no_time() { return {{"gpu", 0.0}, {"cpu", 0.0}}; }

  json attributes(std::uint32_t i) const {
    json attrs = json::object();
    for (const NodeDef::Attr& attr : node(i).attr()) {
      const std::string& key = attr.key();
      const AttrValue& value = attr.value();
      if (key.starts_with('_')) continue;
      switch (value.value_case()) {
        case AttrValue::kI:
          attrs[key] = value.i();
          break;
        case AttrValue::kF:
          attrs[key] = value.f();
          break;
        case AttrValue::kB:
          attrs[key] = value.b();
          break;
        case AttrValue::kS:
          attrs[key] = value.s().substr(0, kLongestText);
          break;
        case AttrValue::kType:
          attrs[key] = DataType_Name(value.type());
          break;
        case AttrValue::kList:
          if (value.list().i_size() > 0 && value.list().i_size() <= kLongestList)
            attrs[key] = std::vector<std::int64_t>(value.list().i().begin(), value.list().i().end());
          break;
        default:
          break;  // Their values and shapes are in `outputs`.
      }
    }
    for (const char* ours : {"groups", "view", "one_off", "loop", "device", "tf_type", "join"})
      attrs.erase(ours);
    if (!node(i).device().empty()) attrs["device"] = node(i).device();
    if (step_.frame[i] != 0) attrs["loop"] = step_.frames[step_.frame[i]];
    if (step_.one_off[i]) attrs["one_off"] = true;
    if (role(i) != Role::kWork) attrs["tf_type"] = node(i).op();
    return attrs;
  }

  Result<OpSpec> op_of(std::uint32_t i) {
    OpSpec op;
    op.name = node(i).name();
    op.group = scope_of(node(i).name());
    op.phase = step_.phase[i];
    op.outputs = outputs(i);
    if (step_.leader[i] != i) op.colocate = OpId{step_.leader[i]};
    json attrs = attributes(i);
    if (role(i) != Role::kWork) {
      EMPLACE_TRY(make_state(i, op));
    } else {
      make_work(i, op);
      if (op.view) attrs["view"] = true;
    }
    op.attrs_json = attrs.dump(-1, ' ', false, json::error_handler_t::replace);
    if (waited_for_[i]) op.outputs.push_back({DType::kU8, {0}});
    return op;
  }

  void make_work(std::uint32_t i, OpSpec& op) {
    op.type = node(i).op();
    op.view = view_[i] || step_.one_off[i];
    // A view that became an op takes no time.
    if (!op.view && op.type == "NoOp") op.measured_us = no_time();
    std::vector<Shape> shapes, results;
    const bool reads = !step_.one_off[i] || view_[i];
    for (const Edge& edge : step_.inputs[i]) {
      if (!reads || !carries_data(i, edge)) continue;
      op.inputs.push_back({edge.node, edge.output});
      const std::uint32_t variable = step_.variable[edge.node];
      const bool handle = variable != kNoNode && !outputs(variable).empty();
      shapes.push_back(handle && !output_dtype(node(edge.node), edge.output)
                           ? outputs(variable)[0].shape
                           : outputs(edge.node)[edge.output].shape);
    }
    for (std::size_t k = 0; reads && k < joins_.direct[i].size(); ++k)
      op.inputs.push_back(
          {joins_.direct[i][k], static_cast<std::uint32_t>(outputs(joins_.direct[i][k]).size())});
    for (std::size_t k = 0; reads && k < joins_.by_node[i].size(); ++k)
      op.inputs.push_back({join_op(joins_.by_node[i][k]), 0});
    bool floating = false;
    for (const TensorSpec& tensor : op.outputs) {
      results.push_back(tensor.shape);
      floating = floating || is_floating(tensor.dtype);
    }
    if (op.view) return;
    op.flops = flops(node(i), shapes, results, !results.empty() && is_floating(op.outputs[0].dtype));
    if (floating && !is_view(op.type) && !work_is_known(op.type)) uncounted_.insert(op.type);
  }

  Result<Unit> make_state(std::uint32_t i, OpSpec& op) const {
    std::int64_t n = 1, bytes = 0;
    for (const std::int64_t dim : op.outputs.empty() ? Shape{} : op.outputs[0].shape)
      if (dim < 0 || __builtin_mul_overflow(n, dim, &n))
        return fail(i, "has a shape that is negative or too large");
    const bool is_weight = !op.outputs.empty() && n > 1 && (n > kSmall || is_floating(op.outputs[0].dtype));
    op.type =
        role(i) == Role::kConstant ? (is_weight ? large_constant_ : "Constant") : parts_.variables.kind[i];
    if (op.type == "OptimizerState") op.phase = Phase::kUpdate;
    if (op.type == "Constant" || op.type == "Input" || op.outputs.empty()) return Unit{};
    if (__builtin_mul_overflow(n, element_bytes(op.outputs[0].dtype), &bytes)) return fail(i, "is too large");
    op.param_bytes = bytes;
    return Unit{};
  }

  std::string name() const {
    std::string_view path = where_;
    // The file of a SavedModel always has the same name, so use the name of its folder.
    if (path.ends_with("/saved_model.pb")) path = path.substr(0, path.rfind('/'));
    return name_of_file(path, {".gz", ".zst", ".pb", ".pbtxt", ".meta"});
  }

  std::string meta() const {
    json loops = json::array();
    std::vector<std::size_t> ops(step_.frames.size(), 0);
    for (const std::uint32_t frame : step_.frame) ++ops[frame];
    for (std::size_t f = 1; f < step_.frames.size(); ++f)
      loops.push_back({{"frame", step_.frames[f]}, {"ops", ops[f]}});
    const Outputs& outputs = parts_.outputs;
    json meta{{"kind", parts_.variables.trains ? "training" : "inference"},
              {"loops", std::move(loops)},
              {"back_edges_cut", step_.back_edges},
              {"one_off_ops", std::count(step_.one_off.begin(), step_.one_off.end(), true)},
              {"inferred_shapes", outputs.inferred},
              {"unknown_dims", outputs.open_dims + outputs.unknown_dims},
              {"unknown_shapes", outputs.unknown_shapes},
              {"notes", notes()}};
    if (parts_.calls > 0) meta["inlined_calls"] = parts_.calls;
    if (!joins_.producers.empty()) meta["joins"] = joins_.producers.size();
    if (!uncounted_.empty()) meta["uncounted"] = uncounted_;
    return meta.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> notes = parts_.notes;
    const auto note = [&](std::string_view what, std::size_t count, std::string_view meaning) {
      if (count > 0) notes.push_back(fmt::format("{}: {}; {}", what, count, meaning));
    };
    const Outputs& outputs = parts_.outputs;
    std::size_t asked = 0;
    for (std::uint32_t i = 0; i < n_; ++i) asked += node(i).device().empty() || step_.one_off[i] ? 0 : 1;
    note("while loops", step_.frames.size() - 1,
         "one iteration of each is placed and timed, all of it on one device");
    note("conditionals", parts_.conditionals, "all branches count as run");
    note("ops that initialise, save or restore",
         static_cast<std::size_t>(std::count(step_.one_off.begin(), step_.one_off.end(), true)),
         "they take no time in a step");
    note("variables of unknown size", outputs.unsized.size(),
         "they count as nothing (" + (outputs.unsized.empty() ? "" : in_quotes(outputs.unsized[0])) +
             (outputs.unsized.size() > 1 ? ", …" : "") + "); write graph.as_graph_def(add_shapes=True)");
    note("unknown dimensions", outputs.open_dims, "each counts as 1; set sizes with " + sizes_to_give());
    note("open dimensions that no rule infers", outputs.unknown_dims, "each counts as 1");
    note("unknown shapes", outputs.unknown_shapes, "each counts as a scalar");
    note("ops that request a device", asked,
         "placements ignore it; use rules with match = { device = '…' } to enforce it (docs/guide/rules.md)");
    return notes;
  }

  /// Formats "--batch N or --shape x.0=…,y.1=…" with the first few dimensions.
  std::string sizes_to_give() const {
    constexpr std::size_t kNamed = 4;
    const std::vector<std::string>& missing = dims_.missing();
    std::string names;
    bool batch = false;
    for (std::size_t k = 0; k < missing.size(); ++k) {
      batch = batch || missing[k].ends_with(".0");
      if (k < kNamed) names += (k == 0 ? "" : ",") + printable(missing[k], 60) + "=…";
    }
    if (missing.size() > kNamed) names += ",…";
    return (batch ? "--batch N or --shape " : "--shape ") + names;
  }

  static constexpr std::string_view kJoin = "emplace/join#";

  const GraphDef& graph_;
  const Step& step_;
  const Parts& parts_;
  const DimUsage& dims_;
  const std::string_view where_;
  const std::uint32_t n_;
  // Op type of large constants: the weights of a frozen graph are constants.
  const char* const large_constant_;
  OpGraphBuilder builder_;
  std::vector<bool> waited_for_, view_;
  Joins joins_;
  std::set<std::string> uncounted_;
};

}  // namespace

Result<OpGraph> read_graph(Served served, const OpenDims& given, std::string_view where) {
  Inlined inlined;
  std::vector<bool> idle;
  std::unordered_set<std::string> idle_names;
  for (std::size_t i = 0; i < served.runs.size(); ++i)
    if (!served.runs[i]) idle_names.insert(served.graph.node(static_cast<int>(i)).name());
  if (calls_functions(served.graph)) {
    const auto runs = [&](int i) { return served.runs.empty() || served.runs[static_cast<std::size_t>(i)]; };
    EMPLACE_TRY_ASSIGN(inlined, inline_functions(served.graph, runs, where));
  } else {
    inlined.graph = std::move(served.graph);
  }
  for (const NodeDef& node : inlined.graph.node()) idle.push_back(idle_names.contains(node.name()));
  EMPLACE_TRY_ASSIGN(auto step, step_of(inlined.graph, idle, where));
  DimUsage dims{given};
  Outputs outputs = outputs_of(inlined.graph, step, inlined, dims);
  EMPLACE_TRY(dims.all_used(where));
  Variables variables = variables_of(inlined.graph, step);
  const Parts parts{std::move(inlined.graph), std::move(step), std::move(variables),
                    std::move(outputs),       inlined.calls,   inlined.conditionals,
                    std::move(served.notes)};
  return GraphReader{parts, dims, where}.read();
}

}  // namespace emplace::tf
