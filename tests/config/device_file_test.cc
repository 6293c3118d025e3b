// Goal: device files describe a machine, and impossible machines are refused. Method: shipped files read;
// wrong ones refused.
#include "placement/machine/device_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace emplace {
namespace {

TEST(DeviceFile, ReadsEveryShippedMachine) {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator{std::filesystem::path{EMPLACE_SOURCE_DIR} /
                                                               "configs" / "devices"}) {
    const auto devices = load_devices(entry.path());
    EXPECT_TRUE(devices.ok()) << (devices.ok() ? "" : devices.error().context);
    ++read;
  }
  EXPECT_GE(read, 6u);
}

TEST(DeviceFile, ReadsProfilesMemoryReservesAndLinks) {
  const auto devices = parse_devices(R"(
[[profile]]
name = "mine"
base = "k40"
peak = "5TFLOP/s"
launch = "2us"
dispatch = "30us"
unaligned_rate = 0.25
efficiency = { matmul = 0.9 }

[[device]]
name = "cpu:0"
profile = "haswell18"
reserve = "50%"

[[device]]
name = "gpu:0"
profile = "mine"
memory = "4GiB"
reserve = "1GiB"

[[device]]
name = "gpu:1"
profile = "mine"

[[link]]
between = ["*", "*"]
bandwidth = "12GB/s"
latency = "10us"

[[link]]
from = "gpu:0"
to = "gpu:1"
profile = "nvlink2"
)",
                                     "test", 0.25);
  ASSERT_TRUE(devices.ok()) << devices.error().context;
  EXPECT_EQ((*devices)[DeviceId{0}].memory_bytes, std::int64_t{64} << 30)
      << "half kept by the file, a quarter by the caller";
  EXPECT_EQ((*devices)[DeviceId{1}].memory_bytes, std::int64_t{2} << 30);
  EXPECT_DOUBLE_EQ((*devices)[DeviceId{1}].profile.peak_gflops, 5000);
  EXPECT_DOUBLE_EQ((*devices)[DeviceId{1}].profile.launch_us, 2);
  EXPECT_DOUBLE_EQ((*devices)[DeviceId{1}].profile.dispatch_us, 30);
  EXPECT_DOUBLE_EQ((*devices)[DeviceId{1}].profile.unaligned_rate, 0.25);
  EXPECT_DOUBLE_EQ((*devices)[DeviceId{1}].profile.efficiency[static_cast<std::size_t>(OpClass::kMatmul)],
                   0.9);
  EXPECT_DOUBLE_EQ((*devices)[DeviceId{1}].profile.efficiency[static_cast<std::size_t>(OpClass::kNorm)], 0.2)
      << "inherited";
  EXPECT_DOUBLE_EQ(devices->link(DeviceId{1}, DeviceId{2}).bytes_per_s, 130e9);
  EXPECT_DOUBLE_EQ(devices->link(DeviceId{2}, DeviceId{1}).bytes_per_s, 12e9) << "one way only";
}

TEST(DeviceFile, StatesItsCostVersion) {
  const auto of = [](const std::string& costs, const std::string& device) {
    const auto devices = parse_devices(costs +
                                           "[[profile]]\nname = \"mine\"\nbase = \"h100\"\n"
                                           "efficiency = { norm = 0.3 }\n[[device]]\n" +
                                           device,
                                       "own.toml");
    EXPECT_TRUE(devices.ok()) << devices.error().context;
    return devices.ok() ? (*devices)[DeviceId{0}].profile : Profile{};
  };
  const std::size_t norm = static_cast<std::size_t>(OpClass::kNorm);
  for (const std::string& first : {std::string{}, std::string{"costs = 1\n"}}) {
    EXPECT_EQ(of(first, "name = \"h100\"\n"), *find_profile("h100", CostVersion::k1));
    EXPECT_EQ(of(first, "profile = \"mine\"\n").cost_version, CostVersion::k1);
    EXPECT_TRUE(of(first, "profile = \"mine\"\n").own_efficiency.none());
  }
  EXPECT_EQ(of("costs = 2\n", "name = \"h100\"\n"), *find_profile("h100", CostVersion::k2));
  EXPECT_EQ(of("costs = 2\n", "profile = \"h100\"\n"), *find_profile("h100", CostVersion::k2));
  const Profile mine = of("costs = 2\n", "profile = \"mine\"\n");
  EXPECT_EQ(mine.cost_version, CostVersion::k2);
  EXPECT_TRUE(mine.own_efficiency.test(norm));
  EXPECT_EQ(mine.own_efficiency.count(), 1u) << "the others are those of the catalogue";
}

void expect_refused(const std::string& toml, std::string_view with) {
  const auto devices = parse_devices(toml, "bad.toml");
  ASSERT_FALSE(devices.ok()) << toml;
  EXPECT_NE(devices.error().context.find(with), std::string::npos) << devices.error().context;
  EXPECT_EQ(devices.error().context.find('\n'), std::string::npos);
}

/// Two hosts with two devices each; `more` follows.
std::string two_hosts(const std::string& more, const std::string& first = "") {
  std::string text = first;
  for (const char* name : {"a/gpu:0", "a/gpu:1", "b/gpu:0", "b/gpu:1"})
    text += "[[device]]\nname = \"" + std::string{name} + "\"\nprofile = \"h100\"\n";
  return text + "[[link]]\nbetween = [\"*\", \"*\"]\nprofile = \"nvlink4\"\n" + more;
}

TEST(DeviceFile, ReadsEnginesAndSharedLinks) {
  const auto devices = parse_devices(
      two_hosts("[[shared]]\nname = \"nic a\"\ndevices = [\"a/*\"]\n"
                "[[shared]]\nname = \"nic b\"\ndevices = [\"b/gpu:1\", \"b/gpu:0\"]\nengines = 2\n",
                "copy_engines = 2\n"),
      "hosts.toml");
  ASSERT_TRUE(devices.ok()) << devices.error().context;
  ASSERT_EQ(devices->shared().size(), 2u);
  EXPECT_EQ(devices->shared()[0].name, "nic a");
  EXPECT_EQ(devices->shared()[0].devices, (std::vector{static_cast<DeviceId>(0), static_cast<DeviceId>(1)}));
  EXPECT_EQ(devices->shared()[1].devices, (std::vector{static_cast<DeviceId>(2), static_cast<DeviceId>(3)}));
  EXPECT_EQ(devices->shared()[1].engines, 2u);
  EXPECT_EQ(devices->engines(static_cast<DeviceId>(3)), 2u);
  const auto plain = parse_devices(two_hosts(""), "hosts.toml");
  EXPECT_NE(plain->sha256(), devices->sha256());
  EXPECT_TRUE(plain->is_simple());
  const auto unlimited = parse_devices(two_hosts("", "copy_engines = \"unlimited\"\n"), "hosts.toml");
  ASSERT_TRUE(unlimited.ok()) << unlimited.error().context;
  EXPECT_EQ(unlimited->engines(static_cast<DeviceId>(0)), kUnlimited);
}

TEST(DeviceFile, RefusesImpossibleSharedLinks) {
  const auto refused = [](const std::string& more, const std::string& why, const std::string& first = "") {
    const auto devices = parse_devices(two_hosts(more, first), "hosts.toml");
    ASSERT_FALSE(devices.ok()) << more;
    EXPECT_NE(devices.error().context.find(why), std::string::npos) << devices.error().context;
    EXPECT_EQ(devices.error().context.find('\n'), std::string::npos);
  };
  const std::string nic = "[[shared]]\nname = \"nic\"\n";
  refused(nic, "a shared link needs devices");
  refused(nic + "devices = []\n", "a shared link needs devices");
  refused(nic + "devices = [\"c/*\"]\n", "'c/*' matches no device of this file");
  refused(nic + "devices = [\"*\"]\n", "has every device of the machine");
  refused(nic + "devices = [\"a/*\"]\nengines = 0\n", "must be a number from 1 to 64");
  refused("[[shared]]\ndevices = [\"a/*\"]\n", "a shared link needs a name");
  refused(nic + "devices = [\"a/*\"]\n" + nic + "devices = [\"b/*\"]\n", "is listed twice");
  refused(nic + "devices = [\"a/*\"]\n", "needs copies = \"source\"", "copies = \"target\"\n");
  refused("", "must be a number from 1 to 64", "copy_engines = 0\n");
  refused("", "or \"unlimited\"", "copy_engines = \"many\"\n");
  refused("", "copy_engines: needs copies = \"source\"", "copies = \"target\"\ncopy_engines = 2\n");
}

TEST(DeviceFile, RefusesImpossibleMachines) {
  const std::string a = "[[device]]\nname = \"a\"\nprofile = \"k40\"\n",
                    b = "[[device]]\nname = \"b\"\nprofile = \"k40\"\n";
  const std::string link = "[[link]]\nbetween = [\"a\", \"b\"]\n";
  expect_refused("", "empty");
  expect_refused("costs = 3\n" + a, "bad.toml:1: unknown cost version '3'; expected one of: 1, 2");
  expect_refused("costs = \"2\"\n" + a, "bad.toml:1: 'costs' must be a whole number");
  expect_refused(a + b + "host = \"other\"\n", "is missing; add a [[link]]");
  const std::string own =
      "[[profile]]\nname = \"own\"\npeak = \"1TFLOP/s\"\nbandwidth = \"9GB/s\"\nmemory = \"1GiB\"\n"
      "efficiency = { matmul = 1, conv = 1, conv_grouped = 1, norm = 1, reduce = 1, gather = 1, elementwise "
      "= 1 }\n";
  expect_refused(own + a + "[[device]]\nname = \"b\"\nprofile = \"own\"\n", "is missing; add a [[link]]");
  expect_refused("[[device]]\nname = \"a\"\nprofile = \"k4O\"\n", "did you mean 'k40'");
  expect_refused("[[device]]\nname = \"a\"\nprofle = \"k40\"\n", "a device needs a profile");
  expect_refused(a + "memry = \"1GiB\"\n", "did you mean 'memory'");
  expect_refused(a + "memory = \"1GB/s\"\n", "unknown unit");
  expect_refused(a + "memory = 5\n", "with a unit");
  expect_refused(a + b + link + "bandwidth = \"0GB/s\"\nlatency = \"1us\"\n", "above zero");
  expect_refused(a + b + link + "profile = \"carrier pigeon\"\n", "link 'carrier pigeon' is unknown");
  expect_refused(a + b + link + "profile = \"nvlnk4\"\n", "did you mean 'nvlink4'?");
  expect_refused(a + "count = 2\n", "bad.toml:4: 'count' names its devices gpu:0, gpu:1, …; remove 'name'");
  expect_refused("[[device]]\nprofile = \"k40\"\ncount = 0\n", "bad.toml:3: 'count' must be 1 to 256");
  expect_refused("[[device]]\nprofile = \"k40\"\ncount = 257\n", "must be 1 to 256");
  expect_refused(a + "[[device]]\nprofile = \"k40\"\ncount = 256\n", "makes more than 256 devices");
  expect_refused("[[device]]\nname = \"h10\"\n", "a device needs a profile, or a name of the catalogue");
  expect_refused("[[device]]\nmemory = \"1GiB\"\n", "a device needs a profile");
  expect_refused(a + b + "[[link]]\nbetween = [\"a\", \"c\"]\nbandwidth = \"1GB/s\"\n", "is not a device");
  expect_refused(a + a + link + "bandwidth = \"1GB/s\"\n", "'b' is not a device");
  std::string many;
  for (int i = 0; i < 257; ++i)
    many += "[[device]]\nname = \"d" + std::to_string(i) + "\"\nprofile = \"k40\"\n";
  expect_refused(many + "[[link]]\nbetween = [\"*\", \"*\"]\nbandwidth = \"1GB/s\"\n", "limit of 256");
  expect_refused(a + "reserve = \"12GiB\"\n", "memory must be above zero");
  const std::string mine = "[[profile]]\nname = \"mine\"\nbase = \"k40\"\n",
                    one = "[[device]]\nprofile = \"mine\"\n";
  expect_refused(mine + "dispatch = 5\n" + one, "with a unit");
  expect_refused(mine + "unaligned_rate = 0\n" + one, "unaligned_rate must be above 0 and at most 1");
  expect_refused(mine + "unaligned_rate = 2\n" + one, "unaligned_rate must be above 0 and at most 1");
}

TEST(DeviceFile, DeviceOfTheCatalogueNeedsOnlyItsName) {
  const auto devices = parse_devices(R"(
[[device]]
name = "a100"

[[device]]
profile = "h100"
count = 3
memory = "40GiB"
reserve = "10GiB"
copy_engines = 2

[[device]]
profile = "epyc9654"
)",
                                     "test", *parse_reserve("1GiB"));
  ASSERT_TRUE(devices.ok()) << devices.error().context;
  std::vector<std::string> names;
  for (const Device& device : devices->devices()) names.push_back(device.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a100", "gpu:0", "gpu:1", "gpu:2", "cpu:0"}));
  EXPECT_EQ((*devices)[DeviceId{0}].profile.name, "a100_40");
  EXPECT_EQ((*devices)[DeviceId{3}].memory_bytes, std::int64_t{29} << 30);
  EXPECT_EQ(devices->engines(DeviceId{0}), 1u);
  EXPECT_EQ(devices->engines(DeviceId{3}), 2u) << "each of the three";
  EXPECT_EQ(devices->engines(DeviceId{4}), 1u);
  EXPECT_EQ(devices->link(DeviceId{0}, DeviceId{1}).bytes_per_s, 25e9) << "the A100's PCIe 4";
  EXPECT_EQ(devices->link(DeviceId{1}, DeviceId{4}).bytes_per_s, 50e9);
}

TEST(DeviceFile, NumbersContinueAndDerivedProfilesKeepTheLinkOfTheirBase) {
  const auto devices = parse_devices(R"(
[[profile]]
name = "slow"
base = "k40"
launch = "20us"

[[device]]
name = "gpu:1"
profile = "slow"

[[device]]
profile = "h100"
count = 2
)",
                                     "test");
  ASSERT_TRUE(devices.ok()) << devices.error().context;
  EXPECT_EQ((*devices)[DeviceId{1}].name, "gpu:0");
  EXPECT_EQ((*devices)[DeviceId{2}].name, "gpu:2");
  EXPECT_EQ(devices->link(DeviceId{0}, DeviceId{1}).bytes_per_s, 12e9);
  EXPECT_EQ(devices->link(DeviceId{1}, DeviceId{2}).bytes_per_s, 50e9);
}

}  // namespace
}  // namespace emplace
