#include "placement/pipeline/unrolled.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "graph/derived_graph.h"
#include "graph/memory_plan.h"

namespace emplace {
namespace {

class Unroller {
 public:
  Unroller(const MicroBatchGraph& micro_batch, const LoweredGraph& lowered, const Chunks& chunks,
           const PipelineOrder& order, std::span<const DeviceId> placement)
      : graph_{micro_batch.graph},
        each_{micro_batch.each},
        runs_{micro_batch.runs},
        lowered_{lowered},
        chunks_{chunks},
        order_{order},
        placement_{placement},
        builder_{micro_batch.graph},
        now_(std::ranges::max(micro_batch.runs), std::vector<OpId>(micro_batch.graph.num_ops(), kNoOp)),
        views_(micro_batch.graph.num_ops()) {
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
      if (lowered.takes_time(OpId{i})) continue;
      for (const TensorId input : graph_.inputs(OpId{i})) {
        std::vector<OpId>& views = views_[index(graph_.producer(input))];
        if (views.empty() || views.back() != OpId{i}) views.push_back(OpId{i});
      }
    }
  }

  Result<UnrolledGraph> run() && {
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId op{i};
      if (lowered_.takes_time(op) || !graph_.inputs(op).empty()) continue;
      for (std::uint32_t m = 0; m < runs_[i]; ++m) {
        copy(op, m, {});
        add_views(op, m);
      }
    }
    last_of_.assign(order_.of_device.size(), kNoOp);
    for (const Action& action : order_.actions) EMPLACE_TRY(run(action));
    return UnrolledGraph{std::move(builder_).build(), std::move(source_), std::move(placed_)};
  }

 private:
  /// Whether the op that adds to a sum of gradients.
  bool accumulates(OpId op) const {
    return each_[index(op)] && lowered_.takes_time(op) && graph_.phase(op) == Phase::kUpdate;
  }
  /// The number of an op for a reader that is `each` or not; kNoOp if it was not added yet.
  OpId number(OpId op, bool each, std::uint32_t m) const {
    return now_[!each_[index(op)] ? 0 : each ? m : runs_[index(op)] - 1][index(op)];
  }
  TensorId now(TensorId tensor, bool each, std::uint32_t m) const {
    const OpId op = graph_.producer(tensor);
    return builder_.so_far().output(number(op, each, m), index(tensor) - index(graph_.first_output(op)));
  }
  std::string end(OpId op, std::uint32_t m) const {
    return each_[index(op)] ? "@" + std::to_string(m) : std::string{};
  }
  OpId added(OpId op, OpId source, DeviceId device) {
    source_.push_back(source);
    placed_.push_back(device);
    return op;
  }

  OpId copy(OpId op, std::uint32_t m, const std::vector<TensorId>& inputs) {
    const OpId copied =
        added(builder_.copy(op, inputs, end(op, m), graph_.phase(op), m == 0), op, placement_[index(op)]);
    now_[each_[index(op)] ? m : 0][index(op)] = copied;
    return copied;
  }

  std::vector<TensorId> inputs_of(OpId op, std::uint32_t m) const {
    std::vector<TensorId> inputs;
    for (const TensorId input : graph_.inputs(op)) inputs.push_back(now(input, each_[index(op)], m));
    if (accumulates(op) && m > 0) inputs[0] = builder_.so_far().first_output(now_[m - 1][index(op)]);
    return inputs;
  }

  /// Adds the views that an op was the last input of, in issue order.
  void add_views(OpId op, std::uint32_t m) {
    using View = std::pair<std::uint32_t, std::uint32_t>;  // Op, micro-batch.
    std::priority_queue<View, std::vector<View>, std::greater<>> open;
    const auto offer = [&](OpId of, std::uint32_t at) {
      for (const OpId view : views_[index(of)]) {
        const bool each = each_[index(view)];
        const std::uint32_t first = each && each_[index(of)] ? at : 0;
        const std::uint32_t last = each && !each_[index(of)] ? runs_[index(view)] - 1 : first;
        for (std::uint32_t k = first; k <= last; ++k) {
          const bool ready = std::ranges::all_of(graph_.inputs(view), [&](TensorId input) {
            return number(graph_.producer(input), each, k) != kNoOp;
          });
          if (ready && now_[k][index(view)] == kNoOp)
            open.emplace(static_cast<std::uint32_t>(index(view)), k);
        }
      }
    };
    offer(op, m);
    while (!open.empty()) {
      const auto [view, k] = open.top();
      open.pop();
      if (now_[k][view] != kNoOp) continue;
      copy(OpId{view}, k, inputs_of(OpId{view}, k));
      offer(OpId{view}, k);
    }
  }

  Result<Unit> run(const Action& action) {
    const Chunk& chunk = chunks_[action.chunk];
    const std::uint32_t m = action.micro_batch;
    EMPLACE_TRY_ASSIGN(const OpId start, add_start(action));
    const TensorId token = builder_.so_far().first_output(start);
    for (const OpId op : chunk.kernels) {
      std::vector<TensorId> inputs = inputs_of(op, m);
      const bool follows = std::ranges::any_of(lowered_.reads(op), [&](BufferId buffer) {
        return chunks_.of[index(lowered_.owner(buffer))] == action.chunk;
      });
      // An update writes over its first input, which must stay what it is.
      const std::size_t which = graph_.phase(op) == Phase::kUpdate ? 1 : 0;
      if (!follows && inputs.size() <= which) {
        inputs.push_back(token);
      } else if (!follows) {
        const std::string name_end = "@wait" + end(op, m);
        const OpId waiting = added(builder_.add({.beside = op,
                                                 .name_end = name_end,
                                                 .type = kWaitType,
                                                 .view = true,
                                                 .phase = chunk.phase,
                                                 .like = inputs[which]},
                                                std::array{inputs[which], token}),
                                   kNoOp, chunk.device);
        inputs[which] = builder_.so_far().first_output(waiting);
      }
      copy(op, m, inputs);
      add_views(op, m);
    }
    const OpId last = chunk.kernels.back();
    if (graph_.num_outputs(last) == 0)
      return Error{Errc::kUnsupported,
                   quoted_op(graph_, last) + " ends a stage and has no output to wait for"};
    const std::string name_end = "@ended" + end(last, m);
    last_of_[index(chunk.device)] = added(
        builder_.add(
            {.beside = last, .name_end = name_end, .type = kEndedType, .view = true, .phase = chunk.phase},
            std::array{builder_.so_far().first_output(number(last, true, m))}),
        kNoOp, chunk.device);
    return Unit{};
  }

  /// Adds the op that waits for what the action reads of other devices, and for the action before.
  Result<OpId> add_start(const Action& action) {
    const Chunk& chunk = chunks_[action.chunk];
    std::vector<TensorId> inputs;
    for (const OpId op : chunk.kernels)
      for (const BufferId buffer : lowered_.reads(op)) {
        if (placement_[index(lowered_.owner(buffer))] == chunk.device) continue;
        const TensorId read = lowered_.tensor(buffer);
        if (number(graph_.producer(read), !chunk.runs_once(), action.micro_batch) == kNoOp)
          return Error{Errc::kUnsupported,
                       quoted_op(graph_, graph_.producer(read)) +
                           " is a view of another device's tensor that waits for the stage that "
                           "reads it"};
        const TensorId tensor = now(read, !chunk.runs_once(), action.micro_batch);
        if (std::ranges::find(inputs, tensor) == inputs.end()) inputs.push_back(tensor);
      }
    if (const OpId before = last_of_[index(chunk.device)]; before != kNoOp)
      inputs.push_back(builder_.so_far().first_output(before));
    const OpId first = chunk.kernels.front();
    const std::string name_end = "@start" + end(first, action.micro_batch);
    return added(
        builder_.add({.beside = first, .name_end = name_end, .type = kStartType, .phase = chunk.phase},
                     inputs),
        kNoOp, chunk.device);
  }

  const OpGraph& graph_;
  const std::vector<bool>& each_;
  const std::vector<std::uint32_t>& runs_;
  const LoweredGraph& lowered_;
  const Chunks& chunks_;
  const PipelineOrder& order_;
  const std::span<const DeviceId> placement_;
  DerivedGraphBuilder builder_;
  std::vector<std::vector<OpId>> now_;    // [micro-batches, ops] Numbers in the unrolled graph.
  std::vector<std::vector<OpId>> views_;  // [ops] Views that read it.
  std::vector<OpId> last_of_;             // [devices] The signal that its last action has ended; kNoOp: none.
  std::vector<OpId> source_;
  Placement placed_;
};

}  // namespace

Result<UnrolledGraph> unrolled(const MicroBatchGraph& micro_batch, const LoweredGraph& lowered,
                               const Chunks& chunks, const PipelineOrder& order,
                               std::span<const DeviceId> placement) {
  return Unroller{micro_batch, lowered, chunks, order, placement}.run();
}

}  // namespace emplace
