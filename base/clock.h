#pragma once
/// Injected clocks. Only clock.cc reads the system time.

#include <chrono>
#include <cstdint>
#include <string>

namespace emplace {

using Nanos = std::chrono::nanoseconds;

/// A time in whole nanoseconds, rounded towards zero.
constexpr Nanos as_nanos(double seconds) {
  return std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(seconds));
}

class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic time since an arbitrary start. Any thread.
  [[nodiscard]] virtual Nanos now() const = 0;
  /// Wall time [ns since 1970], for display only; never compared or subtracted.
  [[nodiscard]] virtual Nanos wall() const = 0;
};

/// The system clocks. Any thread.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] Nanos now() const override;
  [[nodiscard]] Nanos wall() const override;
};

/// Formats as "2026-01-31T12:34:56Z".
std::string format_wall(Nanos wall);

}  // namespace emplace
