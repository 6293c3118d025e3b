// Cost of the screen of `emplace top`: a status of many nodes is sorted and drawn once a second, and drawn
// again for each key. Counter: lines of the frame. Floor: reading the keys of all nodes once; 10,000 nodes
// are 5 MB. Budget at 10,000 nodes: 30 ms a second for a status, and 1 ms for a key, so that a held key keeps
// up.

#include <benchmark/benchmark.h>

#include <chrono>
#include <string>

#include "launcher/screen/top_screen.h"

namespace emplace::launcher {
namespace {

constexpr ScreenSize kSize{.rows = 50, .columns = 200};

messages::StatusDelivered run_of(std::int64_t nodes) {
  messages::StatusDelivered status;
  status.run = "runs/nmt";
  for (std::int64_t i = 0; i < nodes; ++i) {
    messages::NodeStatus& node = status.nodes.emplace_back();
    const std::string number = std::to_string(i);
    node.report.node = "rack" + number;
    node.report.host = "host-" + number;
    node.report.actors = {{.name = "executor/" + number, .handled = 100},
                          {.name = "node/" + number, .handled = 9}};
    node.executors = 1;
    node.utilisation = static_cast<double>(i * 7'919 % 10'007) / 10'007;
    status.progress.dispatch.executors.push_back(
        {.executor = "executor/" + number, .utilisation = node.utilisation});
  }
  return status;
}

TopScreen screen_of(const messages::StatusDelivered& status, int sort) {
  TopScreen top{"", Terminal{.is_tty = true, .colour = true, .columns = kSize.columns}};
  top.update(status, Nanos{0});
  for (int i = 0; i < sort; ++i) top.press({Key::Kind::kText, "s"});
  return top;
}

/// Sorted by name (0), busy (1) or queue (3).
void BM_Status(benchmark::State& state) {
  const messages::StatusDelivered status = run_of(state.range(0));
  TopScreen top = screen_of(status, static_cast<int>(state.range(1)));
  std::size_t lines = 0;
  for (auto _ : state) {
    state.PauseTiming();
    messages::StatusDelivered next = status;  // As it is decoded from a message.
    state.ResumeTiming();
    top.update(std::move(next), Nanos{0});
    lines = top.lines(kSize, Nanos{0}).size();
  }
  state.counters["lines"] = static_cast<double>(lines);
}
BENCHMARK(BM_Status)->ArgsProduct({{100, 10'000}, {0, 1, 3}})->Unit(benchmark::kMillisecond);

void BM_Key(benchmark::State& state) {
  TopScreen top = screen_of(run_of(state.range(0)), 1);
  std::size_t lines = 0;
  for (auto _ : state) {
    top.press({Key::Kind::kDown, ""});
    lines = top.lines(kSize, Nanos{0}).size();
  }
  state.counters["lines"] = static_cast<double>(lines);
}
BENCHMARK(BM_Key)->Arg(100)->Arg(10'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace emplace::launcher

BENCHMARK_MAIN();
