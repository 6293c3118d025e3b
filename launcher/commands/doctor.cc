#include <fmt/core.h>
#include <link.h>
#include <sodium.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zmq.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/commands/commands.h"
#include "launcher/terminal/build_info.h"
#include "launcher/terminal/json_text.h"
#include "launcher/worker/gpu_lease.h"
#include "launcher/worker/helper_program.h"
#include "runtime/process/run_command.h"

namespace emplace::launcher {
namespace {

/// One property of this machine, and how to fix it if it is inadequate.
struct Finding {
  std::string what, value, cure;  ///< An empty `cure` means that nothing needs fixing.
};

std::string first_line(const std::filesystem::path& path) {
  std::ifstream in{path};
  std::string line;
  std::getline(in, line);
  return line;
}

Finding messages() {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  const bool curve = zmq_has("curve") == 1;
  return {"ZeroMQ",
          fmt::format("{}.{}.{}{}", major, minor, patch, curve ? ", with CURVE" : ", without CURVE"),
          curve ? "" : "links between machines cannot be encrypted; install a libzmq built with libsodium"};
}

/// Returns the file names of the shared libraries of this process, e.g. "libzstd.so.1.5.4".
std::vector<std::string> loaded_libraries() {
  std::vector<std::string> names;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        std::error_code error;
        const std::filesystem::path file = std::filesystem::canonical(info->dlpi_name, error);
        if (!error) static_cast<std::vector<std::string>*>(out)->push_back(file.filename().string());
        return 0;
      },
      &names);
  return names;
}

Finding library(const std::vector<std::string>& loaded, std::string what, std::string_view prefix) {
  const auto it = std::find_if(loaded.begin(), loaded.end(), [&](const std::string& name) {
    return name.starts_with(prefix) && name.size() > prefix.size() &&
           (name[prefix.size()] == '.' || name[prefix.size()] == '-');
  });
  return {std::move(what), it == loaded.end() ? "linked in" : printable(*it, 60), ""};
}

/// An optional part of the build.
struct Part {
  const char* name;
  const char* library;  ///< Name prefix of its shared library; null if it has none.
  const char* use;      ///< Features that need the part, and how to get it.
};
constexpr Part kParts[] = {
    {"scotch", "libscotch", "the methods scotch and mincut; install libscotch-dev and build again"},
    {"metis", "libmetis", "the method metis; install libmetis-dev and build again"},
    {"clp", nullptr, "the method m-sct; install coinor-libclp-dev and build again"},
    {"onednn", "libdnnl", "the executor cpu; sim, fake and replay do not need it"},
    {"cuda", nullptr, "the executor cuda; sim, fake and replay do not need it"}};

Finding optional_part(const std::vector<std::string>& loaded, const Part& part) {
  const auto& parts = build_info().parts;
  if (std::find(parts.begin(), parts.end(), part.name) == parts.end())
    return {part.name, "not built in", std::string{"without it this program lacks "} + part.use};
  if (std::string_view{part.name} ==
      "cuda")  // No GPU has run it yet (scripts/gpu.sh, docs/reference/cuda.md).
    return {part.name, "compiled, never run", ""};
  return part.library == nullptr ? Finding{part.name, "built in", ""}
                                 : library(loaded, part.name, part.library);
}

std::string share_of_cgroup(const char* file) {
  return first_line(std::filesystem::path{"/sys/fs/cgroup"} / file);
}

Finding memory() {
  std::int64_t bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  std::string value = format_bytes(bytes);
  if (const std::string limit = share_of_cgroup("memory.max"); !limit.empty() && limit != "max") {
    const std::int64_t allowed = std::strtoll(limit.c_str(), nullptr, 10);
    if (allowed > 0 && allowed < bytes)
      value += ", of which this container may use " + format_bytes(bytes = allowed);
  }
  return {"memory", value, bytes < (std::int64_t{2} << 30) ? "graphs of 100,000 ops need 2 GiB" : ""};
}

Finding processors() {
  double cores = std::thread::hardware_concurrency();
  std::string value = std::to_string(std::thread::hardware_concurrency());
  const std::string quota = share_of_cgroup("cpu.max");  // "200000 100000": quota per period [us].
  if (char* end = nullptr; !quota.empty() && quota.compare(0, 3, "max") != 0) {
    const double used = std::strtod(quota.c_str(), &end), period = std::strtod(end, nullptr);
    if (period > 0 && used / period < cores) {
      cores = used / period;
      value += fmt::format(", of which this container may use {}", std::to_string(cores).substr(0, 4));
    }
  }
  return {"processors", value, cores < 2 ? "sampling and learning share one core; use at least two" : ""};
}

Finding vector_units() {
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return {"vector units",
          v3 ? (__builtin_cpu_supports("avx512f") != 0 ? "AVX2, AVX-512" : "AVX2") : "no AVX2",
          v3 ? "" : "this program needs x86-64-v3"};
}

/// A limit of this process that many executors may reach.
Finding limit(const char* what, decltype(RLIMIT_NOFILE) resource, rlim_t least, const char* cure) {
  rlimit now{};
  ::getrlimit(resource, &now);
  const bool any = now.rlim_cur == RLIM_INFINITY;
  return {what, any ? "unlimited" : std::to_string(now.rlim_cur), !any && now.rlim_cur < least ? cure : ""};
}

Finding driver() {
  const std::string version = first_line("/proc/driver/nvidia/version");
  if (version.empty())
    return {"NVIDIA driver", "none", "install it to use real GPUs; simulated GPUs do not need it"};
  return {"NVIDIA driver", printable(version, 100), ""};
}

Finding gpus() {
  const GpuSources sources = GpuSources::real();
  const std::vector<DriverGpu> all = driver_gpus(sources.driver);
  std::string models;
  for (const DriverGpu& gpu : all)
    if (!gpu.model.empty()) models += (models.empty() ? ": " : ", ") + printable(gpu.model, 60);
  if (all.empty()) return {"GPUs", "none", "the simulator finds placements for GPUs without one"};
  const auto& parts = build_info().parts;
  const bool built = std::find(parts.begin(), parts.end(), "cuda") != parts.end();
  const bool usable = ::access("/dev/nvidiactl", R_OK | W_OK) == 0;
  return {"GPUs", std::to_string(all.size()) + models,
          !usable  ? "/dev/nvidiactl cannot be opened; add yourself to the group that owns it"
          : !built ? "this build cannot use them: CUDA is not built in"
          : leasable_gpus(sources).uuids.empty()
              ? "executors cannot lease them: " + leasable_gpus(sources).why_none
              : ""};
}

/// Free space of the current folder, where runs are kept by default.
Finding disk() {
  struct statvfs space {};
  if (::statvfs(".", &space) != 0) return {"disk here", "unknown", "change to a readable folder"};
  const auto free = static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize);
  const bool writable = ::access(".", W_OK) == 0;
  return {"disk here", format_bytes(free) + " free",
          !writable                        ? "this folder is not writable; runs need --run-dir"
          : free < (std::int64_t{1} << 30) ? "the record of a long run needs 1 GiB"
                                           : ""};
}

Finding temporary_files() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  const bool writable = !error && ::access(folder.c_str(), W_OK) == 0;
  return {"temporary files", printable_path(folder), writable ? "" : "set TMPDIR to a writable folder"};
}

/// The program that runs executors of a kind.
Finding helper(std::string_view kind) {
  const auto program = helper_program(kind);
  return {"executor " + std::string{kind},
          program           ? *program
          : kind == "torch" ? "not installed"
                            : "not built",
          program ? "" : program.error().context.substr(program.error().context.rfind("; ") + 2)};
}

/// Tools that `emplace up` uses to reach other machines.
Finding remote_starts() {
  std::string found;
  for (const char* tool : {"ssh", "srun", "kubectl"})
    if (process::find_program(tool)) found += (found.empty() ? "" : ", ") + std::string{tool};
  return {"other machines", found.empty() ? "none of ssh, srun, kubectl" : found,
          found.empty() ? "install openssh-client to start processes elsewhere; emplace join does not need it"
                        : ""};
}

std::vector<Finding> all_findings() {
  const std::vector<std::string> loaded = loaded_libraries();
  std::vector<Finding> findings{
      processors(),
      vector_units(),
      memory(),
      disk(),
      temporary_files(),
      limit("open files", RLIMIT_NOFILE, 1024, "raise the limit for many executors: ulimit -n 4096"),
      limit("processes", RLIMIT_NPROC, 512,
            "the limit includes threads; raise it for many executors: ulimit -u "
            "4096"),
      remote_starts(),
      messages(),
      {"SQLite", sqlite3_libversion(), ""},
      {"libsodium", sodium_version_string(), ""}};
  for (const auto& [what, prefix] : {std::pair{"Zstandard", "libzstd"},
                                     {"zlib", "libz"},
                                     {"xxHash", "libxxhash"},
                                     {"RE2", "libre2"},
                                     {"Protobuf", "libprotobuf"}})
    findings.push_back(library(loaded, what, prefix));
  for (const Part& part : kParts) findings.push_back(optional_part(loaded, part));
  for (const std::string_view kind : process_executor_kinds()) findings.push_back(helper(kind));
  findings.push_back(driver());
  findings.push_back(gpus());
  return findings;
}

class Doctor final : public Command {
 public:
  Doctor()
      : Command{"doctor", "Check this machine: what it offers, what is missing and how to fix it",
                "emplace doctor"} {}
  void declare(Options&) override {}
  Result<ExitStatus> run(Console& console) override {
    const std::vector<Finding> findings = all_findings();
    if (console.json()) {
      auto list = Json::array();
      for (const Finding& finding : findings) {
        Json item{{"what", finding.what},
                  {"value", finding.value},
                  {"ok", finding.cure.empty()},
                  {"cure", finding.cure}};
        list.push_back(std::move(item));
      }
      const Json json{{"version", build_info().version}, {"findings", list}};
      console.print(json_text(json));
      return ExitStatus::kDone;
    }
    std::string text = describe(build_info()) + "\n";
    for (const Finding& finding : findings) {
      const bool well = finding.cure.empty();
      text +=
          console.out_terminal().styled(well ? Style::kGreen : Style::kYellow, well ? "ok    " : "note  ") +
          finding.what + std::string(18 - finding.what.size(), ' ') + finding.value +
          (well ? "" : "; " + finding.cure) + "\n";
    }
    console.print(text);
    return ExitStatus::kDone;
  }
};

}  // namespace

std::unique_ptr<Command> make_doctor() { return std::make_unique<Doctor>(); }

}  // namespace emplace::launcher
