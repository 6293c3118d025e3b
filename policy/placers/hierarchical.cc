#include "policy/placers/hierarchical.h"

#include <algorithm>
#include <string>
#include <utility>

#include "policy/group_devices.h"
#include "policy/placers/grouper_units.h"

namespace emplace::policy {
namespace {

GrouperOptions grouper_options(const HierarchicalOptions& options) {
  return {static_cast<Eigen::Index>(options.groups), options.type_embedding, options.grouper_hidden,
          options.grouper_scale, options.start_at_scopes ? options.grouper_confidence : 0};
}

std::vector<std::uint16_t> inverse(const std::vector<std::uint16_t>& place_of) {
  std::vector<std::uint16_t> at(place_of.size());
  for (std::size_t i = 0; i < place_of.size(); ++i) at[place_of[i]] = static_cast<std::uint16_t>(i);
  return at;
}

/// The start with its groups by place.
HierarchicalInitial by_place(HierarchicalInitial start, const std::vector<std::uint16_t>& place_of_group) {
  for (std::uint32_t& group : start.group_of_op) group = place_of_group[group];
  const std::vector<std::uint16_t> labels = start.label_of_group;
  for (std::size_t g = 0; g < labels.size(); ++g) start.label_of_group[place_of_group[g]] = labels[g];
  return start;
}

}  // namespace

Result<std::unique_ptr<HierarchicalPlanner>> HierarchicalPlanner::make(std::vector<HierarchicalGraph> graphs,
                                                                       HierarchicalOptions options,
                                                                       std::uint64_t seed) {
  for (const auto& checked :
       {check_ranges(options), in_range("groups", options.groups, 1, kMaxGroups), check(options, options)}) {
    if (!checked) return checked.error();
  }
  EMPLACE_TRY(check_graphs(graphs, options.features));
  if (options.draw_updates > 0 && graphs.size() > 1)
    return invalid("policy.hierarchical.draw_updates", "repeats the devices of one graph",
                   "set it to 0 for several graphs");
  for (std::size_t number = 0; number < graphs.size(); ++number) {
    if (auto checked = check_graph(graphs[number], options); !checked) {
      const std::string where = graphs.size() == 1 ? "" : "graph " + std::to_string(number) + ": ";
      return Error{checked.error().code, where + checked.error().context};
    }
  }
  return std::unique_ptr<HierarchicalPlanner>{
      new HierarchicalPlanner{std::move(graphs), std::move(options), seed}};
}

Result<Unit> HierarchicalPlanner::check_graph(const HierarchicalGraph& view,
                                              const HierarchicalOptions& options) {
  const HierarchicalInitial& start = view.start;
  const std::size_t ops = view.graph->num_ops();
  if (!start.group_of_op.empty()) {
    if (start.group_of_op.size() != ops)
      return invalid("policy start", "wrong number of ops in the grouping");
    for (const std::uint32_t group : start.group_of_op) {
      if (group >= options.groups)
        return invalid("policy start", "the grouping has more groups than policy.groups");
    }
  }
  if (!start.placement.empty() && start.placement.size() != ops)
    return invalid("policy start", "wrong number of ops in the placement");
  if (!start.label_of_group.empty() && start.label_of_group.size() != options.groups)
    return invalid("policy start", "wrong number of group labels");
  return Unit{};
}

HierarchicalPlanner::HierarchicalPlanner(std::vector<HierarchicalGraph> graphs, HierarchicalOptions options,
                                         std::uint64_t seed)
    : options_{std::move(options)},
      seed_{seed},
      place_of_group_{group_places(options_.order, options_.groups,
                                   options_.order_seed == 0 ? seed : options_.order_seed)},
      group_at_{inverse(place_of_group_)},
      tasks_{make_tasks(std::move(graphs))},
      placer_{store_,
              options_,
              options_,
              static_cast<Eigen::Index>(tasks_.front().features.vocabulary_size + options_.groups) +
                  tasks_.front().features.shape_sums.rows(),
              any_graph() ? 0 : options_.groups,
              tasks_.front().view.devices->size(),
              tasks_.front().view.start.label_of_group,
              seed} {
  if (options_.draw_updates > 0)
    last_ = store_.add("placer.last", static_cast<Eigen::Index>(options_.groups),
                       static_cast<Eigen::Index>(options_.placements), Init::kZero, seed, 0.0f);
  const HierarchicalInitial& start = tasks_.front().view.start;
  if (!start.placement.empty() && !start.group_of_op.empty())
    placer_.start_at(store_, start.placement, start.group_of_op);
}

std::vector<HierarchicalPlanner::Task> HierarchicalPlanner::make_tasks(
    std::vector<HierarchicalGraph> graphs) {
  std::vector<Task> tasks;
  for (HierarchicalGraph& view : graphs) {
    view.start = by_place(std::move(view.start), place_of_group_);
    OpFeatures features = op_features(*view.graph, options_.features);
    std::vector<OpId> units = class_leaders(*view.constraints);
    GrouperUnits seen = grouper_units(features, units);
    if (!view.start.group_of_op.empty() && options_.start_at_scopes && options_.grouper_confidence > 0)
      for (const OpId op : units) seen.start_group.push_back(group_at_[view.start.group_of_op[index(op)]]);
    Grouper grouper = tasks.empty()
                          ? Grouper{store_, "grouper", grouper_options(options_), std::move(seen), seed_}
                          : tasks.front().grouper.for_units(std::move(seen));
    tasks.push_back({std::move(view), std::move(features), std::move(units), std::move(grouper)});
  }
  return tasks;
}

/// Expands groups of class leaders to all ops of their classes, by place.
std::vector<std::uint32_t> HierarchicalPlanner::spread(
    const Task& task, const std::vector<std::uint16_t>& group_of_unit) const {
  std::vector<std::uint32_t> group_of_op;
  group_of_op.reserve(task.view.graph->num_ops());
  for (const std::uint32_t unit : task.view.constraints->classes())
    group_of_op.push_back(place_of_group_[group_of_unit[unit]]);
  return group_of_op;
}

Decoded HierarchicalPlanner::place_groups(Tape& tape, const Task& task,
                                          std::span<const std::uint32_t> group_of_op,
                                          DecodeInput input) const {
  const HierarchicalGraph& view = task.view;
  const auto allowed =
      allowed_group_devices(*view.constraints, view.devices->size(), group_of_op, options_.groups);
  if (!allowed.empty()) input.allowed = &allowed;
  const OverGroup over = options_.sum_inputs ? OverGroup::kSums : OverGroup::kMeans;
  return placer_.place(tape,
                       tape.constant(group_embeddings(*view.graph, task.features, group_of_op,
                                                      options_.groups, over, options_.groups)),
                       input);
}

GrouperNoise HierarchicalPlanner::grouper_noise(std::uint64_t episode, float noise) const {
  return {Rng{seed_, Purpose::kNoise, episode}, noise, options_.noise_limit, options_.relative_noise};
}

/// Decodes the devices of a choice, with the relative noise that they were drawn with, or with none.
Decoded HierarchicalPlanner::place_chosen(Tape& tape, const Choice& choice, float noise) const {
  Rng place_rng{seed_, Purpose::kPlacing, choice.episode};
  const DecodeInput input{
      .samples = static_cast<Eigen::Index>(choice.placed.devices.size() / options_.groups),
      .chosen = &choice.placed.devices,
      .rng = &place_rng,
      .noise = noise,
      .noise_limit = options_.noise_limit,
      .relative_noise = true};
  return place_groups(tape, tasks_[choice.graph], choice.group_of_op, input);
}

/// [placements, groups] The last drawn devices; where a new group may not use its device, its first allowed
/// one.
std::vector<std::uint8_t> HierarchicalPlanner::last_drawn(const Task& task,
                                                          std::span<const std::uint32_t> group_of_op) const {
  const auto allowed =
      allowed_group_devices(*task.view.constraints, task.view.devices->size(), group_of_op, options_.groups);
  const auto last = store_.value(*last_);
  const auto end = static_cast<float>(task.view.devices->size());
  std::vector<std::uint8_t> devices;
  devices.reserve(options_.placements * options_.groups);
  for (Eigen::Index n = 0; n < last.size(); ++n) {
    // Loaded parameters may have any value.
    const float kept = last.data()[n];
    std::size_t device = kept >= 0 && kept < end ? static_cast<std::size_t>(kept) : 0;
    if (const std::size_t group = devices.size() % options_.groups;
        !allowed.empty() && !allowed[group][device])
      device = static_cast<std::size_t>(std::ranges::find(allowed[group], true) - allowed[group].begin());
    devices.push_back(static_cast<std::uint8_t>(device));
  }
  return devices;
}

Actions HierarchicalPlanner::sample(std::uint64_t episode, std::uint64_t update) const {
  Choice choice;
  choice.graph = episode % tasks_.size();
  choice.episode = episode;
  const Task& task = tasks_[choice.graph];
  const float noise = options_.noise_at(update);
  if (options_.relative_noise) choice.noise = noise;
  Tape tape{store_};
  Rng group_rng{seed_, Purpose::kGrouping, episode}, place_rng{seed_, Purpose::kPlacing, episode};
  GrouperNoise group_noise = grouper_noise(episode, noise);
  choice.group_of_op = spread(task, task.grouper.draw(store_, group_rng, group_noise));
  DecodeInput input{.samples = static_cast<Eigen::Index>(options_.placements),
                    .rng = &place_rng,
                    .noise = noise,
                    .noise_limit = options_.noise_limit,
                    .relative_noise = options_.relative_noise};
  std::vector<std::uint8_t> repeated;
  if (last_ && update >= options_.draw_updates) {
    repeated = last_drawn(task, choice.group_of_op);
    input.chosen = &repeated;
  }
  choice.placed = placer_.decisions(tape, place_groups(tape, task, choice.group_of_op, input));
  return encode_actions(choice);
}

Placement HierarchicalPlanner::greedy() const {
  const Task& task = tasks_.front();
  Tape tape{store_};
  const std::vector<std::uint32_t> group_of_op = spread(task, task.grouper.likeliest(store_));
  const Decoded decoded = place_groups(tape, task, group_of_op, {.greedy = true});
  return spread_groups(*task.view.constraints, group_of_op, decoded.devices);
}

Result<std::vector<Placement>> HierarchicalPlanner::expand(const Actions& actions) const {
  EMPLACE_TRY_ASSIGN(const auto choice, decode_actions(actions));
  return expand_groups(*tasks_[choice.graph].view.constraints, choice.group_of_op, options_.groups,
                       choice.placed.devices);
}

Result<LossParts> HierarchicalPlanner::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  LossParts parts;
  const float each = 1.0f / static_cast<float>(episodes.size());
  struct Batch {
    std::vector<std::vector<std::uint16_t>> groupings;  // [episodes][units]
    std::vector<float> weights;
  };
  std::vector<Batch> batch_of_graph(tasks_.size());
  for (const ScoredEpisode& episode : episodes) {
    EMPLACE_TRY_ASSIGN(const auto choice, decode_actions(episode.actions));
    const Task& task = tasks_[choice.graph];
    auto& [groupings, weights] = batch_of_graph[choice.graph];
    const std::size_t samples = choice.placed.devices.size() / options_.groups;
    if (samples != episode.advantages.size())
      return invalid("episode", "numbers of placements and advantages differ");
    Tape tape{store_};
    const Decoded decoded = place_chosen(tape, choice, choice.noise);
    const auto placed = placer_.seed_loss(tape, decoded, choice.placed, episode.advantages, each);
    if (!placed) return placed.error();
    tape.backward();  // Eq. 6
    parts.add(static_cast<double>(each), *placed);
    float mean_advantage = 0;
    for (const float advantage : episode.advantages)
      mean_advantage += advantage / static_cast<float>(samples);
    weights.push_back(each * mean_advantage);  // Eq. 4
    auto& group_of_unit = groupings.emplace_back();
    group_of_unit.reserve(task.units.size());
    for (const OpId unit : task.units) group_of_unit.push_back(group_at_[choice.group_of_op[index(unit)]]);
    if (last_ && samples == options_.placements) latest_ = choice.placed.devices;
    if (choice.noise == 0) continue;
    // Each grouping has logits of its own.
    parts.loss += task.grouper.accumulate_gradient(store_, {&group_of_unit, 1}, {&weights.back(), 1}, nullptr,
                                                   grouper_noise(choice.episode, choice.noise));
    groupings.pop_back();
    weights.pop_back();
  }
  for (std::size_t graph = 0; graph < tasks_.size(); ++graph) {
    const auto& [groupings, weights] = batch_of_graph[graph];
    if (!weights.empty()) parts.loss += tasks_[graph].grouper.accumulate_gradient(store_, groupings, weights);
  }
  return parts;
}

void HierarchicalPlanner::end_update(const LossParts& parts) {
  placer_.end_update(store_, parts);
  if (latest_.empty()) return;
  MatrixMap last = store_.value(*last_);
  for (Eigen::Index n = 0; n < last.size(); ++n) last.data()[n] = latest_[static_cast<std::size_t>(n)];
}

Result<std::vector<double>> HierarchicalPlanner::log_probabilities(const Actions& actions) const {
  EMPLACE_TRY_ASSIGN(const auto choice, decode_actions(actions));
  Tape tape{store_};
  return placer_.log_probabilities(tape, place_chosen(tape, choice, 0), options_.groups);
}

Result<Actions> HierarchicalPlanner::actions_of(std::size_t graph, std::span<const Placement> placements,
                                                std::span<const double> log_q) const {
  if (graph >= tasks_.size()) return invalid("placement", "graph number out of range");
  const HierarchicalGraph& view = tasks_[graph].view;
  const std::vector<std::uint32_t>& group_of_op = view.start.group_of_op;
  if (group_of_op.empty())
    return invalid("policy",
                   "draws a new grouping in every episode, so the groups of a logged placement are unknown",
                   "set policy.hierarchical.start_at_scopes");
  const auto allowed =
      allowed_group_devices(*view.constraints, view.devices->size(), group_of_op, options_.groups);
  std::vector<std::uint8_t> devices;
  for (const Placement& placement : placements) {
    const auto by_group = devices_by_group(view, placement, group_of_op, allowed, options_.groups);
    if (!by_group) return by_group.error();
    devices.insert(devices.end(), by_group->begin(), by_group->end());
  }
  return encode_actions({.graph = graph,
                         .group_of_op = group_of_op,
                         .placed = placer_.with_behaviour(std::move(devices), log_q)});
}

Actions HierarchicalPlanner::encode_actions(const Choice& choice) const {
  // [u32 ops][u16 groups …][decisions], preceded in a planner that places any graph by [u32 graph], then with
  // relative noise by [u64 episode][f32 noise], little-endian.
  const auto ops = static_cast<std::uint32_t>(choice.group_of_op.size());
  const std::vector<std::uint16_t> groups(choice.group_of_op.begin(), choice.group_of_op.end());
  Actions actions;
  if (any_graph()) append_graph(choice.graph, actions.bytes);
  if (options_.relative_noise) {
    append_values(std::span{&choice.episode, 1}, actions.bytes);
    append_values(std::span{&choice.noise, 1}, actions.bytes);
  }
  append_values(std::span{&ops, 1}, actions.bytes);
  append_values(groups, actions.bytes);
  append_decisions(choice.placed, actions.bytes);
  return actions;
}

Result<HierarchicalPlanner::Choice> HierarchicalPlanner::decode_actions(const Actions& actions) const {
  const Error foreign = invalid("actions", "not of this policy");
  Choice choice;
  std::span<const std::byte> bytes = actions.bytes;
  if (any_graph()) {
    EMPLACE_TRY_ASSIGN(choice.graph, take_graph(bytes, tasks_.size()));
  }
  if (options_.relative_noise) {
    EMPLACE_TRY(take_values(bytes, std::span{&choice.episode, 1}));
    EMPLACE_TRY(take_values(bytes, std::span{&choice.noise, 1}));
    if (!(choice.noise >= 0 && choice.noise <= 1e3f)) return foreign;  // NaN, too.
  }
  std::uint32_t ops = 0;
  EMPLACE_TRY(take_values(bytes, std::span{&ops, 1}));
  if (ops != tasks_[choice.graph].view.graph->num_ops()) return foreign;
  std::vector<std::uint16_t> groups(ops);
  EMPLACE_TRY(take_values(bytes, groups));
  if (std::ranges::any_of(groups, [&](std::uint16_t group) { return group >= options_.groups; }))
    return foreign;
  choice.group_of_op.assign(groups.begin(), groups.end());
  auto placed = read_decisions(bytes, placer_.decision_shape(options_.groups));
  if (!placed) return placed.error();
  choice.placed = std::move(*placed);
  return choice;
}

}  // namespace emplace::policy
