#pragma once
/// A device of the device file, on a GPU or on the CPU: its streams, library handles and memory.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/cuda/device/host_memory.h"
#include "executor/cuda/kernels/kernel.h"
#include "executor/cuda/libraries/session.h"
#include "placement/machine/device.h"
#include "placement/machine/transfer_table.h"

namespace emplace::cuda {

/// Streams of a logical device: kernels; outgoing copies; incoming copies through the host.
enum class StreamKind : std::uint8_t { kCompute, kCopyOut, kCopyIn };
inline constexpr std::size_t kStreamsPerDevice = 3;

/// Thread: one at a time. CUDA resources are not released once the session is poisoned.
class LogicalDevice {
 public:
  static constexpr std::int64_t kAlignment = 512;  ///< Alignment of all allocations in its memory [B].

  ~LogicalDevice();
  LogicalDevice(const LogicalDevice&) = delete;
  LogicalDevice& operator=(const LogicalDevice&) = delete;

  /// Lane for enqueuing kernels on the compute stream or on that of outgoing copies.
  Lane lane(StreamKind kind = StreamKind::kCompute) const;
  cudaStream_t stream(StreamKind kind) const { return streams_[static_cast<std::size_t>(kind)]; }
  /// Makes this device current for the following CUDA calls.
  Result<Unit> make_current() const;

  /// Whether it is on the CPU: its streams are those of the first GPU, in which host functions wait for their
  /// turn, and its memory is the host's.
  bool on_host() const { return host_ != nullptr; }
  /// Makes the first `bytes` bytes of memory usable; on a GPU all are. @pre it is idle. Errors: those of
  /// HostMemory::pin().
  Result<Unit> pin(std::int64_t bytes) const { return on_host() ? host_->pin(bytes) : Unit{}; }
  /// A word on the GPU: when the copy under way started, if it must not end too early. Null unless the device
  /// has a link that is slowed down.
  std::uint64_t* copy_begin() const { return static_cast<std::uint64_t*>(copy_begin_); }
  int physical() const { return on_host() ? -1 : physical_; }  ///< Index of the GPU; -1 on the CPU.
  int gpu() const { return physical_; }           ///< Index of the GPU whose streams it has, also on the CPU.
  int processors() const { return processors_; }  ///< Multiprocessors of its own; 0: all of the GPU.
  std::byte* memory() const { return memory_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  friend class DeviceGroup;
  LogicalDevice(Session& session, int physical, CUcontext context, CUgreenCtx green, int processors)
      : session_{session}, physical_{physical}, context_{context}, green_{green}, processors_{processors} {}
  /// `slows_copies`: whether copies from it are slowed down.
  Result<Unit> open(std::int64_t bytes, bool on_host, bool slows_copies);

  Session& session_;
  const int physical_;
  const CUcontext context_;  // Null for the GPU's primary context.
  const CUgreenCtx green_;
  const int processors_;
  cudaStream_t streams_[kStreamsPerDevice]{};
  cublasLtHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  std::unique_ptr<HostMemory> host_;  // Null on a GPU.
  std::byte* memory_ = nullptr;
  std::int64_t bytes_ = 0;
  void* copy_begin_ = nullptr;
};

/// How logical devices are mapped to GPUs.
enum class Isolation : std::uint8_t {
  kGpus,           ///< One GPU each.
  kGreenContexts,  ///< Several devices per GPU, each with its own multiprocessors.
  /// Several devices share a GPU because the driver cannot partition it; timings are unreliable.
  kNone,
};

/// All devices of a set. GPU i of the set is on GPU i of the machine, modulo the number of its GPUs. Thread:
/// one at a time.
class DeviceGroup {
 public:
  /// `gpus`: number of GPUs to use; 0: all. `with_cpus`: whether there are kernels for devices on the CPU. A
  /// device whose memory is that of its profile gets what is free on
  /// its GPU if that is less. `progress`: incremented with every device. Errors: kUnsupported if there is no
  /// GPU, a device cannot be used, or the devices on a GPU need more memory than it has free (with the cure);
  /// two GPUs with a shaped link have no direct one; those of Session.
  static Result<std::unique_ptr<DeviceGroup>> make(Session& session, const DeviceSet& devices, int gpus = 0,
                                                   std::atomic<std::uint64_t>* progress = nullptr,
                                                   bool with_cpus = false);

  std::size_t size() const { return devices_.size(); }
  const LogicalDevice& operator[](std::size_t device) const { return *devices_[device]; }
  /// The weakest isolation of any two devices.
  Isolation isolation() const { return isolation_; }
  /// Why devices that share a GPU are not isolated; empty unless isolation() is kNone.
  const std::string& why_not_isolated() const { return why_not_isolated_; }
  /// True if copies are made directly between the memories. Otherwise they are staged through the host,
  /// also between devices on one GPU, where a direct copy would be faster than any link, unless it is slowed
  /// down.
  bool is_direct(std::size_t source, std::size_t target) const { return direct_[source * size() + target]; }
  /// True if copies take the time of the device file's link at least.
  bool is_shaped(std::size_t source, std::size_t target) const { return shaped_[source * size() + target]; }
  /// Enqueues a direct copy on the source's stream of outgoing copies. Where the link is shaped, the stream
  /// is busy until latency + bytes / bandwidth after the copy's start. @pre is_direct(); the source is
  /// current. Errors: those of Session.
  Result<Unit> copy(std::size_t source, const std::byte* from, std::size_t target, std::byte* to,
                    std::int64_t bytes) const;
  bool has_staged_links() const;  ///< True if any copy is staged through the host.
  /// Waits for all streams. Errors: those of Session.
  Result<Unit> synchronize() const;
  /// Writes a word of every device's memory and waits for it. Errors: those of Session.
  Result<Unit> probe() const;

 private:
  DeviceGroup(Session& session, const DeviceSet& devices);
  bool slows_copies(std::size_t source) const;
  /// Enqueues a direct copy at the speed that the hardware has.
  Result<Unit> move(std::size_t source, const std::byte* from, std::size_t target, std::byte* to,
                    std::int64_t bytes) const;
  Result<Unit> open_gpus(const DeviceSet& devices, std::size_t count, std::atomic<std::uint64_t>* progress);
  Result<Unit> open_cpus(const DeviceSet& devices, std::atomic<std::uint64_t>* progress);
  Result<Unit> find_links(const DeviceSet& devices);

  Session& session_;
  const TransferTable transfers_;
  std::vector<bool> shaped_;  // [devices, devices] As in the device file.
  std::vector<std::unique_ptr<LogicalDevice>> devices_;
  std::vector<bool> direct_;  // [devices, devices]
  Isolation isolation_ = Isolation::kGpus;
  std::string why_not_isolated_;
};

}  // namespace emplace::cuda
