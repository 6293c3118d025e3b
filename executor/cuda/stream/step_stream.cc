#include "executor/cuda/stream/step_stream.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "executor/cuda/kernels/probes.h"

namespace emplace::cuda {

namespace {

/// Host time to enqueue one instruction with its events, at most [ns] (estimated).
constexpr std::uint64_t kHoldNs = 20'000;
/// Instructions that are enqueued while the streams are held. About a thousand calls fit into a stream's
/// queue; then the host waits, which must not happen before the streams are let go.
constexpr std::size_t kStretch = 300;

/// Notifies the observer, if any, when a task's calls start and end, also after errors.
class Observed {
 public:
  template <class Name, class Uses>
  Observed(TaskObserver* observer, Name name, Uses uses) : observer_{observer} {
    if (observer_ != nullptr) observer_->on_task_start(name(), uses());
  }
  Observed(TaskObserver* observer, const Instruction& instruction, const StepProgram& program)
      : Observed{observer, [&] { return program.task_name(instruction); },
                 [&] { return program.uses(instruction); }} {}
  ~Observed() {
    if (observer_ != nullptr) observer_->on_task_end();
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  TaskObserver* const observer_;
};

}  // namespace

Result<Unit> StepStream::record(cudaEvent_t event, cudaStream_t stream) {
  return session_.check(session_.api().runtime.EventRecord(event, stream), "cudaEventRecord");
}

Result<Unit> StepStream::prepare(const StepProgram& program) {
  captured_.drop();
  std::set<int> gpus;
  for (const std::size_t device : program.used_devices()) gpus.insert(devices_[device].gpu());
  gpus_.assign(gpus.begin(), gpus.end());
  if (gpus_.size() > 1 && (threads_ == nullptr || threads_->size() != gpus_.size()))
    threads_ = std::make_unique<GpuThreads>(gpus_.size());
  std::vector<std::size_t> used(devices_.size(), 0);
  signals_.assign(program.instructions().size(), nullptr);
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    const Instruction& instruction = program.instructions()[i];
    if (!instruction.signals) continue;
    const std::size_t device = instruction.stream / kStreamsPerDevice;
    EMPLACE_TRY_ASSIGN(signals_[i], events_.event(device, used[device]++));
  }
  host_calls_.assign(program.num_calls(), {});
  for (const Instruction& instruction : program.instructions()) {
    if (!devices_[instruction.stream / kStreamsPerDevice].on_host()) continue;
    std::size_t number = instruction.first_call;
    for (const Call& call : program.calls(instruction))
      host_calls_[number++] = {call.kernel, program.pointers(call)};
  }
  return Unit{};
}

Result<Unit> StepStream::enqueue_work(const StepProgram& program, const Instruction& instruction) {
  const std::size_t device = instruction.stream / kStreamsPerDevice;
  const auto kind = static_cast<StreamKind>(instruction.stream % kStreamsPerDevice);
  const Lane lane = devices_[device].lane(kind);
  const RuntimeApi& runtime = session_.api().runtime;
  std::size_t number = instruction.first_call;
  for (const Call& call : program.calls(instruction)) {
    EMPLACE_TRY(
        devices_[device].on_host()
            ? session_.check(runtime.LaunchHostFunc(lane.stream, &run_host_call, &host_calls_[number]),
                             "cudaLaunchHostFunc")
            : call.kernel->enqueue(lane, program.pointers(call)));
    ++number;
  }
  const auto bytes = static_cast<std::size_t>(instruction.bytes);
  switch (instruction.kind) {
    case Instruction::Kind::kKernel:
      return Unit{};
    case Instruction::Kind::kDirectCopy:
      return devices_.copy(device, instruction.from, instruction.target, instruction.to, instruction.bytes);
    case Instruction::Kind::kToHost:
      return session_.check(
          runtime.MemcpyAsync(instruction.to, instruction.from, bytes, cudaMemcpyDeviceToHost, lane.stream),
          "cudaMemcpyAsync to the host");
    case Instruction::Kind::kFromHost:
      return session_.check(
          runtime.MemcpyAsync(instruction.to, instruction.from, bytes, cudaMemcpyHostToDevice, lane.stream),
          "cudaMemcpyAsync from the host");
  }
  return Unit{};
}

void CUDART_CB StepStream::run_host_call(void* call) {
  const auto& one = *static_cast<const HostCall*>(call);
  one.kernel->run(one.pointers);
}

Result<Unit> StepStream::enqueue_one(const StepProgram& program, std::size_t number, Mode mode) {
  const Instruction& instruction = program.instructions()[number];
  const cudaStream_t stream = stream_of(instruction);
  for (const std::uint32_t other : program.waits(instruction))
    EMPLACE_TRY(session_.check(session_.api().runtime.StreamWaitEvent(stream, signals_[other], 0),
                               "cudaStreamWaitEvent"));
  const Observed observed{session_.api().observer, instruction, program};
  if (mode == Mode::kTimed) EMPLACE_TRY(record(begins_[number], stream));
  EMPLACE_TRY(enqueue_work(program, instruction));
  if (mode == Mode::kTimed) EMPLACE_TRY(record(ends_[number], stream));
  return instruction.signals ? record(signals_[number], stream) : Unit{};
}

Result<Unit> StepStream::enqueue(const StepProgram& program, Mode mode, const Watch* watch, std::size_t from,
                                 std::size_t to) {
  std::size_t current = devices_.size();
  for (std::size_t i = from; i < to; ++i) {
    const Instruction& instruction = program.instructions()[i];
    const std::size_t device = instruction.stream / kStreamsPerDevice;
    if (device != current) EMPLACE_TRY(devices_[device].make_current());
    current = device;
    EMPLACE_TRY(enqueue_one(program, i, mode));
    if (mode != Mode::kWatched || instruction.kind != Instruction::Kind::kKernel) continue;
    EMPLACE_TRY(session_.check(session_.api().runtime.StreamSynchronize(stream_of(instruction)),
                               "cudaStreamSynchronize"));
    EMPLACE_TRY((*watch)(instruction));
  }
  return Unit{};
}

void StepStream::enqueue_share(const StepProgram& program, std::size_t mine, Progress& progress) {
  const auto gpu_of = [&](const Instruction& instruction) {
    return devices_[instruction.stream / kStreamsPerDevice].gpu();
  };
  /// Waits until instruction `number` is enqueued: a stream does not wait for an event that will be recorded.
  /// Instructions wait for earlier ones only, so the thread with the earliest one never waits.
  const auto wait_for = [&](std::uint32_t number) {
    const auto at = std::ranges::find(gpus_, gpu_of(program.instructions()[number]));
    const auto& enqueued = progress.enqueued[static_cast<std::size_t>(at - gpus_.begin())];
    for (std::uint32_t seen = enqueued; seen <= number; seen = enqueued) enqueued.wait(seen);
  };
  const auto announce = [&](std::uint32_t number) {
    progress.enqueued[mine] = number;
    progress.enqueued[mine].notify_all();
  };
  std::size_t current = devices_.size();
  for (std::size_t i = 0; i < program.instructions().size() && !progress.failed; ++i) {
    const Instruction& instruction = program.instructions()[i];
    if (gpu_of(instruction) != gpus_[mine]) continue;
    const auto done = [&]() -> Result<Unit> {
      const std::size_t device = instruction.stream / kStreamsPerDevice;
      if (device != current) EMPLACE_TRY(devices_[device].make_current());
      current = device;
      for (const std::uint32_t other : program.waits(instruction))
        if (gpu_of(program.instructions()[other]) != gpus_[mine]) wait_for(other);
      return progress.failed ? Unit{} : enqueue_one(program, i, Mode::kPlain);
    }();
    if (!done) {
      const MutexLock lock{progress.mutex};
      if (i < progress.failed_at) progress.failed_at = i, progress.why = done.error();
      progress.failed = true;
    }
    if (instruction.signals) announce(static_cast<std::uint32_t>(i + 1));
  }
  announce(Progress::kEnded);
}

Result<Unit> StepStream::enqueue_all(const StepProgram& program) {
  if (gpus_.size() < 2) return enqueue(program, Mode::kPlain, nullptr, 0, program.instructions().size());
  Progress progress{gpus_.size()};
  threads_->run([&](std::size_t mine) { enqueue_share(program, mine, progress); });
  if (!progress.failed) return Unit{};
  const MutexLock lock{progress.mutex};
  return session_.poisoned() ? session_.sticky_error() : progress.why;
}

Result<Unit> StepStream::capture(const StepProgram& program) {
  const auto all = [&] { return enqueue(program, Mode::kPlain, nullptr, 0, program.instructions().size()); };
  auto used = program.used_devices();
  if (used.empty()) return Unit{};
  home_ = used.front();
  return captured_.capture(std::move(used), all);
}

Result<Unit> StepStream::start_steps(std::size_t count, std::chrono::nanoseconds delay) {
  EMPLACE_TRY_ASSIGN(const cudaEvent_t begin, timing_events_.event(home_, 0));  // Makes the device current.
  EMPLACE_TRY_ASSIGN(const cudaEvent_t end, timing_events_.event(home_, 1));
  const cudaStream_t stream = devices_[home_].stream(StreamKind::kCompute);
  EMPLACE_TRY(enqueue_spin(devices_[home_].lane(), static_cast<std::uint64_t>(delay.count())));
  EMPLACE_TRY(record(begin, stream));
  for (std::size_t i = 0; i < count; ++i) EMPLACE_TRY(captured_.launch());
  return record(end, stream);
}

Result<double> StepStream::finish_steps(std::size_t count) {
  EMPLACE_TRY_ASSIGN(const cudaEvent_t begin, timing_events_.event(home_, 0));
  EMPLACE_TRY_ASSIGN(const cudaEvent_t end, timing_events_.event(home_, 1));
  EMPLACE_TRY(
      session_.check(session_.api().runtime.StreamSynchronize(devices_[home_].stream(StreamKind::kCompute)),
                     "cudaStreamSynchronize"));
  float ms = 0;
  EMPLACE_TRY(
      session_.check(session_.api().runtime.EventElapsedTime(&ms, begin, end), "cudaEventElapsedTime"));
  return static_cast<double>(ms) * 1e-3 / static_cast<double>(count);
}

Result<double> StepStream::step(const StepProgram& program) {
  const Nanos begin = clock_.now();
  EMPLACE_TRY(captured_.ready() ? captured_.launch() : enqueue_all(program));
  enqueue_s_ = static_cast<double>((clock_.now() - begin).count()) * 1e-9;
  EMPLACE_TRY(devices_.synchronize());
  return static_cast<double>((clock_.now() - begin).count()) * 1e-9;
}

Result<Unit> StepStream::watched_step(const StepProgram& program, const Watch& watch) {
  EMPLACE_TRY(enqueue(program, Mode::kWatched, &watch, 0, program.instructions().size()));
  return devices_.synchronize();
}

Result<Unit> StepStream::hold(std::size_t instructions) {
  const auto gate_ns = static_cast<std::uint64_t>(instructions) * kHoldNs;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    EMPLACE_TRY_ASSIGN(const cudaEvent_t gate, gates_.event(d, 0));  // Makes the device current.
    EMPLACE_TRY(enqueue_spin(devices_[d].lane(), gate_ns));
    EMPLACE_TRY(record(gate, devices_[d].stream(StreamKind::kCompute)));
    for (const StreamKind kind : {StreamKind::kCopyOut, StreamKind::kCopyIn})
      EMPLACE_TRY(session_.check(session_.api().runtime.StreamWaitEvent(devices_[d].stream(kind), gate, 0),
                                 "cudaStreamWaitEvent"));
  }
  return Unit{};
}

Result<Unit> StepStream::record_zeros(std::vector<cudaEvent_t>& zero, std::vector<double>& zero_us) {
  EMPLACE_TRY(devices_.synchronize());
  const Nanos begin = clock_.now();
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    EMPLACE_TRY_ASSIGN(zero[d], timing_events_.event(d, 0));
    const cudaStream_t stream = devices_[d].stream(StreamKind::kCompute);
    EMPLACE_TRY(record(zero[d], stream));
    EMPLACE_TRY(session_.check(session_.api().runtime.StreamSynchronize(stream), "cudaStreamSynchronize"));
    zero_us[d] = static_cast<double>((clock_.now() - begin).count()) * 1e-3;
    for (std::size_t other = 0; other < d; ++other) {
      if (devices_[other].physical() != devices_[d].physical()) continue;
      // One GPU has one clock, which is exact; where its contexts do not share events, the host's clock
      // remains.
      float ms = 0;
      if (session_.check(session_.api().runtime.EventElapsedTime(&ms, zero[other], zero[d]),
                         "cudaEventElapsedTime"))
        zero_us[d] = zero_us[other] + static_cast<double>(ms) * 1e3;
      if (session_.poisoned()) return session_.sticky_error();
      break;
    }
  }
  return Unit{};
}

Result<double> StepStream::timed_step(const StepProgram& program, std::vector<InstructionTime>& times) {
  const std::size_t count = program.instructions().size();
  std::vector<cudaEvent_t> zero(devices_.size(), nullptr);
  std::vector<double> zero_us(devices_.size(), 0);
  EMPLACE_TRY(record_zeros(zero, zero_us));
  std::vector<std::size_t> used(devices_.size(), 1);
  begins_.assign(count, nullptr), ends_.assign(count, nullptr);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t device = program.instructions()[i].stream / kStreamsPerDevice;
    for (auto* const events : {&begins_, &ends_}) {
      EMPLACE_TRY_ASSIGN(auto event, timing_events_.event(device, used[device]++));
      (*events)[i] = event;
    }
  }
  for (std::size_t from = 0; from < count; from += kStretch) {
    const std::size_t to = std::min(count, from + kStretch);
    EMPLACE_TRY(hold(to - from));
    EMPLACE_TRY(enqueue(program, Mode::kTimed, nullptr, from, to));
    EMPLACE_TRY(devices_.synchronize());
  }
  times.assign(count, {});
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t device = program.instructions()[i].stream / kStreamsPerDevice;
    EMPLACE_TRY(devices_[device].make_current());
    float from_ms = 0, to_ms = 0;
    for (const auto& [event, ms] : {std::pair{begins_[i], &from_ms}, std::pair{ends_[i], &to_ms}})
      EMPLACE_TRY(session_.check(session_.api().runtime.EventElapsedTime(ms, zero[device], event),
                                 "cudaEventElapsedTime"));
    times[i] = {zero_us[device] + static_cast<double>(from_ms) * 1e3,
                zero_us[device] + static_cast<double>(to_ms) * 1e3};
  }
  double end_us = 0;
  for (std::size_t from = 0; from < count; from += kStretch) {
    const auto stretch = std::span{times}.subspan(from, std::min(count - from, kStretch));
    const double begin_us = std::ranges::min_element(stretch, {}, &InstructionTime::start_us)->start_us;
    const double shift_us = end_us - begin_us;
    for (InstructionTime& one : stretch) {
      one.start_us += shift_us, one.end_us += shift_us;
      end_us = std::max(end_us, one.end_us);
    }
  }
  return end_us * 1e-6;
}

template <class Enqueue>
Result<double> StepStream::time_row(std::size_t device, std::size_t rounds, Enqueue enqueue) {
  EMPLACE_TRY_ASSIGN(const cudaEvent_t begin, timing_events_.event(device, 0));
  EMPLACE_TRY_ASSIGN(const cudaEvent_t end, timing_events_.event(device, 1));
  const cudaStream_t stream = devices_[device].stream(StreamKind::kCompute);
  EMPLACE_TRY(enqueue_spin(devices_[device].lane(), static_cast<std::uint64_t>(rounds) * kHoldNs));
  EMPLACE_TRY(record(begin, stream));
  for (std::size_t round = 0; round < rounds; ++round) EMPLACE_TRY(enqueue(round));
  EMPLACE_TRY(record(end, stream));
  EMPLACE_TRY(session_.check(session_.api().runtime.StreamSynchronize(stream), "cudaStreamSynchronize"));
  float ms = 0;
  EMPLACE_TRY(
      session_.check(session_.api().runtime.EventElapsedTime(&ms, begin, end), "cudaEventElapsedTime"));
  return static_cast<double>(ms) * 1e3 / static_cast<double>(rounds);
}

Result<double> StepStream::time_calls(const StepProgram& program, const Instruction& instruction,
                                      std::size_t rounds) {
  return time_row(instruction.stream / kStreamsPerDevice, rounds, [&](std::size_t) {
    const Observed observed{session_.api().observer, instruction, program};
    return enqueue_work(program, instruction);
  });
}

Result<double> StepStream::reference_us(std::size_t device) {
  constexpr std::size_t kRounds = 3;
  EMPLACE_TRY(devices_[device].make_current());
  return time_row(device, kRounds, [&](std::size_t) { return enqueue_count(devices_[device].lane()); });
}

Result<double> StepStream::time_cold_calls(const StepProgram& program, const Instruction& instruction,
                                           const OperandCopies& copies, std::span<std::byte> flush) {
  const std::size_t device = instruction.stream / kStreamsPerDevice;
  const Lane lane = devices_[device].lane();
  EMPLACE_TRY(devices_[device].make_current());
  for (std::size_t number = 0; number < copies.size(); ++number) {
    for (const OperandCopies::Range& range : copies.ranges()) {
      if (range.scratch || range.bytes == 0) continue;
      EMPLACE_TRY(session_.check(
          session_.api().runtime.MemcpyAsync(copies.memory(range, number), range.original, range.bytes,
                                             cudaMemcpyDeviceToDevice, lane.stream),
          "cudaMemcpyAsync of operands"));
    }
  }
  EMPLACE_TRY(session_.check(session_.api().runtime.MemsetAsync(flush.data(), 0, flush.size(), lane.stream),
                             "cudaMemsetAsync"));
  const Kernel& kernel = *program.calls(instruction)[0].kernel;
  return time_row(device, copies.size(), [&](std::size_t number) {
    const Observed observed{session_.api().observer, [&] { return program.task_name(instruction); },
                            [&] { return copies.uses(number); }};
    return kernel.enqueue(lane, copies.pointers(number));
  });
}

}  // namespace emplace::cuda
