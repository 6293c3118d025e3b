#include "graph/grouping.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/rng.h"

namespace emplace {
namespace {

/// Union-find; the representative of a set is its lowest member.
class Classes {
 public:
  explicit Classes(std::size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0u); }
  std::uint32_t find(std::uint32_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  bool join(std::uint32_t a, std::uint32_t b) {
    a = find(a), b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
    return a != b;
  }
  std::size_t size() const { return parent_.size(); }

 private:
  std::vector<std::uint32_t> parent_;
};

/// Numbers arbitrary labels in order of first use.
template <class Label>
Grouping numbered(std::size_t ops, Label label_of) {
  Grouping grouping;
  std::unordered_map<std::uint32_t, std::uint32_t> number;
  for (std::uint32_t op = 0; op < ops; ++op) {
    const auto [it, fresh] = number.try_emplace(label_of(op), static_cast<std::uint32_t>(number.size()));
    grouping.group_of_op.push_back(it->second);
  }
  grouping.num_groups = number.size();
  return grouping;
}

Classes declared_classes(const OpGraph& graph) {
  Classes classes{graph.num_ops()};
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op) {
    const OpId with = graph.colocated_with(OpId{op});
    if (with != kNoOp) classes.join(op, static_cast<std::uint32_t>(index(with)));
  }
  return classes;
}

Grouping groups_of(Classes& classes) {
  return numbered(classes.size(), [&](std::uint32_t op) { return classes.find(op); });
}

bool is_time_step(std::string_view level) {
  return level.size() >= 2 && level[0] == 't' &&
         std::all_of(level.begin() + 1, level.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string shortened(std::string_view scope, const ScopeOptions& options) {
  std::string out;
  for (std::size_t levels = 0; !scope.empty() && levels < options.depth;) {
    const std::size_t slash = std::min(scope.find('/'), scope.size());
    const std::string_view level = scope.substr(0, slash);
    scope.remove_prefix(std::min(slash + 1, scope.size()));
    if (options.share_time_steps && is_time_step(level)) continue;
    out.append(out.empty() ? "" : "/").append(level);
    ++levels;
  }
  return out;
}

OpId first_reader(const OpGraph& graph, OpId op) {
  const auto readers = graph.readers(op);
  return readers.empty() ? kNoOp : *std::min_element(readers.begin(), readers.end());
}

}  // namespace

Grouping colocation_groups(const OpGraph& graph) {
  Classes classes = declared_classes(graph);
  return groups_of(classes);
}

Grouping random_groups(const OpGraph& graph, std::size_t wanted, std::uint64_t seed) {
  Classes classes = declared_classes(graph);
  return numbered(graph.num_ops(), [&](std::uint32_t op) {
    return Rng{seed, Purpose::kGrouping, classes.find(op)}.below(static_cast<std::uint32_t>(wanted));
  });
}

Grouping recursive_colocation_groups(const OpGraph& graph) {
  constexpr std::uint32_t kSeveral = kNoIndex - 1;
  const auto ops = static_cast<std::uint32_t>(graph.num_ops());
  Classes classes = declared_classes(graph);
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<std::uint32_t> reader(ops, kNoIndex);  // Reading group of each class, by representative.
    for (std::uint32_t op = 0; op < ops; ++op) {
      const std::uint32_t to = classes.find(op);
      for (const TensorId input : graph.inputs(OpId{op})) {
        const std::uint32_t from = classes.find(static_cast<std::uint32_t>(index(graph.producer(input))));
        if (from != to && reader[from] != to) reader[from] = reader[from] == kNoIndex ? to : kSeveral;
      }
    }
    for (std::uint32_t from = 0; from < ops; ++from) {
      if (reader[from] < kSeveral) changed |= classes.join(from, reader[from]);
    }
  }
  return groups_of(classes);
}

std::string without_time_steps(std::string_view scope) {
  return shortened(scope, {.share_time_steps = true});
}

Grouping scope_groups(const OpGraph& graph, ScopeOptions options) {
  const std::size_t n = graph.num_ops();
  std::unordered_map<std::string, std::uint32_t> number;
  std::vector<std::string> names;
  std::vector<std::uint32_t> label(n, kNoIndex);
  // Readers come after producers, so in reverse order a reader's label is known.
  const auto order = graph.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const OpId op = *it;
    const OpId reader = first_reader(graph, op);
    if (reader != kNoOp && (graph.is_state(op) || graph.group(op) == 0)) {
      label[index(op)] = label[index(reader)];
      continue;
    }
    std::string scope = shortened(graph.group_name(op), options);
    if (options.split_phases) scope.append("#").append(phase_name(graph.phase(op)));
    const auto [entry, fresh] = number.try_emplace(scope, static_cast<std::uint32_t>(number.size()));
    if (fresh) names.push_back(std::move(scope));
    label[index(op)] = entry->second;
  }
  Classes classes = declared_classes(graph);
  Grouping grouping = numbered(n, [&](std::uint32_t op) { return label[classes.find(op)]; });
  grouping.labels.resize(grouping.num_groups);
  for (std::uint32_t op = 0; op < n; ++op)
    grouping.labels[grouping.group_of_op[op]] = names[label[classes.find(op)]];
  return grouping;
}

std::vector<double> sum_by_group(const Grouping& grouping, const std::vector<double>& value) {
  std::vector<double> sum(grouping.num_groups, 0.0);
  for (std::size_t op = 0; op < value.size(); ++op) sum[grouping.group_of_op[op]] += value[op];
  return sum;
}

Grouping merge_small_groups(const OpGraph& graph, const Grouping& grouping,
                            const std::vector<double>& weight_in, std::size_t wanted) {
  const std::size_t groups = grouping.num_groups;
  if (groups <= wanted || wanted == 0) return grouping;
  // Bytes between groups, in both directions. A merge folds the smaller row into the larger one.
  std::vector<std::map<std::uint32_t, std::int64_t>> bytes(groups);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    for (const TensorId input : graph.inputs(OpId{i})) {
      const std::uint32_t a = grouping.group_of_op[index(graph.producer(input))], b = grouping.group_of_op[i];
      if (a == b) continue;
      bytes[a][b] += graph.bytes(input);
      bytes[b][a] += graph.bytes(input);
    }
  }
  Classes merged{groups};
  std::vector<double> weight = weight_in;
  std::vector<bool> alive(groups, true);
  using Entry = std::pair<double, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lightest;
  for (std::uint32_t g = 0; g < groups; ++g) lightest.emplace(weight[g], g);
  for (std::size_t left = groups; left > wanted;) {
    const auto [w, g] = lightest.top();
    lightest.pop();
    if (!alive[g] || w != weight[g]) continue;
    std::uint32_t target = kNoIndex;
    std::int64_t most = -1;
    for (const auto& [neighbour, traffic] : bytes[g]) {
      if (traffic > most) most = traffic, target = neighbour;
    }
    for (std::uint32_t other = 0; target == kNoIndex; ++other) {
      if (alive[other] && other != g) target = other;
    }
    for (const auto& [neighbour, traffic] : bytes[g]) {
      bytes[neighbour].erase(g);
      if (neighbour == target) continue;
      bytes[neighbour][target] += traffic;
      bytes[target][neighbour] += traffic;
    }
    bytes[g].clear();
    merged.join(g, target);
    alive[g] = false;
    weight[target] += w;
    lightest.emplace(weight[target], target);
    --left;
  }
  Grouping result =
      numbered(graph.num_ops(), [&](std::uint32_t op) { return merged.find(grouping.group_of_op[op]); });
  if (grouping.labels.empty()) return result;
  // A merged group takes the label of its heaviest part.
  result.labels.resize(result.num_groups);
  std::vector<double> heaviest(result.num_groups, -1);
  std::vector<std::uint8_t> seen(groups, 0);
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op) {
    const std::uint32_t part = grouping.group_of_op[op], whole = result.group_of_op[op];
    if (std::exchange(seen[part], std::uint8_t{1}) != 0 || weight_in[part] <= heaviest[whole]) continue;
    heaviest[whole] = weight_in[part];
    result.labels[whole] = grouping.labels[part];
  }
  return result;
}

}  // namespace emplace
