#pragma once
/// What people may ask of a run that goes on, from anywhere: who takes part, and that it ends.

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
  runtime::KeyFiles keys;  ///< None, as over ipc or an open port, or a key file and how it knows the head.
  bool insecure = false;
};

/// The socket of a run's head, in its run directory.
inline constexpr const char* kHeadSocket = "head.ipc";
/// The same where others can reach the run directory: in a folder of mode 0700.
inline constexpr const char* kPrivateSocket = "private/head.ipc";

/// What people write: an endpoint, HOST:PORT, or a run directory of this machine. Errors (kInvalid).
Result<std::string> head_endpoint(const std::string& address);

/// True if tcp://HOST:PORT ends in a port from 1 to 65535, or in "*" where `any` may stand.
bool has_port(std::string_view endpoint, bool any);

/// Asks for the status, `every` so often until stopped by a signal; 0: once. The value is that signal, or 0.
/// Errors (kPeerLost, kInvalid): the head does not answer, or does not let us in.
Result<int> watch_status(const HeadAccess& head, Nanos every,
                         const std::function<void(const messages::StatusDelivered&)>& show);

/// Asks the run to end and waits until its head has gone: results are kept then. The value is the signal that
/// ended the wait, or 0. Errors: as above.
Result<int> end_run(const HeadAccess& head);

}  // namespace emplace::launcher
