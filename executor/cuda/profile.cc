// Profiles each op alone on each device, and each link.
#include <algorithm>
#include <map>

#include "executor/cuda/cuda_executor.h"
#include "executor/cuda/executor_state.h"
#include "executor/timing.h"

namespace emplace::cuda {
namespace {

// Kernels shorter than this are not timed alone, because the events around them would distort the time.
constexpr double kShortUs = 20;
constexpr int kRounds = 100;

/// Fits time = latency + bytes / rate by the median of all slopes (Theil and Sen).
LinkCost fit(std::span<const double> bytes, std::span<const double> seconds) {
  std::vector<double> slopes, rests;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (std::size_t j = i + 1; j < bytes.size(); ++j)
      slopes.push_back((seconds[j] - seconds[i]) / (bytes[j] - bytes[i]));
  const double slope = std::max(median(std::move(slopes)), 1e-15);
  for (std::size_t i = 0; i < bytes.size(); ++i) rests.push_back(seconds[i] - slope * bytes[i]);
  return {.latency_s = std::max(median(std::move(rests)), 0.0), .bytes_per_s = 1 / slope};
}

}  // namespace

Result<ExecutorProfile> CudaExecutor::profile() {
  State& state = *state_;
  if (state.session.poisoned()) return state.session.sticky_error();
  state.finish_background();
  const auto kernels = state.lowered.kernels();
  ExecutorProfile profile;
  const auto of_device = [&](std::size_t d) -> Result<Unit> {
    const TaskPlan plan = state.plan(Placement(state.lowered.num_ops(), static_cast<DeviceId>(d)));
    const StepProgram program = state.program(plan);
    if (program.out_of_memory()) {
      Measurement full;
      write_out_of_memory(*program.out_of_memory(), state.graph, state.devices, full);
      return Error{Errc::kRunFailed, "profile: the graph does not fit on device " +
                                         state.devices[static_cast<DeviceId>(d)].name + " alone (" +
                                         full.failure + "); increase its memory"};
    }
    EMPLACE_TRY(state.prepare(plan, program));
    EMPLACE_TRY_ASSIGN(const auto plain,
                       time_steps(state.options.timing, [&] { return state.step(program); }));
    if (d == 0) profile.step_time_s = plain.step_time_s;
    std::vector<std::vector<double>> op_us(state.lowered.num_ops());
    for (std::uint32_t sample = 0; sample < std::max(state.options.timing.samples, 1u); ++sample) {
      std::vector<InstructionTime> times;
      EMPLACE_TRY(state.stream->timed_step(program, times));
      for (std::size_t i = 0; i < times.size(); ++i)
        op_us[plan.tasks()[program.instructions()[i].task].what].push_back(times[i].end_us -
                                                                           times[i].start_us);
    }
    // Short kernels are timed in a row of many runs; ops with the same kernel share the result.
    std::map<const Kernel*, std::vector<double>> short_us;
    double sum_us = 0;
    for (const Instruction& instruction : program.instructions()) {
      const OpId op{plan.tasks()[instruction.task].what};
      const Kernel* const kernel = state.kernels[d].kernel(op).kernel;
      auto& mine = op_us[index(op)];
      if (program.calls(instruction).size() == 1 && median(mine) < kShortUs &&
          !state.kernels[d].kernel(op).synthetic) {
        auto& of_kernel = short_us[kernel];
        while (of_kernel.size() < mine.size()) {
          EMPLACE_TRY_ASSIGN(const auto us, state.stream->time_calls(program, instruction, kRounds));
          of_kernel.push_back(us);
        }
        mine = of_kernel;
      }
      sum_us += median(mine);
    }
    profile.ops.emplace_back();
    for (const OpId op : kernels) {
      const auto& mine = op_us[index(op)];
      profile.ops.back().push_back({op, median(mine), median_deviation(mine),
                                    static_cast<std::uint32_t>(mine.size()),
                                    state.kernels[d].kernel(op).synthetic});
    }
    const double left_us = plain.step_time_s * 1e6 - sum_us;
    profile.task_overhead_us.push_back(
        kernels.empty() ? 0 : std::max(left_us, 0.0) / static_cast<double>(kernels.size()));
    return Unit{};
  };
  for (std::size_t d = 0; d < state.devices.size(); ++d)
    if (auto done = of_device(d); !done) return call_failed(state.failed(done.error()));
  auto links = probe_links();
  if (!links) return call_failed(state.failed(links.error()));
  profile.links = *std::move(links);
  return profile;
}

/// Uses sizes of 1 KiB to 64 MiB, or up to what both memories can hold; the median of five runs each.
Result<std::vector<LinkCost>> CudaExecutor::probe_links() {
  State& state = *state_;
  std::vector<LinkCost> links;
  const RuntimeApi& runtime = state.session.api().runtime;
  for (std::size_t s = 0; s < state.devices.size(); ++s) {
    for (std::size_t t = 0; t < state.devices.size(); ++t) {
      if (s == t) continue;
      const LogicalDevice &from = (*state.group)[s], &to = (*state.group)[t];
      const std::int64_t most = std::min({from.bytes(), to.bytes(), std::int64_t{64} << 20});
      const bool direct = state.group->is_direct(s, t);
      EMPLACE_TRY(from.pin(most));
      EMPLACE_TRY(to.pin(most));
      const cudaStream_t out = from.stream(StreamKind::kCopyOut), in = to.stream(StreamKind::kCopyIn);
      EventPool events{state.session, *state.group, cudaEventDisableTiming};
      const auto wait_for = [&](std::size_t device, cudaStream_t stream, std::size_t other,
                                cudaStream_t after) -> Result<Unit> {
        EMPLACE_TRY_ASSIGN(const cudaEvent_t event, events.event(other, 0));
        EMPLACE_TRY(state.session.check(runtime.EventRecord(event, after), "cudaEventRecord"));
        EMPLACE_TRY((*state.group)[device].make_current());
        return state.session.check(runtime.StreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
      };
      /// Enqueues one copy, in chunks as a step does; it starts when the copy before it has arrived.
      const auto enqueue = [&](std::int64_t bytes) -> Result<Unit> {
        EMPLACE_TRY(from.make_current());
        if (direct) return state.group->copy(s, from.memory(), t, to.memory(), bytes, out);
        for (std::int64_t at = 0, chunk = 0; at < bytes; at += state.stages.chunk_bytes, ++chunk) {
          const auto size = static_cast<std::size_t>(std::min(state.stages.chunk_bytes, bytes - at));
          const auto number = static_cast<std::size_t>(chunk) % state.stages.count;
          if (chunk == 0 || number == 0) EMPLACE_TRY(wait_for(s, out, t, in));
          EMPLACE_TRY(
              state.session.check(runtime.MemcpyAsync(state.stages.chunk(s, number), from.memory() + at, size,
                                                      cudaMemcpyDeviceToHost, out),
                                  "copy"));
          EMPLACE_TRY(wait_for(t, in, s, out));
          EMPLACE_TRY(state.session.check(runtime.MemcpyAsync(to.memory() + at, state.stages.chunk(s, number),
                                                              size, cudaMemcpyHostToDevice, in),
                                          "copy"));
          EMPLACE_TRY(from.make_current());
        }
        return Unit{};
      };
      /// Time of a copy in a chain of ten, so that the host's calls and its wait count for little.
      const auto once = [&](std::int64_t bytes) -> Result<double> {
        constexpr int kChain = 10;
        const Nanos begin = state.clock.now();
        for (int i = 0; i < kChain; ++i) EMPLACE_TRY(enqueue(bytes));
        EMPLACE_TRY(state.group->synchronize());
        return static_cast<double>((state.clock.now() - begin).count()) * 1e-9 / kChain;
      };
      std::vector<double> sizes, seconds;
      for (std::int64_t bytes = 1024; bytes <= most; bytes *= 2) {
        std::vector<double> samples;
        for (int i = 0; i < 6; ++i) {
          EMPLACE_TRY_ASSIGN(const auto took, once(bytes));
          if (i > 0) samples.push_back(took);
        }
        sizes.push_back(static_cast<double>(bytes));
        seconds.push_back(median(std::move(samples)));
      }
      if (sizes.size() < 2) continue;  // Memories of a few pages.
      LinkCost cost = fit(sizes, seconds);
      cost.source = static_cast<DeviceId>(s), cost.target = static_cast<DeviceId>(t);
      links.push_back(cost);
    }
  }
  return links;
}

}  // namespace emplace::cuda
