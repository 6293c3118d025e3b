// Goal: a peer without a key, or with a wrong key or role, is refused within 5 s, counted, and does not
// disturb other peers; a removed key ends its sessions. Method: real nodes over tcp on threads of this
// process; an honest peer exchanges messages throughout, and the tests wait for counters, never for a time.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/runtime/keyed_nodes.h"

namespace emplace::runtime {
namespace {

TEST_F(KeyedNodes, PlainClientIsRefused) {
  auto plain = client("plain", "", nullptr);
  send(plain, record(Hello{.node = "plain"}));
  EXPECT_TRUE(within(kRefusedWithin, [&] { return refused_handshakes(0); }));
  EXPECT_EQ(head_->counters().malformed, 0u) << "not a byte of it was looked at";
}

TEST_F(KeyedNodes, ClientOfAnotherServerIsRefused) {
  const KeyPair other = make_key_pair("other");
  auto lost = client("lost", other.public_key, &ring_["honest"]);
  send(lost, record(Hello{.node = "lost"}));
  EXPECT_TRUE(within(kRefusedWithin, [&] { return refused_handshakes(0); }));
  EXPECT_EQ(head_->counters().malformed, 0u);
}

TEST_F(KeyedNodes, UnknownKeyIsRefusedWithTheReason) {
  ring_.make("stranger", {});
  std::atomic<std::uint64_t> answers{0};
  auto stranger = join("stranger", "executor/1", &answers, {.upstream_timeout = seconds{1}});
  EXPECT_TRUE(within(kRefusedWithin, [&] { return refused_handshakes(0) && stranger->ended(); }));
  EXPECT_NE(stranger->end().find("the head refuses this key; is it in its allow-list?"), std::string::npos)
      << stranger->end();
  EXPECT_EQ(answers, 0u);
}

TEST_F(KeyedNodes, NodeThatTrustsAnotherHeadCannotJoin) {
  KeyPair keys = ring_.make("wrong", {Role::kExecutor});
  keys.head = make_key_pair("x").public_key;
  ASSERT_TRUE(save_key_pair(ring_.at("wrong.key"), keys, true).ok());
  std::atomic<std::uint64_t> answers{0};
  auto wrong = join("wrong", "executor/1", &answers, {.upstream_timeout = seconds{1}});
  EXPECT_TRUE(within(kRefusedWithin, [&] { return wrong->ended(); }));
  EXPECT_NE(wrong->end().find("is the head's public key the right one"), std::string::npos) << wrong->end();
  EXPECT_EQ(answers, 0u);
}

TEST_F(KeyedNodes, WrongRoleIsRefusedWithTheReason) {
  std::atomic<std::uint64_t> answers{0};
  auto learner = join("honest", "learner", &answers, {.upstream_timeout = seconds{1}});
  EXPECT_TRUE(within(kRefusedWithin, [&] { return head_->counters().refused_role > 0 && learner->ended(); }));
  EXPECT_NE(learner->end().find("no actor called 'learner' may come from honest (executor)"),
            std::string::npos)
      << learner->end();
  EXPECT_EQ(answers, 0u);
}

TEST_F(KeyedNodes, NodesMayShareAKey) {
  std::atomic<std::uint64_t> answers{0};
  auto second = join("honest", "executor/1", &answers);
  EXPECT_TRUE(within(kRefusedWithin, [&] { return answers > 10; }));
}

TEST_F(KeyedNodes, AnotherKeyCannotTakeANameInUse) {
  ring_.make("thief", {Role::kExecutor});
  ASSERT_TRUE(within(kRefusedWithin, [&] {
    std::atomic<std::uint64_t> answers{0};
    auto thief = join("thief", "executor/0", &answers, {.upstream_timeout = seconds{1}});
    return within(seconds{3}, [&] { return thief->ended() && head_->counters().refused_role > 0; }) &&
           answers == 0;
  }));
}

// A role that may not have a node must not reserve its name either, or its owner could never join.
TEST_F(KeyedNodes, ExecutorKeyCannotTakeThePlannedNameOfAnotherRole) {
  ring_.make("thief", {Role::kExecutor});
  ring_.make("owner", {Role::kActor});
  for (const char* name : {"learner", "head"}) {
    std::atomic<std::uint64_t> answers{0};
    auto thief = join("thief", "executor/1", &answers, {.name = name});
    EXPECT_TRUE(within(kRefusedWithin, [&] { return thief->ended(); }))
        << "not refused at once and for good: " << name;
    EXPECT_NE(thief->end().find("no node called '" + std::string{name} + "' may come from thief (executor)"),
              std::string::npos)
        << thief->end();
    EXPECT_EQ(answers, 0u);
  }
  EXPECT_GE(head_->counters().refused_role, 2u);
  std::atomic<std::uint64_t> owners{0}, racks{0};
  auto owner = join("owner", "learner/0", &owners, {.name = "learner"});
  auto rack = join("thief", "executor/1", &racks, {.name = "rack"});
  EXPECT_TRUE(within(kRefusedWithin, [&] { return owners > 10 && racks > 10; })) << "permitted nodes join";
}

TEST_F(KeyedNodes, MessagesOutsideTheRoleAreDroppedAndTheSessionContinues) {
  const auto raw = [&](std::size_t plane, std::uint64_t epoch) {
    char id[64];
    std::snprintf(id, sizeof id, "raw-%016llx-%c", static_cast<unsigned long long>(epoch),
                  plane == 0 ? 'c' : 'd');
    auto socket = client(id, ring_["head"].public_key, &ring_["honest"]);
    send(socket, record(Hello{.node = "raw",
                              .epoch = epoch,
                              .plane = static_cast<Plane>(plane),
                              .actors = {"executor/7"},
                              .wire = messages::kWireVersion,
                              .oldest_wire = messages::kOldestWireVersion}));
    return socket;
  };
  auto control = raw(0, 5);
  auto data = raw(1, 5);
  const auto own = messages::actor_id("executor/7");
  const auto echo = messages::actor_id("echo");
  std::uint64_t seq = 1;
  const auto send_as = [&](auto message, ActorId from, ActorId to) {
    send(data, record(message, {.from = from, .to = to, .seq = seq++}));
  };
  send_as(Pong{1}, own, echo);                                         // A message type of another role.
  send_as(Ping{.number = 2}, messages::actor_id("executor/0"), echo);  // The name of another actor.
  send_as(Ping{.number = 3}, own, messages::actor_id("executor/0"));   // A receiver that its role forbids.
  send_as(Ping{.number = 4}, own, messages::actor_id("nobody"));
  send_as(Ping{.number = 5}, own, echo);
  // Only the last one is answered: first by Welcome, then by Pong.
  bool answered = false;
  EXPECT_TRUE(within(kRefusedWithin, [&] {
    for (zmq::message_t part; data.recv(part, zmq::recv_flags::dontwait);) {
      std::span<const std::byte> batch{static_cast<const std::byte*>(part.data()), part.size()};
      Record one;
      while (take_record(batch, one)) answered |= one.envelope.type == Pong::kType;
    }
    return answered;
  }));
  EXPECT_EQ(head_->counters().refused_role, 4u);
  EXPECT_EQ(head_->counters().gaps, 0u);
  EXPECT_EQ(head_->counters().unroutable, 0u);
}

TEST_F(KeyedNodes, RemovedKeyEndsItsSessionsAndMayReturn) {
  ring_.make("guest", {Role::kExecutor});
  std::atomic<std::uint64_t> answers{0};
  auto guest = join("guest", "executor/1", &answers);
  ASSERT_TRUE(within(kRefusedWithin, [&] { return answers > 10; }));
  ring_.remove("guest");
  EXPECT_TRUE(within(kRefusedWithin, [&] { return head_->counters().revoked == 1; }));
  const std::uint64_t then = answers;
  const std::uint64_t refused = head_->counters().unauthenticated;
  EXPECT_TRUE(within(kRefusedWithin, [&] { return refused_handshakes(refused); })) << "it tries again";
  EXPECT_LE(answers, then + 1) << "one answer may have been in flight";
  EXPECT_TRUE(add_to_allow_list(ring_.at("allowed.toml"),
                                {"guest", ring_["guest"].public_key, {Role::kExecutor}}, false)
                  .ok());
  EXPECT_TRUE(within(seconds{10}, [&] { return answers > then + 10; }))
      << "it continues when its key is back";
}

TEST_F(KeyedNodes, ChangedRoleAppliesAtOnce) {
  ring_.make("guest", {Role::kExecutor});
  std::atomic<std::uint64_t> answers{0};
  auto guest = join("guest", "executor/1", &answers, {.upstream_timeout = seconds{2}});
  ASSERT_TRUE(within(kRefusedWithin, [&] { return answers > 10; }));
  ASSERT_TRUE(
      add_to_allow_list(ring_.at("allowed.toml"), {"guest", ring_["guest"].public_key, {Role::kActor}}, true)
          .ok());
  EXPECT_TRUE(within(seconds{10}, [&] { return guest->ended(); }));
  EXPECT_NE(guest->end().find("no actor called 'executor/1' may come from guest (actor)"), std::string::npos)
      << guest->end();
}

TEST_F(KeyedNodes, BrokenAllowListChangesNothing) {
  ASSERT_TRUE(write_file(ring_.at("allowed.toml"), "[[key]]\nname = ").ok());
  EXPECT_TRUE(serves_honest_peer());
  std::filesystem::remove(ring_.at("allowed.toml"));
  EXPECT_TRUE(serves_honest_peer());
  EXPECT_EQ(head_->counters().revoked, 0u);
}

TEST_F(KeyedNodes, ConnectionOfARemovedKeyIsNotRead) {
  const KeyPair keys = ring_.make("guest", {Role::kExecutor});
  std::vector<zmq::socket_t> flood;
  // Retries until the head has read its list again.
  ASSERT_TRUE(within(kRefusedWithin, [&] {
    flood.push_back(client("flood" + std::to_string(flood.size()), ring_["head"].public_key, &keys));
    return within(seconds{1}, [&] {
      send(flood.back(), record(Pong{}));
      return head_->counters().malformed > 0;  // Its key is accepted, but it has no session.
    });
  }));
  const std::uint64_t refused = head_->counters().unauthenticated;
  ring_.remove("guest");
  ASSERT_TRUE(within(kRefusedWithin, [&] {
    send(flood.back(), record(Pong{}));
    return head_->counters().unauthenticated > refused;
  }));
  ASSERT_TRUE(serves_honest_peer());
  const std::uint64_t then = head_->counters().unauthenticated;
  const std::uint64_t strangers = head_->counters().malformed;
  for (int i = 0; i < 10'000; ++i) send(flood.back(), record(Pong{}));
  EXPECT_TRUE(serves_honest_peer());
  EXPECT_EQ(head_->counters().unauthenticated, then);
  EXPECT_EQ(head_->counters().malformed, strangers);
}

/// Resident memory of this process.
std::size_t resident_bytes() {
  std::ifstream in{"/proc/self/statm"};
  std::size_t pages = 0;
  in >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

messages::Bytes bytes_of(std::initializer_list<unsigned> values) {
  messages::Bytes bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// A hostile peer with a valid key: everything is dropped and counted, nothing is allocated for claimed sizes,
// and the other peers are not disturbed.
TEST_F(KeyedNodes, HostileBytesWithAValidKeyAreDroppedAndCounted) {
  const std::string id = "evil-0000000000000009-";
  auto control = client(id + "c", ring_["head"].public_key, &ring_["honest"]);
  auto data = client(id + "d", ring_["head"].public_key, &ring_["honest"]);
  send(control, record(Hello{.node = "evil",
                             .epoch = 9,
                             .plane = Plane::kControl,
                             .actors = {"executor/9"},
                             .wire = messages::kWireVersion,
                             .oldest_wire = messages::kOldestWireVersion}));
  send(data, record(Hello{.node = "evil",
                          .epoch = 9,
                          .plane = Plane::kData,
                          .actors = {"executor/9"},
                          .wire = messages::kWireVersion,
                          .oldest_wire = messages::kOldestWireVersion}));
  const std::size_t before = resident_bytes();
  std::vector<messages::Bytes> bombs{bytes_of({0xdd, 0xff, 0xff, 0xff, 0xff}),  // An array of 2^32 - 1.
                                     bytes_of({0xdf, 0xff, 0xff, 0xff, 0xff}),  // A map of 2^32 - 1.
                                     bytes_of({0xc6, 0xff, 0xff, 0xff, 0xff}),  // 4 GiB of bytes.
                                     bytes_of({0xdb, 0xff, 0xff, 0xff, 0xff}),  // 4 GiB of text.
                                     bytes_of({0xff, 0xff, 0xff, 0xff, 0xff}),
                                     messages::Bytes(100'000, std::byte{0x91}),
                                     messages::Bytes(100'000, std::byte{0x81})};
  const auto own = messages::actor_id("executor/9");
  for (const messages::Bytes& bomb : std::vector<messages::Bytes>{bombs}) {
    messages::Bytes inside;  // The bomb as the body of a permitted message.
    append_record({.type = Ping::kType, .from = own, .to = messages::actor_id("echo"), .seq = bombs.size()},
                  bomb, {}, inside);
    bombs.push_back(inside);
    messages::Bytes hello;  // The bomb as a Hello.
    append_record({.type = Hello::kType}, bomb, {}, hello);
    bombs.push_back(hello);
    messages::Bytes lying;  // A record with wrong sizes.
    for (int i = 0; i < 3; ++i) lying.insert(lying.end(), 4, std::byte{0xff});
    lying.insert(lying.end(), bomb.begin(), bomb.end());
    bombs.push_back(lying);
  }
  std::uint64_t sent = 0;
  for (int round = 0; round < 200; ++round) {
    for (const messages::Bytes& bomb : bombs) {
      send(round % 2 == 0 ? control : data, bomb);
      ++sent;
    }
    // Nine parts; three are the maximum.
    for (int part = 0; part < 9; ++part)
      data.send(zmq::str_buffer("part"),
                part < 8 ? zmq::send_flags::sndmore | zmq::send_flags::dontwait : zmq::send_flags::dontwait);
  }
  EXPECT_TRUE(within(kRefusedWithin, [&] { return head_->counters().malformed > 200; }));
  EXPECT_TRUE(serves_honest_peer());
  // More than a control connection may carry.
  EXPECT_TRUE(within(kRefusedWithin, [&] {
    send(control, messages::Bytes(2u << 20));
    return head_->counters().oversized > 0;
  }));
  EXPECT_TRUE(serves_honest_peer());
#if defined(__SANITIZE_ADDRESS__)
  constexpr std::size_t kMax = 768u << 20;  // The allocator keeps freed memory for a while.
#else
  constexpr std::size_t kMax = 256u << 20;
#endif
  EXPECT_LT(resident_bytes(), before + kMax) << "after " << sent << " bombs";
}

/// A bare TCP connection to the head; -1 if the system gives none.
int dial_bare(const std::string& endpoint) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoul(endpoint.substr(endpoint.rfind(':') + 1))));
  if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

// Connections that send nothing, half a greeting, or a frame header of 2^63 bytes: each is closed after the 5
// s of a handshake.
TEST_F(KeyedNodes, HalfOpenConnectionsTimeOutAndBlockNoNode) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  // Both ends are in this process: two descriptors each.
  const std::size_t wanted = std::min<std::size_t>(10'000, (limit.rlim_cur - 200) / 2);
  const std::size_t before = resident_bytes();
  std::string greeting = "\xff" + std::string(8, '\0') +
                         "\x7f\x03\x00"
                         "CURVE";
  std::vector<int> open;
  while (open.size() < wanted) {
    const int fd = dial_bare(head_->endpoint());
    if (fd < 0) break;
    std::string words;
    if (open.size() % 3 == 1) words = greeting.substr(0, 7);
    if (open.size() % 3 == 2) {
      words = greeting;
      words.resize(64, '\0');  // The rest of the greeting, then a command of 2^63 - 1 bytes.
      words += std::string{"\x06\x7f"} + std::string(7, '\xff') + "HELLO";
    }
    if (!words.empty()) (void)!::send(fd, words.data(), words.size(), MSG_NOSIGNAL);
    open.push_back(fd);
  }
  std::printf("%zu half-open connections\n", open.size());
  ASSERT_GT(open.size(), 100u);
  EXPECT_TRUE(serves_honest_peer());
  const std::size_t during = resident_bytes();
  EXPECT_TRUE(within(seconds{30}, [&] { return head_->counters().unauthenticated >= open.size(); }))
      << head_->counters().unauthenticated;
  std::printf("resident: %zu MiB before, %zu with them\n", before >> 20, during >> 20);
  EXPECT_LT(during, before + (std::size_t{1} << 30));
  for (const int fd : open) ::close(fd);
}

TEST(PlainTransport, RequiresInsecure) {
  KeyRing ring;
  ring.make("rack", {Role::kExecutor});
  const auto error = [](NodeOptions options) {
    const auto node = Node::make(std::move(options), g_clock);
    return node.ok() ? std::string{"no error"} : node.error().context;
  };
  const std::string open = "tcp://127.0.0.1:*";
  const RoleRules rules{&may_announce, &may_send};
  EXPECT_EQ(error({.listen = {open}}),
            open + ": tcp without encryption; give it keys (emplace keygen), or allow insecure");
  EXPECT_EQ(error({.upstream = "tcp://127.0.0.1:5"}),
            "tcp://127.0.0.1:5: tcp without encryption; give it keys (emplace keygen), or allow insecure");
  EXPECT_EQ(error({.listen = {open}, .keys = {.own = ring.at("head.key")}, .rules = rules}),
            "keys: an encrypted port without an allow-list; emplace keygen --allow FILE makes one");
  EXPECT_EQ(error({.listen = {open}, .keys = {.allowed = ring.at("allowed.toml")}, .rules = rules}),
            "keys: an allow-list or a head's key, but no key of this node; emplace keygen makes one");
  EXPECT_EQ(error({.upstream = "tcp://127.0.0.1:5", .keys = {.own = ring.at("head.key")}}),
            ring.at("head.key") +
                ": does not name the head's public key; make it with 'emplace keygen --head FILE', or give "
                "the head's "
                ".pub file");
  EXPECT_EQ(error({.upstream = "tcp://127.0.0.1:5",
                   .keys = {.own = ring.at("head.key"), .head = ring.at("head.pub")}}),
            "no error");
  EXPECT_NE(error({.listen = {open}, .keys = {.own = ring.at("none.key")}}).find("cannot be read"),
            std::string::npos);
  ::chmod(ring.at("rack.key").c_str(), 0604);
  EXPECT_EQ(error({.upstream = "tcp://127.0.0.1:5", .keys = {.own = ring.at("rack.key")}}),
            ring.at("rack.key") + ": others may read this secret; chmod 600 " + ring.at("rack.key"));
  EXPECT_EQ(error({.listen = {"ipc://" + ring.at("sock")}}), "no error");
  ::chmod(ring.at("").c_str(), 0755);
  EXPECT_EQ(error({.listen = {"ipc://" + ring.at("sock")}}),
            "ipc://" + ring.at("sock") +
                ": its folder is open to other users; use a folder of yours with mode 0700, or allow "
                "insecure");
  EXPECT_EQ(error({.listen = {"ipc://" + ring.at("sock")}, .insecure = true}), "no error");
}

// One port for this machine, one for others: only the second requires keys.
TEST(PlainTransport, IpcBesideTcpNeedsNoKeys) {
  KeyRing ring;
  ring.make("rack", {Role::kExecutor});
  Running head{{.name = "head/0",
                .listen = {"tcp://127.0.0.1:*", "ipc://" + ring.at("sock")},
                .keys = {.own = ring.at("head.key"), .allowed = ring.at("allowed.toml")},
                .rules = {&may_announce, &may_send}},
               [](Node& node) { (void)node.spawn<Echo>("echo", Home::kIoLoop); }};
  std::atomic<std::uint64_t> local{0};
  std::atomic<std::uint64_t> remote{0};
  Running near{{.name = "near", .upstream = "ipc://" + ring.at("sock")},
               [&](Node& node) { (void)node.spawn<Honest>("learner", Home::kIoLoop, &local); }};
  Running far{{.name = "far", .upstream = head.endpoint(), .keys = {.own = ring.at("rack.key")}},
              [&](Node& node) { (void)node.spawn<Honest>("executor/0", Home::kIoLoop, &remote); }};
  EXPECT_TRUE(within(kRefusedWithin, [&] { return local > 10 && remote > 10; }));
}

// The socket itself refuses another user of this machine if a wrong mode lets them into the folder.
TEST(PlainTransport, RefusesAnotherUserOverIpc) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  KeyRing ring;
  Running head{{.name = "head/0", .listen = {"ipc://" + ring.at("sock")}},
               [](Node& node) { (void)node.spawn<Echo>("echo", Home::kIoLoop); }};
  ::chmod(ring.at("").c_str(), 0777);
  ::chmod(ring.at("sock").c_str(), 0777);
  const pid_t child = ::fork();
  if (child == 0) {  // Connects, waits for the hang-up, and exits with the outcome; no ZeroMQ after a fork.
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ring.at("sock").copy(address.sun_path, sizeof address.sun_path - 1);
    char greeting[64];
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const bool other = ::setgid(65534) == 0 && ::setuid(65534) == 0;
    const bool connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::_exit(!other || !connected ? 2 : ::read(fd, greeting, sizeof greeting) > 0 ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: it got a greeting; 2: it could not connect";
}

}  // namespace
}  // namespace emplace::runtime
