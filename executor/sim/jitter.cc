#include "executor/sim/jitter.h"

#include <array>
#include <numbers>
#include <utility>

#include "base/rng.h"
#include "executor/sim/shared/step_tables.h"
#include "executor/sim/whole/simulated_step.h"

namespace emplace {
namespace {

using namespace simulated;

/// What a random number is for.
enum class Use : std::uint32_t { kOpTime = 1, kCopyTime, kOpTie, kCopyTie };

/// The random numbers of one draw, each a function of its use and position.
class Noise {
 public:
  explicit Noise(const Jitter& jitter) : jitter_{jitter} {}
  void set_draw(std::uint32_t draw) { draw_ = draw; }

  /// A time with noise [ns].
  std::int64_t time(Use use, std::uint32_t at, std::uint32_t target, std::int64_t ns) const {
    if (jitter_.times == 0) return ns;
    // The sum of four uniform numbers has mean 2 and variance 1/3. It needs no function of a library, so
    // every machine draws the same.
    std::uint64_t sum = 0;
    for (const std::uint32_t word : block(use, at, target)) sum += word;
    const double z = std::numbers::sqrt3 * ((static_cast<double>(sum) + 2) * 0x1p-32 - 2);
    return std::llround(static_cast<double>(ns) * (1 + jitter_.times * z));
  }
  /// Rank of an item among those that enter a queue at the same moment.
  std::uint64_t rank(Use use, std::uint32_t at, std::uint32_t target) const {
    const auto words = block(use, at, target);
    return std::uint64_t{words[0]} << 32 | words[1];
  }

 private:
  std::array<std::uint32_t, 4> block(Use use, std::uint32_t at, std::uint32_t target) const {
    const auto stream = static_cast<std::uint32_t>(Purpose::kSimulation) | static_cast<std::uint32_t>(use)
                                                                               << 16;
    return philox4x32({at, stream, draw_, target}, {static_cast<std::uint32_t>(jitter_.seed),
                                                    static_cast<std::uint32_t>(jitter_.seed >> 32)});
  }

  const Jitter jitter_;
  std::uint32_t draw_ = 0;
};

class JitteredStep final : public WholeStep<JitteredStep> {
 public:
  JitteredStep(const StepTables& tables, Dispatch dispatch, const Jitter& jitter)
      : WholeStep{tables, dispatch},
        noise_{jitter},
        entered_(tables.num_devices()),
        ties_{jitter.ties},
        fifo_{dispatch == Dispatch::kFifo} {}

  void run(std::span<const DeviceId> placement, std::uint32_t draw) {
    noise_.set_draw(draw);
    start_step(placement.data());
    run_rounds();
  }

 private:
  friend class StepLoop<JitteredStep>;
  /// Numbers of items that entered the queues of a device in this round.
  struct Entered {
    std::uint32_t copies = 0, ops = 0;
  };

  std::int64_t op_ns(std::uint32_t op, std::int64_t ns) const { return noise_.time(Use::kOpTime, op, 0, ns); }
  std::int64_t copy_ns(const Copy& copy, std::int64_t ns) const {
    return noise_.time(Use::kCopyTime, copy.buffer, copy.target, ns);
  }
  void op_ready(std::uint32_t, std::uint32_t d) {
    if (ties_ && fifo_) note(d, &Entered::ops);
  }
  void op_started(std::uint32_t) {}
  void op_ended(std::uint32_t) {}
  void copy_queued(std::uint32_t d, const Copy&) {
    if (ties_) note(d, &Entered::copies);
  }
  void copy_started(std::uint32_t) {}
  void copy_ended(const Copy&) {}
  static bool round_started() { return false; }

  void note(std::uint32_t d, std::uint32_t Entered::*count) {
    if (entered_[d].copies == 0 && entered_[d].ops == 0) changed_.push_back(d);
    ++(entered_[d].*count);
  }
  /// Gives what entered a queue in this round its random order.
  void round_ended() {
    for (const std::uint32_t d : changed_) {
      const Entered entered = std::exchange(entered_[d], {});
      sort(lanes_[d].copies.last(entered.copies),
           [&](const Copy& copy) { return noise_.rank(Use::kCopyTie, copy.buffer, copy.target); });
      sort(lanes_[d].fifo.last(entered.ops),
           [&](std::uint32_t op) { return noise_.rank(Use::kOpTie, op, 0); });
    }
    changed_.clear();
  }
  template <class T, class Rank>
  static void sort(std::span<T> items, Rank rank) {
    if (items.size() < 2) return;
    std::ranges::sort(items, {}, rank);
  }

  Noise noise_;
  std::vector<Entered> entered_;        // [devices]
  std::vector<std::uint32_t> changed_;  // Devices with an entry that is not zero.
  const bool ties_, fifo_;
};

}  // namespace

struct JitteredSimulator::State {
  State(const OpGraph& graph, const DeviceSet& devices, Dispatch dispatch, const Jitter& jitter)
      : tables{graph, devices}, step{tables, dispatch, jitter} {}
  const StepTables tables;
  JitteredStep step;
  Measurement measured;
};

JitteredSimulator::JitteredSimulator(const OpGraph& graph, const DeviceSet& devices, Dispatch dispatch,
                                     const Jitter& jitter)
    : state_{std::make_unique<State>(graph, devices, dispatch, jitter)} {}
JitteredSimulator::~JitteredSimulator() = default;

Result<Unit> JitteredSimulator::measure(std::span<const DeviceId> placement, std::uint32_t draw,
                                        Measurement& out) {
  const StepTables& tables = state_->tables;
  EMPLACE_TRY(check_devices(placement, tables.num_ops(), tables.num_devices()));
  state_->step.run(placement, draw);
  state_->step.write_result(out);
  return Unit{};
}

Result<JitteredSteps> JitteredSimulator::measure_draws(std::span<const DeviceId> placement,
                                                       std::uint32_t draws, std::uint32_t first) {
  JitteredSteps steps;
  Measurement& measured = state_->measured;
  for (std::uint32_t draw = 0; draw < draws; ++draw) {
    EMPLACE_TRY(measure(placement, first + draw, measured));
    steps.steps_s.push_back(measured.step_time_s);
    if (!measured.valid) ++steps.over;
    steps.bytes_over = std::max(steps.bytes_over, measured.bytes_over);
  }
  std::ranges::sort(steps.steps_s);
  return steps;
}

}  // namespace emplace
