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

  const Waiting& waiting() const { return waiting_; }

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
    return static_cast<double>(std::min(lowered_.bytes(buffer), lowered_.held_bytes(lowered_.base(buffer))));
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

std::int64_t least_alive_bytes(const LoweredGraph& lowered, bool one_device) {
  Needs needs{lowered, one_device};
  const std::vector<Amount> free(lowered.num_ops(), 0);
  return largest_on_chain(lowered,
                          [&](OpId kernel) {
                            needs.look_at(kernel);
                            return needs.cheapest(1, free) + needs.waiting().made_bytes();
                          })
      .value;
}

WaitingBound waiting_bound(const LoweredGraph& lowered, const Constraints& constraints,
                           const DeviceKinds& kinds, const CostTable& costs, const WorkBound& work) {
  constexpr double kUnits = WaitingBound::kUnits;
  double room = 0, total = 0;  // [B]
  for (const std::int64_t bytes : kinds.memory_bytes) room += static_cast<double>(bytes);
  total = room;
  for (std::uint32_t i = 0; i < lowered.num_ops(); ++i)
    room -= static_cast<double>(lowered.resident_bytes(OpId{i}));
  const LargestOnChain most = most_alive(lowered);
  if (most.kernel == kNoOp || static_cast<double>(most.value) <= room) return {};

  Needs needs{lowered, kinds.of_device.size() == 1};
  needs.look_at(most.kernel);
  room -= static_cast<double>(needs.waiting().made_bytes());
  // Running an op again takes at least its least priced time.
  std::vector<Amount> again(lowered.num_ops(), 0);
  double all = 0;
  for (const OpId op : lowered.kernels()) {
    double least = static_cast<double>(kNoLimit);
    for (std::size_t k = 0; k < kinds.size(); ++k)
      if (kinds.allowed[constraints.class_of(op)][k])
        least = std::min(least, work.work_price[k] * static_cast<double>(costs.ns(kinds.example[k], op)));
    again[index(op)] = static_cast<Amount>(std::floor(least * kUnits * (1 - kMargin)));
    all += static_cast<double>(again[index(op)]);
  }

  // The bound is concave and piecewise linear in the rent. Two choices enclose its maximum: one keeps too
  // much, the other has enough room. The rent at which both cost the same is the next one.
  WaitingBound best{.kernel = most.kernel};
  double best_price = 0;
  const auto evaluate = [&](double rent) {
    const auto price = static_cast<double>(needs.cheapest(rent * (1 - kMargin), again)) - rent * room;
    if (price > best_price) best_price = price, best.rent = rent;
    return price;
  };
  Choice too_much{0, needs.demanded_bytes()}, enough;
  double rent = all / std::max(1.0, room) / 16;
  bool bounded = false;
  for (int k = 0; k < 40 && !bounded; ++k, rent *= 4) {
    evaluate(rent);
    const Choice choice = needs.choice(again);
    bounded = choice.bytes <= room;
    (bounded ? enough : too_much) = choice;
  }
  for (int k = 0; k < 30 && bounded; ++k) {
    rent = (enough.again - too_much.again) / (too_much.bytes - enough.bytes);
    const double price = evaluate(rent);
    if (price >= (enough.price(rent) - rent * room) * (1 - 1e-6)) break;
    const Choice choice = needs.choice(again);
    (choice.bytes <= room ? enough : too_much) = choice;
  }
  if (best_price <= 0) return {};
  needs.cheapest(best.rent * (1 - kMargin), again);
  needs.write_amounts(best);
  best.rent /= kUnits;
  best.ns =
      work.work_ns + best_price / kUnits - kMargin * (work.work_ns + best_price / kUnits + best.rent * total);
  return best;
}

}  // namespace emplace
