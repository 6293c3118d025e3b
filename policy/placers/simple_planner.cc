#include "policy/placers/simple_planner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "policy/placers/group_placer.h"
#include "policy/placers/grouper_units.h"

namespace emplace::policy {
namespace {

GrouperUnits units_of(const OpGraph& graph, const OpFeatureOptions& options, std::span<const OpId> units,
                      const Placement& start) {
  const OpFeatures features = op_features(graph, options);
  GrouperUnits seen = grouper_units(features, units);
  if (!start.empty())
    for (const OpId op : units)
      seen.start_group.push_back(static_cast<std::uint16_t>(index(start[index(op)])));
  return seen;
}

}  // namespace

Result<std::unique_ptr<SimplePlanner>> SimplePlanner::make(const std::vector<SimplePlannerGraph>& graphs,
                                                           SimplePlannerOptions options, std::uint64_t seed) {
  for (const auto& checked :
       {check_ranges(options), in_range("placements", options.placements, 1, kMaxPlacements),
        in_range("noise", options.noise, 0, 1e3), in_range("noise_limit", options.noise_limit, 0, 1e3),
        in_range("entropy", options.entropy, 0, 1e3), in_range("entropy_end", options.entropy_end, 0, 1e3),
        in_range("start_logit", options.start_logit, 0, 1e3),
        in_range("max_weight", options.max_weight, 0, 1e6)}) {
    if (!checked) return checked.error();
  }
  EMPLACE_TRY(check_graphs(graphs, options.features));
  for (const SimplePlannerGraph& view : graphs) {
    if (view.start.empty()) continue;
    EMPLACE_TRY(view.constraints->check(*view.graph, *view.devices, view.start));
  }
  return std::unique_ptr<SimplePlanner>{new SimplePlanner{graphs, std::move(options), seed}};
}

SimplePlanner::SimplePlanner(const std::vector<SimplePlannerGraph>& graphs, SimplePlannerOptions options,
                             std::uint64_t seed)
    : options_{std::move(options)}, seed_{seed}, tasks_{make_tasks(graphs)}, entropy_{options_.entropy} {}

std::vector<SimplePlanner::Task> SimplePlanner::make_tasks(const std::vector<SimplePlannerGraph>& graphs) {
  std::vector<Task> tasks;
  for (const SimplePlannerGraph& view : graphs) {
    std::vector<OpId> units = class_leaders(*view.constraints);
    GrouperUnits seen = units_of(*view.graph, options_.features, units, view.start);
    const GrouperOptions shape{static_cast<Eigen::Index>(view.devices->size()), options_.type_embedding,
                               options_.hidden, 1, options_.start_logit};
    Grouper chooser = tasks.empty() ? Grouper{store_, "chooser", shape, std::move(seen), seed_}
                                    : tasks.front().chooser.for_units(std::move(seen));
    tasks.push_back({view.graph, view.devices, view.constraints, std::move(units), std::move(chooser)});
  }
  return tasks;
}

Placement SimplePlanner::spread(const Task& task, std::span<const std::uint8_t> device_of_unit) {
  Placement placement;
  placement.reserve(task.constraints->classes().size());
  for (const std::uint32_t unit : task.constraints->classes())
    placement.push_back(static_cast<DeviceId>(device_of_unit[unit]));
  task.constraints->repair(placement);
  return placement;
}

Actions SimplePlanner::sample(std::uint64_t episode, std::uint64_t update) const {
  Rng place_rng{seed_, Purpose::kPlacing, episode};
  GrouperNoise noise{Rng{seed_, Purpose::kNoise, episode},
                     update < options_.noise_updates ? options_.noise : 0.0f, options_.noise_limit};
  Drawn drawn;
  drawn.graph = episode % tasks_.size();
  const Task& task = tasks_[drawn.graph];
  for (std::size_t p = 0; p < options_.placements; ++p) {
    for (const std::uint16_t device : task.chooser.draw(store_, place_rng, noise))
      drawn.devices.push_back(static_cast<std::uint8_t>(device));
  }
  if (options_.max_weight > 0) drawn.log_q = log_of_choices(task, drawn.devices);
  return encode_actions(drawn);
}

Placement SimplePlanner::greedy_of(std::size_t graph) const {
  const Task& task = tasks_[graph];
  const std::vector<std::uint16_t> likeliest = task.chooser.likeliest(store_);
  return spread(task, std::vector<std::uint8_t>(likeliest.begin(), likeliest.end()));
}

Result<std::vector<Placement>> SimplePlanner::expand(const Actions& actions) const {
  const auto drawn = decode_actions(actions);
  if (!drawn) return drawn.error();
  const Task& task = tasks_[drawn->graph];
  const std::size_t units = task.units.size();
  const std::span<const std::uint8_t> devices = drawn->devices;
  std::vector<Placement> placements;
  for (std::size_t first = 0; first < devices.size(); first += units)
    placements.push_back(spread(task, devices.subspan(first, units)));
  return placements;
}

Result<LossParts> SimplePlanner::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  struct Batch {
    std::vector<std::vector<std::uint16_t>> drawn;  // [placements][units]
    std::vector<float> weights;
  };
  std::vector<Batch> batch_of_graph(tasks_.size());
  std::size_t total = 0;
  for (const ScoredEpisode& episode : episodes) {
    const auto own = decode_actions(episode.actions);
    if (!own) return own.error();
    const Task& task = tasks_[own->graph];
    auto& [drawn, weights] = batch_of_graph[own->graph];
    const std::size_t units = task.units.size(), placements = own->devices.size() / units;
    if (placements != episode.advantages.size())
      return invalid("episode", "numbers of placements and advantages differ");
    const std::vector<double> log_p =
        options_.max_weight > 0 ? log_of_choices(task, own->devices) : std::vector<double>{};
    for (std::size_t p = 0; p < placements; ++p) {
      const auto first = own->devices.begin() + static_cast<std::ptrdiff_t>(p * units);
      drawn.emplace_back(first, first + static_cast<std::ptrdiff_t>(units));
      weights.push_back(episode.advantages[p] / static_cast<float>(placements * episodes.size()));
      if (log_p.empty()) continue;
      weights.back() *= static_cast<float>(
          std::min(std::exp(log_p[p] - own->log_q[p]), static_cast<double>(options_.max_weight)));
    }
    total += placements;
  }
  LossParts parts;
  for (std::size_t graph = 0; graph < tasks_.size(); ++graph) {
    const auto& [drawn, weights] = batch_of_graph[graph];
    if (drawn.empty()) continue;
    const double share = static_cast<double>(drawn.size()) / static_cast<double>(total);
    GrouperStats seen;
    seen.entropy_weight = static_cast<float>(share) * entropy_;
    parts.loss += tasks_[graph].chooser.accumulate_gradient(store_, drawn, weights, &seen);
    parts.log_probability += share * seen.log_probability;
    parts.entropy += share * seen.entropy / static_cast<double>(tasks_[graph].units.size());
  }
  return parts;
}

Result<LossParts> SimplePlanner::accumulate_imitation(const Placement& placement) {
  const Task& task = tasks_.front();
  if (placement.size() != task.constraints->classes().size())
    return invalid("placement to imitate", "has the wrong number of ops for this graph");
  std::vector<std::uint16_t> wanted;
  for (const OpId unit : task.units) {
    if (index(placement[index(unit)]) >= task.devices->size())
      return invalid("placement to imitate", "contains an unknown device");
    wanted.push_back(static_cast<std::uint16_t>(index(placement[index(unit)])));
  }
  const float weight = -1.0f / static_cast<float>(task.units.size());
  GrouperStats seen;
  LossParts parts;
  parts.loss = task.chooser.accumulate_gradient(store_, {&wanted, 1}, {&weight, 1}, &seen);
  parts.log_probability = seen.log_probability;
  parts.entropy = seen.entropy / static_cast<double>(task.units.size());
  return parts;
}

void SimplePlanner::start_update(std::uint64_t update) {
  if (options_.entropy_over == 0) return;
  const double done = std::min(1.0, static_cast<double>(update) / static_cast<double>(options_.entropy_over));
  entropy_ = static_cast<float>((1 - done) * static_cast<double>(options_.entropy) +
                                done * static_cast<double>(options_.entropy_end));
}

std::vector<double> SimplePlanner::log_of_choices(const Task& task,
                                                  std::span<const std::uint8_t> devices) const {
  const Matrix log_p = task.chooser.log_p(store_);
  const std::size_t units = task.units.size();
  std::vector<double> totals(devices.size() / units, 0);
  for (std::size_t n = 0; n < devices.size(); ++n)
    totals[n / units] += static_cast<double>(log_p(devices[n], static_cast<Eigen::Index>(n % units)));
  return totals;
}

Result<std::vector<double>> SimplePlanner::log_probabilities(const Actions& actions) const {
  const auto drawn = decode_actions(actions);
  if (!drawn) return drawn.error();
  const Task& task = tasks_[drawn->graph];
  const Matrix log_p = task.chooser.log_p(store_);
  const std::size_t units = task.units.size();
  std::vector<double> totals(drawn->devices.size() / units, 0);
  for (std::size_t n = 0; n < drawn->devices.size(); ++n) {
    const std::size_t unit = n % units;
    const DeviceMask& may = task.constraints->allowed(static_cast<std::uint32_t>(unit));
    const std::size_t first = may._Find_first();
    const std::size_t there = may.test(drawn->devices[n]) ? drawn->devices[n] : first;
    double p = 0;
    for (std::size_t d = 0; d < task.devices->size(); ++d) {
      if (d == there || (there == first && !may.test(d)))
        p += std::exp(
            static_cast<double>(log_p(static_cast<Eigen::Index>(d), static_cast<Eigen::Index>(unit))));
    }
    totals[n / units] += std::log(p);
  }
  return totals;
}

Result<Actions> SimplePlanner::actions_of(std::size_t graph, std::span<const Placement> placements,
                                          std::span<const double> log_q) const {
  if (graph >= tasks_.size()) return invalid("placement", "graph number out of range");
  const Task& task = tasks_[graph];
  Drawn drawn;
  drawn.graph = graph;
  for (const Placement& placement : placements) {
    if (auto obeyed = task.constraints->check(*task.graph, *task.devices, placement); !obeyed)
      return obeyed.error();
    for (const OpId unit : task.units)
      drawn.devices.push_back(static_cast<std::uint8_t>(index(placement[index(unit)])));
  }
  if (options_.max_weight > 0) drawn.log_q.assign(log_q.begin(), log_q.end());
  return encode_actions(drawn);
}

std::size_t SimplePlanner::graph_of(const Actions& actions) const {
  std::span<const std::byte> bytes = actions.bytes;
  const auto graph = any_graph() ? take_graph(bytes, tasks_.size()) : Result<std::size_t>{0};
  return graph ? *graph : 0;
}

Actions SimplePlanner::encode_actions(const Drawn& drawn) const {
  // Decisions, preceded with max_weight by [u32 placements][f64 log q …], and in a planner that places any
  // graph by [u32 graph] before all, little-endian.
  Actions actions;
  if (any_graph()) append_graph(drawn.graph, actions.bytes);
  if (options_.max_weight > 0) {
    const auto placements = static_cast<std::uint32_t>(drawn.log_q.size());
    const std::size_t begin = actions.bytes.size();
    actions.bytes.resize(begin + sizeof placements + placements * sizeof(double));
    std::byte* const at = actions.bytes.data() + begin;
    std::memcpy(at, &placements, sizeof placements);
    std::memcpy(at + sizeof placements, drawn.log_q.data(), placements * sizeof(double));
  }
  append_decisions({drawn.devices, {}}, actions.bytes);
  return actions;
}

Result<SimplePlanner::Drawn> SimplePlanner::decode_actions(const Actions& actions) const {
  Drawn drawn;
  std::span<const std::byte> bytes = actions.bytes;
  if (any_graph()) {
    EMPLACE_TRY_ASSIGN(drawn.graph, take_graph(bytes, tasks_.size()));
  }
  const std::size_t units = tasks_[drawn.graph].units.size();
  if (options_.max_weight > 0) {
    std::uint32_t placements = 0;
    if (bytes.size() < sizeof placements) return invalid("actions", "truncated");
    std::memcpy(&placements, bytes.data(), sizeof placements);
    bytes = bytes.subspan(sizeof placements);
    if (placements > kMaxPlacements || bytes.size() < placements * sizeof(double))
      return invalid("actions", "behaviour probabilities are missing");
    drawn.log_q.resize(placements);
    std::memcpy(drawn.log_q.data(), bytes.data(), placements * sizeof(double));
    bytes = bytes.subspan(placements * sizeof(double));
  }
  auto decisions = read_decisions(bytes, {units, tasks_.front().devices->size(), false});
  if (!decisions) return decisions.error();
  drawn.devices = std::move(decisions->devices);
  if (options_.max_weight <= 0) return drawn;
  if (drawn.log_q.size() * units != drawn.devices.size())
    return invalid("actions", "wrong number of behaviour probabilities");
  for (const double log_q : drawn.log_q) {
    // The comparison also rejects NaN.
    if (!(log_q <= 1e-3 && log_q >= -60.0 * static_cast<double>(units)))
      return invalid("actions", "invalid log-probability");
  }
  return drawn;
}

}  // namespace emplace::policy
