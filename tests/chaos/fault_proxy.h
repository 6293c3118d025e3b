#pragma once
/// A faulty network between two ends of TCP on this machine: a client of the proxy is connected to its
/// target, and bytes pass as the faults allow.

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"

namespace emplace::testing {

/// Faults of one direction. Delayed bytes arrive late and are never lost, as with TCP's retransmission.
struct Faults {
  std::chrono::milliseconds delay{0}, jitter{0};  ///< Delay of a piece: delay to delay + jitter, in order.
  std::uint64_t bytes_per_s = 0;                  ///< Limit of the rate; 0: none.
  bool blackhole = false;                         ///< Nothing passes, without an error.
  std::size_t split = 0;      ///< > 0: bytes are written in packets of 1 to `split` bytes.
  bool merge = false;         ///< Bytes that arrive within 20 ms are written at once.
  std::uint64_t flip_in = 0;  ///< > 0: a bit is flipped in about one of `flip_in` bytes.
};

/// A proxy for one port. Thread: has its own; members from any.
class FaultProxy {
 public:
  enum Way : std::uint8_t { kUp, kDown };  ///< From the dialler to the target, and back.

  /// Listens on 127.0.0.1; `port` 0: any free port. Errors: kIo.
  static Result<std::unique_ptr<FaultProxy>> make(std::uint16_t port, std::uint16_t target,
                                                  std::uint64_t seed);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::uint16_t port() const { return port_; }
  void set(Way way, const Faults& faults);
  void heal();               ///< Ends all faults; delayed bytes pass.
  void cut();                ///< Closes every connection in order.
  void reset();              ///< Resets every connection (RST).
  void refuse(bool refuse);  ///< New connections are closed at once.
  std::size_t connections() const;
  std::uint64_t bytes_passed() const;

  /// One line of control: "up delay 50 jitter 10", "down blackhole 1", "both split 3", "both rate 1000000",
  /// "both flip 10000", "both merge 1", "heal", "cut", "reset", "refuse 1", or "random": a fault of the
  /// seed's choice. Returns what was done. Errors: kInvalid.
  Result<std::string> command(std::string_view line);

 private:
  struct Pipe;
  struct Connection;
  FaultProxy(int listener, std::uint16_t port, std::uint16_t target, std::uint64_t seed);
  void serve();
  void accept_one() EMPLACE_REQUIRES(mutex_);
  void wake() const;
  std::string random_fault() EMPLACE_REQUIRES(mutex_);

  const int listener_, wake_;
  const std::uint16_t port_, target_;
  const std::uint64_t seed_;
  mutable Mutex mutex_;
  std::array<Faults, 2> faults_ EMPLACE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Connection>> connections_ EMPLACE_GUARDED_BY(mutex_);
  bool refuse_ EMPLACE_GUARDED_BY(mutex_) = false;
  bool stop_ EMPLACE_GUARDED_BY(mutex_) = false;
  std::uint64_t passed_ EMPLACE_GUARDED_BY(mutex_) = 0;    // Number of bytes.
  std::uint64_t drawn_ EMPLACE_GUARDED_BY(mutex_) = 0;     // Number of random faults.
  std::uint64_t accepted_ EMPLACE_GUARDED_BY(mutex_) = 0;  // Number of connections.
  std::thread thread_;
};

/// A port of 127.0.0.1 without a listener now.
std::uint16_t free_port();

}  // namespace emplace::testing
