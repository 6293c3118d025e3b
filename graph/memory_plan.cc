#include "graph/memory_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "base/text/words.h"
#include "graph/derived_graph.h"

namespace emplace {
namespace {

bool is_forward(const OpGraph& graph, OpId op) { return graph.phase(op) == Phase::kForward; }

bool is_forward_kernel(const OpGraph& graph, OpId op) {
  return is_forward(graph, op) && !graph.is_view(op) && !graph.is_state(op);
}

/// End of the names of copies back; those of other outputs than the first have its number behind it.
constexpr std::string_view kFetch = "@fetch";

/// Whether an op may have been added by a plan.
bool has_name_of_plan(std::string_view name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string_view::npos) return false;
  const std::string_view end = name.substr(at);
  return end == kAgain || end == "@wait" || end == "@ended" || end.starts_with(kFetch);
}

/// The op that made the data of a tensor, through views.
OpId maker(const OpGraph& graph, TensorId tensor) {
  OpId op = graph.producer(tensor);
  while (graph.is_view(op) && !graph.inputs(op).empty()) op = graph.producer(graph.inputs(op)[0]);
  return op;
}

/// Builds the graph of a plan, op by op in the order of the original graph.
class Planner {
 public:
  Planner(const OpGraph& graph, const MemoryPlan& plan, std::span<const std::string> devices)
      : graph_{graph}, plan_{plan}, devices_{devices}, builder_{graph} {}

  Result<PlannedGraph> run() {
    EMPLACE_TRY(check_plannable(graph_));
    EMPLACE_TRY(take_recomputed());
    EMPLACE_TRY(take_moved());
    now_.assign(graph_.num_ops(), kNoOp);
    again_.assign(graph_.num_ops(), kNoOp);
    ended_.assign(graph_.num_ops(), kNoOp);
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId op{i};
      if (!is_forward(graph_, op)) EMPLACE_TRY(prepare(op));
      read(op, !is_forward(graph_, op));
      now_[i] = added(builder_.copy(op, inputs_), op);
      for (const MovedTensor* move : fetched_after(op)) fetch(*move, op);
      if (graph_.is_view(op) || graph_.is_state(op)) continue;
      if (graph_.phase(op) == Phase::kUpdate) note_update(op);
      last_kernel_ = op;
    }
    for (const MovedTensor& move : plan_.moved)
      if (!read_later_[index(move.tensor)])
        return invalid(quoted_tensor(graph_, move.tensor),
                       "is moved, but nothing reads it after the forward pass", "remove the move");
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
      if (const OpId other = graph_.colocated_with(OpId{i}); other != kNoOp)
        builder_.colocate(now_[i], now_[index(other)]);
    return PlannedGraph{std::move(builder_).build(), std::move(source_), std::move(now_),
                        std::move(recomputed_), std::move(fetches_)};
  }

 private:
  Result<Unit> take_recomputed() {
    changed_.assign(graph_.num_ops(), false);
    for (const OpId op : plan_.recompute) {
      if (const std::string why = not_recomputable(graph_, op); !why.empty())
        return invalid(quoted_op(graph_, op), "cannot be recomputed: it " + why, "remove it from the plan");
      if (changed_[index(op)]) return invalid(quoted_op(graph_, op), "is recomputed twice", "name it once");
      changed_[index(op)] = true;
    }
    return Unit{};
  }

  Result<Unit> take_moved() {
    read_later_.assign(graph_.num_tensors(), false);
    for (const MovedTensor& move : plan_.moved) {
      const OpId op = graph_.producer(move.tensor);
      const std::string what = quoted_tensor(graph_, move.tensor);
      if (!is_forward_kernel(graph_, op))
        return invalid(what, "cannot be moved: it is no output of a kernel of the forward pass",
                       "move what a kernel makes");
      if (changed_[index(op)]) return invalid(what, "is both moved and recomputed", "remove one of the two");
      if (index(move.to) >= devices_.size()) return invalid(what, "is moved to a device that does not exist");
      if (!moves_.emplace(move.tensor, &move).second) return invalid(what, "is moved twice", "move it once");
      if (move.after == kNoOp) continue;
      if (graph_.is_view(move.after) || graph_.is_state(move.after) || move.after <= op)
        return invalid(what,
                       "comes back after " + quoted_op(graph_, move.after) + ", which is no later kernel",
                       "name a kernel between its last reader of the forward pass and its next one");
      by_start_.emplace(move.after, &move);
    }
    // Views of what changes change.
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId op{i};
      if (!graph_.is_view(op) || !is_forward(graph_, op)) continue;
      for (const TensorId input : graph_.inputs(op)) changed_[i] = changed_[i] || changes(input);
    }
    return Unit{};
  }

  /// Whether readers of the backward pass read something else instead of the tensor.
  bool changes(TensorId tensor) const {
    return changed_[index(graph_.producer(tensor))] || moves_.contains(tensor);
  }

  /// The moves whose copies back start at the end of a kernel, by tensor.
  std::vector<const MovedTensor*> fetched_after(OpId op) const {
    std::vector<const MovedTensor*> moves;
    for (auto [at, end] = by_start_.equal_range(op); at != end; ++at) moves.push_back(at->second);
    std::ranges::sort(moves, {}, &MovedTensor::tensor);
    return moves;
  }

  /// What readers of the forward pass read, or those of the backward pass. @pre It was added.
  TensorId edge(TensorId tensor, bool later) const {
    const OpId op = graph_.producer(tensor);
    const std::size_t output = index(tensor) - index(graph_.first_output(op));
    if (later && changed_[index(op)]) return made().output(again_[index(op)], output);
    if (later)
      if (const auto fetched = fetched_.find(tensor); fetched != fetched_.end())
        return made().first_output(fetched->second);
    return made().output(now_[index(op)], output);
  }

  const OpGraph& made() const { return builder_.so_far(); }

  OpId added(OpId op, OpId source) {
    source_.push_back(source);
    return op;
  }

  /// Sets `inputs_` to what an op reads.
  void read(OpId op, bool later) {
    inputs_.clear();
    for (const TensorId input : graph_.inputs(op)) inputs_.push_back(edge(input, later));
  }

  /// Adds what an op of the backward pass needs, and the graph does not have yet.
  Result<Unit> prepare(OpId reader) {
    std::vector<OpId> group;
    std::vector<TensorId> fetches, open{graph_.inputs(reader).begin(), graph_.inputs(reader).end()};
    while (!open.empty()) {
      const TensorId tensor = open.back();
      open.pop_back();
      const OpId op = graph_.producer(tensor);
      if (const auto move = moves_.find(tensor); move != moves_.end()) {
        read_later_[index(tensor)] = true;
        if (fetched_.contains(tensor)) continue;
        if (move->second->after != kNoOp)
          return invalid(quoted_tensor(graph_, tensor),
                         "comes back after " + quoted_op(graph_, move->second->after) + ", but " +
                             quoted_op(graph_, reader) + " needs it before",
                         "name an earlier kernel");
        if (std::ranges::find(fetches, tensor) == fetches.end()) fetches.push_back(tensor);
      } else if (changed_[index(op)] && again_[index(op)] == kNoOp) {
        again_[index(op)] = OpId{0};  // Taken; its number follows.
        group.push_back(op);
        open.insert(open.end(), graph_.inputs(op).begin(), graph_.inputs(op).end());
      }
    }
    if (group.empty() && fetches.empty()) return Unit{};
    std::ranges::sort(group);
    std::ranges::sort(fetches);
    const OpId trigger = trigger_of(reader);
    for (const TensorId tensor : fetches) fetch(*moves_.at(tensor), trigger);
    const auto first = static_cast<std::uint32_t>(made().num_ops());
    for (const OpId op : group) EMPLACE_TRY(run_again(op, trigger, first));
    return Unit{};
  }

  /// The kernel that makes the last gradient that an op of the backward pass reads.
  OpId trigger_of(OpId reader) const {
    OpId trigger = kNoOp;
    for (const TensorId input : graph_.inputs(reader)) {
      const OpId op = maker(graph_, input);
      if (!is_forward(graph_, op) && !graph_.is_state(op) && (trigger == kNoOp || op > trigger)) trigger = op;
    }
    return trigger == kNoOp ? last_kernel_ : trigger;
  }

  /// Adds an op that runs again, in a group whose first op has the number `first`.
  Result<Unit> run_again(OpId op, OpId trigger, std::uint32_t first) {
    for (const TensorId input : graph_.inputs(op)) {
      const OpId state = maker(graph_, input);
      const auto update = updates_.find(state);
      if (update == updates_.end() || graph_.is_view(op)) continue;  // A view is the memory itself.
      return invalid(quoted_op(graph_, op),
                     "would run again after " + quoted_op(graph_, update->second) + " changed " +
                         quoted_op(graph_, state),
                     "remove it from the plan");
    }
    read(op, true);
    if (!graph_.is_view(op) && trigger != kNoOp && !follows(first)) wait(op, trigger);
    const OpId again = added(builder_.copy(op, inputs_, kAgain, Phase::kBackward), op);
    builder_.colocate(again, now_[index(op)]);
    again_[index(op)] = again;
    if (!graph_.is_view(op)) recomputed_.push_back(op);
    return Unit{};
  }

  bool is_wait(OpId op) const { return made().type_name(op) == kWaitType; }

  /// Whether one of `inputs_` is what a kernel of its group makes. All that an op reads may exist since the
  /// forward pass.
  bool follows(std::uint32_t first) const {
    return std::ranges::any_of(inputs_, [&](TensorId input) {
      OpId op = made().producer(input);
      while (index(op) >= first && made().is_view(op) && !is_wait(op))
        op = made().producer(made().inputs(op)[0]);
      return index(op) >= first && !is_wait(op);
    });
  }

  /// Lets an op that runs again, with `inputs_`, wait for the end of a kernel.
  void wait(OpId op, OpId trigger) {
    const TensorId signal = made().first_output(ended(trigger));
    if (inputs_.empty()) {
      inputs_.push_back(signal);
      return;
    }
    const OpId waiting = added(builder_.add({.beside = op,
                                             .name_end = "@wait",
                                             .type = kWaitType,
                                             .view = true,
                                             .phase = Phase::kBackward,
                                             .like = inputs_[0]},
                                            std::array{inputs_[0], signal}),
                               op);
    builder_.colocate(waiting, now_[index(op)]);
    inputs_[0] = made().first_output(waiting);
  }

  /// Adds the copy back of a moved tensor after the end of a kernel.
  void fetch(const MovedTensor& move, OpId trigger) {
    const OpId op = graph_.producer(move.tensor);
    const std::size_t output = index(move.tensor) - index(graph_.first_output(op));
    const std::string end = std::string{kFetch} + (output > 0 ? std::to_string(output) : "");
    std::vector<TensorId> inputs{edge(move.tensor, false)};
    if (trigger != kNoOp) inputs.push_back(made().first_output(ended(trigger)));
    const OpId fetched = added(builder_.add({.beside = op,
                                             .name_end = end,
                                             .type = kFetchType,
                                             .phase = Phase::kBackward,
                                             .like = inputs[0],
                                             .only_on = &devices_[index(move.to)]},
                                            inputs),
                               kNoOp);
    fetched_.emplace(move.tensor, fetched);
    fetches_.emplace_back(fetched, move.to);
  }

  /// The signal that a kernel has ended.
  OpId ended(OpId kernel) {
    OpId& signal = ended_[index(kernel)];
    if (signal != kNoOp) return signal;
    signal = added(builder_.add({.beside = kernel,
                                 .name_end = "@ended",
                                 .type = kEndedType,
                                 .view = true,
                                 .phase = graph_.phase(kernel)},
                                std::array{made().first_output(now_[index(kernel)])}),
                   kernel);
    builder_.colocate(signal, now_[index(kernel)]);
    return signal;
  }

  /// Remembers the state that an op of the update reads, and may change.
  void note_update(OpId op) {
    for (const TensorId input : graph_.inputs(op))
      if (const OpId state = maker(graph_, input); graph_.is_state(state)) updates_.emplace(state, op);
  }

  const OpGraph& graph_;
  const MemoryPlan& plan_;
  const std::span<const std::string> devices_;
  DerivedGraphBuilder builder_;
  std::vector<TensorId> inputs_;           // What the op that is added next reads.
  std::vector<OpId> source_;               // [ops of the plan's graph]
  std::vector<OpId> now_, again_, ended_;  // [ops] Their numbers in the plan's graph; kNoOp: not there.
  std::vector<OpId> recomputed_;
  std::vector<std::pair<OpId, DeviceId>> fetches_;
  std::vector<bool> changed_;     // [ops] Made again for the backward pass.
  std::vector<bool> read_later_;  // [tensors] Moved, and read by the backward pass.
  std::unordered_map<TensorId, const MovedTensor*> moves_;
  std::unordered_map<TensorId, OpId> fetched_;  // The fetch of a moved tensor.
  std::unordered_map<OpId, OpId> updates_;      // State, and the first op of the update that reads it.
  std::unordered_multimap<OpId, const MovedTensor*> by_start_;
  OpId last_kernel_ = kNoOp;
};

}  // namespace

std::string not_recomputable(const OpGraph& graph, OpId op) {
  if (graph.is_state(op)) return "is state";
  if (graph.is_view(op)) return "is a view";
  if (!is_forward(graph, op)) return "is not part of the forward pass";
  const std::string_view type = graph.type_name(op);
  const std::size_t colon = type.rfind("::");
  const std::string_view base = colon == std::string_view::npos ? type : type.substr(colon + 2);
  const std::string_view plain = base.substr(0, base.find('.'));
  if (colon != std::string_view::npos && plain.ends_with('_') && !plain.ends_with("__"))
    return "writes in place";
  constexpr std::array kEffects{"infeed", "outfeed", "send", "recv", "Assign", "Enqueue", "QueueEnqueue"};
  for (const std::string_view word : kEffects)
    if (base.starts_with(word)) return "has an effect outside of the graph";
  constexpr std::array kExchanges{"all-", "reduce-scatter", "collective-", "ragged-all-to-all"};
  for (const std::string_view word : kExchanges)
    if (base.starts_with(word)) return "exchanges data with other devices";
  if (type.starts_with("_c10d_functional::") || type.starts_with("c10d::"))
    return "exchanges data with other devices";
  return {};
}

Result<Unit> check_plannable(const OpGraph& graph) {
  if (!graph.ids_are_topological())
    return invalid("a memory plan", "needs a graph that lists producers before their readers");
  bool trains = false;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    trains = trains || !is_forward(graph, OpId{i});
    if (has_name_of_plan(graph.name(OpId{i})))
      return invalid(quoted_op(graph, OpId{i}), "is called as what a memory plan adds",
                     "use the graph without a plan");
  }
  if (trains) return Unit{};
  return invalid("a memory plan", "needs a training graph, and no op of this one has the phase backward",
                 "add a backward pass: emplace import --train, em.trace, or generate --training");
}

Result<PlannedGraph> planned(const OpGraph& graph, const MemoryPlan& plan,
                             std::span<const std::string> devices) {
  return Planner{graph, plan, devices}.run();
}

std::string quoted_tensor(const OpGraph& graph, TensorId tensor) {
  const OpId op = graph.producer(tensor);
  if (graph.num_outputs(op) == 1) return quoted_op(graph, op);
  return fmt::format("output {} of {}", index(tensor) - index(graph.first_output(op)), quoted_op(graph, op));
}

}  // namespace emplace
