#include "placement/costs/memory_shape.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "base/text/word_list.h"

namespace emplace::kernel_shapes {
namespace {

/// The words of a list, which spaces separate.
std::unordered_set<std::string_view> set_of(std::string_view list) {
  const std::vector<std::string_view> words = words_in(list);
  return {words.begin(), words.end()};
}

/// Ops that only move their first input's data.
bool is_copy(std::string_view name) {
  static const auto kCopies = set_of(
      "clone copy copy_ _to_copy to type_as contiguous cat concat stack hstack vstack dstack column_stack "
      "flip "
      "roll repeat repeat_interleave tile constant_pad_nd pad reflection_pad1d reflection_pad2d "
      "replication_pad2d slice_scatter select_scatter as_strided_scatter diagonal_scatter expand_copy "
      "permute_copy transpose_copy view_copy slice_copy select_copy lift_fresh_copy alias_copy unsafe_split "
      "unsafe_chunk pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle slice_backward "
      "select_backward constant_pad_nd_backward unfold_backward im2col rot90 fliplr flipud "
      "convert_element_type "
      "Concat Transpose Pad Tile DepthToSpace SpaceToDepth Expand Cast Split "
      "Pack Unpack ConcatV2 SplitV PadV2 MirrorPad MirrorPadGrad Reverse ReverseV2 ReverseSequence Roll "
      "StridedSliceGrad SpaceToBatchND BatchToSpaceND BroadcastTo Snapshot DeepCopy "
      "transpose concatenate reverse slice dynamic-slice dynamic-update-slice broadcast convert copy-start");
  return kCopies.contains(name);
}

/// Ops whose time is neither that of their traffic nor of their work: sorts, loops, factorisations.
bool is_other(std::string_view name, const OpRole& role) {
  static const auto kSorts = set_of(
      "sort argsort msort topk kthvalue median mode unique_consecutive _unique2 nonzero argwhere "
      "searchsorted "
      "histc bincount TopK Unique NonZero NonMaxSuppression TopKV2 UniqueV2 UniqueWithCounts "
      "NonMaxSuppressionV3 while conditional call while_dot conditional_dot call_dot while_convolution "
      "conditional_convolution call_convolution fusion_convolution custom-call:TopK custom-call:__gpu$TopK "
      "custom-call:__cub$DeviceRadixSort");
  if (role.kind == nullptr || kSorts.contains(name)) return true;
  switch (role.kind->work.formula) {
    case Formula::kFactorisation:
    case Formula::kTriangularSolve:
    case Formula::kFourier:
    case Formula::kBodyPerTrip:
      return true;
    case Formula::kBody:
      return role.kind->op_class != OpClass::kElementwise;
    default:
      return role.product;
  }
}

/// Updates of a table in place, by rows.
bool is_row_update(std::string_view name) {
  return name.starts_with("Scatter") || name.starts_with("ResourceScatter") ||
         name.starts_with("SparseApply") || name.starts_with("ResourceSparseApply");
}

bool is_gather(std::string_view name, const OpRole& role) {
  static const auto kGathers = set_of(
      "embedding_dense_backward index_put _index_put_impl _unsafe_index_put _unsafe_index scatter "
      "scatter_add "
      "scatter_reduce index_add index_copy index_fill take take_along_dim masked_scatter masked_select "
      "scatter "
      "ResourceGatherNd ResourceScatterAdd TensorScatterUpdate");
  return role.kind->op_class == OpClass::kGather || kGathers.contains(name);
}

/// An input of which a kernel reads the shape alone, or an element of each row; -1 if it reads all of them.
std::int8_t unread_input(std::string_view name) {
  static const auto kOfShape = set_of(
      "zeros_like ones_like full_like empty_like rand_like randn_like randint_like new_zeros new_ones "
      "new_full "
      "new_empty nll_loss_forward nll_loss2d_forward nll_loss ZerosLike OnesLike Shape Size ShapeN Rank "
      "ConstantOfShape EyeLike RandomNormalLike RandomUniformLike");
  if (kOfShape.contains(name)) return 0;
  return name == "nll_loss_backward" || name == "nll_loss2d_backward" ? 1 : -1;
}

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

bool is_norm(std::string_view name) {
  for (const std::string_view part :
       {"batch_norm", "layer_norm", "group_norm", "rms_norm", "instance_norm", "native_norm",
        "LayerNormalization", "BatchNorm", "RMSNormalization", "GroupNorm", "InstanceNormalization",
        "SimplifiedLayerNorm", "custom-call:__cudnn$norm", "layernorm"})
    if (has(name, part)) return true;
  return false;
}

KernelShape kernel_of(KernelKind kind, double bytes, const OpSizes& op) {
  KernelShape kernel{.kind = kind};
  kernel.at[0] = std::max(1.0, bytes);
  kernel.flops = static_cast<double>(op.flops());
  kernel.bytes = bytes;
  return kernel;
}

/// Rows of a norm or softmax, and their width.
void set_rows(KernelShape& kernel, double elements, double rows) {
  rows = std::clamp(rows, 1.0, std::max(1.0, elements));
  kernel.at = {rows, std::max(1.0, elements / rows), 1};
}

/// The largest of the inputs and the first output: the data that a norm or softmax normalises.
double data_of(const OpSizes& op) {
  std::int64_t most = op.made();
  for (std::size_t k = 0; k < std::min<std::size_t>(2, op.num_inputs()); ++k)
    most = std::max(most, op.elements(k));
  return static_cast<double>(most);
}

void add_softmax(const OpSizes& op, const MemoryType& type, Kernels& kernels) {
  const auto shape = op.made() >= op.elements(0) ? op.made_shape() : op.shape(0);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const bool torch = op.role().vocabulary == Vocabulary::kAten;
  std::int64_t axis = op.attribute(torch ? "dim" : "axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) axis = rank - 1;
  const double width = rank == 0 ? 1 : static_cast<double>(shape[static_cast<std::size_t>(axis)]);
  KernelShape kernel = kernel_of(KernelKind::kSoftmax, op.traffic(), op);
  const double elements = data_of(op);
  set_rows(kernel, elements, elements / std::max(1.0, width));
  kernel.launches = type.launches;
  kernels.add(kernel);
}

/// Norms of rows, and of channels. Statistics are outputs of torch's forward ops and inputs of its backward
/// ops: as many as there are rows. Of other ops, the weights are as wide as a row.
///   torch backward: gradient, data, …; of layers and groups the mean is input 2
void add_norm(const OpSizes& op, const MemoryType& type, Kernels& kernels) {
  const bool torch = op.role().vocabulary == Vocabulary::kAten;
  const double elements = data_of(op);
  if (elements < 1) return add_other(op, kernels);
  const std::int64_t statistics = torch && !type.backward ? op.made(1) : 0;
  if (type.channels) {
    // Statistics that exist make it element-wise: one pass over the data.
    const bool stored = type.inference || (torch && !type.backward && statistics == 0);
    const double data = op.bytes_read(type.backward ? 1 : 0) + (type.backward ? op.bytes_read(0) : 0);
    KernelShape kernel = kernel_of(stored ? KernelKind::kElementwise : KernelKind::kReduce,
                                   op.traffic() + (stored ? 0 : data), op);
    kernel.launches = type.launches;
    return kernels.add(kernel);
  }
  KernelShape kernel = kernel_of(KernelKind::kNorm, op.traffic(), op);
  double rows = static_cast<double>(statistics);
  if (torch && type.backward && op.num_inputs() > 2) rows = static_cast<double>(op.elements(2));
  if (rows < 1 || rows > elements / 2) {
    const std::int64_t wide = torch ? op.last(0) : std::max(op.last(0), op.elements(1) > 1 ? op.last(1) : 1);
    rows = elements / static_cast<double>(std::max<std::int64_t>(1, wide));
    if (type.planes) rows = static_cast<double>(op.dim(0, 0) * op.attribute("num_groups", op.dim(0, 1)));
  }
  set_rows(kernel, elements, rows);
  kernel.launches = type.launches;
  kernels.add(kernel);
}

/// Rows that are read and written, and their numbers; of a table that is made, all of it.
double gather_bytes(const OpSizes& op, const MemoryType& type) {
  double bytes = 0;
  if (type.writes_rows) {
    // Rows are read, changed and written; what is as large as the table is the table.
    for (std::size_t k = 0; k < op.num_inputs(); ++k)
      if (op.elements(k) < op.made()) bytes += 3 * op.bytes_read(k);
    return bytes;
  }
  if (type.backward) return op.traffic() + op.bytes_read(0);  // Rows are added to a table of zeros.
  for (std::size_t k = 1; k < op.num_inputs(); ++k) bytes += op.bytes_read(k);
  return 2 * op.bytes_made() + bytes;
}

}  // namespace

MemoryType memory_type(std::string_view type, const OpRole& role) {
  const std::size_t colon = type.rfind("::");
  const std::string_view name = colon == std::string_view::npos ? type : type.substr(colon + 2);
  MemoryType result;
  if (is_other(name, role)) {
    result.kind = KernelKind::kOther;
    return result;
  }
  result.unread = unread_input(name);
  result.backward = has(name, "backward") || has(name, "Grad");
  result.may_reduce =
      role.kind->work.formula == Formula::kEachInput || role.kind->work.formula == Formula::kTerms;
  if (has(name, "oftmax")) {
    result.kind = KernelKind::kSoftmax;
  } else if (is_norm(name)) {
    result.kind = KernelKind::kNorm;
    result.channels = has(name, "batch_norm") || has(name, "BatchNorm");
    result.planes = has(name, "roup") || has(name, "nstance");
    result.inference = role.vocabulary == Vocabulary::kOnnx;
    // PyTorch has a kernel for the gradient of the data and one for those of the weights.
    if (result.backward && !result.channels) result.launches = 2;
  } else if (is_copy(name)) {
    result.kind = KernelKind::kCopy;
    if (type == "hlo::broadcast") result.launches = 0;  // It is part of the kernels that read it.
    if (name == "slice_backward" || name == "select_backward") result.launches = 2;  // Zeros, then a copy.
  } else if (is_gather(name, role)) {
    result.kind = KernelKind::kGather;
    result.writes_rows = is_row_update(name);
    result.backward = name == "embedding_dense_backward" || name == "UnsortedSegmentSum";
    if (result.backward || has(name, "index_put") || name.starts_with("scatter")) result.launches = 2;
  } else if (role.kind->op_class == OpClass::kReduce) {
    result.kind = KernelKind::kReduce;
  }
  return result;
}

void add_other(const OpSizes& op, Kernels& kernels) {
  kernels.add(kernel_of(KernelKind::kOther, op.traffic(), op));
}

void add_memory_kernel(const OpSizes& op, const MemoryType& type, Kernels& kernels) {
  switch (type.kind) {
    case KernelKind::kSoftmax:
      return add_softmax(op, type, kernels);
    case KernelKind::kNorm:
      return add_norm(op, type, kernels);
    case KernelKind::kGather: {
      KernelShape kernel = kernel_of(KernelKind::kGather, gather_bytes(op, type), op);
      kernel.launches = type.launches;
      return kernels.add(kernel);
    }
    case KernelKind::kCopy: {
      // A gradient of a slice is written twice where the slice was.
      const double again = type.launches > 1 ? op.bytes_read(0) : 0;
      const double bytes = type.launches == 0 ? op.bytes_read(0) : op.traffic() + again;
      KernelShape kernel = kernel_of(KernelKind::kCopy, bytes, op);
      kernel.launches = type.launches;
      return kernels.add(kernel);
    }
    default: {
      const bool smaller = type.may_reduce && op.num_inputs() > 0 && op.made() < op.elements(0);
      const double unread = type.unread < 0 ? 0 : op.bytes_read(static_cast<std::size_t>(type.unread));
      return kernels.add(kernel_of(smaller ? KernelKind::kReduce : type.kind, op.traffic() - unread, op));
    }
  }
}

}  // namespace emplace::kernel_shapes
