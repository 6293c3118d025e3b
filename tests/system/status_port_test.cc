// Goal: the status port of a run shows its state to permitted clients, outlives its head, and does not
// disturb the run. Method: real runs, a client over real sockets; the result is compared with the run's
// summary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "tests/launcher/status/http_client.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using launcher::HttpClient;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kToken = "0123456789abcdef-token";

/// A run with a port.
class PortRun {
 public:
  explicit PortRun(const std::string& directory, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--set", "run.starts=[\"scratch\"]", "--status", "127.0.0.1:0", "--json"});
    process_ = std::make_unique<Process>(small_run(directory, more));
    // The line ends with the next one.
    if (!process_->wait_for_error_text("status http://") || !process_->wait_for_error_text("/\n")) return;
    const std::string& err = process_->err();
    const std::size_t at = err.find("http://") + 7;
    endpoint_ = err.substr(at, err.find('/', at) - at);
  }
  const std::string& endpoint() const { return endpoint_; }
  Process& process() { return *process_; }
  std::pair<std::string, std::string> get(const std::string& path, const std::string& headers = "") const {
    return HttpClient{endpoint_}.get(path, headers);
  }
  json status() const { return json::parse(get("/status.json").second, nullptr, false); }
  /// Requests the status until `is` holds; returns the last answer.
  template <class Is>
  json wait_for(const Is& is) const {
    const SystemClock clock;
    const Nanos deadline = clock.now() + std::chrono::seconds{60};
    json last = status();
    while (!is(last) && clock.now() < deadline) {
      ::poll(nullptr, 0, 20);
      last = status();
    }
    return last;
  }

 private:
  std::unique_ptr<Process> process_;
  std::string endpoint_;
};

bool measures(const json& status) { return status.is_object() && status["measurements"] > 100; }

TEST(StatusPort, ServesPagesAndJson) {
  const TemporaryFolder folder;
  PortRun run{folder.at("run"), {"--budget", "600s"}};
  ASSERT_FALSE(run.endpoint().empty()) << run.process().err();
  EXPECT_EQ(run.get("/healthz").second, "ok\n");
  // The head sends the nodes once there is a viewer.
  const json status = run.wait_for([](const json& s) { return measures(s) && s["nodes_total"] == 1; });
  EXPECT_EQ(status["phase"], "running");
  EXPECT_EQ(status["method"], "hierarchical");
  EXPECT_EQ(status["start"], "scratch");
  EXPECT_EQ(status["nodes"][0]["node"], "head");
  EXPECT_GT(status["bound_s"].get<double>(), 0);
  EXPECT_TRUE(status["heuristic"]["step_time_s"].is_number());
  EXPECT_EQ(status["lost"], 0);
  EXPECT_THAT(run.get("/readyz").first, StartsWith("HTTP/1.1 200"));
  const auto [head, metrics] = run.get("/metrics");
  EXPECT_THAT(head, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(metrics, HasSubstr("\nemplace_measurements_total "));
  EXPECT_THAT(metrics, HasSubstr("\nemplace_executors_wanted "));
  const auto nodes = json::parse(run.get("/nodes.json?sort=-busy&find=head").second);
  EXPECT_EQ(nodes["found"], 1);
  EXPECT_THAT(run.get("/nodes.json?sort=colour").first, StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(run.get("/nothing").first, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(run.get("/assets/../../etc/passwd").first, StartsWith("HTTP/1.1 404"));

  HttpClient stream{run.endpoint()};
  stream.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(stream.read_until("\r\n\r\n"), HasSubstr("text/event-stream"));
  const auto event = [&](const std::string& name) {
    std::string text;
    do text = stream.read_until("\n\n");
    while (!text.empty() && !text.starts_with("event: " + name + "\n"));
    return json::parse(text.substr(std::min(text.size(), text.find("data: ") + 6)), nullptr, false);
  };
  const std::uint64_t first = event("status")["measurements"], second = event("status")["measurements"];
  EXPECT_GT(second, first) << "an event a second, and each is new";
  EXPECT_GE(event("report")["version"], 1);
  const json report = json::parse(run.get("/report.json").second, nullptr, false);
  EXPECT_GE(report["version"], 1);
  EXPECT_TRUE(report["in_progress"]);
  EXPECT_THAT(run.get("/report.html").second, HasSubstr("emplace report"));

  const auto [page_head, page] = run.get("/");
  EXPECT_THAT(page_head, HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(page_head, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'"));
  EXPECT_THAT(page, Not(HasSubstr("<style"))) << "nothing inline";

  // The end: viewers get the last report before the port closes.
  run.process().send(SIGINT);
  EXPECT_TRUE(event("ended").is_object());
  EXPECT_GT(event("report")["version"], report["version"]);
  EXPECT_FALSE(json::parse(run.get("/report.json").second, nullptr, false)["in_progress"]);
  const Finished done = run.process().finish();
  EXPECT_EQ(done.status, 128 + SIGINT) << done.err;
  EXPECT_EQ(json::parse(done.out)["lost"], 0);
}

TEST(StatusPort, OutlivesItsHead) {
  const TemporaryFolder folder;
  PortRun run{folder.at("run"), {"--budget", "600s"}};
  const json before = run.wait_for(measures);
  const pid_t head = head_of(folder.at("run"));
  ASSERT_GT(head, 0);
  ASSERT_EQ(::kill(head, SIGKILL), 0);
  const json after = run.wait_for([&](const json& s) {
    return measures(s) && s["restarts"].contains("head") && s["nodes_total"] == 1 &&
           s["nodes"][0]["pid"] != head && s["measurements"] > before["measurements"];
  });
  EXPECT_EQ(after["restarts"]["head"], 1);
  EXPECT_THAT(after["events"].dump(), HasSubstr("restarting from run.db"));
  EXPECT_EQ(after["duplicated"], 0);
  run.process().send(SIGTERM);
  EXPECT_EQ(run.process().finish().status, 128 + SIGTERM);
}

TEST(StatusPort, RequiresItsTokenAndAKnownName) {
  const TemporaryFolder folder;
  const std::string token = folder.file("token", std::string{kToken} + "\n");
  ::chmod(token.c_str(), 0600);
  PortRun run{folder.at("run"),
              {"--budget", "600s", "--status-token", token, "--status-host", "trainer.example"}};
  ASSERT_FALSE(run.endpoint().empty()) << run.process().err();
  const std::string bearer = std::string{"Authorization: Bearer "} + kToken + "\r\n";
  EXPECT_THAT(run.get("/healthz").first, StartsWith("HTTP/1.1 200"));  // Probes need no token.
  for (const char* path :
       {"/status.json", "/metrics", "/events", "/report.html", "/nodes.json", "/assets/page.js"}) {
    const auto [head, body] = run.get(path);
    EXPECT_THAT(head, StartsWith("HTTP/1.1 401")) << path;
    EXPECT_THAT(head, HasSubstr("WWW-Authenticate: Bearer")) << path;
    EXPECT_THAT(run.get(path, "Authorization: Bearer wrong\r\n").first, StartsWith("HTTP/1.1 401")) << path;
  }
  EXPECT_THAT(run.get("/metrics", bearer).first, StartsWith("HTTP/1.1 200"));
  const auto asked_as = [&](const std::string& host) {
    HttpClient client{run.endpoint()};
    client.send("GET /metrics HTTP/1.1\r\nHost: " + host + "\r\n" + bearer + "\r\n");
    return client.read_reply().first;
  };
  EXPECT_THAT(asked_as("trainer.example:9090"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(asked_as("evil.example"), StartsWith("HTTP/1.1 421"));
  // A browser: the form, a wrong token, the right one, the cookie.
  const auto [form_head, form] = run.get("/");
  EXPECT_THAT(form_head, StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(form, HasSubstr("<form method=\"post\" action=\"/login\">"));
  const auto post = [&](const std::string& body) {
    HttpClient client{run.endpoint()};
    client.send("POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body);
    return client.read_reply().first;
  };
  EXPECT_THAT(post("token=wrong"), StartsWith("HTTP/1.1 401"));
  const std::string opened = post(std::string{"token="} + kToken);
  EXPECT_THAT(opened, StartsWith("HTTP/1.1 303"));
  const std::size_t at = opened.find("Set-Cookie: ");
  ASSERT_NE(at, std::string::npos);
  const std::string cookie = "Cookie: " + opened.substr(at + 12, opened.find(';', at) - at - 12) + "\r\n";
  EXPECT_THAT(run.get("/", cookie).first, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(run.get("/status.json", cookie).first, StartsWith("HTTP/1.1 200"));
  run.process().send(SIGTERM);
  const Finished done = run.process().finish();
  EXPECT_THAT(done.err + done.out, Not(HasSubstr(kToken)));
}

TEST(StatusPort, MovedRunDirectoryIsOneLineAndTheRunContinues) {
  const TemporaryFolder folder;
  PortRun run{folder.at("run"), {"--budget", "600s"}};
  const json before = run.wait_for(measures);
  ASSERT_TRUE(measures(before)) << run.process().err();
  std::filesystem::rename(folder.at("run"), folder.at("moved"));
  const auto [head, body] = run.get("/report.html");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 503"));
  EXPECT_EQ(std::count(body.begin(), body.end(), '\n'), 1) << body;
  EXPECT_THAT(body, HasSubstr("run"));
  const json later = run.wait_for([&](const json& s) {
    return s["measurements"] > before["measurements"] && s["report_failure"].is_string();
  });
  EXPECT_TRUE(later["report_failure"].is_string()) << later;
  std::filesystem::rename(folder.at("moved"), folder.at("run"));
  const json back = run.wait_for([](const json& s) { return s["report_failure"].is_null(); });
  EXPECT_TRUE(back["report_failure"].is_null());
  run.process().send(SIGTERM);
  const Finished done = run.process().finish();
  EXPECT_EQ(done.status, 128 + SIGTERM) << done.err;
  EXPECT_EQ(json::parse(done.out)["lost"], 0);
}

TEST(StatusPort, PortInUseIsAWarningAndTheRunContinues) {
  const TemporaryFolder folder;
  PortRun first{folder.at("first"), {"--budget", "600s"}};
  ASSERT_FALSE(first.endpoint().empty());
  const Finished second =
      run(small_run(folder.at("second"), {"--episodes", "5", "--json", "--status", first.endpoint()}));
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("warning: no status port: " + first.endpoint()));
  EXPECT_GE(json::parse(second.out)["episodes"], 5);
  first.process().send(SIGTERM);
  EXPECT_EQ(first.process().finish().status, 128 + SIGTERM);
}

TEST(StatusPort, WrongOptionsAreRefusedBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const std::string open = folder.file("open", kToken);
  ::chmod(open.c_str(), 0644);
  using Options = std::vector<std::string>;
  for (const auto& [options, text] :
       {std::pair{Options{"--status", "example.org:80"}, "is not ADDRESS:PORT"},
        std::pair{Options{"--status", "0.0.0.0:0"}, "give --status-token FILE"},
        std::pair{Options{"--status", "127.0.0.1:0", "--status-token", open}, "others may read this secret"},
        std::pair{Options{"--status", "127.0.0.1:0", "--status-token", folder.at("none")}, "cannot be read"},
        std::pair{Options{"--status-token", open}, "is only for a status port"},
        std::pair{Options{"--status-host", "a.example"}, "is only for a status port"}}) {
    const Finished refused = run(small_run(folder.at("run"), options));
    EXPECT_EQ(refused.status, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(text));
    EXPECT_THAT(refused.err, Not(HasSubstr(kToken)));
    EXPECT_FALSE(std::filesystem::exists(folder.at("run")));
  }
}

TEST(StatusPort, ReportLiveShowsAFinishedRun) {
  const TemporaryFolder folder;
  ASSERT_EQ(run(small_run(folder.at("run"), {"--episodes", "20", "--quiet"})).status, 0);
  EXPECT_EQ(run({"report", folder.at("absent"), "--live"}).status, 2);
  Process live{{"report", folder.at("run"), "--live"}};
  ASSERT_TRUE(live.wait_for_error_text("status http://"));
  ASSERT_TRUE(live.wait_for_error_text("/\n"));
  const std::size_t at = live.err().find("http://") + 7;
  const std::string endpoint = live.err().substr(at, live.err().find('/', at) - at);
  HttpClient stream{endpoint};
  stream.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string status = stream.read_until("event: ended\n");
  EXPECT_THAT(status, HasSubstr("\"phase\":\"ended\""));
  EXPECT_THAT(status, HasSubstr("\"method\":\"hierarchical\""));
  EXPECT_THAT(status, Not(HasSubstr("\"best_step_time_s\":null")));
  EXPECT_FALSE(stream.read_until("event: report\n").empty());
  const json report = json::parse(HttpClient{endpoint}.get("/report.json").second, nullptr, false);
  EXPECT_FALSE(report["in_progress"]);
  EXPECT_THAT(HttpClient{endpoint}.get("/report.html").second, HasSubstr("emplace report"));
  live.send(SIGINT);
  EXPECT_EQ(live.finish().status, 128 + SIGINT);
}

TEST(StatusPort, ReportLiveFollowsARunOfAnotherLauncher) {
  const TemporaryFolder folder;
  Process other{small_run(folder.at("run"), {"--budget", "600s", "--set", "run.starts=[\"scratch\"]"})};
  ASSERT_TRUE(other.wait_for_error_text("updates"));
  Process live{{"report", folder.at("run"), "--live"}};
  ASSERT_TRUE(live.wait_for_error_text("status http://"));
  ASSERT_TRUE(live.wait_for_error_text("/\n"));
  const std::size_t at = live.err().find("http://") + 7;
  HttpClient stream{live.err().substr(at, live.err().find('/', at) - at)};
  stream.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_FALSE(stream.read_until("\"nodes_total\":1").empty()) << "the head answers";
  EXPECT_FALSE(stream.read_until("event: report\n").empty());
  other.send(SIGTERM);
  EXPECT_EQ(other.finish().status, 128 + SIGTERM);
  EXPECT_FALSE(stream.read_until("event: ended\n").empty()) << "the end is noticed";
  live.send(SIGTERM);
  EXPECT_EQ(live.finish().status, 128 + SIGTERM);
}

}  // namespace
}  // namespace emplace::testing
