#pragma once
/// Annotations for the thread sanitizer, which does not see inside Debian's libzmq: they mark where a payload
/// passes between threads.

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace emplace::runtime {

/// Call before a buffer is passed to ZeroMQ.
inline void hand_over([[maybe_unused]] const void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(address));
#endif
}

/// Call after a buffer was received from ZeroMQ.
inline void take_over([[maybe_unused]] const void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(const_cast<void*>(address));
#endif
}

}  // namespace emplace::runtime
