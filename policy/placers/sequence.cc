#include "policy/placers/sequence.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "policy/group_devices.h"

namespace emplace::policy {
namespace {

std::vector<std::uint32_t> labels(const SequenceInitial& start, std::size_t groups) {
  if (!start.label_of_group.empty()) return {start.label_of_group.begin(), start.label_of_group.end()};
  std::vector<std::uint32_t> own(groups);
  std::iota(own.begin(), own.end(), std::uint32_t{0});
  return own;
}

}  // namespace

SequenceOptions colocrl_options() {
  SequenceOptions options;
  options.noise = 0;
  options.network.bidirectional = false;
  options.network.start_from_encoder = true;
  options.network.tanh_constant = 0;
  return options;
}

SequenceOptions spotlight_options() {
  SequenceOptions options = colocrl_options();
  options.network.layers = 2;
  options.network.out = Init::kZero;
  options.loss.kind = LossKind::kKlPenalised;
  options.input = GroupInput::kNames;
  options.placements = 5;
  return options;
}

SequenceOptions random_grouping_options() {
  SequenceOptions options;
  options.input = GroupInput::kCounts;
  return options;
}

Result<std::unique_ptr<SequencePlacer>> SequencePlacer::make(const std::vector<SequenceGraph>& graphs,
                                                             SequenceOptions options, std::uint64_t seed) {
  for (const auto& checked :
       {check_ranges(options),
        in_range("groups", options.features.any_graph() ? options.groups : 1, 1, kMaxGroups),
        check(options.network, options)}) {
    if (!checked) return checked.error();
  }
  const std::size_t orders = std::max<std::size_t>(options.orders, 1);
  EMPLACE_TRY(check_graphs(graphs, options.features, orders));
  if (graphs.size() % orders != 0) return invalid("policy.orders", "of some graphs are missing");
  std::vector<Task> tasks;
  for (const SequenceGraph& view : graphs) {
    if (auto checked = check_graph(view, options); !checked) {
      const std::string where = graphs.size() == 1 ? "" : "graph " + std::to_string(tasks.size()) + ": ";
      return Error{checked.error().code, where + checked.error().context};
    }
    tasks.push_back(make_task(view, options));
  }
  const SequenceInitial& first = graphs.front().start;
  return std::unique_ptr<SequencePlacer>{
      new SequencePlacer{std::move(tasks), first.label_of_group, first.placement, std::move(options), seed}};
}

Result<Unit> SequencePlacer::check_graph(const SequenceGraph& view, const SequenceOptions& options) {
  const std::size_t groups = view.grouping.num_groups;
  const bool any_graph = options.features.any_graph();
  if (any_graph && groups > options.groups)
    return invalid(
        "policy groups",
        "are " + std::to_string(groups) + ", but the policy places at most " + std::to_string(options.groups),
        "merge them to policy.groups");
  EMPLACE_TRY(check_grouping(view, view.grouping));
  const SequenceInitial& start = view.start;
  if (!start.placement.empty()) {
    EMPLACE_TRY(view.check(start.placement));
  }
  if (!start.label_of_group.empty() && start.label_of_group.size() != groups)
    return invalid("policy start", "wrong number of group labels");
  if (!any_graph || options.input != GroupInput::kNames) return Unit{};
  if (start.label_of_group.empty()) return invalid("policy start", "group labels are missing");
  for (const std::uint16_t label : start.label_of_group) {
    if (label > options.features.words.size()) return invalid("policy start", "group label out of range");
  }
  return Unit{};
}

SequencePlacer::Task SequencePlacer::make_task(const SequenceGraph& view, const SequenceOptions& options) {
  Task task{view, view.grouping.num_groups, view.grouping.group_of_op};
  task.allowed =
      allowed_group_devices(*view.constraints, view.devices->size(), task.group_of_op, task.groups);
  task.label_of_group = labels(view.start, task.groups);
  if (options.input == GroupInput::kNames) return task;
  const OpFeatures features = op_features(*view.graph, options.features);
  task.fixed = group_embeddings(*view.graph, features, task.group_of_op, task.groups,
                                options.sum_inputs ? OverGroup::kSums : OverGroup::kMeans,
                                options.features.any_graph() ? options.groups : task.groups);
  if (options.input == GroupInput::kCounts) return task;
  // The part with a trainable embedding, and the rest.
  const auto vocabulary = static_cast<Eigen::Index>(features.vocabulary_size);
  task.types = task.fixed.topRows(vocabulary);
  task.fixed = Matrix{task.fixed.bottomRows(task.fixed.rows() - vocabulary)};
  return task;
}

SequencePlacer::SequencePlacer(std::vector<Task> tasks, std::span<const std::uint16_t> label_of_group,
                               const Placement& start, SequenceOptions options, std::uint64_t seed)
    : tasks_{std::move(tasks)}, options_{std::move(options)}, seed_{seed}, placer_{[&] {
        const Task& first = tasks_.front();
        Eigen::Index rows = first.fixed.rows();
        if (options_.input != GroupInput::kCounts) {
          const std::size_t names =
              any_graph() ? options_.features.words.size() + 1
                          : *std::max_element(first.label_of_group.begin(), first.label_of_group.end()) + 1;
          const Eigen::Index columns =
              options_.input == GroupInput::kNames ? static_cast<Eigen::Index>(names) : first.types.rows();
          embedding_ = store_.add("placer.input", options_.embedding, columns, Init::kGlorot, seed);
          rows += options_.embedding;
        }
        return GroupPlacer{store_,
                           options_.network,
                           options_,
                           rows,
                           any_graph() ? 0 : first.groups,
                           first.devices->size(),
                           label_of_group,
                           seed};
      }()} {
  if (!start.empty()) placer_.start_at(store_, start, tasks_.front().group_of_op);
}

Var SequencePlacer::group_input(Tape& tape, const Task& task) const {
  if (options_.input == GroupInput::kCounts) return tape.constant(task.fixed);
  const Var embedding = tape.parameter(embedding_);
  if (options_.input == GroupInput::kNames) return tape.lookup(embedding, task.label_of_group);
  const Var none = tape.constant(Matrix::Zero(options_.embedding, 1));
  return tape.stack(tape.affine(embedding, tape.constant(task.types), none), tape.constant(task.fixed));
}

Decoded SequencePlacer::place(Tape& tape, const Task& task, DecodeInput input) const {
  if (!task.allowed.empty()) input.allowed = &task.allowed;
  return placer_.place(tape, group_input(tape, task), std::move(input));
}

Actions SequencePlacer::sample(std::uint64_t episode, std::uint64_t update) const {
  const std::size_t task = episode % tasks_.size();
  Tape tape{store_};
  Rng rng{seed_, Purpose::kPlacing, episode};
  const Decoded decoded = place(tape, tasks_[task],
                                {.samples = static_cast<Eigen::Index>(options_.placements),
                                 .rng = &rng,
                                 .noise = options_.noise_at(update),
                                 .noise_limit = options_.noise_limit});
  return encode_actions(task, placer_.decisions(tape, decoded));
}

Placement SequencePlacer::greedy() const {
  const Task& task = tasks_.front();
  Tape tape{store_};
  return spread_groups(*task.constraints, task.group_of_op, place(tape, task, {.greedy = true}).devices);
}

Result<std::vector<Placement>> SequencePlacer::expand(const Actions& actions) const {
  EMPLACE_TRY_ASSIGN(const auto decisions, decode_actions(actions));
  const Task& task = tasks_[task_of(actions)];
  return expand_groups(*task.constraints, task.group_of_op, task.groups, decisions.devices);
}

Result<LossParts> SequencePlacer::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  struct Batch {
    Decisions decisions;
    std::vector<float> advantages;
  };
  std::vector<Batch> batch_of_task(tasks_.size());
  std::size_t total = 0;
  for (const ScoredEpisode& episode : episodes) {
    EMPLACE_TRY_ASSIGN(const auto decisions, decode_actions(episode.actions));
    const std::size_t task = task_of(episode.actions);
    if (decisions.devices.size() != episode.advantages.size() * tasks_[task].groups)
      return invalid("episode", "numbers of placements and advantages differ");
    auto& [all, advantages] = batch_of_task[task];
    all.devices.insert(all.devices.end(), decisions.devices.begin(), decisions.devices.end());
    all.log_q.insert(all.log_q.end(), decisions.log_q.begin(), decisions.log_q.end());
    advantages.insert(advantages.end(), episode.advantages.begin(), episode.advantages.end());
    total += episode.advantages.size();
  }
  LossParts parts;
  for (std::size_t task = 0; task < tasks_.size(); ++task) {
    const auto& [all, advantages] = batch_of_task[task];
    if (advantages.empty()) continue;
    const double share = static_cast<double>(advantages.size()) / static_cast<double>(total);
    Tape tape{store_};
    const Decoded decoded =
        place(tape, tasks_[task],
              {.samples = static_cast<Eigen::Index>(advantages.size()), .chosen = &all.devices});
    const auto seeded = placer_.seed_loss(tape, decoded, all, advantages, static_cast<float>(share));
    if (!seeded) return seeded.error();
    tape.backward();
    parts.add(share, *seeded);
  }
  return parts;
}

Result<LossParts> SequencePlacer::accumulate_imitation(const Placement& placement) {
  const Task& task = tasks_.front();
  const auto wanted = placer_.devices_of(placement, task.group_of_op, task.groups, task.allowed);
  if (!wanted) return wanted.error();
  Tape tape{store_};
  const LossParts parts = placer_.seed_imitation(tape, place(tape, task, {.chosen = &*wanted}));
  tape.backward();
  return parts;
}

Result<std::vector<double>> SequencePlacer::log_probabilities(const Actions& actions) const {
  EMPLACE_TRY_ASSIGN(const auto decisions, decode_actions(actions));
  const Task& task = tasks_[task_of(actions)];
  Tape tape{store_};
  const DecodeInput input{.samples = static_cast<Eigen::Index>(decisions.devices.size() / task.groups),
                          .chosen = &decisions.devices};
  return placer_.log_probabilities(tape, place(tape, task, input), task.groups);
}

Result<Actions> SequencePlacer::actions_of(std::size_t graph, std::span<const Placement> placements,
                                           std::span<const double> log_q) const {
  if (graph >= graphs()) return invalid("placement", "graph number out of range");
  const Task& task = tasks_[graph];
  std::vector<std::uint8_t> devices;
  for (const Placement& placement : placements) {
    const auto by_group = devices_by_group(task, placement, task.group_of_op, task.allowed, task.groups);
    if (!by_group) return by_group.error();
    devices.insert(devices.end(), by_group->begin(), by_group->end());
  }
  return encode_actions(graph, placer_.with_behaviour(std::move(devices), log_q));
}

Result<Decisions> SequencePlacer::decode_actions(const Actions& actions) const {
  std::size_t task = 0;
  std::span<const std::byte> bytes = actions.bytes;
  if (numbered()) {
    EMPLACE_TRY_ASSIGN(task, take_graph(bytes, tasks_.size()));
  }
  return read_decisions(bytes, placer_.decision_shape(tasks_[task].groups));
}

Actions SequencePlacer::encode_actions(std::size_t task, const Decisions& decisions) const {
  // Decisions, preceded in a policy of several tasks by [u32 task], little-endian.
  Actions actions;
  if (numbered()) append_graph(task, actions.bytes);
  append_decisions(decisions, actions.bytes);
  return actions;
}

}  // namespace emplace::policy
