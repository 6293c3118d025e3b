#include "executor/cuda/device/host_memory.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>

namespace emplace::cuda {

Result<std::unique_ptr<HostMemory>> HostMemory::reserve(Session& session, std::int64_t bytes) {
  void* const base = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return Error{
        Errc::kRunFailed,
        fmt::format("cannot reserve {} bytes of address space; lower the memory of the device", bytes)};
  return std::unique_ptr<HostMemory>{new HostMemory{session, static_cast<std::byte*>(base), bytes}};
}

HostMemory::~HostMemory() {
  if (!session_.poisoned()) (void)unpin();
  ::munmap(data_, static_cast<std::size_t>(bytes_));
}

Result<Unit> HostMemory::unpin() {
  if (pinned_ == 0) return Unit{};
  pinned_ = 0;
  return session_.check(session_.api().runtime.HostUnregister(data_), "cudaHostUnregister");
}

Result<Unit> HostMemory::pin(std::int64_t bytes) {
  constexpr std::int64_t kStep = std::int64_t{256} << 20;  // Pinning again takes long, so it grows in steps.
  if (bytes <= pinned_) return Unit{};
  const std::int64_t wanted = std::min((bytes + kStep - 1) / kStep * kStep, bytes_);
  EMPLACE_TRY(unpin());
  EMPLACE_TRY(session_.check(
      session_.api().runtime.HostRegister(data_, static_cast<std::size_t>(wanted), cudaHostRegisterPortable),
      "cudaHostRegister"));
  pinned_ = wanted;
  return Unit{};
}

}  // namespace emplace::cuda
