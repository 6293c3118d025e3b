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
  expect_refused(R"({"format": "emplace-placement", "version": 2})", "another version");
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
