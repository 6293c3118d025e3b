// Profiles each op alone on each device, and each link.
#include <algorithm>
#include <map>
#include <span>

#include "executor/cuda/cuda_executor.h"
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

/// Cost of an op by its times in a step [us], or by those of its kernel in rows (null: not timed in rows), of
/// which `share` is cold.
OpCost cost_of(OpId op, const std::vector<double>& in_step_us, const RowTimes* row, double share,
               bool synthetic) {
  OpCost cost{op, median(in_step_us), median_deviation(in_step_us),
              static_cast<std::uint32_t>(in_step_us.size()), synthetic};
  if (row == nullptr) return cost;
  cost.us = median(row->hot), cost.mad_us = median_deviation(row->hot);
  if (row->cold.empty()) return cost;
  cost.hot_us = cost.us, cost.cold_us = median(row->cold);
  cost.us += share * (cost.cold_us - cost.hot_us);
  cost.mad_us = std::max(cost.mad_us, median_deviation(row->cold));
  return cost;
}

}  // namespace

/// Times of the ops of the whole graph on one device.
struct CudaExecutor::OpTimes {
  std::vector<std::vector<double>> in_step_us;  // [ops][samples]
  // Short kernels are timed in a row of many runs; ops with the same kernel share the result.
  std::map<const Kernel*, RowTimes> rows;
  std::vector<const RowTimes*> row_of;  // [ops] Null: not short.
  double hot_us = 0, cold_us = 0;       // Sums over all ops: if all find their operands in a cache, or none.
};

Result<ExecutorProfile> CudaExecutor::profile() {
  if (session_.poisoned()) return session_.sticky_error();
  finish_background();
  ExecutorProfile profile;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    if (auto done = profile_device(d, profile); !done) return call_failed(failed(done.error()));
  auto factors = corun();
  if (!factors) return call_failed(failed(factors.error()));
  profile.corun = *std::move(factors);
  auto links = probe_links();
  if (!links) return call_failed(failed(links.error()));
  profile.links = *std::move(links);
  return profile;
}

Result<Unit> CudaExecutor::profile_device(std::size_t device, ExecutorProfile& profile) {
  const PlacedProgram placed{*this, Placement(lowered_.num_ops(), static_cast<DeviceId>(device))};
  const StepProgram& program = placed.program;
  if (program.out_of_memory())
    return profile_failed(*program.out_of_memory(), graph_, devices_, static_cast<DeviceId>(device));
  EMPLACE_TRY(prepare(placed.plan, program));
  EMPLACE_TRY(step(program));  // Loads the kernels.
  EMPLACE_TRY(step(program));
  const auto ops = lowered_.kernels();
  const auto per_op = [&](double us) { return ops.empty() ? 0 : us / static_cast<double>(ops.size()); };
  profile.task_host_us.push_back(per_op(stream_->enqueue_s() * 1e6));
  EMPLACE_TRY(capture(program));  // As placements are measured.
  EMPLACE_TRY_ASSIGN(const auto plain, time_steps(options_.timing, [&] { return step(program); }));
  if (device == 0) profile.step_time_s = plain.step_time_s;
  OpTimes times;
  EMPLACE_TRY(time_in_steps(placed, times));
  EMPLACE_TRY(time_in_rows(device, placed, times));
  const double share = cold_share(plain.step_time_s * 1e6, times.hot_us, times.cold_us);
  profile.ops.emplace_back();
  for (const OpId op : ops)
    profile.ops.back().push_back(cost_of(op, times.in_step_us[index(op)], times.row_of[index(op)], share,
                                         kernels_[device].kernel(op).synthetic));
  const double left_us = plain.step_time_s * 1e6 - (times.hot_us + share * (times.cold_us - times.hot_us));
  profile.task_overhead_us.push_back(per_op(std::max(left_us, 0.0)));
  return Unit{};
}

Result<Unit> CudaExecutor::time_in_steps(const PlacedProgram& placed, OpTimes& times) {
  times.in_step_us.resize(lowered_.num_ops());
  for (std::uint32_t sample = 0; sample < std::max(options_.timing.samples, 1u); ++sample) {
    std::vector<InstructionTime> of;
    EMPLACE_TRY(stream_->timed_step(placed.program, of));
    for (std::size_t i = 0; i < of.size(); ++i)
      times.in_step_us[placed.plan.tasks()[placed.program.instructions()[i].task].what].push_back(
          of[i].end_us - of[i].start_us);
  }
  return Unit{};
}

/// Times short kernels in rows, as often as they were timed in steps.
Result<Unit> CudaExecutor::time_in_rows(std::size_t device, const PlacedProgram& placed, OpTimes& times) {
  const StepProgram& program = placed.program;
  const LogicalDevice& on = (*group_)[device];
  int cache_bytes = 0;
  if (!on.on_host())
    EMPLACE_TRY(session_.check(
        session_.api().runtime.DeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, on.physical()),
        "cudaDeviceGetAttribute"));
  const FreeMemory free = free_memory(on, program.reach_bytes(device), cache_bytes);
  times.row_of.assign(lowered_.num_ops(), nullptr);
  for (const Instruction& instruction : program.instructions()) {
    const OpId op{placed.plan.tasks()[instruction.task].what};
    const BoundKernel& bound = kernels_[device].kernel(op);
    const std::vector<double>& samples_us = times.in_step_us[index(op)];
    const double in_step_us = median(samples_us);
    if (instruction.num_calls != 1 || in_step_us >= kShortUs || bound.synthetic) {
      times.hot_us += in_step_us, times.cold_us += in_step_us;
      continue;
    }
    RowTimes& row = times.rows[bound.kernel];
    times.row_of[index(op)] = &row;
    if (row.hot.empty()) {
      EMPLACE_TRY_ASSIGN(row, time_rows(*stream_, program, instruction, samples_us.size(), free));
    }
    times.hot_us += median(row.hot), times.cold_us += median(row.cold.empty() ? row.hot : row.cold);
  }
  return Unit{};
}

/// Uses sizes of 1 KiB to 64 MiB, or up to what both memories can hold; the median of five runs each.
Result<std::vector<LinkCost>> CudaExecutor::probe_links() {
  std::vector<LinkCost> links;
  const RuntimeApi& runtime = session_.api().runtime;
  for (std::size_t s = 0; s < devices_.size(); ++s) {
    for (std::size_t t = 0; t < devices_.size(); ++t) {
      if (s == t) continue;
      const LogicalDevice &from = (*group_)[s], &to = (*group_)[t];
      const std::int64_t most = std::min({from.bytes(), to.bytes(), std::int64_t{64} << 20});
      const bool direct = group_->is_direct(s, t);
      EMPLACE_TRY(from.pin(most));
      EMPLACE_TRY(to.pin(most));
      const cudaStream_t out = from.stream(StreamKind::kCopyOut), in = to.stream(StreamKind::kCopyIn);
      EventPool events{session_, *group_, cudaEventDisableTiming};
      const auto wait_for = [&](std::size_t device, cudaStream_t stream, std::size_t other,
                                cudaStream_t after) -> Result<Unit> {
        EMPLACE_TRY_ASSIGN(const cudaEvent_t event, events.event(other, 0));
        EMPLACE_TRY(session_.check(runtime.EventRecord(event, after), "cudaEventRecord"));
        EMPLACE_TRY((*group_)[device].make_current());
        return session_.check(runtime.StreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
      };
      /// Enqueues one copy, in chunks as a step does; it starts when the copy before it has arrived.
      const auto enqueue = [&](std::int64_t bytes) -> Result<Unit> {
        EMPLACE_TRY(from.make_current());
        if (direct) return group_->copy(s, from.memory(), t, to.memory(), bytes);
        for (std::int64_t at = 0, chunk = 0; at < bytes; at += stages_.chunk_bytes, ++chunk) {
          const auto size = static_cast<std::size_t>(std::min(stages_.chunk_bytes, bytes - at));
          const auto number = static_cast<std::size_t>(chunk) % stages_.count;
          if (chunk == 0 || number == 0) EMPLACE_TRY(wait_for(s, out, t, in));
          EMPLACE_TRY(session_.check(runtime.MemcpyAsync(stages_.chunk(s, number), from.memory() + at, size,
                                                         cudaMemcpyDeviceToHost, out),
                                     "copy"));
          EMPLACE_TRY(wait_for(t, in, s, out));
          EMPLACE_TRY(session_.check(runtime.MemcpyAsync(to.memory() + at, stages_.chunk(s, number), size,
                                                         cudaMemcpyHostToDevice, in),
                                     "copy"));
          EMPLACE_TRY(from.make_current());
        }
        return Unit{};
      };
      /// Time of a copy in a chain of ten, so that the host's calls and its wait count for little.
      const auto once = [&](std::int64_t bytes) -> Result<double> {
        constexpr int kChain = 10;
        const Nanos begin = clock_.now();
        for (int i = 0; i < kChain; ++i) EMPLACE_TRY(enqueue(bytes));
        EMPLACE_TRY(group_->synchronize());
        return static_cast<double>((clock_.now() - begin).count()) * 1e-9 / kChain;
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
      LinkCost cost = fit_link(sizes, seconds, 1e-15);
      cost.source = static_cast<DeviceId>(s), cost.target = static_cast<DeviceId>(t);
      links.push_back(cost);
    }
  }
  return links;
}

}  // namespace emplace::cuda
