#include "placement/bounds/route_bound.h"

#include <algorithm>
#include <span>
#include <utility>

namespace emplace {
namespace {

constexpr std::int64_t kNever = DeviceKinds::kNever;

/// Dependencies in one direction of time. In the backward direction consumers precede producers.
struct Edges {
  struct Edge {
    OpId from{};  ///< The predecessor in this direction: a kernel, or forwards also a state op.
    std::int64_t bytes = 0;
    bool state = false;
  };
  std::vector<OpId> order;  ///< Kernels in topological order of this direction.
  // [ops + 1] Offsets into edges.
  std::vector<std::uint32_t> begin;
  // Incoming edges, grouped by op.
  std::vector<Edge> edges;
  bool backwards = false;

  std::span<const Edge> into(OpId op) const {
    return {edges.data() + begin[index(op)], begin[index(op) + 1] - begin[index(op)]};
  }
};

Edges forward_edges(const LoweredGraph& lowered) {
  Edges out;
  for (const OpId op : lowered.graph().topological_order())
    if (lowered.takes_time(op)) out.order.push_back(op);
  for (std::uint32_t op = 0; op < lowered.graph().num_ops(); ++op) {
    out.begin.push_back(static_cast<std::uint32_t>(out.edges.size()));
    for (const BufferId buffer : lowered.reads(OpId{op}))
      out.edges.push_back({lowered.owner(buffer), lowered.bytes(buffer), lowered.is_resident(buffer)});
  }
  out.begin.push_back(static_cast<std::uint32_t>(out.edges.size()));
  return out;
}

/// Reverses time. A reversed schedule obeys the same rules with all links reversed, so heads of the reversed
/// graph are tails. State is dropped: it is present from the start and does not constrain the end.
Edges backward_edges(const Edges& forward) {
  Edges out;
  out.backwards = true;
  out.order.assign(forward.order.rbegin(), forward.order.rend());
  out.begin.assign(forward.begin.size(), 0);
  for (const auto& edge : forward.edges)
    if (!edge.state) ++out.begin[index(edge.from) + 1];
  for (std::size_t i = 1; i < out.begin.size(); ++i) out.begin[i] += out.begin[i - 1];
  out.edges.resize(out.begin.back());
  std::vector<std::uint32_t> fill(out.begin.begin(), out.begin.end() - 1);
  for (std::uint32_t op = 0; op + 1 < forward.begin.size(); ++op) {
    for (const auto& edge : forward.into(OpId{op}))
      if (!edge.state) out.edges[fill[index(edge.from)]++] = {OpId{op}, edge.bytes, false};
  }
  return out;
}

/// Computes the earliest start of every op on every kind, in one direction of time.
/// Invariant: start_[o, k] <= the start of o in every placement that fits and has o on kind k. Ops are
/// visited in topological order, so the values of all predecessors are final.
class Sweep {
 public:
  Sweep(const Constraints& constraints, const DeviceKinds& kinds, const CostTable& costs, const Edges& edges,
        std::size_t window)
      : constraints_{constraints},
        kinds_{kinds},
        edges_{edges},
        window_{window},
        start_(constraints.classes().size() * kinds.size(), kNever),
        remote_(edges.edges.size() * kinds.size(), 0),
        stamp_(constraints.classes().size(), 0),
        slot_(constraints.classes().size(), 0) {
    for (const DeviceId device : kinds.example) rows_.push_back(costs.row_ns(device).data());
  }

  /// Computes start_ [ops, kinds].
  const std::vector<std::int64_t>& run() {
    for (const OpId op : edges_.order) {
      for (std::size_t k = 0; k < kinds_.size(); ++k) {
        if (!may(op, k)) continue;
        const auto [start, joined] = first_start(op, k);
        start_[at(op, k)] = joined > 1 && window_ > 0 ? std::max(start, join(op, k, start)) : start;
      }
    }
    return start_;
  }

  /// The joins that prove start_ >= `wanted` [ops, kinds]. Visits the ops backwards: an op passes on to its
  /// predecessors what its own proof needs of them. @pre nothing is wanted beyond start_.
  std::vector<RouteJoin> proof(std::vector<std::int64_t> wanted) {
    run();
    wanted_ = std::move(wanted);
    std::vector<RouteJoin> joins;
    for (auto it = edges_.order.rbegin(); it != edges_.order.rend(); ++it) {
      for (std::size_t k = 0; k < kinds_.size(); ++k) {
        if (!may(*it, k) || wanted_[at(*it, k)] <= 0) continue;
        const auto [start, joined] = first_start(*it, k);
        if (wanted_[at(*it, k)] <= start) {
          want_one_input(*it, k);
        } else {
          joins.push_back({*it, k, join(*it, k, start), std::move(line_)});
          want_line(joins.back());
        }
      }
    }
    std::reverse(joins.begin(), joins.end());
    return joins;
  }

 private:
  std::size_t at(OpId op, std::size_t k) const { return index(op) * kinds_.size() + k; }
  bool may(OpId op, std::size_t k) const { return kinds_.allowed[constraints_.class_of(op)][k]; }
  std::int64_t time(OpId op, std::size_t k) const { return rows_[k][index(op)]; }
  std::int64_t end(OpId op, std::size_t k) const { return start_[at(op, k)] + time(op, k); }
  /// Least transfer time between different devices, from the predecessor's kind `source` to `target`.
  std::int64_t transfer(std::size_t source, std::size_t target, std::int64_t bytes) const {
    return edges_.backwards ? kinds_.transfer_ns(target, source, bytes)
                            : kinds_.transfer_ns(source, target, bytes);
  }

  /// Rule 1: every input must be present. Returns the maximum over inputs of the lesser of two times, the
  /// producer's end on this device and its end on any other device plus the transfer; and the number of
  /// inputs from kernels. Sets remote_ for the edges into `op`.
  std::pair<std::int64_t, std::size_t> first_start(OpId op, std::size_t k) {
    std::int64_t start = 0;
    std::size_t joined = 0;
    const auto into = edges_.into(op);
    for (std::size_t e = 0; e < into.size(); ++e) {
      const auto& edge = into[e];
      std::int64_t& elsewhere = remote_[(edges_.begin[index(op)] + e) * kinds_.size() + k];
      elsewhere = kNever;
      // Ops of one class share a device, so elsewhere stays kNever.
      if (constraints_.class_of(edge.from) != constraints_.class_of(op)) {
        for (std::size_t s = 0; s < kinds_.size(); ++s) {
          if (!may(edge.from, s)) continue;
          const std::int64_t ready = edge.state ? 0 : end(edge.from, s);
          elsewhere = std::min(elsewhere, ready + transfer(s, k, edge.bytes));
        }
      }
      const std::int64_t here = !may(edge.from, k) ? kNever : edge.state ? 0 : end(edge.from, k);
      start = std::max(start, std::min(here, elsewhere));
      if (!edge.state) ++joined;
    }
    return {start, joined};
  }

  /// Wants of the input that arrives last what makes it arrive in time for the wanted start.
  void want_one_input(OpId op, std::size_t k) {
    const auto into = edges_.into(op);
    const std::int64_t start = wanted_[at(op, k)];
    for (std::size_t e = 0; e < into.size(); ++e) {
      const auto& edge = into[e];
      const std::int64_t here = !may(edge.from, k) ? kNever : edge.state ? 0 : end(edge.from, k);
      if (std::min(here, remote_[(edges_.begin[index(op)] + e) * kinds_.size() + k]) < start) continue;
      if (edge.state) return;
      const bool one_class = constraints_.class_of(edge.from) == constraints_.class_of(op);
      if (may(edge.from, k)) want(edge.from, k, start - time(edge.from, k));
      for (std::size_t s = 0; s < kinds_.size() && !one_class; ++s)
        if (may(edge.from, s)) want(edge.from, s, start - transfer(s, k, edge.bytes) - time(edge.from, s));
      return;
    }
  }

  /// Wants the full starts of all that a join refers to.
  void want_line(const RouteJoin& join) {
    const auto want_all = [&](OpId op) {
      for (std::size_t s = 0; s < kinds_.size(); ++s)
        if (may(op, s)) want(op, s, start_[at(op, s)]);
    };
    for (const OpId op : join.line) want_all(op);
  }

  void want(OpId op, std::size_t k, std::int64_t start) {
    wanted_[at(op, k)] = std::max(wanted_[at(op, k)], start);
  }

  /// Rule 2: inputs on one device are serialised. Returns a lower bound of the start C of `op` on kind `k`.
  /// For an ancestor u let arrival(u) be a time before which `op` cannot start unless u is on the same
  /// device. If `op` starts at C, all u with arrival(u) > C are on its device. They ran there one at a time,
  /// each u not before start_[u, k] and followed by the chain tail(u) from u to `op`, so C >=
  /// preemptive_bound() of these jobs. A smaller C puts more ancestors on the device: the bound is the least
  /// consistent C. Sets line_ to ancestors that prove it: all have arrival >= the bound, and in line they
  /// take at least as long or the last is not allowed here.
  std::int64_t join(OpId op, std::size_t k, std::int64_t start) {
    ++generation_;
    // Stage 1: collect ancestors by descending arrival. Stop at the window size, at an arrival that does not
    // improve `start`, or at an op that is not allowed on this kind.
    nodes_.clear();
    heap_.clear();
    jobs_.clear();
    arrivals_.clear();
    line_.clear();
    add_inputs(op, k, kNever, 0);
    bool blocked = false;
    while (!heap_.empty()) {
      const auto [arrival, slot] = heap_.front();
      Node& node = nodes_[slot];
      // Skip outdated heap entries.
      if (node.taken || node.arrival != arrival) {
        std::pop_heap(heap_.begin(), heap_.end());
        heap_.pop_back();
        continue;
      }
      blocked = !may(node.op, k);
      if (arrival <= start || blocked || jobs_.size() == window_) break;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      node.taken = true;
      arrivals_.push_back(arrival);
      line_.push_back(node.op);
      jobs_.push_back({start_[at(node.op, k)], time(node.op, k), node.tail});
      add_inputs(node.op, k, arrival, time(node.op, k) + node.tail);
    }
    // The last entry is the arrival of the first ancestor that is not a job.
    arrivals_.push_back(heap_.empty() ? 0 : heap_.front().first);
    // Stage 2: find the least C. With C in [arrivals[j], arrivals[j - 1]) exactly the first j jobs are on the
    // device, so C = max(line(j), arrivals[j]) is the least C there. line(j) rises with j and arrivals[j]
    // falls: the minimum is where they cross.
    const auto line = [&](std::size_t j) {
      subset_.assign(jobs_.begin(), jobs_.begin() + static_cast<std::ptrdiff_t>(j));
      return preemptive_bound(subset_).first;
    };
    std::size_t low = 0, high = jobs_.size();
    const std::int64_t all = line(high);
    // No crossing within the window. All jobs are on the device, or C >= arrivals[high] > all. If the next
    // ancestor cannot be on this kind, the latter holds.
    if (all < arrivals_[high]) {
      if (!blocked) return all;
      line_.push_back(nodes_[heap_.front().second].op);
      return arrivals_[high];
    }
    while (low < high) {  // Binary search for the least j with line(j) >= arrivals[j].
      const std::size_t middle = (low + high) / 2;
      if (line(middle) >= arrivals_[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const std::int64_t through = line(low);
    line_.resize(low);
    // The minimum of the candidates j and j - 1; the latter is arrivals[j - 1], because line(j - 1) is less.
    return low == 0 ? through : std::min(through, arrivals_[low - 1]);
  }

  /// Adds the inputs of `of`, a job on kind `k` with `tail` from its start to the start of the joined op;
  /// `arrival` applies if `of` is on another device. An input u on another device arrives at `of` first, or
  /// `of` is elsewhere too: arrival(u) >= min(arrival, transfer end + tail).
  void add_inputs(OpId of, std::size_t k, std::int64_t arrival, std::int64_t tail) {
    const auto into = edges_.into(of);
    for (std::size_t e = 0; e < into.size(); ++e) {
      if (into[e].state) continue;
      const std::int64_t elsewhere = remote_[(edges_.begin[index(of)] + e) * kinds_.size() + k];
      offer(into[e].from, std::min(arrival, std::min(elsewhere, kNever - tail) + tail), tail);
    }
  }

  /// Keeps the largest known arrival and tail per ancestor. Both are lower bounds over different chains.
  void offer(OpId op, std::int64_t arrival, std::int64_t tail) {
    if (stamp_[index(op)] != generation_) {
      stamp_[index(op)] = generation_;
      slot_[index(op)] = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({op, arrival, tail, false});
    } else {
      Node& node = nodes_[slot_[index(op)]];
      if (node.taken) return;
      node.tail = std::max(node.tail, tail);
      if (arrival <= node.arrival) return;
      node.arrival = arrival;
    }
    heap_.emplace_back(arrival, slot_[index(op)]);
    std::push_heap(heap_.begin(), heap_.end());
  }

  /// An ancestor of the joined op.
  struct Node {
    OpId op{};
    std::int64_t arrival = 0;  // The joined op starts no earlier if this op is on another device.
    std::int64_t tail = 0;  // Time from this op's end to the joined op's start, if all jobs of later arrival
                            // are on the device.
    // Whether it is a job already.
    bool taken = false;
  };

  const Constraints& constraints_;
  const DeviceKinds& kinds_;
  const Edges& edges_;
  const std::size_t window_;
  std::vector<const std::int64_t*> rows_;  // [kinds][ops] Op times.
  std::vector<std::int64_t> start_;        // [ops, kinds] Earliest start.
  std::vector<std::int64_t> remote_;       // [edges, kinds] Earliest arrival on the kind from another device.

  // Scratch space of one join.
  std::uint32_t generation_ = 0;
  std::vector<std::uint32_t> stamp_, slot_;  // [ops] Last join that reached the op; its index in nodes_.
  std::vector<Node> nodes_;
  std::vector<std::pair<std::int64_t, std::uint32_t>> heap_;  // Max-heap of (arrival, node).
  std::vector<Job<std::int64_t>> jobs_, subset_;
  std::vector<std::int64_t> arrivals_;
  std::vector<OpId> line_;
  std::vector<std::int64_t> wanted_;  // [ops, kinds] Starts that a proof needs.
};

/// Ancestors that a join may put on its op's device; fewer in large graphs.
std::size_t window_of(const LoweredGraph& lowered, const DeviceKinds& kinds) {
  return std::clamp<std::size_t>(1'600'000 / (lowered.graph().num_ops() * kinds.size() + 1), 4, 32);
}

}  // namespace

Routes routes(const LoweredGraph& lowered, const Constraints& constraints, const DeviceKinds& kinds,
              const CostTable& costs) {
  const std::size_t size = kinds.size(), window = window_of(lowered, kinds);
  const Edges forward = forward_edges(lowered);
  const Edges backward = backward_edges(forward);
  Routes out;
  out.head_ns = Sweep{constraints, kinds, costs, forward, window}.run();
  out.tail_ns = Sweep{constraints, kinds, costs, backward, window}.run();
  // Every op is on some kind: its least head + time + tail over the kinds bounds the step time.
  for (const OpId op : lowered.kernels()) {
    std::int64_t least = kNever;
    for (std::size_t k = 0; k < size; ++k) {
      const std::size_t at = index(op) * size + k;
      if (out.head_ns[at] == kNever || out.tail_ns[at] == kNever) continue;
      least = std::min(least, out.head_ns[at] + costs.ns(kinds.example[k], op) + out.tail_ns[at]);
    }
    if (least != kNever && (out.longest == kNoOp || least > out.longest_ns))
      out.longest_ns = least, out.longest = op;
  }
  return out;
}

RouteProof route_proof(const LoweredGraph& lowered, const Constraints& constraints, const DeviceKinds& kinds,
                       const CostTable& costs, std::vector<std::int64_t> wanted_heads,
                       std::vector<std::int64_t> wanted_tails) {
  const std::size_t window = window_of(lowered, kinds);
  const Edges forward = forward_edges(lowered);
  const Edges backward = backward_edges(forward);
  return {Sweep{constraints, kinds, costs, forward, window}.proof(std::move(wanted_heads)),
          Sweep{constraints, kinds, costs, backward, window}.proof(std::move(wanted_tails))};
}

}  // namespace emplace
