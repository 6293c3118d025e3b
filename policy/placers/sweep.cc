#include "policy/placers/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/rng.h"
#include "policy/loss/schedule.h"
#include "policy/loss/standardise.h"
#include "policy/placers/group_placer.h"

namespace emplace::policy {
namespace {

constexpr float kClosed = -1e30f;

}  // namespace

Result<std::unique_ptr<SweepPlacer>> SweepPlacer::make(std::vector<SweepGraph> graphs, SweepOptions options,
                                                       std::uint64_t seed) {
  for (const auto& checked :
       {check_ranges(options), in_range("placements", options.placements, 1, kMaxPlacements),
        in_range("entropy", options.entropy, 0, 1e3), in_range("entropy_end", options.entropy_end, 0, 1e3)}) {
    if (!checked) return checked.error();
  }
  if (graphs.empty()) return invalid("policy", "needs at least one graph");
  std::vector<Task> tasks;
  for (std::size_t number = 0; number < graphs.size(); ++number) {
    SweepGraph& graph = graphs[number];
    const std::string where = "graph " + std::to_string(number);
    if (graph.world.groups == 0 || graph.world.groups > kMaxGroups)
      return invalid(where, "has " + std::to_string(graph.world.groups) + " groups",
                     "merge them to between 1 and " + std::to_string(kMaxGroups) + " (policy.groups)");
    if (graph.world.devices == 0 || graph.world.devices >= SweepPlan::kNowhere)
      return invalid(where, "has no devices or too many");
    SweepPlan plan{graph.world};
    Task task{std::move(graph), std::move(plan), {}};
    task.start.assign(task.view.world.groups, SweepPlan::kNowhere);
    if (!task.view.start.empty()) {
      if (task.view.start.size() != task.view.group_of_op.size())
        return invalid(where, "wrong number of ops in the start placement");
      task.start = task.start_at(task.view.start);
    }
    tasks.push_back(std::move(task));
  }
  return std::unique_ptr<SweepPlacer>{new SweepPlacer{std::move(tasks), options, seed}};
}

SweepPlacer::SweepPlacer(std::vector<Task> tasks, SweepOptions options, std::uint64_t seed)
    : tasks_{std::move(tasks)},
      options_{options},
      seed_{seed},
      network_{store_, "sweep", {SweepPlan::kFeatures, options.hidden, options.hidden, 1},
               false,  seed,    Init::kZero},
      entropy_{options.entropy} {}

std::vector<std::uint8_t> SweepPlacer::Task::start_at(const Placement& placement) const {
  const SweepWorld& world = plan.world();
  std::vector<std::uint32_t> votes(world.groups * world.devices);
  for (std::size_t op = 0; op < placement.size(); ++op)
    ++votes[view.group_of_op[op] * world.devices + index(placement[op])];
  std::vector<std::uint8_t> chosen;
  for (auto at = votes.begin(); at != votes.end(); at += static_cast<std::ptrdiff_t>(world.devices)) {
    const auto most = std::max_element(at, at + static_cast<std::ptrdiff_t>(world.devices));
    chosen.push_back(static_cast<std::uint8_t>(most - at));
  }
  return plan.renamed(chosen);
}

/// Computes log p [devices] of the current group. Appends the scored devices to `seen`; nothing if there is
/// only one open device.
void SweepPlacer::score_devices(const PackedPerceptron& network, SweepWalk& walk, std::span<float> log_p,
                                Scored& seen, Scratch& scratch) const {
  constexpr auto kRows = static_cast<std::size_t>(SweepPlan::kFeatures);
  walk.evaluate();
  const std::size_t first = seen.device.size();
  for (std::size_t d = 0; d < log_p.size(); ++d)
    if (walk.open()[d]) seen.device.push_back(static_cast<std::uint8_t>(d));
  std::fill(log_p.begin(), log_p.end(), kClosed);
  if (seen.device.size() == first + 1) {
    log_p[seen.device.back()] = 0;
    seen.device.pop_back();
    return;
  }
  seen.features.resize(seen.device.size() * kRows);
  seen.score.resize(seen.device.size());
  for (std::size_t n = first; n < seen.device.size(); ++n)
    walk.describe(seen.device[n], std::span{seen.features}.subspan(n * kRows, kRows));
  network.forward(static_cast<Eigen::Index>(seen.device.size() - first), seen.features.data() + first * kRows,
                  seen.score.data() + first, scratch);
  float largest = kClosed, sum = 0;
  for (std::size_t n = first; n < seen.device.size(); ++n) {
    const float bound = options_.logit_bound, score = seen.score[n];
    float& logit = log_p[seen.device[n]];
    logit = (bound > 0 ? bound * std::tanh(score / bound) : score) +
            options_.stay * seen.features[n * kRows + static_cast<std::size_t>(SweepPlan::kAtStart)];
    largest = std::max(largest, logit);
  }
  for (std::size_t n = first; n < seen.device.size(); ++n) sum += std::exp(log_p[seen.device[n]] - largest);
  for (std::size_t n = first; n < seen.device.size(); ++n) log_p[seen.device[n]] -= largest + std::log(sum);
}

std::vector<std::uint8_t> SweepPlacer::walk_once(const PackedPerceptron& network, const Task& task,
                                                 std::span<const std::uint8_t> start, Rng* rng) const {
  const std::size_t devices = task.plan.world().devices;
  std::vector<float> log_p(devices);
  Scored seen;
  Scratch scratch;
  SweepWalk walk{task.plan, start};
  std::vector<std::uint8_t> chosen;
  while (!walk.done()) {
    seen.device.clear();
    score_devices(network, walk, log_p, seen, scratch);
    auto device = static_cast<std::size_t>(std::max_element(log_p.begin(), log_p.end()) - log_p.begin());
    if (rng != nullptr) {
      const float at = rng->uniform();
      float sum = 0;
      for (std::size_t d = 0; d < devices; ++d) {
        if (!walk.open()[d]) continue;
        sum += std::exp(log_p[d]);
        if (sum <= at) continue;
        device = d;
        break;
      }
    }
    chosen.push_back(static_cast<std::uint8_t>(device));
    walk.take(device);
  }
  return chosen;
}

Placement SweepPlacer::spread(const Task& task, std::span<const std::uint8_t> by_position) const {
  std::vector<DeviceId> of_group(by_position.size());
  for (std::size_t t = 0; t < by_position.size(); ++t)
    of_group[task.plan.order()[t]] = static_cast<DeviceId>(by_position[t]);
  Placement placement;
  placement.reserve(task.view.group_of_op.size());
  for (const std::uint32_t group : task.view.group_of_op) placement.push_back(of_group[group]);
  task.view.constraints->repair(placement);
  return placement;
}

Actions SweepPlacer::sample_from(std::span<const Placement> best, std::uint64_t episode,
                                 std::uint64_t /*update*/) const {
  Choice choice;
  choice.graph = static_cast<std::uint32_t>(episode % tasks_.size());
  const Task& task = tasks_[choice.graph];
  const bool known = options_.improves && choice.graph < best.size() && !best[choice.graph].empty();
  choice.start = known ? task.start_at(best[choice.graph]) : task.start;
  Rng rng{seed_, Purpose::kPlacing, episode};
  const PackedPerceptron network{network_, store_};
  for (std::size_t p = 0; p < options_.placements; ++p) {
    const auto chosen = walk_once(network, task, choice.start, &rng);
    choice.decisions.devices.insert(choice.decisions.devices.end(), chosen.begin(), chosen.end());
  }
  return encode_actions(choice);
}

Placement SweepPlacer::greedy() const {
  const Task& task = tasks_.front();
  return spread(task, walk_once(PackedPerceptron{network_, store_}, task, task.start, nullptr));
}

Result<std::vector<Placement>> SweepPlacer::expand(const Actions& actions) const {
  const auto choice = decode_actions(actions);
  if (!choice) return choice.error();
  const Task& task = tasks_[choice->graph];
  const std::size_t steps = task.view.world.groups;
  std::vector<Placement> placements;
  for (std::size_t first = 0; first < choice->decisions.devices.size(); first += steps)
    placements.push_back(spread(task, std::span{choice->decisions.devices}.subspan(first, steps)));
  return placements;
}

Result<SweepPlacer::Seen> SweepPlacer::replay(const PackedPerceptron& network, const Choice& choice) const {
  const Task& task = tasks_[choice.graph];
  const std::size_t devices = task.view.world.devices, steps = task.view.world.groups,
                    choices = choice.decisions.devices.size();
  Seen seen{{}, {}, Matrix(static_cast<Eigen::Index>(devices), static_cast<Eigen::Index>(choices))};
  Scratch scratch;
  for (std::size_t first = 0; first < choices; first += steps) {
    SweepWalk walk{task.plan, choice.start};
    for (std::size_t n = first; n < first + steps; ++n) {
      score_devices(network, walk, {seen.log_p.data() + n * devices, devices}, seen.scored, scratch);
      seen.choice.resize(seen.scored.device.size(), static_cast<std::uint32_t>(n));
      const std::uint8_t device = choice.decisions.devices[n];
      if (!walk.open()[device]) return invalid("actions", "assign a group to a forbidden device");
      walk.take(device);
    }
  }
  return seen;
}

LossParts SweepPlacer::learn(const PackedPerceptron& network, const Choice& choice, const Seen& seen,
                             std::span<const float> advantages, float entropy, float scale,
                             PackedPerceptron::Gradient& gradient) const {
  const std::size_t steps = tasks_[choice.graph].view.world.groups;
  Trajectories along{.count = advantages.size() / steps, .stages = steps, .log_p = &seen.log_p};
  along.chosen = choice.decisions.devices;
  along.advantage = advantages;
  LossOptions loss;
  loss.entropy = entropy;
  Matrix back = Matrix::Zero(seen.log_p.rows(), seen.log_p.cols());
  const LossParts parts = add_loss_gradient(loss, 0, along, scale, back);
  through_log_softmax(seen.log_p, back);
  std::vector<float> of_score(seen.choice.size());
  for (std::size_t n = 0; n < of_score.size(); ++n) {
    of_score[n] = back(seen.scored.device[n], static_cast<Eigen::Index>(seen.choice[n]));
    if (const float bound = options_.logit_bound; bound > 0) {
      const float inside = std::tanh(seen.scored.score[n] / bound);
      of_score[n] *= 1 - inside * inside;
    }
  }
  Scratch scratch;
  network.backward(static_cast<Eigen::Index>(of_score.size()), seen.scored.features.data(),
                   seen.scored.score.data(), of_score.data(), nullptr, gradient, scratch);
  return parts;
}

Result<LossParts> SweepPlacer::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  const PackedPerceptron network{network_, store_};
  PackedPerceptron::Gradient gradient{network};
  gradient.clear();
  const float scale = 1.0f / static_cast<float>(episodes.size());
  LossParts parts;
  for (const ScoredEpisode& episode : episodes) {
    const auto choice = decode_actions(episode.actions);
    if (!choice) return choice.error();
    if (episode.advantages.size() * tasks_[choice->graph].view.world.groups !=
        choice->decisions.devices.size())
      return invalid("episode", "numbers of placements and advantages differ");
    const auto seen = replay(network, *choice);
    if (!seen) return seen.error();
    std::vector<float> advantages;
    for (const float one : standardised(episode.advantages))
      advantages.insert(advantages.end(), tasks_[choice->graph].view.world.groups, one);
    const LossParts own = learn(network, *choice, *seen, advantages, entropy_, scale, gradient);
    const auto share = static_cast<double>(scale);
    parts.log_probability += share * own.log_probability;
    parts.entropy += share * own.entropy;
    parts.loss += share * own.loss;
  }
  gradient.add_to(store_);
  return parts;
}

Result<LossParts> SweepPlacer::accumulate_imitation(const Placement& placement) {
  const Task& task = tasks_.front();
  if (placement.size() != task.view.group_of_op.size())
    return invalid("placement to imitate", "has the wrong number of ops for this graph");
  Choice choice;
  choice.start = task.start;
  const auto wanted = task.start_at(placement);
  const float each = -1.0f / static_cast<float>(wanted.size());
  std::vector<float> advantages;  // [groups] By position.
  for (SweepWalk walk{task.plan, choice.start}; !walk.done();) {
    walk.evaluate();
    const std::uint8_t device = wanted[walk.group()];
    const auto first = std::find(walk.open().begin(), walk.open().end(), true) - walk.open().begin();
    advantages.push_back(walk.open()[device] ? each : 0);
    choice.decisions.devices.push_back(walk.open()[device] ? device : static_cast<std::uint8_t>(first));
    walk.take(choice.decisions.devices.back());
  }
  const PackedPerceptron network{network_, store_};
  const auto seen = replay(network, choice);
  if (!seen) return seen.error();
  PackedPerceptron::Gradient gradient{network};
  gradient.clear();
  const LossParts parts = learn(network, choice, *seen, advantages, 0, 1, gradient);
  gradient.add_to(store_);
  return parts;
}

void SweepPlacer::start_update(std::uint64_t update) {
  entropy_ = linear_schedule(options_.entropy, options_.entropy_end, options_.entropy_over, update);
}

std::size_t SweepPlacer::graph_of(const Actions& actions) const {
  std::uint32_t graph = 0;
  if (actions.bytes.size() >= sizeof graph) std::memcpy(&graph, actions.bytes.data(), sizeof graph);
  return graph < tasks_.size() ? graph : 0;
}

Result<std::vector<double>> SweepPlacer::log_probabilities(const Actions& actions) const {
  const auto choice = decode_actions(actions);
  if (!choice) return choice.error();
  const auto seen = replay(PackedPerceptron{network_, store_}, *choice);
  if (!seen) return seen.error();
  const std::size_t steps = tasks_[choice->graph].view.world.groups;
  std::vector<double> totals(choice->decisions.devices.size() / steps);
  for (std::size_t n = 0; n < choice->decisions.devices.size(); ++n)
    totals[n / steps] +=
        static_cast<double>(seen->log_p(choice->decisions.devices[n], static_cast<Eigen::Index>(n)));
  return totals;
}

Actions SweepPlacer::encode_actions(const Choice& choice) {
  // [u32 graph][u8 start, by group …][decisions], little-endian.
  Actions actions;
  actions.bytes.resize(sizeof choice.graph + choice.start.size());
  std::memcpy(actions.bytes.data(), &choice.graph, sizeof choice.graph);
  std::memcpy(actions.bytes.data() + sizeof choice.graph, choice.start.data(), choice.start.size());
  append_decisions(choice.decisions, actions.bytes);
  return actions;
}

Result<SweepPlacer::Choice> SweepPlacer::decode_actions(const Actions& actions) const {
  Choice choice;
  if (actions.bytes.size() < sizeof choice.graph) return invalid("actions", "truncated");
  std::memcpy(&choice.graph, actions.bytes.data(), sizeof choice.graph);
  if (choice.graph >= tasks_.size()) return invalid("actions", "graph number out of range");
  const SweepWorld& world = tasks_[choice.graph].view.world;
  const std::size_t head = sizeof choice.graph + world.groups;
  if (actions.bytes.size() < head) return invalid("actions", "truncated");
  choice.start.resize(world.groups);
  std::memcpy(choice.start.data(), actions.bytes.data() + sizeof choice.graph, world.groups);
  for (const std::uint8_t device : choice.start)
    if (device != SweepPlan::kNowhere && device >= world.devices)
      return invalid("actions", "start on an unknown device");
  auto decisions = read_decisions(std::span{actions.bytes}.subspan(head),
                                  {.stages = world.groups, .devices = world.devices, .behaviour = false});
  if (!decisions) return decisions.error();
  choice.decisions = *std::move(decisions);
  return choice;
}

}  // namespace emplace::policy
