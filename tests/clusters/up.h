#pragma once
/// A run that `emplace up` starts from a cluster file of the test, watched by `emplace ps`.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/chaos/cluster_run.h"
#include "tests/system/process.h"

namespace emplace::testing {

/// A run of `emplace up`. Thread: one.
class Up {
 public:
  struct Options {
    std::string cluster;                     ///< Lines of the cluster file, after its [run].
    std::vector<std::string> settings = {};  ///< Values of `--set`.
    std::vector<std::string> arguments = {};
    std::vector<std::string> access = {"--insecure"};  ///< Options of ps and down.
    Process::Where where = {};
  };
  /// Starts it; `name`: the name of its run directory in `folder`.
  Up(const TemporaryFolder& folder, const std::string& name, Options options);

  const std::string& directory() const { return directory_; }
  /// Waits until the head listens; returns its address, or an empty text if it ended before.
  std::string address();
  /// Output of ps; null if it failed.
  nlohmann::json ps() const;
  /// Waits until `so` holds for the output of ps; false after `deadline`.
  bool wait_until_ps(const std::function<bool(const nlohmann::json&)>& so,
                     Seconds deadline = Seconds{30}) const;
  /// Waits until a feasible placement is found: a run that ends before has failed.
  bool wait_for_a_placement();
  /// Runs `emplace down` once a placement is found; returns the summary of up.
  nlohmann::json down();
  Process& launcher() { return *process_; }
  /// Waits for its end; returns its status and output.
  Finished finish() { return process_->finish(); }

 private:
  const Options options_;
  std::string directory_, address_;
  std::unique_ptr<Process> process_;
};

/// The part of ps about a node; empty if there is none.
nlohmann::json node_of(const nlohmann::json& status, const std::string& name);
/// Value of a key; 0 if it is missing.
std::uint64_t number(const nlohmann::json& object, const char* key);
/// The error line of a command, which must be its last line.
std::string error_line(const Finished& finished);

}  // namespace emplace::testing
