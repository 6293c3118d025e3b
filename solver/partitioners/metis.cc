#include <fmt/core.h>
#include <metis.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "solver/heuristics.h"
#include "solver/partitioners/partition_graph.h"

namespace emplace {
namespace {

/// Guards METIS, which is not reentrant, and the process state that it changes.
Mutex g_metis;

/// METIS uses the C library's random numbers, installs handlers for SIGABRT and SIGTERM while it runs, and
/// prints to standard output if a part is empty. This class makes a call safe: SIGTERM is blocked until the
/// call ends, the handlers are restored, and the output is discarded.
class MetisGuard {
 public:
  MetisGuard() EMPLACE_REQUIRES(g_metis) {
    ::sigemptyset(&mask_);
    ::sigaddset(&mask_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &mask_, &before_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &handlers_[i]);
    if (null_output_ != nullptr) stdout = null_output_;
  }
  ~MetisGuard() {
    stdout = output_;
    if (null_output_ != nullptr) (void)std::fclose(null_output_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &handlers_[i], nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  MetisGuard(const MetisGuard&) = delete;
  MetisGuard& operator=(const MetisGuard&) = delete;

 private:
  static constexpr std::array kSignals{SIGABRT, SIGTERM};
  std::FILE* const output_ = stdout;
  std::FILE* const null_output_ = std::fopen("/dev/null", "w");
  sigset_t mask_{}, before_{};
  std::array<struct sigaction, kSignals.size()> handlers_{};
};

/// How METIS cuts a graph, and the allowed excess of a part over its share.
struct MetisCut {
  bool recursive, with_bytes;
  double imbalance;
};

/// [vertices] Parts. Deterministic. Errors: kNoPlacement if METIS fails.
Result<std::vector<std::int32_t>> metis_parts(PartitionTask& task, const MetisCut& how, std::uint64_t seed) {
  static_assert(sizeof(idx_t) == sizeof(std::int32_t) && sizeof(real_t) == sizeof(float));
  const std::size_t parts = task.share.front().size(), vertices = task.weight.front().size();
  if (parts == 1) return std::vector<std::int32_t>(vertices, 0);
  if (vertices < 4 * parts) return deal_out(task);
  idx_t n = static_cast<idx_t>(vertices), constraints = static_cast<idx_t>(task.weight.size());
  idx_t wanted = static_cast<idx_t>(parts), cut = 0;
  std::vector<idx_t> weight;
  for (std::size_t v = 0; v < vertices; ++v)
    for (const auto& each : task.weight) weight.push_back(each[v]);
  std::vector<real_t> share;
  for (std::size_t p = 0; p < parts; ++p)
    for (const auto& each : task.share) share.push_back(static_cast<real_t>(each[p]));
  std::vector<real_t> balance(task.weight.size(), static_cast<real_t>(1 + how.imbalance));
  std::array<idx_t, METIS_NOPTIONS> settings{};
  METIS_SetDefaultOptions(settings.data());
  settings[METIS_OPTION_SEED] = static_cast<idx_t>(seed & 0x7fffffffu);
  settings[METIS_OPTION_NUMBERING] = 0;
  std::vector<std::int32_t> out(vertices, 0);
  const MutexLock lock{g_metis};
  const MetisGuard guard;
  const PartitionerTime timed;
  const int status = (how.recursive ? METIS_PartGraphRecursive : METIS_PartGraphKway)(
      &n, &constraints, task.first.data(), task.neighbours.data(), weight.data(), nullptr,
      task.edge_weight.data(), &wanted, share.data(), balance.data(), settings.data(), &cut, out.data());
  if (status != METIS_OK)
    return Error{Errc::kNoPlacement, fmt::format("METIS: partitioning failed with status {}", status)};
  return out;
}

}  // namespace

Result<Answer> metis(const Problem& problem, Executor& executor) {
  const LoweredGraph lowered{problem.graph};
  constexpr MetisCut kCuts[] = {{false, false, 0.03}, {false, false, 0.20}, {true, false, 0.03},
                                {true, false, 0.20},  {false, true, 0.05},  {false, true, 0.25},
                                {true, true, 0.05},   {true, true, 0.25}};
  Best best{problem, executor};
  for (const PlacingUnits& units : placing_granularities(problem, lowered)) {
    const PartitionGraph graph{problem, lowered, units};
    PartitionTask task = graph.task(graph.edge_ns());
    for (const auto& machine : tried_machines(problem.devices)) {
      // METIS produces empty parts if a vertex exceeds a part's share, so its weight is clipped to one share.
      const double most = 1.0 / static_cast<double>(machine.size());
      const auto work = scaled(graph.work_ns(), kWeightTotal, most);
      const auto bytes = scaled(graph.bytes(), kWeightTotal, most);
      for (const MetisCut& each : kCuts) {
        task.weight = {work};
        task.share = {shares_by_speed(problem, machine)};
        if (each.with_bytes) {
          task.weight.push_back(bytes);
          task.share.push_back(shares_by_memory(problem, machine));
        }
        EMPLACE_TRY_ASSIGN(const auto parts, metis_parts(task, each, problem.seed));
        EMPLACE_TRY(best.offer(graph.placement(parts, machine)));
      }
    }
  }
  return std::move(best).take();
}

}  // namespace emplace
