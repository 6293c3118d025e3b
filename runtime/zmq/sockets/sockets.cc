#include "runtime/zmq/sockets/sockets.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/descriptor.h"

namespace emplace::runtime {
namespace {

constexpr std::size_t kMaxIpcPath = sizeof(sockaddr_un::sun_path) - 1;  // 107 on Linux.
/// 4 MiB of full batches, which stay in the cache; our own queues hold the rest.
constexpr int kFramesInSocket = 64;
constexpr int kFramesBetweenLoops = 64;  // Inproc adds the marks of both sides.
constexpr std::int64_t kMaxFrameBytes = 64ll << 20;
constexpr const char* kTakeovers = "inproc://takeovers";

void set_common(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndtimeo, 0);
  socket.set(zmq::sockopt::rcvtimeo, 0);
}

void set_outward(zmq::socket_t& socket) {
  set_common(socket);
  socket.set(zmq::sockopt::sndhwm, kFramesInSocket);
  socket.set(zmq::sockopt::rcvhwm, kFramesInSocket);
  socket.set(zmq::sockopt::maxmsgsize, kMaxFrameBytes);
  socket.set(zmq::sockopt::handshake_ivl, 5'000);
  socket.set(zmq::sockopt::tcp_maxrt, 10'000);
}

std::string_view after(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : std::string_view{};
}

/// Whether no other user can reach our socket or put one of theirs there.
bool is_private_folder(const std::filesystem::path& folder) {
  struct stat info {};
  return ::stat(folder.empty() ? "." : folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
}

/// Whether a process listens on an ipc path. ZeroMQ would silently take the path over.
bool has_listener(std::string_view path) {
  const Descriptor probe{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, kMaxIpcPath);
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

zmq::socket_t make_router(zmq::context_t& context, bool insecure) {
  zmq::socket_t socket{context, zmq::socket_type::router};
  set_outward(socket);
  socket.set(zmq::sockopt::router_mandatory, true);
  socket.set(zmq::sockopt::router_handover, true);
  socket.set(zmq::sockopt::backlog, 1'024);
  const uid_t user = ::geteuid();
  if (!insecure)
    EMPLACE_CHECK(zmq_setsockopt(socket.handle(), ZMQ_IPC_FILTER_UID, &user, sizeof user) == 0, "ipc filter");
  socket.bind(kTakeovers);
  return socket;
}

zmq::socket_t make_takeover(zmq::context_t& context, const std::string& routing_id) {
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  set_common(socket);
  socket.set(zmq::sockopt::routing_id, routing_id);
  socket.connect(kTakeovers);
  return socket;
}

zmq::socket_t make_dealer(zmq::context_t& context, const std::string& routing_id, const DialKeys* keys) {
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  set_outward(socket);
  if (keys != nullptr) {
    socket.set(zmq::sockopt::curve_serverkey, keys->head_public);
    socket.set(zmq::sockopt::curve_publickey, keys->own_public);
    socket.set(zmq::sockopt::curve_secretkey, keys->own_secret);
  }
  socket.set(zmq::sockopt::routing_id, routing_id);
  socket.set(zmq::sockopt::immediate, true);
  socket.set(zmq::sockopt::connect_timeout, 5'000);
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 1'000);  // A restarted head is back within a second or two.
  return socket;
}

zmq::socket_t make_pair(zmq::context_t& context) {
  zmq::socket_t socket{context, zmq::socket_type::pair};
  set_common(socket);
  socket.set(zmq::sockopt::sndhwm, kFramesBetweenLoops);
  socket.set(zmq::sockopt::rcvhwm, kFramesBetweenLoops);
  return socket;
}

bool is_tcp(std::string_view endpoint) { return endpoint.starts_with("tcp://"); }

Result<Unit> check_endpoint(const std::string& endpoint, bool encrypted, bool insecure) {
  const std::string_view path = after(endpoint, "ipc://");
  if (!path.empty()) {
    if (path.size() > kMaxIpcPath)
      return invalid(endpoint,
                     fmt::format("the path has {} characters, the system takes {}", path.size(), kMaxIpcPath),
                     "choose a shorter run directory, or tcp://127.0.0.1:*");
    if (insecure || is_private_folder(std::filesystem::path{path}.parent_path())) return Unit{};
    return invalid(endpoint, "its folder is open to other users",
                   "use a folder of yours with mode 0700, or allow insecure");
  }
  if (after(endpoint, "tcp://").find(':') == std::string_view::npos)
    return invalid(endpoint, "not an endpoint", "write tcp://HOST:PORT or ipc:///PATH");
  if (encrypted || insecure) return Unit{};
  return invalid(endpoint, "tcp without encryption", "give it keys (emplace keygen), or allow insecure");
}

Result<std::string> bind_endpoint(zmq::socket_t& router, const std::string& endpoint) {
  const std::string_view path = after(endpoint, "ipc://");
  if (!path.empty() && has_listener(path))
    return invalid(endpoint, "in use", "end the run that holds it, or choose another path");
  try {
    router.bind(endpoint);
  } catch (const zmq::error_t& refused) {
    if (refused.num() == EADDRINUSE)
      return invalid(endpoint, "the port is in use", "end the run that holds it, or choose another port");
    return invalid(endpoint, refused.what(), "choose a numeric address, or an interface, of this machine");
  }
  return router.get(zmq::sockopt::last_endpoint);
}

}  // namespace emplace::runtime
