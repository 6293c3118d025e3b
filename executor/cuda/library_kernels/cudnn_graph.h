#pragma once
/// One convolution as a cuDNN graph: its tensors, the node, and the execution plan. All but the plan is
/// made without a GPU.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/cuda/kernels/kernel.h"
#include "executor/cuda/libraries/session.h"

namespace emplace::cuda {

/// A backend descriptor of cuDNN; destroyed with its owner unless the session is poisoned.
class CudnnDescriptor {
 public:
  Result<Unit> create(Session& session, cudnnBackendDescriptorType_t type);
  /// `values` [count], of the attribute's type.
  Result<Unit> set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                   const void* values);
  Result<Unit> set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  Result<Unit> finalize();
  cudnnBackendDescriptor_t get() const { return handle_.get(); }

 private:
  Session* session_ = nullptr;
  Owned<cudnnBackendDescriptor_t, &CudaApi::dnn, &CudnnApi::BackendDestroyDescriptor> handle_;
};

enum class ConvolutionKind : std::uint8_t { kForward, kInputGradient, kFilterGradient };

/// Two-dimensional cross-correlation: x [N, C, H, W], w [K, C / groups, R, S], y [N, K, P, Q].
struct ConvolutionShape {
  ConvolutionKind kind = ConvolutionKind::kForward;
  std::array<std::int64_t, 4> x{}, w{}, y{};
  std::array<std::int64_t, 4> x_strides{}, w_strides{}, y_strides{};  ///< [elements]
  std::array<std::int64_t, 2> pad{}, pad_after{}, stride{1, 1}, dilation{1, 1};
  std::int64_t groups = 1;
};

/// Which of its engines cuDNN uses, by convolution and device properties, so that no convolution is timed
/// twice and devices alike take the same engine. Thread: one at a time.
class EngineChoices {
 public:
  /// `tune`: whether engines are timed; otherwise the first one that fits is taken.
  explicit EngineChoices(bool tune) : tune_{tune} {}

  bool tune() const { return tune_; }
  /// Number of the engine in the order of cuDNN's suggestions.
  std::optional<std::size_t> find(const std::string& convolution) const {
    const auto at = chosen_.find(convolution);
    return at == chosen_.end() ? std::nullopt : std::optional{at->second};
  }
  void keep(std::string convolution, std::size_t number) { chosen_.emplace(std::move(convolution), number); }

 private:
  const bool tune_;
  std::map<std::string, std::size_t> chosen_;
};

/// Thread: one at a time.
class ConvolutionGraph {
 public:
  /// Creates the tensors, the convolution and its node without a GPU. Errors: those of Session.
  static Result<ConvolutionGraph> describe(Session& session, const ConvolutionShape& shape);
  /// Selects an engine that needs at most the lane's workspace: the one that was chosen for the same
  /// convolution before, else the fastest of the first three that the heuristics suggest, in trial runs, or
  /// the first one, if nothing is to be timed or the lane's trial memory is too small. An engine that gives
  /// the same bytes in every run is preferred. Errors: kUnsupported if there is none; those of Session.
  Result<Unit> plan(const Lane& lane);
  /// Workspace of the plan; valid after plan() [B].
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Runs on the handle's stream. x, w, y: device memory; the tensor that the kind computes is written.
  Result<Unit> run(cudnnHandle_t handle, const void* x, const void* w, const void* y, void* workspace) const;

 private:
  /// An engine for which there is a plan.
  struct Engine {
    std::size_t number = 0;  ///< In the order of the suggestions.
    CudnnDescriptor config, plan;
    std::size_t workspace_bytes = 0;
    bool repeats = true;  ///< Gives the same bytes in every run.
  };
  /// Lists engines that fit, in the order of the suggestions: the one with number `only`, or up to `most`.
  Result<std::vector<Engine>> engines(const Lane& lane, std::optional<std::size_t> only, std::size_t most);
  Result<Unit> run_plan(cudnnHandle_t handle, const CudnnDescriptor& plan, const void* x, const void* w,
                        const void* y, void* workspace) const;
  /// Time of a run in the lane's trial memory [us]; none if the memory is too small or the engine fails.
  Result<std::optional<double>> trial_us(const Lane& lane, const Engine& engine) const;
  void take(Engine engine);

  Session* session_ = nullptr;
  ConvolutionShape shape_;
  CudnnDescriptor x_, w_, y_, convolution_, node_;
  CudnnDescriptor operations_, config_, plan_;  // The plan refers to the two before it.
  std::size_t workspace_bytes_ = 0;
};

}  // namespace emplace::cuda
