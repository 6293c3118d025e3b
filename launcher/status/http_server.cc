#include "launcher/status/http_server.h"

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr std::uint32_t kHeaderBytes = 8'192;
constexpr std::uint64_t kBodyBytes = 4'096;
constexpr std::chrono::milliseconds kRetryAccept{100};  // After a failed accept, e.g. without descriptors.

/// The newest event of a name.
struct Latest {
  std::uint64_t serial = 0;
  std::string text;  ///< As sent: "event: …\ndata: …\n\n".
};

class Session;
using Sessions = std::list<Session*>;

/// What the sessions share. Thread: the server's.
struct Shared : std::enable_shared_from_this<Shared> {
  Shared(HttpServerOptions given, HttpHandler& to) : options{std::move(given)}, handler{to} {}

  HttpServerOptions options;
  HttpHandler& handler;
  asio::io_context io;
  Sessions all;
  Sessions idle;     ///< Those that wait for a request, the longest first.
  Sessions streams;  ///< Those that have become a stream.
  std::map<std::string, Latest> latest;
  std::uint64_t serial = 0;
  /// Sessions that wait for a reply. Replies may come from another thread and know only the number, so that
  /// every session ends on the server's thread.
  std::map<std::uint64_t, std::shared_ptr<Session>> waiting;
  std::uint64_t requests = 0;

  /// Gets the handler's events.
  void refresh() {
    for (const HttpEvent& event : handler.on_stream_tick()) {
      std::string text = "event: " + event.name + "\ndata: " + event.data + "\n\n";
      if (text != latest[event.name].text) latest[event.name] = {++serial, std::move(text)};
    }
  }
};

/// A place in a list, which is given up with this object.
class Membership {
 public:
  Membership() = default;
  ~Membership() { leave(); }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  void enter(Sessions& list, Session* session) {
    leave();
    list_ = &list;
    place_ = list.insert(list.end(), session);
  }
  void leave() {
    if (list_ != nullptr) list_->erase(place_);
    list_ = nullptr;
  }

 private:
  Sessions* list_ = nullptr;
  Sessions::iterator place_;
};

/// One connection. The operations in progress own it.
class Session final : public std::enable_shared_from_this<Session> {
 public:
  Session(Shared& shared, tcp::socket socket) : shared_{shared}, stream_{std::move(socket)} {
    in_all_.enter(shared_.all, this);
  }

  void read() {
    parser_.emplace();
    parser_->header_limit(kHeaderBytes);
    parser_->body_limit(kBodyBytes);
    stream_.expires_after(shared_.options.read_timeout);
    in_group_.enter(shared_.idle, this);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& failure, std::size_t) { self->on_read(failure); });
  }

  void close() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.socket().close(ignored);
  }

  /// Sends the newest events that the client has not got yet, in one write at a time.
  void pump() {
    if (sending_) return;
    out_.clear();
    std::vector<const Latest*> newer;
    for (const auto& [name, event] : shared_.latest)
      if (event.serial > sent_) newer.push_back(&event);
    std::sort(newer.begin(), newer.end(),
              [](const Latest* a, const Latest* b) { return a->serial < b->serial; });
    for (const Latest* event : newer) out_ += event->text;
    sent_ = shared_.serial;
    if (out_.empty()) return;
    sending_ = true;
    stream_.expires_after(shared_.options.write_timeout);
    asio::async_write(stream_, asio::buffer(out_),
                      [self = shared_from_this()](const error_code& failure, std::size_t) {
                        self->sending_ = false;
                        if (failure) return self->close();
                        self->stream_.expires_never();
                        self->pump();
                      });
  }
  bool sending() const { return sending_; }

 private:
  void on_read(const error_code& failure) {
    in_group_.leave();
    if (failure && failure.category() == http::make_error_code(http::error::bad_method).category() &&
        failure != http::error::end_of_stream && failure != http::error::partial_message)
      return write(line_reply(400, "the port does not understand this request: " + failure.message()));
    if (failure) return close();
    const auto& message = parser_->get();
    const auto header = [&](http::field name) { return std::string{message[name]}; };
    HttpRequest request;
    request.method = std::string{message.method_string()};
    parse_target({message.target().data(), message.target().size()}, request);
    request.host = header(http::field::host);
    request.authorization = header(http::field::authorization);
    request.cookie = header(http::field::cookie);
    request.accepts_gzip = header(http::field::accept_encoding).find("gzip") != std::string::npos;
    request.body = message.body();
    keep_alive_ = message.keep_alive();
    head_only_ = message.method() == http::verb::head;
    stream_.expires_never();
    const std::uint64_t number = ++shared_.requests;
    shared_.waiting[number] = shared_from_this();
    shared_.handler.on_request(request, [weak = shared_.weak_from_this(), number](HttpReply reply) {
      if (const auto shared = weak.lock())
        asio::post(shared->io, [raw = shared.get(), number, reply = std::move(reply)] {
          const auto waiting = raw->waiting.extract(number);
          if (!waiting.empty()) waiting.mapped()->write(reply);
        });
    });
  }

  void write(const HttpReply& reply) {
    if (reply.stream && shared_.streams.size() >= shared_.options.max_streams)
      return write(line_reply(503, "too many pages of this run are open; close one"));
    const std::size_t size = reply.body == nullptr ? 0 : reply.body->size();
    const auto reason = http::obsolete_reason(static_cast<http::status>(reply.status));
    out_ = "HTTP/1.1 " + std::to_string(reply.status) + " " + std::string{reason} + "\r\n";
    const auto header = [this](std::string_view name, std::string_view value) {
      out_.append(name).append(": ").append(value).append("\r\n");
    };
    header("Content-Type", reply.type);
    header("Cache-Control", "no-store");
    header("X-Content-Type-Options", "nosniff");
    header("Referrer-Policy", "no-referrer");
    header("Content-Security-Policy", shared_.options.content_security_policy);
    for (const auto& [name, value] : reply.headers) header(name, value);
    keep_alive_ = keep_alive_ && !reply.stream;
    header("Connection", keep_alive_ ? "keep-alive" : "close");
    if (!reply.stream) header("Content-Length", std::to_string(size));
    out_ += "\r\n";
    body_ = head_only_ ? nullptr : reply.body;
    sending_ = true;
    const std::array<asio::const_buffer, 2> parts{
        asio::buffer(out_), body_ == nullptr ? asio::const_buffer{} : asio::buffer(*body_)};
    stream_.expires_after(shared_.options.write_timeout);
    const bool streams = reply.stream && !head_only_;
    asio::async_write(stream_, parts,
                      [self = shared_from_this(), streams](const error_code& failure, std::size_t) {
                        self->body_ = nullptr;
                        self->sending_ = false;
                        if (failure) return self->close();
                        if (streams) return self->start_stream();
                        if (!self->keep_alive_) return self->close();
                        self->read();
                      });
  }

  void start_stream() {
    in_group_.enter(shared_.streams, this);
    stream_.expires_never();
    watch_for_close();
    shared_.refresh();
    pump();
  }

  /// A client of a stream sends nothing more; a read ends when it leaves.
  void watch_for_close() {
    stream_.socket().async_read_some(asio::buffer(ignored_),
                                     [self = shared_from_this()](const error_code& failure, std::size_t) {
                                       if (!failure) return self->watch_for_close();
                                       self->in_group_.leave();
                                       self->close();
                                     });
  }

  Shared& shared_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kHeaderBytes + kBodyBytes};
  std::optional<http::request_parser<http::string_body>> parser_;
  Membership in_all_, in_group_;
  bool keep_alive_ = false, head_only_ = false, sending_ = false;
  std::string out_;  // Being written.
  std::shared_ptr<const std::string> body_;
  std::uint64_t sent_ = 0;  // Serial of the newest event sent.
  std::array<char, 256> ignored_{};
};

class Server final : public HttpServer {
 public:
  Server(HttpServerOptions options, HttpHandler& handler)
      : shared_{std::make_shared<Shared>(std::move(options), handler)},
        acceptor_{shared_->io},
        timer_{shared_->io},
        retry_{shared_->io} {}
  ~Server() override {
    if (!thread_.joinable()) return;
    asio::post(shared_->io, [this] { end(); });
    thread_.join();
    // Operations in progress own their sessions: close these before their lists are destroyed.
    shared_->waiting.clear();
    for (Session* session : shared_->all) session->close();
    shared_->io.restart();
    shared_->io.poll();
  }

  Result<Unit> bind();
  void start();

  std::string endpoint() const override { return endpoint_; }
  void publish_now() override {
    asio::post(shared_->io, [this] { publish(); });
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const error_code& failure, tcp::socket socket) {
      if (failure == asio::error::operation_aborted) return;
      if (failure) {
        make_room();
        retry_.expires_after(kRetryAccept);
        return retry_.async_wait([this](const error_code& cancelled) {
          if (!cancelled) accept();
        });
      }
      if (shared_->all.size() >= shared_->options.max_connections) make_room();
      if (shared_->all.size() < shared_->options.max_connections + shared_->options.max_streams)
        std::make_shared<Session>(*shared_, std::move(socket))->read();
      accept();
    });
  }

  /// Closes the connection that has been idle for longest.
  void make_room() {
    if (!shared_->idle.empty()) shared_->idle.front()->close();
  }

  void publish() {
    if (shared_->streams.empty()) return;
    shared_->refresh();
    for (Session* stream : shared_->streams) stream->pump();
  }

  void wait_for_tick() {
    timer_.expires_after(shared_->options.tick);
    timer_.async_wait([this](const error_code& cancelled) {
      if (cancelled) return;
      shared_->handler.on_tick();
      publish();
      wait_for_tick();
    });
  }

  void end() {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    publish();
    timer_.expires_after(kFarewell);
    timer_.async_wait([this](const error_code&) { shared_->io.stop(); });
    stop_when_sent();
  }
  void stop_when_sent() {
    for (const Session* session : shared_->all)
      if (session->sending()) return asio::post(shared_->io, [this] { stop_when_sent(); });
    shared_->io.stop();
  }

  const std::shared_ptr<Shared> shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer timer_, retry_;
  std::string endpoint_;
  std::thread thread_;
};

Result<Unit> Server::bind() {
  const HttpServerOptions& options = shared_->options;
  error_code failure;
  const auto address = asio::ip::make_address(options.address, failure);
  const auto refused = [&](const std::string& what) {
    return Error{Errc::kIo, options.address + ":" + std::to_string(options.port) + ": " + what + ": " +
                                failure.message()};
  };
  if (failure) return refused("is not an address");
  const tcp::endpoint wanted{address, options.port};
  acceptor_.open(wanted.protocol(), failure);
  if (!failure) acceptor_.set_option(tcp::acceptor::reuse_address{true}, failure);
  if (!failure) acceptor_.bind(wanted, failure);
  if (!failure) acceptor_.listen(tcp::acceptor::max_listen_connections, failure);
  if (failure) return refused("cannot be bound");
  const auto bound = acceptor_.local_endpoint(failure);
  if (failure) return refused("cannot be bound");
  endpoint_ =
      (address.is_v6() ? "[" + options.address + "]" : options.address) + ":" + std::to_string(bound.port());
  return Unit{};
}

void Server::start() {
  accept();
  wait_for_tick();
  const process::SignalsBlocked blocked;
  thread_ = std::thread{[this] { shared_->io.run(); }};
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::open(HttpServerOptions options, HttpHandler& handler) {
  auto server = std::make_unique<Server>(std::move(options), handler);
  EMPLACE_TRY(server->bind());
  server->start();
  return Result<std::unique_ptr<HttpServer>>{std::move(server)};
}

}  // namespace emplace::launcher
