// Cost of a graph before placement: generating, reading, hashing and grouping it. Budget: an 84k-op graph
// is generated in under 1 s and loads in under 1 s on one core, in every format.

#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/formats/graph_file.h"
#include "graph/grouping.h"
#include "graph/models/catalogue.h"
#include "graph/order.h"
#include "tests/graph/large_graph.h"

namespace {

using namespace emplace;

constexpr std::int64_t kSmall = 1000, kLarge = 83'712;

/// A graph file shipped with the benchmark.
class GraphFile {
 public:
  GraphFile(const OpGraph& graph, const std::string& ending)
      : path_{std::filesystem::temp_directory_path() / fmt::format("graph_bench.{}{}", ::getpid(), ending)} {
    save_graph(graph, path_).value();
  }
  ~GraphFile() { std::filesystem::remove(path_); }
  GraphFile(const GraphFile&) = delete;
  GraphFile& operator=(const GraphFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

void load(benchmark::State& state, const std::string& ending) {
  const OpGraph graph = testing::large_graph(static_cast<std::uint32_t>(state.range(0)));
  const GraphFile file{graph, ending};
  std::size_t edges = 0;
  for (auto _ : state) edges = load_graph(file.path()).value().num_edges();
  state.SetItemsProcessed(state.iterations() * state.range(0));  // ops/s
  state.counters["edges"] = static_cast<double>(edges);
  state.counters["file_bytes"] = static_cast<double>(std::filesystem::file_size(file.path()));
}
BENCHMARK_CAPTURE(load, json, ".json")->Arg(kSmall)->Arg(kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, json_gz, ".json.gz")->Arg(kSmall)->Arg(kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, json_zst, ".json.zst")->Arg(kSmall)->Arg(kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, msgpack, ".msgpack")->Arg(kSmall)->Arg(kLarge)->Unit(benchmark::kMillisecond);

/// NMT as built by TensorFlow with this many layers; 8 layers are 82,619 ops.
void BM_Generate(benchmark::State& state) {
  const models::ModelFacts& nmt = *models::find_model("nmt");
  const models::Recording recording{.granularity = models::Granularity::kTensorFlow, .training = true};
  std::size_t ops = 0;
  for (auto _ : state)
    ops = models::model_graph(nmt, {.layers = state.range(0)}, recording).value().num_ops();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ops));  // ops/s
  state.counters["ops"] = static_cast<double>(ops);
}
BENCHMARK(BM_Generate)->Arg(2)->Arg(8)->Unit(benchmark::kMillisecond);

/// Reads every file of the folder EMPLACE_PUBLISHED (tests/models/published_files.sh fetches some), with
/// the sizes in EMPLACE_SHAPE.
void BM_ReadFolder(benchmark::State& state) {
  const char* folder = std::getenv("EMPLACE_PUBLISHED");
  std::error_code error;
  if (folder == nullptr || !std::filesystem::is_directory(folder, error))
    return state.SkipWithError("EMPLACE_PUBLISHED is not a folder");
  const char* sizes = std::getenv("EMPLACE_SHAPE");
  ReadOptions options;
  if (sizes != nullptr && *sizes != 0) {
    const auto dims = parse_open_dims(std::vector<std::string>{sizes});
    if (!dims) return state.SkipWithError(dims.error().context.c_str());
    options.dims = *dims;
  }
  double accepted = 0, refused = 0, ops = 0, bytes = 0;
  for (auto _ : state) {
    accepted = refused = ops = bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{folder}) {
      if (!entry.is_regular_file()) continue;
      const auto graph = load_graph(entry.path(), options);
      (graph ? accepted : refused) += 1;
      ops += graph ? static_cast<double>(graph->num_ops()) : 0;
      bytes += static_cast<double>(entry.file_size());
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  state.counters["accepted"] = accepted;
  state.counters["refused"] = refused;
  state.counters["ops"] = ops;
}
BENCHMARK(BM_ReadFolder)->Unit(benchmark::kMillisecond);

void BM_Sha256(benchmark::State& state) {
  const OpGraph graph = testing::large_graph(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(graph_sha256(graph));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Sha256)->Arg(kSmall)->Arg(kLarge)->Unit(benchmark::kMillisecond);

void BM_MergeScopesTo64(benchmark::State& state) {
  const OpGraph graph = testing::large_graph(static_cast<std::uint32_t>(state.range(0)));
  const Grouping scopes = scope_groups(graph);
  const std::vector<double> weight = sum_by_group(scopes, std::vector<double>(graph.num_ops(), 1.0));
  std::size_t groups = 0;
  for (auto _ : state) groups = merge_small_groups(graph, scopes, weight, 64).num_groups;
  state.counters["scopes"] = static_cast<double>(scopes.num_groups);
  state.counters["groups"] = static_cast<double>(groups);
}
BENCHMARK(BM_MergeScopesTo64)->Arg(kSmall)->Arg(13'581)->Arg(kLarge)->Unit(benchmark::kMillisecond);

void BM_BreadthFirstIndex(benchmark::State& state) {
  const OpGraph graph = testing::large_graph(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(breadth_first_index(graph));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_BreadthFirstIndex)->Arg(kSmall)->Arg(kLarge)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
