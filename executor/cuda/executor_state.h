#pragma once
/// State of the CUDA executor between placements. Internal to executor/cuda.

#include <future>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "executor/cuda/cuda_executor.h"
#include "executor/cuda/library_kernels/engine_choices.h"
#include "executor/cuda/stream/step_stream.h"
#include "executor/kernel/initial_values.h"
#include "executor/sim/simulator.h"
#include "executor/timing.h"

namespace emplace::cuda {

/// Pinned host memory; not freed once the session is poisoned.
class PinnedMemory {
 public:
  explicit PinnedMemory(Session& session) : session_{session} {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  Result<std::byte*> take(std::int64_t bytes);

 private:
  Session& session_;
  std::vector<void*> blocks_;
};

/// Converts an error to the result of measure(), verify() and profile(): kDeviceLost or kRunFailed.
Error call_failed(const Error& error);

struct CudaExecutor::State {
  /// What the host computes for a placement before its first step, without a call to CUDA.
  struct PlacedProgram {
    PlacedProgram(State& state, std::span<const DeviceId> placement)
        : plan{state.plan(placement)}, program{state.program(plan)} {}
    PlacedProgram(const PlacedProgram&) = delete;
    PlacedProgram& operator=(const PlacedProgram&) = delete;

    const TaskPlan plan;
    const StepProgram program;  // Points to the plan.
  };

  State(const OpGraph& graph, const DeviceSet& devices, const RealOptions& options, const Clock& clock,
        const CudaApi& api);

  TaskPlan plan(std::span<const DeviceId> placement) const;
  /// Uses the simulator, so only one thread at a time makes a program.
  StepProgram program(const TaskPlan& plan);
  /// Returns the program of a placement, from the background if it was made there, and starts to make that of
  /// the expected placement.
  std::unique_ptr<const PlacedProgram> take_program(std::span<const DeviceId> placement);
  /// Waits until no program is made in the background. @post this thread may make programs
  void finish_background();
  /// Makes the state on its devices. Errors: those of Session.
  Result<Unit> fill(const TaskPlan& plan, const StepProgram& program);
  /// Makes the state, and prepares the stream. Errors: those of Session.
  Result<Unit> prepare(const TaskPlan& plan, const StepProgram& program);
  /// Copies synchronously. Errors: those of Session.
  Result<Unit> from_device(std::size_t device, const std::byte* from, std::span<std::byte> to);
  /// Captures the step, unless options forbid it or it failed before. Errors: kDeviceLost, and those of a
  /// step.
  Result<Unit> capture(const StepProgram& program);
  /// Runs steps for a tenth of a second, until clocks have risen. Errors: those of Session.
  Result<Unit> warm_up(const StepProgram& program);
  /// Times a fixed computation on each GPU of the program [us], to see whether clocks move.
  Result<std::vector<double>> reference_us(const StepProgram& program);
  /// Steps of a placement, timed as a whole, and one step whose instructions are timed.
  struct Timed {
    StepTiming steps;
    double traced_s = 0;                 ///< Time of the further step on the devices.
    std::vector<InstructionTime> times;  ///< [instructions] Of the further step.
  };
  /// Makes the state and times steps; notes whether clocks moved meanwhile. Errors: those of a step.
  Result<Timed> time(const PlacedProgram& placed);
  /// Adds the kernels' times to `out.busy_s`, and sets the share of synthetic ones.
  void add_busy(const PlacedProgram& placed, std::span<const InstructionTime> times, Measurement& out) const;
  /// Whether copies or devices of a placement are not those of the device file.
  bool is_emulated(const TaskPlan& plan, std::span<const DeviceId> placement) const;
  Schedule schedule_of(const PlacedProgram& placed, std::span<const InstructionTime> times) const;
  /// Runs StepStream::step and reports progress.
  Result<double> step(const StepProgram& program);
  /// Measures [devices] the factor on the time of the whole graph on a device while all others of its GPU run
  /// it, too; 0 for a device with a GPU of its own, or whose steps are not captured. Errors: those of
  /// Session.
  Result<std::vector<double>> corun();
  /// Appends the times of the whole graph on one device. Errors: kRunFailed if it does not fit there; those
  /// of a step.
  Result<Unit> profile_device(std::size_t device, ExecutorProfile& profile);
  struct OpTimes;
  Result<Unit> time_in_steps(const PlacedProgram& placed, OpTimes& times);
  Result<Unit> time_in_rows(std::size_t device, const PlacedProgram& placed, OpTimes& times);
  struct LoneStep;
  Result<Unit> make_lone(std::size_t device, LoneStep& step);
  Result<double> time_beside(LoneStep& step, std::size_t count, std::span<LoneStep* const> others);
  /// Handles an error: after kOutOfMemory the devices are drained.
  Error failed(const Error& error);

  const OpGraph& graph;
  const DeviceSet& devices;
  const RealOptions options;
  const Clock& clock;
  const LoweredGraph lowered;
  InPlaceWrites in_place;
  const CostTable costs;
  const InitialValues values;
  Simulator simulator;
  Session session;  // Declared first: it must outlive everything that calls CUDA.
  std::unique_ptr<DeviceGroup> group;
  EngineChoices engines{options.timing.tune};
  std::vector<BoundGraph> kernels;  // [devices]
  std::unique_ptr<PinnedMemory> pinned;
  HostStages stages;
  std::unique_ptr<StepStream> stream;
  std::vector<std::unique_ptr<Kernel>> fills;  // [buffers] Make initial values; created on first use.
  StepTimer timer{options.timing};
  Placement expected;  // Announced; its program is made once the next one is taken. Empty: none.
  Placement in_background;
  bool was_expected = false, host_limits = false, clock_moved = false;
  std::string why_not_captured;  // Empty until capturing a step failed.
  double clock_ratio = 1, enqueue_s = 0, prepare_s = 0;
  std::future<std::unique_ptr<const PlacedProgram>> background;  // Last: its thread uses the rest.
};

}  // namespace emplace::cuda
