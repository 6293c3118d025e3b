#pragma once
/// One device of a device file on a GPU: its streams, its handles and its memory.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/cuda/kernel.h"
#include "executor/cuda/session.h"
#include "placement/machine/device.h"

namespace emplace::cuda {

/// Streams of a logical device: kernels; copies that leave; copies that arrive through the host.
enum class StreamKind : std::uint8_t { kCompute, kCopyOut, kCopyIn };
inline constexpr std::size_t kStreamsPerDevice = 3;

/// Thread: one at a time. Whatever it owns of CUDA stays behind once the session is poisoned.
class LogicalDevice {
 public:
  static constexpr std::int64_t kAlignment = 512;  ///< [B] of everything that lies in its memory.

  ~LogicalDevice();
  LogicalDevice(const LogicalDevice&) = delete;
  LogicalDevice& operator=(const LogicalDevice&) = delete;

  /// What kernels are enqueued with: on the compute stream, or on the one of outgoing copies.
  Lane lane(StreamKind kind = StreamKind::kCompute) const;
  cudaStream_t stream(StreamKind kind) const { return streams_[static_cast<std::size_t>(kind)]; }
  /// Calls from now on go to this device.
  Result<Unit> make_current() const;

  int physical() const { return physical_; }      ///< Number of the GPU.
  int processors() const { return processors_; }  ///< Of its own; 0: all of the GPU.
  std::byte* memory() const { return memory_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  friend class DeviceGroup;
  LogicalDevice(Session& session, int physical, CUcontext context, CUgreenCtx green, int processors)
      : session_{session}, physical_{physical}, context_{context}, green_{green}, processors_{processors} {}
  Result<Unit> open(std::int64_t bytes);

  Session& session_;
  const int physical_;
  const CUcontext context_;  // Null for the GPU's primary one.
  const CUgreenCtx green_;
  const int processors_;
  cudaStream_t streams_[kStreamsPerDevice]{};
  cublasLtHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  std::byte* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// How logical devices came to their GPUs.
enum class Isolation : std::uint8_t {
  kGpus,           ///< One GPU each.
  kGreenContexts,  ///< Several on a GPU, each with multiprocessors of its own.
  kNone,           ///< Several on a GPU, side by side: the driver cannot part it. Times say little.
};

/// All devices of a set: device i is on GPU i modulo their number. Thread: one at a time.
class DeviceGroup {
 public:
  /// `gpus`: how many to use; 0: all. Errors: kUnsupported if there is none, a device is no GPU, or the
  /// memory of those on one GPU is more than it has free (the cure is named); else of Session.
  static Result<std::unique_ptr<DeviceGroup>> make(Session& session, const DeviceSet& devices, int gpus = 0);

  std::size_t size() const { return devices_.size(); }
  const LogicalDevice& operator[](std::size_t device) const { return *devices_[device]; }
  Isolation isolation() const { return isolation_; }
  /// True if a copy goes straight from one memory into the other; else it is staged through the host, as it
  /// is between devices on one GPU, where a straight one would be faster than any link.
  bool is_direct(std::size_t source, std::size_t target) const { return direct_[source * size() + target]; }
  /// Waits for everything. Errors: of Session.
  Result<Unit> synchronize() const;

 private:
  explicit DeviceGroup(Session& session) : session_{session} {}
  Result<Unit> find_links();

  Session& session_;
  std::vector<std::unique_ptr<LogicalDevice>> devices_;
  std::vector<bool> direct_;  // [devices, devices]
  Isolation isolation_ = Isolation::kGpus;
};

}  // namespace emplace::cuda
