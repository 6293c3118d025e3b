#include "tests/chaos/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"

namespace emplace::testing {
namespace {

using std::chrono::milliseconds;

const SystemClock g_proxy_clock;

constexpr std::size_t kMaxHeld = 4u << 20;  // Limit of one direction, beyond which the sender is blocked.
constexpr milliseconds kMergeWindow{20};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}
int make_socket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

/// Binds and listens; returns the descriptor and its port.
std::pair<int, std::uint16_t> listen_on(std::uint16_t port) {
  const int fd = make_socket();
  const int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address = loopback(port);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(fd, 64) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ::close(fd);
    return {-1, 0};
  }
  return {fd, ntohs(address.sin_port)};
}

}  // namespace

/// One direction of a connection.
struct FaultProxy::Pipe {
  struct Piece {
    Nanos due;
    std::string bytes;
    std::size_t written = 0;
  };
  int from = -1, to = -1;
  bool ended = false;   // `from` has reached its end.
  bool closed = false;  // The end was passed to `to`.
  std::deque<Piece> held;
  std::size_t held_bytes = 0;
  Nanos last_due{}, link_free{};

  /// Reads from `from`. False: the connection is broken.
  bool take(const Faults& faults, Rng& rng) {
    std::array<char, 16384> bytes;
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return ended = true;
    std::string piece{bytes.data(), static_cast<std::size_t>(got)};
    if (faults.flip_in > 0)
      for (char& byte : piece)
        if (rng.below(static_cast<std::uint32_t>(faults.flip_in)) == 0)
          byte = static_cast<char>(byte ^ (1 << rng.below(8)));
    const auto now = g_proxy_clock.now();
    Nanos due = now + faults.delay;
    if (faults.jitter.count() > 0)
      due += milliseconds{rng.below(static_cast<std::uint32_t>(faults.jitter.count()) + 1)};
    if (faults.bytes_per_s > 0) {
      link_free = std::max(link_free, now) +
                  std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(
                      static_cast<double>(piece.size()) / static_cast<double>(faults.bytes_per_s)));
      due = std::max(due, link_free);
    }
    if (faults.merge) due = std::max(due, now + kMergeWindow);
    due = last_due = std::max(due, last_due);
    held_bytes += piece.size();
    const bool joins = faults.merge && !held.empty() && held.back().due > now && held.back().written == 0;
    if (joins) {
      held.back().bytes += piece;
    } else {
      held.push_back({due, std::move(piece)});
    }
    return true;
  }

  /// Writes what is due. False: the connection is broken.
  bool give(const Faults& faults, Rng& rng, std::uint64_t& passed) {
    const auto now = g_proxy_clock.now();
    while (!faults.blackhole && !held.empty() && held.front().due <= now) {
      Piece& piece = held.front();
      std::size_t size = piece.bytes.size() - piece.written;
      if (faults.split > 0)
        size = std::min<std::size_t>(size, 1 + rng.below(static_cast<std::uint32_t>(faults.split)));
      const ssize_t put = ::send(to, piece.bytes.data() + piece.written, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put < 0) return errno == EAGAIN || errno == EINTR;
      piece.written += static_cast<std::size_t>(put);
      held_bytes -= static_cast<std::size_t>(put);
      passed += static_cast<std::uint64_t>(put);
      if (piece.written == piece.bytes.size()) held.pop_front();
    }
    if (ended && held.empty() && !closed && !faults.blackhole) {
      ::shutdown(to, SHUT_WR);
      closed = true;
    }
    return true;
  }
  bool blocked(Nanos now) const { return !held.empty() && held.front().due <= now; }
};

struct FaultProxy::Connection {
  Connection(int near_end, int far_end, std::uint64_t seed, std::uint64_t number)
      : rng{seed, Purpose::kTest, number} {
    pipes[kUp].from = pipes[kDown].to = near_end;
    pipes[kUp].to = pipes[kDown].from = far_end;
  }
  ~Connection() {
    ::close(pipes[kUp].from);
    ::close(pipes[kUp].to);
  }
  void reset_on_close() const {
    const linger hard{1, 0};
    for (const int fd : {pipes[kUp].from, pipes[kUp].to})
      ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  std::array<Pipe, 2> pipes;
  Rng rng;
};

std::uint16_t free_port() {
  // Below the ephemeral ports (from 32768 on): a client that dials before the server listens could get this
  // very port and connect to itself.
  constexpr std::uint32_t kFirst = 10'000, kPorts = 22'000;
  static std::uint32_t next = static_cast<std::uint32_t>(::getpid()) * 97;
  for (std::uint32_t tried = 0;; ++tried) {
    EMPLACE_CHECK(tried < kPorts, "a free port");
    const auto [fd, port] = listen_on(static_cast<std::uint16_t>(kFirst + next++ % kPorts));
    if (fd < 0) continue;
    ::close(fd);
    return port;
  }
}

Result<std::unique_ptr<FaultProxy>> FaultProxy::make(std::uint16_t port, std::uint16_t target,
                                                     std::uint64_t seed) {
  const auto [fd, bound] = listen_on(port);
  if (fd < 0) return Error{Errc::kIo, "port " + std::to_string(port) + " cannot be bound"};
  return std::unique_ptr<FaultProxy>{new FaultProxy{fd, bound, target, seed}};
}

FaultProxy::FaultProxy(int listener, std::uint16_t port, std::uint16_t target, std::uint64_t seed)
    : listener_{listener},
      wake_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)},
      port_{port},
      target_{target},
      seed_{seed},
      thread_{[this] { serve(); }} {}

FaultProxy::~FaultProxy() {
  {
    const MutexLock lock{mutex_};
    stop_ = true;
  }
  wake();
  thread_.join();
  ::close(listener_);
  ::close(wake_);
}

void FaultProxy::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

void FaultProxy::set(Way way, const Faults& faults) {
  {
    const MutexLock lock{mutex_};
    faults_.at(way) = faults;
  }
  wake();
}
void FaultProxy::heal() {
  set(kUp, {});
  set(kDown, {});
}
void FaultProxy::cut() {
  const MutexLock lock{mutex_};
  connections_.clear();
  wake();
}
void FaultProxy::reset() {
  const MutexLock lock{mutex_};
  for (const auto& connection : connections_) connection->reset_on_close();
  connections_.clear();
  wake();
}
void FaultProxy::refuse(bool refuse) {
  const MutexLock lock{mutex_};
  refuse_ = refuse;
}
std::size_t FaultProxy::connections() const {
  const MutexLock lock{mutex_};
  return connections_.size();
}
std::uint64_t FaultProxy::bytes_passed() const {
  const MutexLock lock{mutex_};
  return passed_;
}

void FaultProxy::accept_one() {
  const int near_end = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (near_end < 0) return;
  const int far_end = make_socket();
  const sockaddr_in target = loopback(target_);
  if (refuse_ || ::connect(far_end, reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0) {
    ::close(near_end);
    ::close(far_end);
    return;
  }
  const int one = 1;
  for (const int fd : {near_end, far_end}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  connections_.push_back(std::make_unique<Connection>(near_end, far_end, seed_, ++accepted_));
}

void FaultProxy::serve() {
  std::vector<pollfd> polled;
  while (true) {
    int wait_ms = 1'000;
    {
      const MutexLock lock{mutex_};
      if (stop_) return connections_.clear();
      polled = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
      const auto now = g_proxy_clock.now();
      for (const auto& connection : connections_) {
        for (const Way way : {kUp, kDown}) {
          const Pipe& pipe = connection->pipes[way];
          const bool hears = !pipe.ended && pipe.held_bytes < kMaxHeld;
          const bool writes = pipe.blocked(now) && !faults_[way].blackhole;
          polled.push_back({hears ? pipe.from : -1, POLLIN, 0});
          polled.push_back({writes ? pipe.to : -1, POLLOUT, 0});
          if (!pipe.held.empty() && !writes && !faults_[way].blackhole) {
            const auto left = std::chrono::ceil<milliseconds>(pipe.held.front().due - now).count();
            wait_ms = std::min(wait_ms, static_cast<int>(std::max<std::int64_t>(left, 0)));
          }
        }
      }
    }
    if (::poll(polled.data(), polled.size(), wait_ms) < 0 && errno != EINTR) return;
    const MutexLock lock{mutex_};
    std::uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t woken = ::read(wake_, &ignored, sizeof ignored);
    std::erase_if(connections_, [&](const auto& connection) EMPLACE_REQUIRES(mutex_) {
      bool whole = true;
      for (const Way way : {kUp, kDown}) {
        Pipe& pipe = connection->pipes[way];
        if (!pipe.ended && pipe.held_bytes < kMaxHeld) whole &= pipe.take(faults_[way], connection->rng);
        whole &= pipe.give(faults_[way], connection->rng, passed_);
      }
      return !whole || (connection->pipes[kUp].closed && connection->pipes[kDown].closed);
    });
    if ((polled[0].revents & POLLIN) != 0) accept_one();
  }
}

std::string FaultProxy::random_fault() {
  Rng rng{seed_, Purpose::kTest, (std::uint64_t{1} << 32) + drawn_++};
  const char* const way = std::array{"up", "down", "both"}[rng.below(3)];
  const auto line = [&](const char* what, std::uint32_t from, std::uint32_t below) {
    return std::string{way} + " " + what + " " + std::to_string(from + rng.below(below));
  };
  switch (rng.below(7)) {
    case 0:
      return line("delay", 1, 100) + " jitter " + std::to_string(rng.below(50));
    case 1:
      return line("rate", 100'000, 1'000'000);
    case 2:
      return line("split", 1, 64);
    case 3:
      return std::string{way} + " merge 1";
    case 4:
      return std::string{way} + " blackhole 1";
    case 5:
      return "cut";
    default:
      return "reset";
  }
}

Result<std::string> FaultProxy::command(std::string_view line) {
  if (line == "random") {
    std::string drawn;
    {
      const MutexLock lock{mutex_};
      drawn = random_fault();
    }
    return command(drawn);
  }
  const auto bad = [&] { return invalid("control", "'" + std::string{line} + "' is no command"); };
  std::istringstream words{std::string{line}};
  std::string first, key;
  words >> first;
  const std::string done{line};
  if (first == "heal") return heal(), done;
  if (first == "cut") return cut(), done;
  if (first == "reset") return reset(), done;
  std::uint64_t value = 0;
  if (first == "refuse") {
    if (!(words >> value)) return bad();
    return refuse(value != 0), done;
  }
  if (first != "up" && first != "down" && first != "both") return bad();
  Faults faults;
  while (words >> key) {
    if (!(words >> value)) return bad();
    if (key == "delay") {
      faults.delay = milliseconds{value};
    } else if (key == "jitter") {
      faults.jitter = milliseconds{value};
    } else if (key == "rate") {
      faults.bytes_per_s = value;
    } else if (key == "blackhole") {
      faults.blackhole = value != 0;
    } else if (key == "split") {
      faults.split = value;
    } else if (key == "merge") {
      faults.merge = value != 0;
    } else if (key == "flip") {
      faults.flip_in = value;
    } else {
      return bad();
    }
  }
  if (first != "down") set(kUp, faults);
  if (first != "up") set(kDown, faults);
  return done;
}

}  // namespace emplace::testing
