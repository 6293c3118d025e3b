#include "executor/sim/simulator.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "executor/sim/shared/step_tables.h"
#include "executor/sim/timed/timed_step.h"
#include "executor/sim/whole/moved_step.h"
#include "executor/sim/whole/resumed_step.h"
#include "executor/sim/whole/simulated_step.h"
#include "executor/sim/whole/step_history.h"

namespace emplace {
namespace {

using namespace simulated;

/// A whole step, optionally recorded in a schedule.
class PlainStep final : public WholeStep<PlainStep> {
 public:
  using WholeStep::WholeStep;
  void run(std::span<const DeviceId> placement, Schedule* schedule) {
    schedule_ = schedule;
    if (schedule_ != nullptr) recorded_bytes_.assign(lanes_.size(), 0);
    start_step(placement.data());
    run_rounds();
  }

 private:
  friend class StepLoop<PlainStep>;
  void op_ready(std::uint32_t, std::uint32_t) {}
  void op_started(std::uint32_t d) {
    if (schedule_ == nullptr) return;
    schedule_->ops.push_back(
        {OpId{lanes_[d].op}, static_cast<DeviceId>(d), seconds(now_ns_), seconds(op_end(d))});
  }
  void op_ended(std::uint32_t) {}
  void copy_queued(std::uint32_t, const Copy&) {}
  void copy_started(std::uint32_t engine) {
    if (schedule_ == nullptr) return;
    const Copy copy = copy_of(engine);
    const StepTables::Buffer& buffer = tables_.buffers[copy.buffer];
    schedule_->transfers.push_back(
        {tables_.lowered.tensor(BufferId{copy.buffer}), static_cast<DeviceId>(device_of(buffer.owner)),
         static_cast<DeviceId>(copy.target), buffer.bytes, seconds(now_ns_), seconds(copy_end(engine))});
  }
  void copy_ended(const Copy&) {}
  bool round_started() {
    if (schedule_ != nullptr) record_memory();
    return false;
  }
  /// A round only allocates, since releases happen before it; so the level after the round is the peak.
  [[gnu::cold]] void record_memory() {  // Not inlined: measurements do not call it.
    for (std::size_t d = 0; d < lanes_.size(); ++d) {
      if (lanes_[d].used_bytes == recorded_bytes_[d]) continue;
      recorded_bytes_[d] = lanes_[d].used_bytes;
      schedule_->memory.push_back({static_cast<DeviceId>(d), seconds(now_ns_), lanes_[d].used_bytes});
    }
  }
  static double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

  Schedule* schedule_ = nullptr;
  std::vector<std::int64_t> recorded_bytes_;  // [devices] Levels recorded last; only with a schedule.
};

/// Measures consecutive placements that differ little, each as a difference to a recorded step. As a walk
/// continues, the moves it keeps accumulate into a difference that every measurement pays for. When these
/// payments reach the cost of a step, the part on which the last two placements agree is recorded. When
/// differences do not pay off (most of the step is simulated anyway), whole steps are simulated for a while.
/// A placement that repeats the last one costs nothing: a walk keeps about half of what it visits.
class MovingSteps {
 public:
  MovingSteps(const StepTables& tables, Dispatch dispatch)
      : resumed_{tables, dispatch},
        recorded_{tables, dispatch},
        moved_{tables, dispatch},
        last_(tables.num_ops()) {}

  void run(std::span<const DeviceId> placement, Measurement& out) {
    if (history_.placement.empty()) {
      recorded_.run(placement, history_);
      last_step_ = Step::kRecorded;
    } else if (!std::ranges::equal(placement, last_)) {
      if (resting_ == 0) {
        run_difference(placement);
      } else {
        if (--resting_ == 0) paid_rounds_ = history_.rounds;
        run_whole(placement);
      }
    }
    std::copy(placement.begin(), placement.end(), last_.begin());
    switch (last_step_) {
      case Step::kRecorded:
        return recorded_.write_result(out);
      case Step::kResumed:
        return resumed_.write_result(out);
      case Step::kMoved:
        return moved_.write_result(out);
    }
  }

 private:
  // Use differences up to 1 / kMovedDivisor of the ops; beyond that little can be shared.
  static constexpr std::size_t kMovedDivisor = 4;
  static constexpr double kWorthwhile = 0.4;  // Maximum share of a step; its rounds cost half as much each.
  static constexpr int kRest = 64, kLongestRest = 1024, kRecent = 8;  // Numbers of measurements.

  /// What simulated the last placement; it still has the result.
  enum class Step : std::uint8_t { kRecorded, kResumed, kMoved };

  void run_whole(std::span<const DeviceId> placement) {
    resumed_.run(placement);
    last_step_ = Step::kResumed;
  }
  void run_difference(std::span<const DeviceId> placement) {
    std::uint64_t rounds = 0;
    std::size_t kept = find_moved(placement);
    if (kept > 0 && paid_rounds_ >= history_.rounds) {
      record_agreed(placement);
      rounds += history_.rounds;
      kept = 0;
    }
    if (moved_ops_.size() > placement.size() / kMovedDivisor) {
      run_whole(placement);
      rounds += history_.rounds;
    } else {
      rounds += moved_.run(history_, placement, moved_ops_);
      last_step_ = Step::kMoved;
    }
    if (kept > 0) paid_rounds_ += rounds * kept / moved_ops_.size();
    share_ += (static_cast<double>(rounds) / static_cast<double>(history_.rounds + 1) - share_) / kRecent;
    if (share_ <= kWorthwhile) return;
    resting_ = rest_;
    rest_ = std::min(2 * rest_, kLongestRest);
    share_ = kWorthwhile / 2;
  }
  void record_agreed(std::span<const DeviceId> placement) {
    agreed_ = history_.placement;
    for (const std::uint32_t op : moved_ops_)
      if (last_[op] == placement[op]) agreed_[op] = placement[op];
    recorded_.run(agreed_, history_);
    paid_rounds_ = 0;
    find_moved(placement);
  }
  /// Returns the number of moved ops that were at the same place in the last placement.
  std::size_t find_moved(std::span<const DeviceId> placement) {
    std::size_t kept = 0;
    moved_ops_.clear();
    for (std::uint32_t op = 0; op < placement.size(); ++op) {
      if (placement[op] == history_.placement[op]) continue;
      moved_ops_.push_back(op);
      kept += last_[op] == placement[op];
    }
    return kept;
  }

  ResumedStep resumed_;
  RecordedStep recorded_;
  MovedStep moved_;
  Step last_step_ = Step::kRecorded;
  StepHistory history_;
  std::vector<DeviceId> last_, agreed_;  // [ops]
  std::vector<std::uint32_t> moved_ops_;
  std::uint64_t paid_rounds_ = 0;  // Rounds paid for kept moves since the last recording.
  double share_ = 0;               // Average share of a step that recent differences cost.
  int resting_ = 0, rest_ = kRest;
};

}  // namespace

struct Simulator::State {
  State(const OpGraph& graph, const DeviceSet& devices, CostTable costs, SimulatorOptions wanted)
      : options{wanted}, tables{graph, devices, std::move(costs)}, plain{tables, wanted.dispatch} {
    restart();
  }
  /// Forgets the recorded step.
  void restart() {
    // The history identifies copies by their source device, which runs one at a time.
    const DeviceSet& devices = tables.devices;
    if (options.incremental && devices.copies() == CopyEngine::kSource && devices.has_one_engine_each())
      moving.emplace(tables, options.dispatch);
    timed.reset();
  }
  /// Null if it does not support the machine, the dispatch or the order.
  TimedStep* timed_step() {
    if (!timed && options.dispatch == Dispatch::kProgram && TimedStep::supports(tables))
      timed.emplace(tables);
    return timed ? &*timed : nullptr;
  }

  const SimulatorOptions options;
  StepTables tables;
  PlainStep plain;
  std::optional<MovingSteps> moving;
  std::optional<TimedStep> timed;
};

Simulator::Simulator(const OpGraph& graph, const DeviceSet& devices, SimulatorOptions options)
    : Simulator{graph, devices, CostTable{graph, devices}, options} {}
Simulator::Simulator(const OpGraph& graph, const DeviceSet& devices, CostTable costs,
                     SimulatorOptions options)
    : state_{std::make_unique<State>(graph, devices, std::move(costs), options)} {}
Simulator::~Simulator() = default;

Result<Unit> Simulator::set_order(std::span<const OpId> order) {
  StepTables& tables = state_->tables;
  if (!order.empty()) {
    if (state_->options.dispatch != Dispatch::kProgram)
      return Error{Errc::kUnsupported, "an order needs --dispatch program"};
    std::vector<bool> seen(tables.num_ops(), false);
    std::size_t distinct = 0;
    for (const OpId op : order) {
      if (index(op) >= seen.size()) break;
      if (!seen[index(op)]) ++distinct;
      seen[index(op)] = true;
    }
    if (order.size() != seen.size() || distinct != seen.size())
      return invalid("order", "is not a permutation of the ops");
  }
  tables.set_order(order);
  state_->restart();
  return Unit{};
}

const CostTable& Simulator::costs() const { return state_->tables.costs; }

Result<Unit> Simulator::measure(std::span<const DeviceId> placement, Measurement& out) {
  const StepTables& tables = state_->tables;
  EMPLACE_TRY(check_devices(placement, tables.num_ops(), tables.num_devices()));
  if (state_->moving) {
    state_->moving->run(placement, out);
  } else {
    state_->plain.run(placement, nullptr);
    state_->plain.write_result(out);
  }
  return Unit{};
}

Result<std::optional<StepCost>> Simulator::measure_within(std::span<const DeviceId> placement,
                                                          double limit_s) {
  const StepTables& tables = state_->tables;
  EMPLACE_TRY(check_devices(placement, tables.num_ops(), tables.num_devices()));
  TimedStep* const timed = state_->timed_step();
  if (timed == nullptr) {
    Measurement whole;
    EMPLACE_TRY(measure(placement, whole));
    if (whole.step_time_s > limit_s) return std::optional<StepCost>{};
    return std::optional{StepCost{whole.step_time_s, whole.bytes_over}};
  }
  constexpr double kMost = 9e18;  // Longer than any step.
  const double limit_ns = std::min(limit_s * 1e9, kMost);
  // One more than the limit: the time in seconds is rounded.
  if (!timed->run(placement, static_cast<std::int64_t>(limit_ns) + 1)) return std::optional<StepCost>{};
  const double seconds = static_cast<double>(timed->end_ns()) * 1e-9;
  if (seconds > limit_s) return std::optional<StepCost>{};
  return std::optional{StepCost{seconds, timed->bytes_over()}};
}

Result<Unit> Simulator::trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) {
  schedule.ops.clear();
  schedule.transfers.clear();
  schedule.memory.clear();
  const StepTables& tables = state_->tables;
  EMPLACE_TRY(check_devices(placement, tables.num_ops(), tables.num_devices()));
  state_->plain.run(placement, &schedule);
  state_->plain.write_result(out);
  return Unit{};
}

}  // namespace emplace
