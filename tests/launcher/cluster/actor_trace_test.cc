// Goal: rings of several nodes, incarnations, starts and machines become one sound trace. Method: rings
// written by the test with a clock of its own, merged and read back.
#include "launcher/cluster/node/actor_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "messages/placement_measured.h"
#include "runtime/trace_ring.h"
#include "tests/support/manual_clock.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

using messages::actor_id;
using nlohmann::json;
using runtime::TraceKind;
using runtime::TraceRecord;
using runtime::TraceRing;
using ::testing::ElementsAre;

TraceRecord message(const char* to, const char* from, std::int64_t sent_ns, std::int64_t begin_ns,
                    std::int64_t end_ns) {
  return {.begin_ns = begin_ns,
          .end_ns = end_ns,
          .actor = actor_id(to),
          .from = actor_id(from),
          .sent_ns = sent_ns,
          .type = messages::PlacementMeasured::kType};
}

class ActorTrace : public ::testing::Test {
 protected:
  void ring(const std::string& folder, const std::string& node, std::size_t number, const char* actor,
            const std::vector<TraceRecord>& records) {
    auto made = TraceRing::make(folder_.path() / folder, node, number, {actor}, 8, clock_);
    ASSERT_TRUE(made.ok());
    for (const TraceRecord& record : records) (*made)->add(record);
  }
  /// Makes it a ring of another machine, whose monotonic clock is `ahead_ns` ahead of ours.
  void move_to_another_machine(const std::filesystem::path& file, std::int64_t ahead_ns) {
    Bytes bytes = *read_file(file);
    const auto at = [&](std::size_t offset) {
      return reinterpret_cast<std::int64_t*>(bytes.data() + offset);
    };
    *at(32) += ahead_ns;
    bytes[40] = std::byte{'x'};
    ASSERT_TRUE(write_file(file, bytes).ok());
  }
  json merged(const std::vector<TraceSource>& sources) {
    const auto path = folder_.path() / "trace.json";
    const auto done = merge_traces(sources, path);
    EXPECT_TRUE(done.ok());
    std::ifstream file{path};
    return json::parse(file);
  }
  std::filesystem::path at(const char* name) const { return folder_.path() / name; }
  static std::vector<json> of_phase(const json& trace, const char* phase) {
    std::vector<json> found;
    for (const json& event : trace["traceEvents"])
      if (event["ph"] == phase) found.push_back(event);
    return found;
  }

  const testing::ScratchFolder folder_{"actor-trace"};
  ManualClock clock_;
};

TEST_F(ActorTrace, ShowsSenderMessageAndWaitingTime) {
  ring("a", "head", 0, "sender",
       {{.begin_ns = 1'000, .end_ns = 2'000, .actor = actor_id("sender"), .kind = TraceKind::kTimer}});
  ring("a", "exec", 0, "=receiver\"",
       {message("=receiver\"", "sender", 1'500, 4'000, 5'001),
        message("=receiver\"", "stranger", 1'500, 6'000, 6'001)});
  const json trace = merged({{"", at("a")}});
  const auto slices = of_phase(trace, "X");
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0]["ts"], 0.0);
  EXPECT_EQ(slices[1]["name"], "PlacementMeasured");
  EXPECT_EQ(slices[1]["ts"], 3.0);
  EXPECT_EQ(slices[1]["dur"], 1.001);
  EXPECT_EQ(slices[1]["args"], (json{{"from", "sender"}, {"queued_us", 2.5}}));
  EXPECT_FALSE(slices[2].contains("args"));
  ASSERT_EQ(of_phase(trace, "s").size(), 1u);
  EXPECT_EQ(of_phase(trace, "s")[0]["ts"], 0.5);
  EXPECT_EQ(of_phase(trace, "s")[0]["pid"], slices[0]["pid"]);
  EXPECT_EQ(of_phase(trace, "f")[0]["ts"], 3.0);
}

TEST_F(ActorTrace, ArrowNeedsASliceToStartAt) {
  ring("a", "head", 0, "sender",
       {{.begin_ns = 1'000, .end_ns = 1'200, .actor = actor_id("sender"), .kind = TraceKind::kTimer}});
  ring("a", "exec", 0, "receiver", {message("receiver", "sender", 1'500, 4'000, 5'000)});
  const json trace = merged({{"", at("a")}});
  EXPECT_TRUE(of_phase(trace, "s").empty());
  EXPECT_TRUE(of_phase(trace, "f").empty());
}

TEST_F(ActorTrace, AlignsMachinesByTheirWallClocks) {
  ring("a", "head", 0, "sender",
       {{.begin_ns = 1'000, .end_ns = 2'000, .actor = actor_id("sender"), .kind = TraceKind::kTimer}});
  constexpr std::int64_t kAhead = 1'000'000'000'000;
  ring("b", "far", 0, "receiver", {message("receiver", "sender", 1'500, kAhead + 4'000, kAhead + 5'000)});
  move_to_another_machine(
      std::filesystem::directory_iterator { at("b") } -> path(), kAhead);
  // Into one folder, as in a run; the name determines which is first.
  std::filesystem::rename(
      std::filesystem::directory_iterator { at("b") } -> path(), at("a") / "z.ring");
  const json trace = merged({{"", at("a")}});
  const auto slices = of_phase(trace, "X");
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1]["ts"], 3.0);
  EXPECT_EQ(slices[1]["args"]["queued_us"], 2.5);
  EXPECT_THAT(trace["otherData"]["nodes_set_by_wall_clock"], ElementsAre("far"));
}

TEST_F(ActorTrace, IncarnationsOfANodeShareTracksAndStartsDoNot) {
  ring("a", "head", 0, "actor", {message("actor", "x", 0, 1'000, 2'000)});
  ring("a", "head", 1, "actor", {message("actor", "x", 0, 3'000, 4'000)});  // Another process wrote it.
  ring("b", "head", 0, "actor", {message("actor", "x", 0, 5'000, 6'000)});
  const json trace = merged({{"scratch", at("a")}, {"best-heuristic", at("b")}});
  const auto slices = of_phase(trace, "X");
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0]["pid"], slices[1]["pid"]);
  EXPECT_EQ(slices[0]["tid"], slices[1]["tid"]);
  EXPECT_NE(slices[0]["pid"], slices[2]["pid"]);
}

TEST_F(ActorTrace, OmitsDamagedRingsAndFailsWithoutAny) {
  std::filesystem::create_directory(at("a"));
  ASSERT_TRUE(write_file(at("a") / "x.ring", std::string_view{"no ring"}).ok());
  EXPECT_EQ(merge_traces({{"", at("a")}, {"", at("none")}}, at("t.json")).error().code, Errc::kInvalid);
  EXPECT_FALSE(std::filesystem::exists(at("t.json")));
}

}  // namespace
}  // namespace emplace::launcher
