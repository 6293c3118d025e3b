// Goal: the records of a loop can be read while it runs and after it was killed; the newest replace the
// oldest; a damaged file is refused; and a node records everything that its actors do.
#include "runtime/trace_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "runtime/context.h"
#include "runtime/node.h"
#include "tests/runtime/test_messages.h"
#include "tests/support/manual_clock.h"
#include "tests/support/scratch_folder.h"

namespace emplace::runtime {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

class TraceRingTest : public ::testing::Test {
 protected:
  std::unique_ptr<TraceRing> ring(std::size_t records) {
    auto made = TraceRing::make(folder_.path(), "exec/1", 2, {"executor/0", "=x\n"}, records, clock_);
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  }
  std::vector<TracePart> parts() const {
    std::vector<TracePart> all;
    for (const auto& entry : std::filesystem::directory_iterator{folder_.path()}) {
      auto part = read_trace_part(entry.path());
      EXPECT_TRUE(part.ok()) << entry.path();
      if (part) all.push_back(*std::move(part));
    }
    return all;
  }

  const emplace::testing::ScratchFolder folder_{"ring"};
  ManualClock clock_;
};

TEST_F(TraceRingTest, KeepsTheNewestAndCountsTheRest) {
  const auto written = ring(4);
  for (std::int64_t k = 1; k <= 10; ++k) written->add({.begin_ns = k, .end_ns = k + 1});
  const std::vector<TracePart> read = parts();
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].node, "exec/1");
  EXPECT_THAT(read[0].actors, ElementsAre("executor/0", "=x\n"));
  EXPECT_EQ(read[0].overwritten, 6u);
  ASSERT_EQ(read[0].records.size(), 4u);
  for (std::int64_t k = 0; k < 4; ++k)
    EXPECT_EQ(read[0].records[static_cast<std::size_t>(k)].begin_ns, 7 + k);
}

TEST_F(TraceRingTest, RecordsOfAKilledProcessRemain) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto written = ring(100);
    for (std::int64_t k = 1; k <= 3; ++k) written->add({.begin_ns = k});
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::vector<TracePart> read = parts();
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].records.size(), 3u);
}

TEST_F(TraceRingTest, DamagedFileIsRefused) {
  ring(4).reset();
  const auto path = std::filesystem::directory_iterator { folder_.path() } -> path();
  const Bytes whole = *read_file(path);
  for (const std::size_t size : {std::size_t{0}, std::size_t{50}, whole.size() - 1}) {
    ASSERT_TRUE(write_file(path, std::span{whole}.first(size)).ok());
    EXPECT_EQ(read_trace_part(path).error().code, Errc::kInvalid) << size;
  }
  for (std::size_t at = 0; at < 128 && at < whole.size();
       ++at) {  // Damage to any byte of the header is harmless.
    Bytes changed = whole;
    changed[at] = std::byte{0xff};
    ASSERT_TRUE(write_file(path, changed).ok());
    (void)read_trace_part(path);
  }
}

TEST_F(TraceRingTest, FullDiskIsAnError) {
  EXPECT_EQ(TraceRing::make("/proc/no/such", "n", 0, {"a"}, 4, clock_).error().code, Errc::kIo);
}

/// Sends a message to the next actor, then ends.
class Relay final : public Actor {
 public:
  explicit Relay(std::string next) : next_{std::move(next)} {}
  void on_start(Context& context) override {
    if (context.name() == "first") context.send(next_, Ping{});
  }
  void on_message(Context& context, const Incoming&) override {
    { const auto busy = context.phase("thinking hard, and long"); }
    if (!next_.empty()) context.send(next_, Ping{});
    held_.emplace(context.phase("to the end"));  // Ends with the actor, after everything else.
    context.stop_node("done");
  }

 private:
  const std::string next_;
  std::optional<Context::Phase> held_;
};

TEST_F(TraceRingTest, NodeRecordsEveryMessageAndPhase) {
  NodeOptions options;
  options.trace = (folder_.path() / "t").string();
  const SystemClock clock;
  auto node = *Node::make(options, clock);
  ASSERT_TRUE(node->spawn<Relay>("first", Home::kOwnLoop, std::string{"second"}).ok());
  ASSERT_TRUE(node->spawn<Relay>("second", Home::kIoLoop, std::string{}).ok());
  ASSERT_TRUE(node->run().ok());
  node.reset();
  std::vector<TraceKind> second;
  std::int64_t sent = 0, start = 0, busy = 0;
  bool held = false;
  std::string phase;
  std::size_t rings = 0;
  for (const auto& entry : std::filesystem::directory_iterator{options.trace}) {
    const auto part = read_trace_part(entry.path());
    ASSERT_TRUE(part.ok());
    ++rings;
    for (const TraceRecord& record : part->records) {
      EXPECT_LE(record.begin_ns, record.end_ns);
      if (record.actor != actor_id("second")) continue;
      second.push_back(record.kind);
      if (record.kind == TraceKind::kMessage) {
        EXPECT_EQ(record.from, actor_id("first"));
        EXPECT_EQ(record.type, Ping::kType);
        sent = record.sent_ns;
        start = record.begin_ns;
      }
      if (record.kind != TraceKind::kPhase) continue;
      const std::string name{record.name.data(), ::strnlen(record.name.data(), record.name.size())};
      if (name == "to the end") {
        held = true;
        continue;
      }
      busy = record.begin_ns;
      phase = name;
    }
  }
  EXPECT_EQ(rings, 2u);
  EXPECT_THAT(second, Contains(TraceKind::kStart));
  EXPECT_THAT(second, Contains(TraceKind::kMessage));
  EXPECT_THAT(second, Contains(TraceKind::kStop));
  EXPECT_EQ(phase, "thinking hard, a") << "cut off at 16 letters";
  EXPECT_TRUE(held);
  EXPECT_GT(sent, 0);
  EXPECT_LE(sent, start);
  EXPECT_LE(start, busy);
}

}  // namespace
}  // namespace emplace::runtime
