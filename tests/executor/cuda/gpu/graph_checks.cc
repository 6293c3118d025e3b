// Costs of graphs on the device, and the accuracy of their predictions.
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/statistics.h"
#include "executor/cuda/cuda_executor.h"
#include "executor/sim/simulator.h"
#include "executor/timing.h"
#include "graph/formats/emplace/emplace_graph.h"
#include "graph/models/catalogue.h"
#include "placement/machine/signature_costs.h"
#include "tests/executor/cuda/gpu/checks.h"

namespace emplace::gpu_check {

using nlohmann::json;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

json facts(const Measurement& m) {
  json out{{"valid", m.valid},
           {"step_s", m.step_time_s},
           {"samples_s", m.samples_s},
           {"busy_s", m.busy_s},
           {"peak_bytes", m.peak_bytes},
           {"bytes_moved", m.bytes_moved},
           {"synthetic_share", m.synthetic_share}};
  if (!m.failure.empty()) out["failure"] = m.failure;
  return out;
}

/// A chain of ops with almost no work, all on one device or in turn on two.
OpGraph tiny_chain(std::uint32_t length) {
  OpGraphBuilder builder;
  builder.add({.name = "x", .type = "Input", .outputs = {{DType::kF32, {16}}}});
  for (std::uint32_t i = 0; i < length; ++i)
    builder.add({.name = "r" + std::to_string(i),
                 .type = "aten::relu",
                 .inputs = {{i, 0}},
                 .outputs = {{DType::kF32, {16}}}});
  return *std::move(builder).build();
}

/// The machine as it was measured: costs of ops by signature, the link, the overhead of a task.
Result<DeviceSet> calibrated(const OpGraph& graph, const ExecutorProfile& profile, std::size_t count,
                             std::int64_t bytes) {
  std::vector<SignatureCosts::Entry> entries;
  for (const OpCost& cost : profile.ops.at(0))
    entries.push_back({signature_hash(graph, cost.op), cost.us + profile.task_overhead_us.at(0)});
  Profile measured = *find_profile("h200");
  measured.costs = std::make_shared<const SignatureCosts>(std::move(entries));
  std::vector<Device> devices;
  for (std::size_t i = 0; i < count; ++i)
    devices.push_back({"gpu:" + std::to_string(i), measured, bytes, ""});
  const Link link = profile.links.empty() ? Link{2.5e10, 2e-5}
                                          : Link{profile.links[0].bytes_per_s, profile.links[0].latency_s};
  return DeviceSet::make(std::move(devices), link);
}

}  // namespace

Result<OpGraph> bundled_graph(const Bundle& bundle, const std::string& name) {
  if (name == "inception_v3-bs32")
    return models::model_graph(*models::find_model("inception-v3"), {.batch = 32}, {.training = true});
  const auto bytes = read_file(bundle.folder / "graphs" / (name + ".json"));
  if (!bytes) return bytes.error();
  return read_emplace_graph(*bytes, name);
}

namespace {

/// Times a chain of tiny ops on parts of one GPU, enqueued one by one or replayed as a graph.
Result<Unit> time_chain(std::uint32_t length, std::size_t count, bool capture, Report& report) {
  const SystemClock clock;
  const OpGraph graph = tiny_chain(length);
  const auto devices = gpus(count, kGiB);
  RealOptions options;
  options.timing.capture = capture;
  auto executor = cuda::CudaExecutor::make(graph, *devices, options, clock, api_in_use(), 1);
  if (!executor) return executor.error();
  Placement placement(graph.num_ops(), DeviceId{0});
  for (std::size_t i = 0; i < placement.size(); ++i)
    placement[i] = static_cast<DeviceId>(i * count * 10 / placement.size() % count);
  Measurement m;
  if (auto done = (*executor)->measure(placement, m); !done) return done.error();
  const double us = m.step_time_s * 1e6 / length;
  report.expect(us < 10 || rehearsing(),
                std::to_string(length) + " ops on " + std::to_string(count) + (capture ? ", captured" : ""),
                "below 10 us per op",
                {{"found", us},
                 {"us_per_op", us},
                 {"samples_s", m.samples_s},
                 {"enqueue_s", (*executor)->enqueue_s()},
                 {"notes", (*executor)->notes()},
                 {"events_over_host", (*executor)->clock_ratio()}});
  return Unit{};
}

}  // namespace

Result<Unit> dispatch_overhead(const Bundle& bundle, Report& report) {
  const SystemClock clock;
  for (const std::uint32_t length : {1000u, 5000u})
    for (const std::size_t count : {1u, 2u})
      for (const bool capture : {false, true}) EMPLACE_TRY(time_chain(length, count, capture, report));
  const auto graph = bundled_graph(bundle, "nmt-2layer-bs64");
  if (!graph) return graph.error();
  const auto devices = gpus(2, 8 * kGiB);
  RealOptions once;
  once.timing = {.warmups = 0, .samples = 1, .most_samples = 1};
  auto executor = cuda::CudaExecutor::make(*graph, *devices, once, clock, api_in_use(), 1);
  if (!executor) return executor.error();
  Placement halves(graph->num_ops(), DeviceId{0});
  std::fill(halves.begin() + static_cast<std::ptrdiff_t>(halves.size() / 2), halves.end(), DeviceId{1});
  double least_s = 1e9;
  for (int i = 0; i < (rehearsing() ? 3 : 10); ++i) {
    Measurement m;
    if (auto done = (*executor)->measure(halves, m); !done) return done.error();
    least_s = std::min(least_s, (*executor)->prepare_s());
  }
  report.expect(least_s < 0.03 || rehearsing(), "planning NMT-2 on 2 devices", "below 30 ms",
                {{"found", least_s}, {"ops", graph->num_ops()}, {"prepare_s", least_s}});
  return Unit{};
}

Result<Unit> step_times(const Bundle& bundle, Report& report) {
  const SystemClock clock;
  for (const char* name : {"resnet50-bs32", "nmt-2layer-bs64"}) {
    const auto graph = bundled_graph(bundle, name);
    if (!graph) return graph.error();
    const auto devices = gpus(1, 32 * kGiB);
    auto executor = cuda::CudaExecutor::make(*graph, *devices, {}, clock, api_in_use(), 1);
    if (!executor) return executor.error();
    Measurement m;
    if (auto done = (*executor)->measure(Placement(graph->num_ops(), DeviceId{0}), m); !done)
      return done.error();
    json one = facts(m);
    one["events_over_host"] = (*executor)->clock_ratio();
    one["enqueue_s"] = (*executor)->enqueue_s();
    one["synthetic_types"] = (*executor)->synthetic_types();
    one["notes"] = (*executor)->notes();
    report.expect(m.valid && (*executor)->synthetic_types().empty(), name, "a step without stand-ins",
                  std::move(one));
  }
  return Unit{};
}

Result<Unit> verification(const Bundle& bundle, Report& report) {
  const SystemClock clock;
  for (const char* name : {"cifar10_cnn-bs128", "transformer_base-bs2-seq40", "resnet50-bs2"}) {
    const auto graph = bundled_graph(bundle, name);
    if (!graph) return graph.error();
    const auto devices = gpus(2, 16 * kGiB);
    auto executor = cuda::CudaExecutor::make(*graph, *devices, {}, clock, api_in_use(), 1);
    if (!executor) return executor.error();
    Rng rng{1, Purpose::kTest};
    Placement placement(graph->num_ops());
    for (DeviceId& device : placement) device = static_cast<DeviceId>(rng.below(2));
    const auto verified = (*executor)->verify(placement);
    if (!verified) return verified.error();
    report.expect(verified->identical && verified->skipped == 0, name,
                  "two devices agree with one, nothing skipped",
                  {{"found", verified->identical ? "agree" : "differ at " + verified->first_difference},
                   {"compared", verified->compared},
                   {"skipped", verified->skipped}});
  }
  return Unit{};
}

Result<Unit> shared_gpu(const Bundle& bundle, Report& report) {
  const SystemClock clock;
  const auto graph = bundled_graph(bundle, "cifar10_cnn-bs128");
  if (!graph) return graph.error();
  const Link wanted{.bytes_per_s = 12e9, .latency_s = 10e-6, .shaped = true};  // PCIe 3.
  const auto devices = gpus(2, 8 * kGiB, wanted);
  auto executor = cuda::CudaExecutor::make(*graph, *devices, {}, clock, api_in_use(), 1);
  if (!executor) return executor.error();
  const auto profile = (*executor)->profile();
  if (!profile) return profile.error();
  for (const LinkCost& link : profile->links) {
    const double rate = link.bytes_per_s / wanted.bytes_per_s,
                 late_us = (link.latency_s - wanted.latency_s) * 1e6;
    report.expect((rate > 0.9 && rate < 1.1 && late_us > -1 && late_us < 10) || rehearsing(),
                  "shaped link from " + std::to_string(index(link.source)),
                  "12 GB/s to a tenth, and 10 us or up to 10 us more",
                  {{"found", link.bytes_per_s}, {"latency_us", link.latency_s * 1e6}});
  }
  for (std::size_t d = 0; d < profile->corun.size(); ++d)
    report.expect((profile->corun[d] > 0.95 && profile->corun[d] < 4) || rehearsing(),
                  "device " + std::to_string(d) + " while the other one is busy",
                  "1 to 4 times as long as alone", {{"found", profile->corun[d]}});
  report.line({{"notes", (*executor)->notes()}});
  return Unit{};
}

Result<Unit> profiles(const Bundle& bundle, Report& report) {
  const SystemClock clock;
  for (const char* name :
       {"resnet50-bs32", "inception_v3-bs32", "transformer_base-bs2-seq40", "nmt-2layer-bs64"}) {
    if (rehearsing() && std::string_view{name} != "resnet50-bs32") break;
    const auto graph = bundled_graph(bundle, name);
    if (!graph) return graph.error();
    const auto devices = gpus(1, 32 * kGiB);
    auto executor = cuda::CudaExecutor::make(*graph, *devices, {}, clock, api_in_use(), 1);
    if (!executor) return executor.error();
    const auto profile = (*executor)->profile();
    if (!profile) return profile.error();
    std::set<std::string> seen;
    for (const OpCost& cost : profile->ops[0]) {
      const std::string signature = signature_text(*graph, cost.op);
      if (seen.insert(signature).second)
        report.line({{"network", name},
                     {"signature", signature},
                     {"us", cost.us},
                     {"hot_us", cost.hot_us},
                     {"cold_us", cost.cold_us},
                     {"mad_us", cost.mad_us},
                     {"n", cost.samples},
                     {"synthetic", cost.synthetic}});
    }
    double sum_us = 0;
    for (const OpCost& cost : profile->ops[0]) sum_us += cost.us;
    report.expect(sum_us * 1e-6 < profile->step_time_s * 1.1 || rehearsing(), name,
                  "the ops take no longer than the step, to a tenth",
                  {{"found", sum_us * 1e-6 / profile->step_time_s},
                   {"whole_step_s", profile->step_time_s},
                   {"sum_of_ops_s", sum_us * 1e-6},
                   {"task_overhead_us", profile->task_overhead_us[0]},
                   {"task_host_us", profile->task_host_us[0]}});
  }
  return Unit{};
}

Result<Unit> placements(const Bundle& bundle, Report& report) {
  const SystemClock clock;
  const std::uint64_t count = rehearsing() ? 3 : 50;
  for (const char* name : {"resnet50-bs32", "transformer_base-bs2-seq40"}) {
    const auto graph = bundled_graph(bundle, name);
    if (!graph) return graph.error();
    const auto plain = gpus(2, 16 * kGiB);
    auto executor = cuda::CudaExecutor::make(*graph, *plain, {}, clock, api_in_use(), 1);
    if (!executor) return executor.error();
    const auto profile = (*executor)->profile();
    if (!profile) return profile.error();
    const auto machine = calibrated(*graph, *profile, 2, 16 * kGiB);
    if (!machine) return machine.error();
    Simulator simulator{*graph, *machine};
    std::vector<double> measured, simulated;
    for (std::uint64_t i = 0; i < count; ++i) {  // Blocks of random length, from few cuts to many.
      Rng rng{i, Purpose::kTest};
      Placement placement(graph->num_ops());
      const auto most = static_cast<std::uint32_t>(2 + graph->num_ops() / (1 + rng.below(40)));
      for (std::size_t op = 0, end = 0, side = rng.below(2); op < placement.size(); ++op) {
        if (op == end) end = op + 1 + rng.below(most), side ^= 1;
        placement[op] = static_cast<DeviceId>(side);
      }
      Measurement real, model;
      if (auto done = (*executor)->measure(placement, real); !done) return done.error();
      if (auto done = simulator.measure(placement, model); !done) return done.error();
      report.line({{"network", name},
                   {"measured_s", real.step_time_s},
                   {"simulated_s", model.step_time_s},
                   {"enqueue_s", (*executor)->enqueue_s()},
                   {"bytes_moved", real.bytes_moved}});
      measured.push_back(real.step_time_s), simulated.push_back(model.step_time_s);
    }
    const Agreement agrees = agreement(measured, simulated);
    // Below it the simulator must not choose which placements are measured.
    report.expect(agrees.spearman >= 0.9 || rehearsing(), name, "rank correlation (Spearman) of 0.9 or more",
                  {{"found", agrees.spearman},
                   {"count", count},
                   {"mape", agrees.error_mean},
                   {"spearman", agrees.spearman},
                   {"kendall", agrees.kendall},
                   {"top5_overlap", agrees.top5_overlap},
                   {"notes", (*executor)->notes()}});
  }
  return Unit{};
}

}  // namespace emplace::gpu_check
