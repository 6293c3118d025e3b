// Goal: every entry of the catalogue has a source, values that are possible in its family, and a unique name;
// entries never change. Method: ranges per family; the published values of the entries that runs already use.
#include "placement/machine/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/placement/machine/catalogue_page.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

/// Possible values of the devices of a family: FP32 [GFLOP/s], memory bandwidth [GB/s], memory [GiB].
struct FamilyRange {
  DeviceFamily family;
  const char* kind;
  double peak[2], matrix[2], bandwidth[2], gib[2];
};
constexpr FamilyRange kFamilies[] = {
    {DeviceFamily::kDataCentre, "gpu", {2e3, 2e5}, {2e3, 1.5e6}, {190, 10e3}, {7, 300}},
    {DeviceFamily::kDesktop, "gpu", {5e3, 2e5}, {5e3, 3e5}, {200, 2e3}, {7, 100}},
    {DeviceFamily::kUnified, "gpu", {5e3, 5e4}, {5e3, 5e4}, {200, 1e3}, {32, 200}},
    {DeviceFamily::kServerCpu, "cpu", {1e3, 3e4}, {1e3, 3e4}, {60, 1e3}, {128, 1024}},
    {DeviceFamily::kDesktopCpu, "cpu", {1e3, 1e4}, {1e3, 1e4}, {40, 250}, {32, 300}},
};

const FamilyRange& range_of(DeviceFamily family) {
  for (const FamilyRange& range : kFamilies)
    if (range.family == family) return range;
  ADD_FAILURE() << "a family without a range";
  return kFamilies[0];
}

template <std::size_t N>
auto within(const double (&range)[N]) {
  return AllOf(Ge(range[0]), Le(range[1]));
}

TEST(Catalogue, EveryDeviceHasASourceAndValuesOfItsFamily) {
  EXPECT_GE(catalogue_devices().size(), 43u) << "at least 40, and three calibrated ones";
  for (const CatalogueDevice& device : catalogue_devices()) {
    SCOPED_TRACE(device.profile.name);
    const Profile& p = device.profile;
    const FamilyRange& range = range_of(device.family);
    EXPECT_GT(device.source.size(), 10u);
    EXPECT_FALSE(device.title.empty());
    EXPECT_EQ(p.kind, range.kind);
    EXPECT_THAT(p.peak_gflops, within(range.peak));
    EXPECT_THAT(p.matrix_peak_gflops, within(range.matrix));
    EXPECT_GE(p.matrix_peak_gflops, p.peak_gflops);
    EXPECT_THAT(p.bandwidth_gbs, within(range.bandwidth));
    EXPECT_THAT(static_cast<double>(p.memory_bytes) / 1073741824, within(range.gib));
    EXPECT_THAT(p.bandwidth_efficiency, AllOf(Ge(0.5), Le(1.0)));
    EXPECT_THAT(p.launch_us, AllOf(Ge(1.0), Le(20.0)));
    for (std::size_t c = 2; c < kNumOpClasses; ++c) EXPECT_THAT(p.efficiency[c], AllOf(Ge(0.01), Le(1.0)));
    EXPECT_NE(known_link(device.host_link), nullptr) << device.host_link;
    EXPECT_EQ(device.cores > 0, p.kind == "cpu");
    EXPECT_TRUE(device.matrix.starts_with("FP32") || device.matrix == "TF32") << device.matrix;
  }
}

TEST(Catalogue, EveryLinkHasASourceAndARate) {
  EXPECT_GE(catalogue_links().size(), 20u);
  for (const CatalogueLink& link : catalogue_links()) {
    SCOPED_TRACE(link.name);
    EXPECT_GT(link.source.size(), 10u);
    EXPECT_FALSE(link.title.empty());
    EXPECT_THAT(link.link.bytes_per_s, AllOf(Ge(1e9), Le(1e12)));
    EXPECT_THAT(link.link.latency_s, AllOf(Ge(1e-6), Le(1e-4)));
    EXPECT_FALSE(link.link.shaped);
  }
}

TEST(Catalogue, NamesAreUniqueLowerCaseWithoutPunctuation) {
  std::set<std::string> names;
  const auto add = [&](std::string_view name) {
    std::string folded;
    for (const char c : name)
      if (c != '-' && c != '_') folded += c;
    EXPECT_TRUE(names.insert(folded).second) << name << " is given twice";
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-+."), std::string_view::npos)
        << name;
    EXPECT_TRUE(std::isalpha(static_cast<unsigned char>(name.front()))) << name << " could be a count";
    EXPECT_NE(folded, "x");
    EXPECT_NE(folded, "by");
    EXPECT_NE(folded, "here");
  };
  for (const CatalogueDevice& device : catalogue_devices()) {
    add(device.profile.name);
    if (!device.alias.empty()) add(device.alias);
  }
  for (const CatalogueLink& link : catalogue_links()) add(link.name);
}

TEST(Catalogue, HasCommonDevices) {
  for (const char* name : {"k40",
                           "k80",
                           "p100",
                           "v100",
                           "v100_32",
                           "t4",
                           "a10",
                           "a30",
                           "a40",
                           "a100",
                           "a100_40",
                           "a100_80",
                           "l4",
                           "l40s",
                           "h100",
                           "h100_sxm",
                           "h100_pcie",
                           "h200",
                           "gh200",
                           "b200",
                           "gb200",
                           "b300",
                           "gb300",
                           "rtxpro6000",
                           "p4",
                           "p100_pcie_16",
                           "v100_pcie_16",
                           "v100_pcie_32",
                           "a100_pcie_40",
                           "a100_pcie_80",
                           "mi100",
                           "mi250",
                           "rtx2080",
                           "titanrtx",
                           "arc_pro_b60",
                           "gtx1080ti",
                           "rtx2080ti",
                           "rtx3060",
                           "rtx3080",
                           "rtx3090",
                           "rtx4060ti_16",
                           "rtx4070",
                           "rtx4080",
                           "rtx4090",
                           "rtx5080",
                           "rtx5090",
                           "rtxa6000",
                           "rtx6000ada",
                           "mi210",
                           "mi250x",
                           "mi300x",
                           "mi325x",
                           "rx7900xtx",
                           "max1550",
                           "arc_a770",
                           "arc_b580",
                           "m1max",
                           "m2ultra",
                           "m3max",
                           "m4max",
                           "epyc7742",
                           "epyc7763",
                           "epyc9654",
                           "epyc9755",
                           "xeon8280",
                           "xeon8380",
                           "xeon8480+",
                           "xeon6980p",
                           "grace",
                           "threadripper3990x",
                           "threadripper5995wx",
                           "threadripper7980x",
                           "i9_13900k",
                           "ryzen7950x",
                           "haswell18"})
    EXPECT_NE(known_device(name), nullptr) << name;
  for (const char* name :
       {"pcie3_x16", "pcie4_x16", "pcie5_x16",   "pcie6_x16",   "pcie4_x8",     "pcie4_x4",    "nvlink1",
        "nvlink2",   "nvlink3",   "nvlink4",     "nvlink5",     "xgmi3",        "ib-edr",      "ib-hdr",
        "ib-ndr",    "ib-xdr",    "ethernet-10", "ethernet-25", "ethernet-100", "ethernet-400"})
    EXPECT_NE(known_link(name), nullptr) << name;
}

TEST(Catalogue, IgnoresCaseAndSeparators) {
  EXPECT_EQ(known_device("RTX-4090"), known_device("rtx4090"));
  EXPECT_EQ(known_device("EPYC_9654"), known_device("epyc9654"));
  EXPECT_EQ(known_link("IB_NDR"), known_link("ib-ndr"));
  EXPECT_EQ(known_device("a100")->profile.name, "a100_40") << "the smaller one fits both";
  EXPECT_EQ(known_device(""), nullptr);
}

TEST(Catalogue, SuggestsTheNearestName) {
  EXPECT_THAT(find_profile("rtx409").error().context, HasSubstr("did you mean 'rtx4090'?"));
  EXPECT_THAT(find_profile("quantum-annealer-9000").error().context, HasSubstr("docs/reference/machines.md"));
  EXPECT_THAT(find_link("nvlnk4").error().context, HasSubstr("did you mean 'nvlink4'?"));
  EXPECT_THAT(find_link("carrier pigeon").error().context, HasSubstr("docs/reference/machines.md"));
}

// Device files and records refer to these: their values must never change.
TEST(Catalogue, FirstEntriesKeepTheirValues) {
  struct Kept {
    const char* name;
    std::int64_t gib;
    double peak, matrix, bandwidth, bandwidth_efficiency, launch, matmul, conv, conv_grouped, rest;
  };
  for (const Kept& kept :
       {Kept{"k40", 12, 4290, 4290, 288, 0.75, 8, 0.60, 0.40, 0.05, 0.2},
        Kept{"k80_gk210", 12, 2796, 2796, 240, 0.75, 8, 0.60, 0.40, 0.05, 0.2},
        Kept{"v100", 16, 15700, 15700, 900, 0.80, 5, 0.80, 0.60, 0.08, 0.3},
        Kept{"h100", 80, 67000, 494700, 3350, 0.85, 4, 0.60, 0.45, 0.02, 0.3},
        Kept{"h200", 141, 67000, 494700, 4800, 0.85, 4, 0.60, 0.45, 0.02, 0.3},
        Kept{"haswell18", 256, 1094, 1094, 68.3, 0.70, 3, 0.70, 0.50, 0.10, 0.1},
        Kept{"k40-calibrated", 12, 4290, 4290, 288, 0.75, 8, 0.236, 0.067, 0.05, 0.2},
        Kept{"k80_gk210-calibrated", 12, 2796, 2796, 240, 0.75, 8, 0.375, 0.088, 0.05, 0.2},
        Kept{"haswell18-calibrated", 256, 1094, 1094, 68.3, 0.70, 3, 0.20, 0.039, 0.10, 0.1}}) {
    const Profile p = *find_profile(kept.name);
    const double rest = kept.rest;
    EXPECT_EQ(p.name, kept.name);
    EXPECT_EQ(p.memory_bytes, kept.gib << 30) << kept.name;
    EXPECT_EQ(p.peak_gflops, kept.peak) << kept.name;
    EXPECT_EQ(p.matrix_peak_gflops, kept.matrix) << kept.name;
    EXPECT_EQ(p.bandwidth_gbs, kept.bandwidth) << kept.name;
    EXPECT_EQ(p.bandwidth_efficiency, kept.bandwidth_efficiency) << kept.name;
    EXPECT_EQ(p.launch_us, kept.launch) << kept.name;
    EXPECT_EQ(p.efficiency, (std::array<double, kNumOpClasses>{1, 1, kept.matmul, kept.conv,
                                                               kept.conv_grouped, rest, rest, rest, rest}))
        << kept.name;
  }
  const auto link = [](const char* name) { return known_link(name)->link; };
  EXPECT_EQ(link("pcie3_x16").bytes_per_s, 12e9);
  EXPECT_EQ(link("pcie5_x16").bytes_per_s, 50e9);
  EXPECT_EQ(link("nvlink2").bytes_per_s, 130e9);
  EXPECT_EQ(link("nvlink4").bytes_per_s, 400e9);
  EXPECT_EQ(link("pcie3_x16").latency_s, 10e-6);
  EXPECT_EQ(link("pcie5_x16").latency_s, 10e-6);
  EXPECT_EQ(link("nvlink2").latency_s, 6e-6);
  EXPECT_EQ(link("nvlink4").latency_s, 4e-6);
}

TEST(Catalogue, RecognisesNamesFromDrivers) {
  const auto name_of = [](std::string_view reported, double gib = 0) {
    const auto* device = recognised_device(reported, static_cast<std::int64_t>(gib * 1073741824));
    return device == nullptr ? std::string{"none"} : device->profile.name;
  };
  EXPECT_EQ(name_of("NVIDIA H100 80GB HBM3", 79.6), "h100");
  EXPECT_EQ(name_of("NVIDIA H100 PCIe", 79.6), "h100_pcie");
  EXPECT_EQ(name_of("NVIDIA H200", 140.4), "h200");
  EXPECT_EQ(name_of("NVIDIA A100-SXM4-40GB", 39.6), "a100_40");
  EXPECT_EQ(name_of("NVIDIA A100-SXM4-80GB", 79.3), "a100_80");
  EXPECT_EQ(name_of("Tesla V100-SXM2-32GB", 31.7), "v100_32");
  EXPECT_EQ(name_of("Tesla K40m", 11.2), "k40");
  EXPECT_EQ(name_of("Tesla T4", 14.8), "t4");
  EXPECT_EQ(name_of("NVIDIA A10", 22.5), "a10");
  EXPECT_EQ(name_of("NVIDIA A10G", 22.5), "none") << "a slower product";
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 4090", 24), "rtx4090");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 4090 Laptop GPU", 16), "none");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 3080 Ti", 12), "none");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 4060 Ti", 16), "rtx4060ti_16");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 4060 Ti", 8), "none");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 3060", 8), "none") << "its bus is narrower";
  EXPECT_EQ(name_of("NVIDIA RTX 6000 Ada Generation", 48), "rtx6000ada");
  EXPECT_EQ(name_of("AMD EPYC 7742 64-Core Processor"), "epyc7742");
  EXPECT_EQ(name_of("Intel(R) Xeon(R) Platinum 8480+"), "xeon8480");
  EXPECT_EQ(name_of("Intel(R) Xeon(R) CPU E5-2699 v3 @ 2.30GHz"), "haswell18");
  EXPECT_EQ(name_of("13th Gen Intel(R) Core(TM) i9-13900K"), "corei9_13900k");
  EXPECT_EQ(name_of("AMD Ryzen Threadripper PRO 5995WX 64-Cores"), "threadripper5995wx");
  EXPECT_EQ(name_of("AMD Ryzen 9 7950X3D 16-Core Processor"), "none");
  EXPECT_EQ(name_of("Intel(R) Xeon(R) Processor @ 2.10GHz"), "none");
  EXPECT_EQ(name_of(""), "none");
}

TEST(Catalogue, LinkOfTwoDevicesIsTheSlowerHostLink) {
  const auto between = [](const char* a, const char* b) {
    return default_link(*known_device(a), *known_device(b)).bytes_per_s;
  };
  EXPECT_EQ(between("h100", "epyc9654"), 50e9);
  EXPECT_EQ(between("h100", "epyc7742"), 25e9);
  EXPECT_EQ(between("rtx4060ti_16", "ryzen7950x"), 12.5e9);
  EXPECT_EQ(between("gb200", "grace"), 375e9);
}

// EMPLACE_WRITE_REFERENCE=1 build/release/placement_test --gtest_filter='*Reference*' writes the page again.
TEST(Catalogue, ReferencePageIsCurrent) {
  const std::string path = std::string{EMPLACE_SOURCE_DIR} + "/docs/reference/machines.md";
  if (std::getenv("EMPLACE_WRITE_REFERENCE") != nullptr) std::ofstream{path} << catalogue_page();
  std::ifstream file{path};
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), catalogue_page())
      << "run EMPLACE_WRITE_REFERENCE=1 build/release/placement_test --gtest_filter='*Reference*'";
}

}  // namespace
}  // namespace emplace
