#pragma once
/// A run that `emplace up` brings up from a cluster file of the test, watched by `emplace ps`.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/chaos/cluster_run.h"
#include "tests/system/process.h"

namespace emplace::testing {

/// Thread: one.
class Up {
 public:
  struct Options {
    std::string cluster;                     ///< Lines of the cluster file, after its [run].
    std::vector<std::string> settings = {};  ///< Of `--set`.
    std::vector<std::string> arguments = {};
    std::vector<std::string> access = {"--insecure"};  ///< Of ps and down.
    Process::Where where = {};
  };
  /// Starts it; `name`: of its run directory in `folder`.
  Up(const TemporaryFolder& folder, const std::string& name, Options options);

  const std::string& directory() const { return directory_; }
  /// Waits until the head listens; its address, or empty if it ended before.
  std::string address();
  /// What ps says; null if it could not say it.
  nlohmann::json ps() const;
  /// Waits until ps says so; false after `deadline`.
  bool wait_until_ps(const std::function<bool(const nlohmann::json&)>& so,
                     Seconds deadline = Seconds{30}) const;
  /// Waits until something that fits was found: a run that ends before has failed.
  bool wait_for_a_placement();
  /// `emplace down`, once something was found, and what up said in the end.
  nlohmann::json down();
  Process& launcher() { return *process_; }
  /// What it said on standard error so far, or in all.
  Finished finish() { return process_->finish(); }

 private:
  const Options options_;
  std::string directory_, address_;
  std::unique_ptr<Process> process_;
};

/// Of ps: its part about a node; empty if there is none.
nlohmann::json node_of(const nlohmann::json& status, const std::string& name);
/// 0 where it is not there.
std::uint64_t number(const nlohmann::json& object, const char* key);
/// The line with which it failed, which must be the last one.
std::string error_line(const Finished& finished);

}  // namespace emplace::testing
