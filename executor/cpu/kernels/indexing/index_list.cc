#include "executor/cpu/kernels/indexing/index_list.h"

#include <vector>

namespace emplace::cpu {

Result<IndexList> IndexList::make(const Signature& signature, std::size_t input) {
  const Operand& indices = signature.inputs[input];
  switch (indices.dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
      return unsupported(signature, "expected integer indices");
    default:
      break;
  }
  const std::vector<std::int64_t> strides[] = {packed_strides(indices.shape), indices.strides};
  const std::int64_t sizes[] = {sizeof(std::int64_t), element_bytes(indices.dtype)};
  IndexList list;
  EMPLACE_TRY_ASSIGN(list.loop_, collapse(signature, indices.shape, strides, sizes));
  list.convert_ = convert_tile(indices.dtype, DType::kI64);
  return list;
}

std::span<std::int64_t> IndexList::load(const std::byte* indices, std::byte* room) const {
  const std::int64_t rows = loop_.rows(), columns = loop_.inner();
  if (columns > 0) {
    Odometer<2> at{loop_, loop_.dims - 1};
    for (std::int64_t r = 0; r < rows; ++r, at.step()) {
      convert_(indices + at.offset(1), 0, loop_.inner_stride(1), 1, columns, room + at.offset(0), 0);
    }
  }
  return {reinterpret_cast<std::int64_t*>(room), static_cast<std::size_t>(size())};
}

}  // namespace emplace::cpu
