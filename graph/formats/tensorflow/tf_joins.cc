#include "graph/formats/tensorflow/tf_joins.h"

#include <algorithm>

namespace emplace::tf {
namespace {

constexpr std::size_t kLeastSaved = 32;

bool saves(std::size_t producers, std::size_t readers) {
  return producers >= 2 && readers >= 2 && producers * readers >= producers + readers + kLeastSaved;
}

/// Sets of positions with equal entries in `lists`: at least two positions, entries of two or more members.
Waits equal(const Waits& lists) {
  std::vector<std::uint32_t> by_list;
  for (std::uint32_t i = 0; i < lists.size(); ++i)
    if (lists[i].size() >= 2) by_list.push_back(i);
  std::stable_sort(by_list.begin(), by_list.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return lists[a] < lists[b]; });
  Waits groups;
  for (std::size_t begin = 0, end = 0; begin < by_list.size(); begin = end) {
    while (end < by_list.size() && lists[by_list[end]] == lists[by_list[begin]]) ++end;
    if (end - begin >= 2)
      groups.emplace_back(by_list.begin() + static_cast<std::ptrdiff_t>(begin),
                          by_list.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return groups;
}

Waits turned(const Waits& waits) {
  Waits readers(waits.size());
  for (std::uint32_t i = 0; i < waits.size(); ++i)
    for (const std::uint32_t producer : waits[i]) readers[producer].push_back(i);
  return readers;
}

}  // namespace

Joins joined(const Waits& waits) {
  Joins joins{.direct = waits, .by_node = Waits(waits.size()), .producers = {}};
  const auto add = [&](const std::vector<std::uint32_t>& producers,
                       const std::vector<std::uint32_t>& readers) {
    if (!saves(producers.size(), readers.size())) return;
    const auto join = static_cast<std::uint32_t>(joins.producers.size());
    for (const std::uint32_t reader : readers) {
      std::vector<std::uint32_t> left;
      std::set_difference(joins.direct[reader].begin(), joins.direct[reader].end(), producers.begin(),
                          producers.end(), std::back_inserter(left));
      joins.direct[reader] = std::move(left);
      joins.by_node[reader].push_back(join);
    }
    joins.producers.push_back(producers);
  };
  // Stage 1: the sets that most nodes wait for, largest first. Nodes that wait for additional nodes use the
  // join too.
  constexpr std::size_t kMaxSets = 64;
  std::vector<std::vector<std::uint32_t>> sets;
  Waits same = equal(waits);
  const auto edges = [&](const std::vector<std::uint32_t>& nodes) {
    return nodes.size() * waits[nodes[0]].size();
  };
  std::stable_sort(same.begin(), same.end(),
                   [&](const auto& a, const auto& b) { return edges(a) > edges(b); });
  for (const auto& nodes : same)
    if (sets.size() < kMaxSets && saves(waits[nodes[0]].size(), nodes.size()))
      sets.push_back(waits[nodes[0]]);
  for (const std::vector<std::uint32_t>& set : sets) {
    std::vector<std::uint32_t> readers;
    for (std::uint32_t i = 0; i < waits.size(); ++i)
      if (joins.direct[i].size() >= set.size() && std::ranges::includes(joins.direct[i], set))
        readers.push_back(i);
    add(set, readers);
  }
  // Stage 2: in the remaining edges, nodes that have the same readers, whatever else the readers wait for.
  const Waits readers = turned(joins.direct);
  for (const std::vector<std::uint32_t>& producers : equal(readers)) add(producers, readers[producers[0]]);
  return joins;
}

}  // namespace emplace::tf
