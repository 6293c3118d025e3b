#pragma once
/// What executors measured of ops, kept by signature.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "executor/real_executor.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/machine/signature_costs.h"

namespace emplace::launcher {

/// Ops of one signature on one device, over all graphs.
struct LedgerEntry {
  std::string text;  ///< signature_text
  OpClass op_class = OpClass::kElementwise;
  double us = 0;      ///< [us] mean over the ops, each its median
  double mad_us = 0;  ///< [us] the largest deviation among them
  std::size_t ops = 0;
  std::uint32_t samples = 0;    ///< Timed steps behind them.
  bool synthetic = false;       ///< Was stood in for: no measurement.
  double flops = 0, bytes = 0;  ///< Of one op: work, and memory traffic by the cost model's rule [B].
};

/// Devices are kept apart: cores of one machine may differ by more than a prediction may be off. Thread: one.
class CostLedger {
 public:
  using Entries = std::map<std::uint64_t, LedgerEntry>;  ///< By signature.

  /// Adds a profile of `graph`.
  void add(const OpGraph& graph, const ExecutorProfile& profile);

  std::size_t num_devices() const { return entries_.size(); }
  const Entries& entries(std::size_t device) const { return entries_[device]; }
  double overhead_us(
      std::size_t device) const;  ///< [us] of a task, beside its kernel: median over the profiles.
  /// Median over the profiles for each pair.
  std::vector<LinkCost> links() const;
  /// What ops cost, with `more_us` on top of each and what starts it; those that were stood in for are left
  /// out.
  std::vector<SignatureCosts::Entry> costs(std::size_t device, double more_us) const;
  /// Rates that ops of each class reach, for signatures that were never measured; `base` where nothing was.
  Profile fitted(std::size_t device, Profile base) const;

 private:
  std::vector<Entries> entries_;                   // [devices]
  std::vector<std::vector<double>> overheads_us_;  // [devices, profiles]
  std::map<std::pair<DeviceId, DeviceId>, std::vector<LinkCost>> links_;
};

}  // namespace emplace::launcher
