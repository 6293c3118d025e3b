#include "graph/formats/tensorflow/tf_outputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/formats/tensorflow/tf_shapes.h"
#include "graph/formats/tensorflow/tf_variables.h"

namespace emplace::tf {
namespace {

/// The known facts about the inputs of a node.
struct Known {
  std::vector<Shape> shapes;
  std::vector<Value> values;
};

/// Whether the op gives one text or flag for whatever it reads.
bool gives_report(std::string_view type) {
  return type.ends_with("Summary") || type.ends_with("SummaryV2") || type == "IsVariableInitialized" ||
         type == "VarIsInitializedOp" || type == "QueueSizeV2";
}

class OutputsReader {
 public:
  OutputsReader(const GraphDef& graph, const Step& step, const Inlined& inlined, DimUsage& dims)
      : graph_{graph},
        step_{step},
        inlined_{inlined},
        dims_{dims},
        sizes_{variable_sizes(graph, step, inlined)},
        n_{step.inputs.size()},
        left_{16 * n_ + 1'000} {}

  Outputs read() {
    // Gradients of a loop read from stacks that the loop pushes to, which may come later in the order; so
    // repeat.
    std::size_t missing = pass();
    while (missing > 0 && !elements_.empty()) {
      const std::size_t before = std::exchange(missing, pass());
      if (missing >= before) break;
    }
    return std::move(out_);
  }

 private:
  const NodeDef& node(std::uint32_t i) const { return graph_.node(static_cast<int>(i)); }

  /// Visits every node once. Returns the number of reads of nodes without known outputs.
  std::size_t pass() {
    out_ = {};
    out_.of.resize(n_);
    values_.assign(n_, {});
    stacked_.assign(n_, {});
    origin_.assign(n_, kNoNode);
    unsized_.assign(n_, false);
    read_.assign(n_, false);
    worked_with_.assign(n_, false);
    for (std::size_t i = 0; i < n_; ++i)
      for (const Edge& edge : step_.inputs[i]) {
        if (edge.control) continue;
        read_[edge.node] = true;
        if (step_.role[i] == Role::kWork && !step_.one_off[i]) worked_with_[edge.node] = true;
      }
    std::vector<bool> done(n_, false);
    for (const std::uint32_t i : step_.order) visit(i), done[i] = true;
    for (std::uint32_t i = 0; i < n_; ++i)
      if (!done[i] && !step_.one_off[i])
        out_.of[i] = listed_only(i);  // The node is in a cycle, which is rejected later.
    std::size_t missing = 0;
    for (std::uint32_t i = 0; i < n_; ++i)
      for (const Edge& edge : step_.inputs[i])
        if (carries_data(edge) && !step_.one_off[i] && out_.of[edge.node].empty()) ++missing;
    return missing;
  }

  void visit(std::uint32_t i) {
    if (step_.one_off[i]) return;
    switch (step_.role[i]) {
      case Role::kConstant:
        values_[i] = {constant_value(node(i))};
        if (const AttrValue* value = find(node(i), "value")) {
          out_.of[i] = {spec(value->tensor().tensor_shape(), type_of(i))};
        } else {
          out_.of[i] = listed_only(i);
        }
        break;
      case Role::kVariable:
        variable(i);
        break;
      case Role::kPlaceholder:
        placeholder(i);
        break;
      case Role::kWork:
        work(i);
        break;
    }
  }

  DType type_of(std::uint32_t i) const { return output_dtype(node(i), 0).value_or(DType::kU8); }

  /// Converts a shape; a dimension without a size counts as 1.
  TensorSpec spec(const TensorShapeProto& shape, DType dtype, bool counted = true) {
    TensorSpec tensor{dtype, {}};
    if (shape.unknown_rank() && counted) ++out_.unknown_shapes;
    for (const auto& dim : shape.dim()) {
      if (dim.size() == -1) ++out_.unknown_dims;
      tensor.shape.push_back(dim.size() == -1 ? 1 : dim.size());
    }
    return tensor;
  }

  /// Converts the shape of a fed tensor, whose dimensions may have sizes by name.
  TensorSpec fed(std::uint32_t i, std::size_t output, const TensorShapeProto& shape, DType dtype) {
    TensorShapeProto filled = shape;
    for (int axis = 0; axis < filled.dim_size(); ++axis) {
      if (filled.dim(axis).size() != -1) continue;
      const std::string name =
          fmt::format("{}{}.{}", node(i).name(), output == 0 ? "" : fmt::format(":{}", output), axis);
      const auto size = dims_.size_of(name, static_cast<std::size_t>(axis));
      if (!size) ++out_.open_dims;
      filled.mutable_dim(axis)->set_size(size.value_or(1));
    }
    return spec(filled, dtype, read_[i]);
  }

  void variable(std::uint32_t i) {
    const AttrValue* own = node(i).op() == "Placeholder" ? nullptr : find(node(i), "shape");
    const auto known = sizes_.find(i);
    const OpDef::DtypeAndShape* size = known == sizes_.end() ? nullptr : &known->second;
    if (own != nullptr && (is_complete(own->shape()) || (size == nullptr && !own->shape().unknown_rank()))) {
      out_.of[i] = {spec(own->shape(), type_of(i))};
    } else if (size != nullptr) {
      out_.of[i] = {spec(size->shape(), dtype_of(size->dtype()).value_or(DType::kF32))};
    } else if (node(i).op() != "Placeholder" && node(i).op() != "VarHandleOp" && listed(i) != nullptr) {
      out_.of[i] = listed_only(i);
    } else {
      out_.unsized.push_back(node(i).name());
      unsized_[i] = true;
      out_.of[i] = {{DType::kU8, {0}}};
    }
  }

  void placeholder(std::uint32_t i) {
    if (!output_dtype(node(i), 0)) {
      out_.of[i] = {{DType::kU8, {0}}};  // The output is a handle.
      return;
    }
    const AttrValue* own = find(node(i), "shape");
    const AttrValue* list = listed(i);
    const bool has_shape = own != nullptr && !own->shape().unknown_rank();
    if (!has_shape &&
        (list == nullptr || list->list().shape_size() == 0 || list->list().shape(0).unknown_rank()))
      if (auto shape = dims_.shape_of(node(i).name())) {
        out_.of[i] = {{type_of(i), *std::move(shape)}};
        return;
      }
    if (has_shape || (own != nullptr && list == nullptr)) {
      out_.of[i] = {fed(i, 0, own->shape(), type_of(i))};
    } else if (list != nullptr && list->list().shape_size() > 0) {
      out_.of[i] = {fed(i, 0, list->list().shape(0), type_of(i))};
    }
  }

  const AttrValue* listed(std::uint32_t i) const { return find(node(i), "_output_shapes"); }

  std::vector<TensorSpec> listed_only(std::uint32_t i) {
    std::vector<TensorSpec> outputs;
    if (listed(i) == nullptr) return outputs;
    for (const TensorShapeProto& shape : listed(i)->list().shape()) {
      const auto dtype = output_dtype(node(i), outputs.size());
      outputs.push_back(dtype ? spec(shape, *dtype) : TensorSpec{DType::kU8, {0}});
    }
    return outputs;
  }

  // ---- inference -----------------------------------------------------------------------------------------

  bool carries_data(const Edge& edge) const { return !edge.control && !step_.one_off[edge.node]; }

  /// Returns nothing if any input is unknown.
  std::optional<Known> inputs_of(std::uint32_t i) const {
    Known known;
    for (const Edge& edge : step_.inputs[i]) {
      if (!carries_data(edge)) continue;
      const std::uint32_t variable = step_.variable[edge.node];
      const bool handle =
          variable != kNoNode && (variable == edge.node || !output_dtype(node(edge.node), edge.output));
      if (handle) {
        const bool sized = !out_.of[variable].empty() && !unsized_[variable];
        if (!sized && uses_variable(node(i).op())) return std::nullopt;
        known.shapes.push_back(sized ? out_.of[variable][0].shape : Shape{});
        known.values.emplace_back();
        continue;
      }
      if (edge.output >= out_.of[edge.node].size()) return std::nullopt;
      const bool list = step_.role[edge.node] == Role::kWork && !output_dtype(node(edge.node), edge.output);
      known.shapes.push_back(list ? stacked(edge) : out_.of[edge.node][edge.output].shape);
      const auto& values = values_[edge.node];
      known.values.push_back(edge.output < values.size() ? values[edge.output] : Value{});
    }
    return known;
  }

  /// The concatenated tensors of a list; for an array or a stack the tensors written to it.
  Shape stacked(const Edge& edge) const {
    const auto& shapes = stacked_[edge.node];
    if (edge.output < shapes.size() && !shapes[edge.output].empty()) return shapes[edge.output];
    const auto it = elements_.find(origin_[edge.node]);
    if (it == elements_.end()) return {};
    Shape shape{1};
    shape.insert(shape.end(), it->second.begin(), it->second.end());
    return shape;
  }

  /// Tracks which tensor array or stack a handle refers to, and what is written to it.
  void follow_handles(std::uint32_t i, const std::optional<Known>& known) {
    const std::string& type = node(i).op();
    if (type == "TensorArrayV3" || type == "StackV2") origin_[i] = i;
    if (step_.inputs[i].empty() || step_.inputs[i][0].control) return;
    const std::uint32_t from = origin_[step_.inputs[i][0].node];
    if (from == kNoNode) return;
    if (!output_dtype(node(i), 0)) origin_[i] = from;
    if (!known) return;
    const auto& shapes = known->shapes;
    if (type == "TensorArrayWriteV3" && shapes.size() > 2) elements_.emplace(from, shapes[2]);
    if (type == "StackPushV2" && shapes.size() > 1) elements_.emplace(from, shapes[1]);
    if (type == "TensorArrayScatterV3" && shapes.size() > 2 && !shapes[2].empty())
      elements_.emplace(from, Shape{shapes[2].begin() + 1, shapes[2].end()});
  }

  static bool agrees(const TensorShapeProto& listed, const Shape& shape) {
    if (listed.unknown_rank()) return true;
    if (listed.dim_size() != static_cast<int>(shape.size())) return false;
    for (int k = 0; k < listed.dim_size(); ++k)
      if (listed.dim(k).size() >= 0 && listed.dim(k).size() != shape[static_cast<std::size_t>(k)])
        return false;
    return true;
  }

  /// Returns whether the node reads only handles, so that its output is fed from outside.
  bool is_source(std::uint32_t i) const {
    const auto& inputs = step_.inputs[i];
    return std::all_of(inputs.begin(), inputs.end(), [&](const Edge& edge) {
      return !carries_data(edge) ||
             (step_.variable[edge.node] == kNoNode && !output_dtype(node(edge.node), edge.output));
    });
  }

  void work(std::uint32_t i) {
    const auto known = inputs_of(i);
    follow_handles(i, known);
    std::optional<Inferred> inferred;
    if (known) inferred = infer_shapes(node(i), known->shapes, known->values);
    if (!inferred && worked_with_[i] && gives_report(node(i).op())) inferred = Inferred{{Shape{}}, {}};
    // Bounds the total size of inferred shapes, so that a file cannot inflate itself.
    if (inferred && inferred->shapes.size() > left_) inferred.reset();
    if (inferred) left_ -= inferred->shapes.size();
    const AttrValue* list = listed(i);
    if (list == nullptr && !inferred) list = find(node(i), "output_shapes");
    if (list == nullptr && !inferred) list = of_queue(i);
    const std::size_t given = list == nullptr ? 0 : static_cast<std::size_t>(list->list().shape_size());
    const std::size_t count = list != nullptr ? given : inferred ? inferred->shapes.size() : declared(i);
    const bool source = is_source(i);
    bool used = false;
    values_[i].resize(inferred ? count : 0);
    stacked_[i].resize(inferred ? count : 0);
    for (std::size_t k = 0; k < count; ++k) {
      const auto dtype = output_dtype(node(i), k);
      const Shape* shape = inferred && k < inferred->shapes.size() ? &inferred->shapes[k] : nullptr;
      const TensorShapeProto* stated = k < given ? &list->list().shape(static_cast<int>(k)) : nullptr;
      if (!dtype) {
        if (shape != nullptr) stacked_[i][k] = *shape;
        out_.of[i].push_back({DType::kU8, {0}});
        used = used || stated == nullptr;
        continue;
      }
      const bool follows = shape != nullptr && (stated == nullptr || agrees(*stated, *shape));
      if (follows && k < inferred->values.size()) values_[i][k] = std::move(inferred->values[k]);
      if (stated != nullptr && is_complete(*stated)) {
        out_.of[i].push_back(spec(*stated, *dtype));
      } else if (follows) {
        out_.of[i].push_back({*dtype, *shape});
        used = true;
      } else if (const TensorShapeProto* result = declared(i, k); result != nullptr && is_complete(*result)) {
        out_.of[i].push_back(spec(*result, *dtype));
      } else if (stated == nullptr) {
        break;
      } else {
        out_.of[i].push_back(source ? fed(i, k, *stated, *dtype) : spec(*stated, *dtype));
      }
    }
    if (const auto dtype = output_dtype(node(i), 0); out_.of[i].empty() && dtype) {
      if (auto shape = dims_.shape_of(node(i).name())) out_.of[i] = {{*dtype, *std::move(shape)}};
    } else if (out_.of[i].empty() && worked_with_[i]) {
      out_.of[i] = {{DType::kU8, {0}}};
    }
    if (used) ++out_.inferred;
  }

  /// The shapes of what a node takes from a queue, one element at a time.
  const AttrValue* of_queue(std::uint32_t i) const {
    const std::string& type = node(i).op();
    if ((type != "QueueDequeue" && type != "QueueDequeueV2") || step_.inputs[i].empty()) return nullptr;
    return find(node(step_.inputs[i][0].node), "shapes");
  }

  /// The shape that a call declares for this result.
  const TensorShapeProto* declared(std::uint32_t i, std::size_t output) const {
    const auto it =
        inlined_.results.find(output == 0 ? node(i).name() : fmt::format("{}:{}", node(i).name(), output));
    return it == inlined_.results.end() ? nullptr : &it->second;
  }
  std::size_t declared(std::uint32_t i) const {
    std::size_t count = 0;
    while (!inlined_.results.empty() && declared(i, count) != nullptr) ++count;
    return count;
  }

  const GraphDef& graph_;
  const Step& step_;
  const Inlined& inlined_;
  DimUsage& dims_;
  const std::unordered_map<std::uint32_t, OpDef::DtypeAndShape> sizes_;
  const std::size_t n_;
  std::size_t left_;  // Number of shapes that may still be inferred.
  Outputs out_;
  std::vector<std::vector<Value>> values_;   // [nodes, outputs]
  std::vector<std::vector<Shape>> stacked_;  // [nodes] Shapes of list elements.
  std::vector<bool> read_;                   // [nodes] Whether some node reads an output.
  std::vector<bool> worked_with_;            // [nodes] Whether an op of the step reads an output.
  std::vector<bool> unsized_;                // [nodes] Variables without a size.
  std::vector<std::uint32_t> origin_;        // [nodes] Array or stack that a handle refers to.
  std::unordered_map<std::uint32_t, Shape> elements_;
};

}  // namespace

Outputs outputs_of(const GraphDef& graph, const Step& step, const Inlined& inlined, DimUsage& dims) {
  return OutputsReader{graph, step, inlined, dims}.read();
}

}  // namespace emplace::tf
