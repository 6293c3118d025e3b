#include "launcher/worker/facts.h"

#include <algorithm>
#include <utility>

#include "placement/machine/catalogue.h"

namespace emplace::launcher {
namespace {

Error damaged() { return invalid("executor process", "sent an incomplete answer"); }

template <class First, class... Others>
bool same_length(const First& first, const Others&... others) {
  return ((others.size() == first.size()) && ...);
}
bool all_below(const std::vector<std::uint32_t>& values, std::size_t limit) {
  return std::all_of(values.begin(), values.end(), [&](std::uint32_t value) { return value < limit; });
}

}  // namespace

messages::PrepareExecutor prepare_facts(const DeviceSet& devices, const RealOptions& options) {
  messages::PrepareExecutor prepare;
  for (const Device& device : devices.devices()) {
    const Profile& p = device.profile;
    prepare.devices.push_back({device.name,
                               device.host,
                               p.name,
                               p.kind,
                               device.memory_bytes,
                               p.memory_bytes,
                               p.peak_gflops,
                               p.matrix_peak_gflops,
                               p.bandwidth_gbs,
                               p.bandwidth_efficiency,
                               p.launch_us,
                               {p.efficiency.begin(), p.efficiency.end()},
                               {},
                               {},
                               static_cast<std::uint8_t>(p.cost_version),
                               static_cast<std::uint32_t>(p.own_efficiency.to_ulong()),
                               {p.peaks_gflops.begin(), p.peaks_gflops.end()},
                               p.l2_bytes,
                               p.tables,
                               p.family,
                               p.dispatch_us,
                               p.unaligned_rate});
    if (p.costs == nullptr) continue;
    for (const SignatureCosts::Entry& entry : p.costs->entries()) {
      prepare.devices.back().signatures.push_back(entry.signature);
      prepare.devices.back().signature_us.push_back(entry.us);
    }
  }
  for (std::size_t s = 0; s < devices.size(); ++s) {
    for (std::size_t t = 0; t < devices.size(); ++t) {
      const Link& link = devices.link(static_cast<DeviceId>(s), static_cast<DeviceId>(t));
      prepare.link_bytes_per_s.push_back(link.bytes_per_s);
      prepare.link_latency_s.push_back(link.latency_s);
      prepare.link_shaped.push_back(link.shaped ? 1 : 0);
      prepare.link_names.emplace_back(link.name);
    }
  }
  prepare.copies = static_cast<std::uint8_t>(devices.copies());
  prepare.corun = devices.corun();
  prepare.warmups = options.timing.warmups;
  prepare.samples = options.timing.samples;
  prepare.most_samples = options.timing.most_samples;
  prepare.statistic = static_cast<std::uint8_t>(options.timing.statistic);
  prepare.stop_ratio = options.timing.stop_ratio;
  prepare.capture = options.timing.capture;
  prepare.tune = options.timing.tune;
  prepare.seed = options.seed;
  prepare.allow_synthetic = options.allow_synthetic;
  return prepare;
}

Result<DeviceSet> devices_of(const messages::PrepareExecutor& prepare) {
  std::vector<Device> devices;
  for (const messages::DeviceFacts& facts : prepare.devices) {
    Device device;
    device.name = facts.name;
    device.host = facts.host;
    device.memory_bytes = facts.memory_bytes;
    Profile& p = device.profile;
    p.name = facts.profile;
    p.kind = facts.kind;
    p.memory_bytes = facts.profile_memory_bytes;
    p.peak_gflops = facts.peak_gflops;
    p.matrix_peak_gflops = facts.matrix_peak_gflops;
    p.bandwidth_gbs = facts.bandwidth_gbs;
    p.bandwidth_efficiency = facts.bandwidth_efficiency;
    p.launch_us = facts.launch_us;
    if (facts.efficiency.size() != p.efficiency.size()) return damaged();
    std::copy(facts.efficiency.begin(), facts.efficiency.end(), p.efficiency.begin());
    p.cost_version = static_cast<CostVersion>(facts.costs);
    if (word_of(p.cost_version).empty()) return damaged();
    p.own_efficiency = facts.own_efficiency;
    if (facts.peaks_gflops.size() != p.peaks_gflops.size()) return damaged();
    std::copy(facts.peaks_gflops.begin(), facts.peaks_gflops.end(), p.peaks_gflops.begin());
    p.l2_bytes = facts.l2_bytes;
    p.tables = facts.tables;
    p.family = facts.family;
    p.dispatch_us = facts.dispatch_us;
    p.unaligned_rate = facts.unaligned_rate;
    if (facts.signatures.size() != facts.signature_us.size()) return damaged();
    std::vector<SignatureCosts::Entry> costs;
    for (std::size_t i = 0; i < facts.signatures.size(); ++i)
      costs.push_back({facts.signatures[i], facts.signature_us[i]});
    if (!costs.empty()) p.costs = std::make_shared<const SignatureCosts>(std::move(costs));
    devices.push_back(std::move(device));
  }
  const std::size_t pairs = devices.size() * devices.size();
  if (prepare.link_bytes_per_s.size() != pairs || prepare.link_latency_s.size() != pairs) return damaged();
  if (prepare.link_shaped.size() != pairs || prepare.link_names.size() != pairs) return damaged();
  if (!(prepare.corun >= 1 && prepare.corun < 1e6)) return damaged();
  std::vector<Link> links;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const std::string& name = prepare.link_names[pair];
    const CatalogueLink* const known = name.empty() ? nullptr : known_link(name);
    if (!name.empty() && known == nullptr) return damaged();
    links.push_back({prepare.link_bytes_per_s[pair], prepare.link_latency_s[pair],
                     prepare.link_shaped[pair] != 0,
                     known != nullptr ? std::string_view{known->name} : std::string_view{}});
  }
  auto all = DeviceSet::make(std::move(devices), std::move(links));
  if (!all) return all;
  return all->with_copies(static_cast<CopyEngine>(prepare.copies)).with_corun(prepare.corun);
}

RealOptions options_of(const messages::PrepareExecutor& prepare) {
  RealOptions options;
  options.timing.warmups = prepare.warmups;
  options.timing.samples = prepare.samples;
  options.timing.most_samples = prepare.most_samples;
  options.timing.statistic = static_cast<TimingOptions::Statistic>(prepare.statistic);
  options.timing.stop_ratio = prepare.stop_ratio;
  options.timing.capture = prepare.capture;
  options.timing.tune = prepare.tune;
  options.seed = prepare.seed;
  options.allow_synthetic = prepare.allow_synthetic;
  return options;
}

messages::ScheduleFacts facts_of(const Schedule& schedule) {
  messages::ScheduleFacts facts;
  for (const OpRun& run : schedule.ops) {
    facts.ops.push_back(static_cast<std::uint32_t>(run.op));
    facts.op_devices.push_back(static_cast<std::uint32_t>(run.device));
    facts.op_start_s.push_back(run.start_s);
    facts.op_end_s.push_back(run.end_s);
  }
  for (const TransferRun& run : schedule.transfers) {
    facts.tensors.push_back(static_cast<std::uint32_t>(run.tensor));
    facts.sources.push_back(static_cast<std::uint32_t>(run.source));
    facts.targets.push_back(static_cast<std::uint32_t>(run.target));
    facts.transfer_bytes.push_back(run.bytes);
    facts.transfer_start_s.push_back(run.start_s);
    facts.transfer_end_s.push_back(run.end_s);
  }
  for (const MemoryLevel& level : schedule.memory) {
    facts.level_devices.push_back(static_cast<std::uint32_t>(level.device));
    facts.level_at_s.push_back(level.at_s);
    facts.level_bytes.push_back(level.bytes);
  }
  return facts;
}

Result<Schedule> schedule_of(const messages::ScheduleFacts& f, const OpGraph& graph, std::size_t devices) {
  const bool whole =
      same_length(f.ops, f.op_devices, f.op_start_s, f.op_end_s) &&
      same_length(f.tensors, f.sources, f.targets, f.transfer_bytes, f.transfer_start_s, f.transfer_end_s) &&
      same_length(f.level_devices, f.level_at_s, f.level_bytes) && all_below(f.ops, graph.num_ops()) &&
      all_below(f.tensors, graph.num_tensors()) && all_below(f.op_devices, devices) &&
      all_below(f.sources, devices) && all_below(f.targets, devices) && all_below(f.level_devices, devices);
  if (!whole) return damaged();
  Schedule schedule;
  for (std::size_t i = 0; i < f.ops.size(); ++i)
    schedule.ops.push_back({static_cast<OpId>(f.ops[i]), static_cast<DeviceId>(f.op_devices[i]),
                            f.op_start_s[i], f.op_end_s[i]});
  for (std::size_t i = 0; i < f.tensors.size(); ++i)
    schedule.transfers.push_back({static_cast<TensorId>(f.tensors[i]), static_cast<DeviceId>(f.sources[i]),
                                  static_cast<DeviceId>(f.targets[i]), f.transfer_bytes[i],
                                  f.transfer_start_s[i], f.transfer_end_s[i]});
  for (std::size_t i = 0; i < f.level_devices.size(); ++i)
    schedule.memory.push_back({static_cast<DeviceId>(f.level_devices[i]), f.level_at_s[i], f.level_bytes[i]});
  return schedule;
}

messages::VerificationFacts facts_of(const Verification& v) {
  return {v.identical, v.compared, v.skipped, v.first_difference};
}
Verification verification_of(const messages::VerificationFacts& facts) {
  return {facts.identical, facts.compared, facts.skipped, facts.first_difference};
}

messages::ProfileFacts facts_of(const ExecutorProfile& profile) {
  messages::ProfileFacts facts;
  facts.devices = static_cast<std::uint32_t>(profile.ops.size());
  for (const auto& costs : profile.ops) {
    for (const OpCost& cost : costs) {
      facts.ops.push_back(static_cast<std::uint32_t>(cost.op));
      facts.samples.push_back(cost.samples);
      facts.us.push_back(cost.us);
      facts.mad_us.push_back(cost.mad_us);
      facts.synthetic.push_back(cost.synthetic ? 1 : 0);
      facts.hot_us.push_back(cost.hot_us);
      facts.cold_us.push_back(cost.cold_us);
    }
  }
  for (const LinkCost& link : profile.links) {
    facts.sources.push_back(static_cast<std::uint32_t>(link.source));
    facts.targets.push_back(static_cast<std::uint32_t>(link.target));
    facts.latency_s.push_back(link.latency_s);
    facts.bytes_per_s.push_back(link.bytes_per_s);
  }
  facts.task_overhead_us = profile.task_overhead_us;
  facts.task_host_us = profile.task_host_us;
  facts.corun = profile.corun;
  facts.step_time_s = profile.step_time_s;
  return facts;
}

Result<ExecutorProfile> profile_of(const messages::ProfileFacts& f, const OpGraph& graph,
                                   std::size_t devices) {
  const bool whole = same_length(f.ops, f.samples, f.us, f.mad_us, f.synthetic) &&
                     same_length(f.sources, f.targets, f.latency_s, f.bytes_per_s) && f.devices == devices &&
                     (f.hot_us.empty() || same_length(f.ops, f.hot_us)) && same_length(f.hot_us, f.cold_us) &&
                     (f.task_host_us.empty() || f.task_host_us.size() == devices) &&
                     (f.corun.empty() || f.corun.size() == devices) && devices > 0 &&
                     f.ops.size() % devices == 0 && all_below(f.ops, graph.num_ops()) &&
                     all_below(f.sources, devices) && all_below(f.targets, devices);
  if (!whole) return damaged();
  ExecutorProfile profile;
  const std::size_t kernels = f.ops.size() / devices;
  for (std::size_t d = 0; d < devices; ++d) {
    std::vector<OpCost> costs;
    for (std::size_t i = d * kernels; i < (d + 1) * kernels; ++i) {
      costs.push_back({static_cast<OpId>(f.ops[i]), f.us[i], f.mad_us[i], f.samples[i], f.synthetic[i] != 0});
      if (!f.hot_us.empty()) costs.back().hot_us = f.hot_us[i], costs.back().cold_us = f.cold_us[i];
    }
    profile.ops.push_back(std::move(costs));
  }
  for (std::size_t i = 0; i < f.sources.size(); ++i)
    profile.links.push_back({static_cast<DeviceId>(f.sources[i]), static_cast<DeviceId>(f.targets[i]),
                             f.latency_s[i], f.bytes_per_s[i]});
  profile.task_overhead_us = f.task_overhead_us;
  profile.task_host_us = f.task_host_us;
  profile.corun = f.corun;
  profile.step_time_s = f.step_time_s;
  return profile;
}

}  // namespace emplace::launcher
