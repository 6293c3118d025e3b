// emplace-gpu-check: what only a GPU can answer, in one run with a time limit. scripts/gpu.sh makes the
// bundle around it.
//   emplace-gpu-check --run FOLDER [--budget SECONDS]     every check, results as FOLDER/CHECK.json
//   emplace-gpu-check --check NAME                        one, to standard output; 75 if the device is lost
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "tests/executor/cuda/gpu/checks.h"

extern char** environ;

namespace emplace::gpu_check {

std::span<const Check> all_checks() {
  static constexpr Check checks[] = {{"versions", 20, versions},
                                     {"kernel_parity", 90, kernel_parity},
                                     {"full_device", 60, full_device},
                                     {"illegal_access", 30, illegal_access},
                                     {"green_contexts", 30, green_contexts},
                                     {"verification", 90, verification},
                                     {"step_times", 90, step_times},
                                     {"dispatch_overhead", 60, dispatch_overhead},
                                     {"profiles", 150, profiles},
                                     {"placements", 180, placements}};
  return checks;
}

namespace {

int run_one(const Bundle& bundle, std::string_view name) {
  const auto checks = all_checks();
  const auto at = std::ranges::find(checks, name, &Check::name);
  if (at == checks.end() && name != "poison") {
    std::fprintf(stderr, "%s: is no check\n", std::string{name}.c_str());
    return 2;
  }
  const auto done = at == checks.end() ? poison(bundle) : at->run(bundle);
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().context.c_str());
    std::fflush(stderr);
    ::_exit(done.error().code == Errc::kDeviceLost ? 75 : done.error().code == Errc::kUnsupported ? 3 : 4);
  }
  std::printf("%s\n", done->c_str());
  return 0;
}

/// Starts the check with its output in a file; ends it if it takes too long. Returns its status, -1 for too
/// long.
int run_child(const Bundle& bundle, const Check& check, const std::filesystem::path& out, double seconds,
              const Clock& clock) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const std::string partial = out.string() + ".partial", errors = out.string() + ".err";
  ::posix_spawn_file_actions_addopen(&actions, 1, partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  std::string program = bundle.program, word = "--check", name{check.name};
  char* const arguments[] = {program.data(), word.data(), name.data(), nullptr};
  pid_t child = 0;
  const int started = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (started != 0) return -2;
  const Nanos begin = clock.now();
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (static_cast<double>((clock.now() - begin).count()) * 1e-9 > seconds) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return -1;
    }
    ::poll(nullptr, 0, 20);
  }
  std::error_code error;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    std::filesystem::rename(partial, out, error);
    if (std::filesystem::file_size(errors, error) == 0) std::filesystem::remove(errors, error);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_all(const Bundle& bundle, const std::filesystem::path& folder, double budget_s) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const SystemClock clock;
  const Nanos begin = clock.now();
  const auto spent = [&] { return static_cast<double>((clock.now() - begin).count()) * 1e-9; };
  std::string summary = std::getenv("EMPLACE_GPU_REHEARSE") == nullptr ? "{\n" : "{\n \"rehearsal\": true,\n";
  int bad = 0;
  for (const Check& check : all_checks()) {
    const double left = budget_s - spent(), before = spent();
    std::string word = "left out: no time";
    if (left > 10) {
      const int status = run_child(bundle, check, folder / (std::string{check.name} + ".json"),
                                   std::min(left, check.seconds), clock);
      word = status == 0    ? "done"
             : status == -1 ? "took too long"
                            : "ended with status " + std::to_string(status);
      bad += status != 0;
    }
    char line[200];
    std::snprintf(line, sizeof line, " \"%s\": {\"outcome\": \"%s\", \"seconds\": %.1f},\n",
                  std::string{check.name}.c_str(), word.c_str(), spent() - before);
    std::printf("%s", line);
    std::fflush(stdout);
    summary += line;
    if (check.name == "versions" && word != "done") break;  // Nothing works without it.
  }
  char end[80];
  std::snprintf(end, sizeof end, " \"seconds\": %.1f\n}\n", spent());
  const auto written = write_file(folder / "summary.json", summary + end);
  return bad == 0 && written ? 0 : 1;
}

}  // namespace
}  // namespace emplace::gpu_check

int main(int argc, char** argv) {
  using namespace emplace::gpu_check;
  Bundle bundle;
  bundle.program = std::filesystem::read_symlink("/proc/self/exe");
  bundle.folder = bundle.program.parent_path();
  std::error_code error;
  if (argc == 3 && std::string_view{argv[1]} == "--check") {
    std::filesystem::current_path(bundle.folder, error);  // The fixtures are found from here.
    return run_one(bundle, argv[2]);
  }
  if ((argc == 3 || argc == 5) && std::string_view{argv[1]} == "--run") {
    const double budget_s =
        argc == 5 && std::string_view{argv[3]} == "--budget" ? std::strtod(argv[4], nullptr) : 570;
    return run_all(bundle, std::filesystem::absolute(argv[2]), budget_s);
  }
  std::fprintf(stderr, "usage: emplace-gpu-check --run FOLDER [--budget SECONDS] | --check NAME\n");
  return 2;
}
