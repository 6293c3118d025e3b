#pragma once
/// The memory of one logical device.

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace emplace::cpu {

/// Address space of the device's size; pages come when they are first touched, so that a cap above the
/// machine's memory is refused only when it is used. Move-only.
class DeviceMemory {
 public:
  static constexpr std::int64_t kAlignment = 256;  ///< [B] of everything that lies in it.

  /// Errors: kRunFailed if the system gives no such address space.
  static Result<DeviceMemory> make(std::int64_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  std::byte* at(std::int64_t offset) const { return base_ + offset; }
  std::int64_t bytes() const { return bytes_; }

 private:
  DeviceMemory(std::byte* base, std::int64_t bytes) : base_{base}, bytes_{bytes} {}
  std::byte* base_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace emplace::cpu
