#pragma once
/// Runs placements on GPUs: cuBLASLt, cuDNN and custom kernels, with one compute stream and two copy
/// streams per logical device. docs/reference/cuda.md describes it and lists what was never run.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "executor/cuda/kernels/host_kernel.h"
#include "executor/cuda/libraries/api.h"
#include "executor/real_executor.h"

namespace emplace::cuda {

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
  ~CudaExecutor() override;

  std::string_view kind() const override { return "cuda"; }
  /// Errors: kRunFailed; kDeviceLost: every further call fails, and the process must end.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override;
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
  bool poisoned() const;
  /// E.g. links through the host, logical devices that share a GPU, steps that the host limits.
  std::vector<std::string> notes() const override;
  /// Time of the last placement's traced step on the devices, by events that do not wait for the host,
  /// divided by its measured step time. Well below 1: the host limits the step.
  double clock_ratio() const;
  /// Host time to enqueue the last step of the last placement [s].
  double enqueue_s() const;
  /// Time that the last placement waited for its plan and its program, without state [s].
  double prepare_s() const;
  /// Whether the last placement was one that expect() announced.
  bool was_expected() const;

 private:
  struct State;
  explicit CudaExecutor(std::unique_ptr<State> state);
  Result<Unit> run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule);
  Result<std::vector<LinkCost>> probe_links();

  std::unique_ptr<State> state_;
};

}  // namespace emplace::cuda
