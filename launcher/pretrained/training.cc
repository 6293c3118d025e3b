#include "launcher/pretrained/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/text/toml_reader.h"
#include "base/text/words.h"
#include "executor/sim/simulator.h"
#include "graph/graph_file.h"
#include "heuristics/anneal.h"
#include "launcher/pretrained/planner.h"
#include "launcher/settings/inputs.h"
#include "launcher/settings/schedule_worlds.h"
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
constexpr double kMostGain = 0.2;  // Log ratio of step times; so no world decides alone.
constexpr float kChangedWeights = 0.2f, kChangedCodes = 0.3f, kChangedCodeWeights = 0.05f;  // Shares.
constexpr std::uint64_t kScoredWalks = 64;
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
  double loss = 0;
};

class Training {
 public:
  Training(const TrainRecipe& recipe, std::vector<std::unique_ptr<TrainWorld>> worlds, unsigned threads)
      : recipe_{recipe},
        worlds_{std::move(worlds)},
        threads_{threads},
        policy_{{static_cast<Eigen::Index>(recipe.embedding), static_cast<Eigen::Index>(recipe.code),
                 recipe.rounds, recipe.founders, recipe.improvers},
                recipe.seed},
        adam_{{.clip_norm = recipe.clip_norm}} {
    policy_.version = recipe.version;
  }

  std::uint64_t updates() const { return updates_; }
  policy::SchedulerPolicy& policy() { return policy_; }

  /// Returns the loss of imitation, or the mean of log(step time / that of the example).
  Result<double> update() {
    if (!imitates()) return evolve();
    const std::size_t count = recipe_.worlds_per_update;
    std::vector<Part> parts(count);
    EMPLACE_TRY(for_each(count, threads_, [&](std::size_t i) { return contribute(i, parts[i]); }));
    policy_.store.clear_gradients();
    double sum = 0;
    for (Part& part : parts) {
      const auto from = part.store.gradients();
      const auto to = policy_.store.gradients();
      for (std::size_t k = 0; k < from.size(); ++k) to[k] += from[k] / static_cast<float>(count);
      sum += part.loss;
    }
    adam_.step(policy_.store, recipe_.imitation_rate);
    ++updates_;
    return sum / static_cast<double>(count);
  }
  bool imitates() const { return updates_ < recipe_.imitation_updates; }

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

  /// [u64 updates][hash of the recipe][parameters][optimizer]
  Bytes save(const std::string& recipe_hash) const {
    Bytes bytes;
    const auto put = [&](std::span<const std::byte> more) {
      bytes.insert(bytes.end(), more.begin(), more.end());
    };
    put(std::as_bytes(std::span{&updates_, 1}));
    put(std::as_bytes(std::span{recipe_hash}));
    put(policy_.store.bytes());
    put(adam_.save());
    return bytes;
  }
  Result<Unit> load(std::span<const std::byte> bytes, const std::string& recipe_hash,
                    const std::string& where) {
    const std::size_t head = sizeof updates_ + recipe_hash.size(), floats = policy_.store.bytes().size();
    if (bytes.size() < head + floats) return invalid(where, "is damaged", "remove it to start again");
    if (std::memcmp(bytes.data() + sizeof updates_, recipe_hash.data(), recipe_hash.size()) != 0)
      return invalid(where, "belongs to another recipe", "remove it to start again, or choose another -o");
    std::memcpy(&updates_, bytes.data(), sizeof updates_);
    EMPLACE_TRY(policy_.store.load(bytes.subspan(head, floats)));
    return adam_.load(bytes.subspan(head + floats), policy_.store.size());
  }

 private:
  /// What changes of the heads do on a world.
  struct Verdict {
    std::vector<double>
        gains;        ///< [heads, tries] Log ratio of step times by which the best heads get better.
    double best = 0;  ///< Log ratio of the best walk to the example.
  };

  /// Tries random changes of each head on the same worlds, and keeps the best one of a head if it is better
  /// than the head for sure. A change counts as far as it makes the best of all heads better.
  Result<double> evolve() {
    const std::size_t tries = recipe_.evolution_tries, heads = policy_.shape.heads();
    Rng rng{recipe_.seed, Purpose::kNoise, updates_};
    std::vector<std::uint32_t> order(worlds_.size());
    for (std::uint32_t k = 0; k < order.size(); ++k) order[k] = k;
    rng.shuffle(order);
    order.resize(std::min<std::size_t>(order.size(), recipe_.evolution_worlds));
    const auto [v, a] = policy_.network.outputs();
    std::vector<policy::SchedulerPolicy> changed(tries, policy_);  // Every head is changed.
    for (policy::SchedulerPolicy& each : changed) {
      for (Eigen::Index head = 0; head < static_cast<Eigen::Index>(heads); ++head) {
        change(each.store.value(v).col(head), kChangedWeights, 1, rng);
        if (rng.uniform() < kChangedCodes)
          change(each.store.value(a).col(head), kChangedCodeWeights, 0.5f, rng);
      }
    }
    std::vector<Verdict> verdicts(order.size());
    EMPLACE_TRY(for_each(order.size(), threads_, [&](std::size_t w) {
      return judge_changes(changed, *worlds_[order[w]], updates_ * order.size() + w, verdicts[w]);
    }));
    double sum = 0;
    for (std::size_t head = 0; head < heads; ++head) {
      double most = 0;
      std::size_t best = tries;
      for (std::size_t t = 0; t < tries; ++t) {
        std::vector<double> gains;
        for (const Verdict& each : verdicts) gains.push_back(each.gains[head * tries + t]);
        const Moments of_gains = moments(gains);
        const double error = of_gains.deviation / std::sqrt(static_cast<double>(gains.size()));
        if (of_gains.mean <= most || of_gains.mean < static_cast<double>(recipe_.evolution_certainty) * error)
          continue;
        most = of_gains.mean;
        best = t;
      }
      if (best == tries) continue;
      for (const policy::ParameterId id : {v, a})
        policy_.store.value(id).col(static_cast<Eigen::Index>(head)) =
            changed[best].store.value(id).col(static_cast<Eigen::Index>(head));
    }
    for (const Verdict& each : verdicts) sum += each.best;
    ++updates_;
    return sum / static_cast<double>(verdicts.size());
  }

  /// Changes a share of the weights.
  template <class Column>
  void change(Column&& weights, float share, float scale, Rng& rng) const {
    const float size = scale * recipe_.evolution_deviation * std::exp(rng.normal());
    for (Eigen::Index i = 0; i < weights.size(); ++i) {
      if (rng.uniform() >= share) continue;
      weights[i] += size * (1 + std::abs(weights[i])) * rng.normal();
    }
  }

  /// The cost that counts of a head with `cost` beside others: a soft minimum.
  double counted(double cost, double others) const {
    const double softness = recipe_.evolution_softness, least = std::min(cost, others);
    return least -
           softness * std::log(std::exp((least - cost) / softness) + std::exp((least - others) / softness));
  }
  /// Soft minimum of all costs but one.
  double without(const std::vector<double>& costs, std::size_t one) const {
    double least = HUGE_VAL, sum = 0;
    for (std::size_t k = 0; k < costs.size(); ++k) least = k == one ? least : std::min(least, costs[k]);
    if (!std::isfinite(least)) return least;
    for (std::size_t k = 0; k < costs.size(); ++k)
      sum += k == one ? 0 : std::exp((least - costs[k]) / static_cast<double>(recipe_.evolution_softness));
    return least - static_cast<double>(recipe_.evolution_softness) * std::log(sum);
  }

  /// Tries all changes on a world. `visit` chooses what the improving heads start from.
  Result<Unit> judge_changes(const std::vector<policy::SchedulerPolicy>& changed, TrainWorld& world,
                             std::uint64_t visit, Verdict& verdict) {
    const std::size_t founders = policy_.shape.founders, heads = policy_.shape.heads(),
                      tries = changed.size();
    std::vector<policy::SchedulerNetwork::Embedded> embedded;
    for (const auto& view : world.worlds) embedded.push_back(policy_.network.embed(policy_.store, view));
    const double example = std::log(world.example_s);
    SchedulerDrawn drawn;
    const auto cost_of = [&](const policy::SchedulerPolicy& policy, std::size_t w,
                             const SchedulerDraw& how) -> Result<double> {
      drawn = policy.network.draw(policy.store, world.worlds[w], embedded[w], how, nullptr);
      EMPLACE_TRY_ASSIGN(const double cost, world.cost(world.worlds[w], drawn));
      return cost - example;
    };
    verdict.gains.assign(heads * tries, 0);
    // Heads that place from nothing, each on the granularity where it is best.
    std::vector<double> costs(founders);
    std::vector<std::size_t> where(founders);
    double best = HUGE_VAL;
    Placement placement;
    for (std::size_t head = 0; head < founders; ++head) {
      costs[head] = HUGE_VAL;
      for (std::size_t w = 0; w < world.worlds.size(); ++w) {
        EMPLACE_TRY_ASSIGN(const double cost, cost_of(policy_, w, {.head = head}));
        if (cost < costs[head]) {
          costs[head] = cost;
          where[head] = w;
        }
        if (cost >= best) continue;
        best = cost;
        placement = world.worlds[w].placement_of(drawn.device_of_unit);
      }
    }
    const auto try_head = [&](std::size_t head, std::size_t w, const policy::ScheduleStart* start, double own,
                              double others) -> Result<Unit> {
      for (std::size_t t = 0; t < tries; ++t) {
        EMPLACE_TRY_ASSIGN(const double cost, cost_of(changed[t], w, {.head = head, .start = start}));
        verdict.gains[head * tries + t] =
            std::clamp(counted(own, others) - counted(cost, others), -kMostGain, kMostGain);
      }
      return Unit{};
    };
    for (std::size_t head = 0; head < founders; ++head)
      EMPLACE_TRY(try_head(head, where[head], nullptr, costs[head], without(costs, head)));
    // Heads that improve, after none to three walks of each.
    Rng rng{recipe_.seed, Purpose::kPlacing, visit};
    const std::size_t improvers = heads - founders;
    for (std::uint32_t done = 0, last = rng.below(4);; ++done) {
      const std::size_t w = rng.below(static_cast<std::uint32_t>(world.worlds.size()));
      const ScheduleWorld& view = world.worlds[w];
      const auto start = policy::ScheduleWalk::replay(view, view.renamed(view.units_of(placement)));
      std::vector<double> improved(improvers);
      for (std::size_t head = 0; head < improvers; ++head) {
        EMPLACE_TRY_ASSIGN(improved[head], cost_of(policy_, w, {.head = founders + head, .start = &start}));
        if (improved[head] >= best) continue;
        best = improved[head];
        placement = view.placement_of(drawn.device_of_unit);
      }
      if (done < last) continue;
      for (std::size_t head = 0; head < improvers; ++head)
        EMPLACE_TRY(try_head(founders + head, w, &start, improved[head], without(improved, head)));
      break;
    }
    verdict.best = best;
    return Unit{};
  }

  /// log(step time of the one placement / that of the example), with a penalty if it does not fit.
  static Result<double> greedy_cost(const policy::SchedulerPolicy& policy, TrainWorld& world) {
    const Problem problem = world.problem();
    Planner planner{policy, problem, world.worlds, world.simulator};
    EMPLACE_TRY(planner.plan({.most_walks = kScoredWalks, .moving_work = 0}));
    if (!planner.best().fits()) return std::log(3.0);
    return std::log(planner.best().step_time_s / world.example_s);
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
    SchedulerTrace trace;
    network.draw(part.store, view, embedded, {.forced = world.example[w]}, &trace);
    part.loss = network.accumulate(part.store, embedded, trace, 1, 0, flow) /
                std::max(1.0, static_cast<double>(trace.choices()));
    network.finish(part.store, view, embedded, std::move(flow));
    return Unit{};
  }

  const TrainRecipe& recipe_;
  const std::vector<std::unique_ptr<TrainWorld>> worlds_;
  const unsigned threads_;
  policy::SchedulerPolicy policy_;
  policy::Adam adam_;
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
    std::string line = fmt::format("update {} of {}: {} {:.4f}", training.updates(), recipe.updates(),
                                   training.imitates() ? "loss" : "log ratio",
                                   summed == 0 ? 0 : sum / static_cast<double>(summed));
    if (!held_out.empty()) line += fmt::format("; held out, one placement: {:.4f} of the examples", rho);
    events.line(line);
    sum = 0;
    summed = 0;
    return Unit{};
  };
  EMPLACE_TRY(report());
  while (training.updates() < recipe.updates()) {
    EMPLACE_TRY_ASSIGN(const double value, training.update());
    sum += value;
    ++summed;
    const bool stop = events.stopped();
    if (training.updates() % (training.imitates() ? kReportEvery : kReportEvolutionEvery) == 0)
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
