#pragma once
/// Copies between two layouts, element by element or in tiles.

#include <algorithm>
#include <memory>

#include "executor/cuda/kernels/passes.cuh"
#include "executor/cuda/kernels/tiles.h"

namespace emplace::cuda {

/// Copies the elements of a shape between two layouts.
template <class T>
struct StridedCopy {
  static constexpr const char* kName = "strided copy";
  Walk<2> walk;  // Operands: target, source.
  std::size_t from = 0, to = 0;
  std::int64_t target_offset = 0, source_offset = 0;
  const T* source = nullptr;
  T* target = nullptr;

  void bind(const Pointers& pointers) {
    source = pointers.input<T>(from) + source_offset;
    target = pointers.output<T>(to) + target_offset;
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    std::int64_t at[2];
    walk.offsets(i, at);
    target[at[0]] = source[at[1]];
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    tiled_kernel(const TiledCopy copy, const T* const source, T* const target) {
  __shared__ T elements[kTile][kTile + 1];  // One more, so that a column is in 32 banks.
  constexpr int kStep = static_cast<int>(kThreads) / kTile;
  const TiledCopy::Tile tile = copy.tile(blockIdx.x);
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  for (int r = y; r < kTile; r += kStep)
    if (copy.contains(tile.row + r, tile.column + x))
      elements[r][x] = source[copy.source(tile, tile.row + r, tile.column + x)];
  __syncthreads();
  for (int c = y; c < kTile; c += kStep)
    if (copy.contains(tile.row + x, tile.column + c))
      target[copy.target(tile, tile.row + x, tile.column + c)] = elements[x][c];
}

/// A transposing copy: each tile is read along the source and written along the target.
template <class T>
class TiledPass final : public Pass {
 public:
  TiledPass(const TiledCopy& tiles, const StridedCopy<T>& copy) : tiles_{tiles}, copy_{copy} {}
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override {
    StridedCopy<T> bound = copy_;
    bound.bind(pointers);
    TiledCopy tiles = tiles_;
    void* arguments[] = {&tiles, &bound.source, &bound.target};
    return launch(lane, reinterpret_cast<const void*>(&tiled_kernel<T>), "tiled copy",
                  static_cast<unsigned>(tiles_.blocks()), 1, arguments);
  }
  void run(const Pointers& pointers) const override {
    StridedCopy<T> bound = copy_;
    bound.bind(pointers);
    for (std::int64_t block = 0; block < tiles_.blocks(); ++block) {
      const TiledCopy::Tile tile = tiles_.tile(block);
      const std::int64_t last_row = std::min(tile.row + kTile, tiles_.rows);
      const std::int64_t last_column = std::min(tile.column + kTile, tiles_.columns);
      for (std::int64_t r = tile.row; r < last_row; ++r)
        for (std::int64_t c = tile.column; c < last_column; ++c)
          bound.target[tiles_.target(tile, r, c)] = bound.source[tiles_.source(tile, r, c)];
    }
  }

 private:
  TiledCopy tiles_;
  StridedCopy<T> copy_;
};

/// Adds the faster of the two.
template <class T>
void add_copy(OwnKernel& kernel, const StridedCopy<T>& copy) {
  if (copy.walk.elements == 0) return;
  if (const auto tiles = make_tiles(copy.walk)) {
    kernel.add(std::make_unique<TiledPass<T>>(*tiles, copy));
  } else {
    add_each(kernel, copy, copy.walk.elements);
  }
}

}  // namespace emplace::cuda
