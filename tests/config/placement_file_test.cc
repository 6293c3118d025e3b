// Goal: a placement and its order are written to disk and read back by names, and those of another graph are
// refused.
#include "placement/placement_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

class PlacementFile : public ::testing::Test {
 protected:
  PlacementFile()
      : path_{std::filesystem::path{::testing::TempDir()} /
              ("placement-" + std::to_string(::getpid()) + ".json")} {}
  ~PlacementFile() override { std::filesystem::remove(path_); }
  void expect_refused(std::string_view text, std::string_view with) {
    ASSERT_TRUE(write_file(path_, text).ok());
    const auto loaded = load_placement(path_, graph_, "hash", devices_);
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.error().context.find(with), std::string::npos) << loaded.error().context;
  }
  const std::filesystem::path path_;
  const OpGraph graph_ = testing::sample_graph({{"a"}, {"b", {{0, 0}}}});
  const DeviceSet devices_ = testing::sample_devices(2, false, 1 << 20);
};

TEST_F(PlacementFile, RoundTrips) {
  const Placement placement{DeviceId{1}, DeviceId{0}};
  ASSERT_TRUE(save_placement(path_, graph_, devices_, placement, {},
                             {"hash", "random", "sim", 7, "2026-01-01T00:00:00Z"})
                  .ok());
  const auto loaded = load_placement(path_, graph_, "hash", devices_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().context;
  EXPECT_EQ(*loaded, placement);
  const auto foreign = load_placement(path_, graph_, "another hash", devices_);
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.error().context.find("another graph"), std::string::npos);
}

TEST_F(PlacementFile, RefusesWrongFiles) {
  const std::string head = R"({"format": "emplace-placement", "version": 1, "graph_sha256": "hash", "ops": )";
  expect_refused("nonsense", "not JSON");
  expect_refused("{}", "not a placement");
  expect_refused(R"({"format": "emplace-placement", "version": 3})", "another version");
  expect_refused(head + R"({"a": "gpu:0"}})", "places 1 ops");
  expect_refused(head + R"({"a": "gpu:0", "c": "gpu:0"}})", "leaves out op 'b'");
  expect_refused(head + R"({"a": "gpu:0", "b": "gpu:7"}})", "op 'b'");
  expect_refused(head + R"({"a": "gpu:0", "b": 3}})", "no device name");
}

TEST_F(PlacementFile, OrderIsOptionalAndRoundTrips) {
  const OpGraph graph = testing::sample_graph({{"a"}, {"b", {{0, 0}}}, {"c"}});
  const Placement placement(3, DeviceId{1});
  PlacementInfo info{.graph_sha256 = "hash", .order = {OpId{2}, OpId{0}, OpId{1}}};
  ASSERT_TRUE(save_placement(path_, graph, devices_, placement, {}, info).ok());
  const auto order = load_order(path_, graph, "hash");
  ASSERT_TRUE(order.ok()) << order.error().context;
  EXPECT_EQ(*order, info.order);
  EXPECT_EQ(*load_placement(path_, graph, "hash", devices_), placement);
  info.order.clear();
  ASSERT_TRUE(save_placement(path_, graph, devices_, placement, {}, info).ok());
  EXPECT_TRUE(load_order(path_, graph, "hash")->empty());
}

/// Two kernels whose outputs wait for a backward pass.
OpGraph training() {
  return testing::sample_graph({{"a"},
                                {"b", {{0, 0}}, {4, 4}},
                                {"loss", {{1, 0}, {1, 1}}},
                                {"g", {{2, 0}, {0, 0}, {1, 1}}, {4}, 1, 1, "Work", false, Phase::kBackward}});
}

TEST_F(PlacementFile, MemoryDecisionsRoundTripWithTheOrderOfTheirGraph) {
  const OpGraph graph = training();
  const Placement placement(graph.num_ops(), DeviceId{1});
  PlacementInfo info{
      .graph_sha256 = "hash",
      .plan = {.recompute = {OpId{0}},
               .moved = {{.tensor = graph.output(OpId{1}, 1), .to = DeviceId{0}, .after = OpId{2}}}}};
  const PlannedGraph made = planned(graph, info.plan, devices_.names()).value();
  for (std::uint32_t i = 0; i < made.graph.num_ops(); ++i) info.order.push_back(OpId{i});
  ASSERT_TRUE(save_placement(path_, graph, devices_, placement, {}, info).ok());
  const auto plan = load_plan(path_, graph, "hash", devices_);
  ASSERT_TRUE(plan.ok()) << plan.error().context;
  EXPECT_EQ(*plan, info.plan);
  const auto order = load_order(path_, made.graph, "hash");
  ASSERT_TRUE(order.ok()) << order.error().context;
  EXPECT_EQ(*order, info.order);
  EXPECT_EQ(*load_placement(path_, graph, "hash", devices_, Plans::kKnown), placement);
  // One that knows no plans must not take it for a placement without them.
  EXPECT_FALSE(load_placement(path_, graph, "hash", devices_).ok());
  EXPECT_FALSE(load_named_placement(path_, graph, "hash").ok());
}

TEST_F(PlacementFile, WithoutMemoryDecisionsTheVersionIsOne) {
  ASSERT_TRUE(save_placement(path_, graph_, devices_, Placement(2), {}, {.graph_sha256 = "hash"}).ok());
  const auto bytes = read_file(path_).value();
  const std::string text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  EXPECT_NE(text.find("\"version\": 1"), std::string::npos);
  EXPECT_EQ(text.find("recompute"), std::string::npos);
  EXPECT_TRUE(load_plan(path_, graph_, "hash", devices_)->empty());
}

TEST_F(PlacementFile, RefusesWrongMemoryDecisionsInOneLine) {
  const OpGraph graph = training();
  const auto refusal = [&](const std::string& fields) {
    EXPECT_TRUE(
        write_file(path_,
                   R"({"format": "emplace-placement", "version": 2, "graph_sha256": "hash", )" + fields + "}")
            .ok());
    const auto loaded = load_plan(path_, graph, "hash", devices_);
    EXPECT_FALSE(loaded.ok()) << fields;
    const std::string text = loaded ? std::string{} : loaded.error().context;
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text;
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(refusal(R"("recompute": "a")"), "its recompute is not a list"));
  EXPECT_TRUE(has(refusal(R"("recompute": [3])"), "its recompute is not a list of op names"));
  EXPECT_TRUE(has(refusal(R"("recompute": ["z"])"), "its recompute names op 'z', which the graph lacks"));
  EXPECT_TRUE(has(refusal(R"("move": ["a"])"), "not a list of objects with tensor and to"));
  EXPECT_TRUE(has(refusal(R"("move": [{"tensor": "z", "to": "gpu:0"}])"), "its move names op 'z'"));
  EXPECT_TRUE(has(refusal(R"("move": [{"tensor": "a", "to": "tpu:0"}])"), "moves op 'a': "));
  EXPECT_TRUE(
      has(refusal(R"("move": [{"tensor": "a", "output": 1, "to": "gpu:0"}])"), "that it does not have"));
  EXPECT_TRUE(has(refusal(R"("move": [{"tensor": "a", "to": "gpu:0", "after": "z"}])"), "names op 'z'"));
}

TEST_F(PlacementFile, RefusesWrongOrdersInOneLine) {
  const auto refusal = [&](const std::string& order, const std::string& hash = "hash",
                           std::string_view graph = "g") {
    const std::string text = R"({"format": "emplace-placement", "version": 1, "graph": ")" +
                             std::string{graph} + R"(", "graph_sha256": ")" + hash + R"(", "order": )" +
                             order + "}";
    EXPECT_TRUE(write_file(path_, text).ok());
    const auto loaded = load_order(path_, graph_, "hash");
    EXPECT_FALSE(loaded.ok()) << order;
    if (loaded) return std::string{};
    EXPECT_EQ(loaded.error().code, Errc::kInvalid);
    EXPECT_EQ(loaded.error().context.find('\n'), std::string::npos);
    return loaded.error().context;
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(
      has(refusal(R"(["a", "b"])", "other"), "is a placement for another graph ('g'); place this graph"));
  EXPECT_TRUE(has(refusal(R"(["a", "b"])", "other", graph_.name()),
                  "changed or read by an older program); place it again"));
  EXPECT_TRUE(has(refusal("3"), "its order is not a list of op names"));
  EXPECT_TRUE(has(refusal("[1, 2]"), "its order is not a list of op names"));
  EXPECT_TRUE(has(refusal(R"(["a", "z"])"), "its order names op 'z', which the graph lacks"));
  EXPECT_TRUE(has(refusal(R"(["a"])"), "has 1 ops, the graph has 2"));
  EXPECT_TRUE(has(refusal(R"(["a", "a"])"), "op 'a' is repeated"));
  EXPECT_TRUE(has(refusal(R"(["b", "a"])"), "op 'b' comes before its input op 'a'"));
}

}  // namespace
}  // namespace emplace
