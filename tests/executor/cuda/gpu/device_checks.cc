// Behaviour of the device, its library and its memory.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "executor/cuda/cuda_executor.h"
#include "executor/cuda/device/logical_device.h"
#include "executor/cuda/device/partition.h"
#include "executor/cuda/kernels/passes.h"
#include "executor/cuda/kernels/probes.h"
#include "executor/kernel/initial_element.h"
#include "tests/executor/cpu/kernel_case.h"
#include "tests/executor/cuda/gpu/checks.h"
#include "tests/executor/cuda/gpu/device_kernel.h"
#include "tests/executor/cuda/random_signatures.h"
#include "tests/executor/cuda/recording_api.h"

extern char** environ;

namespace emplace::gpu_check {

using nlohmann::json;

bool rehearsing() { return std::getenv("EMPLACE_GPU_REHEARSE") != nullptr; }

const cuda::CudaApi& api_in_use() {
  if (!rehearsing()) return cuda::real_api();
  static testing::RecordingApi recording{1};
  return recording.api();
}

namespace {

Error failed(const std::string& what) { return {Errc::kRunFailed, what}; }

}  // namespace

Result<DeviceSet> gpus(std::size_t count, std::int64_t bytes, Link link) {
  // A smaller GPU gives nine tenths of its memory, in equal parts.
  std::size_t free = 0, total = 0;
  if (api_in_use().runtime.MemGetInfo(&free, &total) == cudaSuccess)
    bytes = std::min(bytes, static_cast<std::int64_t>(free / count / 10 * 9));
  std::vector<Device> devices;
  for (std::size_t i = 0; i < count; ++i)
    devices.push_back({"gpu:" + std::to_string(i), *find_profile("h200"), bytes, ""});
  return DeviceSet::make(std::move(devices), link);
}

Result<Unit> versions(const Bundle&, Report& report) {
  const cuda::CudaApi& api = api_in_use();
  if (auto there = cuda::check_available(api); !there) return there.error();
  cuda::Session session{api};
  json out{{"libraries", cuda::library_versions(api)}};
  int driver = 0, runtime = 0, count = 0;
  api.runtime.DriverGetVersion(&driver), api.runtime.RuntimeGetVersion(&runtime),
      api.runtime.GetDeviceCount(&count);
  out["driver"] = driver, out["runtime"] = runtime, out["gpus"] = json::array();
  for (int gpu = 0; gpu < count; ++gpu) {
    json one{{"gpu", gpu}};
    for (const auto& [name, attribute] : {std::pair{"major", cudaDevAttrComputeCapabilityMajor},
                                          {"minor", cudaDevAttrComputeCapabilityMinor},
                                          {"multiprocessors", cudaDevAttrMultiProcessorCount},
                                          {"l2_bytes", cudaDevAttrL2CacheSize},
                                          {"copy_engines", cudaDevAttrAsyncEngineCount}}) {
      int value = 0;
      if (auto done = session.check(api.runtime.DeviceGetAttribute(&value, attribute, gpu), name); !done)
        return done.error();
      one[name] = value;
    }
    if (auto done = session.check(api.runtime.SetDevice(gpu), "cudaSetDevice"); !done) return done.error();
    std::size_t free = 0, total = 0;
    if (auto done = session.check(api.runtime.MemGetInfo(&free, &total), "cudaMemGetInfo"); !done)
      return done.error();
    one["free_bytes"] = free, one["total_bytes"] = total;
    for (int peer = 0; peer < count; ++peer) {
      int rank = 0, reaches = 0;  // The lower the rank, the faster.
      if (peer == gpu) continue;
      if (auto done = session.check(
              api.runtime.DeviceGetP2PAttribute(&reaches, cudaDevP2PAttrAccessSupported, gpu, peer),
              "P2P access");
          !done)
        return done.error();
      if (auto done = session.check(
              api.runtime.DeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, gpu, peer), "P2P rank");
          !done)
        return done.error();
      one["peers"].push_back({{"gpu", peer}, {"reaches", reaches != 0}, {"rank", rank}});
    }
    CUdevice device = 0;
    CUdevResource resource{};
    if (api.driver.DeviceGetDevResource != nullptr && api.driver.DeviceGet(&device, gpu) == CUDA_SUCCESS &&
        api.driver.DeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS)
      one["sm_resource"] = {{"count", resource.sm.smCount},
                            {"least", resource.sm.minSmPartitionSize},
                            {"alignment", resource.sm.smCoscheduledAlignment}};
    out["gpus"].push_back(one);
  }
  const bool any = !out["gpus"].empty();
  report.expect(any, "machine", "a GPU and every library", std::move(out));
  return Unit{};
}

Result<Unit> kernel_parity(const Bundle&, Report& report) {
  constexpr std::byte kNaNs{0xff};
  cuda::Session session{api_in_use()};
  const auto devices = gpus(1, std::int64_t{1} << 30);
  auto group = cuda::DeviceGroup::make(session, *devices);
  if (!group) return group.error();
  std::size_t passed = 0, differ = 0;
  for (testing::KernelCase of : testing::kernel_cases()) {
    auto kernel = cuda::make_kernel(of.signature);
    if (!kernel) {
      report.line({{"refused", of.name}});
      continue;
    }
    const bool tensor_cores = of.signature.type.find("mm") != std::string::npos ||
                              of.signature.type.find("onv") != std::string::npos ||
                              of.signature.type == "MatMul" || of.signature.type == "Gemm";
    of.tolerance = std::max(of.tolerance, tensor_cores ? 3e-3 : 2e-5);  // TF32 has 10 bits.
    std::string failure;
    const auto on = on_device(*std::move(kernel), of.signature, session, (**group)[0], failure);
    const auto run = testing::run_kernel(*on, of, kNaNs), again = testing::run_kernel(*on, of, kNaNs);
    std::string differs = !failure.empty() ? failure : run.complaint + testing::difference(of, run.outputs);
    if (session.poisoned()) return failed(of.name + ": " + failure);
    // Sums by atomics may differ in the last bits.
    if (differs.empty() && run.outputs != again.outputs &&
        of.signature.type.find("embedding") == std::string::npos)
      differs = "a second run gave other bytes";
    for (std::size_t i = 0; differs.empty() && i < of.inputs.size(); ++i)
      if (on->may_overwrite(i) && testing::run_kernel(*on, of, kNaNs, i).outputs != run.outputs)
        differs = "over input " + std::to_string(i) + " it gave other bytes";
    ++(differs.empty() ? passed : differ);
    if (!differs.empty() && !rehearsing()) report.line({{"differs", of.name}, {"how", differs}});
  }
  report.expect((differ == 0 && passed > 460) || rehearsing(), "cases",
                "all agree with PyTorch, and more than 460",
                {{"passed", passed}, {"found", std::to_string(differ) + " differ"}});
  return Unit{};
}

namespace {

/// Initial values of five million elements of each type, byte by byte.
void compare_fills(cuda::Session& session, const cuda::LogicalDevice& device, Report& report) {
  std::string differing;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kI32, DType::kU8}) {
    const std::int64_t count = rehearsing() ? 1'000 : 5'000'000;
    const InitialFill fill{
        .dtype = dtype, .zeros = false, .elements = count, .stream = 7, .scale = 0.123, .shift = -0.4};
    testing::KernelCase of{.name = "initial values"};
    of.signature.outputs.push_back(Operand{dtype, {count}, {1}});
    of.outputs.emplace_back(static_cast<std::size_t>(count * element_bytes(dtype)));
    std::string failure;
    const auto expected = testing::run_kernel(*cuda::make_fill(fill), of, std::byte{0});
    const auto on = on_device(cuda::make_fill(fill), of.signature, session, device, failure);
    const auto run = testing::run_kernel(*on, of, std::byte{0xff});
    if (!failure.empty() || run.outputs != expected.outputs)
      differing += " " + std::to_string(static_cast<int>(dtype)) + failure;
  }
  report.expect(differing.empty() || rehearsing(), "initial values", "the host's bytes",
                {{"found", differing.empty() ? "equal" : "differ:" + differing}});
}

}  // namespace

Result<Unit> large_kernels(const Bundle&, Report& report) {
  constexpr std::byte kNaNs{0xff};
  const std::int64_t most = rehearsing() ? 10'000 : 50'000'000;
  cuda::Session session{api_in_use()};
  const auto devices = gpus(1, std::int64_t{4} << 30);
  auto group = cuda::DeviceGroup::make(session, *devices);
  if (!group) return group.error();
  compare_fills(session, (**group)[0], report);
  if (session.poisoned()) return failed(session.sticky_error().context);
  const SystemClock clock;
  const Nanos begin = clock.now();
  std::size_t tried = 0, differ = 0;
  for (std::uint64_t seed = 0; clock.now() - begin < std::chrono::seconds{rehearsing() ? 1 : 70};
       ++seed, ++tried) {
    Rng rng{seed, Purpose::kTest};
    // A tenth has the full size: the twins take a second for it.
    testing::KernelCase of = testing::random_case(rng, seed % 10 == 0 ? most : most / 50);
    auto kernel = cuda::make_kernel(of.signature);
    if (!kernel) return kernel.error();
    for (const Operand& out : of.signature.outputs)
      of.outputs.emplace_back(static_cast<std::size_t>(out.bytes()));
    std::string failure;
    const auto twin = *cuda::make_kernel(of.signature);
    of.outputs = testing::run_kernel(*twin, of, kNaNs).outputs;
    if (of.signature.type == "aten::mm") of.tolerance = 3e-3;  // TF32 has 10 bits.
    const auto on = on_device(*std::move(kernel), of.signature, session, (**group)[0], failure);
    const auto run = testing::run_kernel(*on, of, kNaNs);
    if (session.poisoned()) return failed(of.name + ": " + failure);
    const std::string differs =
        !failure.empty() ? failure : run.complaint + testing::difference(of, run.outputs);
    if (differs.empty() || rehearsing()) continue;
    ++differ;
    report.line({{"differs", of.name}, {"seed", seed}, {"how", differs}});
  }
  report.expect(differ == 0, "random signatures of up to 50 M elements", "all agree with their twins",
                {{"found", std::to_string(differ) + " of " + std::to_string(tried) + " differ"}});
  return Unit{};
}

Result<Unit> full_device(const Bundle& bundle, Report& report) {
  const auto graph = bundled_graph(bundle, "cifar10_cnn-bs128");
  if (!graph) return graph.error();
  const SystemClock clock;
  const Placement alone(graph->num_ops(), DeviceId{0});
  Measurement roomy, tight;
  std::int64_t peak = 0;
  {
    const auto devices = gpus(1, std::int64_t{4} << 30);
    auto executor = cuda::CudaExecutor::make(*graph, *devices, {}, clock, api_in_use());
    if (!executor) return executor.error();
    if (auto done = (*executor)->measure(alone, roomy); !done) return done.error();
    peak = roomy.peak_bytes.at(0);
  }
  const auto devices = gpus(1, peak * 9 / 10);
  auto executor = cuda::CudaExecutor::make(*graph, *devices, {}, clock, api_in_use());
  if (!executor) return executor.error();
  int full = 0;
  for (int i = 0; i < 100; ++i) {
    if (auto done = (*executor)->measure(alone, tight); !done) return done.error();
    full += !tight.valid && tight.failure.starts_with("oom: ");
  }
  cuda::Session session{api_in_use()};
  void* memory = nullptr;
  const auto asked = session.check(session.api().runtime.Malloc(&memory, std::size_t{1} << 50), "cudaMalloc");
  const bool went_on =
      !session.poisoned() && session.check(session.api().runtime.DeviceSynchronize(), "after").ok();
  report.expect(full == 100, "arena", "100 of 100 placements out of memory",
                {{"found", full}, {"peak_bytes", peak}, {"failure", tight.failure}});
  const std::string answer = asked ? "succeeded" : asked.error().context;
  report.expect((answer.find("(2)") != std::string::npos && went_on) || rehearsing(),
                "cudaMalloc of a pebibyte", "cudaErrorMemoryAllocation (2), and the process continues",
                {{"found", answer}, {"went_on", went_on}});
  return Unit{};
}

Result<Unit> poison(const Bundle&, Report& report) {
  cuda::Session session{api_in_use()};
  const auto devices = gpus(1, 1 << 20);
  auto group = cuda::DeviceGroup::make(session, *devices);
  if (!group) return group.error();
  if (auto done = cuda::enqueue_illegal_access((**group)[0].lane()); !done) return done.error();
  if (auto done = (*group)->synchronize(); !done) return done.error();
  report.expect(false, "illegal access", "a lost device", {{"found", "nothing happened"}});
  return Unit{};
}

Result<Unit> illegal_access(const Bundle& bundle, Report& report) {
  std::string program = bundle.program, check = "--check", name = "poison";
  char* const arguments[] = {program.data(), check.data(), name.data(), nullptr};
  pid_t child = 0;
  int status = 0;
  posix_spawn_file_actions_t actions;  // The child's standard output is not this check's result.
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  const int started = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (started != 0) return failed("a child could not be started");
  ::waitpid(child, &status, 0);
  cuda::Session session{api_in_use()};
  const bool well = session.check(session.api().runtime.DeviceSynchronize(), "after").ok();
  const int ended = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  report.expect((ended == 75 && well) || rehearsing(), "illegal access in a child",
                "status 75, and this process continues", {{"found", ended}, {"goes_on", well}});
  return Unit{};
}

Result<Unit> green_contexts(const Bundle&, Report& report) {
  for (const std::size_t parts : {2u, 4u}) {
    cuda::Session session{api_in_use()};
    const auto devices = gpus(parts, 1 << 20);
    auto group = cuda::DeviceGroup::make(session, *devices, 1);
    if (!group) return group.error();
    const bool isolated = (*group)->isolation() == cuda::Isolation::kGreenContexts;
    json one{{"isolated", isolated}, {"why_not", (*group)->why_not_isolated()}};
    bool as_promised = true;
    constexpr int kWords = 16;
    std::vector<std::uint32_t> all(kWords, 0);
    bool overlap = false;
    for (std::size_t d = 0; d < parts; ++d) {
      const cuda::LogicalDevice& device = (**group)[d];
      std::vector<std::uint32_t> seen(kWords, 0);
      const auto run = [&]() -> Result<Unit> {
        if (auto done = device.make_current(); !done) return done;
        const auto& runtime = session.api().runtime;
        const cudaStream_t stream = device.stream(cuda::StreamKind::kCompute);
        if (auto done = session.check(runtime.MemsetAsync(device.memory(), 0, kWords * 4, stream), "clear");
            !done)
          return done;
        if (auto done = cuda::enqueue_note_processors(
                device.lane(), reinterpret_cast<std::uint32_t*>(device.memory()), kWords);
            !done)
          return done;
        if (auto done = session.check(
                runtime.MemcpyAsync(seen.data(), device.memory(), kWords * 4, cudaMemcpyDeviceToHost, stream),
                "read");
            !done)
          return done;
        return session.check(runtime.StreamSynchronize(stream), "wait");
      };
      if (auto done = run(); !done) return done.error();
      int count = 0;
      for (int w = 0; w < kWords; ++w) {
        count += std::popcount(seen[w]);
        overlap |= (all[w] & seen[w]) != 0;
        all[w] |= seen[w];
      }
      as_promised &= count == device.processors();
      one["devices"].push_back({{"promised", device.processors()}, {"reached", count}});
    }
    one["overlap"] = overlap;
    report.expect((isolated && as_promised && !overlap) || rehearsing(), std::to_string(parts) + " parts",
                  "isolated, each reaches what it was promised, no overlap", std::move(one));
  }
  return Unit{};
}

}  // namespace emplace::gpu_check
