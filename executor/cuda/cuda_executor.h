#pragma once
/// Runs placements on GPUs: cuBLASLt, cuDNN and our own kernels, one compute stream and two copy streams per
/// logical device. docs/reference/cuda.md says how, and what of it was never run.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "executor/cuda/api.h"
#include "executor/real_executor.h"

namespace emplace::cuda {

/// Dispatch is `ordered`: each device's order is that of the simulator's start times. Matrix products and
/// convolutions may use TF32. Thread: one at a time. `graph`, `devices`, `clock` and `api` must outlive it.
class CudaExecutor final : public RealExecutor {
 public:
  /// `gpus`: how many to use; 0: all. Errors: kUnsupported if there is no GPU here, a device is none, or an
  /// op has no kernel and stand-ins are not allowed; kRunFailed for CUDA's own.
  static Result<std::unique_ptr<CudaExecutor>> make(const OpGraph& graph, const DeviceSet& devices,
                                                    const RealOptions& options, const Clock& clock,
                                                    const CudaApi& api = real_api(), int gpus = 0);
  ~CudaExecutor() override;

  std::string_view kind() const override { return "cuda"; }
  /// Errors: kRunFailed; kDeviceLost, and no call will ever succeed: end the process.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override;
  /// Compares up to 1024 elements of every kernel's outputs: floats within 1 % of the tensor's largest value
  /// (TF32, and sums in another order), all else exactly.
  Result<Verification> verify(std::span<const DeviceId> placement) override;
  Result<ExecutorProfile> profile() override;
  std::vector<std::string> synthetic_types() const override;

  /// An error of CUDA that sticks to this process has happened.
  bool poisoned() const;
  /// What a reader of results must know: links through the host, logical devices that share a GPU. Empty:
  /// nothing.
  std::vector<std::string> notes() const;
  /// The last traced step by the devices' events over its time by the host's clock; 1 if both agree.
  double clock_ratio() const;

 private:
  struct State;
  explicit CudaExecutor(std::unique_ptr<State> state);
  Result<Unit> run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule);
  Result<std::vector<LinkCost>> probe_links();

  std::unique_ptr<State> state_;
};

}  // namespace emplace::cuda
