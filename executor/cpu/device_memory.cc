#include "executor/cpu/device_memory.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <string>
#include <utility>

namespace emplace::cpu {

Result<DeviceMemory> DeviceMemory::make(std::int64_t bytes) {
  void* const base = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return Error{
        Errc::kRunFailed,
        fmt::format("cannot reserve {} bytes of address space; lower the memory of the device", bytes)};
  ::madvise(base, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  return DeviceMemory{std::unique_ptr<std::byte, Unmap>{static_cast<std::byte*>(base), Unmap{bytes}}};
}

void DeviceMemory::Unmap::operator()(std::byte* base) const {
  ::munmap(base, static_cast<std::size_t>(bytes));
}

}  // namespace emplace::cpu
