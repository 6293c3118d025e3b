#pragma once
/// What executors measured of ops, kept by signature.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "executor/real_executor.h"
#include "graph/op_graph.h"
#include "placement/device.h"
#include "placement/signature_costs.h"

namespace emplace::launcher {

/// Ops of one signature, over all graphs and devices.
struct LedgerEntry {
  std::string text;  ///< signature_text
  std::string type;
  OpClass op_class = OpClass::kElementwise;
  double us = 0;      ///< [us] mean over the ops, each its median
  double mad_us = 0;  ///< [us] the largest deviation among them
  std::size_t ops = 0;
  std::uint32_t samples = 0;    ///< Timed steps behind them.
  bool synthetic = false;       ///< Was stood in for: no measurement.
  double flops = 0, bytes = 0;  ///< Of one op: work, and memory traffic by the cost model's rule [B].
};

/// Thread: one.
class CostLedger {
 public:
  /// Adds a profile of `graph`.
  void add(const OpGraph& graph, const ExecutorProfile& profile);

  const std::map<std::uint64_t, LedgerEntry>& entries() const { return entries_; }
  double overhead_us() const;  ///< [us] of a task, beside its kernel: median over profiles and devices.
  /// Median over the profiles for each pair.
  std::vector<LinkCost> links() const;
  /// What ops cost with `overhead_us` more each; those that were stood in for are left out.
  std::vector<SignatureCosts::Entry> costs(double overhead_us) const;
  /// Rates that ops of each class reach, for signatures that were never measured; `base` where nothing was.
  Profile fitted(Profile base) const;

 private:
  std::map<std::uint64_t, LedgerEntry> entries_;
  std::vector<double> overheads_us_;
  std::map<std::pair<DeviceId, DeviceId>, std::vector<LinkCost>> links_;
};

}  // namespace emplace::launcher
