// Goal: whatever its faults, a run keeps its promises and reaches its end.  Method: thousands of histories,
// each decided by one seed; checkers that watch every message; a sample of them played twice.
//
//   sim_test [--seeds N] [--first S] [--with FAULT]… [--without FAULT]…     N histories from seed S on
//   sim_test --seed S …                                                      one, with every event
// EMPLACE_SIM_SEEDS=N in the environment means --seeds N, for long runs. Seeds that failed once are in
// tests/sim/seeds and are played first.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mark.h"
#include "tests/sim/cluster.h"
#include "tests/support/scratch_folder.h"

namespace emplace::sim_test {
namespace {

/// A number of histories that reaches every mark.
constexpr std::uint64_t kEnoughForMarks = 2'000;

struct Arguments {
  std::uint64_t first = 1, seeds = kEnoughForMarks;
  std::optional<std::uint64_t> only;
  std::set<Fault> with, without;
  std::string faults;  // The options as written.
};

[[noreturn]] void usage(const std::string& why) {
  std::fprintf(
      stderr,
      "error: %s; sim_test [--seeds N] [--first S] [--seed S] [--with FAULT] [--without FAULT]; faults:\n",
      why.c_str());
  for (const FaultFact& fact : all_faults()) std::fprintf(stderr, "  %s\n", fact.name);
  std::exit(2);
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  if (const char* seeds = std::getenv("EMPLACE_SIM_SEEDS"))
    arguments.seeds = std::strtoull(seeds, nullptr, 10);
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) usage(words[i] + " needs a value");
    const std::string& value = words[i + 1];
    if (words[i] == "--seeds") {
      arguments.seeds = std::stoull(value);
    } else if (words[i] == "--first") {
      arguments.first = std::stoull(value);
    } else if (words[i] == "--seed") {
      arguments.only = std::stoull(value);
    } else if (words[i] == "--with" || words[i] == "--without") {
      arguments.faults += " " + words[i] + " " + value;
      if (words[i] == "--without" && value == "all") {
        for (const FaultFact& fact : all_faults()) arguments.without.insert(fact.fault);
        continue;
      }
      const auto fault = parse_fault(value);
      if (!fault) usage("no fault is called " + value);
      (words[i] == "--with" ? arguments.with : arguments.without).insert(*fault);
    } else {
      usage("unknown " + words[i]);
    }
  }
  return arguments;
}

/// Marks in the protocol cores that no history has reached.
std::set<std::string> missed_marks() {
  std::set<std::string> missed;
  constexpr std::string_view kMark = "EMPLACE_MARK(\"";
  for (const char* room : {"runtime/core", "actors", "actors/dispatch"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator{std::string{EMPLACE_SOURCE_DIR "/"} + room}) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file{entry.path()};
      const std::string text{std::istreambuf_iterator<char>{file}, {}};
      for (std::size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + 1)) {
        const std::size_t first = at + kMark.size();
        missed.insert(text.substr(first, text.find('"', first) - first));
      }
    }
  }
  for (const std::string& reached : reached_marks()) missed.erase(reached);
  return missed;
}

/// Arguments from the files of seeds: a line has a seed and the faults that it needs; `#` starts a remark.
std::vector<std::vector<std::string>> kept_seeds() {
  std::vector<std::vector<std::string>> kept;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{EMPLACE_SOURCE_DIR "/tests/sim/seeds"})
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::ifstream lines{file};
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words{line.substr(0, line.find('#'))};
      std::vector<std::string> arguments{"--seed"};
      for (std::string word; words >> word;) arguments.push_back(word);
      if (arguments.size() > 1) kept.push_back(std::move(arguments));
    }
  }
  return kept;
}

struct Totals {
  std::uint64_t played = 0, failed = 0, again = 0, steps = 0, faults = 0, fenced = 0;
  std::uint64_t rotted = 0, noticed = 0;  // Numbers of histories.
  double simulated_s = 0;
};

void play_one(std::uint64_t seed, const Arguments& arguments, const std::string& directory, Totals& totals) {
  const Swarm swarm = draw_swarm(seed, arguments.with, arguments.without);
  const Outcome outcome = play(swarm, directory);
  ++totals.played;
  totals.steps += outcome.steps;
  totals.faults += outcome.faults;
  totals.fenced += outcome.fenced;
  totals.rotted += outcome.rotted ? 1 : 0;
  totals.noticed += outcome.noticed ? 1 : 0;
  totals.simulated_s += std::chrono::duration<double>(outcome.simulated).count();
  std::optional<std::string> broken = outcome.broken;
  if (!broken && seed % 50 == 0) {
    ++totals.again;
    const Outcome again = play(swarm, directory);
    if (again.digest != outcome.digest || again.steps != outcome.steps)
      broken = "reproducible (G11): the same seed gives another history";
  }
  if (!broken) return;
  ++totals.failed;
  std::printf("FAILED  seed %llu: %s\n  %s\n  again, with every event: sim_test --seed %llu%s\n",
              static_cast<unsigned long long>(seed), broken->c_str(), swarm.describe().c_str(),
              static_cast<unsigned long long>(seed), arguments.faults.c_str());
  std::fflush(stdout);
}

int show(std::uint64_t seed, const Arguments& arguments, const std::string& directory) {
  const Swarm swarm = draw_swarm(seed, arguments.with, arguments.without);
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), swarm.describe().c_str());
  const Outcome outcome = play(swarm, directory, [](const std::string& line) { std::puts(line.c_str()); });
  std::printf("%s after %.3f simulated s, %llu steps, digest %016llx\n",
              outcome.broken ? outcome.broken->c_str() : "every promise was kept",
              std::chrono::duration<double>(outcome.simulated).count(),
              static_cast<unsigned long long>(outcome.steps),
              static_cast<unsigned long long>(outcome.digest));
  return outcome.broken ? 1 : 0;
}

/// CPU time of this process.
double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int swarm(const Arguments& arguments, const std::string& directory) {
  const SystemClock clock;
  const Nanos started = clock.now();
  const double cpu_started = cpu_seconds();
  Totals totals;
  for (const auto& words : kept_seeds()) {
    const Arguments kept = parse(words);
    play_one(*kept.only, kept, directory, totals);
  }
  for (std::uint64_t i = 0; i < arguments.seeds; ++i)
    play_one(arguments.first + i, arguments, directory, totals);
  const double wall_s = std::chrono::duration<double>(clock.now() - started).count();
  const double cpu_s = cpu_seconds() - cpu_started;
  const auto per = [&](double what, double s) { return s > 0 ? what / s : 0; };
  std::printf(
      "%llu histories (%llu of them twice), %llu failed: %.0f seeds/s (%.0f per "
      "core second), %.1f "
      "simulated "
      "h per wall h "
      "(%.1f per core h), %.2f simulated h in %.1f s; %llu node faults, %llu results that did not count, "
      "%llu of %llu records in which bits turned over were noticed, %.1f million steps\n",
      static_cast<unsigned long long>(totals.played), static_cast<unsigned long long>(totals.again),
      static_cast<unsigned long long>(totals.failed), per(static_cast<double>(totals.played), wall_s),
      per(static_cast<double>(totals.played), cpu_s), per(totals.simulated_s, wall_s),
      per(totals.simulated_s, cpu_s), totals.simulated_s / 3600, wall_s,
      static_cast<unsigned long long>(totals.faults), static_cast<unsigned long long>(totals.fenced),
      static_cast<unsigned long long>(totals.noticed), static_cast<unsigned long long>(totals.rotted),
      static_cast<double>(totals.steps) * 1e-6);
  bool whole = true;
  if (arguments.seeds >= kEnoughForMarks && arguments.faults.empty()) {
    for (const std::string& mark : missed_marks()) {
      whole = false;
      std::printf("FAILED  no history reached the mark %s: the swarm has a hole, or the branch is dead\n",
                  mark.c_str());
    }
  }
  return totals.failed == 0 && whole ? 0 : 1;
}

}  // namespace
}  // namespace emplace::sim_test

int main(int argc, char** argv) {
  using namespace emplace::sim_test;
  const Arguments arguments = parse({argv + 1, argv + argc});
  const emplace::testing::ScratchFolder folder{"sim"};
  const std::string directory = folder.path().string();
  return arguments.only ? show(*arguments.only, arguments, directory) : swarm(arguments, directory);
}
