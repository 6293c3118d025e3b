// The table of op times that every command makes once: 82,619 ops, a training step of an NMT model of 8
// layers as TensorFlow 1 builds it, on 8 unlike devices. Budget: at most 1.3 times the table of version 1
// before there was another; the programs run in turn.
//
// Counter sum_s: all times of the table.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "graph/models/catalogue.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/machine_text.h"

namespace emplace {
namespace {

constexpr std::string_view kEight = "h100, a100_80, v100_32, t4, l40s, rtx4090, mi300x, epyc9654";

/// Arguments: the version, and the LSTM layers of the model.
void BM_CostTable(benchmark::State& state) {
  const models::ModelSizes sizes{.layers = state.range(1)};
  const OpGraph graph = models::model_graph(*models::find_model("nmt"), sizes,
                                            {.granularity = models::Granularity::kTensorFlow})
                            .value();
  const DeviceSet devices = parse_machine(kEight, {}, static_cast<CostVersion>(state.range(0))).value();
  std::optional<CostTable> costs;
  for (auto _ : state) costs.emplace(graph, devices);
  std::int64_t sum_ns = 0;
  for (std::uint32_t device = 0; device < devices.size(); ++device) {
    const auto row = costs->row_ns(static_cast<DeviceId>(device));
    sum_ns = std::accumulate(row.begin(), row.end(), sum_ns);
  }
  state.SetLabel(std::string{graph.name()});
  state.counters["ops"] = static_cast<double>(graph.num_ops());
  state.counters["sum_s"] = static_cast<double>(sum_ns) * 1e-9;
}
BENCHMARK(BM_CostTable)
    ->ArgsProduct({{1, 2}, {1, 8}})
    ->ArgNames({"version", "layers"})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace emplace

BENCHMARK_MAIN();
