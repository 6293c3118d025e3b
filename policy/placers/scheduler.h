#pragma once
/// A list scheduler that learns, for any graph and any machine: units get their devices one after the other,
/// in the order of their first kernels. A unit's embedding comes from its neighbours in the graph; a small
/// network then scores all open devices together.
///   h0 = relu(W0 x + b0),   h <- h + relu(Ws h + Wp mean(h of sources) + Wt mean(h of targets) + b)
///   c = tanh(We h + b1)
///   log p(d) = log softmax_d (f_d · (v + A c))
/// with unit features x and features f_d of the unit on device d in the partial schedule. Means over sources
/// and targets are weighted by traffic. The network has several heads, each with a v and A of its own: rules
/// that differ, of which the best one for a graph and machine counts. Some place from nothing, the others
/// improve a placement. Each v starts at a rule of list scheduling and A at 0, so an untrained policy is a
/// set of list schedulers. No parameter depends on the graph or on the devices, and renaming devices renames
/// the choices.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "policy/parameters.h"
#include "policy/placers/schedule_walk.h"
#include "policy/placers/schedule_world.h"

namespace emplace::policy {

struct SchedulerShape {
  Eigen::Index embedding = 32;
  Eigen::Index code = 8;   ///< Size of c.
  std::size_t rounds = 3;  ///< Rounds of message passing, with shared weights.
  /// Heads that place from nothing, and heads that improve a placement; the latter have the higher numbers.
  std::size_t founders = 8, improvers = 4;
  std::size_t heads() const { return founders + improvers; }
};

/// How placements are drawn.
struct SchedulerDraw {
  Rng* rng = nullptr;  ///< Null: the most likely device each time.
  std::size_t head = 0;
  const ScheduleStart* start = nullptr;  ///< Placement to improve; null: none.
  /// [units] Devices to take where they are open, kNowhere for none; empty: none.
  std::span<const std::uint8_t> forced = {};
  std::span<const std::uint8_t> drawn = {};  ///< [units] 0: not in the trace or log p; empty: all are.
  std::span<const double> reserved = {};     ///< [devices] Memory to keep free [B]; empty: none.
  DeviceMask devices = DeviceMask{}.set();   ///< Only these are open where they suffice.
  std::span<const float> change = {};        ///< [features] Added to v; empty: nothing.
  std::uint32_t leaves = kNoUnit;            ///< Unit that must leave its device in `start`, if it can.

  static constexpr std::uint32_t kNoUnit = 0xffffffff;
};

/// Choices between at least two devices, in order; what the gradient needs.
struct SchedulerTrace {
  std::size_t head = 0;
  std::uint32_t leaves = SchedulerDraw::kNoUnit;
  std::vector<float> features;          ///< [kFeatures, scored]
  std::vector<std::uint32_t> begin{0};  ///< [choices + 1] First scored pair of each choice.
  std::vector<std::uint32_t> unit;      ///< [choices]
  std::vector<std::uint32_t> chosen;    ///< [choices] Scored pair that was taken.
  std::vector<float> probability;       ///< [scored]
  std::vector<std::uint8_t> device;     ///< [scored]
  std::size_t choices() const { return unit.size(); }
};

struct SchedulerDrawn {
  std::vector<std::uint8_t> device_of_unit;  ///< [units] kNowhere for units without kernels.
  double log_probability = 0;                ///< [nat]
  double estimated_s = 0;                    ///< Step time of the schedule.
  bool overflowed = false;
  bool tight = false;  ///< Whether memory closed a device to a unit.
};

/// Network of the policy. Thread: const members from any thread.
class SchedulerNetwork {
 public:
  /// Adds its matrices to `store`.
  SchedulerNetwork(ParameterStore& store, SchedulerShape shape, std::uint64_t seed);

  /// Activations of message passing; the last one is the embedding.
  struct Embedded {
    std::vector<Matrix> h;     // [rounds + 1] of [embedding, units]
    std::vector<Matrix> gate;  // [rounds + 1] Results of the ReLUs.
    Matrix code;               // [code, units]
  };
  Embedded embed(const ParameterStore& store, const ScheduleWorld& world) const;

  /// Draws one placement; appends to `trace` unless null.
  SchedulerDrawn draw(const ParameterStore& store, const ScheduleWorld& world, const Embedded& embedded,
                      const SchedulerDraw& how, SchedulerTrace* trace) const;

  /// [devices, units] Probability of each device, the mean over the founding heads, when all units with an
  /// earlier first kernel are where `device_of_unit` has them. Columns of units without a choice, and of
  /// units whose device has no room for them, are 0. Costs little more than one draw.
  Matrix opinion(const ParameterStore& store, const ScheduleWorld& world, const Embedded& embedded,
                 std::span<const std::uint8_t> device_of_unit) const;

  /// Gradients with respect to the embedding, summed over traces of one world.
  struct Flow {
    Matrix h;  // [embedding, units]
  };
  /// Adds to the gradients of `store` those of
  ///   mean over choices of  -advantage · log p(chosen) - entropy · H
  /// and to `flow`. Returns the sum of -log p over the choices.
  double accumulate(ParameterStore& store, const Embedded& embedded, const SchedulerTrace& trace,
                    float advantage, float entropy, Flow& flow) const;
  const SchedulerShape& shape() const { return shape_; }
  /// v [features, heads] and A [features x code, heads].
  std::array<ParameterId, 2> outputs() const { return {v_, a_}; }
  /// Ends the backward pass of a world.
  void finish(ParameterStore& store, const ScheduleWorld& world, const Embedded& embedded, Flow flow) const;

 private:
  /// Sum over neighbours of weight · h; `transposed` is the backward pass.
  enum class Side : std::uint8_t { kSources, kTargets };
  static Matrix gathered(const ScheduleWorld& world, const Matrix& h, Side side, bool transposed);

  const SchedulerShape shape_;
  ParameterId w0_, b0_, ws_, wp_, wt_, b_, we_, b1_, a_, v_;
};

}  // namespace emplace::policy
