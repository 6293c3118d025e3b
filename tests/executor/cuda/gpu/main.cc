// emplace-gpu-check: checks that need a GPU. scripts/gpu.sh makes the bundle around it and runs its
// checks.
//   emplace-gpu-check --list PART     names and limits [s] of a part's checks
//   emplace-gpu-check --check NAME    one check: a line of JSON per result on standard output
// Exit status: 0 as expected, 1 not as expected, 3 unsupported here, 4 failed, 75 the device is lost.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <string>

#include "tests/executor/cuda/gpu/checks.h"

namespace emplace::gpu_check {

void Report::line(const nlohmann::json& result) {
  std::printf("%s\n", result.dump().c_str());
  std::fflush(stdout);
}

void Report::expect(bool ok, const std::string& what, const std::string& expected, nlohmann::json result) {
  result["case"] = what, result["expected"] = expected, result["ok"] = ok;
  as_expected_ = as_expected_ && ok;
  line(result);
}

std::span<const Check> all_checks() {
  static constexpr Check checks[] = {{"versions", 1, 90, versions},
                                     {"green_contexts", 1, 60, green_contexts},
                                     {"full_device", 1, 90, full_device},
                                     {"kernel_parity", 1, 120, kernel_parity},
                                     {"verification", 1, 110, verification},
                                     {"large_kernels", 1, 90, large_kernels},
                                     {"dispatch_overhead", 2, 80, dispatch_overhead},
                                     {"step_times", 2, 150, step_times},
                                     {"pytorch", 2, 120, nullptr},
                                     {"shared_gpu", 2, 40, shared_gpu},
                                     {"profiles", 2, 170, profiles},
                                     {"placements", 3, 330, placements},
                                     {"evaluate", 3, 100, nullptr},
                                     {"racecheck", 3, 90, nullptr},
                                     {"illegal_access", 3, 40, illegal_access}};
  return checks;
}

namespace {

int list(std::string_view word) {
  int part = 0;
  std::from_chars(word.data(), word.data() + word.size(), part);
  bool any = false;
  for (const Check& check : all_checks()) {
    if (check.part != part) continue;
    std::printf("%s %d\n", std::string{check.name}.c_str(), check.most_s);
    any = true;
  }
  return any ? 0 : 2;
}

int run(const Bundle& bundle, std::string_view name) {
  const auto checks = all_checks();
  const auto at = std::ranges::find(checks, name, &Check::name);
  if (name != "poison" && (at == checks.end() || at->run == nullptr)) {
    std::fprintf(stderr, "error: '%s' is no check of this program\n", std::string{name}.c_str());
    return 2;
  }
  Report report;
  const auto done = at == checks.end() ? poison(bundle, report) : at->run(bundle, report);
  if (done) return report.as_expected() ? 0 : 1;
  std::fprintf(stderr, "%s\n", done.error().context.c_str());
  std::fflush(stderr);
  ::_exit(done.error().code == Errc::kDeviceLost ? 75 : done.error().code == Errc::kUnsupported ? 3 : 4);
}

}  // namespace
}  // namespace emplace::gpu_check

int main(int argc, char** argv) {
  using namespace emplace::gpu_check;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // A check that is ended leaves no child that uses the GPU.
  Bundle bundle;
  bundle.program = std::filesystem::read_symlink("/proc/self/exe");
  bundle.folder = bundle.program.parent_path();
  std::error_code error;
  if (argc == 3 && std::string_view{argv[1]} == "--list") return list(argv[2]);
  if (argc == 3 && std::string_view{argv[1]} == "--check") {
    std::filesystem::current_path(bundle.folder, error);  // Fixtures are found relative to this folder.
    return run(bundle, argv[2]);
  }
  std::fprintf(stderr, "usage: emplace-gpu-check --list 1|2|3 | --check NAME\n");
  return 2;
}
