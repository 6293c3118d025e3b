#include "executor/cpu/cpu_executor.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <utility>

#include "executor/cpu/bound_graph.h"
#include "executor/cpu/device_memory.h"
#include "executor/cpu/link_probe.h"
#include "executor/cpu/step_run.h"
#include "executor/cpu/worker_pool.h"
#include "executor/kernel/initial_values.h"
#include "executor/plan/task_plan.h"
#include "executor/timing.h"
#include "graph/lowering.h"
#include "placement/machine/cost_model.h"

namespace emplace::cpu {
namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

/// Hashes of all tensors of a step, in op order.
struct Fingerprint {
  std::vector<std::vector<XXH128_hash_t>> outputs;  // [ops][outputs]
};

}  // namespace

struct CpuExecutor::State {
  State(const OpGraph& graph_, const DeviceSet& devices_, const RealOptions& options_, const Clock& clock_)
      : graph{graph_},
        devices{devices_},
        options{options_},
        clock{clock_},
        lowered{graph_},
        in_place{lowered},
        costs{graph_, devices_},
        transfers{devices_},
        values{lowered, options_.seed} {}

  std::vector<std::int64_t> caps() const {
    std::vector<std::int64_t> caps;
    for (const Device& device : devices.devices()) caps.push_back(device.memory_bytes);
    return caps;
  }
  TaskPlan plan(std::span<const DeviceId> placement) const {
    return {lowered, devices.size(), placement, TaskPlan::Rules::kReal, &in_place};
  }
  /// Runs one step and reports progress. Errors: kOutOfMemory; details are in the StepRun.
  Result<double> step(StepRun& steps) const {
    const auto took = steps.step();
    if (options.progress != nullptr) ++*options.progress;
    if (!took) return Error{Errc::kOutOfMemory, "a device is full"};
    return *took;
  }
  Machine machine() { return {lowered, *kernels, devices, costs, transfers, clock, memory, *pool}; }
  Result<Fingerprint> fingerprint(std::span<const DeviceId> placement, std::span<const std::int64_t> caps,
                                  std::vector<DeviceMemory>& on);

  const OpGraph& graph;
  const DeviceSet& devices;
  const RealOptions options;
  StepTimer timer{options.timing};
  const Clock& clock;
  const LoweredGraph lowered;
  InPlaceWrites in_place;
  const CostTable costs;
  const TransferTable transfers;
  const InitialValues values;
  std::unique_ptr<const BoundGraph> kernels;
  std::vector<DeviceMemory> memory;
  std::unique_ptr<WorkerPool> pool;
};

CpuExecutor::CpuExecutor(std::unique_ptr<State> state) : state_{std::move(state)} {}
CpuExecutor::~CpuExecutor() = default;

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::make(const OpGraph& graph, const DeviceSet& devices,
                                                       const RealOptions& options, const Clock& clock) {
  auto state = std::make_unique<State>(graph, devices, options, clock);
  EMPLACE_TRY_ASSIGN(auto kernels, BoundGraph::make(state->lowered, options.allow_synthetic));
  state->kernels = std::make_unique<const BoundGraph>(std::move(kernels));
  for (const OpId op : state->lowered.kernels()) {
    const Kernel* const kernel = state->kernels->kernel(op).kernel;
    if (kernel != nullptr && !kernel->may_overwrite(0)) state->in_place.keep_apart(op);
  }
  for (const Device& device : devices.devices()) {
    auto memory = DeviceMemory::make(device.memory_bytes);
    if (!memory) return Error{memory.error().code, device.name + ": " + memory.error().context};
    state->memory.push_back(*std::move(memory));
  }
  state->pool = std::make_unique<WorkerPool>(devices.size());
  return std::unique_ptr<CpuExecutor>{new CpuExecutor{std::move(state)}};
}

std::vector<std::string> CpuExecutor::synthetic_types() const {
  return {state_->kernels->synthetic_types().begin(), state_->kernels->synthetic_types().end()};
}

Result<Unit> CpuExecutor::measure(std::span<const DeviceId> placement, Measurement& out) {
  return run(placement, out, nullptr);
}

Result<Unit> CpuExecutor::trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) {
  schedule = {};
  return run(placement, out, &schedule);
}

Result<Unit> CpuExecutor::run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule) {
  State& state = *state_;
  EMPLACE_TRY(check_devices(placement, state.lowered.num_ops(), state.devices.size()));
  out = {};
  const TaskPlan plan = state.plan(placement);
  const Machine machine = state.machine();
  const auto caps = state.caps();
  StepRun steps{machine, plan, caps};
  std::vector<double> busy_ns(state.devices.size(), 0);
  double synthetic_ns = 0;
  std::size_t counted = 0;
  const auto one_step = [&]() -> Result<double> {
    EMPLACE_TRY_ASSIGN(const auto took, state.step(steps));
    ++counted;
    for (std::size_t t = 0; t < plan.tasks().size(); ++t) {
      const TaskPlan::Task& task = plan.tasks()[t];
      if (task.is_copy) continue;
      const auto ns = static_cast<double>(steps.times()[t].end - steps.times()[t].start);
      busy_ns[index(task.target)] += ns;
      if (state.kernels->kernel(OpId{task.what}).kernel == nullptr) synthetic_ns += ns;
    }
    return took;
  };
  const auto timing = steps.prepare(state.values)
                          ? state.timer.time(one_step)
                          : Result<StepTiming>{Error{Errc::kOutOfMemory, "state does not fit"}};
  for (std::size_t d = 0; d < state.devices.size(); ++d)
    out.peak_bytes.push_back(steps.peak_bytes(static_cast<DeviceId>(d)));
  out.busy_s.assign(state.devices.size(), 0);
  if (!timing) {
    write_out_of_memory(*steps.out_of_memory(), state.graph, state.devices, out);
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
  const bool shaped = std::ranges::any_of(plan.tasks(), [&](const TaskPlan::Task& task) {
    return task.is_copy && state.devices.link(task.source, task.target).shaped;
  });
  out.label = measured_label(out.synthetic_share, shaped);
  if (schedule == nullptr) return Unit{};
  if (auto shown = state.step(steps); !shown) return Error{Errc::kRunFailed, "the traced step did not run"};
  for (std::size_t t = 0; t < plan.tasks().size(); ++t) {
    const TaskPlan::Task& task = plan.tasks()[t];
    const TaskTime& time = steps.times()[t];
    if (task.is_copy) {
      const BufferId buffer{task.what};
      schedule->transfers.push_back({state.lowered.tensor(buffer), task.source, task.target,
                                     state.lowered.bytes(buffer), seconds(time.start), seconds(time.end)});
    } else {
      schedule->ops.push_back({OpId{task.what}, task.target, seconds(time.start), seconds(time.end)});
    }
  }
  std::ranges::stable_sort(schedule->ops, {}, &OpRun::start_s);
  std::ranges::stable_sort(schedule->transfers, {}, &TransferRun::start_s);
  return Unit{};
}

Result<Fingerprint> CpuExecutor::State::fingerprint(std::span<const DeviceId> placement,
                                                    std::span<const std::int64_t> room,
                                                    std::vector<DeviceMemory>& on) {
  const TaskPlan tasks = plan(placement);
  const Machine with{lowered, *kernels, devices, costs, transfers, clock, on, *pool};
  StepRun steps{with, tasks, room};
  Fingerprint print;
  print.outputs.resize(lowered.num_ops());
  for (const OpId op : lowered.kernels()) print.outputs[index(op)].resize(graph.num_outputs(op));
  const StepRun::Watch watch = [&](OpId op, std::size_t output, std::span<const std::byte> bytes) {
    print.outputs[index(op)][output] = XXH3_128bits(bytes.data(), bytes.size());
  };
  if (!steps.prepare(values) || !steps.step(&watch)) {
    Measurement full;
    write_out_of_memory(*steps.out_of_memory(), graph, devices, full);
    return Error{Errc::kRunFailed, full.failure};
  }
  return print;
}

Result<Verification> CpuExecutor::verify(std::span<const DeviceId> placement) {
  State& state = *state_;
  EMPLACE_TRY(check_devices(placement, state.lowered.num_ops(), state.devices.size()));
  const auto caps = state.caps();
  EMPLACE_TRY_ASSIGN(const auto placed, state.fingerprint(placement, caps, state.memory));
  // A single-device reference run may need the combined memory.
  std::vector<std::int64_t> room(caps.size(), 0);
  room[0] = std::accumulate(caps.begin(), caps.end(), std::int64_t{0});
  std::vector<DeviceMemory> memory;
  for (const std::int64_t bytes : room) {
    EMPLACE_TRY_ASSIGN(auto one, DeviceMemory::make(std::max<std::int64_t>(bytes, DeviceMemory::kAlignment)));
    memory.push_back(std::move(one));
  }
  const Placement alone(state.lowered.num_ops(), DeviceId{0});
  const auto reference = state.fingerprint(alone, room, memory);
  if (!reference) return Error{Errc::kRunFailed, "on a single device: " + reference.error().context};
  // Outputs of synthetic ops, and values computed from them, are not comparable.
  Verification out;
  out.identical = true;
  std::vector<bool> filler(state.lowered.num_ops(), false);
  for (const OpId op : state.graph.topological_order()) {
    if (!state.lowered.takes_time(op)) continue;
    bool skipped = state.kernels->kernel(op).kernel == nullptr;
    for (const BufferId buffer : state.lowered.reads(op))
      skipped = skipped || filler[index(state.lowered.owner(buffer))];
    filler[index(op)] = skipped;
    for (std::size_t k = 0; k < state.graph.num_outputs(op); ++k) {
      ++(skipped ? out.skipped : out.compared);
      if (skipped || !out.identical) continue;
      if (XXH128_isEqual(placed.outputs[index(op)][k], reference->outputs[index(op)][k])) continue;
      out.identical = false;
      out.first_difference = state.graph.name(op);
    }
  }
  return out;
}

Result<ExecutorProfile> CpuExecutor::profile() {
  State& state = *state_;
  ExecutorProfile profile;
  const auto kernels = state.lowered.kernels();
  for (std::size_t d = 0; d < state.devices.size(); ++d) {
    const Placement alone(state.lowered.num_ops(), static_cast<DeviceId>(d));
    const TaskPlan plan = state.plan(alone);
    const Machine machine = state.machine();
    const auto caps = state.caps();
    StepRun steps{machine, plan, caps};
    std::vector<std::vector<double>> op_us(kernels.size());  // [kernels][samples]
    std::vector<double> overhead_us, step_s;
    const auto sampled = [&]() -> Result<double> {
      auto took = state.step(steps);
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
    const bool ready = steps.prepare(state.values);
    TimingOptions timing = state.options.timing;
    const std::uint32_t warmups = std::exchange(timing.warmups, 0);
    for (std::uint32_t i = 0; ready && i < warmups && state.step(steps); ++i) {
    }
    const auto timed = ready && !steps.out_of_memory()
                           ? time_steps(timing, sampled)
                           : Result<StepTiming>{Error{Errc::kOutOfMemory, "does not fit"}};
    if (!timed) {
      Measurement full;
      write_out_of_memory(*steps.out_of_memory(), state.graph, state.devices, full);
      return Error{Errc::kRunFailed, "profile: the graph does not fit on device " +
                                         state.devices[static_cast<DeviceId>(d)].name + " alone (" +
                                         full.failure + "); increase its memory"};
    }
    if (d == 0) profile.step_time_s = timed->step_time_s;
    profile.ops.emplace_back();
    for (std::size_t t = 0; t < kernels.size(); ++t)
      profile.ops.back().push_back({kernels[t], median(op_us[t]), median_deviation(op_us[t]),
                                    static_cast<std::uint32_t>(op_us[t].size()),
                                    state.kernels->kernel(kernels[t]).kernel == nullptr});
    profile.task_overhead_us.push_back(median(std::move(overhead_us)));
  }
  profile.links = probe_links(*state.pool, state.memory, state.clock);
  return profile;
}

}  // namespace emplace::cpu
