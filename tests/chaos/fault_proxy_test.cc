// Goal: the fault proxy injects exactly the requested faults. Method: plain sockets on both sides of it, on
// threads of this process.
#include "tests/chaos/fault_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/clock.h"

namespace emplace::testing {
namespace {

using std::chrono::milliseconds;
const SystemClock g_clock;

/// Two connected ends with the proxy between them.
class Wire {
 public:
  explicit Wire(std::uint64_t seed = 1) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    auto made = FaultProxy::make(0, ntohs(address.sin_port), seed);
    EXPECT_TRUE(made.ok());
    proxy = *std::move(made);
    near_end = ::socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons(proxy->port());
    EXPECT_EQ(::connect(near_end, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    far_end = ::accept(listener_, nullptr, nullptr);
    for (const int fd : {near_end, far_end}) {
      const timeval patience{5, 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
  }
  ~Wire() {
    for (const int fd : {listener_, near_end, far_end}) ::close(fd);
  }
  static void send_text(int fd, const std::string& text) {
    EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// Receives `size` bytes, or fewer at the end or after 5 s.
  static std::string hear(int fd, std::size_t size) {
    std::string text(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const ssize_t n = ::recv(fd, text.data() + got, size - got, 0);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    text.resize(got);
    return text;
  }
  std::unique_ptr<FaultProxy> proxy;
  int near_end = -1, far_end = -1;

 private:
  int listener_ = -1;
};

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 256);
  return text;
}

TEST(FaultProxy, PassesBytesBothWaysInAnyPieces) {
  for (const char* fault :
       {"heal", "both split 7", "both merge 1", "both delay 5 jitter 20", "both rate 2000000"}) {
    Wire wire;
    ASSERT_TRUE(wire.proxy->command(fault).ok());
    const std::string sent = pattern(200'000);
    std::thread up{[&] { Wire::send_text(wire.near_end, sent); }};
    EXPECT_EQ(Wire::hear(wire.far_end, sent.size()), sent) << fault;
    up.join();
    Wire::send_text(wire.far_end, "answer");
    EXPECT_EQ(Wire::hear(wire.near_end, 6), "answer") << fault;
  }
}

TEST(FaultProxy, DelaysAndSlowsDown) {
  Wire wire;
  ASSERT_TRUE(wire.proxy->command("up delay 80").ok());
  const auto started = g_clock.now();
  Wire::send_text(wire.near_end, "x");
  EXPECT_EQ(Wire::hear(wire.far_end, 1), "x");
  EXPECT_GE(g_clock.now() - started, milliseconds{80});
  ASSERT_TRUE(wire.proxy->command("up rate 500000").ok());
  const auto slow = g_clock.now();
  std::thread up{[&] { Wire::send_text(wire.near_end, pattern(100'000)); }};
  EXPECT_EQ(Wire::hear(wire.far_end, 100'000).size(), 100'000u);
  EXPECT_GE(g_clock.now() - slow, milliseconds{190});
  up.join();
}

TEST(FaultProxy, BlackholeHoldsOneWayAndHealsWithoutLoss) {
  Wire wire;
  ASSERT_TRUE(wire.proxy->command("up blackhole 1").ok());
  Wire::send_text(wire.near_end, "held");
  Wire::send_text(wire.far_end, "passes");
  EXPECT_EQ(Wire::hear(wire.near_end, 6), "passes");
  char byte = 0;
  EXPECT_LT(::recv(wire.far_end, &byte, 1, MSG_DONTWAIT), 0);
  wire.proxy->heal();
  EXPECT_EQ(Wire::hear(wire.far_end, 4), "held");
}

TEST(FaultProxy, CutsResetsAndRefuses) {
  {
    Wire wire;
    wire.proxy->cut();
    EXPECT_EQ(Wire::hear(wire.near_end, 1), "");
    EXPECT_EQ(Wire::hear(wire.far_end, 1), "");
  }
  Wire wire;
  wire.proxy->reset();
  char byte = 0;
  EXPECT_LT(::recv(wire.far_end, &byte, 1, 0), 0);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(wire.proxy->connections(), 0u);
}

TEST(FaultProxy, FlipsBitsBySeed) {
  std::string received[2];
  for (std::string& text : received) {
    Wire wire{7};
    ASSERT_TRUE(wire.proxy->command("up flip 100").ok());
    Wire::send_text(wire.near_end, std::string(10'000, 'a'));
    text = Wire::hear(wire.far_end, 10'000);
  }
  const auto changed = 10'000 - std::count(received[0].begin(), received[0].end(), 'a');
  EXPECT_GT(changed, 30);
  EXPECT_LT(changed, 300);
  EXPECT_EQ(received[0], received[1]);
}

TEST(FaultProxy, ControlLinesAreParsedStrictly) {
  Wire wire;
  for (const char* bad : {"", "up", "sideways delay 3", "up delay", "up dlay 3", "refuse"})
    EXPECT_EQ(wire.proxy->command(bad).ok(), std::string_view{bad} == "up") << bad;
  EXPECT_TRUE(wire.proxy->command("random").ok());
}

}  // namespace
}  // namespace emplace::testing
