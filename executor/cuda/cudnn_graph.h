#pragma once
/// One convolution as a graph of cuDNN's: its tensors, the node, and the plan that runs it. Everything up to
/// the plan is made without a GPU.

#include <array>
#include <cstdint>
#include <vector>

#include "executor/cuda/session.h"

namespace emplace::cuda {

/// A descriptor of cuDNN's backend, destroyed with its owner unless the session is poisoned.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;
  ~CudnnDescriptor();

  Result<Unit> create(Session& session, cudnnBackendDescriptorType_t type);
  /// `values` [count] of the attribute's type.
  Result<Unit> set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                   const void* values);
  Result<Unit> set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  Result<Unit> finalize();
  cudnnBackendDescriptor_t get() const { return handle_; }

 private:
  Session* session_ = nullptr;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

enum class ConvolutionKind : std::uint8_t { kForward, kInputGradient, kFilterGradient };

/// Two dimensions, cross-correlation. x [N, C, H, W], w [K, C / groups, R, S], y [N, K, P, Q].
struct ConvolutionShape {
  ConvolutionKind kind = ConvolutionKind::kForward;
  std::array<std::int64_t, 4> x{}, w{}, y{};
  std::array<std::int64_t, 4> x_strides{}, w_strides{}, y_strides{};  ///< [elements]
  std::array<std::int64_t, 2> pad{}, pad_after{}, stride{1, 1}, dilation{1, 1};
  std::int64_t groups = 1;
};

/// Thread: one at a time.
class ConvolutionGraph {
 public:
  /// Tensors, the convolution and its node. Needs no GPU. Errors: of Session.
  static Result<ConvolutionGraph> describe(Session& session, const ConvolutionShape& shape);
  /// The first way that the heuristics name which needs no more than `most_workspace` [B]. `processors`: that
  /// it may use; 0 for all. Errors: kUnsupported if there is none.
  Result<Unit> plan(cudnnHandle_t handle, int processors, std::int64_t most_workspace);
  std::size_t workspace_bytes() const { return workspace_bytes_; }  ///< After plan().
  /// On the handle's stream. x, w, y: device memory; the one that the kind computes is written.
  Result<Unit> run(cudnnHandle_t handle, const void* x, const void* w, const void* y, void* workspace) const;

 private:
  Session* session_ = nullptr;
  CudnnDescriptor x_, w_, y_, convolution_, node_, plan_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace emplace::cuda
