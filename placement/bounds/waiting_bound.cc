#include "placement/bounds/waiting_bound.h"

#include <algorithm>
#include <cmath>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // An optional of Boost's, seen from inlined code.
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#pragma GCC diagnostic pop

#include "graph/memory_plan.h"
#include "placement/bounds/waiting.h"

namespace emplace {
namespace {

using Amount = std::int64_t;
/// More than all amounts together.
constexpr Amount kNoLimit = Amount{1} << 60;
/// Keeps computed values below exact ones, whatever the rounding.
constexpr double kMargin = 1e-12;

using Links = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<boost::edge_capacity_t, Amount,
                    boost::property<boost::edge_residual_capacity_t, Amount,
                                    boost::property<boost::edge_reverse_t, Links::edge_descriptor>>>>;
using Node = FlowGraph::vertex_descriptor;
using Link = FlowGraph::edge_descriptor;
constexpr Node kSource = 0, kSink = 1;

/// A choice of what is kept and what runs again, priced by the rent.
struct Choice {
  double again = 0;  ///< Price of the ops that run again.
  double bytes = 0;  ///< What is kept [B].
  double price(double rent) const { return again + bytes * rent; }
};

/// What must be done because tensors wait while one kernel runs: each of them is kept, or its op runs again,
/// which then needs what it reads. The cheapest choice is a minimum cut of these links:
///   source → what waits, without limit
///   part → its tensor → its op, at the price of keeping the former
///   a tensor that the kernel itself reads, or whose op cannot run again → sink, at the price of keeping it
///   op → what it reads, without limit; op → sink, at the price of running it again
/// On one device nothing is kept in parts, so a part is its tensor. Thread: one.
class Needs {
 public:
  Needs(const LoweredGraph& lowered, bool one_device)
      : lowered_{lowered},
        one_device_{one_device},
        recomputable_{recomputable_ops(lowered.graph())},
        waiting_{lowered},
        of_buffer_(lowered.num_buffers()),
        of_op_(lowered.num_ops()),
        is_held_(lowered.num_buffers()) {}

  void look_at(OpId kernel) {
    waiting_.look_at(kernel);
    graph_ = FlowGraph{2};
    kept_.clear(), demands_.clear(), reads_.clear(), runs_.clear();
    std::ranges::fill(of_buffer_, kSource);
    std::ranges::fill(of_op_, kSource);
    is_held_.assign(lowered_.num_buffers(), false);
    std::vector<BufferId> needed;
    for (const BufferId buffer : waiting_.buffers()) {
      const BufferId stored = stored_as(buffer);
      if (waiting_.is_read_now(buffer)) is_held_[index(stored)] = lowered_.base(stored) == stored;
      needed.push_back(stored);
    }
    std::ranges::sort(needed);
    needed.erase(std::ranges::unique(needed).begin(), needed.end());
    demanded_bytes_ = 0;
    for (const BufferId buffer : needed) {
      demands_.push_back({link(kSource, node_of(buffer)), bytes_of(buffer)});
      demanded_bytes_ += bytes_of(buffer);
    }
    // Links of nodes lead to nodes, whose links follow.
    for (std::size_t k = 0; k < added_.size(); ++k) {
      if (added_[k].buffer != kNoBuffer) {
        add_links(added_[k].buffer);
      } else {
        add_links(added_[k].op);
      }
    }
    added_.clear();
  }

  /// What keeping everything takes [B].
  double demanded_bytes() const { return demanded_bytes_; }

  /// The price of the cheapest choice. `per_byte`: of what is kept; `again` [ops]: of running again.
  Amount cheapest(double per_byte, std::span<const Amount> again) {
    const auto kept_for = [&](double bytes) { return static_cast<Amount>(std::floor(bytes * per_byte)); };
    for (const Demand& of : demands_) limit(of.link, kept_for(of.bytes));  // No more can leave the buffer.
    for (const auto& of : kept_) limit(of.link, kept_for(of.bytes));
    for (const auto& of : reads_) limit(of.link, kNoLimit);
    for (const auto& of : runs_) limit(of.link, again[index(of.op)]);
    return boost::push_relabel_max_flow(graph_, kSource, kSink);
  }

  /// The choice of the last prices.
  Choice choice(std::span<const Amount> again) const {
    std::vector<bool> reached(boost::num_vertices(graph_), false);
    std::vector<Node> open{kSource};
    reached[kSource] = true;
    while (!open.empty()) {
      const Node node = open.back();
      open.pop_back();
      for (auto [at, end] = boost::out_edges(node, graph_); at != end; ++at) {
        const Node next = boost::target(*at, graph_);
        if (reached[next] || boost::get(boost::edge_residual_capacity, graph_, *at) == 0) continue;
        reached[next] = true;
        open.push_back(next);
      }
    }
    const auto is_cut = [&](Link link) {
      return reached[boost::source(link, graph_)] && !reached[boost::target(link, graph_)];
    };
    Choice choice;
    for (const Demand& of : demands_)
      if (is_cut(of.link)) choice.bytes += of.bytes;
    for (const auto& of : kept_)
      if (is_cut(of.link)) choice.bytes += of.bytes;
    for (const auto& of : runs_)
      if (is_cut(of.link)) choice.again += static_cast<double>(again[index(of.op)]);
    return choice;
  }

  /// The amounts of the last prices.
  void write_amounts(WaitingBound& bound) const {
    for (const auto& of : kept_)
      if (const Amount amount = flow(of.link); amount > 0) bound.kept.push_back({of.buffer, amount});
    for (const auto& of : reads_)
      if (const Amount amount = flow(of.link); amount > 0) bound.read.push_back({of.op, of.buffer, amount});
  }

 private:
  struct Demand {
    Link link;
    double bytes = 0;
  };
  struct KeptLink {
    Link link;
    BufferId buffer{};
    double bytes = 0;
  };
  struct ReadLink {
    Link link;
    OpId op{};
    BufferId buffer{};
  };
  struct RunLink {
    Link link;
    OpId op{};
  };
  static constexpr BufferId kNoBuffer{0xffffffff};
  /// A node whose links do not exist yet.
  struct Added {
    BufferId buffer = kNoBuffer;
    OpId op = kNoOp;
  };

  BufferId stored_as(BufferId buffer) const { return one_device_ ? lowered_.base(buffer) : buffer; }
  double bytes_of(BufferId buffer) const {
    return static_cast<double>(std::min(lowered_.bytes(buffer), kept_bytes(lowered_, lowered_.base(buffer))));
  }

  Node node_of(BufferId buffer) {
    Node& node = of_buffer_[index(buffer)];
    if (node == kSource) node = boost::add_vertex(graph_), added_.push_back({.buffer = buffer});
    return node;
  }
  Node node_of(OpId op) {
    Node& node = of_op_[index(op)];
    if (node == kSource) node = boost::add_vertex(graph_), added_.push_back({.op = op});
    return node;
  }

  void add_links(BufferId buffer) {
    const BufferId base = lowered_.base(buffer);
    const OpId op = lowered_.owner(buffer);
    Node next = kSink;
    if (base != buffer) {
      next = node_of(base);
    } else if (!is_held_[index(buffer)] && recomputable_[index(op)]) {
      next = node_of(op);
    }
    kept_.push_back({link(of_buffer_[index(buffer)], next), buffer, bytes_of(buffer)});
  }

  void add_links(OpId op) {
    const Node node = of_op_[index(op)];
    runs_.push_back({link(node, kSink), op});
    for (const BufferId read : lowered_.reads(op)) {
      if (lowered_.is_resident(read)) continue;
      const BufferId buffer = stored_as(read);
      reads_.push_back({link(node, node_of(buffer)), op, buffer});
    }
  }

  Link link(Node from, Node to) {
    const Link there = boost::add_edge(from, to, graph_).first;
    const Link back = boost::add_edge(to, from, graph_).first;
    boost::put(boost::edge_reverse, graph_, there, back);
    boost::put(boost::edge_reverse, graph_, back, there);
    boost::put(boost::edge_capacity, graph_, back, 0);
    return there;
  }
  void limit(Link link, Amount amount) { boost::put(boost::edge_capacity, graph_, link, amount); }
  Amount flow(Link link) const {
    return boost::get(boost::edge_capacity, graph_, link) -
           boost::get(boost::edge_residual_capacity, graph_, link);
  }

  const LoweredGraph& lowered_;
  const bool one_device_;
  const std::vector<bool> recomputable_;
  Waiting waiting_;
  FlowGraph graph_;
  std::vector<Demand> demands_;
  std::vector<KeptLink> kept_;
  std::vector<ReadLink> reads_;
  std::vector<RunLink> runs_;
  std::vector<Added> added_;
  std::vector<Node> of_buffer_, of_op_;  // kSource: none.
  std::vector<bool> is_held_;            // [buffers] The kernel itself reads it.
  double demanded_bytes_ = 0;
};

}  // namespace

std::vector<bool> recomputable_ops(const OpGraph& graph) {
  std::vector<bool> recomputable(graph.num_ops());
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    recomputable[i] = not_recomputable(graph, OpId{i}).empty();
  return recomputable;
}

namespace {

/// Calls `value` for kernels of a chain: some at equal distances, then ever closer ones around the one with
/// the largest value, which it returns. Every kernel gives a bound, so that leaving others out only loosens
/// it.
template <class Value>
std::int64_t largest_on(const std::vector<OpId>& chain, Value value) {
  constexpr std::size_t kSamples = 32, kFiner = 4;
  if (chain.empty()) return 0;
  std::vector<std::int64_t> seen(chain.size(), -1);
  const auto evaluate = [&](std::size_t i) {
    if (seen[i] < 0) seen[i] = value(chain[i]);
    return seen[i];
  };
  std::size_t step = std::max<std::size_t>(1, chain.size() / kSamples), best = 0;
  for (std::size_t i = 0; i < chain.size(); i += step)
    if (evaluate(i) > evaluate(best)) best = i;
  while (step > 1) {
    const std::size_t reach = step;
    step = std::max<std::size_t>(1, step / kFiner);
    const std::size_t first = best - std::min(reach, best), last = std::min(best + reach, chain.size() - 1);
    for (std::size_t i = first; i <= last; i += step)
      if (evaluate(i) > evaluate(best)) best = i;
  }
  return evaluate(best);
}

/// Finds the rent, and the kernel, with the largest bound. Thread: one.
class BestRent {
 public:
  /// `again` [ops]: least price of running each op again, in units. `room`: what all memories hold beside the
  /// state [B].
  BestRent(const LoweredGraph& lowered, bool one_device, std::vector<Amount> again, double room)
      : lowered_{lowered},
        needs_{lowered, one_device},
        again_{std::move(again)},
        free_(lowered.num_ops(), 0),
        memory_{room} {
    for (const Amount amount : again_) all_ += static_cast<double>(amount);
  }

  /// What the bound of all work rises by while `kernel` runs, in units, at the best rent so far; at the best
  /// rent of all if that is more than of any kernel before.
  std::int64_t at(OpId kernel) {
    needs_.look_at(kernel);
    room_ = memory_ - static_cast<double>(made_bytes(lowered_, kernel));
    if (needs_.demanded_bytes() <= room_ || !fits()) return 0;
    const double before = price_;
    const double price = bound_.kernel == kNoOp ? 0 : evaluate(kernel, bound_.rent);
    if (bound_.kernel == kNoOp || price > before) maximise(kernel);
    return static_cast<std::int64_t>(std::max(price, bound_.kernel == kernel ? price_ : 0));
  }

  /// The best bound, with its amounts; `ns` is what it rises by.
  WaitingBound take() {
    if (price_ <= 0) return {};
    needs_.look_at(bound_.kernel);
    needs_.cheapest(bound_.rent * (1 - kMargin), again_);
    needs_.write_amounts(bound_);
    bound_.rent /= WaitingBound::kUnits;
    bound_.ns = price_ / WaitingBound::kUnits;
    return std::move(bound_);
  }

 private:
  double evaluate(OpId kernel, double rent) {
    const auto price = static_cast<double>(needs_.cheapest(rent * (1 - kMargin), again_)) - rent * room_;
    if (price > price_) price_ = price, bound_.rent = rent, bound_.kernel = kernel;
    return price;
  }

  /// Whether what cannot run again has room; else every rent proves more than the last one.
  bool fits() { return static_cast<double>(needs_.cheapest(1, free_)) <= room_; }

  /// The bound is concave and piecewise linear in the rent. Two choices enclose its maximum: one keeps too
  /// much, the other has enough room. The rent at which both cost the same is the next one.
  void maximise(OpId kernel) {
    Choice too_much{0, needs_.demanded_bytes()}, enough;
    double rent = all_ / std::max(1.0, room_) / 16;
    bool bounded = false;
    for (int k = 0; k < 40 && !bounded; ++k, rent *= 4) {
      evaluate(kernel, rent);
      const Choice choice = needs_.choice(again_);
      bounded = choice.bytes <= room_;
      (bounded ? enough : too_much) = choice;
    }
    for (int k = 0; k < 30 && bounded; ++k) {
      rent = (enough.again - too_much.again) / (too_much.bytes - enough.bytes);
      const double price = evaluate(kernel, rent);
      if (price >= (enough.price(rent) - rent * room_) * (1 - 1e-6)) break;
      const Choice choice = needs_.choice(again_);
      (choice.bytes <= room_ ? enough : too_much) = choice;
    }
  }

  const LoweredGraph& lowered_;
  Needs needs_;
  const std::vector<Amount> again_, free_;
  const double memory_;
  double all_ = 0, room_ = 0, price_ = 0;
  WaitingBound bound_;
};

}  // namespace

std::int64_t least_alive_bytes(const LoweredGraph& lowered, bool one_device) {
  Needs needs{lowered, one_device};
  const std::vector<Amount> free(lowered.num_ops(), 0);
  return largest_on(longest_chain(lowered), [&](OpId kernel) {
    needs.look_at(kernel);
    return needs.cheapest(1, free) + made_bytes(lowered, kernel);
  });
}

WaitingBound waiting_bound(const LoweredGraph& lowered, const Constraints& constraints,
                           const DeviceKinds& kinds, const CostTable& costs, const WorkBound& work) {
  double memory = 0;  // [B]
  for (const std::int64_t bytes : kinds.memory_bytes) memory += static_cast<double>(bytes);
  double room = memory;
  for (std::uint32_t i = 0; i < lowered.num_ops(); ++i)
    room -= static_cast<double>(lowered.resident_bytes(OpId{i}));
  const MostAlive most = most_alive(lowered);
  if (static_cast<double>(most.bytes) <= room) return {};
  std::vector<Amount> again(lowered.num_ops(), 0);
  for (const OpId op : lowered.kernels()) {
    double least = static_cast<double>(kNoLimit) / WaitingBound::kUnits;
    for (std::size_t k = 0; k < kinds.size(); ++k)
      if (kinds.allowed[constraints.class_of(op)][k])
        least = std::min(least, work.work_price[k] * static_cast<double>(costs.ns(kinds.example[k], op)));
    again[index(op)] = static_cast<Amount>(std::floor(least * WaitingBound::kUnits * (1 - kMargin)));
  }
  BestRent best{lowered, kinds.of_device.size() == 1, std::move(again), room};
  best.at(most.kernel);
  largest_on(longest_chain(lowered), [&](OpId kernel) { return best.at(kernel); });
  WaitingBound bound = best.take();
  if (bound.kernel == kNoOp) return {};
  bound.ns += work.work_ns;
  bound.ns -= kMargin * (bound.ns + bound.rent * memory);  // What rounding can have added.
  return bound;
}

}  // namespace emplace
