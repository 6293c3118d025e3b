#include <sodium.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/build_info.h"
#include "launcher/commands/commands.h"
#include "launcher/json_object.h"

namespace emplace::launcher {
namespace {

/// One thing that was looked at, and what would mend it if it is not as wished.
struct Finding {
  std::string what, value, cure;  ///< An empty cure: all is well.
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
          std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch) +
              (curve ? ", with CURVE" : ", without CURVE"),
          curve
              ? ""
              : "links between machines cannot be encrypted; install a libzmq that was built with libsodium"};
}

Finding memory() {
  const auto bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  return {"memory", format_bytes(bytes),
          bytes < (std::int64_t{2} << 30) ? "2 GiB are wanted for graphs of 100,000 ops" : ""};
}

Finding processors() {
  const unsigned cores = std::thread::hardware_concurrency();
  return {"processors", std::to_string(cores),
          cores < 2 ? "sampling and learning share one core; two are wanted" : ""};
}

Finding vector_units() {
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return {"vector units",
          v3 ? (__builtin_cpu_supports("avx512f") != 0 ? "AVX2, AVX-512" : "AVX2") : "no AVX2",
          v3 ? "" : "this program needs x86-64-v3"};
}

Finding open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return {"open files", std::to_string(limit.rlim_cur),
          limit.rlim_cur < 1024 ? "raise it for many executors: ulimit -n 4096" : ""};
}

Finding gpus() {
  const std::string driver = first_line("/proc/driver/nvidia/version");
  std::error_code error;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator it{"/proc/driver/nvidia/gpus", error}, end; !error && it != end;
       it.increment(error))
    ++count;
  if (driver.empty())
    return {"GPUs", "no NVIDIA driver", "simulated GPUs need none; real ones need the driver"};
  return {"GPUs", std::to_string(count) + ", " + printable(driver, 80),
          "this build runs nothing on them: CUDA is not built in"};
}

Finding temporary_files() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  const bool writable = !error && ::access(folder.c_str(), W_OK) == 0;
  // Sockets between the processes of one machine live in the run directory; their paths may have 107
  // characters.
  return {"temporary files", printable(folder.string()),
          writable ? "" : "set TMPDIR to a folder that can be written"};
}

class Doctor final : public Command {
 public:
  std::string_view name() const override { return "doctor"; }
  std::string_view summary() const override {
    return "What this machine offers, what is missing and what would mend it";
  }
  void declare(Options&) override {}
  Result<ExitStatus> run(Console& console) override {
    const std::vector<Finding> findings{processors(),
                                        vector_units(),
                                        memory(),
                                        open_files(),
                                        temporary_files(),
                                        messages(),
                                        {"SQLite", sqlite3_libversion(), ""},
                                        {"libsodium", sodium_version_string(), ""},
                                        gpus()};
    if (console.json()) {
      std::vector<JsonObject> list;
      for (const Finding& finding : findings) {
        JsonObject item;
        item.add("what", finding.what)
            .add("value", finding.value)
            .add("ok", finding.cure.empty())
            .add("cure", finding.cure);
        list.push_back(std::move(item));
      }
      JsonObject json;
      json.add("version", build_info().version).add("findings", std::move(list));
      console.print(json.text());
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
