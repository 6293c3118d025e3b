// Goal: thousands of executors join and leave at any time, over any link, and the run counts correctly and
// keeps them busy. Method: the real program: many joins at once, random joins, leaves and kills by a seed, a
// slow link with high latency through the fault proxy. EMPLACE_CHAOS=long takes five minutes.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <cstdlib>
#include <deque>
#include <memory>

#include "base/rng.h"
#include "tests/chaos/fault_proxy.h"
#include "tests/chaos/history.h"
#include "tests/clusters/up.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

const SystemClock g_clock;

bool long_form() {
  const char* const form = std::getenv("EMPLACE_CHAOS");
  return form != nullptr && std::string_view{form} == "long";
}

/// A run of random placements and executors that only wait, with enough placements in flight for `executors`.
Up::Options light_run(std::size_t executors, const std::string& delay) {
  return {
      .cluster = "[head]\nendpoint = \"tcp://127.0.0.1:*\"\ninsecure = true\n",
      .settings = {"policy.method=random", "executor.kind=fake", "executor.delay=" + delay,
                   "pipeline.max_outstanding=" + std::to_string(std::max<std::size_t>(8, executors / 2))}};
}

std::unique_ptr<Process> join(const std::string& address, const std::string& cache, std::size_t executors) {
  return std::make_unique<Process>(std::vector<std::string>{
      "join", address, "--insecure", "--executors", std::to_string(executors), "--cache", cache, "--quiet"});
}

/// Time in seconds until all have joined.
double join_storm(std::size_t nodes, std::size_t each) {
  const TemporaryFolder folder;
  Up up{folder, "run", light_run(nodes * each, "200ms")};
  EXPECT_NE(up.address(), "") << up.finish().err;
  const Nanos started = g_clock.now();
  std::vector<std::unique_ptr<Process>> joined;
  for (std::size_t i = 0; i < nodes; ++i)
    joined.push_back(join(up.address(), folder.at("cache" + std::to_string(i)), each));
  EXPECT_TRUE(
      up.wait_until_ps([&](const json& status) { return number(status, "executors") == nodes * each + 1; }));
  const double took_s = Seconds{g_clock.now() - started}.count();
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  EXPECT_EQ(number(summary, "duplicated"), 0u) << summary.dump(1);
  for (const auto& one : joined) EXPECT_EQ(one->finish().status, 0);
  std::printf("%zu nodes of %zu executors joined in %.2f s\n", nodes, each, took_s);
  return took_s;
}

TEST(Elastic, ThousandExecutorsJoinWithinFiveSeconds) { EXPECT_LT(join_storm(10, 100), 5.0); }

TEST(Elastic, FiftyNodesJoinWithinTenSeconds) { EXPECT_LT(join_storm(50, 2), 10.0); }

TEST(Elastic, RandomJoinsLeavesAndKillsLoseAndRepeatNothing) {
  const TemporaryFolder folder;
  const Seconds lasts{long_form() ? 300 : 8};
  Up up{folder, "run", light_run(100, "20ms")};
  ASSERT_NE(up.address(), "") << up.finish().err;
  Rng rng{20'261'121, Purpose::kTest};
  std::deque<std::unique_ptr<Process>> nodes;
  std::size_t joins = 0, leaves = 0, kills = 0;
  const Nanos end = g_clock.now() + std::chrono::duration_cast<Nanos>(lasts);
  while (g_clock.now() < end) {
    ::poll(nullptr, 0, static_cast<int>(rng.below(300)));
    const std::size_t one = nodes.empty() ? 0 : rng.below(static_cast<std::uint32_t>(nodes.size()));
    const double what = rng.uniform_double();
    if (nodes.size() < 3 || (what < 0.5 && nodes.size() < 12)) {
      nodes.push_back(
          join(up.address(), folder.at("cache" + std::to_string(joins++ % 4)), 1 + rng.below(10)));
      continue;
    }
    nodes[one]->send(what < 0.75 ? SIGTERM : SIGKILL);
    ++(what < 0.75 ? leaves : kills);
    const Finished gone = nodes[one]->finish();
    EXPECT_TRUE(gone.status == 143 || gone.status == 137) << gone.status << gone.err;
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(one));
  }
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  const json leases = summary.value("leases", json::object());
  EXPECT_EQ(number(leases, "issued"), number(leases, "counted") + number(leases, "open") +
                                          number(leases, "expired") + number(leases, "refused"))
      << summary.dump(1);
  const History history = check_history(up.directory(), 2);
  EXPECT_EQ(history.violations, std::vector<std::string>{});
  EXPECT_EQ(history.missing_episodes, 0u);
  EXPECT_EQ(history.episodes, number(summary, "episodes"));
  EXPECT_GT(history.episodes, 100u);
  std::printf("%zu joins, %zu leaves, %zu kills; %llu episodes, %llu leases expired\n", joins, leaves, kills,
              static_cast<unsigned long long>(history.episodes),
              static_cast<unsigned long long>(number(leases, "expired")));
}

/// A graph of layers of ten ops, each with two inputs from the layer before.
std::string layered_graph(const TemporaryFolder& folder, int ops) {
  std::string text =
      R"({"format": "emplace-graph v1", "name": "layered", "source": "test", "meta": {}, "ops": [)";
  for (int i = 0; i < ops; ++i) {
    const int layer = i / 10;
    std::string inputs;
    if (layer > 0)
      inputs = "[" + std::to_string((layer - 1) * 10 + i % 10) + ", 0], [" +
               std::to_string((layer - 1) * 10 + (i * 7 + 3) % 10) + ", 0]";
    text +=
        std::string{i > 0 ? ",\n" : ""} + R"({"id": )" + std::to_string(i) + R"(, "name": "op)" +
        std::to_string(i) + R"(", "type": "aten::mm", "inputs": [)" + inputs +
        R"(], "outputs": [{"dtype": "f32", "shape": [64, 64]}], "attrs": {}, "flops": 524288, "param_bytes": 0})";
  }
  return folder.file("layered.json", text + "]}\n");
}

TEST(Elastic, SlowLinkKeepsExecutorsBusy) {
  const TemporaryFolder folder;
  Up::Options options = light_run(8, "1s");
  options.settings.insert(options.settings.end(),
                          {"input.graph=" + layered_graph(folder, 25'000), "pipeline.placements_per_lease=1",
                           "pipeline.max_outstanding=16"});
  Up up{folder, "run", options};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto port = static_cast<std::uint16_t>(std::stoul(up.address().substr(up.address().rfind(':') + 1)));
  auto proxy = FaultProxy::make(0, port, 1);
  ASSERT_TRUE(proxy.ok());
  for (const auto way : {FaultProxy::kUp, FaultProxy::kDown})
    (*proxy)->set(way, {.delay = std::chrono::milliseconds{50}, .bytes_per_s = 20'000'000 / 8});
  const auto far = join("tcp://127.0.0.1:" + std::to_string((*proxy)->port()), folder.at("cache"), 8);
  const auto far_node = [](const json& status) {
    for (const json& node : status.value("nodes", json::array()))
      if (node.value("node", "") != "head" && number(node, "executors") == 8) return node;
    return json::object();
  };
  const std::uint64_t enough = long_form() ? 8 * 60 : 8 * 9;
  ASSERT_TRUE(up.wait_until_ps(
      [&](const json& status) { return number(far_node(status), "measurements") >= enough; }, Seconds{120}));
  const json node = far_node(up.ps());
  std::printf("utilisation %.3f over a line of 50 ms and 20 Mbit/s each way\n",
              node.value("utilisation", 0.0));
  EXPECT_GE(node.value("utilisation", 0.0), 0.9) << node.dump(1);
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  EXPECT_EQ(number(summary, "lost"), 0u) << summary.dump(1);
}

}  // namespace
}  // namespace emplace::testing
