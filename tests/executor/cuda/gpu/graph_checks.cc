// What graphs cost on the device, and how well that is foretold.
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/statistics.h"
#include "executor/cuda/cuda_executor.h"
#include "executor/sim/simulator.h"
#include "executor/timing.h"
#include "graph/formats/emplace_graph.h"
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

/// A chain of ops that do next to nothing, all on one device or in turn on two.
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

Result<std::string> dispatch_overhead(const Bundle&) {
  json out = json::object();
  const SystemClock clock;
  for (const std::uint32_t length : {1000u, 5000u}) {
    const OpGraph graph = tiny_chain(length);
    for (const std::size_t count : {1u, 2u}) {
      const auto devices = gpus(count, kGiB);
      auto executor = cuda::CudaExecutor::make(graph, *devices, {}, clock, api_in_use(), 1);
      if (!executor) return executor.error();
      Placement placement(graph.num_ops(), DeviceId{0});
      for (std::size_t i = 0; i < placement.size(); ++i)
        placement[i] = static_cast<DeviceId>(i * count * 10 / placement.size() % count);
      Measurement m;
      if (auto done = (*executor)->measure(placement, m); !done) return done.error();
      out[std::to_string(length) + " ops on " + std::to_string(count)] = {
          {"us_per_op", m.step_time_s * 1e6 / length},
          {"samples_s", m.samples_s},
          {"events_over_host", (*executor)->clock_ratio()}};
    }
  }
  return out.dump(1);
}

Result<std::string> step_times(const Bundle& bundle) {
  json out = json::object();
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
    out[name] = facts(m);
    out[name]["events_over_host"] = (*executor)->clock_ratio();
    out[name]["synthetic_types"] = (*executor)->synthetic_types();
    out[name]["notes"] = (*executor)->notes();
  }
  return out.dump(1);
}

Result<std::string> verification(const Bundle& bundle) {
  json out = json::object();
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
    out[name] = {{"agree", verified->identical},
                 {"compared", verified->compared},
                 {"skipped", verified->skipped},
                 {"first_difference", verified->first_difference}};
  }
  return out.dump(1);
}

Result<std::string> profiles(const Bundle& bundle) {
  json out = json::object();
  const SystemClock clock;
  for (const char* name :
       {"resnet50-bs32", "inception_v3-bs32", "transformer_base-bs2-seq40", "nmt-2layer-bs64"}) {
    if (rehearsing() && out.size() == 1) break;
    const auto graph = bundled_graph(bundle, name);
    if (!graph) return graph.error();
    const auto devices = gpus(1, 32 * kGiB);
    auto executor = cuda::CudaExecutor::make(*graph, *devices, {}, clock, api_in_use(), 1);
    if (!executor) return executor.error();
    const auto profile = (*executor)->profile();
    if (!profile) return profile.error();
    json ops = json::object();
    for (const OpCost& cost : profile->ops[0])
      ops[signature_text(*graph, cost.op)] = {
          {"us", cost.us}, {"mad_us", cost.mad_us}, {"n", cost.samples}, {"synthetic", cost.synthetic}};
    double sum_us = 0;
    for (const OpCost& cost : profile->ops[0]) sum_us += cost.us;
    out[name] = {{"step_s", profile->step_time_s},
                 {"sum_of_ops_s", sum_us * 1e-6},
                 {"task_overhead_us", profile->task_overhead_us[0]},
                 {"ops", ops}};
  }
  return out.dump(1);
}

Result<std::string> placements(const Bundle& bundle) {
  json out = json::object();
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
    json rows = json::array();
    for (std::uint64_t i = 0; i < count; ++i) {  // Blocks of random length, from a handful of cuts to many.
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
      rows.push_back({{"measured_s", real.step_time_s},
                      {"simulated_s", model.step_time_s},
                      {"bytes_moved", real.bytes_moved}});
      measured.push_back(real.step_time_s), simulated.push_back(model.step_time_s);
    }
    const Agreement agrees = agreement(measured, simulated);
    out[name] = {
        {"placements", rows},        {"mape", agrees.error_mean},           {"spearman", agrees.spearman},
        {"kendall", agrees.kendall}, {"top5_overlap", agrees.top5_overlap}, {"notes", (*executor)->notes()}};
  }
  return out.dump(1);
}

}  // namespace emplace::gpu_check
