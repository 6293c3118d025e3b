#include "launcher/status/status_port.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "launcher/cluster/endpoint.h"
#include "launcher/session/metrics.h"
#include "record/report/live_page.h"
#include "record/store/run_folder.h"

namespace emplace::launcher {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kAssets = "/assets/";
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
constexpr std::chrono::seconds kWatched{10};  // A request counts as a viewer for this long.
constexpr std::chrono::seconds kGone{15};     // Without a head and a writer for this long, a run is over.
constexpr std::size_t kMaxStatusBytes = std::size_t{24} * 1'024;  // Limit on one event.

/// Compresses a body if the client accepts it.
HttpReply compressed(HttpReply reply, const HttpRequest& request) {
  constexpr std::size_t kWorthwhile = 1'024;
  if (!request.accepts_gzip || reply.body == nullptr || reply.body->size() < kWorthwhile) return reply;
  const Bytes packed = compress_gzip(std::as_bytes(std::span{*reply.body}));
  reply.body =
      std::make_shared<const std::string>(reinterpret_cast<const char*>(packed.data()), packed.size());
  reply.headers.emplace_back("Content-Encoding", "gzip");
  return reply;
}

HttpReply asset(std::string_view name) {
  for (const record::LiveAsset& one : record::live_assets())
    if (one.name == name) return reply(200, std::string{one.type}, std::string{one.bytes});
  return line_reply(404, "there is no such file");
}

/// The page on which a browser gives the token.
HttpReply login_page(bool wrong) {
  const std::string text =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>emplace</title></head>\n<body>"
      "<form method=\"post\" action=\"/login\"><p>" +
      std::string{wrong ? "This token is wrong." : "This page needs the token of the run's status port."} +
      "</p><p><label>Token <input type=\"password\" name=\"token\" autocomplete=\"current-password\" "
      "autofocus required></label> <button>Open</button></p></form></body></html>\n";
  return reply(401, std::string{kHtml}, text);
}

}  // namespace

Result<std::unique_ptr<StatusPort>> StatusPort::open(const StatusPortOptions& options) {
  HttpServerOptions server;
  server.address = options.address.address;
  server.port = options.address.port;
  server.content_security_policy = kContentSecurityPolicy;
  std::unique_ptr<StatusPort> port{new StatusPort{options}};
  EMPLACE_TRY_ASSIGN(port->server_, HttpServer::open(std::move(server), *port));
  return Result<std::unique_ptr<StatusPort>>{std::move(port)};
}

StatusPort::~StatusPort() {
  std::unique_ptr<StatusFeed> feed;  // Its thread uses the server.
  {
    const MutexLock lock{parts_};
    feed = std::move(feed_);
  }
  feed.reset();
  server_.reset();
}

// --- What happens in the run. Thread: the launcher's. ---

void StatusPort::follow(const std::filesystem::path& directory, HeadAccess head) {
  const MutexLock lock{parts_};
  report_ = std::make_unique<LiveReport>(
      directory, [this] { return status({}).dump(-1, ' ', false, Json::error_handler_t::replace); });
  if (!head.endpoint.empty())
    feed_ = std::make_unique<StatusFeed>(
        std::move(head), [this](const messages::StatusDelivered& status) { on_status(status); },
        [this] { on_ended(); });
}

void StatusPort::show_directory(const std::filesystem::path& directory, const record::ReportData& report) {
  const auto endpoint = head_endpoint(directory.string());
  {
    const MutexLock lock{mutex_};
    state_.phase = endpoint ? RunPhase::kRunning : RunPhase::kEnded;
    state_.status.run = directory.string();
    fill(state_, report);
  }
  follow(directory, {endpoint ? *endpoint : std::string{}, {}, false});
}

void StatusPort::on_planned(const RunPlan& plan) {
  {
    const MutexLock lock{mutex_};
    state_.phase = RunPhase::kHeuristics;
    state_.status.run = plan.order.directory.string();
    state_.status.graph = plan.task->graphs.front().graph.name();
    state_.status.method = plan.order.config.policy.method;
    state_.starts = plan.order.config.run.starts;
  }
  // The socket in the run directory needs no key.
  const Topology& topology = plan.topology;
  const std::string& socket = topology.beside.empty() ? topology.endpoint : topology.beside;
  follow(plan.order.directory, {socket.starts_with("ipc://") ? socket : std::string{}, {}, false});
}

void StatusPort::on_start(const ShownStart& start) {
  const MutexLock lock{mutex_};
  state_.phase = RunPhase::kStarting;
  state_.start = start;
  state_.status.start = start.name;
  state_.status.nodes.clear();
  state_.progress_at = state_.nodes_at = Nanos{0};
  state_.measured_at = clock_.now();
}

void StatusPort::on_progress(const ShownStart& start, const messages::RunProgress& progress) {
  const MutexLock lock{mutex_};
  state_.phase = progress.dispatch.ending.empty() ? RunPhase::kRunning : RunPhase::kEnding;
  state_.start = start;
  state_.report(progress, clock_.now());
}

void StatusPort::on_note(const std::string& text) {
  const MutexLock lock{mutex_};
  state_.note(std::chrono::duration<double>(clock_.now() - opened_).count(), text);
}

void StatusPort::on_ended() {
  {
    const MutexLock lock{mutex_};
    state_.phase = RunPhase::kEnded;
  }
  server_->publish_now();
}

void StatusPort::finish() {
  if (clock_.now() - streamed_at_.load() > kWatched) return;
  {
    const MutexLock lock{parts_};
    if (report_ == nullptr) return;
    report_->read_last([this](const std::string&) { server_->publish_now(); });
  }
  (void)last_fetched_.get_future().wait_for(kFarewell);
}

/// A status of the head. Thread: the feed's.
void StatusPort::on_status(const messages::StatusDelivered& status) {
  const MutexLock lock{mutex_};
  const Nanos now = clock_.now();
  state_.report(status.progress, now);
  const std::string run = std::exchange(state_.status.run, {});
  state_.status = status;
  if (!run.empty()) state_.status.run = run;  // As the user wrote it.
  state_.nodes_at = now;
}

// --- What clients ask. Thread: the server's. ---

Json StatusPort::status(const NodeLimits& limits) const {
  const MutexLock lock{mutex_};
  return to_json(state_, clock_.now(), limits);
}

void StatusPort::on_tick() {
  const Nanos now = clock_.now();
  if (now >= watched_until_) return;
  std::uint64_t changes = 0;
  bool recorded = false;  // Learning has started, so there is a record to read.
  {
    const MutexLock lock{mutex_};
    recorded = state_.phase >= RunPhase::kRunning;
    const messages::RunProgress& progress = state_.status.progress;
    const double best = progress.dispatch.best_step_time_s;
    changes = hash64(std::as_bytes(std::span{&best, 1}),
                     progress.record.committed + (progress.record.updates << 24U) +
                         (static_cast<std::uint64_t>(state_.phase) << 60U));
    const bool silent = state_.nodes_at != Nanos{0} && now - state_.nodes_at > kGone;
    if (silent && state_.phase != RunPhase::kEnded && !record::is_being_written(state_.status.run))
      state_.phase = RunPhase::kEnded;
  }
  const MutexLock lock{parts_};
  if (feed_ != nullptr) feed_->want();
  if (report_ != nullptr && recorded)
    report_->refresh(changes, [this](const std::string& failure) {
      const MutexLock locked{mutex_};
      state_.report_failure = failure;
    });
}

std::vector<HttpEvent> StatusPort::on_stream_tick() {
  const Nanos now = clock_.now();
  streamed_at_ = now;
  watched_until_ = now + kWatched;
  std::vector<HttpEvent> events;
  std::string text;
  for (std::size_t nodes : {40, 20, 10, 5, 0}) {
    text = status({nodes, true}).dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() <= kMaxStatusBytes) break;
  }
  events.push_back({"status", std::move(text)});
  {
    const MutexLock lock{parts_};
    const LiveFragment fragment = report_ == nullptr ? LiveFragment{} : report_->fragment();
    if (fragment.version > 0)
      events.push_back(
          {"report", Json{{"version", fragment.version}, {"bytes", fragment.gzip->size()}}.dump()});
  }
  const MutexLock lock{mutex_};
  if (state_.phase == RunPhase::kEnded) events.push_back({"ended", "{}"});
  return events;
}

/// Answers the two requests that need neither a token nor a known host.
std::optional<HttpReply> StatusPort::probe(const HttpRequest& request) const {
  if (request.path == "/healthz") return line_reply(200, "ok");
  if (request.path != "/readyz") return std::nullopt;
  const MutexLock lock{mutex_};
  const bool ready = state_.phase == RunPhase::kRunning || state_.phase == RunPhase::kEnding;
  return line_reply(ready ? 200 : 503, word_of(state_.phase));
}

/// Returns the reply to a request that is refused.
std::optional<HttpReply> StatusPort::refusal(const HttpRequest& request) const {
  const bool logs_in = request.method == "POST" && request.path == "/login";
  if (!logs_in && request.method != "GET" && request.method != "HEAD")
    return line_reply(405, "the port only answers GET");
  switch (gate_.check(request)) {
    case Gate::Answer::kUnknownHost:
      return line_reply(421, "'" + printable(request.host, 60) +
                                 "' is not a name of this port; allow it with --status-host");
    case Gate::Answer::kNoToken: {
      if (request.path == "/" || logs_in) {
        if (!logs_in) return login_page(false);
        const auto form = parse_form(request.body);
        const auto token = form.find("token");
        const std::string cookie = token == form.end() ? "" : gate_.login(token->second);
        if (cookie.empty()) return login_page(true);
        HttpReply opened = line_reply(303, "open");
        opened.headers = {{"Set-Cookie", cookie}, {"Location", "/"}};
        return opened;
      }
      HttpReply refused = line_reply(401, "a token is needed: Authorization: Bearer TOKEN");
      refused.headers.emplace_back("WWW-Authenticate", "Bearer");
      return refused;
    }
    case Gate::Answer::kOpen:
      break;
  }
  if (!logs_in) return std::nullopt;
  HttpReply opened = line_reply(303, "open");
  opened.headers.emplace_back("Location", "/");
  return opened;
}

void StatusPort::on_request(const HttpRequest& request, Respond respond) {
  if (auto answer = probe(request)) return respond(*std::move(answer));
  if (auto refused = refusal(request)) return respond(*std::move(refused));
  watched_until_ = clock_.now() + kWatched;
  if (request.path == "/report.html") {
    const MutexLock lock{parts_};
    if (report_ == nullptr) return respond(line_reply(503, "the run has no report yet"));
    return report_->page(std::move(respond));
  }
  respond(content(request));
}

HttpReply StatusPort::content(const HttpRequest& request) {
  if (request.path == "/") return compressed(asset("index.html"), request);
  if (request.path.starts_with(kAssets))
    return compressed(asset(std::string_view{request.path}.substr(kAssets.size())), request);
  if (request.path == "/events") {
    HttpReply stream;
    stream.type = "text/event-stream";
    stream.stream = true;
    return stream;
  }
  if (request.path == "/status.json")
    return compressed(reply(200, std::string{kJson}, json_text(status({}))), request);
  if (request.path == "/nodes.json") return compressed(nodes(request), request);
  if (request.path == "/report.json") return report(request);
  if (request.path == "/metrics") {
    const MutexLock lock{mutex_};
    return reply(200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(state_.status.progress));
  }
  return line_reply(404, "there is no such page");
}

HttpReply StatusPort::nodes(const HttpRequest& request) const {
  const auto query = parse_node_query(request.query);
  if (!query) return line_reply(400, query.error().context);
  const MutexLock lock{mutex_};
  return reply(200, std::string{kJson}, json_text(nodes_json(state_, clock_.now(), *query)));
}

HttpReply StatusPort::report(const HttpRequest& request) {
  const MutexLock lock{parts_};
  const LiveFragment fragment = report_ == nullptr ? LiveFragment{} : report_->fragment();
  if (fragment.version == 0) return line_reply(503, "the run has no report yet");
  if (fragment.last && !std::exchange(last_fetch_, true)) last_fetched_.set_value();
  HttpReply answer{200, std::string{kJson}, request.accepts_gzip ? fragment.gzip : fragment.json, {}, false};
  if (request.accepts_gzip) answer.headers.emplace_back("Content-Encoding", "gzip");
  return answer;
}

}  // namespace emplace::launcher
