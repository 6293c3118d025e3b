#pragma once
/// The memory of one logical device.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace emplace::cpu {

/// Reserved address space of the device's size. Pages are allocated at first access, so a cap above the
/// machine's memory fails only when it is used. Move-only.
class DeviceMemory {
 public:
  static constexpr std::int64_t kAlignment = 256;  ///< Alignment of all allocations [B].

  /// Errors: kRunFailed if the address space cannot be reserved.
  static Result<DeviceMemory> make(std::int64_t bytes);

  std::byte* at(std::int64_t offset) const { return base_.get() + offset; }
  std::int64_t bytes() const { return base_.get_deleter().bytes; }

 private:
  struct Unmap {
    std::int64_t bytes = 0;
    void operator()(std::byte* base) const;
  };
  explicit DeviceMemory(std::unique_ptr<std::byte, Unmap> base) : base_{std::move(base)} {}

  std::unique_ptr<std::byte, Unmap> base_;
};

}  // namespace emplace::cpu
