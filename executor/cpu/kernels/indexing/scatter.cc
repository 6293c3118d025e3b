/// Gathers and scatters single elements by index. Repeated indices are processed in row-major order.
#include <string>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/indexing/index_list.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;

enum class Put : std::uint8_t { kTake, kWrite, kAdd };

/// `index` selects along one dimension of the table; the other dimensions match.
/// kTake: out[i] = table[i with index[i]];   else: out = table; out[i with index[i]] = or += source[i]
template <class T>
struct Elements {
  void operator()(const Pointers& memory) const {
    const auto index = indices.load(memory.inputs[1], memory.scratch);
    const std::byte* source =
        memory.inputs.size() > 2 ? memory.inputs[2] : reinterpret_cast<const std::byte*>(&constant);
    if (put != Put::kTake) whole.run(memory.outputs[0], memory.inputs[0]);
    Odometer<2> at{loop, loop.dims};
    for (const std::int64_t j : index) {
      const std::int64_t place = at.offset(0) + within(j, limit) * stride;
      const auto other = at.offset(1);
      at.step();
      if (put == Put::kTake) {
        *reinterpret_cast<T*>(memory.outputs[0] + other) =
            *reinterpret_cast<const T*>(memory.inputs[0] + place);
        continue;
      }
      const T value = *reinterpret_cast<const T*>(source + other);
      T& to = *reinterpret_cast<T*>(memory.outputs[0] + place);
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
Made make_elements(const Signature& signature, Put put, std::size_t axis) {
  const Operand &table = signature.inputs[0], &index = signature.inputs[1], &out = signature.outputs[0];
  const Shape table_strides = put == Put::kTake ? table.strides : out.strides;
  std::vector<Shape> strides{table_strides, Shape(index.shape.size(), 0)};
  strides[0][axis] = 0;
  std::uint64_t constant = 0;
  if (put == Put::kTake) {
    strides[1] = out.strides;
  } else if (signature.inputs.size() > 2) {
    if (signature.inputs[2].shape != index.shape)
      return unsupported(signature, "source and indices differ in shape");
    strides[1] = signature.inputs[2].strides;
  } else {
    EMPLACE_TRY_ASSIGN(const double value, read(signature, [](auto& of) { return of.number("value", 0.5); }));
    constant = scalar_bits(out.dtype, value);
  }
  const std::int64_t size = element_bytes(out.dtype);
  const std::int64_t sizes[] = {size, size};
  EMPLACE_TRY_ASSIGN(const auto indices, IndexList::make(signature, 1));
  EMPLACE_TRY_ASSIGN(const auto loop, collapse(signature, index.shape, strides, sizes));
  EMPLACE_TRY_ASSIGN(const auto whole, CopyLoop::packing(signature, table));
  return kernel_of(
      Elements<T>{put, indices, loop, whole, table.shape[axis], table_strides[axis] * size, constant},
      indices.bytes());
}

template <Put kind>
Made scatter(const Signature& signature) {
  Put put = kind;
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
  if ((out.dtype == DType::kBool || out.dtype == DType::kU8) && put != Put::kAdd)
    return make_elements<std::uint8_t>(signature, put, *axis);
  return by_dtype<float, double, std::int64_t, std::int32_t>(
      signature, out.dtype, [&]<class T>(T) { return make_elements<T>(signature, put, *axis); });
}

constexpr KernelEntry kScatterKernels[] = {
    {"aten::gather GatherElements", scatter<Put::kTake>},
    {"aten::scatter ScatterElements", scatter<Put::kWrite>},
    {"aten::scatter_add", scatter<Put::kAdd>},
};

}  // namespace

std::span<const KernelEntry> scatter_kernels() { return kScatterKernels; }

}  // namespace emplace::cpu
