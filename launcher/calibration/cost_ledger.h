#pragma once
/// Measured costs of ops, by signature.

#include <cstdint>
#include <map>
#include <optional>
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
  double us = 0;      ///< Mean over the ops of their median times [us].
  double mad_us = 0;  ///< Largest median absolute deviation of an op [us].
  /// Means over the ops of their times with operands in a cache and in memory [us]; 0: not timed so.
  double hot_us = 0, cold_us = 0;
  std::size_t ops = 0;
  std::uint32_t samples = 0;    ///< Number of timed steps.
  bool synthetic = false;       ///< Replaced by a synthetic op: not a measurement.
  double flops = 0, bytes = 0;  ///< Work, and memory traffic [B] by the cost model, of one op.
};

/// Costs are kept per device, because cores of one machine can differ by more than the error of predictions.
/// Thread: one.
class CostLedger {
 public:
  using Entries = std::map<std::uint64_t, LedgerEntry>;  ///< Entries, keyed by signature.

  /// Adds a profile of `graph`.
  void add(const OpGraph& graph, const ExecutorProfile& profile);

  std::size_t num_devices() const { return entries_.size(); }
  const Entries& entries(std::size_t device) const { return entries_[device]; }
  /// Returns the overhead of a task in addition to its kernel [us]: the median over the profiles.
  double overhead_us(std::size_t device) const;
  /// Returns the time of the host to enqueue a task [us]: the median over the profiles; 0 if none has it.
  double host_us(std::size_t device) const;
  /// Returns the factor on ops of devices that share hardware while all of these are busy, at least 1: the
  /// median over devices and profiles; none if no profile has it.
  std::optional<double> corun() const;
  /// Returns how much of its time with operands in memory each signature takes with operands in a cache, for
  /// those that were timed both ways.
  std::vector<double> hot_shares(std::size_t device) const;
  /// Returns the costs of each link: the median over the profiles.
  std::vector<LinkCost> links() const;
  /// Returns the costs of ops, each plus the task overhead and `more_us`, without synthetic ops.
  std::vector<SignatureCosts::Entry> costs(std::size_t device, double more_us) const;
  /// Returns the rates that ops of each class reach, for signatures that were never measured; those of `base`
  /// for classes without measurements.
  Profile fitted(std::size_t device, Profile base) const;

 private:
  std::vector<Entries> entries_;                              // [devices]
  std::vector<std::vector<double>> overheads_us_, hosts_us_;  // [devices, profiles]
  std::vector<double> coruns_;
  std::map<std::pair<DeviceId, DeviceId>, std::vector<LinkCost>> links_;
};

}  // namespace emplace::launcher
