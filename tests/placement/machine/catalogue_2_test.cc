// Goal: version 1 of the catalogue keeps its bits; what version 2 adds is possible and has a source, and an
// arithmetic that a device lacks has the substitute of the frameworks. Method: hashes of the program before
// version 2; ratios that the architectures fix; devices without each arithmetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "placement/machine/arithmetic_notes.h"
#include "placement/machine/catalogue.h"
#include "placement/machine/device_file.h"
#include "placement/machine/machine_text.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;

double peak_of(const Profile& profile, Arithmetic arithmetic) {
  return profile.peaks_gflops[static_cast<std::size_t>(arithmetic)];
}

Profile newest(std::string_view name) { return find_profile(name, CostVersion::k2).value(); }

// The hashes are those of the program before version 2. Records and device files refer to these machines.
TEST(CatalogueVersions, VersionOneKeepsItsBits) {
  std::ifstream file{std::string{EMPLACE_FIXTURES} + "/catalogue_v1.txt"};
  std::size_t devices = 0, links = 0;
  for (std::string name, sha256; file >> name >> sha256;) {
    const bool is_device = known_device(name) != nullptr;
    const std::string text = is_device ? name + " x 1" : "k40 x 2 by " + name;
    EXPECT_EQ(parse_machine(text, {}, CostVersion::k1)->sha256(), sha256) << name;
    ++(is_device ? devices : links);
  }
  EXPECT_EQ(devices, 66u);
  EXPECT_EQ(links, 31u);
}

TEST(CatalogueVersions, VersionTwoChangesEveryHashAndNoMemory) {
  for (const CatalogueDevice& device : catalogue_devices()) {
    const std::string text = device.profile.name + " x 1";
    EXPECT_NE(parse_machine(text, {}, CostVersion::k2)->sha256(),
              parse_machine(text, {}, CostVersion::k1)->sha256())
        << text;
    EXPECT_EQ(device.profile_2.memory_bytes, device.profile.memory_bytes) << text;
    EXPECT_EQ(device.profile_2.bandwidth_gbs, device.profile.bandwidth_gbs) << text;
    EXPECT_EQ(device.profile.peaks_gflops, Profile{}.peaks_gflops) << text << " has none in version 1";
    EXPECT_TRUE(device.profile.tables.empty() && device.profile.family.empty()) << text;
  }
}

// What alone distinguishes two machines of version 2 is part of their hash.
TEST(CatalogueVersions, HashCoversWhatVersionTwoAdds) {
  const auto hash_of = [](Profile profile) {
    return DeviceSet::make({{"gpu:0", std::move(profile), 1 << 20, ""}}, Link{1e9, 0})->sha256();
  };
  const Profile h100 = newest("h100");
  std::set<std::string> hashes{hash_of(h100)};
  const auto differs = [&](auto change) {
    Profile other = h100;
    change(other);
    EXPECT_FALSE(other == h100);
    return hashes.insert(hash_of(std::move(other))).second;
  };
  EXPECT_TRUE(differs([](Profile& p) { p.peaks_gflops[static_cast<std::size_t>(Arithmetic::kFp8)] += 1; }));
  EXPECT_TRUE(differs([](Profile& p) { p.l2_bytes += 1; }));
  EXPECT_TRUE(differs([](Profile& p) { p.tables.pop_back(); }));
  EXPECT_TRUE(differs([](Profile& p) { p.family = "amd"; }));
}

TEST(CatalogueVersions, EveryDeviceHasPeaksCacheAndFamilyWithASource) {
  const std::set<std::string> families{"kepler", "nvidia-server", "nvidia-desktop", "amd", "intel", "apple",
                                       "cpu"};
  for (const CatalogueDevice& device : catalogue_devices()) {
    SCOPED_TRACE(device.profile.name);
    const Profile& p = device.profile_2;
    EXPECT_EQ(p.cost_version, CostVersion::k2);
    EXPECT_EQ(p.name, device.profile.name);
    EXPECT_GT(device.source_2.size(), 10u);
    EXPECT_TRUE(families.contains(p.family)) << p.family;
    EXPECT_EQ(p.family == "cpu", p.kind == "cpu");
    EXPECT_EQ(device.units > 0, p.kind == "gpu");
    EXPECT_THAT(static_cast<double>(p.l2_bytes) / (1 << 20), AllOf(Ge(1), Le(600)));
    // Products of matrix units are FP32 of AMD's cards; scalar FP32 is never faster.
    EXPECT_THAT(peak_of(p, Arithmetic::kFp32), AllOf(Ge(p.peak_gflops), Le(p.matrix_peak_gflops)));
    EXPECT_LE(peak_of(p, Arithmetic::kFp64), peak_of(p, Arithmetic::kFp32));
    EXPECT_EQ(peak_of(p, Arithmetic::kW4), 0) << "weights of four bits are converted";
    if (device.matrix == "TF32") {
      EXPECT_NEAR(peak_of(p, Arithmetic::kTf32), p.matrix_peak_gflops, 0.001 * p.matrix_peak_gflops);
    }
  }
}

TEST(CatalogueVersions, RatiosOfPeaksAreThoseOfTheArchitectures) {
  std::size_t ampere_and_later = 0;
  for (const CatalogueDevice& device : catalogue_devices()) {
    SCOPED_TRACE(device.profile.name);
    const Profile& p = device.profile_2;
    if (!p.family.starts_with("nvidia") || peak_of(p, Arithmetic::kTf32) == 0) continue;
    ++ampere_and_later;
    const double bf16 = peak_of(p, Arithmetic::kBf16), fp8 = peak_of(p, Arithmetic::kFp8);
    EXPECT_NEAR(bf16, 2 * peak_of(p, Arithmetic::kTf32), 0.02 * bf16);
    EXPECT_EQ(bf16, peak_of(p, Arithmetic::kFp16));
    if (fp8 > 0) {
      EXPECT_NEAR(fp8, 2 * bf16, 0.03 * fp8);
    }
    if (p.family == "nvidia-desktop") {
      EXPECT_EQ(bf16, 2 * peak_of(p, Arithmetic::kFp32)) << "half of the rate with FP16 accumulation";
    }
    const bool is_ultra = p.name == "b300" || p.name == "gb300";  // Few units for INT8.
    const double int8 = peak_of(p, Arithmetic::kInt8);
    EXPECT_THAT(int8,
                is_ultra ? AllOf(Ge(0.06 * bf16), Le(0.08 * bf16)) : AllOf(Ge(1.97 * bf16), Le(4.01 * bf16)));
  }
  EXPECT_GE(ampere_and_later, 29u);
  for (const char* name : {"v100", "v100_pcie_32", "t4", "rtx2080ti", "titanrtx"}) {
    EXPECT_GT(peak_of(newest(name), Arithmetic::kFp16), 3.9 * peak_of(newest(name), Arithmetic::kFp32));
    EXPECT_EQ(peak_of(newest(name), Arithmetic::kBf16), 0) << name;
  }
  EXPECT_NEAR(peak_of(newest("a100_80"), Arithmetic::kTf32) / peak_of(newest("a100_80"), Arithmetic::kFp32),
              8, 1e-9);
}

TEST(CatalogueVersions, TablesNameDevicesThatAreMeasuredThemselves) {
  std::set<std::string> measured;
  for (const CatalogueDevice& device : catalogue_devices()) {
    const std::vector<std::string>& tables = device.profile_2.tables;
    if (!tables.empty() && tables.front() == device.profile.name) measured.insert(device.profile.name);
    EXPECT_EQ(std::set<std::string>(tables.begin(), tables.end()).size(), tables.size());
  }
  EXPECT_THAT(measured,
              ::testing::UnorderedElementsAre("a100_80", "a100_pcie_40", "a100_pcie_80", "h100", "h200",
                                              "b200", "b300", "gb200", "gb300", "l40s", "rtxpro6000",
                                              "arc_pro_b60", "p100_pcie_16", "v100_pcie_32", "t4"));
  for (const CatalogueDevice& device : catalogue_devices())
    for (const std::string& table : device.profile_2.tables) EXPECT_THAT(measured, Contains(table));
  EXPECT_TRUE(newest("rtx4090").tables.empty()) << "no GeForce card is measured";
  EXPECT_THAT(newest("a100_40").tables, ElementsAre("a100_80", "a100_pcie_40"));
}

TEST(CatalogueVersions, LinksOfVersionTwoAreAsMeasured) {
  const auto rate = [](std::string_view text, CostVersion costs) {
    const DeviceSet machine = parse_machine(text, {}, costs).value();
    return std::pair{machine.link(DeviceId{0}, DeviceId{1}).bytes_per_s,
                     machine.link(DeviceId{0}, DeviceId{1}).latency_s};
  };
  EXPECT_EQ(rate("a100_80 x 2 by nvlink3", CostVersion::k1), (std::pair{260e9, 5e-6}));
  EXPECT_EQ(rate("a100_80 x 2 by nvlink3", CostVersion::k2), (std::pair{228e9, 8e-6}));
  EXPECT_EQ(rate("h100 x 2 by nvlink4", CostVersion::k1), (std::pair{400e9, 4e-6}));
  EXPECT_EQ(rate("h100 x 2 by nvlink4", CostVersion::k2), (std::pair{348e9, 5e-6}));
  const auto of_file = [](const std::string& head) {
    return parse_devices(head +
                             "[[device]]\nprofile = \"h100\"\ncount = 2\n[[link]]\nprofile = \"nvlink4\"\n"
                             "between = [\"gpu:0\", \"gpu:1\"]\n",
                         "f.toml")
        ->link(DeviceId{0}, DeviceId{1})
        .bytes_per_s;
  };
  EXPECT_EQ(of_file(""), 400e9) << "a file without costs is of version 1";
  EXPECT_EQ(of_file("costs = 2\n"), 348e9);
  for (const CatalogueLink& link : catalogue_links()) {
    const bool differs = link.link.bytes_per_s != link.link_2.bytes_per_s;
    EXPECT_EQ(differs, link.name == "nvlink3" || link.name == "nvlink4") << link.name;
    EXPECT_EQ(differs, !link.source_2.empty()) << link.name;
  }
}

TEST(CatalogueVersions, PeaksOfAFileChangeThoseOfVersionTwoInProportion) {
  const auto of_file = [](const std::string& costs, const std::string& peaks) {
    return (*parse_devices(costs + "[[profile]]\nname = \"mine\"\nbase = \"h100\"\n" + peaks +
                               "[[device]]\nprofile = \"mine\"\nname = \"gpu:0\"\n",
                           "f.toml"))[DeviceId{0}]
        .profile;
  };
  const Profile half = of_file("costs = 2\n", "peak = \"33.5TFLOP/s\"\n");
  EXPECT_DOUBLE_EQ(peak_of(half, Arithmetic::kFp32), 33500);
  EXPECT_DOUBLE_EQ(peak_of(half, Arithmetic::kBf16), 989400.0 / 2);
  const Profile matrix = of_file("costs = 2\n", "matrix_peak = \"247.35TFLOP/s\"\n");
  EXPECT_DOUBLE_EQ(peak_of(matrix, Arithmetic::kFp32), 67000);
  EXPECT_DOUBLE_EQ(peak_of(matrix, Arithmetic::kFp8), 1978900.0 / 2);
  EXPECT_EQ(matrix.tables, newest("h100").tables);
  EXPECT_EQ(of_file("", "peak = \"33.5TFLOP/s\"\n").peaks_gflops, Profile{}.peaks_gflops);
}

TEST(ArithmeticOn, FallsBackAsFrameworksDo) {
  const auto on = [](std::string_view device, Arithmetic wanted) {
    return arithmetic_on(newest(device).peaks_gflops, wanted);
  };
  EXPECT_EQ(on("a100_80", Arithmetic::kFp8), Arithmetic::kBf16);
  EXPECT_EQ(on("h100", Arithmetic::kFp8), Arithmetic::kFp8);
  EXPECT_EQ(on("v100", Arithmetic::kFp8), Arithmetic::kFp16);
  EXPECT_EQ(on("p4", Arithmetic::kFp8), Arithmetic::kFp32);
  for (const char* without : {"v100", "t4", "p100", "rtx2080ti"})
    EXPECT_EQ(on(without, Arithmetic::kBf16), Arithmetic::kFp32) << without;
  for (const char* without : {"v100", "t4", "mi210", "epyc9654"})
    EXPECT_EQ(on(without, Arithmetic::kTf32), Arithmetic::kFp32) << without;
  EXPECT_EQ(on("p100", Arithmetic::kFp16), Arithmetic::kFp16) << "twice the rate of FP32";
  EXPECT_EQ(on("gtx1080ti", Arithmetic::kFp16), Arithmetic::kFp32);
  EXPECT_EQ(on("v100", Arithmetic::kInt8), Arithmetic::kInt8) << "DP4A";
  EXPECT_EQ(on("p100", Arithmetic::kInt8), Arithmetic::kFp16);
  EXPECT_EQ(on("b200", Arithmetic::kW4), Arithmetic::kFp16);
  EXPECT_EQ(on("epyc9654", Arithmetic::kW4), Arithmetic::kBf16);
  EXPECT_EQ(on("m4max", Arithmetic::kFp64), Arithmetic::kFp32);
  EXPECT_EQ(arithmetic_on(find_profile("k40")->peaks_gflops, Arithmetic::kFp8), Arithmetic::kFp8)
      << "of version 1";
  for (const CatalogueDevice& device : catalogue_devices())
    for (const auto& arithmetic : enum_words(Arithmetic{}).words)
      EXPECT_GT(peak_of(device.profile_2, arithmetic_on(device.profile_2.peaks_gflops, arithmetic.value)), 0)
          << device.profile.name << " " << arithmetic.word;
}

TEST(ArithmeticOn, NotesWhatADeviceLacks) {
  EXPECT_EQ(arithmetic_note(newest("a100_80"), Arithmetic::kFp8),
            "a100_80 has no FP8 units: FP8 products run as BF16");
  EXPECT_EQ(arithmetic_note(newest("t4"), Arithmetic::kBf16),
            "t4 has no BF16 units: BF16 products run as FP32");
  EXPECT_EQ(arithmetic_note(newest("a100_80"), Arithmetic::kBf16), "");
  EXPECT_EQ(arithmetic_note(newest("a100_80"), Arithmetic::kW4), "") << "as everywhere";
}

TEST(CatalogueVersions, RecognisesTheDevicesOfVersionTwo) {
  const auto name_of = [](std::string_view reported, double gib) {
    const auto* device = recognised_device(reported, static_cast<std::int64_t>(gib * 1073741824));
    return device == nullptr ? std::string{"none"} : device->profile.name;
  };
  EXPECT_EQ(name_of("Tesla P4", 7.43), "p4");
  EXPECT_EQ(name_of("Tesla P100-PCIE-16GB", 15.9), "p100_pcie_16");
  EXPECT_EQ(name_of("Tesla P100-PCIE-12GB", 11.9), "none");
  EXPECT_EQ(name_of("Tesla P100-SXM2-16GB", 15.9), "p100");
  EXPECT_EQ(name_of("Tesla V100-PCIE-16GB", 15.8), "v100_pcie_16");
  EXPECT_EQ(name_of("Tesla V100-PCIE-32GB", 31.7), "v100_pcie_32");
  EXPECT_EQ(name_of("Tesla V100-SXM2-16GB", 15.8), "v100");
  EXPECT_EQ(name_of("NVIDIA A100-PCIE-40GB", 39.6), "a100_pcie_40");
  EXPECT_EQ(name_of("NVIDIA A100 80GB PCIe", 79.3), "a100_pcie_80");
  EXPECT_EQ(name_of("NVIDIA A100-SXM4-80GB", 79.3), "a100_80");
  EXPECT_EQ(name_of("NVIDIA GH200 480GB", 95.6), "gh200");
  EXPECT_EQ(name_of("NVIDIA GH200 144G HBM3e", 140), "none");
  EXPECT_EQ(name_of("NVIDIA B300 SXM6 AC", 268.6), "b300");
  EXPECT_EQ(name_of("NVIDIA GB300", 277.5), "gb300");
  EXPECT_EQ(name_of("NVIDIA B200", 179), "b200");
  EXPECT_EQ(name_of("NVIDIA RTX PRO 6000 Blackwell Server Edition", 95.6), "rtxpro6000");
  EXPECT_EQ(name_of("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 95.6), "none") << "faster memory";
  EXPECT_EQ(name_of("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 95.6), "none");
  EXPECT_EQ(name_of("AMD Instinct MI100", 32), "mi100");
  EXPECT_EQ(name_of("AMD Instinct MI250X", 64), "mi250x");
  EXPECT_EQ(name_of("AMD Instinct MI250", 64), "mi250");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 2080", 7.8), "rtx2080");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 2080 SUPER", 7.8), "none");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 2080 Ti", 10.8), "rtx2080ti");
  EXPECT_EQ(name_of("NVIDIA TITAN RTX", 23.6), "titanrtx");
  EXPECT_EQ(name_of("Intel(R) Arc(TM) Pro B60 Graphics", 22.7), "arc_pro_b60");
}

TEST(CatalogueVersions, KnowsTheDevicesOfVersionTwo) {
  std::set<std::string> later;
  for (const CatalogueDevice& device : catalogue_devices())
    if (device.since == CostVersion::k2) later.insert(device.profile.name);
  EXPECT_EQ(later.size(), catalogue_devices().size() - 66) << "66 are of version 1";
  EXPECT_THAT(later, AllOf(Contains("p4"), Contains("arc_pro_b60"), Contains("gb300")));
}

}  // namespace
}  // namespace emplace
