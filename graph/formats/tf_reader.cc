#include "graph/formats/tf_reader.h"

#include <tf_graphdef.pb.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/text/words.h"
#include "graph/formats/tf_ops.h"
#include "graph/formats/tf_shapes.h"
#include "graph/formats/tf_step.h"

namespace emplace::tf {
namespace {

using nlohmann::json;

constexpr std::int64_t kSmall = 64;  // Elements of a constant that is arithmetic on shapes, not a weight.
constexpr std::size_t kLongestText = 64;  // Attributes above these sizes say nothing about cost.
constexpr int kLongestList = 64;

bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16;
}

/// "gradients/a/b_grad/MatMul" carries the scope of what it differentiates, "a"; others theirs.
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

class Reader {
 public:
  Reader(const GraphDef& graph, Step step, std::string_view where)
      : graph_{graph},
        step_{std::move(step)},
        where_{where},
        n_{static_cast<std::uint32_t>(graph.node_size())} {}

  Result<OpGraph> read() {
    find_kinds();
    for (std::uint32_t i = 0; i < n_; ++i) outputs_.push_back(outputs_of(i));
    infer_outputs();
    if (auto done = find_dependencies(); !done) return done.error();
    find_views();
    builder_.reserve(n_);
    for (std::uint32_t i = 0; i < n_; ++i) {
      auto op = op_of(i);
      if (!op) return op.error();
      builder_.add(*std::move(op));
    }
    builder_.set_name(name());
    builder_.set_source("tensorflow graphdef, producer " + std::to_string(graph_.versions().producer()));
    builder_.set_meta_json(meta());
    auto graph = std::move(builder_).build();
    if (!graph) return invalid(where_, graph.error().context);
    return graph;
  }

 private:
  const NodeDef& node(std::uint32_t i) const { return graph_.node(static_cast<int>(i)); }
  Error fail(std::uint32_t i, std::string_view what, std::string_view cure = {}) const {
    return invalid(std::string{where_} + ": node " + in_quotes(node(i).name()), what, cure);
  }
  Role role(std::uint32_t i) const { return role_of(node(i).op()); }

  /// What each variable is for: an optimiser's first input is trained, its others are slots. Where nothing is
  /// trained every variable is a weight.
  void find_kinds() {
    kind_.assign(n_, nullptr);
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (!is_optimizer(node(i).op()) || step_.one_off[i]) continue;
      trains_ = true;
      for (std::size_t k = 0; k < step_.inputs[i].size(); ++k) {
        const Edge& edge = step_.inputs[i][k];
        if (edge.control || role(edge.node) != Role::kVariable) continue;
        if (k == 0) {
          kind_[edge.node] = "Parameter";
        } else if (kind_[edge.node] == nullptr) {
          kind_[edge.node] = "OptimizerState";
        }
      }
    }
    bool has_variables = false;
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (role(i) == Role::kPlaceholder) kind_[i] = "Input";
      if (role(i) != Role::kVariable) continue;
      has_variables = true;
      if (kind_[i] == nullptr) kind_[i] = trains_ ? "Buffer" : "Parameter";
    }
    large_constant_ = has_variables ? "Buffer" : "Parameter";  // A frozen graph's weights are constants.
  }

  TensorSpec spec_of(const TensorShapeProto& shape, DType dtype) {
    TensorSpec tensor{dtype, {}};
    if (shape.unknown_rank()) ++unknown_shapes_;
    for (const auto& dim : shape.dim()) {
      if (dim.size() == -1) ++unknown_dims_;
      tensor.shape.push_back(dim.size() == -1 ? 1 : dim.size());
    }
    return tensor;
  }

  std::vector<TensorSpec> outputs_of(std::uint32_t i) {
    std::vector<TensorSpec> outputs;
    if (step_.one_off[i]) return outputs;
    const AttrValue* listed = find(node(i), "_output_shapes");
    const AttrValue* own = nullptr;
    if (role(i) == Role::kConstant) own = find(node(i), "value");
    if (role(i) == Role::kVariable || role(i) == Role::kPlaceholder) own = find(node(i), "shape");
    if (own != nullptr && role(i) == Role::kPlaceholder && own->shape().unknown_rank() && listed != nullptr)
      own = nullptr;
    if (own != nullptr) {
      const TensorShapeProto& shape =
          role(i) == Role::kConstant ? own->tensor().tensor_shape() : own->shape();
      outputs.push_back(spec_of(shape, output_dtype(node(i), 0).value_or(DType::kU8)));
      return outputs;
    }
    if (listed == nullptr) return outputs;
    for (const TensorShapeProto& shape : listed->list().shape()) {
      const auto dtype = output_dtype(node(i), outputs.size());
      outputs.push_back(dtype ? spec_of(shape, *dtype) : TensorSpec{DType::kU8, {0}});
    }
    return outputs;
  }

  /// Where the file has no list, the outputs are what their inputs make them, as far as that is known.
  void infer_outputs() {
    std::size_t left = 16 * std::size_t{n_} + 1'000;  // No file may make more of itself than it is.
    std::vector<Value> values(n_);
    for (const std::uint32_t i : step_.order) {
      if (step_.one_off[i]) continue;
      if (role(i) == Role::kConstant) values[i] = constant_value(node(i));
      if (role(i) != Role::kWork || find(node(i), "_output_shapes") != nullptr) continue;
      std::vector<Shape> shapes;
      std::vector<Value> known;
      bool complete = true;
      for (const Edge& edge : step_.inputs[i]) {
        if (!carries_data(i, edge)) continue;
        complete = complete && edge.output < outputs_[edge.node].size();
        if (!complete) break;
        shapes.push_back(outputs_[edge.node][edge.output].shape);
        known.push_back(edge.output == 0 ? values[edge.node] : Value{});
      }
      if (!complete || shapes.empty()) continue;
      auto inferred = infer_shapes(node(i), shapes, known);
      if (!inferred || inferred->shapes.size() > left) continue;
      left -= inferred->shapes.size();
      for (Shape& shape : inferred->shapes) {
        const auto dtype = output_dtype(node(i), outputs_[i].size());
        outputs_[i].push_back(dtype ? TensorSpec{*dtype, std::move(shape)} : TensorSpec{DType::kU8, {0}});
      }
      values[i] = std::move(inferred->value);
      ++inferred_;
    }
  }

  bool carries_data(std::uint32_t reader, const Edge& edge) const {
    return !edge.control && !step_.one_off[reader] && !step_.one_off[edge.node];
  }
  /// State is there from the start: nobody waits for it, and it for nobody.
  bool is_dependency(std::uint32_t reader, const Edge& edge) const {
    return !carries_data(reader, edge) && role(edge.node) == Role::kWork && role(reader) == Role::kWork;
  }

  /// Gives the nodes that others wait for an output without bytes, behind their own.
  Result<Unit> find_dependencies() {
    waited_for_.assign(n_, false);
    for (std::uint32_t i = 0; i < n_; ++i) {
      for (const Edge& edge : step_.inputs[i]) {
        if (is_dependency(i, edge)) waited_for_[edge.node] = true;
        if (!carries_data(i, edge) || role(i) != Role::kWork || edge.output < outputs_[edge.node].size())
          continue;
        if (outputs_[edge.node].empty() && find(node(edge.node), "_output_shapes") == nullptr)
          return fail(edge.node,
                      "has no shape in the file (_output_shapes), none follows from its inputs (" +
                          printable(node(edge.node).op(), 60) + "), and " + in_quotes(node(i).name()) +
                          " reads it",
                      "write the graph with add_shapes=True");
        return fail(i, "reads output " + std::to_string(edge.output) + " of " +
                           in_quotes(node(edge.node).name()) + ", which has " +
                           std::to_string(outputs_[edge.node].size()));
      }
    }
    return Unit{};
  }

  /// Who reads a view waits for all that the view reads, and for what views among that read: so many are
  /// copied at every view, and through diamonds of views they would double. Beyond a bound a view counts as
  /// an op, and what runs once reads nothing.
  void find_views() {
    constexpr std::uint32_t kMostWaits = 1'000;
    std::vector<std::uint32_t> waits(n_, 0);
    view_.assign(n_, false);
    for (const std::uint32_t i : step_.order) {
      if (role(i) != Role::kWork || !(is_view(node(i).op()) || step_.one_off[i])) continue;
      std::uint32_t all = 0;
      for (const Edge& edge : step_.inputs[i])
        if (all <= kMostWaits && (carries_data(i, edge) || is_dependency(i, edge)))
          all += 1 + waits[edge.node];
      view_[i] = all <= kMostWaits;
      if (view_[i]) waits[i] = all;
    }
  }

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
          break;  // Values and shapes: the outputs tell them.
      }
    }
    for (const char* ours : {"groups", "view", "one_off", "loop", "device", "tf_type"}) attrs.erase(ours);
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
    op.outputs = outputs_[i];
    if (step_.leader[i] != i) op.colocate = OpId{step_.leader[i]};
    json attrs = attributes(i);
    if (role(i) != Role::kWork) {
      if (auto done = make_state(i, op); !done) return done.error();
    } else {
      op.type = node(i).op();
      op.view = view_[i] || step_.one_off[i];
      if (op.view) attrs["view"] = true;
      std::vector<Shape> shapes, results;
      std::unordered_set<std::uint32_t> waits;
      for (const Edge& edge : step_.inputs[i]) {
        if (step_.one_off[i] && !view_[i]) break;
        if (carries_data(i, edge)) {
          op.inputs.push_back({edge.node, edge.output});
          shapes.push_back(outputs_[edge.node][edge.output].shape);
        } else if (is_dependency(i, edge) && waits.insert(edge.node).second) {
          op.inputs.push_back({edge.node, static_cast<std::uint32_t>(outputs_[edge.node].size())});
        }
      }
      for (const TensorSpec& tensor : op.outputs) results.push_back(tensor.shape);
      if (!op.view)
        op.flops = flops(node(i), shapes, results, !results.empty() && is_floating(op.outputs[0].dtype));
    }
    op.attrs_json = attrs.dump(-1, ' ', false, json::error_handler_t::replace);
    if (waited_for_[i]) op.outputs.push_back({DType::kU8, {0}});
    return op;
  }

  Result<Unit> make_state(std::uint32_t i, OpSpec& op) const {
    std::int64_t n = 1, bytes = 0;
    for (const std::int64_t dim : op.outputs.empty() ? Shape{} : op.outputs[0].shape)
      if (dim < 0 || __builtin_mul_overflow(n, dim, &n))
        return fail(i, "has a shape that is negative or too large");
    const bool is_weight = !op.outputs.empty() && n > 1 && (n > kSmall || is_floating(op.outputs[0].dtype));
    op.type = role(i) == Role::kConstant ? (is_weight ? large_constant_ : "Constant") : kind_[i];
    if (op.type == "OptimizerState") op.phase = Phase::kUpdate;
    if (op.type == "Constant" || op.type == "Input" || op.outputs.empty()) return Unit{};
    if (__builtin_mul_overflow(n, element_bytes(op.outputs[0].dtype), &bytes)) return fail(i, "is too large");
    op.param_bytes = bytes;
    return Unit{};
  }

  std::string name() const {
    std::string name{where_.substr(where_.rfind('/') + 1)};
    for (const std::string_view ending : {".gz", ".zst", ".pb", ".pbtxt"})
      if (name.ends_with(ending) && name.size() > ending.size()) name.resize(name.size() - ending.size());
    return name;
  }

  std::string meta() const {
    json loops = json::array(), notes = json::array();
    std::vector<std::size_t> ops(step_.frames.size(), 0);
    for (const std::uint32_t frame : step_.frame) ++ops[frame];
    for (std::size_t f = 1; f < step_.frames.size(); ++f)
      loops.push_back({{"frame", step_.frames[f]}, {"ops", ops[f]}});
    const auto one_offs = std::count(step_.one_off.begin(), step_.one_off.end(), true);
    const auto note = [&](std::string_view what, std::size_t count, std::string_view meaning) {
      if (count > 0)
        notes.push_back(std::string{what} + ": " + std::to_string(count) + "; " + std::string{meaning});
    };
    note("while loops", loops.size(), "one iteration of each is placed and timed, all of it on one device");
    note("ops that initialise, save or restore", static_cast<std::size_t>(one_offs),
         "they take no time in a step");
    note("unknown dimensions", unknown_dims_, "each counts as 1");
    note("unknown shapes", unknown_shapes_, "each counts as a scalar");
    return json{{"kind", trains_ ? "training" : "inference"},
                {"loops", std::move(loops)},
                {"back_edges_cut", step_.back_edges},
                {"one_off_ops", one_offs},
                {"inferred_shapes", inferred_},
                {"unknown_dims", unknown_dims_},
                {"unknown_shapes", unknown_shapes_},
                {"notes", std::move(notes)}}
        .dump(-1, ' ', false, json::error_handler_t::replace);
  }

  const GraphDef& graph_;
  const Step step_;
  const std::string_view where_;
  const std::uint32_t n_;
  OpGraphBuilder builder_;
  std::vector<std::vector<TensorSpec>> outputs_;  // The node's own.
  std::vector<bool> waited_for_, view_;
  std::vector<const char*> kind_;  // State types of variables and placeholders.
  const char* large_constant_ = "Parameter";
  bool trains_ = false;
  std::size_t unknown_dims_ = 0, unknown_shapes_ = 0, inferred_ = 0;
};

}  // namespace

Result<OpGraph> read_graph(const GraphDef& graph, std::string_view where) {
  auto step = step_of(graph, where);
  if (!step) return step.error();
  return Reader{graph, *std::move(step), where}.read();
}

}  // namespace emplace::tf
