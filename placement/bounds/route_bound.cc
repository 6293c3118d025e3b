#include "placement/bounds/route_bound.h"

#include <algorithm>
#include <span>
#include <utility>

namespace emplace {
namespace {

constexpr std::int64_t kNever = DeviceKinds::kNever;

/// Who hands what to whom, in one direction of time.
struct Edges {
  struct Edge {
    OpId from{};  ///< A kernel before in this direction; a state op only forwards.
    std::int64_t bytes = 0;
    bool state = false;
  };
  std::vector<OpId> order;  ///< Kernels, those before first.
  std::vector<std::uint32_t> begin;
  std::vector<Edge> edges;
  bool backwards = false;

  std::span<const Edge> into(OpId op) const {
    return {edges.data() + begin[index(op)], begin[index(op) + 1] - begin[index(op)]};
  }
};

Edges forward_edges(const LoweredGraph& lowered) {
  Edges out;
  for (const OpId op : lowered.graph().topological_order())
    if (lowered.is_kernel(op)) out.order.push_back(op);
  for (std::uint32_t op = 0; op < lowered.graph().num_ops(); ++op) {
    out.begin.push_back(static_cast<std::uint32_t>(out.edges.size()));
    for (const BufferId buffer : lowered.reads(OpId{op}))
      out.edges.push_back({lowered.owner(buffer), lowered.bytes(buffer), lowered.is_resident(buffer)});
  }
  out.begin.push_back(static_cast<std::uint32_t>(out.edges.size()));
  return out;
}

/// The same with time running backwards: state is there from the start and holds nobody up at the end.
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

/// A job of one device: not before `release`, `time` long, followed by `tail`.
struct Job {
  std::int64_t release = 0, time = 0, tail = 0;
};

/// The least possible largest end + tail when jobs may be interrupted: Jackson's rule, longest tail first.
std::int64_t one_device_ns(std::vector<Job>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.release < b.release; });
  std::vector<std::pair<std::int64_t, std::int64_t>> waiting;  // Tail, time left: a heap.
  std::int64_t now = 0, worst = 0;
  std::size_t next = 0;
  while (next < jobs.size() || !waiting.empty()) {
    if (waiting.empty()) now = std::max(now, jobs[next].release);
    for (; next < jobs.size() && jobs[next].release <= now; ++next) {
      waiting.emplace_back(jobs[next].tail, jobs[next].time);
      std::push_heap(waiting.begin(), waiting.end());
    }
    auto& [tail, left] = waiting.front();
    const std::int64_t until = next < jobs.size() ? std::min(now + left, jobs[next].release) : now + left;
    left -= until - now;
    now = until;
    if (left > 0) continue;
    worst = std::max(worst, now + tail);
    std::pop_heap(waiting.begin(), waiting.end());
    waiting.pop_back();
  }
  return worst;
}

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

  std::vector<std::int64_t> run() {
    for (const OpId op : edges_.order) {
      for (std::size_t k = 0; k < kinds_.size(); ++k) {
        if (!may(op, k)) continue;
        const auto [start, joined] = first_start(op, k);
        start_[at(op, k)] = joined > 1 && window_ > 0 ? std::max(start, join(op, k, start)) : start;
      }
    }
    return std::move(start_);
  }

 private:
  std::size_t at(OpId op, std::size_t k) const { return index(op) * kinds_.size() + k; }
  bool may(OpId op, std::size_t k) const { return kinds_.allowed[constraints_.class_of(op)][k]; }
  std::int64_t time(OpId op, std::size_t k) const { return rows_[k][index(op)]; }
  std::int64_t end(OpId op, std::size_t k) const { return start_[at(op, k)] + time(op, k); }
  /// From a device of kind `source`, before in this direction, to another one of kind `target`.
  std::int64_t transfer(std::size_t source, std::size_t target, std::int64_t bytes) const {
    return edges_.backwards ? kinds_.transfer_ns(target, source, bytes)
                            : kinds_.transfer_ns(source, target, bytes);
  }

  /// When everything it reads can be there, each on its best way; and how many ops it waits for.
  std::pair<std::int64_t, std::size_t> first_start(OpId op, std::size_t k) {
    std::int64_t start = 0;
    std::size_t joined = 0;
    const auto into = edges_.into(op);
    for (std::size_t e = 0; e < into.size(); ++e) {
      const auto& edge = into[e];
      std::int64_t& elsewhere = remote_[(edges_.begin[index(op)] + e) * kinds_.size() + k];
      elsewhere = kNever;
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

  /// What it waits for is either elsewhere, and takes a transfer, or in line on the same device. Takes the
  /// ops before it by falling arrival from elsewhere: those that would arrive after C must be in line, and
  /// the line must be through by C. Returns the least such C, or less where the window ends first.
  std::int64_t join(OpId op, std::size_t k, std::int64_t start) {
    ++now_;
    nodes_.clear();
    heap_.clear();
    jobs_.clear();
    arrivals_.clear();
    look_behind(op, k, kNever, 0);
    bool blocked = false;
    while (!heap_.empty()) {
      const auto [arrival, slot] = heap_.front();
      Node& node = nodes_[slot];
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
      jobs_.push_back({start_[at(node.op, k)], time(node.op, k), node.tail});
      look_behind(node.op, k, arrival, time(node.op, k) + node.tail);
    }
    arrivals_.push_back(heap_.empty() ? 0 : heap_.front().first);  // Of the first that is not among the jobs.
    // line(j), of the j latest, rises with j; the arrival of the next falls.
    const auto line = [&](std::size_t j) {
      subset_.assign(jobs_.begin(), jobs_.begin() + static_cast<std::ptrdiff_t>(j));
      return one_device_ns(subset_);
    };
    std::size_t low = 0, high = jobs_.size();
    const std::int64_t all = line(high);
    if (all < arrivals_[high]) return blocked ? arrivals_[high] : all;
    while (low < high) {  // The least j with line(j) >= arrivals[j].
      const std::size_t middle = (low + high) / 2;
      if (line(middle) >= arrivals_[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const std::int64_t through = line(low);
    return low == 0 ? through : std::min(through, arrivals_[low - 1]);
  }

  /// Offers what `of`, in line on kind `k` and followed by `tail`, reads; `arrival`: if `of` itself is
  /// elsewhere.
  void look_behind(OpId of, std::size_t k, std::int64_t arrival, std::int64_t tail) {
    const auto into = edges_.into(of);
    for (std::size_t e = 0; e < into.size(); ++e) {
      if (into[e].state) continue;
      const std::int64_t elsewhere = remote_[(edges_.begin[index(of)] + e) * kinds_.size() + k];
      offer(into[e].from, std::min(arrival, std::min(elsewhere, kNever - tail) + tail), tail);
    }
  }

  void offer(OpId op, std::int64_t arrival, std::int64_t tail) {
    if (stamp_[index(op)] != now_) {
      stamp_[index(op)] = now_;
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

  /// An op before the one that is looked at.
  struct Node {
    OpId op{};
    std::int64_t arrival = 0;  // The op looked at starts no earlier if this one is on another device.
    std::int64_t tail = 0;     // From its end to that start, if all of later arrival are in line.
    bool taken = false;
  };

  const Constraints& constraints_;
  const DeviceKinds& kinds_;
  const Edges& edges_;
  const std::size_t window_;
  std::vector<const std::int64_t*> rows_;  // [kinds] op times
  std::vector<std::int64_t> start_;        // [ops, kinds]
  std::vector<std::int64_t> remote_;       // [edges, kinds] arrival on that kind from another device

  // Of one join.
  std::uint32_t now_ = 0;
  std::vector<std::uint32_t> stamp_, slot_;  // [ops]
  std::vector<Node> nodes_;
  std::vector<std::pair<std::int64_t, std::uint32_t>> heap_;  // Arrival, node.
  std::vector<Job> jobs_, subset_;
  std::vector<std::int64_t> arrivals_;
};

}  // namespace

Routes routes(const LoweredGraph& lowered, const Constraints& constraints, const DeviceKinds& kinds,
              const CostTable& costs) {
  const std::size_t n = lowered.graph().num_ops(), size = kinds.size();
  const std::size_t window = std::clamp<std::size_t>(1'600'000 / (n * size + 1), 4, 32);
  const Edges forward = forward_edges(lowered);
  const Edges backward = backward_edges(forward);
  Routes out;
  out.head_ns = Sweep{constraints, kinds, costs, forward, window}.run();
  out.tail_ns = Sweep{constraints, kinds, costs, backward, window}.run();
  for (const OpId op : forward.order) {
    std::int64_t least = kNever;
    for (std::size_t k = 0; k < size; ++k) {
      const std::size_t at = index(op) * size + k;
      if (out.head_ns[at] == kNever || out.tail_ns[at] == kNever) continue;
      least = std::min(least, out.head_ns[at] + costs.ns(kinds.example[k], op) + out.tail_ns[at]);
    }
    if (least != kNever) out.longest_ns = std::max(out.longest_ns, least);
  }
  return out;
}

}  // namespace emplace
