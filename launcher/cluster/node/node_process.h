#pragma once
/// Node processes, which host actors of a start: `emplace node`, which the launcher starts with access to the
/// run directory, and `emplace join`, which gets all of its files from the head.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "launcher/cluster/node/wiring.h"
#include "runtime/node.h"

namespace emplace::launcher {

struct NodeRequest {
  std::filesystem::path config;   ///< The resolved config, in the run directory.
  std::filesystem::path cluster;  ///< Cluster file; empty: every actor is in the head.
  std::string name = "head";      ///< Name of this process in the cluster's plan.
  std::string endpoint;  ///< Endpoint that the head binds and others connect to; empty: no other node.
  Start start;
  std::string beside;          ///< Second endpoint that the head binds; empty: none.
  std::uint32_t restarts = 0;  ///< Number of earlier incarnations.
};

/// Runs until SIGTERM arrives, the head ends, or standard input closes (the launcher died). Ignores SIGINT,
/// which the launcher handles. Errors: kInvalid and kIo before anything starts; kRunFailed with the first
/// cause.
Result<Unit> run_node(const NodeRequest& request);

struct JoinRequest {
  std::string head;  ///< Endpoint of the head: tcp://HOST:PORT or ipc:///PATH.
  std::string name;  ///< Node of the cluster's plan whose roles it takes; empty: executors only.
  /// Without a name: number of executors. 0: one per CPU core, or one if they drive real devices.
  std::uint32_t executors = 1;
  std::string executor;       ///< Kind of the executors; empty: that of the run.
  std::string model;          ///< MODULE:NAME that torch executors import. The run's config never names it.
  std::uint32_t threads = 0;  ///< Threads of each device of torch executors; 0: as in the run's config.
  runtime::KeyFiles keys;     ///< Keys; empty with `insecure` or ipc.
  bool insecure = false;
  std::filesystem::path cache;  ///< Cache folder for files of runs.
  /// Whether a launcher started the process: it then writes node lines to standard output and exits when
  /// standard input closes. Otherwise SIGINT stops it too.
  bool for_launcher = false;
  /// Whether the end of the parent process or of standard input ends this process, too (StopWatch).
  bool die_with_parent = false;
  Nanos patience = std::chrono::seconds{10};  ///< Timeout of the first connection to the head.
  std::function<void(const std::string&)> note = [](const std::string&) {};  ///< Receives lines for people.
};

/// The result of a node that joined a run.
struct Joined {
  std::string node;
  std::string reason;         ///< Why it left.
  std::uint64_t fetched = 0;  ///< Size of the last start's files [B].
  int received_signal = 0;    ///< Signal that stopped the node; 0: none.
};

/// Takes part in a run on another machine, start after start, until the run or the node ends. Errors:
/// kInvalid and kIo before it took part (no answer from the head, a refusal, or a run that cannot run here);
/// kRunFailed.
Result<Joined> join_run(const JoinRequest& request);

}  // namespace emplace::launcher
