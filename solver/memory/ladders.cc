#include "solver/memory/ladders.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

namespace emplace {
namespace {

/// Takes rungs one after the other, always the one whose bytes are the cheapest.
class Climb {
 public:
  Climb(const ForwardPass& forward, const std::function<std::int64_t(OpId)>& cost_ns,
        const std::vector<bool>& keep)
      : forward_{forward},
        cost_ns_{cost_ns},
        keep_{keep},
        again_(keep.size(), false),
        waiting_(keep.size(), 0) {
    for (const OpId op : forward.kernels()) waiting_[index(op)] = forward.waiting_bytes(op);
  }

  /// Calls take(op, rung) for each rung that frees the outputs of `op`.
  template <class Take>
  void run(Take take) {
    for (const OpId op : forward_.kernels()) offer(op);
    while (!offers_.empty()) {
      const Offer top = offers_.top();
      offers_.pop();
      if (!is_open(top.op)) continue;
      // Rungs that were taken since may have made it cheaper or dearer.
      const RecomputeRung rung = best_rung(top.op);
      if (rung.freed_bytes <= 0) continue;
      if (!offers_.empty() && price(rung) > offers_.top().price * (1 + 1e-9) && price(rung) != top.price) {
        offers_.push({price(rung), top.op});
        continue;
      }
      accept(top.op, rung);
      take(top.op, rung);
    }
  }

 private:
  struct Offer {
    double price;
    OpId op;
    /// The queue's top is the cheapest offer, of equal ones the op that comes first.
    bool operator<(const Offer& other) const {
      return price != other.price ? price > other.price : op > other.op;
    }
  };

  static double price(const RecomputeRung& rung) {
    return static_cast<double>(rung.cost_ns) / static_cast<double>(rung.freed_bytes);
  }

  bool is_open(OpId op) const {
    return !again_[index(op)] && !keep_[index(op)] && waiting_[index(op)] > 0 && forward_.may_run_again(op);
  }

  void offer(OpId op) {
    if (!is_open(op)) return;
    if (const RecomputeRung rung = best_rung(op); rung.freed_bytes > 0) offers_.push({price(rung), op});
  }

  RecomputeRung best_rung(OpId op) const {
    const RecomputeRung chain = rung_of(op, true), single = rung_of(op, false);
    if (single.freed_bytes <= 0) return chain;
    return chain.freed_bytes > 0 && price(chain) <= price(single) ? chain : single;
  }

  /// The rung that frees the outputs of `op`. `chain`: what does not wait yet runs again, if it may.
  RecomputeRung rung_of(OpId op, bool chain) const {
    RecomputeRung rung{.ops = {op}, .freed_bytes = waiting_[index(op)], .cost_ns = cost_ns_(op)};
    std::vector<OpId> kept;
    for (std::size_t k = 0; k < rung.ops.size(); ++k) {
      for (const OpId input : forward_.inputs(rung.ops[k])) {
        if (waiting_[index(input)] > 0 || again_[index(input)]) continue;
        if (chain && !keep_[index(input)] && forward_.may_run_again(input)) {
          if (std::ranges::find(rung.ops, input) != rung.ops.end()) continue;
          rung.ops.push_back(input);
          rung.cost_ns += cost_ns_(input);
          if (rung.ops.size() > kLongestChain) return {};
        } else if (std::ranges::find(kept, input) == kept.end()) {
          kept.push_back(input);
          rung.freed_bytes -= forward_.lowered().output_bytes(input);
        }
      }
    }
    return rung;
  }

  void accept(OpId op, const RecomputeRung& rung) {
    for (const OpId one : rung.ops) again_[index(one)] = true;
    waiting_[index(op)] = 0;
    for (const OpId one : rung.ops)
      for (const OpId input : forward_.inputs(one)) {
        if (waiting_[index(input)] > 0 || again_[index(input)]) continue;
        waiting_[index(input)] = forward_.lowered().output_bytes(input);
        offer(input);
      }
  }

  static constexpr std::size_t kLongestChain = 64;

  const ForwardPass& forward_;
  const std::function<std::int64_t(OpId)>& cost_ns_;
  const std::vector<bool>& keep_;
  std::vector<bool> again_;            // [ops] Runs again.
  std::vector<std::int64_t> waiting_;  // [ops] Bytes of its outputs that wait.
  std::priority_queue<Offer> offers_;
};

}  // namespace

std::vector<std::vector<RecomputeRung>> recompute_ladders(const ForwardPass& forward,
                                                          const std::function<std::int64_t(OpId)>& cost_ns,
                                                          const std::vector<bool>& keep,
                                                          std::span<const DeviceId> placement,
                                                          std::size_t num_devices) {
  std::vector<std::vector<RecomputeRung>> ladders(num_devices);
  Climb{forward, cost_ns, keep}.run(
      [&](OpId op, const RecomputeRung& rung) { ladders[index(placement[index(op)])].push_back(rung); });
  return ladders;
}

std::vector<std::vector<MovedTensor>> move_ladders(const ForwardPass& forward,
                                                   std::span<const DeviceId> placement,
                                                   std::size_t num_devices) {
  const LoweredGraph& lowered = forward.lowered();
  std::vector<std::vector<MovedTensor>> ladders(num_devices);
  for (const BufferId buffer : forward.waiting())
    if (lowered.held_bytes(buffer) > 0)
      ladders[index(placement[index(lowered.owner(buffer))])].push_back({.tensor = lowered.tensor(buffer)});
  return ladders;
}

FetchTimes::FetchTimes(const OpGraph& graph, const PlannedGraph& kept, const Schedule& step)
    : needed_s_(graph.num_tensors(), INFINITY), first_reader_(graph.num_tensors(), kNoIndex) {
  const LoweredGraph lowered{kept.graph};
  std::vector<double> start_s(lowered.num_ops(), INFINITY);
  const auto is_late = [&](OpId op) { return kept.graph.phase(op) != Phase::kForward; };
  for (const OpRun& run : step.ops) {
    start_s[index(run.op)] = run.start_s;
    const OpId source = kept.source[index(run.op)];
    if (is_late(run.op) && kept.now[index(source)] == run.op)
      ends_.push_back({run.end_s, static_cast<std::uint32_t>(index(run.op)), source});
  }
  std::ranges::stable_sort(ends_, {}, &End::at_s);
  for (std::uint32_t t = 0; t < graph.num_tensors(); ++t) {
    const OpId op = graph.producer(TensorId{t}), now = kept.now[index(op)];
    if (graph.phase(op) != Phase::kForward || !lowered.takes_time(now)) continue;
    const auto output = t - static_cast<std::uint32_t>(index(graph.first_output(op)));
    const BufferId base = lowered.buffer(kept.graph.output(now, output));
    for (std::uint32_t b = lowered.first_owned(now); b < lowered.end_owned(now); ++b) {
      if (lowered.base(BufferId{b}) != base) continue;
      for (const OpId reader : lowered.readers(BufferId{b})) {
        if (!is_late(reader)) continue;
        needed_s_[t] = std::min(needed_s_[t], start_s[index(reader)]);
        first_reader_[t] = std::min(first_reader_[t], static_cast<std::uint32_t>(index(reader)));
      }
    }
  }
}

void FetchTimes::set(std::vector<MovedTensor>& moves,
                     const std::function<std::int64_t(const MovedTensor&)>& copy_ns) const {
  std::vector<MovedTensor*> last_first;
  for (MovedTensor& move : moves) last_first.push_back(&move);
  std::ranges::stable_sort(last_first, [&](const MovedTensor* a, const MovedTensor* b) {
    return needed_s_[index(a->tensor)] > needed_s_[index(b->tensor)];
  });
  // From the last copy to the first: each ends when it is needed, or when the next one starts.
  std::vector<double> next_s(kMaxDevices, INFINITY);
  for (MovedTensor* move : last_first) {
    double& next = next_s[index(move->to)];
    next = std::min(next, needed_s_[index(move->tensor)]) - static_cast<double>(copy_ns(*move)) * 1e-9;
    auto at = std::ranges::upper_bound(ends_, next, {}, &End::at_s);
    while (at != ends_.begin() && (at - 1)->now >= first_reader_[index(move->tensor)]) --at;
    move->after = at == ends_.begin() ? kNoOp : (at - 1)->op;
  }
}

}  // namespace emplace
