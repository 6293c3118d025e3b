// Goal: `--devices here` is this machine as /proc, cgroups and NVML describe it, and estimates are marked.
// Method: folders in the form of /proc and /sys/fs/cgroup, and a shared library with NVML's functions.
#include "launcher/inputs/this_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "launcher/inputs/inputs.h"
#include "launcher/inputs/nvml.h"
#include "placement/machine/catalogue.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kGiB = 1073741824;
constexpr const char* kMemory32 = "MemTotal: 40000000 kB\nMemFree: 100 kB\nMemAvailable:   33554432 kB\n";
constexpr const char* kUnknownCpu =
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Processor @ 2.10GHz\n"
    "cpu MHz\t\t: 2095.000\nsiblings\t: 2\ncpu cores\t: 2\nflags\t\t: fpu sse2 avx avx2 fma\n\n"
    "processor\t: 1\nmodel name\t: Intel(R) Xeon(R) Processor @ 2.10GHz\n";

/// A machine described by files, without GPUs.
class MachineOfFiles {
 public:
  MachineOfFiles(const std::string& cpuinfo, const std::string& meminfo, std::uint32_t cores) {
    static int number = 0;
    folder_.emplace("this-machine-" + std::to_string(++number));
    write("proc/cpuinfo", cpuinfo);
    write("proc/meminfo", meminfo);
    sources_.proc = folder_->path() / "proc";
    sources_.cgroup = folder_->path() / "cgroup";
    sources_.pci = folder_->path() / "pci";
    sources_.nvml = "";
    sources_.cores = cores;
  }
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_->path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
  }
  MachineSources& sources() { return sources_; }
  const MachineSources& sources() const { return sources_; }
  ThisMachine look() const {
    const auto machine = look_at_machine(sources_);
    EXPECT_TRUE(machine.ok()) << machine.error().context;
    return machine.value();
  }

 private:
  std::optional<testing::ScratchFolder> folder_;
  MachineSources sources_;
};

TEST(ThisMachine, EstimatesAnUnknownCpuFromItsFlagsAndStatesIt) {
  const MachineOfFiles files{kUnknownCpu, kMemory32, 2};
  const ThisMachine machine = files.look();
  const DeviceSet devices = machine.devices().value();
  ASSERT_EQ(devices.size(), 1u);
  const Device& cpu = devices[DeviceId{0}];
  EXPECT_EQ(cpu.name, "cpu:0");
  EXPECT_EQ(cpu.memory_bytes, std::int64_t{32} << 30);
  EXPECT_NEAR(cpu.profile.peak_gflops, 2 * 2.1 * 32, 1e-6);
  EXPECT_NEAR(cpu.profile.bandwidth_gbs, 24, 1e-6);
  EXPECT_EQ(machine.summary, "cpu:0 (2 cores, 32.00 GiB free)");
  ASSERT_EQ(machine.notes.size(), 1u);
  EXPECT_THAT(machine.notes[0], HasSubstr("rates are estimated: 2 cores x 2.1 GHz x 32 (AVX2), 24 GB/s"));
  EXPECT_EQ(machine.devices(*parse_reserve("50%"))->devices()[0].memory_bytes, std::int64_t{16} << 30);
}

TEST(ThisMachine, EachVectorWidthHasItsRate) {
  const auto peak = [](const std::string& vendor, const std::string& key, const std::string& flags) {
    const MachineOfFiles files{"vendor_id : " + vendor + "\ncpu MHz : 1000.0\n" + key + " : " + flags + "\n",
                               kMemory32, 1};
    return files.look().devices()->devices()[0].profile.peak_gflops;
  };
  EXPECT_NEAR(peak("GenuineIntel", "flags", "avx avx2 fma avx512f"), 64, 1e-9);
  EXPECT_NEAR(peak("AuthenticAMD", "flags", "avx avx2 fma avx512f"), 32, 1e-9);
  EXPECT_NEAR(peak("GenuineIntel", "flags", "sse avx"), 16, 1e-9);
  EXPECT_NEAR(peak("", "Features", "fp asimd"), 16, 1e-9);
  EXPECT_NEAR(peak("", "flags", "sse"), 8, 1e-9);
}

TEST(ThisMachine, CountsCoresNotThreads) {
  const MachineOfFiles files{"model name : x @ 1.00GHz\nsiblings : 8\ncpu cores : 4\nflags : avx2 fma\n",
                             kMemory32, 8};
  EXPECT_NEAR(files.look().devices()->devices()[0].profile.peak_gflops, 4 * 32, 1e-9);
}

TEST(ThisMachine, KnownCpuHasTheRatesOfItsCores) {
  const std::string epyc = "vendor_id : AuthenticAMD\nmodel name : AMD EPYC 7742 64-Core Processor\n";
  const MachineOfFiles whole{epyc, kMemory32, 64}, part{epyc, kMemory32, 8},
      two_sockets{epyc, kMemory32, 128};
  const Profile known = *find_profile("epyc7742", kCurrentCosts);
  EXPECT_EQ(whole.look().devices()->devices()[0].profile, known);
  EXPECT_THAT(whole.look().notes, IsEmpty());
  const Profile eight = part.look().devices()->devices()[0].profile;
  EXPECT_NEAR(eight.peak_gflops, known.peak_gflops / 8, 0.01);
  EXPECT_NEAR(eight.bandwidth_gbs, 96, 1e-6);
  EXPECT_THAT(part.look().notes, ElementsAre(HasSubstr("8 of the 64 cores of epyc7742")));
  const Profile twice = two_sockets.look().devices()->devices()[0].profile;
  EXPECT_NEAR(twice.peak_gflops, 2 * known.peak_gflops, 0.01);
  EXPECT_NEAR(twice.bandwidth_gbs, 2 * known.bandwidth_gbs, 0.01);
}

TEST(ThisMachine, CgroupLimitsTheMemory) {
  const auto gib = [](const MachineOfFiles& files) {
    return static_cast<double>(files.look().devices()->devices()[0].memory_bytes) / kGiB;
  };
  MachineOfFiles second{kUnknownCpu, kMemory32, 2};
  second.write("proc/self/cgroup", "0::/user/session\n");
  second.write("cgroup/user/session/memory.max", "max\n");
  second.write("cgroup/user/session/memory.current", "1073741824\n");
  EXPECT_EQ(gib(second), 32);
  second.write("cgroup/user/memory.max", "8589934592\n");
  second.write("cgroup/user/memory.current", "3221225472\n");
  EXPECT_EQ(gib(second), 5) << "the parent's limit";
  second.write("cgroup/user/memory.stat", "anon 1\ninactive_file 1073741824\n");
  EXPECT_EQ(gib(second), 6) << "its page cache is freed on demand";
  MachineOfFiles first{kUnknownCpu, kMemory32, 2};
  first.write("proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n");
  first.write("cgroup/memory/job/memory.limit_in_bytes", "4294967296\n");
  first.write("cgroup/memory/job/memory.usage_in_bytes", "1073741824\n");
  EXPECT_EQ(gib(first), 3);
  MachineOfFiles container{kUnknownCpu, kMemory32, 2};
  container.write("proc/self/cgroup", "0::/docker/abc\n");
  container.write("cgroup/memory.max", "2147483648\n");
  container.write("cgroup/memory.current", "0\n");
  EXPECT_EQ(gib(container), 2) << "the path is the host's";
}

TEST(ThisMachine, RefusesAMachineWithoutMemAvailable) {
  const MachineOfFiles files{kUnknownCpu, "MemTotal: 1 kB\n", 2};
  const auto machine = look_at_machine(files.sources());
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.error().code, Errc::kInvalid);
  EXPECT_THAT(machine.error().context, HasSubstr("has no MemAvailable; name the machine with --devices"));
}

/// A machine with the GPUs of a fake NVML.
ThisMachine with_gpus(const char* gpus, std::optional<std::string> visible = std::nullopt) {
  ::setenv("EMPLACE_FAKE_NVML", gpus, 1);
  MachineOfFiles files{kUnknownCpu, kMemory32, 2};
  files.sources().nvml = EMPLACE_FAKE_NVML_LIBRARY;
  files.sources().visible_gpus = std::move(visible);
  return files.look();
}

TEST(ThisMachine, ListsTheGpusOfNvmlWithTheirFreeMemory) {
  const ThisMachine machine =
      with_gpus("NVIDIA H100 80GB HBM3|81559|70000|0|0|0|0;Tesla T4|15109|14000|2560|1590|256|5001");
  const DeviceSet devices = machine.devices().value();
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[DeviceId{1}].name, "gpu:0");
  EXPECT_EQ(devices[DeviceId{1}].profile, *find_profile("h100", kCurrentCosts));
  EXPECT_EQ(devices[DeviceId{1}].memory_bytes, std::int64_t{70000} << 20);
  EXPECT_EQ(devices[DeviceId{2}].profile, *find_profile("t4", kCurrentCosts));
  EXPECT_EQ(machine.devices({}, CostVersion::k1).value()[DeviceId{1}].profile, *find_profile("h100"));
  EXPECT_EQ(devices.link(DeviceId{1}, DeviceId{2}).bytes_per_s, 12e9) << "the T4's PCIe";
  EXPECT_THAT(machine.summary, HasSubstr("gpu:0 (NVIDIA H100 80GB HBM3, 68.36 GiB free), gpu:1 (Tesla T4"));
  EXPECT_EQ(machine.notes.size(), 1u) << "the CPU's";
}

TEST(ThisMachine, ReadsNvlinksFromTheDriver) {
  constexpr const char* kTwo =
      "NVIDIA A100-SXM4-40GB|40960|40000|0|0|0|0|7|11112222|GPU-a;NVIDIA "
      "A100-SXM4-40GB|40960|40000|0|0|0|0|7|0000"
      "|GPU-b;NVIDIA A100-SXM4-40GB|40960|40000|0|0|0|0|7|0000--|GPU-c";
  const ThisMachine direct = with_gpus(kTwo);
  const DeviceSet devices = direct.devices().value();
  ASSERT_EQ(devices.size(), 4u);
  const double whole = known_link("nvlink3")->link_2.bytes_per_s;  // It has 12 links.
  EXPECT_NEAR(devices.link(DeviceId{1}, DeviceId{2}).bytes_per_s, whole * 4 / 12, 1e5);
  EXPECT_NEAR(devices.link(DeviceId{3}, DeviceId{1}).bytes_per_s, whole * 4 / 12, 1e5);
  EXPECT_DOUBLE_EQ(devices.link(DeviceId{1}, DeviceId{2}).latency_s, known_link("nvlink3")->link_2.latency_s);
  EXPECT_EQ(devices.link(DeviceId{2}, DeviceId{3}).bytes_per_s, 25e9) << "PCIe, as without NVLinks";
  EXPECT_EQ(devices.link(DeviceId{0}, DeviceId{1}).bytes_per_s, 12e9) << "the PCIe of an unknown CPU";
  // Link numbers refer to GPUs of the driver, not to the selected ones.
  const DeviceSet some = with_gpus(kTwo, "2,0").devices().value();
  ASSERT_EQ(some.size(), 3u);
  EXPECT_NEAR(some.link(DeviceId{1}, DeviceId{2}).bytes_per_s, whole * 4 / 12, 1e5);
  const DeviceSet others = with_gpus(kTwo, "GPU-c,GPU-b").devices().value();
  ASSERT_EQ(others.size(), 3u);
  EXPECT_EQ(others.link(DeviceId{1}, DeviceId{2}).bytes_per_s, 25e9);
  EXPECT_EQ(with_gpus(kTwo, "GPU-d").devices()->size(), 1u) << "CUDA would see none";
}

TEST(ThisMachine, GpusWithoutPeerAccessCopyThroughTheHost) {
  const std::string one = "NVIDIA L4|23034|20000|0|0|0|0|8||GPU-";
  const std::string three = one + "a;" + one + "b;" + one + "c";
  ::setenv("EMPLACE_FAKE_NVML_CUT_OFF", "02", 1);
  const ThisMachine machine = with_gpus(three.c_str());
  const ThisMachine chosen = with_gpus(three.c_str(), "2,1");
  ::unsetenv("EMPLACE_FAKE_NVML_CUT_OFF");
  const DeviceSet devices = machine.devices().value();
  ASSERT_EQ(devices.size(), 4u);
  const Link direct = devices.link(DeviceId{1}, DeviceId{2}),
             through_host = devices.link(DeviceId{3}, DeviceId{1});
  EXPECT_DOUBLE_EQ(through_host.latency_s, 2 * direct.latency_s);
  EXPECT_EQ(through_host.bytes_per_s, direct.bytes_per_s) << "chunks arrive while others leave";
  ASSERT_EQ(machine.notes.size(), 2u) << "one is the CPU's";
  EXPECT_EQ(machine.notes[1],
            "gpu:0 and gpu:2 cannot read each other's memory; copies between them go through the host");
  EXPECT_EQ(chosen.notes.size(), 1u) << "these two can";
}

TEST(ThisMachine, ReadsNumaNodesOfGpusFromTheKernel) {
  ::setenv("EMPLACE_FAKE_NVML", "NVIDIA L4|23034|20000|0|0|0|0;NVIDIA L4|23034|20000|0|0|0|0", 1);
  MachineOfFiles files{kUnknownCpu, kMemory32, 2};
  files.sources().nvml = EMPLACE_FAKE_NVML_LIBRARY;
  files.write("pci/0000:10:00.0/numa_node", "-1\n");
  files.write("pci/0000:11:00.0/numa_node", "1\n");
  const ThisMachine machine = files.look();
  EXPECT_THAT(machine.tables, HasSubstr("# NUMA node 1, PCI 0000:11:00.0\n[[device]]\nname = \"gpu:1\""));
  EXPECT_EQ(machine.tables.find("0000:10"), std::string::npos) << "there is one node only";
  EXPECT_THAT(machine.summary, HasSubstr("gpu:1 (NVIDIA L4, 19.53 GiB free, NUMA node 1)"));
}

TEST(ThisMachine, SwitchesConnectAllGpus) {
  const std::string one = "NVIDIA H100 80GB HBM3|81559|70000|0|0|0|0|9|";
  const DeviceSet devices = with_gpus((one + std::string(18, 's') + "|GPU-a;" + one + std::string(18, 's') +
                                       "|GPU-b;" + one + "ssssssssssssssss--|GPU-c")
                                          .c_str())
                                .devices()
                                .value();
  const double whole = known_link("nvlink4")->link_2.bytes_per_s;
  EXPECT_NEAR(devices.link(DeviceId{1}, DeviceId{2}).bytes_per_s, whole, 1e5);
  EXPECT_NEAR(devices.link(DeviceId{1}, DeviceId{3}).bytes_per_s, whole * 16 / 18, 1e6)
      << "two links are down";
}

TEST(ThisMachine, EstimatesOrOmitsAnUnknownGpu) {
  const ThisMachine machine =
      with_gpus("NVIDIA Mystery|8192|8000|1024|1500|128|7000;NVIDIA Riddle|8192|8000|0|0|0|0");
  const DeviceSet devices = machine.devices().value();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_NEAR(devices[DeviceId{1}].profile.peak_gflops, 2 * 1024 * 1.5, 1e-6);
  EXPECT_NEAR(devices[DeviceId{1}].profile.bandwidth_gbs, 2 * 16 * 7.0, 1e-6);
  ASSERT_EQ(machine.notes.size(), 3u);
  EXPECT_THAT(machine.notes[1],
              HasSubstr("gpu:0: NVIDIA Mystery is not in the catalogue; rates are estimated"));
  EXPECT_THAT(machine.notes[2], HasSubstr("NVIDIA Riddle: is left out"));
}

TEST(ThisMachine, VisibleDevicesSelectsGpus) {
  const char* gpus =
      "NVIDIA H100 PCIe|81559|100|0|0|0|0;Tesla T4|15109|200|0|0|0|0;NVIDIA L4|23034|300|0|0|0|0";
  const auto profiles = [&](const char* visible) {
    std::vector<std::string> names;
    for (const Device& device : with_gpus(gpus, visible).devices()->devices())
      names.push_back(device.profile.name);
    names.erase(names.begin());
    return names;
  };
  EXPECT_THAT(profiles("2,0"), ElementsAre("l4", "h100_pcie"));
  EXPECT_THAT(profiles(""), IsEmpty());
  EXPECT_THAT(profiles("1,-1,0"), ElementsAre("t4")) << "CUDA ignores the rest";
  EXPECT_THAT(profiles("GPU-abc"), ElementsAre("h100_pcie", "t4", "l4"));
}

TEST(ThisMachine, BrokenOrAbsentNvmlLeavesTheCpu) {
  const ThisMachine machine = with_gpus("broken");
  EXPECT_EQ(machine.devices()->size(), 1u);
  EXPECT_THAT(machine.notes.back(), HasSubstr("NVML: cannot start (status 9); its GPUs are left out"));
  EXPECT_TRUE(nvml_gpus("libno-such-library.so.1")->empty());
  EXPECT_TRUE(nvml_gpus("")->empty());
}

TEST(ThisMachine, RealMachineIsValidAndStable) {
  const Result<ThisMachine>& machine = this_machine();
  ASSERT_TRUE(machine.ok()) << machine.error().context;
  EXPECT_EQ(&machine, &this_machine());
  EXPECT_EQ(machine->devices()->devices()[0].name, "cpu:0");
  EXPECT_EQ(open_resolved_devices("here")->sha256(), machine->devices()->sha256());
}

TEST(MachineForm, AcceptsAFileATextOrHere) {
  EXPECT_EQ(machine_form("h100 x 4, epyc9654"), MachineForm::kText);
  EXPECT_EQ(machine_form("here"), MachineForm::kHere);
  EXPECT_EQ(machine_form("machine.toml"), MachineForm::kFile);
  EXPECT_EQ(machine_form("dir/machine"), MachineForm::kFile);
  const testing::ScratchFolder folder{"machine-form"};
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::ofstream{"h100"} << "[[device]]\nprofile = \"k40\"\n";
  std::filesystem::create_directory("v100");
  EXPECT_EQ(std::filesystem::path{resolved_devices("h100")}.filename(), "h100")
      << "a file of this name is there";
  EXPECT_EQ(machine_form(resolved_devices("h100")), MachineForm::kFile);
  EXPECT_EQ(resolved_devices("v100"), "v100") << "a folder is no device file";
  EXPECT_EQ(open_devices("h100")->devices()[0].profile.name, "k40");
  EXPECT_EQ(open_resolved_devices("h100")->devices()[0].profile.name, "h100")
      << "a recorded text is not looked up as a file";
  EXPECT_EQ(resolved_devices(""), "");
  EXPECT_TRUE(std::filesystem::path{resolved_devices("absent.toml")}.is_absolute());
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace emplace::launcher
