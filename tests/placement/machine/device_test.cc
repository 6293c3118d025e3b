// Goal: a machine that cannot exist is refused in one line; built-in profiles are the published ones.
#include "placement/machine/device.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

Device k40(std::string name) { return {std::move(name), *find_profile("k40"), 1 << 20, ""}; }
constexpr Link kLink{12e9, 10e-6};

TEST(DeviceSet, LinksEveryPairAndFindsDevicesByName) {
  const auto set = DeviceSet::make({k40("gpu:0"), k40("gpu:1")}, kLink);
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(*set->find("gpu:1"), DeviceId{1});
  EXPECT_EQ(set->link(DeviceId{1}, DeviceId{0}).bytes_per_s, 12e9);
  EXPECT_FALSE(set->is_cpu(DeviceId{0}));
  EXPECT_NE(set->find("gpu:2").error().context.find("gpu:"), std::string::npos);
}

TEST(DeviceSet, RefusesImpossibleMachines) {
  const auto refused = [](std::vector<Device> devices, Link link, const char* reason) {
    const auto set = DeviceSet::make(std::move(devices), link);
    ASSERT_FALSE(set.ok()) << reason;
    EXPECT_NE(set.error().context.find(reason), std::string::npos) << set.error().context;
    EXPECT_EQ(set.error().context.find('\n'), std::string::npos);
  };
  refused({}, kLink, "empty");
  refused(std::vector<Device>(257, k40("x")), kLink, "limit of 256");
  refused({k40("a"), k40("a")}, kLink, "twice");
  refused({k40("a"), k40("b")}, {0, 0}, "is missing");
  refused({k40("a"), k40("b")}, {0, 1e-6}, "bandwidth");
  refused({k40("a"), k40("b")}, {1e9, -1}, "latency");
  refused({k40("a"), k40("b")}, {std::numeric_limits<double>::infinity(), 0}, "bandwidth");
  Device broken = k40("a");
  broken.memory_bytes = 0;
  refused({broken}, kLink, "memory");
  broken = k40("a");
  broken.profile.peak_gflops = std::numeric_limits<double>::quiet_NaN();
  refused({broken}, kLink, "peak rate");
  broken = k40("a");
  broken.profile.dispatch_us = -1;
  refused({broken}, kLink, "dispatch");
  for (const double rate : {0.0, 1.5, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    broken = k40("a");
    broken.profile.unaligned_rate = rate;
    refused({broken}, kLink, "unaligned_rate");
  }
}

TEST(Profiles, SuggestTheNearestAndIncludeCalibratedOnes) {
  EXPECT_NE(find_profile("k4O").error().context.find("'k40'"), std::string::npos);
  EXPECT_DOUBLE_EQ(find_profile("k40-calibrated")->efficiency[static_cast<std::size_t>(OpClass::kMatmul)],
                   0.236);
  EXPECT_EQ(find_profile("h200")->memory_bytes, std::int64_t{141} << 30);
}

TEST(DeviceSet, HashCoversEverythingThatDeterminesATime) {
  const auto base = DeviceSet::make({k40("a"), k40("b")}, kLink)->sha256();
  EXPECT_EQ(base, DeviceSet::make({k40("a"), k40("b")}, kLink)->sha256());
  Device other = k40("b");
  other.memory_bytes += 1;
  EXPECT_NE(base, DeviceSet::make({k40("a"), other}, kLink)->sha256());
  other = k40("b");
  other.profile.cost_version = CostVersion::k2;
  const auto second = DeviceSet::make({k40("a"), other}, kLink)->sha256();
  EXPECT_NE(base, second);
  other.profile.own_efficiency.set(static_cast<std::size_t>(OpClass::kConv));
  EXPECT_NE(second, DeviceSet::make({k40("a"), other}, kLink)->sha256());
  EXPECT_NE(base, DeviceSet::make({k40("a"), k40("b")}, {12e9, 11e-6})->sha256());
  other = k40("b");
  other.profile.dispatch_us = 0.5;
  const auto dispatched = DeviceSet::make({k40("a"), other}, kLink)->sha256();
  EXPECT_NE(base, dispatched);
  EXPECT_FALSE(other.profile == k40("b").profile);
  other = k40("b");
  other.profile.unaligned_rate = 0.5;
  EXPECT_NE(base, DeviceSet::make({k40("a"), other}, kLink)->sha256());
  EXPECT_NE(dispatched, DeviceSet::make({k40("a"), other}, kLink)->sha256());
}

}  // namespace
}  // namespace emplace
