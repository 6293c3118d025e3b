#pragma once
/// The memory of one logical device.

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace emplace::cpu {

/// Reserved address space of the device's size. Pages are allocated at first access, so a cap above the
/// machine's memory fails only when it is used. Move-only.
class DeviceMemory {
 public:
  static constexpr std::int64_t kAlignment = 256;  ///< Alignment of all allocations [B].

  /// Errors: kRunFailed if the address space cannot be reserved.
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
