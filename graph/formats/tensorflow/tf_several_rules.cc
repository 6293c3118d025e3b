#include <tf_graphdef.pb.h>

#include "graph/formats/tensorflow/tf_shape_rules.h"

namespace emplace::tf {
namespace {

constexpr std::int64_t kMaxParts = 64;

/// Splits into equal parts along an axis.
std::optional<Inferred> split(const Op& op) {
  if (op.inputs.size() < 2 || !op.values[0] || op.values[0]->size() != 1) return std::nullopt;
  const std::int64_t parts = op.whole("num_split", 0);
  Shape part = op.inputs[1];
  const auto axis = axis_of(op.values[0]->front(), part.size());
  if (!axis || parts < 1 || parts > kMaxParts || part[*axis] % parts != 0) return std::nullopt;
  part[*axis] /= parts;
  return Inferred{std::vector<Shape>(static_cast<std::size_t>(parts), part)};
}

/// Splits into parts with the sizes in input 1; one of them may be -1, the remainder.
std::optional<Inferred> split_by_sizes(const Op& op) {
  if (op.inputs.size() < 3 || !op.values[1] || !op.values[2] || op.values[2]->size() != 1)
    return std::nullopt;
  const auto axis = axis_of(op.values[2]->front(), op.inputs[0].size());
  if (!axis || op.values[1]->size() > static_cast<std::size_t>(kMaxParts)) return std::nullopt;
  std::int64_t rest = op.inputs[0][*axis];
  for (const std::int64_t size : *op.values[1]) rest -= size < 0 ? 0 : size;
  Inferred out;
  for (const std::int64_t size : *op.values[1]) {
    out.shapes.push_back(op.inputs[0]);
    out.shapes.back()[*axis] = size < 0 ? rest : size;
  }
  return out;
}

std::optional<Inferred> unpack(const Op& op) {
  if (op.inputs.empty()) return std::nullopt;
  const auto axis = axis_of(op.whole("axis", 0), op.inputs[0].size());
  if (!axis || op.inputs[0][*axis] > kMaxParts) return std::nullopt;
  Shape part = op.inputs[0];
  part.erase(part.begin() + static_cast<std::ptrdiff_t>(*axis));
  return Inferred{std::vector<Shape>(static_cast<std::size_t>(op.inputs[0][*axis]), part)};
}

/// For two shapes, the axes over which each operand's gradient is summed: axes where its dimension is 1 and
/// the other's is not, and axes that it lacks.
std::optional<Inferred> broadcast_arguments(const Op& op) {
  if (op.inputs.size() < 2 || !op.values[0] || !op.values[1]) return std::nullopt;
  const auto axes = [](const std::vector<std::int64_t>& mine, const std::vector<std::int64_t>& other) {
    const std::size_t rank = std::max(mine.size(), other.size());
    std::int64_t count = 0;
    for (std::size_t k = 0; k < rank; ++k) {  // Iterate from the last dimension.
      const std::int64_t a = k < mine.size() ? mine[mine.size() - 1 - k] : 1;
      const std::int64_t b = k < other.size() ? other[other.size() - 1 - k] : 1;
      if ((a == 1 && b != 1) || k >= mine.size()) ++count;
    }
    return Shape{count};
  };
  return Inferred{{axes(*op.values[0], *op.values[1]), axes(*op.values[1], *op.values[0])}};
}

std::optional<Inferred> cell(const Op& op, std::size_t state, std::size_t outputs) {
  if (op.inputs.size() <= state) return std::nullopt;
  return Inferred{std::vector<Shape>(outputs, op.inputs[state])};
}

std::optional<Inferred> losses(const Op& op) {
  if (op.inputs.size() < 2 || op.inputs[0].size() != 2) return std::nullopt;
  return Inferred{{Shape{op.inputs[0][0]}, op.inputs[0]}};
}

}  // namespace

std::optional<Inferred> several_outputs(const Op& op) {
  const std::string_view type = op.node.op();
  const auto& in = op.inputs;
  const auto at_least = [&](std::size_t n) { return in.size() >= n; };
  if (type.starts_with("FusedBatchNormGrad") && at_least(3))
    return Inferred{{in[1], in[2], in[2], Shape{0}, Shape{0}}};
  if (type.starts_with("FusedBatchNorm") && at_least(2)) {
    Inferred out{{in[0], in[1], in[1], in[1], in[1]}};
    if (type == "FusedBatchNormV3")
      out.shapes.push_back(Shape{0});  // Workspace of cuDNN, of unspecified size.
    return out;
  }
  if ((type == "Switch" || type == "RefSwitch") && at_least(1)) return Inferred{{in[0], in[0]}};
  if (type == "_SwitchN" && at_least(1)) {
    const std::int64_t n = op.whole("num_outs", 0);
    if (n < 1 || n > kMaxParts) return std::nullopt;
    return Inferred{std::vector<Shape>(static_cast<std::size_t>(n), in[0])};
  }
  if ((type == "Merge" || type == "RefMerge") && at_least(1)) return Inferred{{in[0], Shape{}}};
  if (type == "IdentityN") return Inferred{{in.begin(), in.end()}};
  if (type == "Split") return split(op);
  if (type == "SplitV") return split_by_sizes(op);
  if (type == "Unpack") return unpack(op);
  if (type == "ShapeN") {
    Inferred out;
    for (const Shape& one : in) out.shapes.push_back({static_cast<std::int64_t>(one.size())});
    return out;
  }
  if (type == "ConcatOffset" && at_least(2)) return Inferred{{in.begin() + 1, in.end()}};
  if (type == "BroadcastGradientArgs") return broadcast_arguments(op);
  if (type == "SparseSoftmaxCrossEntropyWithLogits" || type == "SoftmaxCrossEntropyWithLogits")
    return losses(op);
  if ((type == "TopKV2" || type == "TopK") && at_least(1) && !in[0].empty()) {
    const Value k = type == "TopK" ? Value{{op.whole("k", 0)}} : at_least(2) ? op.values[1] : Value{};
    if (!k || k->size() != 1) return std::nullopt;
    Shape best = in[0];
    best.back() = k->front();
    return Inferred{{best, best}};
  }
  // Upper bound, all distinct: the actual number is known only at run time.
  if ((type == "Unique" || type == "UniqueV2") && at_least(1)) return Inferred{{in[0], in[0]}};
  if ((type == "UniqueWithCounts" || type == "UniqueWithCountsV2") && at_least(1))
    return Inferred{{in[0], in[0], in[0]}};
  if (type == "LSTMBlockCell") return cell(op, 1, 7);
  if (type == "GRUBlockCell") return cell(op, 1, 4);
  if ((type == "BlockLSTM" || type == "BlockLSTMV2") && at_least(3) && in[1].size() == 3 && in[2].size() == 2)
    return Inferred{std::vector<Shape>(7, Shape{in[1][0], in[1][1], in[2][1]})};
  if (type == "TensorListPopBack" && at_least(2)) {
    if (!in[0].empty()) return Inferred{{in[0], Shape(in[0].begin() + 1, in[0].end())}};
    if (op.values[1]) return Inferred{{Shape{}, *op.values[1]}};
    return std::nullopt;
  }
  if ((type == "TensorArrayGradV3" || type == "TensorArrayGradV2") && at_least(1))
    return Inferred{{in[0], Shape{}}};
  if (type == "TensorArrayV3" && at_least(1)) {
    const AttrValue* element = find(op.node, "element_shape");
    Shape whole{op.values[0] && op.values[0]->size() == 1 ? op.values[0]->front() : 1};
    if (element == nullptr || element->shape().unknown_rank()) return Inferred{{Shape{}, Shape{}}};
    for (const auto& dim : element->shape().dim()) {
      if (dim.size() < 0) return Inferred{{Shape{}, Shape{}}};
      whole.push_back(dim.size());
    }
    return Inferred{{whole, Shape{}}};
  }
  if (type == "StatelessRandomGetKeyCounter") return Inferred{{Shape{1}, Shape{2}}};
  return std::nullopt;
}

}  // namespace emplace::tf
