#include "executor/sim/critical_chain.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "executor/sim/shared/link_queues.h"

namespace emplace {
namespace {

using Kind = ChainLink::Kind;
using Cause = ChainLink::Cause;

/// An executed op or transfer, by its index in the schedule.
struct Run {
  Kind kind = Kind::kOp;
  std::uint32_t number = kNoIndex;
};

/// Transfers that share an engine or a link. Starts come in order of time.
class Shared {
 public:
  /// Returns the transfer that ended last before `start_s`, and adds the one that starts then.
  std::optional<Run> next(std::uint32_t number, double start_s, double end_s) {
    while (!running_.empty() && running_.top().first <= start_s) {
      ended_ = Run{Kind::kTransfer, running_.top().second};
      running_.pop();
    }
    running_.emplace(end_s, number);
    return ended_;
  }

 private:
  using End = std::pair<double, std::uint32_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> running_;
  std::optional<Run> ended_;
};

class Walk {
 public:
  Walk(const LoweredGraph& lowered, const Placement& placement, const Schedule& schedule,
       const DeviceSet& devices)
      : lowered_{lowered},
        placement_{placement},
        schedule_{schedule},
        run_of_op_(lowered.num_ops(), kNoIndex),
        before_op_(schedule.ops.size()),
        before_transfer_(schedule.transfers.size()),
        owner_(lowered.graph().num_tensors()) {
    for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b)
      owner_[index(lowered.tensor(BufferId{b}))] = lowered.owner(BufferId{b});
    // Both lists are sorted by start time; merging them gives each run its predecessor on the same engine.
    const bool by_target = devices.copies() == CopyEngine::kTarget;
    const simulated::LinkRoutes routes{devices};
    std::vector<std::optional<Run>> last_op(kMaxDevices);
    std::vector<Shared> engines(kMaxDevices), links(routes.size());
    for (std::uint32_t i = 0, k = 0; i < schedule.ops.size() || k < schedule.transfers.size();) {
      const bool copy_first =
          i == schedule.ops.size() ||
          (k < schedule.transfers.size() && schedule.transfers[k].start_s <= schedule.ops[i].start_s);
      if (copy_first) {
        const TransferRun& run = schedule.transfers[k];
        arrival_.emplace(key(run.tensor, run.target), k);
        std::optional<Run>& before = before_transfer_[k];
        const auto wait_for = [&](Shared& shared) {
          if (const auto ended = shared.next(k, run.start_s, run.end_s)) later(before, *ended);
        };
        if (by_target) {
          before = std::exchange(last_op[index(run.target)], Run{Kind::kTransfer, k});
        } else if (devices.engines(run.source) != kUnlimited) {
          wait_for(engines[index(run.source)]);
        }
        for (const std::uint16_t r : routes.between(index(run.source), index(run.target))) wait_for(links[r]);
        ++k;
      } else {
        const OpRun& run = schedule.ops[i];
        run_of_op_[index(run.op)] = i;
        before_op_[i] = std::exchange(last_op[index(run.device)], Run{Kind::kOp, i});
        ++i;
      }
    }
  }

  double start(Run run) const {
    return run.kind == Kind::kOp ? schedule_.ops[run.number].start_s
                                 : schedule_.transfers[run.number].start_s;
  }
  double end(Run run) const {
    return run.kind == Kind::kOp ? schedule_.ops[run.number].end_s : schedule_.transfers[run.number].end_s;
  }
  std::optional<Run> last() const {
    std::optional<Run> last;
    for (std::uint32_t i = 0; i < schedule_.ops.size(); ++i) later(last, {Kind::kOp, i});
    for (std::uint32_t i = 0; i < schedule_.transfers.size(); ++i) later(last, {Kind::kTransfer, i});
    return last;
  }

  /// Returns the run that it waited for last, if any, and the kind of dependency.
  std::optional<Run> cause(Run run, Cause& why) const {
    std::optional<Run> input = run.kind == Kind::kOp ? last_input(schedule_.ops[run.number])
                                                     : producer(schedule_.transfers[run.number]);
    const std::optional<Run> engine =
        run.kind == Kind::kOp ? before_op_[run.number] : before_transfer_[run.number];
    const bool by_input = input && (!engine || end(*input) >= end(*engine));
    why = by_input ? Cause::kInput : engine ? Cause::kEngine : Cause::kStart;
    return by_input ? input : engine;
  }

 private:
  static std::uint64_t key(TensorId tensor, DeviceId target) {
    return std::uint64_t{index(tensor)} << 8 | index(target);
  }
  void later(std::optional<Run>& best, Run run) const {
    if (!best || end(run) > end(*best)) best = run;
  }
  std::optional<Run> made_by(OpId op) const {
    const std::uint32_t run = run_of_op_[index(op)];
    return run == kNoIndex ? std::nullopt : std::optional<Run>{Run{Kind::kOp, run}};
  }
  std::optional<Run> last_input(const OpRun& run) const {
    std::optional<Run> last;
    for (const BufferId buffer : lowered_.reads(run.op)) {
      const OpId owner = lowered_.owner(buffer);
      if (placement_[index(owner)] == run.device) {
        if (const auto made = made_by(owner); made && !lowered_.is_resident(buffer)) later(last, *made);
      } else if (const auto it = arrival_.find(key(lowered_.tensor(buffer), run.device));
                 it != arrival_.end()) {
        later(last, {Kind::kTransfer, it->second});
      }
    }
    return last;
  }
  /// State has no producer: it exists from the start.
  std::optional<Run> producer(const TransferRun& run) const { return made_by(owner_[index(run.tensor)]); }

  const LoweredGraph& lowered_;
  const Placement& placement_;
  const Schedule& schedule_;
  std::vector<std::uint32_t> run_of_op_;
  std::vector<std::optional<Run>> before_op_, before_transfer_;
  std::unordered_map<std::uint64_t, std::uint32_t> arrival_;
  std::vector<OpId> owner_;  // [tensors] Owner of each tensor that can be transferred.
};

}  // namespace

CriticalChain critical_chain(const LoweredGraph& lowered, const Placement& placement,
                             const Schedule& schedule, const DeviceSet& devices) {
  const Walk walk{lowered, placement, schedule, devices};
  CriticalChain chain;
  // A cause ends no later than its effect starts, so the loop ends; the counter bounds it for runs without
  // duration.
  std::size_t left = schedule.ops.size() + schedule.transfers.size();
  for (std::optional<Run> run = walk.last(); run && left > 0; --left) {
    Cause why = Cause::kStart;
    const std::optional<Run> before = walk.cause(*run, why);
    const double start_s = walk.start(*run), end_s = walk.end(*run);
    chain.links.push_back({run->kind, why, run->number, start_s, end_s});
    (run->kind == Kind::kOp ? chain.ops_s : chain.transfers_s) += end_s - start_s;
    if (why == Cause::kEngine) chain.behind_engine_s += end_s - start_s;
    const double free_s = before ? walk.end(*before) : 0;
    if (free_s < start_s) {
      chain.links.push_back({Kind::kGap, Cause::kStart, 0, free_s, start_s});
      chain.gaps_s += start_s - free_s;
    }
    run = before;
  }
  std::reverse(chain.links.begin(), chain.links.end());
  return chain;
}

}  // namespace emplace
