#include "launcher/calibration/cost_ledger.h"

#include <algorithm>
#include <array>

#include "executor/timing.h"
#include "placement/cost_model.h"

namespace emplace::launcher {

void CostLedger::add(const OpGraph& graph, const ExecutorProfile& profile) {
  for (const std::vector<OpCost>& device : profile.ops) {
    for (const OpCost& cost : device) {
      LedgerEntry& entry = entries_[signature_hash(graph, cost.op)];
      if (entry.ops == 0) {
        entry.text = signature_text(graph, cost.op);
        entry.type = graph.type_name(cost.op);
        entry.op_class = classify(graph, cost.op);
        entry.flops = static_cast<double>(graph.flops(cost.op));
        entry.bytes = static_cast<double>(memory_traffic_bytes(graph, cost.op, entry.op_class));
      }
      ++entry.ops;
      entry.us += (cost.us - entry.us) / static_cast<double>(entry.ops);
      entry.mad_us = std::max(entry.mad_us, cost.mad_us);
      entry.samples += cost.samples;
      entry.synthetic = entry.synthetic || cost.synthetic;
    }
  }
  overheads_us_.insert(overheads_us_.end(), profile.task_overhead_us.begin(), profile.task_overhead_us.end());
  for (const LinkCost& link : profile.links) links_[{link.source, link.target}].push_back(link);
}

double CostLedger::overhead_us() const { return overheads_us_.empty() ? 0 : median(overheads_us_); }

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

std::vector<SignatureCosts::Entry> CostLedger::costs(double overhead_us) const {
  std::vector<SignatureCosts::Entry> out;
  for (const auto& [signature, entry] : entries_)
    if (!entry.synthetic) out.push_back({signature, entry.us + overhead_us});
  return out;
}

Profile CostLedger::fitted(Profile base) const {
  constexpr double kLong = 20;  // [us] Shorter ops say more about what starts them.
  struct Sum {
    double us = 0, flops = 0, bytes = 0;
  };
  std::array<Sum, kNumOpClasses> sums{};
  double peak = 0;  // [flop/us]
  for (const auto& [signature, entry] : entries_) {
    if (entry.synthetic || entry.us < kLong) continue;
    Sum& sum = sums[static_cast<std::size_t>(entry.op_class)];
    sum.us += entry.us * static_cast<double>(entry.ops);
    sum.flops += entry.flops * static_cast<double>(entry.ops);
    sum.bytes += entry.bytes * static_cast<double>(entry.ops);
    peak = std::max(peak, entry.flops / entry.us);
  }
  base.launch_us = overhead_us();
  if (peak > 0) {
    base.peak_gflops = base.matrix_peak_gflops = peak * 1e-3;
    for (const OpClass c : {OpClass::kMatmul, OpClass::kConv, OpClass::kConvGrouped}) {
      const Sum& sum = sums[static_cast<std::size_t>(c)];
      if (sum.flops > 0) base.efficiency[static_cast<std::size_t>(c)] = sum.flops / sum.us / peak;
    }
  }
  Sum streamed;  // Classes that the memory decides.
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
