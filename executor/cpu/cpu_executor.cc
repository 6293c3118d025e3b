#include "executor/cpu/cpu_executor.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "executor/plan/compared_steps.h"

namespace emplace::cpu {
namespace {

/// Measures every ordered pair: the source's thread writes, the target's thread copies, for sizes of 1 KiB
/// to 16 MiB (or a quarter of the smaller memory). Overwrites the memories.
std::vector<LinkCost> probe_links(WorkerPool& pool, std::vector<DeviceMemory>& memory, const Clock& clock) {
  constexpr std::int64_t kSmallest = 1 << 10, kLargest = 1 << 24;
  constexpr int kRepeats = 9;
  std::vector<LinkCost> links;
  for (std::size_t source = 0; source < memory.size(); ++source) {
    for (std::size_t target = 0; target < memory.size(); ++target) {
      if (source == target) continue;
      const std::int64_t largest =
          std::min({kLargest, memory[source].bytes() / 4, memory[target].bytes() / 4});
      std::vector<double> bytes, seconds;
      for (std::int64_t size = std::min(kSmallest, largest); size > 0 && size <= largest; size *= 4) {
        std::vector<double> took;
        for (int i = 0; i <= kRepeats; ++i) {
          // Alternates the position, so that the data is not in the target's caches.
          const std::int64_t at = i % 2 == 0 ? 0 : largest;
          pool.run([&](std::size_t lane) {
            if (lane == source) std::memset(memory[source].at(at), i + 1, static_cast<std::size_t>(size));
          });
          pool.run([&](std::size_t lane) {
            if (lane != target) return;
            const Nanos start = clock.now();
            std::memcpy(memory[target].at(at), memory[source].at(at), static_cast<std::size_t>(size));
            if (i > 0) took.push_back(std::chrono::duration<double>(clock.now() - start).count());
          });
        }
        bytes.push_back(static_cast<double>(size));
        seconds.push_back(median(std::move(took)));
      }
      if (bytes.size() < 2) continue;
      LinkCost link = fit_link(bytes, seconds);
      link.source = static_cast<DeviceId>(source);
      link.target = static_cast<DeviceId>(target);
      links.push_back(link);
    }
  }
  return links;
}

}  // namespace

CpuExecutor::CpuExecutor(const OpGraph& graph, const DeviceSet& devices, const RealOptions& options,
                         const Clock& clock)
    : graph_{graph},
      devices_{devices},
      options_{options},
      clock_{clock},
      lowered_{graph},
      in_place_{lowered_},
      costs_{graph, devices},
      transfers_{devices},
      values_{lowered_, options.seed} {}

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::make(const OpGraph& graph, const DeviceSet& devices,
                                                       const RealOptions& options, const Clock& clock) {
  auto made = std::unique_ptr<CpuExecutor>{new CpuExecutor{graph, devices, options, clock}};
  EMPLACE_TRY_ASSIGN(auto kernels, bind_graph(made->lowered_, options.allow_synthetic));
  made->kernels_.emplace(std::move(kernels));
  for (const OpId op : made->lowered_.kernels()) {
    const BoundKernel& bound = made->kernels_->kernel(op);
    if (!bound.synthetic && !bound.kernel->may_overwrite(0)) made->in_place_.keep_apart(op);
  }
  for (const Device& device : devices.devices()) {
    auto memory = DeviceMemory::make(device.memory_bytes);
    if (!memory) return Error{memory.error().code, device.name + ": " + memory.error().context};
    made->memory_.push_back(*std::move(memory));
    made->caps_.push_back(device.memory_bytes);
  }
  made->pool_.emplace(devices.size());
  return made;
}

std::vector<std::string> CpuExecutor::synthetic_types() const {
  std::vector<std::string> types;
  for (const auto& [type, why] : kernels_->synthetic_types()) types.push_back(type);
  return types;
}

Result<double> CpuExecutor::step(StepRun& steps) const {
  const auto took = steps.step();
  if (options_.progress != nullptr) ++*options_.progress;
  if (!took) return Error{Errc::kOutOfMemory, "a device is full"};
  return *took;
}

Result<Unit> CpuExecutor::run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule) {
  EMPLACE_TRY(check_devices(placement, lowered_.num_ops(), devices_.size()));
  out = {};
  const TaskPlan tasks = plan(placement);
  const Machine with = machine(memory_);
  StepRun steps{with, tasks, caps_};
  std::vector<double> busy_ns(devices_.size(), 0);
  double synthetic_ns = 0;
  std::size_t counted = 0;
  const auto one_step = [&]() -> Result<double> {
    EMPLACE_TRY_ASSIGN(const auto took, step(steps));
    ++counted;
    for (std::size_t t = 0; t < tasks.tasks().size(); ++t) {
      const TaskPlan::Task& task = tasks.tasks()[t];
      if (task.is_copy) continue;
      const auto ns = static_cast<double>(steps.times()[t].end - steps.times()[t].start);
      busy_ns[index(task.target)] += ns;
      if (kernels_->kernel(OpId{task.what}).synthetic) synthetic_ns += ns;
    }
    return took;
  };
  const auto timing = steps.prepare(values_)
                          ? timer_.time(one_step)
                          : Result<StepTiming>{Error{Errc::kOutOfMemory, "state does not fit"}};
  for (std::size_t d = 0; d < devices_.size(); ++d)
    out.peak_bytes.push_back(steps.peak_bytes(static_cast<DeviceId>(d)));
  out.busy_s.assign(devices_.size(), 0);
  if (!timing) {
    write_out_of_memory(*steps.out_of_memory(), graph_, devices_, out);
    return Unit{};
  }
  out.valid = true;
  out.step_time_s = timing->step_time_s;
  out.samples_s = timing->samples_s;
  out.bytes_moved = steps.bytes_moved();
  const double all_ns = std::accumulate(busy_ns.begin(), busy_ns.end(), 0.0);
  for (std::size_t d = 0; d < busy_ns.size(); ++d)
    out.busy_s[d] = busy_ns[d] * 1e-9 / static_cast<double>(counted);
  out.synthetic_share = all_ns > 0 ? synthetic_ns / all_ns : 0;
  const bool shaped = std::ranges::any_of(tasks.tasks(), [&](const TaskPlan::Task& task) {
    return task.is_copy && devices_.link(task.source, task.target).shaped;
  });
  out.label = measured_label(out.synthetic_share, shaped);
  if (schedule == nullptr) return Unit{};
  if (auto shown = step(steps); !shown) return Error{Errc::kRunFailed, "the traced step did not run"};
  *schedule = schedule_of(tasks, steps);
  return Unit{};
}

Schedule CpuExecutor::schedule_of(const TaskPlan& plan, const StepRun& steps) const {
  const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-9; };
  Schedule schedule;
  for (std::size_t t = 0; t < plan.tasks().size(); ++t) {
    const TaskPlan::Task& task = plan.tasks()[t];
    const double start_s = seconds(steps.times()[t].start), end_s = seconds(steps.times()[t].end);
    if (task.is_copy) {
      const BufferId buffer{task.what};
      schedule.transfers.push_back(
          {lowered_.tensor(buffer), task.source, task.target, lowered_.bytes(buffer), start_s, end_s});
    } else {
      schedule.ops.push_back({OpId{task.what}, task.target, start_s, end_s});
    }
  }
  std::ranges::stable_sort(schedule.ops, {}, &OpRun::start_s);
  std::ranges::stable_sort(schedule.transfers, {}, &TransferRun::start_s);
  return schedule;
}

Result<std::vector<std::vector<CpuExecutor::Hash>>> CpuExecutor::fingerprint(
    std::span<const DeviceId> placement, std::span<const std::int64_t> caps, std::vector<DeviceMemory>& on) {
  const TaskPlan tasks = plan(placement);
  const Machine with = machine(on);
  StepRun steps{with, tasks, caps};
  std::vector<std::vector<Hash>> hashes(lowered_.num_ops());
  for (const OpId op : lowered_.kernels()) hashes[index(op)].resize(graph_.num_outputs(op));
  const StepRun::Watch watch = [&](OpId op, std::size_t output, std::span<const std::byte> bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    hashes[index(op)][output] = {hash.high64, hash.low64};
  };
  if (!steps.prepare(values_) || !steps.step(&watch))
    return run_failed(*steps.out_of_memory(), graph_, devices_);
  return hashes;
}

Result<Verification> CpuExecutor::verify(std::span<const DeviceId> placement) {
  EMPLACE_TRY(check_devices(placement, lowered_.num_ops(), devices_.size()));
  EMPLACE_TRY_ASSIGN(const auto placed, fingerprint(placement, caps_, memory_));
  // A single-device reference run may need the combined memory.
  std::vector<std::int64_t> room(caps_.size(), 0);
  room[0] = std::accumulate(caps_.begin(), caps_.end(), std::int64_t{0});
  std::vector<DeviceMemory> memory;
  for (const std::int64_t bytes : room) {
    EMPLACE_TRY_ASSIGN(auto one, DeviceMemory::make(std::max<std::int64_t>(bytes, DeviceMemory::kAlignment)));
    memory.push_back(std::move(one));
  }
  const auto alone = fingerprint(Placement(lowered_.num_ops(), DeviceId{0}), room, memory);
  if (!alone) return Error{Errc::kRunFailed, "on a single device: " + alone.error().context};
  return compare_steps(
      lowered_, [&](OpId op) { return kernels_->kernel(op).synthetic; },
      [&](OpId op, std::size_t k) { return placed[index(op)][k] == (*alone)[index(op)][k]; });
}

Result<ExecutorProfile> CpuExecutor::profile() {
  ExecutorProfile profile;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    EMPLACE_TRY(profile_device(static_cast<DeviceId>(d), profile));
  profile.links = probe_links(*pool_, memory_, clock_);
  return profile;
}

Result<Unit> CpuExecutor::profile_device(DeviceId device, ExecutorProfile& profile) {
  const auto kernels = lowered_.kernels();
  const TaskPlan tasks = plan(Placement(lowered_.num_ops(), device));
  const Machine with = machine(memory_);
  StepRun steps{with, tasks, caps_};
  std::vector<std::vector<double>> op_us(kernels.size());  // [kernels][samples]
  std::vector<double> overhead_us;
  const auto sampled = [&]() -> Result<double> {
    auto took = step(steps);
    if (!took) return took;
    double overhead = 0;
    for (std::size_t t = 0; t < kernels.size(); ++t) {
      const TaskTime& time = steps.times()[t];
      op_us[t].push_back(static_cast<double>(time.end - time.start) * 1e-3);
      overhead += static_cast<double>((time.closed - time.picked) - (time.end - time.start)) * 1e-3;
    }
    overhead_us.push_back(overhead / static_cast<double>(std::max<std::size_t>(1, kernels.size())));
    return took;
  };
  const bool ready = steps.prepare(values_);
  TimingOptions timing = options_.timing;
  const std::uint32_t warmups = std::exchange(timing.warmups, 0);
  for (std::uint32_t i = 0; ready && i < warmups && step(steps); ++i) {
  }
  const auto timed = ready && !steps.out_of_memory()
                         ? time_steps(timing, sampled)
                         : Result<StepTiming>{Error{Errc::kOutOfMemory, "does not fit"}};
  if (!timed) return profile_failed(*steps.out_of_memory(), graph_, devices_, device);
  if (device == DeviceId{0}) profile.step_time_s = timed->step_time_s;
  std::vector<OpCost>& costs = profile.ops.emplace_back();
  for (std::size_t t = 0; t < kernels.size(); ++t)
    costs.push_back({kernels[t], median(op_us[t]), median_deviation(op_us[t]),
                     static_cast<std::uint32_t>(op_us[t].size()), kernels_->kernel(kernels[t]).synthetic});
  profile.task_overhead_us.push_back(median(std::move(overhead_us)));
  return Unit{};
}

}  // namespace emplace::cpu
