#pragma once
/// Index arithmetic of a transposing copy in tiles, shared by host and device.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "executor/cuda/kernels/strided.h"

namespace emplace::cuda {

inline constexpr int kTile = 32;  ///< Rows and columns of a tile.

/// A copy whose source is contiguous along one dimension and whose target is contiguous along another: a walk
/// would read or write 32 cache lines for 32 elements. A block moves a tile of these two dimensions; tiles of
/// the last rows and columns are cut off.
struct TiledCopy {
  Walk<2> others;                  ///< All other dimensions. Operands: target, source.
  std::int64_t rows = 0;           ///< Size of the dimension along which the target is contiguous.
  std::int64_t columns = 0;        ///< Size of the dimension along which the source is contiguous.
  std::int64_t row_stride = 0;     ///< Of a row in the source [elements].
  std::int64_t column_stride = 0;  ///< Of a column in the target [elements].

  /// First row and column of a block's tile, and the offsets of row 0, column 0 in target and source.
  struct Tile {
    std::int64_t row = 0, column = 0;
    std::int64_t offset[2]{};
  };
  EMPLACE_HD std::int64_t row_tiles() const { return (rows + kTile - 1) / kTile; }
  EMPLACE_HD std::int64_t column_tiles() const { return (columns + kTile - 1) / kTile; }
  EMPLACE_HD Tile tile(std::int64_t block) const {
    Tile at;
    const std::int64_t beside = block / column_tiles(), other = beside / row_tiles();
    at.column = (block - beside * column_tiles()) * kTile;
    at.row = (beside - other * row_tiles()) * kTile;
    others.offsets(other, at.offset);
    return at;
  }
  EMPLACE_HD bool contains(std::int64_t row, std::int64_t column) const {
    return row < rows && column < columns;
  }
  EMPLACE_HD std::int64_t source(const Tile& tile, std::int64_t row, std::int64_t column) const {
    return tile.offset[1] + row * row_stride + column;
  }
  EMPLACE_HD std::int64_t target(const Tile& tile, std::int64_t row, std::int64_t column) const {
    return tile.offset[0] + row + column * column_stride;
  }
  std::int64_t blocks() const { return others.elements * row_tiles() * column_tiles(); }
};

/// Returns the tiles of a walk (operands: target, source); nothing if a walk is as fast.
inline std::optional<TiledCopy> make_tiles(const Walk<2>& walk) {
  constexpr std::int64_t kLeast = kTile / 2;  // Of smaller dimensions most of a tile would be empty.
  int target = -1, source = -1;
  for (int d = 0; d < walk.dims; ++d) {
    if (walk.stride[0][d] == 1) target = d;
    if (walk.stride[1][d] == 1) source = d;
  }
  if (target < 0 || source < 0 || target == source) return std::nullopt;
  TiledCopy copy;
  copy.rows = walk.shape[target], copy.columns = walk.shape[source];
  copy.row_stride = walk.stride[1][target], copy.column_stride = walk.stride[0][source];
  if (copy.rows < kLeast || copy.columns < kLeast) return std::nullopt;
  for (int d = 0; d < walk.dims; ++d) {
    if (d == target || d == source) continue;
    const int at = copy.others.dims++;
    copy.others.shape[at] = walk.shape[d];
    copy.others.elements *= walk.shape[d];
    for (int n = 0; n < 2; ++n) copy.others.stride[n][at] = walk.stride[n][d];
  }
  if (copy.blocks() > INT32_MAX) return std::nullopt;
  return copy;
}

}  // namespace emplace::cuda
