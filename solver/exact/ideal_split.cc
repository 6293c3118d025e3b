#include "solver/exact/ideal_split.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/rng.h"

namespace emplace {
namespace {

constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::max() / 4;
constexpr double kAnyTime = 1e19;  // Stands for an infinite ratio; larger than the sum of all times.

/// Transfers and copies of a piece while blocks are added and removed: a net is paid once if some but not all
/// of its blocks are inside, and keeps a copy there unless its producer is.
class Piece {
 public:
  struct Crossing {
    std::int64_t ps = 0, bytes = 0;
  };

  explicit Piece(const BlockGraph& graph)
      : graph_{graph}, inside_(graph.all_nets.size(), 0), home_(graph.all_nets.size(), false) {}
  /// Adds a block, and the change to `crossing`.
  void add(std::uint32_t block, Crossing& crossing) {
    for (const std::uint32_t net : graph_.nets[block]) {
      const BlockGraph::Net& one = graph_.all_nets[net];
      if (one.maker == block) {
        home_[net] = true;
        if (inside_[net] > 0) crossing.bytes -= one.kept_bytes;
      }
      if (inside_[net]++ == 0) {
        crossing.ps += one.ps;
        if (!home_[net]) crossing.bytes += one.kept_bytes;
      }
      if (inside_[net] == one.blocks.size()) crossing.ps -= one.ps;
    }
  }
  void remove(std::uint32_t block) {
    for (const std::uint32_t net : graph_.nets[block]) {
      --inside_[net];
      if (graph_.all_nets[net].maker == block) home_[net] = false;
    }
  }

 private:
  const BlockGraph& graph_;
  std::vector<std::uint32_t> inside_;  // [nets]
  std::vector<bool> home_;             // [nets] Whether the producer is inside.
};

/// All order ideals: sets of blocks that contain with a block all its predecessors. Ideal 0 is empty.
class Ideals {
 public:
  struct Step {
    std::uint32_t block, to;
  };

  /// Errors: kUnsupported with more than `most` ideals, or after a stop request.
  static Result<Ideals> of(const BlockGraph& graph, std::size_t most, const std::function<bool()>& stopped) {
    Ideals ideals;
    ideals.words_ = (graph.size() + 63) / 64;
    ideals.bits_.assign(ideals.words_, 0);
    std::vector<std::uint64_t> mark;  // Hash of a set: exclusive-or of the marks of its blocks.
    for (std::uint32_t b = 0; b < graph.size(); ++b)
      mark.push_back(splitmix64(b) ^ splitmix64(~std::uint64_t{b}));
    std::unordered_map<std::uint64_t, std::uint32_t> known{{0, 0}};
    std::vector<std::uint64_t> marks{0};
    for (std::uint32_t ideal = 0; ideal < marks.size(); ++ideal) {
      if ((ideal & 0xfff) == 0xfff && stopped && stopped()) return Error{Errc::kUnsupported, "no time left"};
      ideals.begin_.push_back(static_cast<std::uint32_t>(ideals.steps_.size()));
      for (std::uint32_t b = 0; b < graph.size(); ++b) {
        if (ideals.holds(ideal, b) || !ideals.holds_all(ideal, graph.before[b])) continue;
        const auto [it, fresh] =
            known.try_emplace(marks[ideal] ^ mark[b], static_cast<std::uint32_t>(marks.size()));
        if (fresh) {
          if (marks.size() >= most)
            return Error{Errc::kUnsupported, fmt::format("more than {} order ideals", most)};
          marks.push_back(it->first);
          ideals.bits_.resize(marks.size() * ideals.words_);
          std::copy_n(ideals.bits_.begin() + static_cast<std::ptrdiff_t>(ideal * ideals.words_),
                      ideals.words_, ideals.bits_.end() - static_cast<std::ptrdiff_t>(ideals.words_));
          ideals.bits_[it->second * ideals.words_ + b / 64] |= std::uint64_t{1} << b % 64;
        }
        ideals.steps_.push_back({b, it->second});
      }
    }
    ideals.begin_.push_back(static_cast<std::uint32_t>(ideals.steps_.size()));
    return ideals;
  }

  std::size_t size() const { return begin_.size() - 1; }
  bool holds(std::uint32_t ideal, std::uint32_t block) const {
    return (bits_[ideal * words_ + block / 64] >> block % 64 & 1) != 0;
  }
  /// Sorted by block.
  std::span<const Step> steps(std::uint32_t ideal) const {
    return {steps_.data() + begin_[ideal], begin_[ideal + 1] - begin_[ideal]};
  }

 private:
  bool holds_all(std::uint32_t ideal, const std::vector<std::uint32_t>& blocks) const {
    return std::all_of(blocks.begin(), blocks.end(), [&](std::uint32_t b) { return holds(ideal, b); });
  }

  std::size_t words_ = 0;
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint32_t> begin_;
  std::vector<Step> steps_;
};

/// best[ideal][cpus used][accelerators used]: least max-load of a placement of the ideal's blocks.
class DynamicProgram {
 public:
  DynamicProgram(const BlockGraph& graph, const Ideals& ideals, const SplitMachine& machine,
                 std::int64_t upper_ps, const IdealLimits& limits)
      : graph_{graph},
        ideals_{ideals},
        accelerators_{machine.accelerators.size()},
        cpus_{machine.cpus.size()},
        memory_{machine.memory_bytes},
        cpu_memory_{machine.cpu_memory_bytes},
        upper_{upper_ps},
        limits_{limits},
        piece_{graph} {
    states_ = (accelerators_ + 1) * (cpus_ + 1);
    best_.assign(ideals.size() * states_, kNoTime);
    from_.assign(ideals.size() * states_, kNoIndex);
    for (std::uint32_t b = 0; b < graph.size(); ++b) {
      total_ += graph.accelerator_ps[b];
      // Maximum accelerator time that a unit of CPU time can replace.
      if (graph.accelerator_ps[b] > 0)
        cpu_worth_ = std::max(cpu_worth_, graph.cpu_ps[b] > 0 ? static_cast<double>(graph.accelerator_ps[b]) /
                                                                    static_cast<double>(graph.cpu_ps[b])
                                                              : kAnyTime);
    }
  }

  Result<IdealSplit> run() {
    best_[0] = 0;
    const auto full = static_cast<std::uint32_t>(ideals_.size() - 1);  // The full set is found last.
    std::vector<std::int64_t> done(ideals_.size(), 0);
    for (std::uint32_t ideal = 0; ideal < ideals_.size(); ++ideal) {
      for (const Ideals::Step step : ideals_.steps(ideal))
        done[step.to] = done[ideal] + graph_.accelerator_ps[step.block];
    }
    done_ = std::move(done);
    full_ = full;
    for (std::uint32_t ideal = 0; ideal < full; ++ideal) {
      open_states_.clear();
      for (std::size_t s = 0; s < states_; ++s)
        if (best_[ideal * states_ + s] < upper_) open_states_.push_back(s);
      if (open_states_.empty()) continue;
      source_ = ideal;
      extend(ideal, 0, {});
      if (steps_ > limits_.steps)
        return Error{Errc::kUnsupported,
                     fmt::format("more than {} steps between order ideals", limits_.steps)};
      if (stopped_) return Error{Errc::kUnsupported, "no time left"};
    }
    return trace_back();
  }

 private:
  struct Load {
    std::int64_t work_ps = 0, cpu_ps = 0, bytes = 0;  // Sums over its blocks alone.
    Piece::Crossing crossing = {};
    bool on_accelerator = true, on_cpu = true;  // Whether all its blocks may be there.
  };

  /// Enumerates the pieces that extend `load` by blocks >= `first`: each set of blocks once, in order.
  void extend(std::uint32_t at, std::uint32_t first, const Load& load) {
    for (const Ideals::Step step : ideals_.steps(at)) {
      if (step.block < first) continue;
      Load next{load.work_ps + graph_.accelerator_ps[step.block],
                load.cpu_ps + graph_.cpu_ps[step.block],
                load.bytes + graph_.bytes[step.block],
                load.crossing,
                load.on_accelerator && graph_.on_accelerator[step.block],
                load.on_cpu && graph_.on_cpu[step.block]};
      const bool accelerator = next.on_accelerator && next.work_ps < upper_ && next.bytes <= memory_;
      const bool cpu = next.on_cpu && next.cpu_ps < upper_ && next.bytes <= cpu_memory_;
      if (!accelerator && !cpu) continue;
      if ((++pieces_ & 0xffff) == 0 && limits_.stopped && limits_.stopped()) stopped_ = true;
      steps_ += 4 + open_states_.size();  // Cost of a piece by itself, plus one per state.
      if (stopped_ || steps_ > limits_.steps) return;
      piece_.add(step.block, next.crossing);
      // Copies may disappear when their producers join, so they do not end the enumeration.
      relax(step.to, accelerator && held(next) <= memory_ ? next.work_ps + next.crossing.ps : kNoTime,
            cpu && held(next) <= cpu_memory_ ? next.cpu_ps : kNoTime);
      extend(step.to, step.block + 1, next);
      piece_.remove(step.block);
    }
  }

  static std::int64_t held(const Load& load) { return load.bytes + load.crossing.bytes; }

  void relax(std::uint32_t to, std::int64_t accelerator_ps, std::int64_t cpu_ps) {
    const std::size_t row = accelerators_ + 1;
    const auto left = static_cast<double>(total_ - done_[to]), each = static_cast<double>(upper_);
    for (const std::size_t s : open_states_) {
      const std::size_t used_cpus = s / row, used = s % row;
      const std::int64_t before = best_[source_ * states_ + s];
      const auto offer = [&](std::size_t state, std::int64_t load, std::size_t more, std::size_t more_cpus) {
        const std::int64_t highest = std::max(before, load);
        std::int64_t& best = best_[to * states_ + state];
        // Prune: the remaining work must fit on the remaining devices within the best known load.
        const double room = (static_cast<double>(more) + cpu_worth_ * static_cast<double>(more_cpus)) * each;
        if (highest >= upper_ || highest >= best || left > room) return;
        best = highest;
        from_[to * states_ + state] = source_;
        if (to == full_) upper_ = highest;
      };
      if (used < accelerators_) offer(s + 1, accelerator_ps, accelerators_ - used - 1, cpus_ - used_cpus);
      if (used_cpus < cpus_) offer(s + row, cpu_ps, accelerators_ - used, cpus_ - used_cpus - 1);
    }
  }

  Result<IdealSplit> trace_back() const {
    const auto* const last = best_.data() + full_ * states_;
    std::size_t state = static_cast<std::size_t>(std::min_element(last, last + states_) - last);
    if (last[state] >= kNoTime) return Error{Errc::kNoPlacement, "no contiguous split fits"};
    IdealSplit split;
    split.max_load_ps = last[state];
    split.ideals = ideals_.size();
    split.pieces = pieces_;
    split.device_of_block.resize(graph_.size());
    std::uint32_t ideal = full_;
    const std::size_t row = accelerators_ + 1;
    while (ideal != 0) {
      const std::uint32_t source = from_[ideal * states_ + state];
      const auto load = load_of(source, ideal);
      // Determine which transition led here: the one whose predecessor value and own load give this value.
      const auto fits = [&](std::size_t previous, std::int64_t ps) {
        return std::max(best_[source * states_ + previous], ps) == best_[ideal * states_ + state];
      };
      const std::size_t used = state % row, used_cpus = state / row;
      const bool accelerator = used > 0 && load.on_accelerator && held(load) <= memory_ &&
                               fits(state - 1, load.work_ps + load.crossing.ps);
      const std::size_t device = accelerator ? used - 1 : accelerators_ + used_cpus - 1;
      for (std::uint32_t b = 0; b < graph_.size(); ++b)
        if (ideals_.holds(ideal, b) && !ideals_.holds(source, b))
          split.device_of_block[b] = static_cast<std::uint32_t>(device);
      state = accelerator ? state - 1 : state - row;
      ideal = source;
    }
    return split;
  }

  Load load_of(std::uint32_t source, std::uint32_t ideal) const {
    Piece piece{graph_};
    Load load;
    for (std::uint32_t b = 0; b < graph_.size(); ++b) {
      if (!ideals_.holds(ideal, b) || ideals_.holds(source, b)) continue;
      load.work_ps += graph_.accelerator_ps[b];
      load.cpu_ps += graph_.cpu_ps[b];
      load.bytes += graph_.bytes[b];
      piece.add(b, load.crossing);
      load.on_accelerator = load.on_accelerator && graph_.on_accelerator[b];
    }
    return load;
  }

  const BlockGraph& graph_;
  const Ideals& ideals_;
  const std::size_t accelerators_, cpus_;
  const std::int64_t memory_, cpu_memory_;
  std::int64_t upper_;
  const IdealLimits& limits_;
  Piece piece_;
  std::size_t states_ = 0;
  std::vector<std::int64_t> best_;   // [ideals, cpus + 1, accelerators + 1]
  std::vector<std::uint32_t> from_;  // [ideals, cpus + 1, accelerators + 1] The ideal before the last piece.
  std::vector<std::int64_t> done_;   // [ideals] Accelerator time of its blocks.
  std::vector<std::size_t> open_states_;  // States of the source ideal below the bound.
  std::uint32_t source_ = 0, full_ = 0;
  std::int64_t total_ = 0;
  double cpu_worth_ = 0;
  std::uint64_t pieces_ = 0, steps_ = 0;
  bool stopped_ = false;
};

}  // namespace

Result<IdealSplit> best_ideal_split(const BlockGraph& graph, const SplitMachine& machine,
                                    std::int64_t upper_ps, const IdealLimits& limits) {
  const std::size_t states = (machine.accelerators.size() + 1) * (machine.cpus.size() + 1);
  const std::size_t most = std::min(limits.ideals, std::max<std::size_t>(2, limits.states / states));
  EMPLACE_TRY_ASSIGN(auto ideals, Ideals::of(graph, most, limits.stopped));
  // Loads must be below the bound, so it is one more than the known load.
  return DynamicProgram{graph, ideals, machine, std::min(upper_ps, kNoTime - 1) + 1, limits}.run();
}

std::int64_t best_linear_load_ps(const BlockGraph& graph, const std::vector<std::uint32_t>& order,
                                 const SplitMachine& machine) {
  const std::size_t n = order.size(), accelerators = machine.accelerators.size();
  std::vector<std::vector<std::int64_t>> best(accelerators + 1, std::vector<std::int64_t>(n + 1, kNoTime));
  best[0][0] = 0;
  for (std::size_t begin = 0; begin < n; ++begin) {
    Piece piece{graph};
    Piece::Crossing crossing;
    std::int64_t load = 0, bytes = 0;
    for (std::size_t end = begin; end < n; ++end) {
      const std::uint32_t block = order[end];
      piece.add(block, crossing);
      load += graph.accelerator_ps[block];
      bytes += graph.bytes[block];
      if (bytes > machine.memory_bytes || !graph.on_accelerator[block]) break;
      if (bytes + crossing.bytes > machine.memory_bytes) continue;
      for (std::size_t used = 0; used < accelerators; ++used)
        best[used + 1][end + 1] =
            std::min(best[used + 1][end + 1], std::max(best[used][begin], load + crossing.ps));
    }
  }
  std::int64_t least = kNoTime;
  for (const auto& row : best) least = std::min(least, row[n]);
  return least;
}

}  // namespace emplace
