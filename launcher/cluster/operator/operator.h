#pragma once
/// Operator requests to a run: its status, and its end.

#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "messages/status.h"
#include "runtime/node.h"

namespace emplace::launcher {

/// How to reach a head.
struct HeadAccess {
  std::string endpoint;    ///< tcp://HOST:PORT or ipc:///PATH.
  runtime::KeyFiles keys;  ///< Key file and head key; empty over ipc or an unencrypted port.
  bool insecure = false;
};

/// Returns the options of a node that connects to a head as an operator, under a new name.
runtime::NodeOptions operator_node(const HeadAccess& head, const Clock& clock);
/// Returns the name of the actor of such a node.
std::string operator_actor(const runtime::NodeOptions& options);

/// Requests the status and shows it, again after each `every` until a signal or the end of the run; 0: once.
/// `each_second` is called meanwhile, also without an answer. Both are called on this thread and must not
/// block. Returns that signal, or 0. Errors (kPeerLost, kInvalid): the head does not answer, or refuses the
/// connection.
Result<int> watch_status(
    const HeadAccess& head, Nanos every, const std::function<void(const messages::StatusDelivered&)>& show,
    const std::function<void()>& each_second = [] {});

/// Reason of a run that `emplace down` ended, in DispatchProgress::ending: no other start follows.
inline constexpr std::string_view kEndedByOperator = "down";

/// Requests the end of the run and waits until its head has exited; the results are on disk then. Returns the
/// signal that ended the wait, or 0. Errors: those of watch_status().
Result<int> end_run(const HeadAccess& head);

}  // namespace emplace::launcher
