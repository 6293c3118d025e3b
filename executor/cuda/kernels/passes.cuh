#pragma once
/// The two kinds of passes: over independent elements, and over rows that are reduced.

#include <algorithm>
#include <utility>

#include "executor/cuda/kernels/passes.h"
#include "executor/cuda/kernels/strided.h"

namespace emplace::cuda {

// Limit on the grid; further elements are processed in a loop, which keeps launches cheap.
inline constexpr std::int64_t kMaxBlocks = 4096;

template <class F>
__global__ void __launch_bounds__(kThreads) each_kernel(const F f, const std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  // Unrolled, each thread would divide 64-bit integers for its number of rounds, which is mostly one.
#pragma unroll 1
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) f(i);
}

template <class F>
Result<Unit> launch_each(const Lane& lane, F bound, std::int64_t count) {
  if (count == 0) return Unit{};
  const std::int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMaxBlocks);
  void* arguments[] = {&bound, &count};
  return launch(lane, reinterpret_cast<const void*>(&each_kernel<F>), F::kName, static_cast<unsigned>(blocks),
                1, arguments);
}

/// F has kName; bind(pointers), which sets its pointers; operator()(i), which processes element i.
template <class F>
class EachPass final : public Pass {
 public:
  EachPass(F f, std::int64_t count) : f_{std::move(f)}, count_{count} {}
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override {
    F bound = f_;
    bound.bind(pointers);
    return launch_each(lane, bound, count_);
  }
  void run(const Pointers& pointers) const override {
    F bound = f_;
    bound.bind(pointers);
    for (std::int64_t i = 0; i < count_; ++i) bound(i);
  }

 private:
  F f_;
  std::int64_t count_;
};

/// Mapping of rows to threads: a block processes `rows` rows with `lanes` threads each. The columns of a
/// row are split into `splits` stretches, which a second launch merges.
struct RowTiling {
  std::int64_t num_rows = 0, columns = 0, columns_per_split = 0;
  int rows = 1, lanes = kThreads, splits = 1;
  /// True: adjacent threads process adjacent rows, for rows that are adjacent in memory.
  bool rows_adjacent = false;
};

inline RowTiling tile_rows(std::int64_t num_rows, std::int64_t columns, bool rows_adjacent) {
  RowTiling tiling{.num_rows = num_rows, .columns = columns, .rows_adjacent = rows_adjacent};
  tiling.lanes = rows_adjacent ? (num_rows >= 32 ? 8 : 64) : columns >= 512 ? 256 : columns >= 32 ? 32 : 8;
  tiling.rows = static_cast<int>(kThreads) / tiling.lanes;
  const std::int64_t blocks = (num_rows + tiling.rows - 1) / tiling.rows;
  const std::int64_t most = columns / (std::int64_t{tiling.lanes} * 8);  // At least eight columns per thread.
  if (blocks > 0 && blocks < 256 && most > 1)
    tiling.splits = static_cast<int>(std::min({512 / blocks, most, std::int64_t{256}}));
  tiling.columns_per_split = tiling.splits == 0 ? 0 : (columns + tiling.splits - 1) / tiling.splits;
  return tiling;
}

template <class F>
EMPLACE_HD typename F::Part reduce_lane(const F& f, const RowTiling& tiling, std::int64_t row, int split,
                                        int lane) {
  typename F::Part part = f.zero();
  const std::int64_t begin = split * tiling.columns_per_split, past = begin + tiling.columns_per_split;
  const std::int64_t end = past < tiling.columns ? past : tiling.columns;
  std::int64_t k = begin + lane;
  const std::int64_t lanes = tiling.lanes;
#ifdef __CUDA_ARCH__
  // Four loads in flight. The compiler's own unrolling divides 64-bit integers for the number of rounds.
#pragma unroll 1
  for (; k + 3 * lanes < end; k += 4 * lanes) {
    f.add(part, row, k), f.add(part, row, k + lanes), f.add(part, row, k + 2 * lanes),
        f.add(part, row, k + 3 * lanes);
  }
#pragma unroll 1
#endif
  for (; k < end; k += lanes) f.add(part, row, k);
  return part;
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(const F f, const RowTiling tiling, typename F::Part* const partial) {
  __shared__ typename F::Part parts[kThreads];
  const int t = static_cast<int>(threadIdx.x), split = static_cast<int>(blockIdx.y);
  const int r = tiling.rows_adjacent ? t % tiling.rows : t / tiling.lanes;
  const int lane = tiling.rows_adjacent ? t / tiling.rows : t % tiling.lanes;
  const std::int64_t row = std::int64_t{blockIdx.x} * tiling.rows + r;
  typename F::Part* const mine = &parts[r * tiling.lanes + lane];
  *mine = row < tiling.num_rows ? reduce_lane(f, tiling, row, split, lane) : f.zero();
  for (int hop = tiling.lanes / 2; hop > 0; hop /= 2) {
    __syncthreads();
    if (lane < hop) F::merge(*mine, mine[hop]);
  }
  if (lane != 0 || row >= tiling.num_rows) return;
  if (tiling.splits == 1) {
    f.finish(row, *mine);
  } else {
    partial[row * tiling.splits + split] = *mine;
  }
}

inline constexpr int kMergeLanes = 32;  ///< Threads that merge the stretches of a row.

/// Merges every kMergeLanes-th of a row's stretches, from `lane` on.
template <class F>
EMPLACE_HD typename F::Part merge_lane(const F& f, const typename F::Part* stretches, int splits, int lane) {
  typename F::Part part = lane < splits ? stretches[lane] : f.zero();
  for (int s = lane + kMergeLanes; s < splits; s += kMergeLanes) F::merge(part, stretches[s]);
  return part;
}

/// Second launch: a warp merges the stretches of a row.
template <class F>
__global__ void __launch_bounds__(kThreads) merge_kernel(const F f, const typename F::Part* const partial,
                                                         const int splits, const std::int64_t num_rows) {
  __shared__ typename F::Part parts[kThreads];
  const int t = static_cast<int>(threadIdx.x), lane = t % kMergeLanes;
  const std::int64_t row =
      std::int64_t{blockIdx.x} * (static_cast<int>(kThreads) / kMergeLanes) + t / kMergeLanes;
  parts[t] = row < num_rows ? merge_lane(f, partial + row * splits, splits, lane) : f.zero();
  for (int hop = kMergeLanes / 2; hop > 0; hop /= 2) {
    __syncthreads();
    if (lane < hop) F::merge(parts[t], parts[t + hop]);
  }
  if (lane == 0 && row < num_rows) f.finish(row, parts[t]);
}

/// F has kName; Part, a plain struct; bind(pointers); zero(); add(part, row, column); merge(part, other);
/// finish(row, part). The order of additions depends on the sizes alone, so results are reproducible.
template <class F>
class ReducePass final : public Pass {
 public:
  ReducePass(F f, RowTiling tiling, std::size_t scratch_at)
      : f_{std::move(f)}, tiling_{tiling}, scratch_at_{scratch_at} {}
  static std::size_t scratch_bytes(const RowTiling& tiling) {
    return tiling.splits == 1
               ? 0
               : static_cast<std::size_t>(tiling.num_rows * tiling.splits) * sizeof(typename F::Part);
  }
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override {
    if (tiling_.num_rows == 0) return Unit{};
    F bound = f_;
    bound.bind(pointers);
    RowTiling tiling = tiling_;
    auto* partial = reinterpret_cast<typename F::Part*>(pointers.scratch + scratch_at_);
    void* arguments[] = {&bound, &tiling, &partial};
    const std::int64_t blocks = (tiling.num_rows + tiling.rows - 1) / tiling.rows;
    auto first = launch(lane, reinterpret_cast<const void*>(&reduce_kernel<F>), F::kName,
                        static_cast<unsigned>(blocks), static_cast<unsigned>(tiling.splits), arguments);
    if (!first || tiling.splits == 1) return first;
    constexpr std::int64_t kRows = static_cast<int>(kThreads) / kMergeLanes;
    void* merged[] = {&bound, &partial, &tiling.splits, &tiling.num_rows};
    return launch(lane, reinterpret_cast<const void*>(&merge_kernel<F>), F::kName,
                  static_cast<unsigned>((tiling.num_rows + kRows - 1) / kRows), 1, merged);
  }
  void run(const Pointers& pointers) const override {
    F bound = f_;
    bound.bind(pointers);
    typename F::Part parts[kThreads];
    std::vector<typename F::Part> stretches(static_cast<std::size_t>(tiling_.splits));
    for (std::int64_t row = 0; row < tiling_.num_rows; ++row) {
      for (int split = 0; split < tiling_.splits; ++split) {
        for (int lane = 0; lane < tiling_.lanes; ++lane)
          parts[lane] = reduce_lane(bound, tiling_, row, split, lane);
        merge_tree(parts, tiling_.lanes);
        stretches[static_cast<std::size_t>(split)] = parts[0];
      }
      if (tiling_.splits > 1) {
        for (int lane = 0; lane < kMergeLanes; ++lane)
          parts[lane] = merge_lane(bound, stretches.data(), tiling_.splits, lane);
        merge_tree(parts, kMergeLanes);
      }
      bound.finish(row, parts[0]);
    }
  }

 private:
  static void merge_tree(typename F::Part* parts, int lanes) {
    for (int hop = lanes / 2; hop > 0; hop /= 2)
      for (int lane = 0; lane < hop; ++lane) F::merge(parts[lane], parts[lane + hop]);
  }

  F f_;
  RowTiling tiling_;
  std::size_t scratch_at_;
};

template <class F>
void add_each(OwnKernel& kernel, F f, std::int64_t count) {
  kernel.add(std::make_unique<EachPass<F>>(std::move(f), count));
}
/// `rows_adjacent`: the columns of a row are strided, and rows are adjacent in memory.
template <class F>
void add_reduce(OwnKernel& kernel, F f, std::int64_t rows, std::int64_t columns, bool rows_adjacent) {
  const RowTiling tiling = tile_rows(rows, columns, rows_adjacent);
  const std::size_t at = kernel.take_scratch(ReducePass<F>::scratch_bytes(tiling));
  kernel.add(std::make_unique<ReducePass<F>>(std::move(f), tiling, at));
}

/// A kernel of one pass over `count` elements.
template <class F>
Made each(F f, std::int64_t count) {
  auto kernel = std::make_unique<OwnKernel>();
  add_each(*kernel, std::move(f), count);
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

}  // namespace emplace::cuda
