// Profiles each op alone on each device, and each link.
#include <algorithm>
#include <map>
#include <span>

#include "executor/cuda/cuda_executor.h"
#include "executor/cuda/executor_state.h"
#include "executor/cuda/program/operand_copies.h"
#include "executor/timing.h"

namespace emplace::cuda {
namespace {

// Kernels shorter than this are not timed alone, because the events around them would distort the time.
constexpr double kShortUs = 20;
constexpr std::size_t kRounds = 100;
// With fewer copies of its operands a call's time would be the events'.
constexpr std::size_t kLeastCopies = 8;

/// Times of a kernel that was run in rows [us].
struct RowTimes {
  std::vector<double> hot, cold;
};

/// Memory of a device beside a program: copies of operands, and what replaces the contents of the L2 cache.
struct FreeMemory {
  std::span<std::byte> copies, flush;
};

/// Twice the cache is overwritten, since its policy of replacement is unknown. Empty if there is not that
/// much.
FreeMemory free_memory(const LogicalDevice& device, std::int64_t used, std::int64_t cache_bytes) {
  const std::int64_t flush = 2 * cache_bytes / LogicalDevice::kAlignment * LogicalDevice::kAlignment;
  const std::int64_t free = device.bytes() - used;
  if (cache_bytes <= 0 || free <= flush) return {};
  std::byte* const begin = device.memory() + used;
  const auto room = static_cast<std::size_t>(free - flush);
  return {{begin, room}, {begin + room, static_cast<std::size_t>(flush)}};
}

/// Times a kernel `samples` times in rows, hot and, if there is room for copies of its operands, cold.
Result<RowTimes> time_rows(StepStream& stream, const StepProgram& program, const Instruction& instruction,
                           std::size_t samples, const FreeMemory& free) {
  RowTimes times;
  const OperandCopies copies{program, instruction, free.copies, kRounds};
  for (std::size_t sample = 0; sample < samples; ++sample) {
    EMPLACE_TRY_ASSIGN(const auto hot, stream.time_calls(program, instruction, kRounds));
    times.hot.push_back(hot);
    if (copies.size() < kLeastCopies) continue;
    EMPLACE_TRY_ASSIGN(const auto cold, stream.time_cold_calls(program, instruction, copies, free.flush));
    times.cold.push_back(cold);
  }
  return times;
}

/// Share of the way from hot to cold with which the ops of a step sum to its time: how much of their operands
/// ops find in a cache depends on the step, and one number per device describes it.
double cold_share(double step_us, double hot_us, double cold_us) {
  return cold_us > hot_us ? std::clamp((step_us - hot_us) / (cold_us - hot_us), 0.0, 1.0) : 1.0;
}

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
    EMPLACE_TRY(state.step(program));  // Loads the kernels.
    EMPLACE_TRY(state.step(program));
    profile.task_host_us.push_back(
        kernels.empty() ? 0 : state.stream->enqueue_s() * 1e6 / static_cast<double>(kernels.size()));
    EMPLACE_TRY(state.capture(program));  // As placements are measured.
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
    int cache_bytes = 0;
    if (!(*state.group)[d].on_host())
      EMPLACE_TRY(state.session.check(state.session.api().runtime.DeviceGetAttribute(
                                          &cache_bytes, cudaDevAttrL2CacheSize, (*state.group)[d].physical()),
                                      "cudaDeviceGetAttribute"));
    const FreeMemory free = free_memory((*state.group)[d], program.reach_bytes(d), cache_bytes);
    // Short kernels are timed in a row of many runs; ops with the same kernel share the result.
    std::map<const Kernel*, RowTimes> rows;
    std::vector<const RowTimes*> row_of(state.lowered.num_ops(), nullptr);
    double hot_us = 0, cold_us = 0;
    for (const Instruction& instruction : program.instructions()) {
      const OpId op{plan.tasks()[instruction.task].what};
      const BoundKernel& bound = state.kernels[d].kernel(op);
      const double in_step_us = median(op_us[index(op)]);
      if (instruction.num_calls != 1 || in_step_us >= kShortUs || bound.synthetic) {
        hot_us += in_step_us, cold_us += in_step_us;
        continue;
      }
      RowTimes& row = rows[bound.kernel];
      row_of[index(op)] = &row;
      if (row.hot.empty()) {
        EMPLACE_TRY_ASSIGN(row,
                           time_rows(*state.stream, program, instruction, op_us[index(op)].size(), free));
      }
      hot_us += median(row.hot), cold_us += median(row.cold.empty() ? row.hot : row.cold);
    }
    const double share = cold_share(plain.step_time_s * 1e6, hot_us, cold_us);
    profile.ops.emplace_back();
    for (const OpId op : kernels) {
      const auto& in_step = op_us[index(op)];
      OpCost cost{op, median(in_step), median_deviation(in_step), static_cast<std::uint32_t>(in_step.size()),
                  state.kernels[d].kernel(op).synthetic};
      if (const RowTimes* const row = row_of[index(op)]; row != nullptr) {
        cost.us = median(row->hot), cost.mad_us = median_deviation(row->hot);
        if (!row->cold.empty()) {
          cost.hot_us = cost.us, cost.cold_us = median(row->cold);
          cost.us += share * (cost.cold_us - cost.hot_us);
          cost.mad_us = std::max(cost.mad_us, median_deviation(row->cold));
        }
      }
      profile.ops.back().push_back(cost);
    }
    const double left_us = plain.step_time_s * 1e6 - (hot_us + share * (cold_us - hot_us));
    profile.task_overhead_us.push_back(
        kernels.empty() ? 0 : std::max(left_us, 0.0) / static_cast<double>(kernels.size()));
    return Unit{};
  };
  for (std::size_t d = 0; d < state.devices.size(); ++d)
    if (auto done = of_device(d); !done) return call_failed(state.failed(done.error()));
  auto factors = state.corun();
  if (!factors) return call_failed(state.failed(factors.error()));
  profile.corun = *std::move(factors);
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
        if (direct) return state.group->copy(s, from.memory(), t, to.memory(), bytes);
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
