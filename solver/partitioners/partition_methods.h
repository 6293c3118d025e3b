#pragma once
/// Static mapping by graph partitioners: balanced work, small cut. They ignore order and time. Errors: those
/// of Method::find; kNoPlacement if the library fails.

#include <cstdint>

#include "solver/method.h"

namespace emplace {

/// `scotch`: Scotch maps ops, and scopes, onto the devices weighted by their speed, with and without the CPU.
/// An edge weighs its transfer time; balanced by time, and by time and bytes. Thread: concurrent calls are
/// allowed.
///        Source: Pellegrini, Distillating knowledge about Scotch, 2009; Paper: ColocRL 2017, section 4.2
///        [COL-SCOTCH]
Result<Answer> scotch(const Problem& problem, Executor& executor);

/// `mincut`: ColocRL's comparison: Scotch without the CPU, an edge weighs its bytes, and balance is loose, so
/// that the cut dominates. The CPU runs only what no GPU may run.
///                                                             Paper: ColocRL 2017, section 4.2  [COL-MINCUT]
Result<Answer> min_cut(const Problem& problem, Executor& executor);
/// `mincut-cpu`: the same cuts with the CPU as a further part, for graphs that the GPUs cannot hold. Not in
/// the paper.
Result<Answer> min_cut_with_cpu(const Problem& problem, Executor& executor);

/// `metis`: METIS' k-way and recursive partitions of ops, and of scopes, by device speed; with and without
/// bytes as second constraint; tight and loose; with and without the CPU. Thread: concurrent calls are
/// serialised.
///        Source: Karypis, Kumar, SIAM J. Sci. Comput. 20(1), 1998; Paper: Spotlight 2018, section 5.2
///        [SPO-METIS]
Result<Answer> metis(const Problem& problem, Executor& executor);

/// Total time of this process inside Scotch and METIS [ns]. For benchmarks: they subtract it. Any thread.
std::int64_t partitioner_ns();
/// Adds its own lifetime to partitioner_ns().
class PartitionerTime {
 public:
  PartitionerTime();
  ~PartitionerTime();
  PartitionerTime(const PartitionerTime&) = delete;
  PartitionerTime& operator=(const PartitionerTime&) = delete;

 private:
  const std::int64_t start_ns_;
};

}  // namespace emplace
