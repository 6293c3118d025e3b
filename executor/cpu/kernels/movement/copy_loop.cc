#include "executor/cpu/kernels/movement/copy_loop.h"

#include <algorithm>
#include <cstring>

namespace emplace::cpu {
namespace {

/// A transposed box is copied in square tiles through the L1 cache, so that both sides use whole runs of
/// cache lines at any row stride (powers of two would map to the same cache sets).
constexpr std::int64_t kTileRows = 64, kTileColumns = 64;

/// Sorts dimensions by descending target stride: the target is written in order.
void sort_by_target(StridedLoop& loop) {
  for (std::size_t d = 1; d < loop.dims; ++d) {
    std::size_t to = d;
    while (to > 0 && loop.stride[0][to - 1] < loop.stride[0][d]) --to;
    if (to != d) loop.move(d, to);
  }
}

template <class T>
void fill_row(std::byte* target, std::int64_t stride, std::int64_t count, std::uint64_t bits) {
  const T value = static_cast<T>(bits);
  if (stride == static_cast<std::int64_t>(sizeof(T))) {
    std::fill_n(reinterpret_cast<T*>(target), count, value);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(target + i * stride) = value;
}

}  // namespace

Result<CopyLoop> CopyLoop::make(const Signature& signature, std::span<const std::int64_t> shape,
                                const Box& target, const Box& source, std::int64_t element_bytes) {
  const std::vector<std::int64_t> strides[] = {target.strides, source.strides};
  const std::int64_t sizes[] = {element_bytes, element_bytes};
  EMPLACE_TRY_ASSIGN(auto loop, collapse(signature, shape, strides, sizes));
  sort_by_target(loop);
  CopyLoop copy;
  copy.loop_ = merged(loop);
  StridedLoop& walk = copy.loop_;
  copy.target_offset_ = target.offset * element_bytes;
  copy.source_offset_ = source.offset * element_bytes;
  copy.copy_ = copy_tile(element_bytes);
  if (walk.stride[0][walk.dims - 1] != element_bytes) {  // Rows of one element.
    if (walk.dims == StridedLoop::kMaxDims) return too_many_dimensions(signature);
    walk.extent[walk.dims] = 1;
    for (auto& stride : walk.stride) stride[walk.dims] = element_bytes;
    ++walk.dims;
  }
  if (walk.dims == 1) walk.add_row();
  const std::int64_t inner = walk.inner_stride(1);
  std::size_t along = walk.dims;
  if (inner > element_bytes) {
    for (std::size_t d = 0; d + 1 < walk.dims; ++d) {
      const std::int64_t stride = walk.stride[1][d];
      if (stride > 0 && stride < inner && (along == walk.dims || stride < walk.stride[1][along])) along = d;
    }
  }
  if (along < walk.dims) {
    walk.move(along, walk.dims - 2);
    copy.transposed_ = true;
  }
  return copy;
}

Result<CopyLoop> CopyLoop::packing(const Signature& signature, const Operand& view) {
  return make(signature, view.shape, {packed_strides(view.shape)}, {view.strides}, element_bytes(view.dtype));
}

void CopyLoop::run(std::byte* target, const std::byte* source) const {
  if (loop_.elements() == 0) return;
  target += target_offset_;
  source += source_offset_;
  const std::size_t r = loop_.dims - 2, c = loop_.dims - 1;
  const auto& to = loop_.stride[0];
  const auto& from = loop_.stride[1];
  const std::int64_t rows = loop_.extent[r], columns = loop_.extent[c], outer = loop_.rows() / rows;
  alignas(64) std::byte square[kTileRows * kTileColumns * 8];
  Odometer<2> at{loop_, r};
  for (std::int64_t i = 0; i < outer; ++i, at.step()) {
    if (!transposed_) {
      copy_(source + at.offset(1), from[r], from[c], rows, columns, target + at.offset(0), to[r]);
      continue;
    }
    for (std::int64_t r0 = 0; r0 < rows; r0 += kTileRows) {
      const std::int64_t high = std::min(kTileRows, rows - r0);
      for (std::int64_t c0 = 0; c0 < columns; c0 += kTileColumns) {
        const std::int64_t wide = std::min(kTileColumns, columns - c0), bytes = wide * to[c];
        copy_(source + at.offset(1) + r0 * from[r] + c0 * from[c], from[r], from[c], high, wide, square,
              bytes);
        std::byte* row = target + at.offset(0) + r0 * to[r] + c0 * to[c];
        for (std::int64_t k = 0; k < high; ++k, row += to[r]) {
          std::memcpy(row, square + k * bytes, static_cast<std::size_t>(bytes));
        }
      }
    }
  }
}

Result<FillLoop> FillLoop::make(const Signature& signature, std::span<const std::int64_t> shape,
                                const Box& target, std::int64_t element_bytes, std::uint64_t bits) {
  FillLoop fill;
  EMPLACE_TRY_ASSIGN(fill.loop_, collapse(signature, shape, {&target.strides, 1}, {&element_bytes, 1}));
  fill.offset_ = target.offset * element_bytes;
  fill.element_bytes_ = element_bytes;
  fill.bits_ = bits;
  return fill;
}

void FillLoop::run(std::byte* target) const {
  const std::int64_t rows = loop_.rows(), count = loop_.inner(), stride = loop_.inner_stride(0);
  if (rows == 0 || count == 0) return;
  Odometer<1> at{loop_, loop_.dims - 1};
  for (std::int64_t i = 0; i < rows; ++i, at.step()) {
    std::byte* row = target + offset_ + at.offset(0);
    if (bits_ == 0 && stride == element_bytes_) {
      std::memset(row, 0, static_cast<std::size_t>(count * element_bytes_));
    } else if (element_bytes_ == 1) {
      fill_row<std::uint8_t>(row, stride, count, bits_);
    } else if (element_bytes_ == 2) {
      fill_row<std::uint16_t>(row, stride, count, bits_);
    } else if (element_bytes_ == 4) {
      fill_row<std::uint32_t>(row, stride, count, bits_);
    } else {
      fill_row<std::uint64_t>(row, stride, count, bits_);
    }
  }
}

}  // namespace emplace::cpu
