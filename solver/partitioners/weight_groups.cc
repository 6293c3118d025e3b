#include "solver/partitioners/weight_groups.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace emplace {
namespace {

constexpr std::int64_t kShare = 64;  // A weight is large from this part of all state on: 1 / kShare.

class Grouper {
 public:
  explicit Grouper(const Problem& problem)
      : problem_{problem},
        graph_{problem.graph},
        group_of_class_(problem.constraints.num_classes(), kNoIndex) {}

  Grouping run() {
    std::int64_t state = 0;
    for (std::uint32_t op = 0; op < graph_.num_ops(); ++op)
      if (graph_.is_state(OpId{op})) state += graph_.output_bytes(OpId{op});
    std::vector<OpId> weights;
    for (std::uint32_t op = 0; op < graph_.num_ops(); ++op) {
      if (!graph_.is_state(OpId{op}) || graph_.output_bytes(OpId{op}) * kShare < state) continue;
      if (take(OpId{op}, num_groups_)) ++num_groups_;
      weights.push_back(OpId{op});
    }
    labels_.resize(num_groups_, "weight");
    for (const OpId weight : weights) take_readers(weight);
    for (const OpId weight : weights) take_gradients(weight);
    return with_others();
  }

 private:
  std::uint32_t& group_of(OpId op) { return group_of_class_[problem_.constraints.class_of(op)]; }
  /// Puts the op's class into the group. Returns false if it is in one.
  bool take(OpId op, std::uint32_t group) {
    if (group_of(op) != kNoIndex) return false;
    group_of(op) = group;
    return true;
  }

  void take_readers(OpId weight) {
    std::vector<OpId> open{weight};
    while (!open.empty()) {
      const OpId op = open.back();
      open.pop_back();
      for (const OpId reader : graph_.readers(op))
        if (take(reader, group_of(weight)) && graph_.is_view(reader)) open.push_back(reader);
    }
  }

  void take_gradients(OpId weight) {
    const std::int64_t bytes = graph_.output_bytes(weight);
    std::vector<OpId> open;
    for (const OpId reader : graph_.readers(weight))
      if (graph_.phase(reader) == Phase::kUpdate) open.push_back(reader);
    bool any = false;
    while (!open.empty()) {
      const OpId op = open.back();
      open.pop_back();
      for (const TensorId input : graph_.inputs(op)) {
        const OpId maker = graph_.producer(input);
        if (graph_.is_state(maker) || graph_.output_bytes(maker) < bytes || !take(maker, num_groups_))
          continue;
        any = true;
        open.push_back(maker);
      }
    }
    if (!any) return;
    ++num_groups_;
    labels_.emplace_back("gradient");
  }

  /// Adds the groups of the other classes, by the scope of their lowest op, and numbers all by their lowest
  /// op.
  Grouping with_others() {
    const Grouping scopes = scope_groups(graph_, {.share_time_steps = true, .split_phases = true});
    std::vector<std::uint32_t> group_of_scope(scopes.num_groups, kNoIndex);
    std::vector<std::uint32_t> number;
    Grouping made;
    made.group_of_op.resize(graph_.num_ops());
    for (std::uint32_t op = 0; op < graph_.num_ops(); ++op) {
      std::uint32_t& group = group_of(OpId{op});
      if (group == kNoIndex) {
        std::uint32_t& other = group_of_scope[scopes.group_of_op[op]];
        if (other == kNoIndex) {
          other = num_groups_++;
          labels_.push_back(scopes.labels[scopes.group_of_op[op]]);
        }
        group = other;
      }
      number.resize(num_groups_, kNoIndex);
      if (number[group] == kNoIndex) {
        number[group] = static_cast<std::uint32_t>(made.num_groups++);
        made.labels.push_back(labels_[group]);
      }
      made.group_of_op[op] = number[group];
    }
    return made;
  }

  const Problem& problem_;
  const OpGraph& graph_;
  std::vector<std::uint32_t> group_of_class_;  // [classes]
  std::uint32_t num_groups_ = 0;
  std::vector<std::string> labels_;  // [groups]
};

}  // namespace

Grouping weight_groups(const Problem& problem) { return Grouper{problem}.run(); }

}  // namespace emplace
