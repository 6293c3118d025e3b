#include "heuristics/anneal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "heuristics/methods.h"

namespace emplace {
namespace {

constexpr std::uint64_t kFewest = 2'000, kUsual = 20'000;
constexpr double kSizeOfUsual = 40'000;                  // Ops and edges: about 0.8 ms an evaluation.
constexpr std::uint64_t kStep = std::uint64_t{1} << 32;  // Streams apart from those of `random`.

double cost_of(const Measurement& measured) {
  const double over = measured.valid ? 0 : 0.2 + 0.5e-9 * static_cast<double>(measured.bytes_over);
  return std::log(std::max(measured.step_time_s, 1e-12)) + over;
}

/// What is moved as a whole on one level, how units lie to one another, and what is alike in them.
struct Level {
  std::vector<std::vector<std::uint32_t>> ops;         ///< [units] by increasing id.
  std::vector<std::vector<std::uint32_t>> neighbours;  ///< [units] that exchange tensors with it.
  std::vector<std::uint32_t> label;                    ///< [units]
  std::vector<std::vector<std::uint32_t>> alike;       ///< [labels] units of one label, in issue order.
  std::vector<std::uint32_t> order;                    ///< Units in the order in which their work is issued.
  std::vector<std::uint32_t> place, place_alike;       ///< [units] where it stands in `order`, in `alike`.
  std::vector<std::vector<DeviceId>> allowed;          ///< [units] devices that every op of it may use.
  std::vector<std::uint32_t> movable;                  ///< Units with a choice.

  std::size_t size() const { return ops.size(); }
};

/// One walk's temperatures, in units of log(step time).
struct Cooling {
  double first, last;
};

template <class LabelOf>
Level make_level(const Problem& problem, const std::vector<std::uint32_t>& unit_of_op, std::size_t units,
                 LabelOf label_of) {
  const OpGraph& graph = problem.graph;
  Level level;
  level.ops.resize(units);
  level.neighbours.resize(units);
  for (std::uint32_t op = 0; op < unit_of_op.size(); ++op) level.ops[unit_of_op[op]].push_back(op);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    for (const TensorId input : graph.inputs(OpId{i})) {
      const std::uint32_t from = unit_of_op[index(graph.producer(input))], to = unit_of_op[i];
      if (from == to) continue;
      level.neighbours[from].push_back(to);
      level.neighbours[to].push_back(from);
    }
  }
  std::map<std::string, std::uint32_t> numbers;
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    auto& near = level.neighbours[unit];
    std::sort(near.begin(), near.end());
    near.erase(std::unique(near.begin(), near.end()), near.end());
    const auto [it, fresh] =
        numbers.try_emplace(label_of(unit, level.ops[unit]), static_cast<std::uint32_t>(numbers.size()));
    if (fresh) level.alike.emplace_back();
    level.label.push_back(it->second);
    DeviceMask mask =
        problem.constraints.allowed(problem.constraints.class_of(OpId{level.ops[unit].front()}));
    for (const std::uint32_t op : level.ops[unit])
      mask &= problem.constraints.allowed(problem.constraints.class_of(OpId{op}));
    level.allowed.emplace_back();
    for (std::size_t d = 0; d < problem.devices.size(); ++d) {
      if (mask.test(d)) level.allowed.back().push_back(static_cast<DeviceId>(d));
    }
    if (level.allowed.back().size() > 1) level.movable.push_back(unit);
  }
  // State has the lowest ids, whenever it is read: what is issued first is the first op that is none.
  std::vector<std::uint32_t> first(units);
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    const auto& ops = level.ops[unit];
    const auto work =
        std::find_if(ops.begin(), ops.end(), [&](std::uint32_t op) { return !graph.is_state(OpId{op}); });
    first[unit] = work == ops.end() ? ops.front() : *work;
  }
  level.order.resize(units);
  std::iota(level.order.begin(), level.order.end(), 0u);
  std::stable_sort(level.order.begin(), level.order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return first[a] < first[b]; });
  level.place.resize(units);
  level.place_alike.resize(units);
  for (std::uint32_t k = 0; k < units; ++k) {
    const std::uint32_t unit = level.order[k];
    auto& alike = level.alike[level.label[unit]];
    level.place[unit] = k;
    level.place_alike[unit] = static_cast<std::uint32_t>(alike.size());
    alike.push_back(unit);
  }
  return level;
}

Level group_level(const Problem& problem, std::size_t wanted) {
  const Grouping groups = placement_groups(problem, wanted);
  return make_level(problem, groups.group_of_op, groups.num_groups,
                    [&](std::uint32_t unit, const std::vector<std::uint32_t>&) {
                      return groups.labels.empty() ? std::string{} : without_time_steps(groups.labels[unit]);
                    });
}

/// Scopes, forward apart from backward.
Level piece_level(const Problem& problem) {
  const Grouping pieces = scope_groups(problem.graph, {.split_phases = true});
  return make_level(problem, pieces.group_of_op, pieces.num_groups,
                    [&](std::uint32_t unit, const std::vector<std::uint32_t>&) {
                      return without_time_steps(pieces.labels[unit]);
                    });
}

/// Co-location classes; alike are those whose first op has the same scope, phase and type.
Level class_level(const Problem& problem) {
  const OpGraph& graph = problem.graph;
  const auto classes = problem.constraints.classes();
  return make_level(problem, {classes.begin(), classes.end()}, problem.constraints.num_classes(),
                    [&](std::uint32_t, const std::vector<std::uint32_t>& ops) {
                      const OpId op{ops.front()};
                      return without_time_steps(graph.group_name(op)) + "#" +
                             std::string{phase_name(graph.phase(op))} + "#" +
                             std::string{graph.type_name(op)};
                    });
}

/// Keeps count, and the best of all that was measured. One executor call per measurement.
class Search {
 public:
  Search(const Problem& problem, Executor& executor, std::uint64_t budget)
      : problem_{problem}, executor_{executor}, budget_{budget} {}

  std::uint64_t left() const { return budget_ > evaluations_ ? budget_ - evaluations_ : 0; }
  bool found_any() const { return !best_.placement.empty(); }
  const Placement& best() const { return best_.placement; }

  /// A placement found elsewhere, and what it took.
  void take(Found found) {
    evaluations_ += found.evaluations;
    if (!found_any() || better(found.measurement, best_.measurement)) best_ = std::move(found);
  }
  Result<double> cost(const Placement& placement) {
    if (auto measured = executor_.measure(placement, measurement_); !measured) return measured.error();
    ++evaluations_;
    if (better(measurement_, best_.measurement)) {
      best_.placement = placement;
      best_.measurement = measurement_;
    }
    return cost_of(measurement_);
  }
  Found finish() && {
    best_.evaluations = evaluations_;
    return std::move(best_);
  }

  const Problem& problem() const { return problem_; }

 private:
  const Problem& problem_;
  Executor& executor_;
  const std::uint64_t budget_;
  std::uint64_t evaluations_ = 0;
  Found best_;
  Measurement measurement_;
};

/// One Metropolis walk on one level.
class Walk {
 public:
  Walk(const Level& level, Search& search, std::uint64_t stream)
      : level_{level},
        search_{search},
        rng_{search.problem().seed, Purpose::kHeuristic, kStep + stream},
        fast_{fast_devices(search.problem().devices)} {}

  /// Starts from `start`, each unit where most of its time is, and spends `evaluations`.
  Result<Unit> run(const Placement& start, std::uint64_t evaluations, Cooling cooling) {
    if (level_.movable.empty() || evaluations == 0) return Unit{};
    settle(start);
    auto current = search_.cost(placement_);
    if (!current) return current.error();
    double cost = *current;
    for (std::uint64_t k = 1; k < evaluations; ++k) {
      const double progress = static_cast<double>(k) / static_cast<double>(evaluations);
      const double temperature = cooling.first * std::pow(cooling.last / cooling.first, progress);
      changed_.clear();
      propose();
      if (changed_.empty()) continue;  // Nothing to measure, but a step: the number of steps is bounded.
      const auto next = search_.cost(placement_);
      if (!next) return next.error();
      const double worse = *next - cost;
      if (worse <= 0 || rng_.uniform_double() < std::exp(-worse / temperature)) {
        cost = *next;
        continue;
      }
      for (auto it = changed_.rbegin(); it != changed_.rend(); ++it) put(it->first, it->second);
    }
    return Unit{};
  }

 private:
  void settle(const Placement& start) {
    const std::vector<double> weight = op_weights(search_.problem());
    placement_ = start;
    device_.assign(level_.size(), DeviceId{});
    std::vector<double> time(search_.problem().devices.size());
    for (std::uint32_t unit = 0; unit < level_.size(); ++unit) {
      std::fill(time.begin(), time.end(), 0.0);
      for (const std::uint32_t op : level_.ops[unit]) time[index(start[op])] += weight[op] + 1;
      DeviceId most =
          level_.allowed[unit].empty() ? start[level_.ops[unit].front()] : level_.allowed[unit].front();
      for (const DeviceId device : level_.allowed[unit]) {
        if (time[index(device)] > time[index(most)]) most = device;
      }
      put(unit, most);
    }
    search_.problem().constraints.repair(
        placement_);  // Units without a device in common stay where they may.
  }

  void put(std::uint32_t unit, DeviceId device) {
    device_[unit] = device;
    for (const std::uint32_t op : level_.ops[unit]) placement_[op] = device;
  }

  /// Moves it if that changes anything and is allowed.
  void move(std::uint32_t unit, DeviceId device) {
    const auto& allowed = level_.allowed[unit];
    if (device_[unit] == device || std::find(allowed.begin(), allowed.end(), device) == allowed.end()) return;
    changed_.emplace_back(unit, device_[unit]);
    put(unit, device);
  }

  std::uint32_t below(std::size_t bound) { return rng_.below(static_cast<std::uint32_t>(bound)); }
  std::uint32_t any_unit() { return level_.movable[below(level_.movable.size())]; }

  /// Mostly among the fast ones: a move to the CPU is seldom better than none.
  DeviceId any_device(std::uint32_t unit) {
    const auto& allowed = level_.allowed[unit];
    for (int attempt = 0; attempt < 8; ++attempt) {
      const bool everywhere = below(10) == 0;
      const DeviceId device = everywhere ? allowed[below(allowed.size())] : fast_[below(fast_.size())];
      if (device != device_[unit]) return device;
    }
    return allowed[below(allowed.size())];
  }

  /// Short ranges are likelier than long ones, up to all of it.
  std::size_t length_up_to(std::size_t most) {
    const double exponent = rng_.uniform_double();
    return std::clamp(static_cast<std::size_t>(std::pow(static_cast<double>(most), exponent) + 0.5),
                      std::size_t{1}, most);
  }

  /// A range of at most `most` of `units` that holds the one at `at`.
  void move_range(const std::vector<std::uint32_t>& units, std::size_t at, std::size_t most,
                  DeviceId device) {
    const std::size_t length = length_up_to(most), back = below(length);
    const std::size_t begin = at > back ? at - back : 0;
    for (std::size_t i = begin; i < std::min(begin + length, units.size()); ++i) move(units[i], device);
  }

  void propose() {
    const std::uint32_t unit = any_unit();
    const DeviceId device = any_device(unit);
    const std::uint32_t kind = below(100);
    if (kind < 30) {
      move(unit, device);
    } else if (kind < 45) {
      const std::uint32_t other = any_unit();
      const DeviceId here = device_[unit], there = device_[other];
      move(unit, there);
      move(other, here);
    } else if (kind < 60) {
      move(unit, device);
      for (const std::uint32_t near : level_.neighbours[unit]) move(near, device);
    } else if (kind < 85) {
      const auto& alike = level_.alike[level_.label[unit]];
      move_range(alike, level_.place_alike[unit], alike.size(), device);
    } else {
      move_range(level_.order, level_.place[unit], std::max<std::size_t>(1, level_.size() / 4), device);
    }
  }

  const Level& level_;
  Search& search_;
  Rng rng_;
  const std::vector<DeviceId> fast_;
  Placement placement_;
  std::vector<DeviceId> device_;                             // [units]
  std::vector<std::pair<std::uint32_t, DeviceId>> changed_;  // Unit and where it was.
};

}  // namespace

std::uint64_t Anneal::budget(const OpGraph& graph) const {
  if (options_.evaluations > 0) return options_.evaluations;
  const double size = static_cast<double>(graph.num_ops() + graph.num_edges());
  const auto scaled = static_cast<std::uint64_t>(static_cast<double>(kUsual) * kSizeOfUsual / size);
  return std::clamp(scaled, kFewest, kUsual);
}

Result<Found> Anneal::find(const Problem& problem, Executor& executor) const {
  if (options_.groups < 2) return invalid("anneal", "needs at least 2 groups");
  Search search{problem, executor, budget(problem.graph)};
  Error why{Errc::kNoPlacement, "there is no device for this method"};
  for (const Method* method : all_methods()) {
    auto found = method->find(problem, executor);
    if (found) {
      search.take(std::move(*found));
    } else if (found.error().code != Errc::kNoPlacement) {
      return found.error();
    }
  }
  if (!search.found_any()) return why;

  const Level groups = group_level(problem, options_.groups), pieces = piece_level(problem),
              classes = class_level(problem);
  struct Stage {
    const Level& level;
    double share;
    Cooling cooling;
  };
  // Hot enough at first to leave the simple placement, and cold enough at its end that the finer levels,
  // which have thousands of ways to be worse, only mend what is there (docs/performance.md has what was
  // tried).
  const std::array stages{Stage{groups, 0.5, {0.1, 0.001}}, Stage{pieces, 0.35, {0.003, 0.0003}},
                          Stage{classes, 0.15, {0.001, 0.0001}}};
  const std::uint64_t all = search.left();
  std::uint64_t stream = 0;
  for (const Stage& stage : stages) {
    const auto evaluations = static_cast<std::uint64_t>(stage.share * static_cast<double>(all));
    const Placement start = search.best();
    Walk walk{stage.level, search, stream++};
    if (auto walked = walk.run(start, std::min(evaluations, search.left()), stage.cooling); !walked)
      return walked.error();
  }
  return std::move(search).finish();
}

}  // namespace emplace
