#include "policy/placers/placeto.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/rng.h"
#include "policy/features.h"
#include "policy/group_devices.h"
#include "policy/loss/schedule.h"

namespace emplace::policy {
namespace {

// Steps per trace. Drawing: few, so that restarting a trace is cheap. Learning: as many as fit into memory.
constexpr std::size_t kDrawnTogether = 64, kLearnedTogether = 256;

/// Returns β as a parameter only if it adapts, so that stores without a target keep their layout.
AdaptiveBeta beta_of(ParameterStore& store, const LossOptions& loss) {
  const bool moves = loss.kind == LossKind::kKlPenalised && loss.kl_target > 0;
  return moves ? AdaptiveBeta{store, loss} : AdaptiveBeta{loss};
}

std::size_t likeliest(std::span<const float> log_p) {
  return static_cast<std::size_t>(std::max_element(log_p.begin(), log_p.end()) - log_p.begin());
}

std::size_t draw(std::span<const float> log_p, float at) {
  std::size_t last = likeliest(log_p);
  float sum = 0;
  for (std::size_t d = 0; d < log_p.size(); ++d) {
    const float p = std::exp(log_p[d]);
    if (p <= 0) continue;
    sum += p;
    last = d;
    if (sum > at) break;
  }
  return last;
}

}  // namespace

/// The states of one episode in sequence, with the policy's distribution at each. Rows of a node's features:
/// run time, output bytes, one per device, the transfer ratio if configured, the current flag, the visited
/// flag.
class PlacetoPlacer::Walk {
 public:
  /// Restarts the trace after every `together` steps.
  Walk(const PackedGraphNetwork& weights, const Task& task, std::span<const std::uint8_t> start,
       std::size_t together, GraphTrace& trace)
      : weights_{weights}, task_{task}, together_{together}, trace_{trace} {
    Matrix features = task.features;
    for (std::size_t node = 0; node < start.size(); ++node)
      features(kDevices + start[node], static_cast<Eigen::Index>(node)) = 1;
    trace_.begin(weights, task.nodes, &task.allowed, features);
  }

  /// Starts the next step at `node` and returns its log q [devices]; valid until take().
  std::span<const float> visit(std::uint32_t node) {
    // A new round clears the visited flags.
    if (step_ > 0 && step_ % task_.nodes.size() == 0) {
      for (std::uint32_t other = 0; other < task_.nodes.size(); ++other)
        edit(other, [&](auto& column) { column[visited_row()] = 0; });
    }
    if (trace_.steps() == together_)
      trace_.begin(weights_, task_.nodes, &task_.allowed, Matrix(trace_.features()));
    node_ = node;
    edit(node, [&](auto& column) { column[current_row()] = 1; });
    return trace_.step(node);
  }

  /// Moves the node to `device`.
  void take(std::size_t device) {
    edit(node_, [&](auto& column) {
      column.segment(kDevices, static_cast<Eigen::Index>(task_.view.devices->size())).setZero();
      column[kDevices + static_cast<Eigen::Index>(device)] = 1;
      column[current_row()] = 0;
      column[visited_row()] = 1;
    });
    ++step_;
  }

 private:
  static constexpr Eigen::Index kDevices = 2;
  Eigen::Index current_row() const { return task_.features.rows() - 2; }
  Eigen::Index visited_row() const { return task_.features.rows() - 1; }
  template <class Edit>
  void edit(std::uint32_t node, Edit change) {
    Eigen::VectorXf column = trace_.features().col(node);
    change(column);
    trace_.change(node, {column.data(), static_cast<std::size_t>(column.size())});
  }

  const PackedGraphNetwork& weights_;
  const Task& task_;
  const std::size_t together_;
  GraphTrace& trace_;
  std::size_t step_ = 0;
  std::uint32_t node_ = 0;
};

PlacetoPlacer::TracePool::Loan PlacetoPlacer::TracePool::borrow() {
  std::unique_ptr<GraphTrace> trace;
  {
    const MutexLock lock{mutex_};
    if (!idle_.empty()) {
      trace = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!trace) trace = std::make_unique<GraphTrace>();
  return {trace.release(), [this](GraphTrace* back) {
            const MutexLock lock{mutex_};
            idle_.emplace_back(back);
          }};
}

Result<std::unique_ptr<PlacetoPlacer>> PlacetoPlacer::make(std::vector<PlacetoGraph> graphs,
                                                           PlacetoOptions options, std::uint64_t seed) {
  for (const auto& checked : {check_ranges(options), check_ranges(options.loss),
                              in_range("entropy_end", options.entropy_end, 0, 1e6)}) {
    if (!checked) return checked.error();
  }
  if (graphs.empty()) return invalid("policy", "needs at least one graph");
  std::vector<Task> tasks;
  for (std::size_t number = 0; number < graphs.size(); ++number) {
    const auto checked = check_view(graphs[number], number);
    if (!checked) return checked.error();
    if (graphs[number].devices->size() != graphs.front().devices->size())
      return invalid("graph " + std::to_string(number), "number of devices differs from that of graph 0",
                     "all graphs of a policy need the same number of devices");
    auto task = make_task(std::move(graphs[number]), options);
    if (!task) return invalid("graph " + std::to_string(number), task.error().context);
    tasks.push_back(*std::move(task));
  }
  return std::unique_ptr<PlacetoPlacer>{new PlacetoPlacer{std::move(tasks), options, seed}};
}

PlacetoPlacer::PlacetoPlacer(std::vector<Task> tasks, PlacetoOptions options, std::uint64_t seed)
    : tasks_{std::move(tasks)},
      options_{options},
      seed_{seed},
      network_{store_,
               "placeto",
               tasks_.front().features.rows(),
               static_cast<Eigen::Index>(num_devices()),
               options_.network,
               seed},
      beta_{beta_of(store_, options_.loss)},
      entropy_{options_.loss.entropy} {}

std::size_t PlacetoPlacer::placements_per_episode() const {
  std::size_t most = 0;
  for (const Task& task : tasks_) most = std::max(most, task.nodes.size());
  return options_.rounds_per_episode * most + (options_.measure_start ? 1 : 0);
}

Actions PlacetoPlacer::sample_from(std::span<const Placement> best, std::uint64_t episode,
                                   std::uint64_t /*update*/) const {
  Choice choice;
  choice.graph = static_cast<std::uint32_t>(episode % tasks_.size());
  const Task& task = tasks_[choice.graph];
  Rng rng{seed_, Purpose::kPlacing, episode};
  const bool known =
      incumbent() != Incumbent::kNone && choice.graph < best.size() && !best[choice.graph].empty();
  choice.start = known ? task.start_at(best[choice.graph]) : task.start;
  if (options_.start == InitialPlacement::kRandom) {
    for (std::size_t node = 0; node < choice.start.size(); ++node) {
      do choice.start[node] = static_cast<std::uint8_t>(rng.below(static_cast<std::uint32_t>(num_devices())));
      while (!task.may_use(node, choice.start[node]));
    }
  }
  std::vector<std::uint16_t> round(task.nodes.order().begin(), task.nodes.order().end());
  if (options_.traversal == Traversal::kReversed) std::reverse(round.begin(), round.end());
  const bool random = options_.traversal == Traversal::kRandom;
  if (random && options_.orders > 0) {
    round = trained_order(task.nodes.size(), options_.order_seed == 0 ? seed_ : options_.order_seed,
                          choice.graph, episode / tasks_.size() % options_.orders);
  }
  for (std::size_t n = 0; n < options_.rounds_per_episode; ++n) {
    if (random && options_.orders == 0) rng.shuffle(round);
    choice.node.insert(choice.node.end(), round.begin(), round.end());
  }

  const PackedGraphNetwork weights{network_, store_};
  const TracePool::Loan trace = traces_.borrow();
  Walk walk{weights, task, choice.start, kDrawnTogether, *trace};
  for (const std::uint16_t node : choice.node) {
    const std::span<const float> log_p = walk.visit(node);
    if (options_.loss.needs_behaviour())
      choice.decisions.log_q.insert(choice.decisions.log_q.end(), log_p.begin(), log_p.end());
    const std::size_t device = draw(log_p, rng.uniform());
    choice.decisions.devices.push_back(static_cast<std::uint8_t>(device));
    walk.take(device);
  }
  return encode_actions(choice);
}

Placement PlacetoPlacer::greedy_of(std::size_t graph) const {
  const Task& task = tasks_[graph];
  const PackedGraphNetwork weights{network_, store_};
  const TracePool::Loan trace = traces_.borrow();
  Walk walk{weights, task, task.start, kDrawnTogether, *trace};
  std::vector<std::uint32_t> order(task.nodes.order().begin(), task.nodes.order().end());
  if (options_.traversal == Traversal::kReversed) std::reverse(order.begin(), order.end());
  if (options_.unseen_order) {
    const auto given = unseen_order(order.size(), *options_.unseen_order);
    order.assign(given.begin(), given.end());
  }
  std::vector<std::uint8_t> device_of_group = task.start;
  for (std::size_t n = 0; n < options_.rounds_per_episode; ++n) {
    for (const std::uint32_t node : order) {
      const std::size_t device = likeliest(walk.visit(node));
      device_of_group[node] = static_cast<std::uint8_t>(device);
      walk.take(device);
    }
  }
  Placement placement;
  for (const std::uint32_t group : task.view.grouping.group_of_op)
    placement.push_back(static_cast<DeviceId>(device_of_group[group]));
  task.view.constraints->repair(placement);
  return placement;
}

Result<std::vector<Placement>> PlacetoPlacer::expand(const Actions& actions) const {
  const auto choice = decode_actions(actions);
  if (!choice) return choice.error();
  const Task& task = tasks_[choice->graph];
  std::vector<std::uint8_t> device_of_group = choice->start;
  std::vector<Placement> placements;
  placements.reserve(choice->node.size() + 1);
  const auto add = [&] {
    Placement& placement = placements.emplace_back();
    placement.reserve(task.view.graph->num_ops());
    for (const std::uint32_t group : task.view.grouping.group_of_op)
      placement.push_back(static_cast<DeviceId>(device_of_group[group]));
    task.view.constraints->repair(placement);
  };
  if (options_.measure_start) add();
  for (std::size_t t = 0; t < choice->node.size(); ++t) {
    device_of_group[choice->node[t]] = choice->decisions.devices[t];
    add();
  }
  return placements;
}

void PlacetoPlacer::learn(const Choice& choice, std::span<const float> advantages, const LossOptions& loss,
                          float scale, Learning& learning, LossParts& parts) const {
  const Task& task = tasks_[choice.graph];
  const std::size_t steps = choice.node.size();
  const auto devices = static_cast<Eigen::Index>(num_devices());
  GraphTrace& trace = learning.trace;
  // Replays the episode; calls `at_end(first step)` for each full trace, and for the last one.
  const auto replay = [&](auto at_step, auto at_end) {
    Walk walk{learning.weights, task, choice.start, kLearnedTogether, trace};
    for (std::size_t t = 0; t < steps; ++t) {
      at_step(t, walk.visit(choice.node[t]));
      walk.take(choice.decisions.devices[t]);
      if (trace.steps() == kLearnedTogether || t + 1 == steps)
        at_end(static_cast<Eigen::Index>(t + 1 - trace.steps()));
    }
  };
  Matrix log_p(devices, static_cast<Eigen::Index>(steps));
  replay(
      [&](std::size_t t, std::span<const float> now) {
        std::copy(now.begin(), now.end(), log_p.col(static_cast<Eigen::Index>(t)).data());
      },
      [](Eigen::Index) {});
  Trajectories seen{.count = 1, .stages = steps, .log_p = &log_p};
  seen.chosen = choice.decisions.devices;
  seen.advantage = advantages;
  seen.behaviour = choice.decisions.log_q;
  Matrix seed = Matrix::Zero(log_p.rows(), log_p.cols());
  const LossParts part = add_loss_gradient(loss, beta_.value(store_), seen, scale, seed);
  parts.log_probability += static_cast<double>(scale) * part.log_probability;
  parts.entropy += static_cast<double>(scale) * part.entropy;
  parts.divergence += static_cast<double>(scale) * part.divergence;
  parts.loss += static_cast<double>(scale) * part.loss;
  const auto backward = [&](Eigen::Index first) {
    trace.backward(seed.middleCols(first, static_cast<Eigen::Index>(trace.steps())), learning.gradient);
  };
  if (steps <= kLearnedTogether) {
    backward(0);  // The trace still holds all steps.
  } else {
    replay([](std::size_t, std::span<const float>) {}, backward);
  }
}

Result<LossParts> PlacetoPlacer::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  std::vector<Choice> choices;
  for (const ScoredEpisode& episode : episodes) {
    auto choice = decode_actions(episode.actions);
    if (!choice) return choice.error();
    if (episode.advantages.size() != choice->decisions.devices.size())
      return invalid("episode", "numbers of placements and advantages differ");
    choices.push_back(*std::move(choice));
  }
  LossOptions loss = options_.loss;
  loss.entropy = entropy_;
  LossParts parts;
  Learning learning{*this};
  for (std::size_t e = 0; e < choices.size(); ++e)
    learn(choices[e], episodes[e].advantages, loss, 1.0f / static_cast<float>(choices.size()), learning,
          parts);
  learning.gradient.add_to(store_);
  return parts;
}

Result<LossParts> PlacetoPlacer::accumulate_imitation(const Placement& placement) {
  const Task& task = tasks_.front();
  const auto checked = task.view.constraints->check(*task.view.graph, *task.view.devices, placement);
  if (!checked) return checked.error();
  const auto wanted = task.majority(placement);
  Choice choice;
  choice.start = task.start;
  for (std::size_t n = 0; n < options_.rounds_per_episode; ++n) {
    for (const std::uint32_t node : task.nodes.order()) {
      if (!task.may_use(node, wanted[node]))
        return invalid("placement",
                       "puts most ops of a group on a device that is forbidden for another op of it");
      choice.node.push_back(static_cast<std::uint16_t>(node));
      choice.decisions.devices.push_back(wanted[node]);
    }
  }
  const std::vector<float> advantages(choice.node.size(), -1.0f / static_cast<float>(choice.node.size()));
  LossParts parts;
  Learning learning{*this};
  learn(choice, advantages, LossOptions{}, 1, learning, parts);
  learning.gradient.add_to(store_);
  return parts;
}

void PlacetoPlacer::start_update(std::uint64_t update) {
  entropy_ = linear_schedule(options_.loss.entropy, options_.entropy_end, options_.entropy_over, update);
}

void PlacetoPlacer::end_update(const LossParts& parts) { beta_.follow(store_, parts.divergence); }

std::size_t PlacetoPlacer::graph_of(const Actions& actions) const {
  std::uint32_t graph = 0;
  if (actions.bytes.size() >= sizeof graph) std::memcpy(&graph, actions.bytes.data(), sizeof graph);
  return graph < tasks_.size() ? graph : 0;
}

Matrix PlacetoPlacer::log_probabilities(const Choice& choice) const {
  const PackedGraphNetwork weights{network_, store_};
  const TracePool::Loan trace = traces_.borrow();
  Walk walk{weights, tasks_[choice.graph], choice.start, kDrawnTogether, *trace};
  Matrix log_p(static_cast<Eigen::Index>(num_devices()), static_cast<Eigen::Index>(choice.node.size()));
  for (std::size_t t = 0; t < choice.node.size(); ++t) {
    const std::span<const float> now = walk.visit(choice.node[t]);
    std::copy(now.begin(), now.end(), log_p.col(static_cast<Eigen::Index>(t)).data());
    walk.take(choice.decisions.devices[t]);
  }
  return log_p;
}

Result<std::vector<double>> PlacetoPlacer::log_probabilities(const Actions& actions) const {
  const auto choice = decode_actions(actions);
  if (!choice) return choice.error();
  const Matrix log_p = log_probabilities(*choice);
  double total = 0;
  for (std::size_t t = 0; t < choice->node.size(); ++t)
    total += static_cast<double>(log_p(choice->decisions.devices[t], static_cast<Eigen::Index>(t)));
  return std::vector<double>{total};
}

Result<Actions> PlacetoPlacer::actions_of(std::size_t graph, std::span<const Placement> placements,
                                          std::span<const double> log_q) const {
  if (graph >= tasks_.size()) return invalid("placement", "graph number out of range");
  if (placements.size() != 1)
    return invalid("placements", "one placement per episode expected",
                   "one sequence of steps leads to one placement");
  if (options_.rounds_per_episode != 1)
    return invalid("policy.placeto.passes", "must be 1 to learn from placements alone",
                   "with several passes a placement does not determine the steps");
  const Task& task = tasks_[graph];
  const auto by_group =
      devices_by_group({*task.view.graph, *task.view.devices, *task.view.constraints, placements.front()},
                       std::span{task.view.grouping.group_of_op}, task.allowed, task.nodes.size());
  if (!by_group) return by_group.error();
  Choice choice;
  choice.graph = static_cast<std::uint32_t>(graph);
  choice.start = task.start;
  choice.node.assign(task.nodes.order().begin(), task.nodes.order().end());
  if (options_.traversal == Traversal::kReversed) std::reverse(choice.node.begin(), choice.node.end());
  for (const std::uint16_t node : choice.node) choice.decisions.devices.push_back((*by_group)[node]);
  if (options_.loss.needs_behaviour())
    choice.decisions.log_q = even_behaviour(choice.decisions.devices, num_devices(), log_q);
  return encode_actions(choice);
}

Actions PlacetoPlacer::encode_actions(const Choice& choice) {
  // [u32 graph, groups][u8 start …][u16 node …][decisions], little-endian.
  const std::uint32_t sizes[2] = {choice.graph, static_cast<std::uint32_t>(choice.start.size())};
  Actions actions;
  actions.bytes.resize(sizeof sizes + choice.start.size() + 2 * choice.node.size());
  std::byte* const at = actions.bytes.data();
  std::memcpy(at, sizes, sizeof sizes);
  std::memcpy(at + sizeof sizes, choice.start.data(), choice.start.size());
  std::memcpy(at + sizeof sizes + choice.start.size(), choice.node.data(), 2 * choice.node.size());
  append_decisions(choice.decisions, actions.bytes);
  return actions;
}

Result<PlacetoPlacer::Choice> PlacetoPlacer::decode_actions(const Actions& actions) const {
  const auto foreign = [](const char* why) { return invalid("actions", why); };
  std::uint32_t sizes[2] = {};
  if (actions.bytes.size() < sizeof sizes) return foreign("truncated");
  std::memcpy(sizes, actions.bytes.data(), sizeof sizes);
  const auto [graph, groups] = sizes;
  if (graph >= tasks_.size()) return foreign("graph number out of range");
  const Task& task = tasks_[graph];
  if (groups != task.nodes.size()) return foreign("wrong number of groups");
  const std::size_t steps = options_.rounds_per_episode * groups, head = sizeof sizes + groups + 2 * steps;
  if (actions.bytes.size() < head) return foreign("truncated");
  Choice choice;
  choice.graph = graph;
  choice.start.resize(groups);
  choice.node.resize(steps);
  std::memcpy(choice.start.data(), actions.bytes.data() + sizeof sizes, groups);
  std::memcpy(choice.node.data(), actions.bytes.data() + sizeof sizes + groups, 2 * steps);
  auto decisions = read_decisions(
      std::span{actions.bytes}.subspan(head),
      {.stages = steps, .devices = num_devices(), .behaviour = options_.loss.needs_behaviour()});
  if (!decisions) return decisions.error();
  choice.decisions = *std::move(decisions);
  if (choice.decisions.devices.size() != steps) return foreign("more than one episode");
  for (std::size_t node = 0; node < groups; ++node) {
    if (choice.start[node] >= num_devices() || !task.may_use(node, choice.start[node]))
      return foreign("start on a forbidden device");
  }
  std::vector<bool> visited;
  for (std::size_t t = 0; t < steps; ++t) {
    if (t % groups == 0) visited.assign(groups, false);
    const std::uint16_t node = choice.node[t];
    if (node >= groups || visited[node]) return foreign("a round does not visit every group");
    if (!task.may_use(node, choice.decisions.devices[t]))
      return foreign("assign a group to a forbidden device");
    visited[node] = true;
  }
  return choice;
}

}  // namespace emplace::policy
