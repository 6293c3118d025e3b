#include "launcher/calibration/cost_ledger.h"

#include <algorithm>
#include <array>

#include "executor/timing.h"
#include "placement/machine/cost_model.h"

namespace emplace::launcher {

void CostLedger::add(const OpGraph& graph, const ExecutorProfile& profile) {
  entries_.resize(std::max(entries_.size(), profile.ops.size()));
  overheads_us_.resize(entries_.size());
  hosts_us_.resize(entries_.size());
  for (std::size_t d = 0; d < profile.ops.size(); ++d) {
    for (const OpCost& cost : profile.ops[d]) {
      LedgerEntry& entry = entries_[d][signature_hash(graph, cost.op)];
      if (entry.ops == 0) {
        entry.text = signature_text(graph, cost.op);
        entry.op_class = classify(graph, cost.op);
        entry.flops = static_cast<double>(graph.flops(cost.op));
        entry.bytes = static_cast<double>(memory_traffic_bytes(graph, cost.op, entry.op_class));
      }
      ++entry.ops;
      const auto ops = static_cast<double>(entry.ops);
      entry.us += (cost.us - entry.us) / ops;
      entry.hot_us += (cost.hot_us - entry.hot_us) / ops;
      entry.cold_us += (cost.cold_us - entry.cold_us) / ops;
      entry.mad_us = std::max(entry.mad_us, cost.mad_us);
      entry.samples += cost.samples;
      entry.synthetic = entry.synthetic || cost.synthetic;
    }
  }
  for (std::size_t d = 0; d < profile.task_overhead_us.size(); ++d)
    overheads_us_[d].push_back(profile.task_overhead_us[d]);
  for (std::size_t d = 0; d < profile.task_host_us.size(); ++d)
    hosts_us_[d].push_back(profile.task_host_us[d]);
  for (const double factor : profile.corun)
    if (factor > 0) coruns_.push_back(factor);
  for (const LinkCost& link : profile.links) links_[{link.source, link.target}].push_back(link);
}

double CostLedger::overhead_us(std::size_t device) const {
  return overheads_us_[device].empty() ? 0 : median(overheads_us_[device]);
}

double CostLedger::host_us(std::size_t device) const {
  return hosts_us_[device].empty() ? 0 : median(hosts_us_[device]);
}

std::optional<double> CostLedger::corun() const {
  if (coruns_.empty()) return std::nullopt;
  return std::max(median(coruns_), 1.0);
}

std::vector<double> CostLedger::hot_shares(std::size_t device) const {
  std::vector<double> shares;
  for (const auto& [signature, entry] : entries_[device])
    if (entry.cold_us > 0) shares.push_back(entry.hot_us / entry.cold_us);
  return shares;
}

std::vector<LinkCost> CostLedger::links() const {
  std::vector<LinkCost> out;
  for (const auto& [ends, measured] : links_) {
    std::vector<double> latencies, rates;
    for (const LinkCost& link : measured) {
      latencies.push_back(link.latency_s);
      rates.push_back(link.bytes_per_s);
    }
    out.push_back({ends.first, ends.second, median(std::move(latencies)), median(std::move(rates))});
  }
  return out;
}

std::vector<SignatureCosts::Entry> CostLedger::costs(std::size_t device, double more_us) const {
  std::vector<SignatureCosts::Entry> out;
  for (const auto& [signature, entry] : entries_[device])
    if (!entry.synthetic) out.push_back({signature, entry.us + overhead_us(device) + more_us});
  return out;
}

Profile CostLedger::fitted(std::size_t device, Profile base) const {
  constexpr double kLong = 20;  // [us] Shorter ops are dominated by overhead.
  struct Sum {
    double us = 0, flops = 0, bytes = 0;
  };
  std::array<Sum, kNumOpClasses> sums{};
  double peak = 0;  // [flop/us]
  for (const auto& [signature, entry] : entries_[device]) {
    if (entry.synthetic || entry.us < kLong) continue;
    Sum& sum = sums[static_cast<std::size_t>(entry.op_class)];
    sum.us += entry.us * static_cast<double>(entry.ops);
    sum.flops += entry.flops * static_cast<double>(entry.ops);
    sum.bytes += entry.bytes * static_cast<double>(entry.ops);
    peak = std::max(peak, entry.flops / entry.us);
  }
  base.launch_us = overhead_us(device);
  if (peak > 0) {
    base.peak_gflops = base.matrix_peak_gflops = peak * 1e-3;
    for (const OpClass c : {OpClass::kMatmul, OpClass::kConv, OpClass::kConvGrouped}) {
      const Sum& sum = sums[static_cast<std::size_t>(c)];
      if (sum.flops > 0) base.efficiency[static_cast<std::size_t>(c)] = sum.flops / sum.us / peak;
    }
  }
  Sum streamed;  // Memory-bound classes.
  for (const OpClass c : {OpClass::kNorm, OpClass::kReduce, OpClass::kGather, OpClass::kElementwise}) {
    streamed.us += sums[static_cast<std::size_t>(c)].us;
    streamed.bytes += sums[static_cast<std::size_t>(c)].bytes;
  }
  if (streamed.bytes > 0) {
    base.bandwidth_gbs = streamed.bytes / streamed.us * 1e-3;
    base.bandwidth_efficiency = 1;
  }
  base.costs = nullptr;
  return base;
}

}  // namespace emplace::launcher
