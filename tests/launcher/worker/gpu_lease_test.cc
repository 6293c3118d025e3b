// Goal: no two executors of a machine ever measure on one GPU, whatever happens to their processes. Method: a
// folder that looks like the NVIDIA driver's, real locks, and real executor processes that do nothing with
// their GPUs.
#include "launcher/worker/gpu_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "launcher/worker/helper_program.h"
#include "launcher/worker/process_executor.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;
using emplace::testing::random_graph;
using emplace::testing::sample_devices;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GpuLeaseTest : public ::testing::Test {
 protected:
  GpuLeaseTest() {
    sources_.driver = folder_.path() / "nvidia";
    sources_.locks = folder_.path() / "locks";
    fs::create_directories(sources_.locks);
  }
  /// Adds a GPU as driver 535 describes it.
  void add_gpu(const std::string& address, const std::string& uuid) const {
    const fs::path gpu = sources_.driver / "gpus" / address;
    fs::create_directories(gpu);
    std::ofstream{gpu / "information"} << "Model: \t\t NVIDIA H200\nIRQ:   \t\t 112\nGPU UUID: \t " << uuid
                                       << "\nBus Location: \t " << address << "\n";
  }
  void add_gpus(int count) const {
    for (int i = 0; i < count; ++i)
      add_gpu("0000:" + std::to_string(10 + i) + ":00.0", "GPU-0000000" + std::to_string(i));
  }
  LeasableGpus leasable(const std::optional<std::string>& visible) const {
    GpuSources sources = sources_;
    sources.visible = visible;
    return leasable_gpus(sources);
  }

  const emplace::testing::ScratchFolder folder_{"gpu-lease"};
  GpuSources sources_;
  const DeviceSet one_ = sample_devices(1, false, std::int64_t{1} << 40, {1e9, 1e-6});
  // Two GPUs and a CPU.
  const DeviceSet two_ = sample_devices(2, true, std::int64_t{1} << 40, {1e9, 1e-6});
};

TEST_F(GpuLeaseTest, SortsGpusByAddress) {
  add_gpu("0000:65:00.0", "GPU-b1");
  add_gpu("0000:17:00.0", "GPU-a2");
  const auto all = driver_gpus(sources_.driver);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].address, "0000:17:00.0");
  EXPECT_EQ(all[0].uuid, "GPU-a2");
  EXPECT_EQ(all[1].uuid, "GPU-b1");
  EXPECT_EQ(all[1].model, "NVIDIA H200");
}

TEST_F(GpuLeaseTest, VisibleDevicesLimitTheLeases) {
  add_gpu("0000:17:00.0", "GPU-a2");
  add_gpu("0000:65:00.0", "GPU-b1");
  add_gpu("0000:66:00.0", "GPU-b2");
  EXPECT_THAT(leasable({}).uuids, ElementsAre("GPU-a2", "GPU-b1", "GPU-b2"));
  EXPECT_THAT(leasable("1").uuids, ElementsAre("GPU-b1"));
  EXPECT_THAT(leasable("GPU-b2, 0").uuids, ElementsAre("GPU-a2", "GPU-b2"));
  EXPECT_THAT(leasable("GPU-a").uuids, ElementsAre("GPU-a2")) << "a unique prefix is enough, as for CUDA";
  EXPECT_THAT(leasable("0,GPU-b,1").uuids, ElementsAre("GPU-a2")) << "nothing after an invalid word counts";
  EXPECT_THAT(leasable("0,0").uuids, ElementsAre("GPU-a2"));
  for (const char* const none : {"", "-1", "3", "NoDevFiles", "MIG-a2"}) {
    EXPECT_THAT(leasable(none).uuids, IsEmpty()) << none;
    EXPECT_THAT(leasable(none).why_none, HasSubstr("CUDA_VISIBLE_DEVICES")) << none;
  }
}

TEST_F(GpuLeaseTest, LeasesNothingWithoutWholeGpus) {
  EXPECT_EQ(leasable({}).why_none, "the NVIDIA driver lists no GPU");
  GpuLease lease{sources_};
  ASSERT_TRUE(lease.take(two_).ok()) << "executors then start as before";
  EXPECT_EQ(lease.environment(), "");
  EXPECT_TRUE(check_gpu_leases(sources_, two_, 8).ok());
  const auto count = executors_by_gpus(sources_, two_);
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(
      count.error().context,
      "executor.count = auto: finds no GPU to lease: the NVIDIA driver lists no GPU; give the number of "
      "executors");
  add_gpu("0000:17:00.0", "GPU-a2");
  add_gpu("0000:65:00.0", std::string{"GPU-"} + std::string(8, '?'));
  EXPECT_EQ(leasable({}).why_none, "the NVIDIA driver hides a GPU's UUID");
  fs::create_directories(sources_.driver / "capabilities" / "gpu0" / "mig" / "gi1");
  EXPECT_EQ(leasable({}).why_none, "a GPU is split by MIG");
}

TEST_F(GpuLeaseTest, EachGpuHasOneHolder) {
  add_gpus(4);
  GpuLease first{sources_}, second{sources_}, third{sources_};
  ASSERT_TRUE(first.take(one_).ok());
  EXPECT_EQ(first.environment(), "CUDA_VISIBLE_DEVICES=GPU-00000000");
  ASSERT_TRUE(second.take(two_).ok()) << "a GPU for each device that is not a CPU";
  EXPECT_EQ(second.environment(), "CUDA_VISIBLE_DEVICES=GPU-00000001,GPU-00000002");
  const auto refused = third.take(two_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kInvalid);
  const std::string pid = std::to_string(::getpid());
  EXPECT_EQ(refused.error().context,
            "executor 'cuda': an executor needs 2 GPUs, but 1 is free; in use: GPU-00000000 (process " + pid +
                "), GPU-00000001 (process " + pid + "), GPU-00000002 (process " + pid +
                "); wait until the others have ended");
  EXPECT_THAT(third.uuids(), IsEmpty()) << "all or nothing";
  ASSERT_TRUE(first.take(two_).ok()) << "a graph with more devices: the lease grows";
  EXPECT_EQ(first.environment(), "CUDA_VISIBLE_DEVICES=GPU-00000000,GPU-00000003");
  ASSERT_TRUE(first.take(one_).ok());
  EXPECT_THAT(first.uuids(), SizeIs(2)) << "and does not shrink";
}

TEST_F(GpuLeaseTest, MoreDevicesThanGpusShareThem) {
  add_gpus(1);
  GpuLease lease{sources_};
  ASSERT_TRUE(lease.take(two_).ok());
  EXPECT_THAT(lease.uuids(), ElementsAre("GPU-00000000"));
}

TEST_F(GpuLeaseTest, NumberOfExecutorsFollowsTheGpus) {
  add_gpus(5);
  EXPECT_EQ(executors_by_gpus(sources_, one_).value(), 5u);
  EXPECT_EQ(executors_by_gpus(sources_, two_).value(), 2u);
  EXPECT_TRUE(check_gpu_leases(sources_, two_, 2).ok());
  EXPECT_EQ(check_gpu_leases(sources_, two_, 3).error().context,
            "executor 'cuda': 3 executors need 6 GPUs, but 5 are free; use executor.count = \"auto\"");
  GpuLease other{sources_};
  ASSERT_TRUE(other.take(two_).ok());
  EXPECT_THAT(check_gpu_leases(sources_, two_, 2).error().context,
              HasSubstr("2 executors need 4 GPUs, but 3 are free; in use: GPU-00000000 (process "));
  EXPECT_TRUE(check_gpu_leases(sources_, two_, 1).ok()) << "a check leaves no lock";
}

TEST_F(GpuLeaseTest, ConcurrentLeasesNeverShareAGpu) {
  add_gpus(8);
  std::vector<GpuLease> leases;
  leases.reserve(4);
  for (int i = 0; i < 4; ++i) leases.emplace_back(sources_);
  {
    std::vector<std::jthread> threads;
    threads.reserve(leases.size());
    for (GpuLease& lease : leases) threads.emplace_back([&] { EXPECT_TRUE(lease.take(two_).ok()); });
  }
  std::vector<std::string> all;
  for (const GpuLease& lease : leases)
    for (std::string& uuid : lease.uuids()) all.push_back(std::move(uuid));
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, SizeIs(8));
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST_F(GpuLeaseTest, LocksAReadOnlyFileOfAnotherUser) {
  add_gpus(1);
  ASSERT_TRUE(write_file(sources_.locks / "emplace-GPU-00000000.lock", std::string_view{}).ok());
  fs::permissions(sources_.locks / "emplace-GPU-00000000.lock", fs::perms{0444});
  GpuLease lease{sources_}, other{sources_};
  ASSERT_TRUE(lease.take(one_).ok());
  EXPECT_FALSE(other.take(one_).ok());
}

TEST_F(GpuLeaseTest, ErrorNamesAnUnusableFolder) {
  add_gpus(1);
  sources_.locks = folder_.path() / "missing";
  GpuLease lease{sources_};
  const auto refused = lease.take(one_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kIo);
  EXPECT_THAT(refused.error().context, HasSubstr("emplace-gpus.lock: cannot be opened (No such file"));
  // A link that another user left in /tmp is not followed.
  fs::create_directories(sources_.locks);
  fs::create_symlink(folder_.path() / "elsewhere", sources_.locks / "emplace-gpus.lock");
  EXPECT_FALSE(lease.take(one_).ok());
  EXPECT_FALSE(fs::exists(folder_.path() / "elsewhere"));
}

/// Executors in processes of their own, each with a lease.
class LeasingExecutors : public GpuLeaseTest {
 protected:
  std::unique_ptr<ProcessExecutor> make(std::vector<std::string> arguments = {}, int restarts = 1'000) {
    ProcessExecutorOptions options;
    options.kind = "fake";
    options.command = {helper_path("fake"), std::move(arguments), {}};
    options.gpus = std::make_shared<GpuLease>(sources_);
    options.real.timing.samples = 1;
    options.supervision.first_delay = std::chrono::milliseconds{1};
    options.supervision.restarts_per_minute = restarts;
    return std::make_unique<ProcessExecutor>(graph_, one_, std::move(options), clock_);
  }
  Result<Unit> measure(ProcessExecutor& executor) {
    Measurement m;
    return executor.measure(Placement(graph_.num_ops()), m);
  }
  static std::string visible_to(pid_t pid) {
    const auto bytes = read_file("/proc/" + std::to_string(pid) + "/environ");
    if (!bytes) return "";
    const std::string text{reinterpret_cast<const char*>(bytes->data()), bytes->size()};
    const std::size_t at = text.find("CUDA_VISIBLE_DEVICES=");
    return at == std::string::npos ? "" : std::string{text.c_str() + at};
  }

  const SystemClock clock_{};
  const OpGraph graph_ = [] {
    Rng rng{7, Purpose::kTest};
    return random_graph(rng, 10);
  }();
};

TEST_F(LeasingExecutors, EachProcessSeesItsOwnGpu) {
  add_gpus(2);
  const auto first = make(), second = make();
  ASSERT_TRUE(measure(*first).ok());
  ASSERT_TRUE(measure(*second).ok());
  EXPECT_EQ(visible_to(first->pid()), "CUDA_VISIBLE_DEVICES=GPU-00000000");
  EXPECT_EQ(visible_to(second->pid()), "CUDA_VISIBLE_DEVICES=GPU-00000001");
  const auto third = make({}, 2);
  const auto refused = measure(*third);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context, HasSubstr("an executor needs 1 GPU, but 0 are free; in use: GPU-"));
}

TEST_F(LeasingExecutors, RestartedProcessKeepsItsGpu) {
  add_gpus(2);
  const auto first = make({"--crash-every=2"});
  ASSERT_TRUE(measure(*first).ok());
  const pid_t before = first->pid();
  const auto second = make();
  ASSERT_TRUE(measure(*second).ok());
  ASSERT_TRUE(measure(*first).ok());
  EXPECT_GT(first->restarts(), 0);
  EXPECT_NE(first->pid(), before);
  EXPECT_EQ(visible_to(first->pid()), "CUDA_VISIBLE_DEVICES=GPU-00000000");
}

TEST_F(LeasingExecutors, ProcessThatOutlivesItsParentKeepsItsGpu) {
  add_gpus(1);
  auto lease = std::make_unique<GpuLease>(sources_);
  ASSERT_TRUE(lease->take(one_).ok());
  HelperCommand command{helper_path("fake"), {}, {lease->environment()}};
  command.kept = lease->descriptors();
  auto process = HelperProcess::start(command);
  ASSERT_TRUE(process.ok()) << process.error().context;
  lease.reset();  // As if this process had been killed.
  GpuLease next{sources_};
  EXPECT_FALSE(next.take(one_).ok());
  process->reset();
  EXPECT_TRUE(next.take(one_).ok());
}

}  // namespace
}  // namespace emplace::launcher
