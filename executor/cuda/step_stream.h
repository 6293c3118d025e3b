#pragma once
/// Enqueues a program's instructions on the devices' streams, step after step.

#include <functional>
#include <vector>

#include "base/clock.h"
#include "executor/cuda/step_program.h"

namespace emplace::cuda {

/// Events of each device, made when they are first wanted and used again in every step. Thread: one at a
/// time.
class EventPool {
 public:
  EventPool(Session& session, const DeviceGroup& devices, unsigned flags)
      : session_{session}, devices_{devices}, flags_{flags}, events_(devices.size()) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Event `number` of a device, which becomes the current one. Errors: of Session.
  Result<cudaEvent_t> event(std::size_t device, std::size_t number);

 private:
  Session& session_;
  const DeviceGroup& devices_;
  const unsigned flags_;
  std::vector<std::vector<cudaEvent_t>> events_;  // [devices]
};

/// When an instruction ran [us], from its device's first one.
struct InstructionTime {
  double start_us = 0, end_us = 0;
};

/// Thread: one at a time.
class StepStream {
 public:
  /// Told of each kernel after it has ended.
  using Watch = std::function<Result<Unit>(const Instruction&)>;

  StepStream(Session& session, const DeviceGroup& devices, const Clock& clock)
      : session_{session},
        devices_{devices},
        clock_{clock},
        events_{session, devices, cudaEventDisableTiming},
        timing_events_{session, devices, cudaEventDefault} {}

  /// Makes what the program's steps need. Errors: of Session.
  Result<Unit> prepare(const StepProgram& program);
  /// One step [s], from before the first call to after everything has ended. Errors: of Session.
  Result<double> step(const StepProgram& program);
  /// One step with an event around every instruction; slower than others. `times` [instructions].
  Result<double> timed_step(const StepProgram& program, std::vector<InstructionTime>& times);
  /// One step that waits after every kernel.
  Result<Unit> watched_step(const StepProgram& program, const Watch& watch);

  /// Time of a call [us], alone on its device: `rounds` in a row between two events. Errors: of Session.
  Result<double> time_calls(const StepProgram& program, const Instruction& instruction, int rounds);

 private:
  enum class Mode : std::uint8_t { kPlain, kTimed, kWatched };
  Result<Unit> enqueue(const StepProgram& program, Mode mode, const Watch* watch);
  Result<Unit> enqueue_work(const StepProgram& program, const Instruction& instruction);
  Result<Unit> record(cudaEvent_t event, cudaStream_t stream);
  cudaStream_t stream_of(const Instruction& instruction) const {
    return devices_[instruction.stream / kStreamsPerDevice].stream(
        static_cast<StreamKind>(instruction.stream % kStreamsPerDevice));
  }

  Session& session_;
  const DeviceGroup& devices_;
  const Clock& clock_;
  EventPool events_, timing_events_;
  std::vector<cudaEvent_t> signals_;        // [instructions] null if nobody waits
  std::vector<cudaEvent_t> begins_, ends_;  // [instructions] of a timed step
};

}  // namespace emplace::cuda
