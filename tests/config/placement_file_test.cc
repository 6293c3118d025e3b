// Goal: a placement goes to disk and back by names, and one of another graph is refused.
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

TEST_F(PlacementFile, ComesBackTheSame) {
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

TEST_F(PlacementFile, WrongFilesAreRefused) {
  const std::string head = R"({"format": "emplace-placement", "version": 1, "graph_sha256": "hash", "ops": )";
  expect_refused("nonsense", "not JSON");
  expect_refused("{}", "not a placement");
  expect_refused(R"({"format": "emplace-placement", "version": 2})", "another version");
  expect_refused(head + R"({"a": "gpu:0"}})", "places 1 ops");
  expect_refused(head + R"({"a": "gpu:0", "c": "gpu:0"}})", "leaves out op 'b'");
  expect_refused(head + R"({"a": "gpu:0", "b": "gpu:7"}})", "op 'b'");
  expect_refused(head + R"({"a": "gpu:0", "b": 3}})", "no device name");
}

}  // namespace
}  // namespace emplace
