#include "lab/worlds/generate_worlds.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/clock.h"
#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "lab/worlds/world.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/json_text.h"
#include "launcher/terminal/setting_options.h"
#include "launcher/terminal/stop_signal.h"

namespace emplace::lab {
namespace {

namespace fs = std::filesystem;
using launcher::Console;
using launcher::ExitStatus;
using launcher::Json;
using launcher::json_text;
using launcher::LiveView;
using launcher::parse_whole;
using launcher::stopped_by;
using launcher::StopSignal;
using launcher::WorldsRequest;

constexpr std::uint32_t kMaxWorld = 99'999'999, kMaxWorlds = 1'000'000, kLeastMostOps = 200,
                        kMaxMostOps = 200'000;

Json world_facts(const World& world, std::uint32_t number, const std::string& path) {
  return {{"number", number},
          {"output", path},
          {"graph", world.graph.name()},
          {"graph_sha256", graph_sha256(world.graph)},
          {"devices_sha256", world.devices.sha256()},
          {"family", world.family},
          {"training", world.training},
          {"ops", world.graph.num_ops()},
          {"devices", world.devices.size()},
          {"kinds", world.kinds},
          {"memory", world.memory},
          {"fits", world.fits}};
}

Result<ExitStatus> one_world(Console& console, const WorldsRequest& request, const WorldOptions& options) {
  EMPLACE_TRY_ASSIGN(const auto number, parse_whole("--index", request.index, 0, kMaxWorld));
  EMPLACE_TRY_ASSIGN(const auto world, make_world(options, number));
  EMPLACE_TRY(save_graph(world.graph, request.output));
  console.print(console.json() ? json_text(world_facts(world, number, request.output))
                               : fmt::format("{}: {}, {} ops on {} devices, {} memory",
                                             printable(request.output), world.graph.name(),
                                             world.graph.num_ops(), world.devices.size(), world.memory));
  return ExitStatus::kDone;
}

Result<ExitStatus> many_worlds(Console& console, const WorldsRequest& request, const WorldOptions& options) {
  EMPLACE_TRY_ASSIGN(const auto count, parse_whole("--count", request.count, 1, kMaxWorlds));
  std::uint32_t first = 0;
  if (!request.first.empty()) {
    EMPLACE_TRY_ASSIGN(first, parse_whole("--first", request.first, 0, kMaxWorld - kMaxWorlds));
  }
  const fs::path folder{request.output};
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder, error))
    return Error{Errc::kIo, printable(request.output) + ": cannot be created; check that it is no file"};
  const SystemClock clock;
  const StopSignal stop;
  LiveView view = console.live_view(clock);
  auto made = Json::array();
  std::uint32_t written = 0;
  for (std::uint32_t k = 0; k < count; ++k) {
    if (stop.received() != 0) return stopped_by(stop.received());
    const std::uint32_t number = first + k;
    const fs::path file = folder / fmt::format("world-{:06}.json.gz", number);
    const std::string line = fmt::format("generate: world {}, {} of {} written", number, k, count);
    if (view.due()) view.show(std::array{line}, line);
    if (fs::exists(file, error)) continue;
    EMPLACE_TRY_ASSIGN(const auto world, make_world(options, number));
    EMPLACE_TRY(save_graph(world.graph, file));
    ++written;
    if (console.json()) made.push_back(world_facts(world, number, file.string()));
  }
  view.clear();
  if (console.json()) {
    console.print(json_text(Json{{"output", request.output},
                                 {"seed", console.seed()},
                                 {"held_out", request.held_out},
                                 {"written", written},
                                 {"kept", count - written},
                                 {"worlds", made}}));
  } else {
    console.print(fmt::format("{}: {} worlds written, {} were there", printable(request.output), written,
                              count - written));
  }
  return ExitStatus::kDone;
}

}  // namespace

Result<ExitStatus> generate_worlds(Console& console, const WorldsRequest& request) {
  if (request.index.empty() == request.count.empty())
    return invalid("emplace generate worlds", "needs either --index or --count",
                   "--index 0 writes one world, --count 100 a folder of them");
  if (!request.first.empty() && request.count.empty())
    return invalid("--first", "is for --count", "remove it, or use --count");
  WorldOptions options{.seed = console.seed(), .held_out = request.held_out};
  if (!request.most_ops.empty()) {
    EMPLACE_TRY_ASSIGN(options.most_ops,
                       parse_whole("--most-ops", request.most_ops, kLeastMostOps, kMaxMostOps));
  }
  if (!request.traced.empty()) {
    EMPLACE_TRY_ASSIGN(options.traces, traces_of(request.traced, request.held_out));
  }
  return request.index.empty() ? many_worlds(console, request, options)
                               : one_world(console, request, options);
}

}  // namespace emplace::lab
