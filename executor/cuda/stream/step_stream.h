#pragma once
/// Enqueues a program's instructions on the devices' streams, step by step.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "executor/cuda/device/event_pool.h"
#include "executor/cuda/program/operand_copies.h"
#include "executor/cuda/program/step_program.h"
#include "executor/cuda/stream/captured_step.h"
#include "executor/cuda/stream/gpu_threads.h"

namespace emplace::cuda {

/// Time of an instruction since the first one of the step started [us].
struct InstructionTime {
  double start_us = 0, end_us = 0;
};

/// A plain step over several GPUs is enqueued by one host thread for each. Thread: one at a time.
class StepStream {
 public:
  /// Called after each kernel has ended.
  using Watch = std::function<Result<Unit>(const Instruction&)>;

  StepStream(Session& session, const DeviceGroup& devices, const Clock& clock)
      : session_{session},
        devices_{devices},
        clock_{clock},
        events_{session, devices, cudaEventDisableTiming},
        gates_{session, devices, cudaEventDisableTiming},
        timing_events_{session, devices, cudaEventDefault},
        captured_{session, devices} {}

  /// Creates the resources of the program's steps. Errors: those of Session.
  Result<Unit> prepare(const StepProgram& program);
  /// Captures the program's step, which step() then launches with one call, until the next prepare(). @pre
  /// step() has run it. Errors: as CapturedStep::capture(); step() then enqueues as before.
  Result<Unit> capture(const StepProgram& program);
  /// Runs one step and returns its duration [s], from before the first call until all work has ended.
  /// Errors: those of Session.
  Result<double> step(const StepProgram& program);
  bool is_captured() const { return captured_.ready(); }
  /// Starts the captured step `count` times in a row, after `delay` of the device's clock, without waiting.
  /// Steps of other streams run beside it if their programs use other devices. @pre is_captured()
  Result<Unit> start_steps(std::size_t count, std::chrono::nanoseconds delay);
  /// Waits for start_steps() and returns the time of one of the `count` steps on its device [s].
  Result<double> finish_steps(std::size_t count);
  /// Host time of the last step() up to the end of its last call [s]. Near the step's time: the host limits
  /// it.
  double enqueue_s() const { return enqueue_s_; }
  /// Runs one step with events around every instruction. The streams are held while the host enqueues, in
  /// stretches, so that an event never waits for the host: times are the devices', and pauses between
  /// stretches are left out. Instructions of different GPUs are compared by the host's clock, to about 10 us.
  /// Returns the time on the devices [s]. `times`: [instructions].
  Result<double> timed_step(const StepProgram& program, std::vector<InstructionTime>& times);
  /// Runs one step and waits after every kernel.
  Result<Unit> watched_step(const StepProgram& program, const Watch& watch);

  /// Duration of a call alone on its device [us]: `rounds` calls in a row between two events, enqueued while
  /// the stream is held. From the second call on, the L2 cache has its operands if they fit. Errors: those of
  /// Session.
  Result<double> time_calls(const StepProgram& program, const Instruction& instruction, std::size_t rounds);
  /// Time of a fixed computation on a device [us]: the faster its clock, the shorter. Errors: those of
  /// Session.
  Result<double> reference_us(std::size_t device);
  /// As time_calls(), with one call on each of `copies`, which no cache holds: they are made, then `flush` is
  /// overwritten. @pre `flush` is device memory of more than the L2 cache, and `copies` has at least one
  Result<double> time_cold_calls(const StepProgram& program, const Instruction& instruction,
                                 const OperandCopies& copies, std::span<std::byte> flush);

 private:
  enum class Mode : std::uint8_t { kPlain, kTimed, kWatched };
  /// Enqueues a whole step, with one thread for each GPU.
  Result<Unit> enqueue_all(const StepProgram& program);
  /// Progress of the threads that enqueue a step, by index.
  struct Progress {
    explicit Progress(std::size_t threads) : enqueued(threads) {}
    /// [threads] Instructions before this one are enqueued, as far as they are the thread's; kEnded: it
    /// ended.
    std::vector<std::atomic<std::uint32_t>> enqueued;
    static constexpr std::uint32_t kEnded = 0xffffffffu;
    std::atomic<bool> failed{false};
    Mutex mutex;
    std::size_t failed_at EMPLACE_GUARDED_BY(mutex) = static_cast<std::size_t>(-1);
    Error why EMPLACE_GUARDED_BY(mutex);
  };
  /// Enqueues the instructions of the GPU of thread `mine`.
  void enqueue_share(const StepProgram& program, std::size_t mine, Progress& progress);
  /// Enqueues one instruction and its waits. @pre its device is current
  Result<Unit> enqueue_one(const StepProgram& program, std::size_t number, Mode mode);
  /// Enqueues instructions [from, to).
  Result<Unit> enqueue(const StepProgram& program, Mode mode, const Watch* watch, std::size_t from,
                       std::size_t to);
  /// Holds all streams for about the time that it takes to enqueue `instructions`.
  Result<Unit> hold(std::size_t instructions);
  /// Records `zero` [devices] with everything idle; `zero_us`: when, by the host's clock.
  Result<Unit> record_zeros(std::vector<cudaEvent_t>& zero, std::vector<double>& zero_us);
  Result<Unit> enqueue_work(const StepProgram& program, const Instruction& instruction);
  /// Times `rounds` calls of `enqueue`, given the number of the call, on a device's compute stream [us].
  template <class Enqueue>
  Result<double> time_row(std::size_t device, std::size_t rounds, Enqueue enqueue);
  Result<Unit> record(cudaEvent_t event, cudaStream_t stream);
  static void run_host_call(void* call);
  cudaStream_t stream_of(const Instruction& instruction) const {
    return devices_[instruction.stream / kStreamsPerDevice].stream(
        static_cast<StreamKind>(instruction.stream % kStreamsPerDevice));
  }

  Session& session_;
  const DeviceGroup& devices_;
  const Clock& clock_;
  std::vector<int> gpus_;                // [threads] The GPU of each, those that the program uses.
  std::unique_ptr<GpuThreads> threads_;  // Created with the first program over several GPUs.
  EventPool events_, gates_, timing_events_;
  CapturedStep captured_;
  std::size_t home_ = 0;  // Device on which a captured step starts.
  double enqueue_s_ = 0;
  std::vector<cudaEvent_t> signals_;        // [instructions] Null if no stream waits for it.
  std::vector<cudaEvent_t> begins_, ends_;  // [instructions] Events of a timed step.
  /// A call on the CPU. The driver has its address until the step has ended.
  struct HostCall {
    const Kernel* kernel = nullptr;
    Pointers pointers;
  };
  std::vector<HostCall> host_calls_;  // [calls] Those on GPUs are empty.
};

}  // namespace emplace::cuda
