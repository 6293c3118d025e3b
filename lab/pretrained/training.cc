#include "lab/pretrained/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "base/hash.h"
#include "base/text/toml_reader.h"
#include "lab/pretrained/head_evolution.h"
#include "lab/pretrained/training_worlds.h"
#include "launcher/pretrained/planner.h"
#include "policy/optim/adam.h"

namespace emplace::lab {
namespace {

namespace fs = std::filesystem;
using launcher::Planner;
using policy::SchedulerTrace;
using policy::ScheduleWorld;

constexpr double kCheckpointEvery_s = 30;
constexpr std::uint64_t kReportEvery = 100, kReportEvolutionEvery = 10;
constexpr std::uint64_t kScoredWalks = 64;

/// What a world contributes to an update.
struct UpdatePart {
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
    if (!imitates()) return evolve_heads(policy_, recipe_, worlds_, threads_, updates_++);
    const std::size_t count = recipe_.worlds_per_update;
    std::vector<UpdatePart> parts(count);
    EMPLACE_TRY(for_each(count, threads_, [&](std::size_t i) { return contribute(i, parts[i]); }));
    policy_.store.clear_gradients();
    double sum = 0;
    for (UpdatePart& part : parts) {
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
  /// log(step time of the one placement / that of the example), with a penalty if it does not fit.
  static Result<double> greedy_cost(const policy::SchedulerPolicy& policy, TrainWorld& world) {
    const Problem problem = world.problem();
    Planner planner{policy, problem, world.worlds, world.simulator};
    EMPLACE_TRY(planner.plan({.most_walks = kScoredWalks, .moving_work = 0}));
    if (!planner.best().fits()) return std::log(3.0);
    return std::log(planner.best().step_time_s / world.example_s);
  }

  /// Part `i` of the current update.
  Result<Unit> contribute(std::size_t i, UpdatePart& part) {
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
  EMPLACE_TRY_ASSIGN(auto learned,
                     open_training_worlds(recipe.worlds, recipe, folder, threads, "examples", events));
  EMPLACE_TRY_ASSIGN(const auto held_out, open_training_worlds(recipe.held_out, recipe, folder, threads,
                                                               "held-out examples", events));
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

}  // namespace emplace::lab
