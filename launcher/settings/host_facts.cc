#include "launcher/settings/host_facts.h"

#include <sys/utsname.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <array>
#include <fstream>
#include <span>
#include <thread>

#include "base/hash.h"
#include "launcher/terminal/build_info.h"
#include "launcher/terminal/json_text.h"
#include "policy/nn/kernels.h"

namespace emplace::launcher {
namespace {

/// Returns the processor name from /proc/cpuinfo; empty if it has none.
std::string processor() {
  std::ifstream info{"/proc/cpuinfo"};
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::uint64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), each = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && each > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(each) : 0;
}

std::string new_run_id(const std::filesystem::path& directory, std::int64_t started_wall_ns) {
  const std::string unlike_others = host_name() + " " + std::to_string(::getpid()) + " " +
                                    std::to_string(started_wall_ns) + " " + directory.string();
  return sha256_hex(std::as_bytes(std::span{unlike_others})).substr(0, 16);
}

std::string host_facts() {
  utsname kernel{};
  const bool known = ::uname(&kernel) == 0;
  const Json facts{{"processor", processor()},
                   {"cores", std::thread::hardware_concurrency()},
                   {"memory_bytes", memory_bytes()},
                   {"kernel", known ? std::string{kernel.sysname} + " " + kernel.release : std::string{}},
                   {"build_type", build_info().build_type},
                   {"compiler", build_info().compiler},
                   {"kernels", policy::kernels().name}};
  return json_text(facts);
}

}  // namespace emplace::launcher
