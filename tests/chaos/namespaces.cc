#include "tests/chaos/namespaces.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace emplace::testing {
namespace {

std::optional<Result<Unit>> g_entered;

bool write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return whole;
}

bool bring_loopback_up() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  bool up = fd >= 0 && ::ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  up = up && ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  ::close(fd);
  return up;
}

}  // namespace

Result<Unit> enter_own_namespaces() {
  const auto refused = [](const char* what) {
    return Error{Errc::kUnsupported, std::string{what} + ": " + std::strerror(errno)};
  };
  const uid_t user = ::getuid();
  const gid_t group = ::getgid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) != 0)
    return refused("no namespaces of our own are allowed here");
  if (!write_text("/proc/self/setgroups", "deny") ||
      !write_text("/proc/self/uid_map", "0 " + std::to_string(user) + " 1\n") ||
      !write_text("/proc/self/gid_map", "0 " + std::to_string(group) + " 1\n"))
    return refused("no user namespace of our own is allowed here");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return refused("mounts of our own are not allowed here");
  if (!bring_loopback_up()) return refused("loopback cannot be brought up");
  return Unit{};
}

const Result<Unit>& own_namespaces() {
  static const Result<Unit> kNever = Error{Errc::kUnsupported, "main() did not ask for namespaces"};
  return g_entered ? *g_entered : kNever;
}

Result<SmallDisk> SmallDisk::make(const std::filesystem::path& at, std::size_t bytes) {
  std::filesystem::create_directories(at);
  if (::mount("tmpfs", at.c_str(), "tmpfs", 0, ("mode=0700,size=" + std::to_string(bytes)).c_str()) != 0)
    return Error{Errc::kUnsupported, std::string{"no tmpfs can be mounted: "} + std::strerror(errno)};
  return SmallDisk{at};
}
SmallDisk::SmallDisk(SmallDisk&& other) noexcept : at_{std::exchange(other.at_, {})} {}
SmallDisk::~SmallDisk() {
  if (!at_.empty()) ::umount2(at_.c_str(), MNT_DETACH);
}

bool SmallDisk::fill() const {
  const int fd = ::open((at_ / "filler").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  static constexpr std::array<char, 4096> kPage{};
  while (::write(fd, kPage.data(), kPage.size()) > 0) {
  }
  const bool full = errno == ENOSPC;
  ::close(fd);
  return full;
}
void SmallDisk::free() const { ::unlink((at_ / "filler").c_str()); }

}  // namespace emplace::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  using emplace::testing::g_entered;
  if (!GTEST_FLAG_GET(list_tests)) g_entered = emplace::testing::enter_own_namespaces();
  if (g_entered && !*g_entered) std::printf("%s\n", g_entered->error().context.c_str());
  return RUN_ALL_TESTS();
}
