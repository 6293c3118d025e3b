#pragma once
/// Static mapping by graph partitioners: balanced work, small cut. They ignore order and time.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "solver/method.h"
#include "solver/partitioners/partition_graph.h"

namespace emplace {

/// `scotch`: Scotch maps ops, and scopes, onto the devices weighted by their speed, with and without the CPU.
/// An edge weighs its transfer time; balanced by time, and by time and bytes.
///        Source: Pellegrini, Distillating knowledge about Scotch, 2009; Paper: ColocRL 2017, section 4.2
///        [COL-SCOTCH]
class Scotch final : public Method {
 public:
  std::string_view name() const override { return "scotch"; }
  std::string_view summary() const override { return "Scotch's static mapping, devices weighted by speed"; }
  /// Errors: those of Method::find; kNoPlacement if the library fails. Thread: concurrent calls are allowed.
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// `mincut`: ColocRL's comparison: Scotch without the CPU, an edge weighs its bytes, and balance is loose, so
/// that the cut dominates. The CPU runs only what no GPU may run.
///                                                             Paper: ColocRL 2017, section 4.2  [COL-MINCUT]
/// `mincut-cpu`: the same cuts with the CPU as a further part, for graphs that the GPUs cannot hold. Not in
/// the paper.
class MinCut final : public Method {
 public:
  enum class Parts : std::uint8_t { kGpus, kAllDevices };
  explicit MinCut(Parts parts = Parts::kGpus) : parts_{parts} {}
  std::string_view name() const override { return parts_ == Parts::kGpus ? "mincut" : "mincut-cpu"; }
  std::string_view summary() const override {
    return parts_ == Parts::kGpus ? "Scotch over the GPUs only: fewest bytes cut"
                                  : "Scotch over all devices: fewest bytes cut";
  }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const Parts parts_;
};

/// `metis`: METIS' k-way and recursive partitions of ops, and of scopes, by device speed; with and without
/// bytes as second constraint; tight and loose; with and without the CPU.
///        Source: Karypis, Kumar, SIAM J. Sci. Comput. 20(1), 1998; Paper: Spotlight 2018, section 5.2
///        [SPO-METIS]
class Metis final : public Method {
 public:
  std::string_view name() const override { return "metis"; }
  std::string_view summary() const override {
    return "METIS, parts weighted by speed, bytes as second constraint";
  }
  /// Errors: those of Method::find; kNoPlacement if the library fails. Thread: concurrent calls are
  /// serialised.
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// Scotch's strategy flags (scotch.h) and the allowed excess of a part over its share.
struct ScotchOptions {
  int flags = 0;
  double imbalance = 0.05;
  std::uint64_t seed = 1;
};
/// [vertices] Parts. Deterministic. Errors: kNoPlacement if Scotch fails.
Result<std::vector<std::int32_t>> scotch_parts(PartitionTask& task, ScotchOptions options);

struct MetisOptions {
  bool recursive = false;
  double imbalance = 0.05;
  std::uint64_t seed = 1;
};
/// [vertices] Parts. Deterministic. Errors: kNoPlacement if METIS fails.
Result<std::vector<std::int32_t>> metis_parts(PartitionTask& task, MetisOptions options);

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
