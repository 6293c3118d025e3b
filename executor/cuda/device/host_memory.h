#pragma once
/// Memory of a device on the CPU.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "executor/cuda/libraries/session.h"

namespace emplace::cuda {

/// Address space of a device on the CPU. Its first part is pinned, so that GPUs copy from and to it while the
/// host does other work; the addresses stay when that part grows. Thread: one at a time.
class HostMemory {
 public:
  /// Errors: kRunFailed if there is no address space.
  static Result<std::unique_ptr<HostMemory>> reserve(Session& session, std::int64_t bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* data() const { return data_; }
  /// Pins the first `bytes` bytes. @pre no copy uses the memory. Errors: kOutOfMemory if the machine cannot
  /// pin that much; those of Session.
  Result<Unit> pin(std::int64_t bytes);

 private:
  HostMemory(Session& session, std::byte* data, std::int64_t bytes)
      : session_{session}, data_{data}, bytes_{bytes} {}
  Result<Unit> unpin();

  Session& session_;
  std::byte* const data_;
  const std::int64_t bytes_;
  std::int64_t pinned_ = 0;
};

}  // namespace emplace::cuda
