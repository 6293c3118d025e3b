#include "launcher/pretrained/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/text/toml_reader.h"
#include "base/text/words.h"
#include "executor/sim/simulator.h"
#include "graph/graph_file.h"
#include "heuristics/anneal.h"
#include "launcher/pretrained/pretrained.h"
#include "launcher/settings/inputs.h"
#include "placement/machine/cost_model.h"
#include "policy/optim/adam.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;
using policy::SchedulerDraw;
using policy::SchedulerDrawn;
using policy::SchedulerTrace;
using policy::ScheduleWorld;

constexpr double kCheckpointEvery_s = 30;
constexpr std::uint64_t kReportEvery = 100, kReportEvolutionEvery = 10;
constexpr double kNotFitting = 0.5;  // Added to the logarithm of the step time.

/// A graph on a machine to learn from. Not to be moved: what is made of it keeps references.
struct TrainWorld {
  explicit TrainWorld(Inputs given)
      : inputs{std::move(given)},
        costs{inputs.graph, inputs.devices},
        lowered{inputs.graph},
        simulator{inputs.graph, inputs.devices, inputs.judge.simulator} {
    worlds = schedule_worlds(problem(), lowered);
  }
  TrainWorld(const TrainWorld&) = delete;
  TrainWorld& operator=(const TrainWorld&) = delete;
  Problem problem() const { return {inputs.graph, inputs.devices, inputs.constraints, costs}; }
  /// Logarithm of the step time, with a penalty if the placement does not fit.
  Result<double> cost(const ScheduleWorld& world, const SchedulerDrawn& drawn) {
    Placement placement = world.placement_of(drawn.device_of_unit);
    inputs.constraints.repair(placement);
    EMPLACE_TRY(simulator.measure(placement, measurement));
    const double seconds =
        measurement.valid ? measurement.step_time_s : std::max(drawn.estimated_s, example_s);
    return std::log(std::max(1e-9, seconds)) + (measurement.valid ? 0 : kNotFitting);
  }

  const Inputs inputs;
  const CostTable costs;
  const LoweredGraph lowered;
  Simulator simulator;
  Measurement measurement;
  std::vector<ScheduleWorld> worlds;
  std::vector<std::vector<std::uint8_t>> example;  // [worlds][units]
  double example_s = 0;
  std::string file;
};

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
  auto world = std::make_unique<TrainWorld>(std::move(inputs));
  world->file = text;
  return world;
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments(std::span<const double> values) {
  Moments found;
  for (const double value : values) found.mean += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - found.mean) * (value - found.mean);
  found.deviation = std::sqrt(squares / static_cast<double>(values.size()));
  return found;
}

/// The best placement of the heuristics, improved by annealing. A function of the world and the seed.
Result<Found> find_example(const TrainWorld& world, std::uint64_t evaluations, std::uint64_t seed) {
  Problem problem = world.problem();
  problem.seed = seed;
  Simulator simulator{problem.graph, problem.devices, {.incremental = true}};
  Found best;
  for (const Method* method : all_methods()) {
    auto found = method->find(problem, simulator);
    if (!found && found.error().code != Errc::kNoPlacement) return found.error();
    if (found && (best.placement.empty() || better(found->measurement, best.measurement)))
      best = *std::move(found);
  }
  if (best.placement.empty()) return best;
  problem.limits.evaluations = best.evaluations + evaluations;
  problem.limits.starts = {&best, 1};
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
  for (const ScheduleWorld& each : world.worlds)
    world.example.push_back(each.renamed(each.units_of(placement)));
  return Unit{};
}

/// Calls `work(i)` for each i below `count` on several threads. Errors: the one of the lowest i.
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

/// What a world contributes to an update.
struct Part {
  policy::ParameterStore store;  // Its gradients.
  double cost = 0, example_cost = 0, loss = 0;
};

class Training {
 public:
  Training(const TrainRecipe& recipe, std::vector<std::unique_ptr<TrainWorld>> worlds, unsigned threads)
      : recipe_{recipe},
        worlds_{std::move(worlds)},
        threads_{threads},
        policy_{{static_cast<Eigen::Index>(recipe.embedding), static_cast<Eigen::Index>(recipe.hidden),
                 recipe.rounds},
                recipe.seed},
        adam_{{.clip_norm = recipe.clip_norm}},
        evolution_{{.clip_norm = 0}} {
    policy_.version = recipe.version;
  }

  std::uint64_t updates() const { return updates_; }
  SchedulerPolicy& policy() { return policy_; }

  /// Returns the loss of imitation, or the mean of log(step time / that of the example).
  Result<double> update() {
    if (evolves()) return evolve();
    const std::size_t count = recipe_.worlds_per_update;
    std::vector<Part> parts(count);
    EMPLACE_TRY(for_each(count, threads_, [&](std::size_t i) { return contribute(i, parts[i]); }));
    policy_.store.clear_gradients();
    double sum = 0;
    for (Part& part : parts) {
      const auto from = part.store.gradients();
      const auto to = policy_.store.gradients();
      for (std::size_t k = 0; k < from.size(); ++k) to[k] += from[k] / static_cast<float>(count);
      sum += imitates() ? part.loss : part.cost - part.example_cost;
    }
    const auto last =
        static_cast<double>(recipe_.updates - std::min(recipe_.updates, recipe_.evolution_updates));
    const auto first = static_cast<double>(recipe_.imitation_updates);
    const double done =
        std::clamp((static_cast<double>(updates_) - first) / std::max(1.0, last - first), 0.0, 1.0);
    const float rate = imitates()
                           ? recipe_.imitation_rate
                           : recipe_.learning_rate + static_cast<float>(done) *
                                                         (recipe_.learning_rate_end - recipe_.learning_rate);
    adam_.step(policy_.store, rate);
    ++updates_;
    return sum / static_cast<double>(count);
  }
  bool imitates() const { return updates_ < recipe_.imitation_updates; }
  bool evolves() const { return updates_ + recipe_.evolution_updates >= recipe_.updates; }

  Result<double> score(const std::vector<std::unique_ptr<TrainWorld>>& worlds) const {
    std::vector<double> logs(worlds.size());
    EMPLACE_TRY(for_each(worlds.size(), threads_, [&](std::size_t i) -> Result<Unit> {
      EMPLACE_TRY_ASSIGN(logs[i], greedy_cost(policy_, *worlds[i]));
      return Unit{};
    }));
    double sum = 0;
    for (const double each : logs) sum += each;
    return worlds.empty() ? 0 : std::exp(sum / static_cast<double>(worlds.size()));
  }
  const std::vector<std::unique_ptr<TrainWorld>>& worlds() const { return worlds_; }

  /// [u64 updates][hash of the recipe][parameters][u64 size][optimizer][optimizer of evolution]
  Bytes save(const std::string& recipe_hash) const {
    Bytes bytes;
    const auto put = [&](std::span<const std::byte> more) {
      bytes.insert(bytes.end(), more.begin(), more.end());
    };
    put(std::as_bytes(std::span{&updates_, 1}));
    put(std::as_bytes(std::span{recipe_hash}));
    put(policy_.store.bytes());
    const Bytes adam = adam_.save(), evolution = evolution_.save();
    const std::uint64_t size = adam.size();
    put(std::as_bytes(std::span{&size, 1}));
    put(adam);
    put(evolution);
    return bytes;
  }
  Result<Unit> load(std::span<const std::byte> bytes, const std::string& recipe_hash,
                    const std::string& where) {
    const std::size_t head = sizeof updates_ + recipe_hash.size(), floats = policy_.store.bytes().size();
    std::uint64_t size = 0;
    const std::size_t adam = head + floats + sizeof size;
    if (bytes.size() < adam) return invalid(where, "is damaged", "remove it to start again");
    if (std::memcmp(bytes.data() + sizeof updates_, recipe_hash.data(), recipe_hash.size()) != 0)
      return invalid(where, "belongs to another recipe", "remove it to start again, or choose another -o");
    std::memcpy(&updates_, bytes.data(), sizeof updates_);
    EMPLACE_TRY(policy_.store.load(bytes.subspan(head, floats)));
    std::memcpy(&size, bytes.data() + head + floats, sizeof size);
    if (size > bytes.size() - adam) return invalid(where, "is damaged", "remove it to start again");
    EMPLACE_TRY(adam_.load(bytes.subspan(adam, size), policy_.store.size()));
    return evolution_.load(bytes.subspan(adam + size), policy_.store.size());
  }

 private:
  /// One step against the gradient of the expected cost under changes of the output's weights. Whole
  /// placements by changed weights are compared on equal worlds; a world counts by the order of its costs.
  Result<double> evolve() {
    const std::size_t pairs = recipe_.evolution_pairs, tries = 2 * pairs;
    Rng rng{recipe_.seed, Purpose::kNoise, updates_};
    std::vector<std::uint32_t> order(worlds_.size());
    for (std::uint32_t k = 0; k < order.size(); ++k) order[k] = k;
    rng.shuffle(order);
    order.resize(std::min<std::size_t>(order.size(), recipe_.evolution_worlds));
    std::vector<SchedulerPolicy> changed(tries, policy_);
    std::vector<std::vector<float>> noise(pairs);
    for (std::size_t k = 0; k < pairs; ++k) {
      for (const policy::ParameterId id : policy_.network.outputs()) {
        policy::MatrixMap up = changed[2 * k].store.value(id), down = changed[2 * k + 1].store.value(id);
        for (Eigen::Index i = 0; i < up.size(); ++i) {
          const float z = rng.normal();
          noise[k].push_back(z);
          up.data()[i] += recipe_.evolution_deviation * z;
          down.data()[i] -= recipe_.evolution_deviation * z;
        }
      }
    }
    // [worlds][tries]
    std::vector<std::vector<double>> costs(order.size(), std::vector<double>(tries));
    EMPLACE_TRY(for_each(order.size(), threads_, [&](std::size_t w) -> Result<Unit> {
      TrainWorld& world = *worlds_[order[w]];
      for (std::size_t t = 0; t < tries; ++t) {
        EMPLACE_TRY_ASSIGN(costs[w][t], greedy_cost(changed[t], world));
      }
      return Unit{};
    }));
    std::vector<double> fitness(tries);
    double sum = 0;
    for (const std::vector<double>& each : costs) {
      const Moments of_costs = moments(each);
      sum += of_costs.mean;
      for (std::size_t t = 0; t < tries; ++t)
        fitness[t] += (each[t] - of_costs.mean) / (of_costs.deviation + 0.01);
    }
    policy_.store.clear_gradients();
    for (std::size_t k = 0; k < pairs; ++k) {
      const auto better = static_cast<float>((fitness[2 * k] - fitness[2 * k + 1]) /
                                             static_cast<double>(tries * order.size()));
      std::size_t n = 0;
      for (const policy::ParameterId id : policy_.network.outputs()) {
        policy::MatrixMap gradient = policy_.store.gradient(id);
        for (Eigen::Index i = 0; i < gradient.size(); ++i) gradient.data()[i] += better * noise[k][n++];
      }
    }
    // The other weights stay: their moments are left over from the updates before.
    policy::ParameterStore stepped = policy_.store;
    const auto left = static_cast<float>(recipe_.updates - updates_) /
                      static_cast<float>(std::min(recipe_.updates, recipe_.evolution_updates));
    evolution_.step(stepped, recipe_.evolution_rate * left);
    for (const policy::ParameterId id : policy_.network.outputs())
      policy_.store.value(id) = stepped.value(id);
    ++updates_;
    return sum / static_cast<double>(costs.size());
  }

  /// log(step time of the one placement / that of the example), with a penalty if it does not fit.
  static Result<double> greedy_cost(const SchedulerPolicy& policy, TrainWorld& world) {
    const Pretrained method{policy};
    EMPLACE_TRY_ASSIGN(const auto found, method.place(world.problem(), world.worlds, world.simulator));
    if (!found.measurement.valid) return std::log(3.0);
    return std::log(found.measurement.step_time_s / world.example_s);
  }

  /// Part `i` of the current update.
  Result<Unit> contribute(std::size_t i, Part& part) {
    // Each pass visits worlds in a new order; an update belongs to one pass, so its worlds differ.
    const std::uint64_t updates_per_pass = worlds_.size() / recipe_.worlds_per_update;
    const std::uint64_t visit = updates_ * recipe_.worlds_per_update + i;
    std::vector<std::uint32_t> order(worlds_.size());
    for (std::uint32_t k = 0; k < order.size(); ++k) order[k] = k;
    Rng shuffling{recipe_.seed, Purpose::kGraphs, updates_ / updates_per_pass};
    shuffling.shuffle(order);
    TrainWorld& world = *worlds_[order[updates_ % updates_per_pass * recipe_.worlds_per_update + i]];
    Rng rng{recipe_.seed, Purpose::kPlacing, visit};
    std::vector<std::size_t> small;
    for (std::size_t w = 0; w < world.worlds.size(); ++w)
      if (world.worlds[w].num_choices() <= recipe_.max_choices) small.push_back(w);
    part.store = policy_.store;
    part.store.clear_gradients();
    if (small.empty()) return Unit{};
    const std::size_t w = small[rng.below(static_cast<std::uint32_t>(small.size()))];
    const ScheduleWorld& view = world.worlds[w];
    const auto& network = policy_.network;
    const auto embedded = network.embed(part.store, view);
    policy::SchedulerNetwork::Flow flow;
    if (imitates()) {
      SchedulerTrace trace;
      network.draw(part.store, view, embedded, {.forced = world.example[w]}, &trace);
      part.loss = network.accumulate(part.store, embedded, trace, 1, 0, flow) /
                  std::max(1.0, static_cast<double>(trace.choices()));
    } else {
      EMPLACE_TRY(explore(world, w, embedded, rng, part, flow));
    }
    network.finish(part.store, view, embedded, std::move(flow));
    return Unit{};
  }

  Result<Unit> explore(TrainWorld& world, std::size_t w, const policy::SchedulerNetwork::Embedded& embedded,
                       Rng& rng, Part& part, policy::SchedulerNetwork::Flow& flow) {
    const ScheduleWorld& view = world.worlds[w];
    const std::size_t n = recipe_.samples;
    // Every third visit improves the best placement of an earlier half.
    const bool improves = rng.below(3) == 0 && n >= 4;
    std::vector<std::uint8_t> start;
    std::size_t first = 0;
    part.example_cost = std::log(world.example_s);
    for (const std::size_t end : improves ? std::vector{n / 2, n} : std::vector{n}) {
      std::vector<SchedulerTrace> traces(end - first);
      std::vector<double> costs;
      double least = 0;
      std::vector<std::uint8_t> best;
      for (std::size_t k = 0; k < traces.size(); ++k) {
        SchedulerDraw how{.rng = &rng, .start = start};
        const SchedulerDrawn drawn = policy_.network.draw(part.store, view, embedded, how, &traces[k]);
        EMPLACE_TRY_ASSIGN(const double cost, world.cost(view, drawn));
        costs.push_back(cost);
        part.cost += cost / static_cast<double>(n);
        if (best.empty() || cost < least) {
          least = cost;
          best = drawn.device_of_unit;
        }
      }
      const Moments of_costs = moments(costs);
      for (std::size_t k = 0; k < traces.size(); ++k) {
        const double advantage =
            std::clamp((of_costs.mean - costs[k]) / std::max(of_costs.deviation, 0.002), -3.0, 3.0);
        const double scale =
            std::sqrt(static_cast<double>(std::max<std::size_t>(1, traces[k].choices()))) / 4;
        const auto share = 1 / static_cast<double>(n);
        policy_.network.accumulate(part.store, embedded, traces[k],
                                   static_cast<float>(advantage * scale * share),
                                   recipe_.entropy * static_cast<float>(share), flow);
      }
      start = view.renamed(best);
      first = end;
    }
    return Unit{};
  }

  const TrainRecipe& recipe_;
  const std::vector<std::unique_ptr<TrainWorld>> worlds_;
  const unsigned threads_;
  SchedulerPolicy policy_;
  policy::Adam adam_, evolution_;
  std::uint64_t updates_ = 0;
};

Result<std::vector<std::unique_ptr<TrainWorld>>> open_worlds(const std::vector<std::string>& patterns,
                                                             const TrainRecipe& recipe,
                                                             const fs::path& folder, unsigned threads,
                                                             const char* what, const TrainEvents& events) {
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

}  // namespace

Result<TrainRecipe> load_recipe(const fs::path& path) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::load(path));
  TrainRecipe recipe;
  Settings settings;
  settings.add_section("train", "Recipe of a scheduler policy.", recipe);
  EMPLACE_TRY(read_settings(settings, std::move(document)));
  EMPLACE_TRY(check_ranges(settings));
  if (recipe.worlds.empty()) return invalid(path.string(), "names no worlds", "add train.worlds");
  for (auto* patterns : {&recipe.worlds, &recipe.held_out})
    for (std::string& pattern : *patterns) pattern = (path.parent_path() / pattern).string();
  return recipe;
}

Result<bool> train_scheduler(const TrainRecipe& recipe, const fs::path& output, unsigned threads,
                             const Clock& clock, const TrainEvents& events) {
  const fs::path folder = output.string() + ".examples", state = output.string() + ".state";
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return Error{Errc::kIo, folder.string() + ": cannot be created; choose another -o"};
  EMPLACE_TRY_ASSIGN(auto learned, open_worlds(recipe.worlds, recipe, folder, threads, "examples", events));
  EMPLACE_TRY_ASSIGN(const auto held_out,
                     open_worlds(recipe.held_out, recipe, folder, threads, "held-out examples", events));
  if (events.stopped()) return false;
  if (learned.size() < recipe.worlds_per_update)
    return invalid("train.worlds", std::to_string(learned.size()) + " worlds have a placement that fits",
                   "add worlds, or lower train.worlds_per_update");
  events.line(fmt::format("{} worlds to learn from, {} held out", learned.size(), held_out.size()));

  TrainRecipe copy = recipe;
  Settings settings;
  settings.add_section("train", "", copy);
  const std::string text = settings_toml(settings, false), hash = sha256_hex(std::as_bytes(std::span{text}));
  Training training{recipe, std::move(learned), threads};
  if (fs::exists(state, failed)) {
    EMPLACE_TRY_ASSIGN(const Bytes bytes, read_file(state));
    EMPLACE_TRY(training.load(bytes, hash, state.string()));
    events.line(fmt::format("continues after update {}", training.updates()));
  }
  Nanos saved = clock.now();
  double sum = 0;
  std::uint64_t summed = 0;
  const auto report = [&]() -> Result<Unit> {
    EMPLACE_TRY_ASSIGN(const double rho, training.score(held_out));
    events.line(fmt::format("update {} of {}: {} {:.4f}; held out, one placement: {:.4f} of the examples",
                            training.updates(), recipe.updates, training.imitates() ? "loss" : "log ratio",
                            summed == 0 ? 0 : sum / static_cast<double>(summed), rho));
    sum = 0;
    summed = 0;
    return Unit{};
  };
  EMPLACE_TRY(report());
  while (training.updates() < recipe.updates) {
    EMPLACE_TRY_ASSIGN(const double value, training.update());
    sum += value;
    ++summed;
    const bool stop = events.stopped();
    if (training.updates() % (training.evolves() ? kReportEvolutionEvery : kReportEvery) == 0)
      EMPLACE_TRY(report());
    if (stop || std::chrono::duration<double>(clock.now() - saved).count() > kCheckpointEvery_s) {
      EMPLACE_TRY(write_file(state, training.save(hash)));
      EMPLACE_TRY(write_file(output, training.policy().bytes()));
      saved = clock.now();
    }
    if (stop) return false;
  }
  EMPLACE_TRY(write_file(output, training.policy().bytes()));
  EMPLACE_TRY(write_file(state, training.save(hash)));
  return true;
}

}  // namespace emplace::launcher
