// Goal: whichever call of CUDA fails, while an executor is made, measures or is destroyed: a full device is a
// result and the executor continues, an error that sticks is reported once and no call follows it. Method:
// functions that record, failing at every call, one after another.
#include "executor/cuda/cuda_executor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "executor/cuda/kernels/probes.h"
#include "graph/formats/graph_file.h"
#include "tests/executor/cuda/enqueued.h"
#include "tests/executor/cuda/recording_api.h"
#include "tests/support/sample_graphs.h"

namespace emplace::cuda {
namespace {

using testing::RecordingApi;

TensorSpec f32(std::vector<std::int64_t> shape) { return {DType::kF32, std::move(shape)}; }

/// A convolution, a product, a reduction and an update of the weight: a call of every library.
OpGraph small_training() {
  OpGraphBuilder builder;
  builder.add({.name = "x", .type = "Input", .outputs = {f32({2, 3, 8, 8})}});
  builder.add({.name = "w", .type = "Parameter", .outputs = {f32({4, 3, 3, 3})}});
  builder.add({.name = "v", .type = "Parameter", .outputs = {f32({8, 5})}});
  builder.add({.name = "conv",
               .type = "aten::convolution",
               .inputs = {{0, 0}, {1, 0}},
               .outputs = {f32({2, 4, 8, 8})},
               .attrs_json = R"({"padding":[1,1],"stride":[1,1]})"});
  builder.add({.name = "relu", .type = "aten::relu", .inputs = {{3, 0}}, .outputs = {f32({2, 4, 8, 8})}});
  builder.add({.name = "sum",
               .type = "aten::sum",
               .inputs = {{4, 0}},
               .outputs = {f32({8, 8})},
               .attrs_json = R"({"dim":[0,1]})"});
  builder.add({.name = "mm", .type = "aten::mm", .inputs = {{5, 0}, {2, 0}}, .outputs = {f32({8, 5})}});
  builder.add({.name = "strange", .type = "no::such_op", .inputs = {{6, 0}}, .outputs = {f32({8, 5})}});
  builder.add({.name = "update",
               .type = "aten::add",
               .inputs = {{2, 0}, {7, 0}},
               .outputs = {f32({8, 5})},
               .phase = Phase::kUpdate});
  return *std::move(builder).build();
}

struct Outcome {
  bool made = false, measured = false, poisoned = false;
  Measurement first, second;
  Errc error{};
  std::string why;
};

RealOptions quick() { return {.timing = {.warmups = 0, .samples = 1, .most_samples = 1}}; }

Outcome run(RecordingApi& recording, const OpGraph& graph, const DeviceSet& devices,
            const Placement& placement) {
  Outcome out;
  SystemClock clock;
  auto executor = CudaExecutor::make(graph, devices, quick(), clock, recording.api());
  out.made = executor.ok();
  if (!executor) {
    out.error = executor.error().code, out.why = executor.error().context;
    return out;
  }
  const auto done = (*executor)->measure(placement, out.first);
  out.measured = done.ok();
  if (!done) out.error = done.error().code, out.why = done.error().context;
  out.poisoned = (*executor)->poisoned();
  const auto again = (*executor)->measure(placement, out.second);
  EXPECT_EQ(again.ok(), !(*executor)->poisoned());
  return out;
}

TEST(CudaExecutor, MeasuresOnOneGpuSplitInTwo) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  Placement placement(graph.num_ops(), DeviceId{0});
  placement[4] = placement[5] = DeviceId{1};
  RecordingApi recording{1};
  const Outcome out = run(recording, graph, devices, placement);
  ASSERT_TRUE(out.made && out.measured) << out.why;
  EXPECT_TRUE(out.first.valid) << out.first.failure;
  EXPECT_GT(out.first.step_time_s, 0);
  EXPECT_EQ(out.first.samples_s.size(), 1u);
  EXPECT_EQ(out.first.bytes_moved, 2 * 4 * 8 * 8 * 4 + 8 * 8 * 4);
  EXPECT_GT(out.first.synthetic_share, 0) << "no::such_op was stood in for";
  EXPECT_LT(out.first.synthetic_share, 1);
  EXPECT_EQ(recording.complaint(), "");
  EXPECT_EQ(testing::find_race(recording.works()), "");
  EXPECT_EQ(recording.held(), 0u) << "a resource was not released";
}

TEST(CudaExecutor, ProgramMadeInTheBackgroundIsTheSame) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < 12; ++i) {
    Placement& placement = placements.emplace_back(graph.num_ops(), DeviceId{0});
    for (std::size_t op = 0; op < placement.size(); ++op) placement[op] = DeviceId((i >> op % 4) & 1);
  }
  // Returns the measurements, and the number of expected placements. `announced`: shift to the placement that
  // is announced with each one; 0: none is.
  const auto run_all = [&](std::size_t announced) {
    SystemClock clock;
    RecordingApi recording{1};
    const auto executor = CudaExecutor::make(graph, devices, quick(), clock, recording.api());
    EXPECT_TRUE(executor.ok()) << executor.error().context;
    std::vector<std::vector<std::int64_t>> peaks;
    int expected = 0;
    for (std::size_t i = 0; i < placements.size(); ++i) {
      if (announced > 0 && i + announced < placements.size()) (*executor)->expect(placements[i + announced]);
      Measurement m;
      EXPECT_TRUE((*executor)->measure(placements[i], m).ok());
      EXPECT_TRUE(m.valid) << m.failure;
      expected += (*executor)->was_expected() ? 1 : 0;
      peaks.push_back({m.bytes_moved});
      peaks.back().insert(peaks.back().end(), m.peak_bytes.begin(), m.peak_bytes.end());
      const bool others = i != 6 || ((*executor)->profile().ok() && (*executor)->verify(placements[2]).ok());
      EXPECT_TRUE(others) << "while a program is made";
    }
    EXPECT_EQ(recording.complaint(), "");
    EXPECT_EQ(testing::find_race(recording.works()), "");
    return std::pair{peaks, expected};
  };
  const auto [alone, none] = run_all(0);
  const auto [ahead, all] = run_all(1);
  const auto [wrong, surprises] = run_all(2);
  EXPECT_EQ(none, 0);
  EXPECT_EQ(all, 11);
  EXPECT_EQ(surprises, 0);
  EXPECT_EQ(alone, ahead);
  EXPECT_EQ(alone, wrong);
}

TEST(CudaExecutor, CapturedStepIsOneLaunch) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  Placement placement(graph.num_ops(), DeviceId{0});
  placement[4] = placement[5] = DeviceId{1};
  for (const int gpus : {1, 2}) {
    RecordingApi recording{gpus};
    RealOptions options{.timing = {.warmups = 2, .samples = 3, .most_samples = 3}};
    auto executor = CudaExecutor::make(graph, devices, options, recording.clock(), recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    Measurement captured, plain;
    ASSERT_TRUE((*executor)->measure(placement, captured).ok());
    EXPECT_TRUE(captured.valid) << captured.failure;
    EXPECT_GE(recording.launches(), 5u) << "all steps but the first and the traced one";
    EXPECT_EQ((*executor)->enqueue_s(), 2 * 0.25e-3) << "makes a device current, and launches";
    EXPECT_EQ(testing::find_race(recording.works()), "") << "streams are ordered within the capture";
    EXPECT_EQ(recording.complaint(), "");
    std::size_t launches = recording.launches();
    EXPECT_TRUE((*executor)->verify(placement).ok());
    EXPECT_EQ(recording.launches(), launches) << "it runs kernel by kernel";
    const auto profile = (*executor)->profile();
    ASSERT_TRUE(profile.ok());
    EXPECT_GE(recording.launches(), launches + 2 * 5) << "steps are those of measure(), on each device alone";
    ASSERT_EQ(profile->task_host_us.size(), 2u);
    EXPECT_GT(profile->task_host_us[0], 250) << "one call for each kernel at least";
    launches = recording.launches();
    EXPECT_TRUE((*executor)->measure(Placement(graph.num_ops(), DeviceId{1}), plain).ok());
    EXPECT_GT(recording.launches(), launches) << "the next placement has a graph of its own";
    EXPECT_EQ(recording.complaint(), "");
    executor->reset();
    EXPECT_EQ(recording.held(), 0u);
  }
}

TEST(CudaExecutor, EnqueuesEveryKernelWithoutACapture) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  const Placement placement(graph.num_ops(), DeviceId{0});
  for (const char* const refused :
       {"", "cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate"}) {
    RecordingApi recording{1};
    recording.refuse(refused);
    RealOptions options = quick();
    options.timing.capture = *refused != '\0';
    const auto executor = CudaExecutor::make(graph, devices, options, recording.clock(), recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    for (int round = 0; round < 2; ++round) {
      Measurement out;
      ASSERT_TRUE((*executor)->measure(placement, out).ok()) << refused;
      EXPECT_TRUE(out.valid) << refused;
    }
    EXPECT_EQ(recording.launches(), 0u);
    EXPECT_GT((*executor)->enqueue_s(), 9 * 0.25e-3);
    const auto notes = (*executor)->notes();
    const bool noted = std::ranges::any_of(notes, [&](const std::string& note) {
      return *refused != '\0' &&
             note.starts_with(std::string{"steps are enqueued kernel by kernel: "} + refused);
    });
    EXPECT_EQ(noted, *refused != '\0') << refused;
  }
}

TEST(CudaExecutor, NotesStepsThatTheHostLimits) {
  OpGraphBuilder builder;
  builder.add({.name = "x", .type = "Input", .outputs = {f32({8})}});
  for (std::uint32_t i = 0; i < 200; ++i)
    builder.add({.name = "relu" + std::to_string(i),
                 .type = "aten::relu",
                 .inputs = {{i, 0}},
                 .outputs = {f32({8})}});
  const OpGraph chain = *std::move(builder).build();
  const DeviceSet devices = testing::sample_devices(1, false, 1 << 20);
  for (const bool capture : {false, true}) {
    RecordingApi recording{1};  // A call takes the host a while, and the device no longer.
    RealOptions options = quick();
    options.timing.capture = capture;
    const auto executor = CudaExecutor::make(chain, devices, options, recording.clock(), recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    Measurement out;
    ASSERT_TRUE((*executor)->measure(Placement(chain.num_ops(), DeviceId{0}), out).ok());
    const auto notes = (*executor)->notes();
    EXPECT_EQ(std::ranges::count(notes, "the host limits steps: enqueuing takes 90 % of their time or more"),
              capture ? 0 : 1);
  }
}

TEST(CudaExecutor, NotesConditionsOfItsResults) {
  const OpGraph graph = small_training();
  SystemClock clock;
  {
    RecordingApi recording{1};
    const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
    const auto executor = CudaExecutor::make(graph, devices, quick(), clock, recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    EXPECT_EQ((*executor)->notes(),
              (std::vector<std::string>{"math tf32", "dispatch ordered", "links through the host, emulated",
                                        "logical devices by green contexts",
                                        "no::such_op is stood in for: no::such_op: no kernel on a GPU"}));
    EXPECT_EQ((*executor)->synthetic_types(), std::vector<std::string>{"no::such_op"});
  }
  RecordingApi recording{2};
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  const auto executor = CudaExecutor::make(graph, devices, quick(), clock, recording.api());
  ASSERT_TRUE(executor);
  EXPECT_EQ((*executor)->notes(),
            (std::vector<std::string>{"math tf32", "dispatch ordered",
                                      "no::such_op is stood in for: no::such_op: no kernel on a GPU"}));
}

/// A kernel that only counts its calls, as its device on the CPU makes them.
class CountedKernel final : public emplace::Kernel {
 public:
  explicit CountedKernel(std::size_t& calls) : calls_{calls} {}
  void run(const Pointers& pointers) const override {
    ++calls_;
    for (const std::byte* const input : pointers.inputs) sum_ += static_cast<unsigned>(*input);
    for (std::byte* const output : pointers.outputs) *output = std::byte{1};
  }

 private:
  std::size_t& calls_;
  mutable unsigned sum_ = 0;  // It reads its inputs, so that the memory must exist.
};

TEST(CudaExecutor, GpusAndACpuRunOneStep) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, true, 1 << 20);
  const std::size_t cpu = [&] {
    std::size_t d = 0;
    while (!devices.is_cpu(static_cast<DeviceId>(d))) ++d;
    return d;
  }();
  for (const int gpus : {1, 2}) {
    for (const bool capture : {false, true}) {
      RecordingApi recording{gpus};
      std::size_t calls = 0;
      const MakeHostKernel make_host =
          [&](const Signature& signature) -> Result<std::unique_ptr<emplace::Kernel>> {
        if (signature.type == "no::such_op") return Error{Errc::kUnsupported, "no kernel on a CPU"};
        return std::unique_ptr<emplace::Kernel>{std::make_unique<CountedKernel>(calls)};
      };
      RealOptions options{.timing = {.warmups = 1, .samples = 2, .most_samples = 2, .capture = capture}};
      auto executor =
          CudaExecutor::make(graph, devices, options, recording.clock(), recording.api(), 0, make_host);
      ASSERT_TRUE(executor) << executor.error().context;
      Placement placement(graph.num_ops(), static_cast<DeviceId>(cpu == 0 ? 1 : 0));
      placement[4] = placement[6] = placement[7] = static_cast<DeviceId>(cpu);
      Measurement out;
      const auto done = (*executor)->measure(placement, out);
      ASSERT_TRUE(done) << done.error().context;
      EXPECT_TRUE(out.valid) << out.failure;
      EXPECT_GT(calls, 0u);
      EXPECT_GT(out.peak_bytes[cpu], 0);
      EXPECT_GT(out.busy_s[cpu], 0);
      EXPECT_EQ(recording.launches() > 0, capture);
      EXPECT_EQ(recording.complaint(), "");
      EXPECT_EQ(testing::find_race(recording.works()), "");
      const auto notes = (*executor)->notes();
      EXPECT_EQ(
          std::ranges::count(notes, devices[static_cast<DeviceId>(cpu)].name +
                                        " runs in host functions of the driver, which run one at a time"),
          1);
      EXPECT_TRUE((*executor)->verify(placement).ok());
      const auto profile = (*executor)->profile();
      ASSERT_TRUE(profile) << profile.error().context;
      EXPECT_EQ(profile->ops.size(), 3u);
      EXPECT_EQ(profile->links.size(), 6u) << "also from and to the CPU";
      EXPECT_EQ(recording.complaint(), "");
      executor->reset();
      EXPECT_EQ(recording.held(), 0u) << "pinned memory, too";
    }
  }
}

/// Finds the kernel that holds a stream until a time after another one.
const void* spin_function(RecordingApi& recording) {
  const void* found = nullptr;
  Session session{recording.api()};
  cudaStream_t stream = nullptr;
  EXPECT_EQ(recording.api().runtime.StreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  recording.watch_launches([&](const void* function, void**) { found = function; });
  std::uint64_t begin = 0;
  EXPECT_TRUE(enqueue_spin_since({.session = &session, .stream = stream}, &begin, 1));
  recording.watch_launches({});
  EXPECT_EQ(recording.api().runtime.StreamDestroy(stream), cudaSuccess);
  return found;
}

TEST(CudaExecutor, ShapedLinksTakeTheTimeOfTheDeviceFile) {
  const OpGraph graph = small_training();
  const Link link{.bytes_per_s = 1e9, .latency_s = 10e-6, .shaped = true};
  for (const bool with_cpu : {false, true}) {
    const DeviceSet devices = testing::sample_devices(with_cpu ? 1 : 2, with_cpu, 1 << 20, link);
    Placement placement(graph.num_ops(), DeviceId{0});
    placement[4] = placement[5] = DeviceId{1};  // 2048 bytes arrive, and 256 bytes leave.
    for (const int gpus : {1, 2}) {
      RecordingApi recording{gpus};
      const void* const spin = spin_function(recording);
      std::vector<std::uint64_t> durations_ns;
      recording.watch_launches([&](const void* function, void** arguments) {
        if (function == spin) durations_ns.push_back(*static_cast<std::uint64_t*>(arguments[1]));
      });
      std::size_t calls = 0;
      const MakeHostKernel make_host = [&](const Signature&) -> Result<std::unique_ptr<emplace::Kernel>> {
        return std::unique_ptr<emplace::Kernel>{std::make_unique<CountedKernel>(calls)};
      };
      auto executor = CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api(), 0,
                                         with_cpu ? make_host : MakeHostKernel{});
      ASSERT_TRUE(executor) << executor.error().context;
      Measurement out;
      ASSERT_TRUE((*executor)->measure(placement, out));
      EXPECT_TRUE(out.valid) << out.failure;
      EXPECT_EQ(out.label, MeasurementLabel::kEmulated);
      const auto notes = (*executor)->notes();
      EXPECT_EQ(std::ranges::count(notes, "links slowed down to those of the device file, emulated"), 1);
      const auto arriving = std::ranges::count(durations_ns, 12'048u),
                 leaving = std::ranges::count(durations_ns, 10'256u);
      EXPECT_GE(arriving, 3) << "an ordinary step, a captured one and a traced one";
      EXPECT_EQ(arriving, leaving);
      EXPECT_EQ(recording.complaint(), "");
      EXPECT_EQ(testing::find_race(recording.works()), "");
      EXPECT_EQ(with_cpu ? 0 : recording.pinned_bytes(), 0) << "nothing is staged";
      const auto profile = (*executor)->profile();
      ASSERT_TRUE(profile) << profile.error().context;
      EXPECT_EQ(profile->links.size(), 2u);
      executor->reset();
      EXPECT_EQ(recording.held(), 0u);
    }
  }
}

TEST(CudaExecutor, RefusesACpuInOneLine) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(1, true, 1 << 20);
  RecordingApi recording{1};
  SystemClock clock;
  const auto executor = CudaExecutor::make(graph, devices, quick(), clock, recording.api());
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().code, Errc::kUnsupported);
  EXPECT_EQ(
      executor.error().context,
      "cpu:0: this build of the cuda executor has no kernels for CPUs; remove the CPU from the device file, "
      "or use --executor cpu");
  std::size_t calls = 0;
  const auto alone =
      CudaExecutor::make(graph, testing::sample_devices(0, true, 1 << 20), quick(), clock, recording.api(), 0,
                         [&](const Signature&) {
                           return std::unique_ptr<emplace::Kernel>{std::make_unique<CountedKernel>(calls)};
                         });
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().context, "the device file has no GPU for the cuda executor; use --executor cpu");
}

TEST(CudaExecutor, NamesOpsWithoutAKernelIfStandInsAreForbidden) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(1, false, 1 << 20);
  RecordingApi recording{1};
  SystemClock clock;
  RealOptions options = quick();
  options.allow_synthetic = false;
  const auto executor = CudaExecutor::make(graph, devices, options, clock, recording.api());
  ASSERT_FALSE(executor);
  EXPECT_NE(executor.error().context.find("'strange'"), std::string::npos) << executor.error().context;
  EXPECT_EQ(recording.held(), 0u);
}

TEST(CudaExecutor, NineTenthsOfThePeakIsOutOfMemoryAndTheExecutorContinues) {
  const OpGraph graph = small_training();
  const Placement placement(graph.num_ops(), DeviceId{0});
  std::int64_t peak = 0;
  {
    RecordingApi recording{1};
    peak =
        run(recording, graph, testing::sample_devices(1, false, 1 << 20), placement).first.peak_bytes.at(0);
  }
  RecordingApi recording{1};
  const Outcome out = run(recording, graph, testing::sample_devices(1, false, peak * 9 / 10), placement);
  ASSERT_TRUE(out.measured);
  EXPECT_FALSE(out.first.valid);
  EXPECT_TRUE(out.first.failure.starts_with("oom: ")) << out.first.failure;
  EXPECT_EQ(out.first.failure, out.second.failure);
}

TEST(CudaExecutor, VerificationAndProfileRunEveryKernelAndEveryLink) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  Placement placement(graph.num_ops(), DeviceId{0});
  placement[4] = placement[5] = DeviceId{1};
  for (const int gpus : {1, 2}) {
    RecordingApi recording{gpus};
    SystemClock clock;
    auto executor = CudaExecutor::make(graph, devices, quick(), clock, recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    const auto verified = (*executor)->verify(placement);
    ASSERT_TRUE(verified) << verified.error().context;
    EXPECT_TRUE(verified->identical) << "both computed nothing";
    EXPECT_EQ(verified->compared, 4u);
    EXPECT_EQ(verified->skipped, 2u) << "the stand-in, and the update that reads it";
    const auto profile = (*executor)->profile();
    ASSERT_TRUE(profile) << profile.error().context;
    ASSERT_EQ(profile->ops.size(), 2u);
    for (const auto& of_device : profile->ops) {
      ASSERT_EQ(of_device.size(), 6u);
      for (const OpCost& cost : of_device) {
        EXPECT_GT(cost.us, 0);
        EXPECT_GT(cost.samples, 0u);
        EXPECT_EQ(cost.synthetic, cost.op == OpId{7});
      }
    }
    ASSERT_EQ(profile->links.size(), 2u);
    for (const LinkCost& link : profile->links) EXPECT_NE(link.source, link.target);
    EXPECT_EQ(recording.complaint(), "");
    executor->reset();
    EXPECT_EQ(recording.held(), 0u);
  }
}

TEST(CudaExecutor, TimesShortOpsWithHotAndColdCaches) {
  const OpGraph graph = small_training();
  constexpr int kCache = 1 << 16;
  // With little memory no copies of operands fit beside the program and what replaces the cache's contents.
  for (const std::int64_t memory : {std::int64_t{1} << 26, std::int64_t{2} << 16}) {
    RecordingApi recording{1};
    recording.set_call_time(std::chrono::microseconds{1});
    recording.set_cache(kCache);
    const DeviceSet devices = testing::sample_devices(1, false, memory);
    const auto executor = CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    const auto profile = (*executor)->profile();
    ASSERT_TRUE(profile) << profile.error().context;
    std::size_t both = 0;
    for (const OpCost& cost : profile->ops[0]) {
      EXPECT_GT(cost.us, 0);
      if (cost.cold_us == 0) continue;
      ++both;
      // The conv has three operands, its bias none; each is missed in every cold call, and in the first hot
      // one.
      EXPECT_GE(cost.cold_us - cost.hot_us, 0.99) << graph.name(cost.op);
      EXPECT_LE(cost.cold_us - cost.hot_us, 4) << graph.name(cost.op);
      EXPECT_GE(cost.us, cost.hot_us);
      EXPECT_LE(cost.us, cost.cold_us);
    }
    EXPECT_EQ(both, memory > (1 << 20) ? 5u : 0u) << "all but the stand-in";
    EXPECT_EQ(recording.complaint(), "");
  }
}

TEST(CudaExecutor, TimesDevicesOfOneGpuWhileTheOthersAreBusy) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(3, false, 1 << 20);
  // The recording sees two calls of a captured step: one makes its device current, one launches it.
  for (const std::uint64_t slower : {0u, 1u, 2u}) {
    RecordingApi recording{2};  // The first and the third device share a GPU.
    recording.slow_neighbours(slower);
    auto executor = CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    const auto profile = (*executor)->profile();
    ASSERT_TRUE(profile) << profile.error().context;
    ASSERT_EQ(profile->corun.size(), 3u);
    EXPECT_NEAR(profile->corun[0], 1 + 0.5 * static_cast<double>(slower), 0.1);
    EXPECT_EQ(profile->corun[1], 0) << "alone on its GPU";
    EXPECT_NEAR(profile->corun[2], 1 + 0.5 * static_cast<double>(slower), 0.1);
    EXPECT_EQ(recording.complaint(), "");
    EXPECT_EQ(testing::find_race(recording.works()), "");
    executor->reset();
    EXPECT_EQ(recording.held(), 0u);
  }
  RecordingApi recording{1};
  recording.refuse("cudaStreamBeginCapture");
  const auto executor = CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api());
  ASSERT_TRUE(executor) << executor.error().context;
  const auto profile = (*executor)->profile();
  ASSERT_TRUE(profile) << profile.error().context;
  EXPECT_EQ(profile->corun, (std::vector<double>{0, 0, 0})) << "the host would limit the steps";
}

TEST(CudaExecutor, NotesAClockThatChangesDuringATiming) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, true, 1 << 20);
  std::size_t calls = 0;
  const MakeHostKernel make_host = [&](const Signature&) -> Result<std::unique_ptr<emplace::Kernel>> {
    return std::unique_ptr<emplace::Kernel>{std::make_unique<CountedKernel>(calls)};
  };
  Placement placement(graph.num_ops());
  for (std::size_t op = 0; op < placement.size(); ++op) placement[op] = static_cast<DeviceId>(op % 3);
  RealOptions options{
      .timing = {.warmups = 0, .samples = 40, .most_samples = 40}};  // Most calls are timed steps.
  std::uint64_t made = 0, all = 0;
  for (const bool moves : {false, true}) {
    RecordingApi recording{2};
    if (moves) recording.throttle_from((made + all) / 2, 1);
    const auto executor =
        CudaExecutor::make(graph, devices, options, recording.clock(), recording.api(), 0, make_host);
    ASSERT_TRUE(executor) << executor.error().context;
    made = recording.calls();
    Measurement out;
    ASSERT_TRUE((*executor)->measure(placement, out));
    EXPECT_TRUE(out.valid) << out.failure;
    all = recording.calls();
    EXPECT_EQ(std::ranges::count((*executor)->notes(),
                                 "the clock of a GPU moved by more than 5 % while a placement was timed"),
              moves ? 1 : 0);
    EXPECT_EQ(recording.complaint(), "");
  }
}

TEST(CudaExecutor, EveryFailingCallKeepsItsMeaning) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  Placement placement(graph.num_ops(), DeviceId{0});
  placement[4] = placement[5] = DeviceId{1};
  std::uint64_t calls = 0;
  {
    RecordingApi recording{1};
    run(recording, graph, devices, placement);
    calls = recording.calls();
  }
  ASSERT_GT(calls, 300u);
  std::size_t full = 0, stuck = 0;
  for (const cudaError_t code :
       {cudaErrorMemoryAllocation, cudaErrorIllegalAddress, cudaErrorLaunchFailure}) {
    for (std::uint64_t at = 0; at < calls; ++at) {
      RecordingApi recording{1};
      recording.fail_at(at, code);
      const Outcome out = run(recording, graph, devices, placement);
      ASSERT_NE(recording.failed(), "") << at;
      ASSERT_EQ(recording.complaint(), "") << at << ' ' << code;
      if (code == cudaErrorMemoryAllocation) {
        ASSERT_FALSE(out.poisoned) << at;
        if (!out.made) continue;
        // An allocation that fails outside of a step's own work leaves the device unchanged.
        ASSERT_TRUE(out.measured) << at << ": " << out.why;
        ASSERT_TRUE(out.first.valid || out.first.failure.starts_with("oom: "))
            << at << ": " << out.first.failure;
        ASSERT_TRUE(out.first.valid || out.second.valid) << at << ": " << out.second.failure;
        full += !out.first.valid;
        const bool giving_back = recording.failed().find("Destroy") != std::string::npos ||
                                 recording.failed().find("Free") != std::string::npos;
        ASSERT_EQ(recording.held(), giving_back ? 1u : 0u) << at << ' ' << recording.failed();
      } else if (out.made && !out.measured) {
        ASSERT_TRUE(out.poisoned) << at << ": " << out.why;
        ASSERT_EQ(out.error, Errc::kDeviceLost);
        ++stuck;
      }
    }
  }
  EXPECT_GT(full, 20u);
  EXPECT_GT(stuck, 40u);
}

TEST(CudaExecutor, StepFailsIfAnyThreadOfAGpuFails) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  Placement placement(graph.num_ops(), DeviceId{0});
  placement[4] = placement[5] = DeviceId{1};
  RealOptions options = quick();
  options.timing.capture = false;
  std::uint64_t made = 0, calls = 0;
  {
    RecordingApi recording{2};
    const auto executor = CudaExecutor::make(graph, devices, options, recording.clock(), recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    made = recording.calls();
    Measurement out;
    ASSERT_TRUE((*executor)->measure(placement, out));
    ASSERT_TRUE(out.valid);
    EXPECT_GT(out.step_time_s, 0);
    calls = recording.calls();
    EXPECT_EQ(recording.complaint(), "");
    EXPECT_EQ(testing::find_race(recording.works()), "");
  }
  std::size_t full = 0, lost = 0;
  for (const cudaError_t code : {cudaErrorMemoryAllocation, cudaErrorIllegalAddress}) {
    for (std::uint64_t at = made; at < calls; ++at) {
      RecordingApi recording{2};
      const auto executor = CudaExecutor::make(graph, devices, options, recording.clock(), recording.api());
      ASSERT_TRUE(executor) << executor.error().context;
      recording.fail_at(at, code);
      recording.delay(static_cast<int>(at % 2));
      Measurement out;
      const auto done = (*executor)->measure(placement, out);
      ASSERT_NE(recording.failed(), "") << at;
      ASSERT_EQ(recording.complaint(), "") << at;
      ASSERT_EQ((*executor)->poisoned(), code == cudaErrorIllegalAddress) << at;
      full += done.ok() && !out.valid;
      lost += !done.ok();
      if (!done) {
        ASSERT_EQ(done.error().code, Errc::kDeviceLost) << at << ": " << done.error().context;
      }
    }
  }
  EXPECT_GT(full, 20u);
  EXPECT_GT(lost, 20u);
}

TEST(CudaExecutor, UnresponsiveDeviceIsLostWhateverItsError) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  const Placement placement(graph.num_ops(), DeviceId{0});
  for (const cudaError_t code : {cudaErrorDevicesUnavailable, cudaErrorInitializationError, cudaErrorNoDevice,
                                 cudaErrorSystemNotReady}) {
    RecordingApi recording{1};
    SystemClock clock;
    auto executor = CudaExecutor::make(graph, devices, quick(), clock, recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    recording.fail_from(recording.calls() + 20, code);
    Measurement out;
    const auto done = (*executor)->measure(placement, out);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::kDeviceLost) << code;
    EXPECT_TRUE((*executor)->poisoned());
  }
  // An error of one call of a device that answers is the placement's.
  RecordingApi recording{1};
  SystemClock clock;
  auto executor = CudaExecutor::make(graph, devices, quick(), clock, recording.api());
  ASSERT_TRUE(executor);
  recording.fail_at(recording.calls() + 20, cudaErrorInvalidValue);
  Measurement out;
  EXPECT_EQ((*executor)->measure(placement, out).error().code, Errc::kRunFailed);
  EXPECT_FALSE((*executor)->poisoned());
  EXPECT_TRUE((*executor)->measure(placement, out));
}

TEST(CudaExecutor, StandsInForOpsThatALibraryRefuses) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(1, false, 1 << 20);
  for (const auto& [function, type] : {std::pair{"cublasLtMatmulAlgoGetHeuristic", "aten::mm"},
                                       {"cudnnBackendFinalize", "aten::convolution"}}) {
    RecordingApi recording{1};
    recording.refuse(function);
    SystemClock clock;
    auto executor = CudaExecutor::make(graph, devices, quick(), clock, recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    EXPECT_EQ((*executor)->synthetic_types(), (std::vector<std::string>{type, "no::such_op"}));
    bool noted = false;
    for (const std::string& note : (*executor)->notes())
      noted |= note.starts_with(std::string{type} + " is stood in for: ") &&
               note.find(" status ") != std::string::npos;
    EXPECT_TRUE(noted) << "the library's error is missing";
    executor->reset();
    EXPECT_EQ(recording.held(), 0u);
  }
}

TEST(CudaExecutor, OnlyConvolutionsNeedCudnn) {
  const std::string reason = "libcudnn.so.9: cannot open shared object file";
  const DeviceSet devices = testing::sample_devices(1, false, 1 << 20);
  RecordingApi recording{1};
  recording.remove_cudnn(reason);
  ASSERT_TRUE(check_available(recording.api()));
  const OpGraph graph = small_training();
  auto executor = CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api());
  ASSERT_TRUE(executor) << executor.error().context;
  EXPECT_EQ((*executor)->synthetic_types(), (std::vector<std::string>{"aten::convolution", "no::such_op"}));
  bool noted = false;
  for (const std::string& note : (*executor)->notes())
    noted |= note.find("aten::convolution") != std::string::npos && note.find(reason) != std::string::npos &&
             note.find("LD_LIBRARY_PATH") != std::string::npos;
  EXPECT_TRUE(noted) << "the missing library is not named";
  executor->reset();

  OpGraphBuilder product;
  product.add({.name = "a", .type = "Input", .outputs = {f32({8, 8})}});
  product.add({.name = "b", .type = "Parameter", .outputs = {f32({8, 5})}});
  product.add({.name = "mm", .type = "aten::mm", .inputs = {{0, 0}, {1, 0}}, .outputs = {f32({8, 5})}});
  const OpGraph without = *std::move(product).build();
  auto other = CudaExecutor::make(without, devices, quick(), recording.clock(), recording.api());
  ASSERT_TRUE(other) << other.error().context;
  EXPECT_TRUE((*other)->synthetic_types().empty());
  Measurement measured;
  EXPECT_TRUE((*other)->measure(Placement(3), measured));
  EXPECT_TRUE(measured.valid);
  other->reset();
  EXPECT_EQ(recording.held(), 0u);
  EXPECT_EQ(recording.complaint(), "");
}

TEST(CudaExecutor, RejectsAlgorithmsThatDoNotComputeTheProduct) {
  const OpGraph graph = small_training();
  RecordingApi recording{1};
  recording.spoil_algorithms();
  const auto executor = CudaExecutor::make(graph, testing::sample_devices(1, false, 1 << 20), quick(),
                                           recording.clock(), recording.api());
  ASSERT_TRUE(executor) << executor.error().context;
  EXPECT_EQ((*executor)->synthetic_types(), (std::vector<std::string>{"aten::mm", "no::such_op"}));
}

TEST(CudaExecutor, RejectsEnginesThatComputeInHalfPrecision) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(1, false, 1 << 20);
  RecordingApi recording{1};
  recording.halve_inputs();
  auto executor = CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api());
  ASSERT_TRUE(executor) << executor.error().context;
  EXPECT_EQ((*executor)->synthetic_types(), (std::vector<std::string>{"aten::convolution", "no::such_op"}));
}

TEST(CudaExecutor, UsesTheFastestOfTheFirstThreeEnginesOnAllDevices) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  using Runs = std::vector<std::size_t>;
  struct Case {
    bool tune;
    std::optional<std::size_t> varying;
    Runs trials;
    std::size_t taken;
  };
  // One run loads an engine's kernels, and three are timed. The second device makes no trial.
  for (const Case& of : {Case{true, {}, {4, 4, 4, 0}, 1}, Case{true, 1, {4, 0, 4, 0}, 2},
                         Case{false, {}, {0, 0, 0, 0}, 0}, Case{false, 0, {0, 0, 0, 0}, 1}}) {
    RecordingApi recording{1};
    recording.set_engines({5, 1, 3, 0});
    if (of.varying) recording.let_vary(*of.varying);
    RealOptions options = quick();
    options.timing.tune = of.tune;
    auto executor = CudaExecutor::make(graph, devices, options, recording.clock(), recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    EXPECT_EQ(recording.engine_runs(), of.trials);
    for (const DeviceId device : {DeviceId{0}, DeviceId{1}}) {
      Measurement out;
      ASSERT_TRUE((*executor)->measure(Placement(graph.num_ops(), device), out));
      EXPECT_TRUE(out.valid) << out.failure;
    }
    for (std::size_t engine = 0; engine < 4; ++engine)
      EXPECT_EQ(recording.engine_runs()[engine] > of.trials[engine], engine == of.taken) << engine;
    EXPECT_EQ(recording.complaint(), "");
    executor->reset();
    EXPECT_EQ(recording.held(), 0u);
  }
  // Without memory for the operands nothing is timed.
  RecordingApi recording{1};
  recording.set_engines({5, 1, 3, 0});
  const auto tight = CudaExecutor::make(graph, testing::sample_devices(1, false, 2048), quick(),
                                        recording.clock(), recording.api());
  ASSERT_TRUE(tight) << tight.error().context;
  EXPECT_EQ(recording.engine_runs(), (Runs{0, 0, 0, 0}));
}

TEST(CudaExecutor, AlignsOperandsOfLibrariesToSixteenBytes) {
  // A matrix that is a view of a flat parameter from element 3 on.
  OpGraphBuilder builder;
  builder.add({.name = "flat", .type = "Parameter", .outputs = {f32({100})}});
  builder.add({.name = "x", .type = "Input", .outputs = {f32({8, 8})}});
  builder.add({.name = "part",
               .type = "aten::slice",
               .inputs = {{0, 0}},
               .outputs = {f32({64})},
               .attrs_json = R"({"dim":0,"start":3,"end":67,"step":1})"});
  builder.add({.name = "matrix",
               .type = "aten::view",
               .inputs = {{2, 0}},
               .outputs = {f32({8, 8})},
               .attrs_json = R"({"size":[8,8]})"});
  builder.add({.name = "mm", .type = "aten::mm", .inputs = {{1, 0}, {3, 0}}, .outputs = {f32({8, 8})}});
  const OpGraph graph = *std::move(builder).build();
  for (const std::size_t home : {0u, 1u}) {
    Placement placement(graph.num_ops(), DeviceId{0});
    placement[0] = placement[2] = placement[3] = static_cast<DeviceId>(home);
    testing::Enqueued enqueued{graph, testing::sample_devices(2, false, 1 << 20), placement, 1};
    std::size_t products = 0;
    for (const Instruction& instruction : enqueued.program->instructions()) {
      if (instruction.kind != Instruction::Kind::kKernel) continue;
      for (const Call& call : enqueued.program->calls(instruction)) {
        if (call.num_inputs != 2) continue;
        ++products;
        for (const std::byte* const input : enqueued.program->pointers(call).inputs)
          EXPECT_EQ(reinterpret_cast<std::uintptr_t>(input) % 16, 0u) << home;
      }
    }
    EXPECT_EQ(products, 1u);
  }
}

TEST(CudaExecutor, TraceOverSeveralGpusHasOneClock) {
  const OpGraph graph = small_training();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  Placement placement(graph.num_ops(), DeviceId{0});
  placement[4] = placement[5] = DeviceId{1};
  for (const int gpus : {1, 2}) {
    RecordingApi recording{gpus};
    auto executor = CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    Measurement out;
    Schedule schedule;
    const auto done = (*executor)->trace(placement, out, schedule);
    ASSERT_TRUE(done) << done.error().context;
    EXPECT_EQ(recording.complaint(), "");
    std::vector<OpRun> run_of(graph.num_ops());
    for (const OpRun& run : schedule.ops) run_of[index(run.op)] = run;
    ASSERT_EQ(schedule.transfers.size(), 2u);
    for (const TransferRun& transfer : schedule.transfers) {
      EXPECT_LT(transfer.start_s, transfer.end_s);
      EXPECT_GE(transfer.start_s, run_of[index(graph.producer(transfer.tensor))].end_s) << gpus;
    }
    // Every call takes a quarter of a millisecond; the conv, its copy, relu, sum, its copy and mm follow each
    // other.
    EXPECT_LE(schedule.transfers[0].end_s, run_of[4].start_s) << gpus;
    EXPECT_LE(schedule.transfers[1].end_s, run_of[6].start_s) << gpus;
    EXPECT_GE(run_of[3].start_s, 0);
    EXPECT_LE(run_of[8].end_s, (*executor)->clock_ratio() * out.step_time_s * 1.0001);
    EXPECT_GT((*executor)->enqueue_s(), 0);
    EXPECT_LT((*executor)->enqueue_s(), out.step_time_s);
  }
}

TEST(CudaExecutor, PinnedMemoryDoesNotGrowWithTheGraph) {
  OpGraphBuilder builder;
  builder.add({.name = "x", .type = "Input", .outputs = {f32({64, 1024, 1024})}});  // 256 MiB
  builder.add({.name = "y", .type = "aten::relu", .inputs = {{0, 0}}, .outputs = {f32({64, 1024, 1024})}});
  const OpGraph graph = *std::move(builder).build();
  const DeviceSet devices = testing::sample_devices(4, false, std::int64_t{1} << 30);
  {
    RecordingApi recording{1};
    ASSERT_TRUE(CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api()));
    EXPECT_EQ(recording.pinned_bytes(), std::int64_t{64} << 20);
  }
  RecordingApi recording{4};
  ASSERT_TRUE(CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api()));
  EXPECT_EQ(recording.pinned_bytes(), 0) << "no link goes through the host";
}

TEST(CudaExecutor, DoesNotMeasureDevicesThatAreNotIsolated) {
  OpGraphBuilder builder;
  builder.add({.name = "x", .type = "Input", .outputs = {f32({64})}});
  builder.add({.name = "y", .type = "Input", .outputs = {f32({64})}});
  builder.add({.name = "a", .type = "aten::relu", .inputs = {{0, 0}}, .outputs = {f32({64})}});
  builder.add({.name = "b", .type = "aten::relu", .inputs = {{1, 0}}, .outputs = {f32({64})}});
  const OpGraph graph = *std::move(builder).build();
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  const Placement apart{DeviceId{0}, DeviceId{1}, DeviceId{0}, DeviceId{1}};
  for (const CUresult split : {CUDA_SUCCESS, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION}) {
    RecordingApi recording{1};
    recording.refuse_split(split);
    auto executor = CudaExecutor::make(graph, devices, quick(), recording.clock(), recording.api());
    ASSERT_TRUE(executor) << executor.error().context;
    Measurement out;
    ASSERT_TRUE((*executor)->measure(apart, out));
    EXPECT_EQ(out.label, split == CUDA_SUCCESS ? MeasurementLabel::kMeasured : MeasurementLabel::kEmulated);
    ASSERT_TRUE((*executor)->measure(Placement(4, DeviceId{1}), out));
    EXPECT_EQ(out.label, MeasurementLabel::kMeasured);
  }
}

}  // namespace
}  // namespace emplace::cuda
