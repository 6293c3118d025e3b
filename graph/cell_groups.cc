#include "graph/cell_groups.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/scope_names.h"

namespace emplace {
namespace {

std::vector<std::string_view> levels_of(std::string_view scope) {
  std::vector<std::string_view> levels;
  for (std::size_t begin = 0; begin < scope.size();) {
    const std::size_t end = std::min(scope.find('/', begin), scope.size());
    levels.push_back(scope.substr(begin, end - begin));
    begin = end + 1;
  }
  return levels;
}

/// The scope down to the levels that name the layer and the time step: "encoder/l0/t03/enc_fw" →
/// "encoder/l0/t03".
std::string cell_of(std::string_view scope) {
  const std::vector<std::string_view> levels = levels_of(scope);
  const std::string_view step = time_step_of(scope);
  std::size_t last = levels.size();
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (!recurrent_layer(levels[i])) continue;
    const auto at = static_cast<std::size_t>(std::find(levels.begin(), levels.end(), step) - levels.begin());
    last = std::max(i, at) + 1;
    break;
  }
  std::string cell;
  for (std::size_t i = 0; i < last; ++i) cell.append(i == 0 ? "" : "/").append(levels[i]);
  return cell;
}

/// What the ops of a scope do in the forward pass.
struct Work {
  bool multiplies = false, looks_up = false;
};

/// The part of a recurrent network that a scope belongs to; empty: none that a rule names.
std::string recurrent_part(std::string_view scope, Work work) {
  const std::string_view step = time_step_of(scope);
  if (step.empty()) return work.looks_up ? std::string{scope} : std::string{};
  for (const std::string_view level : levels_of(scope)) {
    if (level == "attention") return "attention/" + std::string{step};
    if (level == "softmax" || level == "proj" || level == "loss") return "softmax/" + std::string{step};
  }
  return recurrent_layer(scope) ? cell_of(scope) : std::string{};
}

std::string branch_part(std::string_view scope) {
  const ScopeBranch at = branch_of_scope(scope);
  return at.branch.empty() ? at.block : at.block + "/" + at.branch + at.fork;
}

/// Whether an op picks rows of a table of parameters.
bool looks_up(const OpGraph& graph, OpId op) {
  if (graph.type_class(op) != OpClass::kGather || graph.inputs(op).empty()) return false;
  OpId table = graph.producer(graph.inputs(op)[0]);
  if (graph.is_view(table) && !graph.inputs(table).empty()) table = graph.producer(graph.inputs(table)[0]);
  return graph.type_name(table) == "Parameter";
}

/// Numbers of parts: first of scopes, then of ops.
class Parts {
 public:
  explicit Parts(const OpGraph& graph)
      : graph_{graph}, of_scope_(graph.num_groups(), kNoIndex), of_op_(graph.num_ops(), kNoIndex) {}

  const std::vector<std::uint32_t>& of_op() const { return of_op_; }
  const std::string& name(std::uint32_t part) const { return names_[part]; }

  /// Names the part of each scope by the rules.
  void read_scopes() {
    std::vector<Work> work(graph_.num_groups());
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId op{i};
      if (graph_.phase(op) != Phase::kForward) continue;
      work[graph_.group(op)].multiplies |= graph_.type_class(op) == OpClass::kMatmul;
      work[graph_.group(op)].looks_up |= looks_up(graph_, op);
    }
    bool recurrent = false;
    for (std::uint32_t s = 1; s < graph_.num_groups(); ++s) {
      const std::string_view scope = graph_.group_name(s);
      recurrent |= work[s].multiplies && !time_step_of(scope).empty() && recurrent_layer(scope).has_value();
    }
    std::vector<std::string> part(graph_.num_groups());
    std::unordered_map<std::string, bool> multiplies;
    for (std::uint32_t s = 1; s < graph_.num_groups(); ++s) {
      part[s] = recurrent ? recurrent_part(graph_.group_name(s), work[s]) : branch_part(graph_.group_name(s));
      multiplies[part[s]] |= work[s].multiplies || work[s].looks_up;
    }
    for (std::uint32_t s = 1; s < graph_.num_groups(); ++s) {
      // A step of a layer without a product is glue between layers, such as the join of two directions.
      if (part[s].empty() || (recurrent && !multiplies[part[s]])) continue;
      const auto [it, fresh] = numbers_.try_emplace(part[s], static_cast<std::uint32_t>(numbers_.size()));
      if (fresh) names_.push_back(part[s]);
      of_scope_[s] = it->second;
    }
  }

  /// Gives other scopes the part of their first forward reader, then other ops that of their first reader, or
  /// of their first input.
  void fill_in() {
    const auto order = graph_.topological_order();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const bool forward = graph_.phase(*it) == Phase::kForward;
      if (forward && goes_by_scope(*it) && part_of(*it) == kNoIndex)
        of_scope_[graph_.group(*it)] = of_reader(*it, Phase::kForward);
      if (!goes_by_scope(*it)) of_op_[index(*it)] = of_reader(*it, graph_.phase(*it));
    }
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
      if (goes_by_scope(OpId{i})) of_op_[i] = of_scope_[graph_.group(OpId{i})];
    for (bool changed = true; changed;) {  // Updates have no readers, and what they read may have no inputs.
      changed = false;
      for (auto it = order.rbegin(); it != order.rend(); ++it)
        for (const OpId reader : graph_.readers(*it)) changed |= join(*it, reader);
      for (const OpId op : order)
        for (const TensorId input : graph_.inputs(op)) changed |= join(op, graph_.producer(input));
    }
  }

 private:
  /// Gives `op` the part of `other` if it has none; returns whether it did.
  bool join(OpId op, OpId other) {
    std::uint32_t& part = of_op_[index(op)];
    if (part != kNoIndex || of_op_[index(other)] == kNoIndex) return false;
    part = of_op_[index(other)];
    return true;
  }
  bool goes_by_scope(OpId op) const { return graph_.group(op) != 0 && !graph_.is_state(op); }
  std::uint32_t part_of(OpId op) const {
    return goes_by_scope(op) ? of_scope_[graph_.group(op)] : of_op_[index(op)];
  }
  std::uint32_t of_reader(OpId op, Phase phase) const {
    for (const OpId reader : graph_.readers(op))
      if (graph_.phase(reader) == phase && part_of(reader) != kNoIndex) return part_of(reader);
    return kNoIndex;
  }

  const OpGraph& graph_;
  std::vector<std::uint32_t> of_scope_, of_op_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> names_;
};

/// Whether the rules do not know the network's scopes: most of its ops are one part.
bool mostly_one(const Grouping& grouping) {
  const std::vector<double> ops = sum_by_group(grouping, std::vector<double>(grouping.group_of_op.size(), 1));
  return *std::max_element(ops.begin(), ops.end()) * 2 > static_cast<double>(grouping.group_of_op.size());
}

}  // namespace

Grouping cell_groups(const OpGraph& graph) {
  Parts parts{graph};
  parts.read_scopes();
  parts.fill_in();
  // Classes are numbered in the order of their lowest ops, whose part the whole class joins.
  const Grouping classes = colocation_groups(graph);
  std::vector<std::uint32_t> part(classes.num_groups, kNoIndex);
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op) {
    std::uint32_t& own = part[classes.group_of_op[op]];
    if (own == kNoIndex) own = parts.of_op()[op];
  }
  if (std::find(part.begin(), part.end(), kNoIndex) != part.end()) return recursive_colocation_groups(graph);
  Grouping grouping;
  std::unordered_map<std::uint32_t, std::uint32_t> number;
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op) {
    const std::uint32_t own = part[classes.group_of_op[op]];
    const auto [it, fresh] = number.try_emplace(own, static_cast<std::uint32_t>(number.size()));
    if (fresh) grouping.labels.push_back(parts.name(own));
    grouping.group_of_op.push_back(it->second);
  }
  grouping.num_groups = number.size();
  if (!mostly_one(grouping)) return grouping;
  Grouping recursive = recursive_colocation_groups(graph);
  return recursive.num_groups > grouping.num_groups ? recursive : grouping;
}

}  // namespace emplace
