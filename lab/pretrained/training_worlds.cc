#include "lab/pretrained/training_worlds.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "launcher/settings/schedule_worlds.h"
#include "solver/methods.h"
#include "solver/search/anneal.h"

namespace emplace::lab {
namespace {

namespace fs = std::filesystem;
using launcher::InputOptions;
using launcher::Inputs;
using launcher::open_inputs;
using launcher::schedule_worlds;

constexpr double kNotFitting = 0.5;  // Added to the logarithm of the step time.

Result<std::vector<std::string>> files_of(const std::string& pattern) {
  const std::size_t at = pattern.find(" @ ");
  const std::string machine = at == std::string::npos ? "" : pattern.substr(at);
  std::vector<std::string> files = matching_files(pattern.substr(0, at));
  if (files.empty()) return invalid(printable(pattern), "matches no graph file");
  for (std::string& file : files) file += machine;
  return files;
}

Result<std::unique_ptr<TrainWorld>> open_world(const std::string& text, std::uint64_t max_ops) {
  const std::size_t at = text.find(" @ ");
  InputOptions options;
  options.graph = text.substr(0, at);
  if (at != std::string::npos) options.devices = text.substr(at + 3);
  EMPLACE_TRY_ASSIGN(auto inputs, open_inputs(options));
  if (inputs.graph.num_ops() > max_ops) return std::unique_ptr<TrainWorld>{};
  inputs.judge.objective = Objective::kStepTime;
  return std::make_unique<TrainWorld>(std::move(inputs));
}

/// The best placement of the heuristics, improved by annealing. A function of the world and the seed.
Result<Answer> find_example(const TrainWorld& world, std::uint64_t evaluations, std::uint64_t seed) {
  Problem problem = world.problem();
  problem.seed = seed;
  Simulator simulator{problem.graph, problem.devices};
  Answer best;
  for (const Method* method : all_methods()) {
    auto found = method->find(problem, simulator);
    if (!found && found.error().code != Errc::kNoPlacement) return found.error();
    if (found && (best.placement.empty() || better(found->measurement, best.measurement)))
      best = *std::move(found);
  }
  if (best.placement.empty()) return best;
  problem.context.evaluations = best.evaluations + evaluations;
  problem.context.starts = {&best, 1};
  return Anneal{}.find(problem, simulator);
}

/// Loads or finds the example of a world. The file holds a device per op.
Result<Unit> give_example(TrainWorld& world, const TrainRecipe& recipe, const fs::path& folder) {
  const std::string key = graph_sha256(world.inputs.graph).substr(0, 16) + "-" +
                          world.inputs.devices.sha256().substr(0, 16) + "-" +
                          std::to_string(recipe.search_evaluations) + "-" + std::to_string(recipe.seed);
  const fs::path path = folder / key;
  Placement placement;
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    EMPLACE_TRY_ASSIGN(const Bytes bytes, read_file(path));
    for (const std::byte each : bytes) placement.push_back(static_cast<DeviceId>(each));
    if (!world.inputs.constraints.check(world.inputs.graph, world.inputs.devices, placement))
      placement.clear();
  }
  if (placement.empty()) {
    EMPLACE_TRY_ASSIGN(const auto found, find_example(world, recipe.search_evaluations, recipe.seed));
    if (found.placement.empty() || !found.measurement.valid) return Unit{};
    placement = found.placement;
    EMPLACE_TRY(write_file(path, std::as_bytes(std::span{placement})));
  }
  EMPLACE_TRY(world.simulator.measure(placement, world.measurement));
  world.example_s = world.measurement.step_time_s;
  for (const policy::ScheduleWorld& each : world.worlds)
    world.example.push_back(each.renamed(each.units_of(placement)));
  return Unit{};
}

}  // namespace

TrainWorld::TrainWorld(Inputs given)
    : inputs{std::move(given)},
      costs{inputs.graph, inputs.devices},
      lowered{inputs.graph},
      simulator{inputs.graph, inputs.devices, inputs.judge.simulator},
      worlds{schedule_worlds(problem(), lowered)} {}

Result<double> TrainWorld::cost(const policy::ScheduleWorld& world, const policy::SchedulerDrawn& drawn) {
  Placement placement = world.placement_of(drawn.device_of_unit);
  inputs.constraints.repair(placement);
  EMPLACE_TRY(simulator.measure(placement, measurement));
  const double seconds = measurement.valid ? measurement.step_time_s : std::max(drawn.estimated_s, example_s);
  return std::log(std::max(1e-9, seconds)) + (measurement.valid ? 0 : kNotFitting);
}

Result<Unit> for_each(std::size_t count, unsigned threads,
                      const std::function<Result<Unit>(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<Result<Unit>> results(count, Unit{});
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) results[i] = work(i);
  };
  {
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < threads; ++t) others.emplace_back(run);
    run();
  }
  for (Result<Unit>& each : results) EMPLACE_TRY(std::move(each));
  return Unit{};
}

Result<std::vector<std::unique_ptr<TrainWorld>>> open_training_worlds(
    const std::vector<std::string>& patterns, const TrainRecipe& recipe, const fs::path& folder,
    unsigned threads, const char* what, const TrainEvents& events) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    EMPLACE_TRY_ASSIGN(const auto found, files_of(pattern));
    files.insert(files.end(), found.begin(), found.end());
  }
  std::vector<std::unique_ptr<TrainWorld>> worlds(files.size());
  std::atomic<std::size_t> done = 0;
  EMPLACE_TRY(for_each(files.size(), threads, [&](std::size_t i) -> Result<Unit> {
    if (events.stopped()) return Unit{};
    EMPLACE_TRY_ASSIGN(worlds[i], open_world(files[i], recipe.max_ops));
    if (worlds[i]) EMPLACE_TRY(give_example(*worlds[i], recipe, folder));
    const std::size_t count = ++done;
    if (count % 20 == 0) events.line(fmt::format("{}: {} of {} worlds", what, count, files.size()));
    return Unit{};
  }));
  std::erase_if(worlds, [](const auto& world) { return !world || world->example.empty(); });
  return worlds;
}

}  // namespace emplace::lab
