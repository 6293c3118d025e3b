#include "solver/search/local_search.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "solver/search/anneal.h"
#include "solver/search/level.h"
#include "solver/search/search.h"
#include "solver/search/walk.h"

namespace emplace {
namespace {

constexpr std::uint64_t kPerUnit = 30;  // Evaluations per unit to rebuild a window.
constexpr Cooling kBuilding{0.003, 1e-5}, kDescent{0.001, 1e-5};
constexpr double kAccept = 0.001;  // Initial temperature for accepting a worse window.

/// A range of positions in the level's order.
struct Window {
  std::uint32_t begin, end;
};

class Rebuilding {
 public:
  Rebuilding(const Level& level, Search& search, MovingCost& cost, std::uint64_t stream,
             const MoveProposerFactory& moves)
      : level_{level},
        search_{search},
        cuts_{cut_places(level)},
        walker_{level, search, cost, stream, moves} {}

  Result<Unit> run(const Placement& start, const Slot& slot) {
    const auto units = static_cast<std::uint32_t>(level_.size());
    if (level_.movable.empty()) return Unit{};
    EMPLACE_TRY(walker_.start(start));
    walker_.set_window(0, units);
    EMPLACE_TRY(walker_.walk(Slot{search_, 2 * kPerUnit * units}, kDescent));
    for (double progress = slot.progress(); progress < 1; progress = slot.progress()) {
      EMPLACE_TRY(round(kAccept * (1 - progress) + 1e-6));
    }
    return Unit{};
  }

 private:
  std::uint32_t below(std::size_t bound) { return walker_.rng().below(static_cast<std::uint32_t>(bound)); }

  Window pick() {
    const auto units = static_cast<std::uint32_t>(level_.size());
    if (cuts_.size() > 3 && below(4) != 0) {
      const std::uint32_t first = below(cuts_.size() - 1);
      const std::size_t length = 1 + (below(3) == 0 ? 1 : 0) + (below(4) == 0 ? 1 : 0);
      const Window window{cuts_[first], cuts_[std::min(first + length, cuts_.size() - 1)]};
      if (window.end - window.begin >= 3 || below(4) == 0) return window;
    }
    const std::uint32_t begin = below(units);
    return {begin, std::min(units, begin + 2 + below(40))};
  }

  Result<Unit> round(double temperature) {
    const Window window = pick();
    const Evaluation before = walker_.evaluation();
    before_.assign(walker_.devices().begin(), walker_.devices().end());
    walker_.set_window(window.begin, window.end);
    if (below(5) != 0) tear_down(window);
    EMPLACE_TRY(walker_.evaluate());
    const std::uint64_t evaluations = kPerUnit * (window.end - window.begin);
    EMPLACE_TRY(walker_.walk(Slot{search_, evaluations}, kBuilding));
    const double worse = walker_.evaluation().energy - before.energy;
    if (worse > 0 && walker_.rng().uniform_double() >= std::exp(-worse / temperature))
      walker_.restore(before_, before);
    return Unit{};
  }

  /// Moves about 95 % of the window to one device: half the time to a CPU, else to a random device or the
  /// preceding unit's.
  void tear_down(Window window) {
    const auto& devices = search_.problem().devices;
    const std::uint32_t kind = below(4);
    auto to = static_cast<DeviceId>(below(devices.size()));
    if (kind < 2) {
      const auto cpus = devices_of_kind(devices, "cpu");
      if (!cpus.empty()) to = cpus[below(cpus.size())];
    } else if (kind == 3 && window.begin > 0) {
      to = walker_.device_of(level_.order[window.begin - 1]);
    }
    for (std::uint32_t at = window.begin; at < window.end; ++at)
      if (below(20) != 0) walker_.move(level_.order[at], to);
    walker_.settle();
  }

  const Level& level_;
  Search& search_;
  const std::vector<std::uint32_t> cuts_;
  Walker walker_;
  std::vector<DeviceId> before_;
};

/// Everything on the first CPU, with constraints applied; `otherwise` if there is no CPU.
Placement on_cpu(const Problem& problem, const Placement& otherwise) {
  const auto cpus = devices_of_kind(problem.devices, "cpu");
  if (cpus.empty()) return otherwise;
  Placement placement(problem.graph.num_ops(), cpus.front());
  problem.constraints.repair(placement);
  return placement;
}

}  // namespace

Result<Answer> LocalSearch::find(const Problem& problem, Executor& executor) const {
  Search search{problem, Anneal{{.evaluations = options_.evaluations}}.budget(problem)};
  EMPLACE_TRY(start_search(problem, executor, search));
  const auto cost = make_moving_cost(problem, executor);
  const bool split = problem.objective != Objective::kStepTime;
  const Level level = split ? class_level(problem) : group_level(problem, 256);
  const Placement first = search.best();
  const double begin = search.spent();
  constexpr int kStarts = 6;
  const int starts = split ? kStarts : 1;
  for (int k = 0; k < starts && search.spent() < 1; ++k) {
    const double from = begin + (1 - begin) * k / starts, to = begin + (1 - begin) * (k + 1) / starts;
    const Placement start = k == 0 ? first : k % 2 == 1 ? on_cpu(problem, first) : search.best();
    Rebuilding rebuilding{level, search, *cost, options_.stream + static_cast<std::uint64_t>(k),
                          options_.moves};
    if (auto done = rebuilding.run(start, Slot{search, from, to}); !done) return done.error();
  }
  return std::move(search).finish(executor);
}

}  // namespace emplace
