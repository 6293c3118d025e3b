#pragma once
/// The port of a run for people and engines: its page, its status, its metrics and its probes.

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "launcher/cluster/operator/status_feed.h"
#include "launcher/session/run_observer.h"
#include "launcher/status/gate.h"
#include "launcher/status/http_server.h"
#include "launcher/status/live_report.h"
#include "launcher/status/live_run.h"

namespace emplace::launcher {

struct StatusPortOptions {
  StatusAddress address;
  std::string token;               ///< Empty: none. @pre not empty beyond loopback.
  std::vector<std::string> hosts;  ///< Further names that the port is known by.
};

/// Serves /, /events, /status.json, /nodes.json, /report.json, /report.html, /metrics, /healthz and /readyz
/// (docs/guide/live.md). It reads and never changes the run; the run never waits for it.
class StatusPort final : public RunObserver, private HttpHandler {
 public:
  static constexpr std::chrono::seconds kFarewell{5};

  /// Errors (kIo): the address cannot be bound.
  static Result<std::unique_ptr<StatusPort>> open(const StatusPortOptions& options);
  ~StatusPort() override;
  StatusPort(const StatusPort&) = delete;
  StatusPort& operator=(const StatusPort&) = delete;

  /// "http://127.0.0.1:9090/"
  std::string url() const { return "http://" + server_->endpoint() + "/"; }

  /// Shows a run of another launcher, or one that is over, from its directory and its report.
  void show_directory(const std::filesystem::path& directory, const record::ReportData& report);
  /// Gives viewers of a run that has ended its last report: waits until one has fetched it, at most
  /// kFarewell.
  void finish();

  void on_planned(const RunPlan& plan) override;
  void on_start(const ShownStart& start) override;
  void on_progress(const ShownStart& start, const messages::RunProgress& progress) override;
  void on_note(const std::string& text) override;
  void on_ended() override;

 private:
  explicit StatusPort(const StatusPortOptions& options) : gate_{options.token, options.hosts} {}

  void on_request(const HttpRequest& request, Respond respond) override;
  std::vector<HttpEvent> on_stream_tick() override;
  void on_tick() override;

  std::optional<HttpReply> probe(const HttpRequest& request) const;
  std::optional<HttpReply> refusal(const HttpRequest& request) const;
  HttpReply content(const HttpRequest& request);
  HttpReply nodes(const HttpRequest& request) const;
  HttpReply report(const HttpRequest& request);
  void follow(const std::filesystem::path& directory, HeadAccess head);
  void on_status(const messages::StatusDelivered& status);
  Json status(const NodeLimits& limits) const;

  const SystemClock clock_;
  const Nanos opened_ = clock_.now();
  const Gate gate_;
  mutable Mutex mutex_;
  LiveRun state_ EMPLACE_GUARDED_BY(mutex_);
  std::atomic<Nanos> streamed_at_{Nanos{0}};  // When events were last published.
  std::promise<void> last_fetched_;           // The last report was sent to a viewer.
  bool last_fetch_ = false;                   // The same, on the server's thread.
  Nanos watched_until_{0};                    // The end of the last viewer's time. Server's thread.
  mutable Mutex parts_;                       // Feed and report are made once the run is known.
  std::unique_ptr<StatusFeed> feed_ EMPLACE_GUARDED_BY(parts_);
  std::unique_ptr<LiveReport> report_ EMPLACE_GUARDED_BY(parts_);
  std::unique_ptr<HttpServer> server_;
};

}  // namespace emplace::launcher
