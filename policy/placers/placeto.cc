#include "policy/placers/placeto.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "graph/formats/graph_file.h"
#include "placement/machine/transfer_table.h"
#include "policy/group_devices.h"
#include "policy/loss/schedule.h"
#include "policy/placers/group_placer.h"

namespace emplace::policy {
namespace {

/// Steps per trace of an episode whose steps are known: as many as fit into memory.
constexpr std::size_t kKnownTogether = 256;

/// Returns β as a parameter only if it adapts, so that stores without a target keep their layout.
AdaptiveBeta beta_of(ParameterStore& store, const LossOptions& loss) {
  const bool moves = loss.kind == LossKind::kKlPenalised && loss.kl_target > 0;
  return moves ? AdaptiveBeta{store, loss} : AdaptiveBeta{loss};
}

/// The trace of this thread, which keeps its memory: many threads may draw.
GraphTrace& own_trace() {
  thread_local GraphTrace trace;
  return trace;
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

/// Devices ordered by the total time of all ops; the lowest index first among equals.
std::vector<std::uint8_t> fastest_first(const CostTable& costs, std::size_t devices) {
  std::vector<double> total(devices);
  for (std::size_t d = 0; d < devices; ++d)
    for (const std::int64_t ns : costs.row_ns(static_cast<DeviceId>(d))) total[d] += static_cast<double>(ns);
  std::vector<std::uint8_t> order(devices);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint8_t a, std::uint8_t b) { return total[a] < total[b]; });
  return order;
}

/// [groups] Sum of value(op) over a group's ops.
template <class Value>
std::vector<double> sum_of_ops(const PlacetoGraph& view, Value value) {
  std::vector<double> values(view.graph->num_ops());
  for (std::uint32_t op = 0; op < values.size(); ++op) values[op] = value(OpId{op});
  return sum_by_group(view.grouping, values);
}

/// [groups] c / (c + x): share of the compute time c in it and the time x in which the outputs cross the mean
/// link.
std::vector<double> transfer_ratios(const DeviceSet& devices, const std::vector<double>& run_time_s,
                                    const std::vector<double>& output_bytes) {
  const TransferTable transfers{devices};
  double s_per_byte = 0;
  for (std::size_t a = 0; a < devices.size(); ++a) {
    for (std::size_t b = 0; b < devices.size(); ++b)
      if (a != b) s_per_byte += transfers.s_per_byte(static_cast<DeviceId>(a), static_cast<DeviceId>(b));
  }
  if (const std::size_t links = devices.size() * (devices.size() - 1); links > 0)
    s_per_byte /= static_cast<double>(links);
  std::vector<double> ratio;
  for (std::size_t node = 0; node < run_time_s.size(); ++node) {
    const double both = run_time_s[node] + output_bytes[node] * s_per_byte;
    ratio.push_back(both > 0 ? run_time_s[node] / both : 0);
  }
  return ratio;
}

/// `whole`: what a value is divided by.
void fill_feature(Matrix& features, std::size_t row, const std::vector<double>& value, double whole) {
  for (std::size_t node = 0; node < value.size(); ++node)
    features(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(node)) =
        whole > 0 ? static_cast<float>(value[node] / whole) : 0.0f;
}

}  // namespace

Result<PlacetoPlacer::Task> PlacetoPlacer::make_task(PlacetoGraph view, const PlacetoOptions& options,
                                                     std::uint64_t seed) {
  EMPLACE_TRY(check_grouping(view, view.grouping));
  const std::size_t devices = view.devices->size(), groups = view.grouping.num_groups;
  Task task{.nodes = GroupGraph{*view.graph, view.grouping}};
  task.allowed = allowed_group_devices(*view.constraints, devices, view.grouping.group_of_op, groups);

  const CostTable costs{*view.graph, *view.devices};
  const auto fastest = fastest_first(costs, devices);
  for (std::size_t node = 0; node < groups; ++node)
    task.start.push_back(*std::ranges::find_if(fastest, [&](auto d) { return task.may_use(node, d); }));
  const bool given = !view.start.empty();
  if (given) EMPLACE_TRY(view.check(view.start));

  const std::size_t rows = 4 + devices + (options.transfer_ratio ? 1 : 0);
  task.features.setZero(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(groups));
  const std::vector<double> run_time_s =
      sum_of_ops(view, [&](OpId op) { return static_cast<double>(costs.best_ns(op)) * 1e-9; });
  const std::vector<double> output_bytes = sum_of_ops(view, [&graph = *view.graph](OpId op) {
    double bytes = 0;
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
      bytes += static_cast<double>(graph.bytes(graph.output(op, k)));
    return bytes;
  });
  fill_feature(task.features, 0, run_time_s, std::ranges::max(run_time_s));
  fill_feature(task.features, 1, output_bytes, std::ranges::max(output_bytes));
  if (options.transfer_ratio)
    fill_feature(task.features, 2 + devices, transfer_ratios(*view.devices, run_time_s, output_bytes), 1);
  task.view = std::move(view);
  if (given) {
    task.start = task.start_at(task.view.start);
  } else if (options.start == InitialPlacement::kRandom || options.start == InitialPlacement::kFixedRandom) {
    const std::string ops = graph_sha256(*task.view.graph);
    Rng rng{seed, Purpose::kPlacing, hash64(std::as_bytes(std::span{ops}))};
    task.start = task.random_start(rng);
  }
  return task;
}

std::vector<std::uint8_t> PlacetoPlacer::Task::majority(const Placement& placement) const {
  return majority_devices(placement, view.grouping.group_of_op, nodes.size(), view.devices->size(),
                          [](std::size_t, std::size_t) { return true; });
}

std::vector<std::uint8_t> PlacetoPlacer::Task::start_at(const Placement& placement) const {
  std::vector<std::uint8_t> at = majority(placement);
  for (std::size_t node = 0; node < at.size(); ++node)
    if (!may_use(node, at[node])) at[node] = start[node];
  return at;
}

std::vector<std::uint8_t> PlacetoPlacer::Task::random_start(Rng& rng) const {
  std::vector<std::uint8_t> at(nodes.size());
  for (std::size_t node = 0; node < at.size(); ++node) {
    do at[node] = static_cast<std::uint8_t>(rng.below(static_cast<std::uint32_t>(view.devices->size())));
    while (!may_use(node, at[node]));
  }
  return at;
}

/// The states of one episode in sequence, with the policy's distribution at each. Rows of a node's features:
/// run time, output bytes, one per device, the transfer ratio if configured, the current flag, the visited
/// flag.
class PlacetoPlacer::Walk {
 public:
  Walk(const PackedGraphNetwork& weights, const Task& task, std::span<const std::uint8_t> start,
       GraphTrace::Keep keep)
      : weights_{weights}, task_{task} {
    Matrix features = task.features;
    for (std::size_t node = 0; node < start.size(); ++node)
      features(kDevices + start[node], static_cast<Eigen::Index>(node)) = 1;
    trace_.begin(weights, task.nodes, &task.allowed, features, keep);
  }

  /// Starts the next step at `node` and returns its log q [devices]; valid until take().
  std::span<const float> visit(std::uint32_t node) {
    enter(node);
    return trace_.step(node);
  }
  /// A step whose device is known; trace().evaluate() computes its distribution.
  void follow(std::uint32_t node, std::size_t device) {
    enter(node);
    trace_.visit(node);
    take(device);
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
  GraphTrace& trace() { return trace_; }
  /// Starts the trace again at the current state.
  void restart() { trace_.begin(weights_, task_.nodes, &task_.allowed, Matrix(trace_.features())); }

 private:
  static constexpr Eigen::Index kDevices = 2;
  Eigen::Index current_row() const { return task_.features.rows() - 2; }
  Eigen::Index visited_row() const { return task_.features.rows() - 1; }
  void enter(std::uint32_t node) {
    // A new round clears the visited flags.
    if (step_ > 0 && step_ % task_.nodes.size() == 0) {
      for (std::uint32_t other = 0; other < task_.nodes.size(); ++other)
        edit(other, [&](auto& column) { column[visited_row()] = 0; });
    }
    node_ = node;
    edit(node, [&](auto& column) { column[current_row()] = 1; });
  }
  template <class Edit>
  void edit(std::uint32_t node, Edit change) {
    Eigen::VectorXf column = trace_.features().col(node);
    change(column);
    trace_.change(node, {column.data(), static_cast<std::size_t>(column.size())});
  }

  const PackedGraphNetwork& weights_;
  const Task& task_;
  GraphTrace& trace_ = own_trace();
  std::size_t step_ = 0;
  std::uint32_t node_ = 0;
};

Result<std::unique_ptr<PlacetoPlacer>> PlacetoPlacer::make(std::vector<PlacetoGraph> graphs,
                                                           PlacetoOptions options, std::uint64_t seed) {
  for (const auto& checked : {check_ranges(options), check_ranges(options.loss),
                              in_range("entropy_end", options.entropy_end, 0, 1e6)})
    if (!checked) return checked.error();
  EMPLACE_TRY(check_graphs(graphs, options.features, graphs.size()));
  std::vector<Task> tasks;
  for (PlacetoGraph& graph : graphs) {
    auto task = make_task(std::move(graph), options, seed);
    if (!task) return invalid("graph " + std::to_string(tasks.size()), task.error().context);
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

std::vector<std::uint16_t> PlacetoPlacer::usual_order(const Task& task) const {
  std::vector<std::uint16_t> order(task.nodes.order().begin(), task.nodes.order().end());
  if (options_.traversal == Traversal::kReversed) std::reverse(order.begin(), order.end());
  return order;
}

Actions PlacetoPlacer::sample_from(std::span<const Placement> best, std::uint64_t episode,
                                   std::uint64_t /*update*/) const {
  Choice choice;
  choice.graph = episode % tasks_.size();
  const Task& task = tasks_[choice.graph];
  Rng rng{seed_, Purpose::kPlacing, episode};
  const bool known =
      incumbent() != Incumbent::kNone && choice.graph < best.size() && !best[choice.graph].empty();
  choice.start = known ? task.start_at(best[choice.graph]) : task.start;
  if (options_.start == InitialPlacement::kRandom && task.view.start.empty())
    choice.start = task.random_start(rng);
  std::vector<std::uint16_t> round = usual_order(task);
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
  Walk walk{weights, task, choice.start, GraphTrace::Keep::kNewest};
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

std::vector<Placement> PlacetoPlacer::greedy_pass() const {
  const Task& task = tasks_.front();
  const PackedGraphNetwork weights{network_, store_};
  Walk walk{weights, task, task.start, GraphTrace::Keep::kNewest};
  const std::vector<std::uint16_t> order =
      options_.unseen_order ? unseen_order(task.nodes.size(), *options_.unseen_order) : usual_order(task);
  std::vector<std::uint8_t> device_of_group = task.start;
  std::vector<Placement> pass{task.placement(device_of_group)};
  for (std::size_t step = 0; step < options_.rounds_per_episode * order.size(); ++step) {
    const std::uint16_t node = order[step % order.size()];
    const std::size_t device = likeliest(walk.visit(node));
    device_of_group[node] = static_cast<std::uint8_t>(device);
    pass.push_back(task.placement(device_of_group));
    walk.take(device);
  }
  return pass;
}

Result<std::vector<Placement>> PlacetoPlacer::expand(const Actions& actions) const {
  EMPLACE_TRY_ASSIGN(const auto choice, decode_actions(actions));
  const Task& task = tasks_[choice.graph];
  std::vector<std::uint8_t> device_of_group = choice.start;
  std::vector<Placement> placements;
  placements.reserve(choice.node.size() + 1);
  if (options_.measure_start) placements.push_back(task.placement(device_of_group));
  for (std::size_t t = 0; t < choice.node.size(); ++t) {
    const std::uint8_t before = std::exchange(device_of_group[choice.node[t]], choice.decisions.devices[t]);
    const bool stays = !placements.empty() && before == choice.decisions.devices[t];
    placements.push_back(stays ? placements.back() : task.placement(device_of_group));
  }
  return placements;
}

Matrix PlacetoPlacer::replay(const PackedGraphNetwork& weights, const Choice& choice,
                             const AtEnd& at_end) const {
  const std::size_t steps = choice.node.size();
  Matrix log_p(static_cast<Eigen::Index>(num_devices()), static_cast<Eigen::Index>(steps));
  Walk walk{weights, tasks_[choice.graph], choice.start, GraphTrace::Keep::kAll};
  GraphTrace& trace = walk.trace();
  for (std::size_t t = 0; t < steps; ++t) {
    if (trace.steps() == kKnownTogether) walk.restart();
    walk.follow(choice.node[t], choice.decisions.devices[t]);
    if (trace.steps() < kKnownTogether && t + 1 < steps) continue;
    trace.evaluate();
    const auto first = static_cast<Eigen::Index>(t + 1 - trace.steps());
    log_p.middleCols(first, static_cast<Eigen::Index>(trace.steps())) = trace.log_p();
    if (at_end) at_end(trace, first);
  }
  return log_p;
}

LossParts PlacetoPlacer::learn(std::span<const Choice> choices,
                               std::span<const std::span<const float>> advantages, const LossOptions& loss) {
  const PackedGraphNetwork weights{network_, store_};
  GraphNetworkGradient gradient{weights};
  const float scale = 1.0f / static_cast<float>(choices.size());
  LossParts parts;
  for (std::size_t e = 0; e < choices.size(); ++e) {
    const Choice& choice = choices[e];
    const std::size_t steps = choice.node.size();
    const Matrix log_p = replay(weights, choice, nullptr);
    const Trajectories seen{.count = 1,
                            .stages = steps,
                            .log_p = &log_p,
                            .chosen = choice.decisions.devices,
                            .advantage = advantages[e],
                            .behaviour = choice.decisions.log_q};
    Matrix seed = Matrix::Zero(log_p.rows(), log_p.cols());
    parts.add(static_cast<double>(scale), add_loss_gradient(loss, beta_.value(store_), seen, scale, seed));
    const auto backward = [&](GraphTrace& trace, Eigen::Index first) {
      trace.backward(seed.middleCols(first, static_cast<Eigen::Index>(trace.steps())), gradient);
    };
    if (steps <= kKnownTogether) {
      backward(own_trace(), 0);  // It still holds all steps.
    } else {
      replay(weights, choice, backward);
    }
  }
  gradient.add_to(store_);
  return parts;
}

Result<LossParts> PlacetoPlacer::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  std::vector<Choice> choices;
  std::vector<std::span<const float>> advantages;
  for (const ScoredEpisode& episode : episodes) {
    EMPLACE_TRY_ASSIGN(Choice choice, decode_actions(episode.actions));
    if (episode.advantages.size() != choice.decisions.devices.size())
      return invalid("episode", "numbers of placements and advantages differ");
    choices.push_back(std::move(choice));
    advantages.emplace_back(episode.advantages);
  }
  LossOptions loss = options_.loss;
  loss.entropy = entropy_;
  return learn(choices, advantages, loss);
}

Result<LossParts> PlacetoPlacer::accumulate_imitation(const Placement& placement) {
  const Task& task = tasks_.front();
  EMPLACE_TRY(task.view.check(placement));
  const auto wanted = task.majority(placement);
  Choice choice;
  choice.start = task.start;
  for (std::size_t step = 0; step < options_.rounds_per_episode * task.nodes.size(); ++step) {
    const std::uint32_t node = task.nodes.order()[step % task.nodes.size()];
    if (!task.may_use(node, wanted[node]))
      return invalid("placement",
                     "puts most ops of a group on a device that is forbidden for another op of it");
    choice.node.push_back(static_cast<std::uint16_t>(node));
    choice.decisions.devices.push_back(wanted[node]);
  }
  const std::vector<float> advantage(choice.node.size(), -1.0f / static_cast<float>(choice.node.size()));
  const std::span<const float> advantages = advantage;
  return learn({&choice, 1}, {&advantages, 1}, LossOptions{});
}

void PlacetoPlacer::start_update(std::uint64_t update) {
  entropy_ = linear_schedule(options_.loss.entropy, options_.entropy_end, options_.entropy_over, update);
}

void PlacetoPlacer::end_update(const LossParts& parts) { beta_.follow(store_, parts.divergence); }

Result<std::vector<double>> PlacetoPlacer::log_probabilities(const Actions& actions) const {
  EMPLACE_TRY_ASSIGN(const auto choice, decode_actions(actions));
  const Matrix log_p = replay(PackedGraphNetwork{network_, store_}, choice, nullptr);
  double total = 0;
  for (std::size_t t = 0; t < choice.node.size(); ++t)
    total += static_cast<double>(log_p(choice.decisions.devices[t], static_cast<Eigen::Index>(t)));
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
  const auto by_group = devices_by_group(task.view, placements.front(), task.view.grouping.group_of_op,
                                         task.allowed, task.nodes.size());
  if (!by_group) return by_group.error();
  Choice choice;
  choice.graph = graph;
  choice.start = task.start;
  choice.node = usual_order(task);
  for (const std::uint16_t node : choice.node) choice.decisions.devices.push_back((*by_group)[node]);
  if (options_.loss.needs_behaviour())
    choice.decisions.log_q = even_behaviour(choice.decisions.devices, num_devices(), log_q);
  return encode_actions(choice);
}

Actions PlacetoPlacer::encode_actions(const Choice& choice) {
  // [u32 graph, groups][u8 start …][u16 node …][decisions], little-endian.
  const auto groups = static_cast<std::uint32_t>(choice.start.size());
  Actions actions;
  append_graph(choice.graph, actions.bytes);
  append_values(std::span{&groups, 1}, actions.bytes);
  append_values(choice.start, actions.bytes);
  append_values(choice.node, actions.bytes);
  append_decisions(choice.decisions, actions.bytes);
  return actions;
}

Result<PlacetoPlacer::Choice> PlacetoPlacer::decode_actions(const Actions& actions) const {
  const auto foreign = [](const char* why) { return invalid("actions", why); };
  Choice choice;
  std::span<const std::byte> bytes = actions.bytes;
  std::uint32_t groups = 0;
  EMPLACE_TRY_ASSIGN(choice.graph, take_graph(bytes, tasks_.size()));
  EMPLACE_TRY(take_values(bytes, std::span{&groups, 1}));
  const Task& task = tasks_[choice.graph];
  if (groups != task.nodes.size()) return foreign("wrong number of groups");
  const std::size_t steps = options_.rounds_per_episode * groups;
  choice.start.resize(groups);
  choice.node.resize(steps);
  EMPLACE_TRY(take_values(bytes, choice.start));
  EMPLACE_TRY(take_values(bytes, choice.node));
  EMPLACE_TRY_ASSIGN(choice.decisions, read_decisions(bytes, {.stages = steps,
                                                              .devices = num_devices(),
                                                              .behaviour = options_.loss.needs_behaviour()}));
  if (choice.decisions.devices.size() != steps) return foreign("more than one episode");
  for (std::size_t node = 0; node < groups; ++node)
    if (choice.start[node] >= num_devices() || !task.may_use(node, choice.start[node]))
      return foreign("start on a forbidden device");
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
