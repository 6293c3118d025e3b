#include "solver/search/order_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/rng.h"
#include "executor/sim/critical_chain.h"
#include "executor/sim/simulator.h"
#include "graph/lowering.h"
#include "placement/machine/transfer_table.h"
#include "solver/search/moving_cost.h"

namespace emplace {
namespace {

constexpr std::uint64_t kUsualOrders = 2'000;
constexpr std::uint64_t kOrderStep = std::uint64_t{1} << 33;  // Separates the streams from those of walks.
constexpr double kHot = 0.003, kCold = 0.00002;               // Temperatures, in units of log(seconds).
constexpr std::uint32_t kPerAnalysis = 24;  // Moves that one analysis of the schedule serves.

/// The ops that each op must follow: producers of its inputs, and of two views that are parts of one tensor
/// the first, because their copies leave in this order.
class Precedence {
 public:
  explicit Precedence(const LoweredGraph& lowered) : before_(lowered.num_ops()), after_(lowered.num_ops()) {
    const OpGraph& graph = lowered.graph();
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
      for (const TensorId input : graph.inputs(OpId{i})) before_[i].push_back(graph.producer(input));
    if (graph.ids_are_topological()) {
      for (std::uint32_t b = 0; b + 1 < lowered.num_buffers(); ++b) {
        const BufferId part{b}, next{b + 1};
        if (lowered.owner(part) != lowered.owner(next) || lowered.base(part) == part) continue;
        const OpId first = graph.producer(lowered.tensor(part)),
                   second = graph.producer(lowered.tensor(next));
        if (first < second && lowered.base(next) != next) before_[index(second)].push_back(first);
      }
    }
    for (std::uint32_t i = 0; i < before_.size(); ++i) {
      std::sort(before_[i].begin(), before_[i].end());
      before_[i].erase(std::unique(before_[i].begin(), before_[i].end()), before_[i].end());
      for (const OpId op : before_[i]) after_[index(op)].push_back(OpId{i});
    }
  }
  std::span<const OpId> before(OpId op) const { return before_[index(op)]; }
  std::span<const OpId> after(OpId op) const { return after_[index(op)]; }
  std::size_t size() const { return before_.size(); }

 private:
  std::vector<std::vector<OpId>> before_, after_;
};

/// The order by a key that decreases along no edge; ties by an order.
OpOrder sorted_by(const std::vector<double>& key, const OpOrder& ties) {
  OpOrder order = ties;
  std::stable_sort(order.begin(), order.end(), [&](OpId a, OpId b) { return key[index(a)] < key[index(b)]; });
  return order;
}

/// Sorts ops by share * (position in a) + (1 - share) * (position in b), which increases along every edge.
OpOrder blended(const OpOrder& a, const OpOrder& b, double share) {
  const auto in_a = positions(a), in_b = positions(b);
  std::vector<double> key(a.size());
  for (std::size_t op = 0; op < key.size(); ++op) key[op] = share * in_a[op] + (1 - share) * in_b[op];
  return sorted_by(key, b);
}

/// Each op is moved back to just before its first reader; ops without readers stay.
OpOrder late(const Precedence& precedence, const OpOrder& order) {
  const auto position = positions(order);
  std::vector<double> key(order.size());
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const auto after = precedence.after(*it);
    double first = after.empty() ? position[index(*it)] : static_cast<double>(order.size());
    for (const OpId reader : after) first = std::min(first, key[index(reader)]);
    key[index(*it)] = first;
  }
  return sorted_by(key, order);
}

/// Takes the order, but each ready op that frees at least as much memory as it takes comes at once.
class Eager {
 public:
  Eager(const LoweredGraph& lowered, const Precedence& precedence)
      : lowered_{lowered}, precedence_{precedence} {}

  OpOrder of(const OpOrder& order) {
    out_.clear();
    done_.assign(order.size(), false);
    missing_.resize(order.size());
    for (std::uint32_t i = 0; i < missing_.size(); ++i)
      missing_[i] = static_cast<std::uint32_t>(precedence_.before(OpId{i}).size());
    readers_.assign(lowered_.num_buffers(), 0);
    for (const OpId kernel : lowered_.kernels())
      for (const BufferId buffer : lowered_.reads(kernel)) ++readers_[base_of(buffer)];
    for (const OpId op : order) {
      if (done_[index(op)]) continue;
      take(op);
      while (!open_.empty()) {
        const OpId next = open_.back();
        open_.pop_back();
        if (!done_[index(next)] && missing_[index(next)] == 0 && frees(next)) take(next);
      }
    }
    return std::move(out_);
  }

 private:
  std::size_t base_of(BufferId buffer) const { return index(lowered_.base(buffer)); }
  bool frees(OpId op) const {
    if (!lowered_.takes_time(op)) return true;
    std::int64_t freed = lowered_.unread_bytes(op), taken = lowered_.output_bytes(op);
    for (const BufferId buffer : lowered_.reads(op))
      if (!lowered_.is_resident(buffer) && readers_[base_of(buffer)] == 1)
        freed += lowered_.freed_bytes(lowered_.base(buffer));
    return freed >= taken && (freed > 0 || taken == 0);
  }
  void take(OpId op) {
    done_[index(op)] = true;
    out_.push_back(op);
    for (const OpId next : precedence_.after(op))
      if (--missing_[index(next)] == 0) open_.push_back(next);
    if (!lowered_.takes_time(op)) return;
    for (const BufferId buffer : lowered_.reads(op)) {
      if (--readers_[base_of(buffer)] != 1) continue;
      // The only remaining reader of the tensor, or of the part, may free it now.
      for (const OpId reader : lowered_.readers(buffer))
        if (!done_[index(reader)]) open_.push_back(reader);
    }
  }

  const LoweredGraph& lowered_;
  const Precedence& precedence_;
  OpOrder out_;
  std::vector<OpId> open_;
  std::vector<bool> done_;
  std::vector<std::uint32_t> missing_, readers_;  // [ops], [buffers]
};

/// Sorts ops by decreasing time from their start to the end of the step, if no op waited for its device.
OpOrder by_upward_rank(const Problem& problem, const LoweredGraph& lowered, const Precedence& precedence,
                       const Placement& placement, const OpOrder& issue) {
  const TransferTable transfers{problem.devices};
  std::vector<double> rank(issue.size(), 0);
  for (auto it = issue.rbegin(); it != issue.rend(); ++it) {
    const OpId op = *it;
    const DeviceId home = placement[index(op)];
    double after = 0;
    for (const OpId next : precedence.after(op)) after = std::max(after, rank[index(next)]);
    if (lowered.takes_time(op)) {
      for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b) {
        for (const OpId reader : lowered.readers(BufferId{b})) {
          const DeviceId target = placement[index(reader)];
          if (target == home) continue;
          const double send_ns = 1e9 * transfers.time(home, target, lowered.bytes(BufferId{b})).seconds();
          after = std::max(after, send_ns + rank[index(reader)]);
        }
      }
      after += static_cast<double>(problem.costs.ns(home, op));
    }
    rank[index(op)] = after;
  }
  for (double& value : rank) value = -value;
  return sorted_by(rank, issue);
}

std::vector<OpOrder> simple_orders_of(const Problem& problem, const LoweredGraph& lowered,
                                      const Precedence& precedence, const Placement& placement) {
  Eager eager{lowered, precedence};
  std::vector<OpOrder> orders{issue_order(problem.graph)};
  const OpOrder upward = by_upward_rank(problem, lowered, precedence, placement, orders[0]);
  orders.push_back(late(precedence, orders[0]));
  orders.push_back(upward);
  for (const std::size_t base : {0u, 1u})
    for (const double share : {0.1, 0.3, 0.6}) orders.push_back(blended(upward, orders[base], share));
  for (const std::size_t base : {0u, 1u, 6u}) orders.push_back(eager.of(orders[base]));
  return orders;
}

/// An order that changes by moves.
class Sequence {
 public:
  Sequence(const Precedence& precedence, OpOrder order)
      : precedence_{precedence},
        order_{std::move(order)},
        at_{positions(order_)},
        marked_(order_.size(), 0) {}

  const OpOrder& order() const { return order_; }
  std::uint32_t at(OpId op) const { return at_[index(op)]; }

  /// Moves an op, with those before it that it depends on, to just before `target`. Returns false, and does
  /// nothing, if it is there already or depends on `target`.
  bool advance(OpId op, OpId target) {
    const std::uint32_t first = at(target), last = at(op);
    if (first >= last) return false;
    mark(op);
    for (std::uint32_t k = last; k > first; --k) {
      if (!is_marked(order_[k])) continue;
      for (const OpId input : precedence_.before(order_[k])) mark(input);
      if (is_marked(target)) return unmark();
    }
    rearrange(first, last + 1, true);
    return true;
  }
  /// Moves an op, with those after it that depend on it, to just after `target`.
  bool postpone(OpId op, OpId target) {
    const std::uint32_t first = at(op), last = at(target);
    if (first >= last) return false;
    mark(op);
    for (std::uint32_t k = first; k < last; ++k) {
      if (!is_marked(order_[k])) continue;
      for (const OpId reader : precedence_.after(order_[k])) mark(reader);
      if (is_marked(target)) return unmark();
    }
    rearrange(first, last + 1, false);
    return true;
  }
  /// Reverts the last move.
  void take_back() {
    for (std::uint32_t k = 0; k < saved_.size(); ++k) put(first_ + k, saved_[k]);
  }

 private:
  void mark(OpId op) { marked_[index(op)] = epoch_; }
  bool is_marked(OpId op) const { return marked_[index(op)] == epoch_; }
  bool unmark() { return ++epoch_, false; }
  void put(std::uint32_t k, OpId op) {
    order_[k] = op;
    at_[index(op)] = k;
  }
  /// Puts the marked ops of a range before or after its other ops.
  void rearrange(std::uint32_t first, std::uint32_t end, bool marked_first) {
    first_ = first;
    saved_.assign(order_.begin() + first, order_.begin() + end);
    std::uint32_t k = first;
    for (const bool marked : {marked_first, !marked_first})
      for (const OpId op : saved_)
        if (is_marked(op) == marked) put(k++, op);
    ++epoch_;
  }

  const Precedence& precedence_;
  OpOrder order_;
  std::vector<std::uint32_t> at_, marked_;
  std::uint32_t epoch_ = 1, first_ = 0;
  OpOrder saved_;
};

/// What the schedule of an order suggests to change.
struct Suggestions {
  std::vector<OpOrder> blocks;  ///< Ops of the critical chain that run one after the other on a device.
  OpId peak = kNoOp;  ///< The last op to start before the highest memory of a device that is too full.
  std::vector<OpId> postponed;  ///< Ops before the peak whose results wait there for later readers.
  std::vector<OpId> advanced;   ///< Ops after the peak that free memory.

  bool empty() const { return blocks.empty() && postponed.empty() && advanced.empty(); }
};

class Annealing {
 public:
  Annealing(const Problem& problem, const Placement& placement, const SimulatorOptions& simulator,
            std::uint64_t stream, std::span<const OpOrder> starts)
      : problem_{problem},
        placement_{placement},
        context_{problem.context},
        starts_{starts},
        lowered_{problem.graph},
        precedence_{lowered_},
        simulator_{problem.graph, problem.devices, {simulator.dispatch}},
        rng_{problem.seed, Purpose::kHeuristic, kOrderStep + stream},
        start_{context_.clock != nullptr ? context_.clock->now() : Nanos{}} {}

  Result<Answer> run() && {
    OpOrder first;
    std::optional<Evaluation> best;
    const auto consider = [&](const OpOrder& order) -> Result<Unit> {
      if (best && spent() >= 1) return Unit{};
      EMPLACE_TRY_ASSIGN(const auto evaluation, measure(order));
      if (best && evaluation.energy >= best->energy) return Unit{};
      best = evaluation;
      first = order;
      return Unit{};
    };
    for (const OpOrder& order : starts_) {
      EMPLACE_TRY(consider(order));
    }
    for (const OpOrder& order : simple_orders_of(problem_, lowered_, precedence_, placement_)) {
      EMPLACE_TRY(consider(order));
    }
    simple_ = found_.evaluations;
    EMPLACE_TRY(walk(first, *best));
    return std::move(found_);
  }

 private:
  double spent() const {
    if (context_.stopped && context_.stopped()) return 1;
    const bool timed = context_.clock != nullptr;
    const std::uint64_t most = context_.evaluations > 0 ? context_.evaluations : timed ? 0 : kUsualOrders;
    double share = 0;
    if (most > 0) share = static_cast<double>(found_.evaluations - simple_) / static_cast<double>(most);
    if (!timed) return share;
    const Nanos now = context_.clock->now();
    if (now >= context_.deadline) return 1;
    return std::max(share, static_cast<double>((now - start_).count()) /
                               static_cast<double>((context_.deadline - start_).count()));
  }

  Result<Evaluation> measure(const OpOrder& order) {
    EMPLACE_TRY(simulator_.set_order(order));
    EMPLACE_TRY(simulator_.measure(placement_, measured_));
    ++found_.evaluations;
    if (found_.order.empty() || better(measured_, found_.measurement)) {
      found_.order = order;
      found_.measurement = measured_;
    }
    return evaluation_of(measured_, smallest_memory(problem_.devices));
  }

  Result<Unit> walk(const OpOrder& first, Evaluation now) {
    Sequence sequence{precedence_, first};
    Suggestions suggestions;
    std::uint32_t left = 0;  // Moves until the next analysis.
    std::uint32_t idle = 0;  // Proposals in a row that changed nothing.
    for (double share = spent(); share < 1 && idle < 10'000; share = spent()) {
      if (left == 0) {
        EMPLACE_TRY_ASSIGN(suggestions, analyse(sequence.order()));
        left = kPerAnalysis;
      }
      ++idle;
      if (!propose(sequence, suggestions)) continue;
      idle = 0;
      --left;
      EMPLACE_TRY_ASSIGN(const auto evaluation, measure(sequence.order()));
      const double worse = evaluation.energy - now.energy;
      const double temperature = kHot * std::pow(kCold / kHot, share);
      if (worse <= 0 || rng_.uniform_double() < std::exp(-worse / temperature)) {
        now = evaluation;
      } else {
        sequence.take_back();
      }
    }
    return Unit{};
  }

  std::uint32_t below(std::size_t bound) { return rng_.below(static_cast<std::uint32_t>(bound)); }
  OpId any_of(std::span<const OpId> ops) { return ops[below(ops.size())]; }

  bool propose(Sequence& sequence, const Suggestions& suggestions) {
    const bool full = suggestions.peak != kNoOp;
    if (full && below(100) < 60) {
      const bool back = suggestions.advanced.empty() || (!suggestions.postponed.empty() && below(2) == 0);
      if (back && !suggestions.postponed.empty())
        return sequence.postpone(any_of(suggestions.postponed), suggestions.peak);
      if (!suggestions.advanced.empty())
        return sequence.advance(any_of(suggestions.advanced), suggestions.peak);
    }
    if (!suggestions.blocks.empty() && below(100) < 75) {
      const OpOrder& block = suggestions.blocks[below(suggestions.blocks.size())];
      const std::size_t last = block.size() - 1;
      if (below(2) == 0) {
        const std::size_t k = 1 + below(last);
        return sequence.advance(block[k], block[below(2) == 0 ? 0 : below(k)]);
      }
      const std::size_t k = below(last);
      return sequence.postpone(block[k], block[below(2) == 0 ? last : k + 1 + below(last - k)]);
    }
    const auto kernels = lowered_.kernels();
    const OpId op = any_of(kernels);
    const std::size_t reach = std::max<std::size_t>(4, sequence.order().size() / 50);
    const std::size_t far = 1 + below(reach), at = sequence.at(op);
    if (below(2) == 0) return sequence.advance(op, sequence.order()[at > far ? at - far : 0]);
    return sequence.postpone(op, sequence.order()[std::min(at + far, sequence.order().size() - 1)]);
  }

  Result<Suggestions> analyse(const OpOrder& order) {
    Suggestions suggestions;
    EMPLACE_TRY(simulator_.set_order(order));
    EMPLACE_TRY(simulator_.trace(placement_, measured_, schedule_));
    suggest_blocks(suggestions);
    if (!measured_.valid) suggest_memory(suggestions);
    return suggestions;
  }

  void suggest_blocks(Suggestions& suggestions) const {
    const CriticalChain chain = critical_chain(lowered_, placement_, schedule_, problem_.devices);
    OpOrder block;
    const auto close = [&] {
      if (block.size() > 1) suggestions.blocks.push_back(block);
      block.clear();
    };
    const ChainLink* before = nullptr;
    for (const ChainLink& link : chain.links) {
      const bool waited = link.cause == ChainLink::Cause::kEngine && before != nullptr;
      if (link.kind == ChainLink::Kind::kOp) {
        if (!waited || before->kind != ChainLink::Kind::kOp) close();
        block.push_back(schedule_.ops[link.run].op);
      } else {
        close();
        if (waited && before->kind == ChainLink::Kind::kTransfer) {
          const OpId first = maker(before->run), second = maker(link.run);
          if (first != second) suggestions.blocks.push_back({first, second});
        }
      }
      before = &link;
    }
    close();
  }
  OpId maker(std::uint32_t transfer) const {
    return lowered_.owner(lowered_.buffer(schedule_.transfers[transfer].tensor));
  }

  void suggest_memory(Suggestions& suggestions) {
    std::size_t full = 0;
    std::int64_t most = 0;
    for (std::size_t d = 0; d < measured_.peak_bytes.size(); ++d) {
      const std::int64_t over =
          measured_.peak_bytes[d] - problem_.devices[static_cast<DeviceId>(d)].memory_bytes;
      if (over > most) most = over, full = d;
    }
    double peak_s = 0;
    std::int64_t highest = -1;
    for (const MemoryLevel& level : schedule_.memory)
      if (index(level.device) == full && level.bytes > highest) highest = level.bytes, peak_s = level.at_s;
    start_s_.assign(lowered_.num_ops(), 0);
    for (const OpRun& run : schedule_.ops) {
      start_s_[index(run.op)] = run.start_s;
      if (index(run.device) == full && run.start_s <= peak_s) suggestions.peak = run.op;
    }
    if (suggestions.peak == kNoOp) return;
    for (std::uint32_t b = 0; b < lowered_.num_buffers(); ++b) {
      const BufferId buffer{b};
      const OpId owner = lowered_.owner(buffer);
      if (lowered_.is_resident(buffer) || !lowered_.takes_time(owner)) continue;
      const bool home = index(placement_[index(owner)]) == full;
      if (start_s_[index(owner)] > peak_s || (home && lowered_.held_bytes(lowered_.base(buffer)) == 0))
        continue;
      OpId last = kNoOp;
      double first_s = std::numeric_limits<double>::infinity();
      for (const OpId reader : lowered_.readers(buffer)) {
        if (index(placement_[index(reader)]) != full) continue;
        first_s = std::min(first_s, start_s_[index(reader)]);
        if (last == kNoOp || start_s_[index(reader)] > start_s_[index(last)]) last = reader;
      }
      if (last == kNoOp || start_s_[index(last)] <= peak_s) continue;
      suggestions.advanced.push_back(last);
      if (first_s > peak_s && owner != suggestions.peak) suggestions.postponed.push_back(owner);
    }
  }

  const Problem& problem_;
  const Placement& placement_;
  const Context& context_;
  const std::span<const OpOrder> starts_;
  const LoweredGraph lowered_;
  const Precedence precedence_;
  Simulator simulator_;
  Rng rng_;
  const Nanos start_;
  std::uint64_t simple_ = 0;  // Evaluations of orders that were not searched.
  Answer found_;
  Measurement measured_;
  Schedule schedule_;
  std::vector<double> start_s_;  // [ops]
};

}  // namespace

OpOrder issue_order(const OpGraph& graph) {
  const auto order = graph.topological_order();
  return {order.begin(), order.end()};
}

std::vector<OpOrder> simple_orders(const Problem& problem, const Placement& placement) {
  const LoweredGraph lowered{problem.graph};
  return simple_orders_of(problem, lowered, Precedence{lowered}, placement);
}

Result<Answer> search_order(const Problem& problem, const Placement& placement,
                            const SimulatorOptions& simulator, std::uint64_t stream,
                            std::span<const OpOrder> starts) {
  EMPLACE_TRY_ASSIGN(auto found, (Annealing{problem, placement, simulator, stream, starts}.run()));
  found.placement = placement;
  found.method = "order";
  return found;
}

}  // namespace emplace
