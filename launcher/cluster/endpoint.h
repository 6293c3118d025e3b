#pragma once
/// The address of a run's head.

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace emplace::launcher {

/// The socket of a run's head, in its run directory.
inline constexpr const char* kHeadSocket = "head.ipc";
/// The socket's path if others can access the run directory: in a folder of mode 0700.
inline constexpr const char* kPrivateSocket = "private/head.ipc";

/// Returns the endpoint of a head from an endpoint, HOST:PORT, or a run directory of this machine. Errors:
/// kInvalid.
Result<std::string> head_endpoint(const std::string& address);

/// Returns the socket file of an ipc endpoint; empty for other endpoints.
std::filesystem::path socket_of(const std::string& endpoint);

/// Returns whether tcp://HOST:PORT has a port from 1 to 65535, or "*" if `any`.
bool has_port(std::string_view endpoint, bool any);

}  // namespace emplace::launcher
