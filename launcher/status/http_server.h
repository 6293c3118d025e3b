#pragma once
/// A small HTTP server: requests, and one stream of server-sent events for all clients.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "launcher/status/http.h"

namespace emplace::launcher {

struct HttpServerOptions {
  std::string address = "127.0.0.1";  ///< IPv4 or IPv6, as a number.
  std::uint16_t port = 0;             ///< 0: the system chooses one.
  std::size_t max_connections = 512;  ///< At the limit the longest idle connection is closed for a new one.
  std::size_t max_streams = 64;
  Nanos read_timeout = std::chrono::seconds{30};   ///< For a whole request, and for an idle connection.
  Nanos write_timeout = std::chrono::seconds{20};  ///< For a whole reply, and for one event of a stream.
  Nanos tick = std::chrono::seconds{1};            ///< Interval of on_tick().
  std::string content_security_policy = "default-src 'none'";
};

/// What the server calls. Thread: the server's.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Answers a request, at once or later; must not block.
  virtual void on_request(const HttpRequest& request, Respond respond) = 0;
  /// Returns the events to publish now. Called at each tick while there are streams, and for each new stream.
  virtual std::vector<HttpEvent> on_stream_tick() = 0;
  /// Called at each tick.
  virtual void on_tick() {}
};

/// Serves on a thread of its own until it is destroyed. A client costs at most one request of 8 KiB of
/// headers and 4 KiB of body, and one reply at a time; a client that is too slow is disconnected.
class HttpServer {
 public:
  static constexpr std::chrono::seconds kFarewell{1};

  /// `handler` must outlive the server. Errors (kIo): the address cannot be bound.
  static Result<std::unique_ptr<HttpServer>> open(HttpServerOptions options, HttpHandler& handler);
  /// Publishes once more, waits up to kFarewell until events and replies are sent, and ends.
  virtual ~HttpServer() = default;

  /// Where it listens: "127.0.0.1:9090", "[::1]:9090".
  virtual std::string endpoint() const = 0;
  /// Publishes the handler's events to every stream now. Thread: any.
  virtual void publish_now() = 0;

 protected:
  HttpServer() = default;
};

}  // namespace emplace::launcher
