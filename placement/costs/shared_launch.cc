#include "placement/costs/shared_launch.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "graph/memory_plan.h"
#include "graph/training/micro_batch.h"

namespace emplace::kernel_shapes {
namespace {

// Limits of one foreach launch, by the number of lists that it reads and writes.
constexpr std::array<int, 5> kMostTensors{110, 64, 48, 36, 30};
constexpr int kMostChunks = 320;
constexpr std::int64_t kChunk = 65536;  ///< Elements.

/// Whether optimizers run the op on lists of tensors. Gradients of micro-batches are added one by one, as
/// each is made.
bool is_torch_update(const OpGraph& graph, OpId op, std::span<const OpRole> roles) {
  if (graph.phase(op) != Phase::kUpdate || graph.is_state(op) || graph.is_view(op)) return false;
  if (graph.name(op).find(kAccumulate) != std::string_view::npos) return false;
  const OpRole& role = roles[index(graph.type(op))];
  const std::string_view type = graph.type_name(op);
  return role.vocabulary == Vocabulary::kAten && role.kind != nullptr && !role.product &&
         graph.type_class(op) == OpClass::kElementwise && graph.num_outputs(op) == 1 &&
         (type.starts_with("aten::") || type.starts_with("prims::")) &&
         type.find("foreach") == std::string_view::npos;
}

std::int64_t elements_of(const OpGraph& graph, TensorId tensor) {
  return graph.bytes(tensor) / element_bytes(graph.dtype(tensor));
}

std::int64_t chunks_of(const OpGraph& graph, TensorId tensor) {
  return std::max<std::int64_t>(1, (elements_of(graph, tensor) + kChunk - 1) / kChunk);
}

/// Ops of one list, and how many tensors each of them reads and writes.
struct UpdateList {
  std::vector<OpId> ops;
  std::size_t depth = 1;
};

/// Lists of an op in place: tensors as large as the result; a result of its own if it reads but one.
std::size_t depth_of(const OpGraph& graph, OpId op) {
  std::size_t depth = 0;
  for (const TensorId input : graph.inputs(op))
    if (elements_of(graph, input) == elements_of(graph, graph.first_output(op))) ++depth;
  return std::clamp<std::size_t>(depth, 1, kMostTensors.size());
}

/// Launches for tensors with these numbers of chunks: one ends when its tensors or its chunks are full,
/// within a tensor too.
int count_launches(std::span<const std::int64_t> chunks_of_tensors, int most) {
  int launches = 0, tensors = 0, chunks = 0;
  for (std::int64_t left : chunks_of_tensors) {
    ++tensors;
    while (left > 0) {
      const std::int64_t put = std::min<std::int64_t>(left, kMostChunks - chunks);
      left -= put, chunks += static_cast<int>(put);
      if (chunks < kMostChunks && (left > 0 || tensors < most)) continue;
      ++launches, chunks = 0, tensors = left > 0 ? 1 : 0;
    }
  }
  return chunks > 0 ? launches + 1 : launches;
}

/// Splits the launches of one list. An op's part is that of the limit that it fills more of.
void share_list(const OpGraph& graph, const UpdateList& list, std::span<double> shares) {
  const int most = kMostTensors[list.depth - 1];
  std::vector<std::int64_t> chunks;
  double all = 0;
  const auto part = [&](std::int64_t own) {
    return std::max(1.0 / most, static_cast<double>(own) / kMostChunks);
  };
  for (const OpId op : list.ops) {
    chunks.push_back(chunks_of(graph, graph.first_output(op)));
    all += part(chunks.back());
  }
  const int launches = count_launches(chunks, most);
  for (std::size_t k = 0; k < chunks.size(); ++k)
    shares[index(list.ops[k])] = launches * part(chunks[k]) / all;
}

/// Launches of an op on lists of tensors, one of which it makes.
double launches_of_lists(const OpGraph& graph, OpId op) {
  std::vector<std::int64_t> chunks;
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
    chunks.push_back(chunks_of(graph, graph.output(op, k)));
  const std::size_t lists = graph.inputs(op).size() / std::max<std::size_t>(1, chunks.size());
  const std::size_t depth = std::clamp<std::size_t>(lists, 1, kMostTensors.size());
  return std::max(1, count_launches(chunks, kMostTensors[depth - 1]));
}

// --- epilogues ---

/// What already runs in the kernel of an op: later stages may follow.
enum class Stage : std::uint8_t { kNone, kProduct, kBias, kResidual, kActive };

struct Epilogue {
  Stage stage = Stage::kNone;
  bool convolution = false;
  bool spatial = false;  ///< Whether a convolution of TensorFlow has a kernel of more than one pixel.
};

/// Whether any framework has epilogues for the product.
bool has_epilogue(const OpRole& role) {
  switch (role.product ? role.kind->work.formula : Formula::kUnknown) {
    case Formula::kMatrixProduct:
    case Formula::kMatrixProductPlus:
    case Formula::kBatchProduct:
    case Formula::kContraction:
    case Formula::kContractionInConfig:
    case Formula::kTransposableContraction:
    case Formula::kConvolution:
    case Formula::kBareConvolution:
      return true;
    default:
      return false;
  }
}

class Epilogues {
 public:
  Epilogues(const OpGraph& graph, std::span<const OpRole> roles, Framework framework)
      : graph_{graph}, roles_{roles}, framework_{framework}, of_(graph.num_ops()), inside_(graph.num_ops()) {
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
      if (graph.phase(OpId{i}) == Phase::kBackward && graph.name(OpId{i}).ends_with(kAgain))
        again_.emplace(graph.colocated_with(OpId{i}), OpId{i});
  }

  std::vector<std::uint8_t> find() && {
    for (const OpId op : graph_.topological_order()) {
      if (graph_.is_state(op) || graph_.is_view(op) || graph_.num_outputs(op) == 0) continue;
      const OpRole& role = roles_[index(graph_.type(op))];
      if (has_epilogue(role)) {
        const auto inputs = graph_.inputs(op);
        const auto filter = inputs.size() > 1 ? graph_.shape(inputs[1]) : std::span<const std::int64_t>{};
        of_[index(op)] = {Stage::kProduct, role.kind->op_class == OpClass::kConv,
                          filter.size() == 4 && filter[0] > 1 && filter[1] > 1};
      } else if (graph_.phase(op) == Phase::kForward) {
        follow(op);
      }
    }
    return std::move(inside_);
  }

 private:
  /// Puts the op into the epilogue of one of its inputs' makers if it may be there.
  void follow(OpId op) {
    const auto inputs = graph_.inputs(op);
    for (std::size_t k = 0; k < std::min<std::size_t>(2, inputs.size()); ++k) {
      const OpId maker = graph_.producer(inputs[k]);
      const Epilogue before = of_[index(maker)];
      if (before.stage == Stage::kNone || before.stage == Stage::kActive) continue;
      if (!is_only_reader(op, inputs[k]) || inputs[k] != graph_.first_output(maker)) continue;
      if (size(graph_.first_output(op)) != size(inputs[k])) continue;
      const Stage stage = stage_of(op, k, before);
      if (stage <= before.stage) continue;
      of_[index(op)] = {stage, before.convolution, before.spatial};
      inside_[index(op)] = static_cast<std::uint8_t>(k + 1);
      return;
    }
  }

  /// The stage that the op is, whose input `k` is the product's; kNone if the framework does not fuse it.
  Stage stage_of(OpId op, std::size_t k, const Epilogue& before) const {
    switch (framework_) {
      case Framework::kOnnxRuntime:
        return stage_in_onnx(op, k, before);
      case Framework::kTensorFlow:
        return stage_in_tensorflow(op, k, before);
      case Framework::kXla:
        return stage_in_xla(op, k);
      default:
        return Stage::kNone;
    }
  }
  Stage stage_in_onnx(OpId op, std::size_t k, const Epilogue& before) const {
    const std::string_view type = graph_.type_name(op);
    if (before.convolution && type == "BatchNormalization" && k == 0) return Stage::kBias;
    if (before.convolution && type == "Relu") return Stage::kActive;
    if (type != "Add" || graph_.inputs(op).size() != 2) return Stage::kNone;
    const std::int64_t other = size(graph_.inputs(op)[1 - k]);
    const auto shape = graph_.shape(graph_.first_output(op));
    const bool bias = std::find(shape.begin(), shape.end(), other) != shape.end();
    if (bias && before.stage == Stage::kProduct) return Stage::kBias;
    const bool residual = before.convolution && other == size(graph_.first_output(op));
    return residual && only_relu_reads(op) ? Stage::kResidual : Stage::kNone;
  }
  Stage stage_in_tensorflow(OpId op, std::size_t k, const Epilogue& before) const {
    const std::string_view type = graph_.type_name(op);
    if (type == "BiasAdd" && k == 0 && (!before.convolution || (before.spatial && only_relu_reads(op))))
      return Stage::kBias;
    return type == "Relu" && before.stage == Stage::kBias ? Stage::kActive : Stage::kNone;
  }
  Stage stage_in_xla(OpId op, std::size_t k) const {
    const auto inputs = graph_.inputs(op);
    if (inputs.size() != 2 || graph_.type_name(graph_.producer(inputs[1 - k])) != "hlo::broadcast")
      return Stage::kNone;
    const std::string_view type = graph_.type_name(op);
    return type == "hlo::add" ? Stage::kBias : type == "hlo::maximum" ? Stage::kActive : Stage::kNone;
  }

  bool only_relu_reads(OpId op) const {
    const auto readers = graph_.consumers(graph_.first_output(op));
    return !readers.empty() && graph_.type_name(readers[0]) == "Relu" &&
           is_only_reader(readers[0], graph_.first_output(op));
  }
  /// Whether only one op of the graph without a memory plan reads a tensor: times must not depend on the
  /// plan. What reads the tensor that is made again counts, too; the copy of an op counts as the op.
  bool is_only_reader(OpId op, TensorId tensor) const {
    const auto reads_for_op = [&](OpId reader) {
      const bool copies = graph_.type_name(reader) == kWaitType || graph_.name(reader).ends_with(kAgain);
      return (copies ? graph_.colocated_with(reader) : reader) == op ||
             graph_.type_name(reader) == kEndedType;
    };
    if (!std::ranges::all_of(graph_.consumers(tensor), reads_for_op)) return false;
    const OpId maker = graph_.producer(tensor);
    const auto again = again_.find(maker);
    if (again == again_.end()) return true;
    const std::size_t output = index(tensor) - index(graph_.first_output(maker));
    return std::ranges::all_of(graph_.consumers(graph_.output(again->second, output)), reads_for_op);
  }
  std::int64_t size(TensorId tensor) const { return elements_of(graph_, tensor); }

  const OpGraph& graph_;
  const std::span<const OpRole> roles_;
  const Framework framework_;
  std::unordered_map<OpId, OpId> again_;  // An op, and its copy that runs again.
  std::vector<Epilogue> of_;              // [ops]
  std::vector<std::uint8_t> inside_;      // [ops]
};

}  // namespace

std::vector<double> foreach_shares(const OpGraph& graph, std::span<const OpRole> roles) {
  std::unordered_map<std::uint64_t, std::uint32_t> place;  // Ops so far of each parameter's update.
  std::map<std::tuple<std::uint32_t, std::size_t, DType>, UpdateList>
      lists;  // Lists by place, type and dtype.
  std::vector<OpId> on_lists;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (graph.type_name(op).find("::_foreach_") != std::string_view::npos) on_lists.push_back(op);
    if (!is_torch_update(graph, op, roles)) continue;
    const OpId with = graph.colocated_with(op);
    const std::uint64_t parameter =
        with == kNoOp ? (std::uint64_t{1} << 32) + graph.group(op) : static_cast<std::uint64_t>(index(with));
    UpdateList& list =
        lists[{place[parameter]++, index(graph.type(op)), graph.dtype(graph.first_output(op))}];
    list.ops.push_back(op);
    list.depth = std::max(list.depth, depth_of(graph, op));
  }
  std::vector<double> shares(lists.empty() && on_lists.empty() ? 0 : graph.num_ops(), 1);
  for (const auto& [key, list] : lists) share_list(graph, list, shares);
  for (const OpId op : on_lists) shares[index(op)] = launches_of_lists(graph, op);
  return shares;
}

std::vector<std::uint8_t> epilogue_of(const OpGraph& graph, std::span<const OpRole> roles,
                                      Framework framework) {
  if (framework == Framework::kPyTorch) return {};
  return Epilogues{graph, roles, framework}.find();
}

}  // namespace emplace::kernel_shapes
