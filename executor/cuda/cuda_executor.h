#pragma once
/// Runs placements on GPUs: cuBLASLt, cuDNN and custom kernels, with one compute stream and two copy
/// streams per logical device. docs/reference/cuda.md describes it and lists what was never run.

#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "executor/cuda/kernels/host_kernel.h"
#include "executor/cuda/libraries/api.h"
#include "executor/cuda/library_kernels/cudnn_graph.h"
#include "executor/cuda/stream/step_stream.h"
#include "executor/kernel/initial_values.h"
#include "executor/real_executor.h"
#include "executor/sim/simulator.h"
#include "executor/timing.h"

namespace emplace::cuda {

/// Converts an error to the result of measure(), verify() and profile(): kDeviceLost or kRunFailed.
Error call_failed(const Error& error);

/// Dispatch is `ordered`: each device runs its tasks in the order of the simulator's start times. Matrix
/// products and convolutions may use TF32. Thread: one at a time. `graph`, `devices`, `clock` and `api`
/// must outlive it.
class CudaExecutor final : public RealExecutor {
 public:
  /// `gpus`: number of GPUs to use; 0: all. `make_host`: kernels of devices on the CPU, which run one at a
  /// time. Errors: kUnsupported if this machine has no GPU, a device is neither a GPU nor, with `make_host`,
  /// a CPU, or an op has no kernel and synthetic ops are not allowed; kRunFailed for CUDA errors.
  static Result<std::unique_ptr<CudaExecutor>> make(const OpGraph& graph, const DeviceSet& devices,
                                                    const RealOptions& options, const Clock& clock,
                                                    const CudaApi& api = real_api(), int gpus = 0,
                                                    const MakeHostKernel& make_host = {});

  std::string_view kind() const override { return "cuda"; }
  /// Errors: kRunFailed; kDeviceLost: every further call fails, and the process must end.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    return run(placement, out, nullptr);
  }
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override {
    schedule = {};
    return run(placement, out, &schedule);
  }
  /// Plans the placement and makes its program on another thread, from the next measure() on.
  void expect(std::span<const DeviceId> placement) override;
  /// Compares up to 1024 elements of every kernel's outputs: floats within 1 % of the tensor's largest
  /// value (because of TF32 and the order of additions), other types exactly.
  Result<Verification> verify(std::span<const DeviceId> placement) override;
  Result<ExecutorProfile> profile() override;
  std::vector<std::string> synthetic_types() const override;

  /// Computes a known sum on each of its devices. Errors: kRunFailed if a sum is wrong; kDeviceLost.
  Result<Unit> self_test();
  /// True after a sticky CUDA error, which disables CUDA in this process.
  bool poisoned() const { return session_.poisoned(); }
  /// E.g. links through the host, logical devices that share a GPU, steps that the host limits.
  std::vector<std::string> notes() const override;
  /// For tests: time of the last placement's traced step on the devices, by events that do not wait for the
  /// host, divided by its measured step time. Well below 1: the host limits the step.
  double clock_ratio() const { return clock_ratio_; }
  /// Host time to enqueue the last step of the last placement [s].
  double enqueue_s() const { return enqueue_s_; }
  /// For tests: time that the last placement waited for its plan and its program, without state [s].
  double prepare_s() const { return prepare_s_; }
  /// For tests: whether the last placement was one that expect() announced.
  bool was_expected() const { return was_expected_; }

 private:
  /// What the host computes for a placement before its first step, without a call to CUDA.
  struct PlacedProgram {
    PlacedProgram(CudaExecutor& state, std::span<const DeviceId> placement)
        : plan{state.plan(placement)}, program{state.program(plan)} {}
    PlacedProgram(const PlacedProgram&) = delete;
    PlacedProgram& operator=(const PlacedProgram&) = delete;

    const TaskPlan plan;
    const StepProgram program;  // Points to the plan.
  };

  CudaExecutor(const OpGraph& graph, const DeviceSet& devices, const RealOptions& options, const Clock& clock,
               const CudaApi& api);
  Result<Unit> run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule);
  Result<std::vector<LinkCost>> probe_links();

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

  const OpGraph& graph_;
  const DeviceSet& devices_;
  const RealOptions options_;
  const Clock& clock_;
  const LoweredGraph lowered_;
  InPlaceWrites in_place_;
  const CostTable costs_;
  const InitialValues values_;
  Simulator simulator_;
  Session session_;  // Before everything that calls CUDA, which it must outlive.
  std::unique_ptr<DeviceGroup> group_;
  EngineChoices engines_{options_.timing.tune};
  std::vector<BoundGraph> kernels_;                                // [devices]
  Owned<void*, &CudaApi::runtime, &RuntimeApi::FreeHost> pinned_;  // The memory of `stages_`.
  HostStages stages_;
  std::unique_ptr<StepStream> stream_;
  std::vector<std::unique_ptr<Kernel>> fills_;  // [buffers] Make initial values; created on first use.
  StepTimer timer_{options_.timing};
  Placement expected_;  // Announced; its program is made once the next one is taken. Empty: none.
  Placement in_background_;
  bool was_expected_ = false, host_limits_ = false, clock_moved_ = false;
  std::string why_not_captured_;  // Empty until capturing a step failed.
  double clock_ratio_ = 1, enqueue_s_ = 0, prepare_s_ = 0;
  std::future<std::unique_ptr<const PlacedProgram>> background_;  // Last: its thread uses the rest.
};

}  // namespace emplace::cuda
