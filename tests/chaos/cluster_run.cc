#include "tests/chaos/cluster_run.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace emplace::testing {
namespace {

const SystemClock g_clock;

std::string cluster_file(const ClusterOptions& options) {
  std::string toml = "[head]\n" + options.head +
                     "\n[supervision]\nrestarts_per_minute = " + std::to_string(options.restarts_per_minute) +
                     "\n";
  const auto node = [&](const std::string& role, const std::string& more) {
    toml += "[[node]]\nname = \"" + role + "\"\nroles = [\"" + role + "\"]\n" + more + "\n";
  };
  node("recorder", options.others);
  node("learner", options.others);
  node("sampler", "processes = 0\n" + options.others);
  node("executor", "processes = 0\n" + options.executor);
  return toml;
}

std::string words_of(pid_t pid) { return read_proc(pid, "cmdline"); }

/// Whether a process has ended, reaped or not.
bool is_gone(pid_t pid) {
  const std::string stat = read_proc(pid, "stat");
  const std::size_t at = stat.rfind(") ");
  return at == std::string::npos || stat[at + 2] == 'Z' || stat[at + 2] == 'X';
}

}  // namespace

bool wait_until(const std::function<bool()>& so, Seconds deadline) {
  const Nanos end = g_clock.now() + std::chrono::duration_cast<Nanos>(deadline);
  for (Nanos before = g_clock.now(); !so();) {
    if (before > end) return false;
    ::poll(nullptr, 0, 4);
    const Nanos now = g_clock.now();
    if (now - before > std::chrono::seconds{1})
      std::printf("this machine stood still for %.2f s\n", Seconds{now - before}.count());
    before = now;
  }
  return true;
}

ClusterRun::ClusterRun(const TemporaryFolder& folder, const std::string& name, ClusterOptions options)
    : options_{std::move(options)}, directory_{folder.at(name)}, started_{g_clock.now()} {
  std::vector<std::string> arguments{"run",
                                     shipped("configs/quickstart.toml"),
                                     "--cluster",
                                     folder.file("cluster.toml", cluster_file(options_)),
                                     "--run-dir",
                                     directory_,
                                     "--json",
                                     "--budget",
                                     std::to_string(options_.budget.count()) + "s"};
  for (const std::string& setting :
       {"input.graph=" + shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"),
        std::string{"run.starts=[\"scratch\"]"}, std::string{"policy.groups=8"},
        std::string{"policy.hierarchical.hidden=8"}, std::string{"executor.kind=fake"},
        "executor.delay=" + options_.placement_takes, std::string{"executor.delay_spread=4"},
        "pipeline.controllers=" + std::to_string(options_.samplers),
        "run.episodes=" + std::to_string(options_.episodes),
        "executor.count=" + std::to_string(options_.executors), std::string{"compare.methods=[\"expert\"]"}})
    arguments.insert(arguments.end(), {"--set", setting});
  for (const std::string& setting : options_.settings) arguments.insert(arguments.end(), {"--set", setting});
  process_ = std::make_unique<Process>(arguments, options_.where);
}

Seconds ClusterRun::elapsed() const { return g_clock.now() - started_; }

std::uint64_t ClusterRun::max_in_flight() const { return 2 * options_.samplers; }

std::vector<std::string> ClusterRun::nodes() const {
  std::vector<std::string> names{"head", "recorder", "learner"};
  for (std::uint32_t i = 0; i < options_.samplers; ++i) names.push_back("sampler/" + std::to_string(i));
  for (std::uint32_t i = 0; i < options_.executors; ++i) names.push_back("executor/" + std::to_string(i));
  return names;
}

std::vector<pid_t> ClusterRun::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    const std::string words = words_of(pid);
    if (words.find(std::string{"\0node\0", 6}) != std::string::npos &&
        words.find(directory_ + std::string{"\0", 1}) != std::string::npos)
      found.push_back(pid);
  }
  return found;
}

pid_t ClusterRun::pid_of(const std::string& node) const {
  const std::string name = std::string{"--name\0", 7} + node + std::string{"\0", 1};
  for (const pid_t pid : processes())
    if (words_of(pid).find(name) != std::string::npos && !is_gone(pid)) return pid;
  return 0;
}

bool ClusterRun::signal(const std::string& node, int signal) const {
  const pid_t pid = pid_of(node);
  return pid > 0 && ::kill(pid, signal) == 0;
}

std::size_t ClusterRun::joins(const std::string& node) const {
  return count_in_log(node, node == "head" ? "head: started from" : ": joined head");
}

bool ClusterRun::wait_for_all(Seconds deadline) const {
  const auto all = nodes();
  return wait_until(
             [&] {
               return std::all_of(all.begin(), all.end(),
                                  [&](const std::string& node) { return joins(node) > 0; });
             },
             deadline) &&
         wait_for_episodes(0, deadline);
}

std::uint64_t ClusterRun::committed() const {
  try {
    SQLite::Database db{directory_ + "/run.db", SQLite::OPEN_READONLY, 1'000};
    SQLite::Statement most{db, "SELECT max(seq) FROM episodes"};
    return most.executeStep() ? static_cast<std::uint64_t>(most.getColumn(0).getInt64()) : 0;
  } catch (const SQLite::Exception&) {
    return 0;  // Does not exist yet, or is being recovered.
  }
}

bool ClusterRun::wait_for_episodes(std::uint64_t than, Seconds deadline, std::uint64_t more) const {
  return wait_until([&] { return committed() >= than + more; }, deadline);
}

std::string ClusterRun::log_of(const std::string& node) const {
  std::string file = node;
  std::replace(file.begin(), file.end(), '/', '-');
  std::ifstream in{directory_ + "/log/" + file};
  return {std::istreambuf_iterator<char>{in}, {}};
}

std::size_t ClusterRun::count_in_log(const std::string& node, std::string_view text) const {
  const std::string log = log_of(node);
  std::size_t times = 0;
  for (std::size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + text.size()))
    ++times;
  return times;
}

Seconds ClusterRun::kill_and_recover(const std::vector<std::string>& nodes, Seconds deadline) {
  std::vector<pid_t> before;
  std::vector<std::size_t> joined;
  for (const std::string& node : nodes) {
    before.push_back(pid_of(node));
    joined.push_back(joins(node));
  }
  const Nanos killed = g_clock.now();
  for (const pid_t pid : before)
    if (pid <= 0 || ::kill(pid, SIGKILL) != 0) return Seconds{-1};
  if (!wait_until([&] { return std::all_of(before.begin(), before.end(), is_gone); }, deadline))
    return Seconds{-1};
  const std::uint64_t then = committed();
  if (!wait_for_episodes(then, deadline, max_in_flight() + 1)) return Seconds{-1};
  const Seconds took = g_clock.now() - killed;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!wait_until([&] { return joins(nodes[i]) > joined[i]; }, deadline)) return Seconds{-1};
  return took;
}

bool long_form() {
  const char* const form = std::getenv("EMPLACE_CHAOS");
  return form != nullptr && std::string_view{form} == "long";
}

}  // namespace emplace::testing
