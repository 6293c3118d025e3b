#include "runtime/zmq/sockets.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace emplace::runtime {
namespace {

constexpr std::size_t kMaxIpcPath = sizeof(sockaddr_un::sun_path) - 1;  // 107 on Linux.
constexpr int kFramesInSocket =
    64;  // 4 MiB of full batches, which stay in the cache; our own queues hold the rest.
constexpr int kFramesBetweenLoops = 64;  // Inproc adds both sides.
constexpr std::int64_t kMaxFrameBytes = 64ll << 20;

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

bool is_this_machine(std::string_view tcp_address) {
  return tcp_address.starts_with("127.") || tcp_address.starts_with("localhost:") ||
         tcp_address.starts_with("lo:") || tcp_address.starts_with("[::1]:");
}

/// ZeroMQ takes an ipc path over without asking; so ask whether someone still listens there.
bool someone_listens(std::string_view path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, kMaxIpcPath);
  const bool connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

}  // namespace

zmq::socket_t make_router(zmq::context_t& context) {
  zmq::socket_t socket{context, zmq::socket_type::router};
  set_outward(socket);
  socket.set(zmq::sockopt::router_mandatory, true);
  socket.set(zmq::sockopt::router_handover, true);
  socket.set(zmq::sockopt::backlog, 1'024);
  return socket;
}

zmq::socket_t make_dealer(zmq::context_t& context, const std::string& routing_id) {
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  set_outward(socket);
  socket.set(zmq::sockopt::routing_id, routing_id);
  socket.set(zmq::sockopt::immediate, true);
  socket.set(zmq::sockopt::connect_timeout, 5'000);
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 1'000);  // A head is back within a second or two.
  return socket;
}

zmq::socket_t make_pair(zmq::context_t& context) {
  zmq::socket_t socket{context, zmq::socket_type::pair};
  set_common(socket);
  socket.set(zmq::sockopt::sndhwm, kFramesBetweenLoops);
  socket.set(zmq::sockopt::rcvhwm, kFramesBetweenLoops);
  return socket;
}

Result<Unit> check_endpoint(const std::string& endpoint) {
  const std::string_view path = after(endpoint, "ipc://");
  if (!path.empty()) {
    if (path.size() <= kMaxIpcPath) return Unit{};
    return invalid(endpoint,
                   "the path has " + std::to_string(path.size()) + " characters, the system takes " +
                       std::to_string(kMaxIpcPath),
                   "choose a shorter run directory, or tcp://127.0.0.1:*");
  }
  const std::string_view address = after(endpoint, "tcp://");
  if (address.find(':') != std::string_view::npos) return Unit{};
  return invalid(endpoint, "not an endpoint", "write tcp://HOST:PORT or ipc:///PATH");
}

Result<std::string> bind_endpoint(zmq::socket_t& router, const std::string& endpoint, bool insecure) {
  if (const auto valid = check_endpoint(endpoint); !valid) return valid.error();
  const std::string_view address = after(endpoint, "tcp://");
  const std::string_view path = after(endpoint, "ipc://");
  if (!address.empty() && !insecure && !is_this_machine(address))
    return invalid(endpoint, "an address beyond this machine without encryption",
                   "use 127.0.0.1, or allow insecure");
  if (!path.empty() && someone_listens(path))
    return invalid(endpoint, "in use", "end the run that holds it, or choose another path");
  try {
    router.bind(endpoint);
  } catch (const zmq::error_t& refused) {
    if (refused.num() == EADDRINUSE)
      return invalid(endpoint, "the port is in use", "end the run that holds it, or choose another port");
    return invalid(endpoint, refused.what(), "choose an address of this machine");
  }
  return router.get(zmq::sockopt::last_endpoint);
}

}  // namespace emplace::runtime
