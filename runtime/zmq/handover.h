#pragma once
/// Debian's libzmq is not instrumented for the thread sanitizer: say where a payload passes from thread to
/// thread.

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace emplace::runtime {

/// Before a buffer is given to ZeroMQ.
inline void hand_over([[maybe_unused]] const void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(address));
#endif
}

/// After a buffer came from ZeroMQ.
inline void take_over([[maybe_unused]] const void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(const_cast<void*>(address));
#endif
}

}  // namespace emplace::runtime
