/// Gathers and scatters single elements by index. Repeated indices are processed in row-major order.
#include "executor/cpu/kernels/indexing/scatter.h"

#include <algorithm>
#include <string>

#include "executor/cpu/kernels/indexing/index_list.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;
using Made = Result<std::unique_ptr<Kernel>>;

enum class Put : std::uint8_t { kTake, kWrite, kAdd };

/// `index` selects along one dimension of the table; the other dimensions match.
/// kTake: out[i] = table[i with index[i]];   else: out = table; out[i with index[i]] = or += source[i]
template <class T>
class ElementKernel final : public Kernel {
 public:
  std::size_t scratch_bytes() const override { return indices.bytes(); }

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    const auto index = indices.load(inputs[1], scratch);
    const std::byte* source = inputs.size() > 2 ? inputs[2] : reinterpret_cast<const std::byte*>(&constant);
    if (put != Put::kTake) whole.run(outputs[0], inputs[0]);
    Odometer<2> at{loop, loop.dims};
    for (const std::int64_t j : index) {
      const std::int64_t place = at.offset(0) + within(j, limit) * stride;
      const auto other = at.offset(1);
      at.step();
      if (put == Put::kTake) {
        *reinterpret_cast<T*>(outputs[0] + other) = *reinterpret_cast<const T*>(inputs[0] + place);
        continue;
      }
      const T value = *reinterpret_cast<const T*>(source + other);
      T& to = *reinterpret_cast<T*>(outputs[0] + place);
      to = put == Put::kAdd ? static_cast<T>(to + value) : value;
    }
  }

  Put put = Put::kTake;
  IndexList indices;
  // Loop over the indices. Operands: the table without its indexed dimension; the output or the source.
  StridedLoop loop;
  CopyLoop whole;
  std::int64_t limit = 0, stride = 0;
  std::uint64_t constant = 0;
};

template <class T>
Made make_element(const Signature& signature, Put put, std::size_t axis) {
  const Operand &table = signature.inputs[0], &index = signature.inputs[1], &out = signature.outputs[0];
  auto kernel = std::make_unique<ElementKernel<T>>();
  const Shape table_strides = put == Put::kTake ? table.strides : out.strides;
  std::vector<Shape> strides{table_strides, Shape(index.shape.size(), 0)};
  strides[0][axis] = 0;
  if (put == Put::kTake) {
    strides[1] = out.strides;
  } else if (signature.inputs.size() > 2) {
    if (signature.inputs[2].shape != index.shape)
      return unsupported(signature, "source and indices differ in shape");
    strides[1] = signature.inputs[2].strides;
  } else {
    Attributes attributes{signature};
    kernel->constant = scalar_bits(out.dtype, attributes.number("value", 0.5));
    if (attributes.fault()) return *attributes.fault();
  }
  const std::int64_t size = element_bytes(out.dtype);
  const std::int64_t sizes[] = {size, size};
  const auto indices = IndexList::make(index);
  const auto loop = collapse(index.shape, strides, sizes);
  const auto whole = CopyLoop::make(table.shape, {packed_strides(table.shape)}, {table.strides}, size);
  if (!indices) return unsupported(signature, "expected integer indices");
  if (!loop || !whole) return unsupported(signature, "more than 8 dimensions remain after merging");
  kernel->put = put;
  kernel->indices = *indices;
  kernel->loop = *loop;
  kernel->whole = *whole;
  kernel->limit = table.shape[axis];
  kernel->stride = table_strides[axis] * size;
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Made make_scatter(const Signature& signature, Put put) {
  if (signature.inputs.size() < 2 || signature.inputs.size() > 3 || signature.outputs.size() != 1) {
    return unsupported(signature,
                       "expected a tensor, indices and an optional source as inputs, and one output");
  }
  const Operand &table = signature.inputs[0], &index = signature.inputs[1], &out = signature.outputs[0];
  Attributes attributes{signature};
  const auto axis =
      dimension(signature, attributes.integer("dim", attributes.integer("axis", 0)), table.shape.size());
  const std::string reduction = attributes.word("reduction", attributes.word("reduce", "none"));
  if (!axis) return axis.error();
  if (attributes.fault()) return *attributes.fault();
  if (put == Put::kWrite && (reduction == "add" || reduction == "sum")) {
    put = Put::kAdd;
  } else if (put == Put::kWrite && reduction != "none") {
    return unsupported(signature, "reduction " + reduction + " is not supported; expected none or add");
  }
  if (put == Put::kAdd && signature.inputs.size() < 3) return unsupported(signature, "the source is missing");
  if (out.shape != (put == Put::kTake ? index.shape : table.shape))
    return unsupported(signature, "output shape does not match");
  if (index.shape.size() != table.shape.size())
    return unsupported(signature, "indices differ in the number of dimensions");
  for (std::size_t d = 0; d < table.shape.size(); ++d) {
    if (index.shape[d] > table.shape[d] && d != *axis)
      return unsupported(signature, "more indices than elements in a dimension");
  }
  if (index.elements() > 0 && table.shape[*axis] == 0)
    return unsupported(signature, "indices into an empty dimension");
  const auto differs = [&out](const Operand& operand) { return operand.dtype != out.dtype; };
  if (differs(table) || (signature.inputs.size() > 2 && differs(signature.inputs[2]))) {
    return unsupported(signature, "dtypes differ");
  }
  switch (out.dtype) {
    case DType::kF32:
      return make_element<float>(signature, put, *axis);
    case DType::kF64:
      return make_element<double>(signature, put, *axis);
    case DType::kI64:
      return make_element<std::int64_t>(signature, put, *axis);
    case DType::kI32:
      return make_element<std::int32_t>(signature, put, *axis);
    case DType::kBool:
    case DType::kU8:
      if (put != Put::kAdd) return make_element<std::uint8_t>(signature, put, *axis);
      break;
    default:
      break;
  }
  return unsupported(signature, "no kernel for " + std::string{dtype_name(out.dtype)});
}
Made gather_elements(const Signature& signature) { return make_scatter(signature, Put::kTake); }
Made scatter_write(const Signature& signature) { return make_scatter(signature, Put::kWrite); }
Made scatter_add(const Signature& signature) { return make_scatter(signature, Put::kAdd); }

constexpr KernelEntry kScatterKernels[] = {
    {"aten::gather", gather_elements},  {"GatherElements", gather_elements}, {"aten::scatter", scatter_write},
    {"ScatterElements", scatter_write}, {"aten::scatter_add", scatter_add},
};

}  // namespace

std::span<const KernelEntry> scatter_kernels() { return kScatterKernels; }

}  // namespace emplace::cpu
