#include "record/report/moves.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "graph/grouping.h"
#include "placement/machine/device_classes.h"

namespace emplace::record {
namespace {

constexpr std::size_t kMaxAlike = 6;  // 720 permutations.

/// [devices] The renaming that minimises the time of ops that count as moved.
std::vector<DeviceId> best_renaming(const DeviceSet& devices, const CostTable& costs, const Placement& before,
                                    const Placement& after, const std::vector<bool>& counts) {
  const std::size_t n = devices.size();
  std::vector<DeviceId> named(n);
  for (std::size_t d = 0; d < n; ++d) named[d] = static_cast<DeviceId>(d);
  // [after, before] Ops on device `before` in the first placement and on `after` in the second.
  std::vector<std::uint64_t> both(n * n, 0);
  for (std::size_t op = 0; op < after.size(); ++op)
    if (counts[op]) ++both[index(after[op]) * n + index(before[op])];
  const DeviceClasses classes{
      devices, costs, {.memory = DeviceLikeness::Memory::kBytes, .host = true, .links = true}};
  for (std::size_t c = 0; c < classes.size(); ++c) {
    std::vector<DeviceId> kind;
    for (std::size_t d = 0; d < n; ++d)
      if (classes.of(static_cast<DeviceId>(d)) == c) kind.push_back(static_cast<DeviceId>(d));
    if (kind.size() < 2 || kind.size() > kMaxAlike) continue;
    std::vector<DeviceId> names = kind;
    std::uint64_t most = 0;
    bool first = true;
    do {
      std::uint64_t stay = 0;
      for (std::size_t k = 0; k < kind.size(); ++k) stay += both[index(kind[k]) * n + index(names[k])];
      if (first || stay > most) {
        most = stay;
        for (std::size_t k = 0; k < kind.size(); ++k) named[index(kind[k])] = names[k];
      }
      first = false;
    } while (std::next_permutation(names.begin(), names.end()));
  }
  return named;
}

}  // namespace

Moves moves_between(const OpGraph& graph, const DeviceSet& devices, const CostTable& costs,
                    const std::vector<std::string>& scopes, const std::vector<std::uint32_t>& scope_of_op,
                    const Placement& before, const Placement& after) {
  std::vector<std::string> folded;
  folded.reserve(scopes.size());
  for (const std::string& scope : scopes) folded.push_back(without_time_steps(scope));
  std::vector<bool> counts(graph.num_ops());
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) counts[i] = !graph.is_view(OpId{i});
  Moves result;
  result.ops = static_cast<std::uint64_t>(std::count(counts.begin(), counts.end(), true));
  result.named = best_renaming(devices, costs, before, after, counts);
  std::map<std::tuple<std::string_view, DeviceId, DeviceId>, Move> moves;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const DeviceId from = before[i], to = result.named[index(after[i])];
    if (from == to || !counts[i]) continue;
    const std::string& scope = folded[scope_of_op[i]];
    Move& move = moves[{scope, from, to}];
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < graph.num_outputs(OpId{i}); ++k)
      bytes += graph.bytes(graph.output(OpId{i}, k));
    for (Move* into : {&move, &result.total}) {
      ++into->ops;
      into->bytes += bytes;
      into->time_from_ns += costs.ns(from, OpId{i});
      into->time_to_ns += costs.ns(to, OpId{i});
    }
    move.scope = scope, move.from = from, move.to = to;
  }
  for (auto& [key, move] : moves) result.moves.push_back(std::move(move));
  std::stable_sort(result.moves.begin(), result.moves.end(), [](const Move& a, const Move& b) {
    return std::max(a.time_from_ns, a.time_to_ns) > std::max(b.time_from_ns, b.time_to_ns);
  });
  return result;
}

}  // namespace emplace::record
