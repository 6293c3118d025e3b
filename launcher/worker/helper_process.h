#pragma once
/// One executor process, from its start to its end, as its parent handles it.

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/worker/channel.h"
#include "runtime/process/child_process.h"

namespace emplace::launcher {

/// The program to start.
struct HelperCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< "NAME=value", added to the environment of the parent.
  /// Words before all options, for a program that an interpreter runs: "-m", "emplace.torch_executor".
  std::vector<std::string> leading_words = {};
  /// Signals typed at the terminal do not reach it, for a program that cannot ignore them from its start.
  bool own_group = false;
  /// Our descriptors that the child keeps open, as kChannelFd + 1 and on: locks that must outlive us.
  std::vector<int> kept = {};
};

/// The child's descriptor of the channel, and its exit status after a lost device.
inline constexpr int kChannelFd = 3;
inline constexpr int kDeviceLostStatus = 75;

/// Thread: one.
class HelperProcess {
 public:
  /// Starts a process. Errors (kIo): it cannot be started.
  static Result<std::unique_ptr<HelperProcess>> start(const HelperCommand& command,
                                                      process::Spawner& spawner = process::system_spawner());
  /// Ends the process if it runs: closes its channel, waits half a second, then kills it.
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  Channel& channel() { return *channel_; }
  pid_t pid() const { return process_.pid(); }
  /// Sends a signal to this process, not to its group.
  void signal(int signal) const { (void)process_.signal(signal); }
  /// Returns nothing while the process runs; then why it ended: "crashed: signal 11 (Segmentation fault)",
  /// "poisoned: …", with the last lines that it wrote to standard error.
  std::optional<std::string> ended();
  /// Waits at most `most` until the channel can be read, or written if output is pending.
  void wait(std::chrono::milliseconds most);

 private:
  HelperProcess(process::ChildProcess process, process::Descriptor channel, process::Descriptor errors);
  void read_errors();

  process::ChildProcess process_;
  std::unique_ptr<Channel> channel_;
  const process::Descriptor errors_;
  std::string error_text_;  // The last part of its standard error.
};

}  // namespace emplace::launcher
