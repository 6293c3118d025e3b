#pragma once
/// Processes that hold actors of one start of a run: `emplace node`, which the launcher starts beside the run
/// directory, and `emplace join`, which has nothing here and is given everything by the head.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "launcher/cluster/wiring.h"
#include "runtime/node.h"

namespace emplace::launcher {

struct NodeRequest {
  std::filesystem::path config;   ///< As resolved, in the run directory.
  std::filesystem::path cluster;  ///< Empty: everybody lives in the head.
  std::string name = "head";      ///< Of this process in the cluster's plan.
  std::string endpoint;           ///< The head binds it, the others dial it; empty: nobody else is there.
  Start start;
  std::string beside;          ///< The head binds this too.
  std::uint32_t restarts = 0;  ///< Lives before this one.
};

/// Runs until SIGTERM arrives, the head says goodbye, or standard input ends (the launcher died). SIGINT is
/// the launcher's. Errors: kInvalid, kIo before anything started; kRunFailed with the first cause.
Result<Unit> run_node(const NodeRequest& request);

inline constexpr std::uint32_t kMostExecutors = 4'000;  ///< Of one node.

struct JoinRequest {
  std::string head;  ///< tcp://HOST:PORT or ipc:///PATH.
  std::string name;  ///< Of a node in the cluster's plan, whose roles it takes; empty: of its own.
  /// Without a name: so many of them. 0: one for each CPU, but one of those that drive real devices.
  std::uint32_t executors = 1;
  std::string executor;    ///< Their kind; empty: as the run has it.
  runtime::KeyFiles keys;  ///< None: `insecure`, or ipc.
  bool insecure = false;
  std::filesystem::path cache;  ///< Where files of runs are kept.
  /// Started by a launcher: says so in lines on standard output and ends when standard input does. Otherwise
  /// SIGINT ends it too.
  bool for_launcher = false;
  Nanos patience = std::chrono::seconds{10};  ///< Until the head is heard for the first time.
  std::function<void(const std::string&)> note = [](const std::string&) {};  ///< For people.
};

/// What became of a node that joined.
struct Joined {
  std::string node;
  std::string reason;         ///< Why it left.
  std::uint64_t fetched = 0;  ///< [bytes] The files of the run, as far as they are known.
  int received_signal = 0;    ///< 0: it was not a signal.
};

/// Takes part in a run elsewhere, start after start, until the run or the node is ended. Errors: kInvalid,
/// kIo before it took part: the head does not answer, refuses, or its run cannot be run here; kRunFailed.
Result<Joined> join_run(const JoinRequest& request);

}  // namespace emplace::launcher
