#pragma once
/// Runs the built program as a user or a script does: as a process, observed from outside only.

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::testing {

struct Finished {
  int status = -1;  ///< Exit status; 128 + signal if a signal killed it.
  bool killed = false;
  std::string out, err;
};

/// One process of `emplace`. Thread: one.
class Process {
 public:
  struct Where {
    std::vector<std::string> environment = {};  ///< "NAME=value", on top of ours.
    bool out_is_terminal = false;               ///< Standard output is a pseudo-terminal instead of a pipe.
    std::vector<std::string> prefix = {};  ///< A command that starts the program: "unshare", "-rn", "--".
    std::string out_file = {};  ///< Not empty: standard output is this file, and `out` stays empty.
  };
  explicit Process(const std::vector<std::string>& arguments) : Process{arguments, Where{}} {}
  Process(const std::vector<std::string>& arguments, const Where& where);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  /// Reads until standard error contains `text`; false if the process ended without it.
  bool wait_for_error_text(std::string_view text);
  /// Reads until standard output contains `text` after the matches of earlier calls; false if the process
  /// ended without it.
  bool wait_for_out_text(std::string_view text);
  void send(int signal);
  pid_t pid() const { return pid_; }
  /// The part of standard error that was read.
  const std::string& err() const { return seen_.err; }
  Finished finish();

 private:
  bool read_some();  // False once both ends are closed.

  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1;
  Finished seen_;
  std::size_t found_ = 0;  // Bytes of standard output before the last match of wait_for_out_text().
};

/// Runs the program from start to end.
Finished run(const std::vector<std::string>& arguments, const Process::Where& where = {});

/// Arguments of a run of the small convolutional graph with the quickstart's settings: seconds, not minutes.
std::vector<std::string> small_run(const std::string& directory, const std::vector<std::string>& more = {});

/// A file of a process in /proc, at most 64 KiB; empty if the process has ended, for which a stream would
/// throw.
std::string read_proc(pid_t pid, const char* name);

/// The head's process id, from /proc: the child of `emplace run` on this directory; 0 if there is none (yet).
pid_t head_of(const std::string& directory);

/// A folder that is removed with the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string file(std::string_view name, std::string_view content) const;  ///< Written; returns its path.
  std::string at(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// A file of the repository: "configs/devices/quickstart.toml".
std::string shipped(std::string_view path);
inline const std::string kGraph = shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json");
inline const std::string kDevices = shipped("configs/devices/quickstart.toml");

/// Keys of an object, in their order.
std::vector<std::string> keys(const nlohmann::ordered_json& object);

}  // namespace emplace::testing
