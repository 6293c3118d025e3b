#pragma once
/// One life of an executor process, seen by its parent.

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

/// What is run.
struct HelperCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< "NAME=value", over ours.
};

/// The descriptor at which the process finds its end of the channel, and how it ends when a device is lost.
inline constexpr int kChannelFd = 3;
inline constexpr int kDeviceLostStatus = 75;

/// Thread: one.
class HelperProcess {
 public:
  /// Errors (kIo): it cannot be started.
  static Result<std::unique_ptr<HelperProcess>> start(const HelperCommand& command,
                                                      process::Spawner& spawner = process::system_spawner());
  /// Ends it if it lives: it has seen the end of its channel, and is killed after that.
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  Channel& channel() { return *channel_; }
  pid_t pid() const { return process_.pid(); }
  /// To this process alone.
  void signal(int signal) const { (void)process_.signal(signal); }
  /// Empty while it lives; then why it ended: "crashed: signal 11 (Segmentation fault)", "poisoned: …", with
  /// the last lines that it wrote to standard error.
  std::optional<std::string> ended();
  /// Waits until it has said something, or something can be said, at most so long.
  void wait(std::chrono::milliseconds most);

 private:
  HelperProcess(process::ChildProcess process, process::Descriptor channel, process::Descriptor errors);
  void read_errors();

  process::ChildProcess process_;
  std::unique_ptr<Channel> channel_;
  const process::Descriptor errors_;
  std::string words_;  // The end of what it wrote to standard error.
};

}  // namespace emplace::launcher
