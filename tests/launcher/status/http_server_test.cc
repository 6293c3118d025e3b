#include "launcher/status/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tests/launcher/status/http_client.h"

namespace emplace::launcher {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Replies with the request; keeps the replies to /later.
class Echo : public HttpHandler {
 public:
  void on_request(const HttpRequest& request, Respond respond) override {
    ++requests;
    if (request.path == "/later") {
      const MutexLock lock{mutex};
      later.push_back(std::move(respond));
      came.notify_all();
      return;
    }
    if (request.path == "/events") {
      HttpReply stream;
      stream.type = "text/event-stream";
      stream.stream = true;
      return respond(std::move(stream));
    }
    if (request.path == "/large") return respond(reply(200, "text/plain", std::string(4'000'000, 'x')));
    std::string text = request.method + " " + request.path + " host=" + request.host;
    for (const auto& [name, value] : request.query) text += " " + name + "=" + value;
    respond(line_reply(200, text + " body=" + request.body));
  }
  std::vector<HttpEvent> on_stream_tick() override {
    const MutexLock lock{mutex};
    return events;
  }
  void set(std::vector<HttpEvent> to) {
    const MutexLock lock{mutex};
    events = std::move(to);
  }
  /// Waits for a request for /later and takes its reply.
  Respond take() {
    const MutexLock lock{mutex};
    while (later.empty()) came.wait(mutex);
    Respond first = std::move(later.front());
    later.pop_front();
    return first;
  }

  std::atomic<int> requests = 0;
  Mutex mutex;
  Condition came;
  std::deque<Respond> later EMPLACE_GUARDED_BY(mutex);
  std::vector<HttpEvent> events EMPLACE_GUARDED_BY(mutex);
};

struct ServerFixture {
  explicit ServerFixture(HttpServerOptions options = {}) {
    options.tick = std::chrono::hours{1};  // Tests publish by themselves.
    auto opened = HttpServer::open(std::move(options), echo);
    EXPECT_TRUE(opened);
    server = *std::move(opened);
  }
  Echo echo;
  std::unique_ptr<HttpServer> server;
};

TEST(HttpServer, AnswersSeveralRequestsOfOneConnection) {
  ServerFixture fixture;
  HttpClient client{fixture.server->endpoint()};
  const auto [head, body] = client.get("/a/b?x=1&name=a%20b+c&empty&bad=%zz");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(body, "GET /a/b host=localhost bad=%zz empty= name=a b c x=1 body=\n");
  EXPECT_THAT(head, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(head, HasSubstr("Cache-Control: no-store\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Security-Policy: default-src 'none'\r\n"));
  EXPECT_EQ(client.get("/second").second, "GET /second host=localhost body=\n");
  // Two requests in one piece are answered in order.
  client.send("GET /3 HTTP/1.1\r\nHost: a\r\n\r\nGET /4 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(client.read_reply().second, HasSubstr("/3"));
  EXPECT_THAT(client.read_reply().second, HasSubstr("/4"));
  client.send("HEAD /5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.read_to_end(), EndsWith("\r\n\r\n"));  // No body.
}

TEST(HttpServer, RefusesMalformedAndOversizedRequests) {
  ServerFixture fixture;
  for (const std::string& wrong :
       {std::string{"\x16\x03\x01\x02\x01\x01\xfc\x03\x03 a TLS hello \r\n\r\n"}, std::string{"GET\r\n\r\n"},
        std::string{"GET / HTTP/9.9\r\n\r\n"},
        "GET / HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n",
        "GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n" + std::string(5'000, 'a'),
        std::string{"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"},
        std::string{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"}}) {
    HttpClient client{fixture.server->endpoint()};
    client.send(wrong);
    const std::string answer = client.read_to_end();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 400 ")) << wrong.substr(0, 40) << answer;
  }
  EXPECT_EQ(fixture.echo.requests, 0);
  EXPECT_EQ((HttpClient{fixture.server->endpoint()}.get("/").second), "GET / host=localhost body=\n");
}

TEST(HttpServer, DisconnectsClientsThatSendARequestTooSlowly) {
  HttpServerOptions options;
  options.read_timeout = std::chrono::milliseconds{50};
  ServerFixture fixture{options};
  HttpClient silent{fixture.server->endpoint()}, half{fixture.server->endpoint()};
  half.send("GET / HTTP/1.1\r\nHost: a\r\nX-Slow");
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(half.closed());
}

TEST(HttpServer, DisconnectsClientsThatDoNotReadAReply) {
  HttpServerOptions options;
  options.write_timeout = std::chrono::milliseconds{50};
  options.read_timeout = std::chrono::milliseconds{200};
  ServerFixture fixture{options};
  HttpClient client{fixture.server->endpoint(), 4'096};
  for (int i = 0; i < 4; ++i) client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  // Others are served meanwhile.
  EXPECT_EQ((HttpClient{fixture.server->endpoint()}.get("/").second), "GET / host=localhost body=\n");
  // Once a later and longer timeout has expired, the write has timed out.
  EXPECT_TRUE((HttpClient{fixture.server->endpoint()}.closed()));
  EXPECT_LT(client.read_to_end().size(), 16'000'000U);
  EXPECT_EQ((HttpClient{fixture.server->endpoint()}.get("/large").second.size()), 4'000'000);
}

TEST(HttpServer, ClosesTheLongestIdleConnectionForANewOne) {
  HttpServerOptions options;
  options.max_connections = 4;
  ServerFixture fixture{options};
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<HttpClient>(fixture.server->endpoint()));
    EXPECT_EQ(clients.back()->get("/").second, "GET / host=localhost body=\n") << i;
  }
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(clients[i]->closed()) << i;
  for (int i = 8; i < 12; ++i) EXPECT_THAT(clients[i]->get("/again").second, HasSubstr("/again")) << i;
}

TEST(HttpServer, ServesAmongAThousandIdleConnections) {
  ServerFixture fixture;
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 1'000; ++i) {
    idle.push_back(std::make_unique<HttpClient>(fixture.server->endpoint()));
    if (!idle.back()->connected()) idle.pop_back();  // This process has no descriptors left.
  }
  EXPECT_GT(idle.size(), 400U);
  idle.resize(idle.size() - 20);
  EXPECT_EQ((HttpClient{fixture.server->endpoint()}.get("/").second), "GET / host=localhost body=\n");
}

TEST(HttpServer, WaitsForAReplyFromAnotherThread) {
  ServerFixture fixture;
  HttpClient client{fixture.server->endpoint()};
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  Respond respond = fixture.echo.take();
  EXPECT_EQ((HttpClient{fixture.server->endpoint()}.get("/").second), "GET / host=localhost body=\n");
  std::jthread other{[&] { respond(line_reply(200, "at last")); }};
  EXPECT_EQ(client.read_reply().second, "at last\n");
}

TEST(HttpServer, SurvivesRepliesToAClientThatLeftAndAfterItsEnd) {
  auto fixture = std::make_unique<ServerFixture>();
  Respond left, late;
  {
    HttpClient client{fixture->server->endpoint()};
    client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    left = fixture->echo.take();
  }
  left(line_reply(200, "the client does not read this"));
  left(line_reply(200, "nor this"));
  HttpClient client{fixture->server->endpoint()};
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  late = fixture->echo.take();
  fixture.reset();
  late(line_reply(200, "too late"));
  EXPECT_TRUE(client.closed());
}

TEST(HttpServer, StreamsTheNewestEventsOnce) {
  ServerFixture fixture;
  fixture.echo.set({{"status", "1"}});
  HttpClient client{fixture.server->endpoint()};
  client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_EQ(client.read_until("\n\n"), "event: status\ndata: 1\n\n");
  fixture.server->publish_now();  // Nothing is new.
  fixture.echo.set({{"status", "2"}, {"report", "7"}});
  fixture.server->publish_now();
  EXPECT_EQ(client.read_until("\n\n"), "event: status\ndata: 2\n\n") << "in the handler's order";
  EXPECT_EQ(client.read_until("\n\n"), "event: report\ndata: 7\n\n");
  fixture.echo.set({{"status", "2"}, {"report", "8"}});
  fixture.server->publish_now();
  EXPECT_EQ(client.read_until("\n\n"), "event: report\ndata: 8\n\n");
}

TEST(HttpServer, SendsASlowReaderOnlyTheNewestEvents) {
  ServerFixture fixture;
  HttpClient slow{fixture.server->endpoint(), 4'096};
  slow.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
  HttpClient quick{fixture.server->endpoint()};
  quick.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
  quick.read_until("\r\n\r\n");
  const std::string padding(1'000'000, 'x');
  for (int i = 1; i <= 40; ++i) {
    fixture.echo.set({{"status", std::to_string(i) + padding}});
    fixture.server->publish_now();
    EXPECT_THAT(quick.read_until("\n\n"), HasSubstr("data: " + std::to_string(i) + "x"));
  }
  // 40 MB were published; the slow reader gets the events in flight and the newest.
  std::size_t events = 0;
  for (std::string event; event.find("data: 40x") == std::string::npos; ++events) {
    event = slow.read_until("\n\n");
    ASSERT_FALSE(event.empty());
  }
  EXPECT_LT(events, 20U);
}

TEST(HttpServer, LimitsTheStreams) {
  HttpServerOptions options;
  options.max_streams = 2;
  ServerFixture fixture{options};
  fixture.echo.set({{"status", "1"}});
  const std::string wanted = "GET /events HTTP/1.1\r\nHost: a\r\n\r\n";
  HttpClient one{fixture.server->endpoint()}, two{fixture.server->endpoint()},
      three{fixture.server->endpoint()};
  for (HttpClient* client : {&one, &two}) {
    client->send(wanted);
    EXPECT_THAT(client->read_until("data: 1\n\n"), HasSubstr("200 OK"));
  }
  three.send(wanted);
  EXPECT_THAT(three.read_reply().first, StartsWith("HTTP/1.1 503 "));
}

TEST(HttpServer, PublishesOnceMoreAtItsEnd) {
  ServerFixture fixture;
  fixture.echo.set({{"status", "1"}});
  HttpClient client{fixture.server->endpoint()};
  client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
  client.read_until("data: 1\n\n");
  fixture.echo.set({{"ended", "{}"}});
  fixture.server.reset();
  EXPECT_EQ(client.read_to_end(), "event: ended\ndata: {}\n\n");
}

TEST(HttpServer, ReportsWhyItCannotListen) {
  ServerFixture fixture;
  HttpServerOptions taken;
  const std::string endpoint = fixture.server->endpoint();
  taken.port = static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.find(':') + 1)));
  const auto refused = HttpServer::open(taken, fixture.echo);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kIo);
  EXPECT_THAT(refused.error().context, HasSubstr(endpoint));
  EXPECT_THAT(refused.error().context, HasSubstr("in use"));
}

}  // namespace
}  // namespace emplace::launcher
