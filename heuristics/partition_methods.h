#pragma once
/// Static mapping by graph partitioners: balance the work, cut little. They know nothing of order and time.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "heuristics/method.h"
#include "heuristics/partition_graph.h"

namespace emplace {

/// `scotch`: Scotch maps ops, and scopes, onto the devices weighted by their speed, with and without the CPU;
/// an edge weighs the time of its transfer; balanced by time, and by time and bytes.
///        Source: Pellegrini, Distillating knowledge about Scotch, 2009; Paper: ColocRL 2017, section 4.2
///        [COL-SCOTCH]
class Scotch final : public Method {
 public:
  std::string_view name() const override { return "scotch"; }
  std::string_view summary() const override { return "Scotch's static mapping, devices weighted by speed"; }
  /// Errors: those of Method::find; kRunFailed if the library refuses. Thread: calls may overlap.
  Result<Found> find(const Problem& problem, Executor& executor) const override;
};

/// `mincut`: as ColocRL's baseline: Scotch without the CPU, an edge weighs its bytes, and balance is loose,
/// so that the cut is what counts; with the CPU only if nothing fits without.
///                                                             Paper: ColocRL 2017, section 4.2  [COL-MINCUT]
class MinCut final : public Method {
 public:
  std::string_view name() const override { return "mincut"; }
  std::string_view summary() const override { return "Scotch over the GPUs alone: fewest bytes cut"; }
  Result<Found> find(const Problem& problem, Executor& executor) const override;
};

/// `metis`: METIS' k-way and recursive partitions of ops, and of scopes, by device speed; with bytes as
/// second constraint and without; tight and loose; with and without the CPU.
///        Source: Karypis, Kumar, SIAM J. Sci. Comput. 20(1), 1998; Paper: Spotlight 2018, section 5
///        [SPO-METIS]
class Metis final : public Method {
 public:
  std::string_view name() const override { return "metis"; }
  std::string_view summary() const override {
    return "METIS, parts weighted by speed, bytes as second constraint";
  }
  /// Errors: those of Method::find; kRunFailed if the library refuses. Thread: calls wait for one another.
  Result<Found> find(const Problem& problem, Executor& executor) const override;
};

/// Scotch's strategy flags (scotch.h), and how far a part may be above its share.
struct ScotchOptions {
  int flags = 0;
  double imbalance = 0.05;
  std::uint64_t seed = 1;
};
/// [vertices] parts. Deterministic. Errors: kRunFailed if Scotch refuses.
Result<std::vector<std::int32_t>> scotch_parts(PartitionTask& task, ScotchOptions options);

struct MetisOptions {
  bool recursive = false;
  double imbalance = 0.05;
  std::uint64_t seed = 1;
};
/// [vertices] parts. Deterministic. Errors: kRunFailed if METIS refuses.
Result<std::vector<std::int32_t>> metis_parts(PartitionTask& task, MetisOptions options);

/// Time that this process has spent inside Scotch and METIS so far [ns]: what a benchmark takes off to see
/// ours. Any thread.
std::int64_t partitioner_ns();
/// Adds its lifetime to it.
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
