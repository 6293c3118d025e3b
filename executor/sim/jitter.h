#pragma once
/// Steps in worlds that are not exact: op times, copy times and ties are drawn at random around the model's.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/sim/simulator.h"

namespace emplace {

/// Noise on a step (docs/reference/measurement.md, "Jitter").
struct Jitter {
  /// Standard deviation of every op time and copy time, as a share of it; in [0, kMost].
  double times = 0.05;
  /// Whether what enters a queue at one moment enters it in random order.
  bool ties = true;
  std::uint64_t seed = 1;

  static constexpr double kMost = 0.25;  ///< The smallest factor is then 0.13.
};

/// Step times of one placement in several draws.
struct JitteredSteps {
  std::vector<double> steps_s;  ///< [draws] Ascending.
  std::uint32_t over = 0;       ///< Number of draws in which the placement does not fit in memory.
  std::int64_t bytes_over = 0;  ///< Largest sum of peaks above the caps in a draw.

  /// The smallest step time that is not exceeded in a share `q` of the draws (nearest rank).
  /// @pre 0 < q <= 1, and there is a draw.
  double quantile(double q) const {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(steps_s.size()) - 1e-9));
    return steps_s[std::clamp<std::size_t>(rank, 1, steps_s.size()) - 1];
  }
};

/// Simulates steps with noise. The noise of a draw is a function of seed, draw and op (or buffer and target)
/// alone: every placement gets the same, so differences between placements vary less than their times.
/// Thread: construct anywhere, then one thread at a time. `graph` and `devices` must outlive it.
class JitteredSimulator {
 public:
  JitteredSimulator(const OpGraph& graph, const DeviceSet& devices, Dispatch dispatch, const Jitter& jitter);
  ~JitteredSimulator();
  JitteredSimulator(const JitteredSimulator&) = delete;
  JitteredSimulator& operator=(const JitteredSimulator&) = delete;

  /// A step in draw `draw`. Errors: kInvalid if the length is not the number of ops or a device is out of
  /// range.
  Result<Unit> measure(std::span<const DeviceId> placement, std::uint32_t draw, Measurement& out);
  /// Steps in `draws` draws from `first`. Errors: those of measure(). @pre draws > 0.
  Result<JitteredSteps> measure_draws(std::span<const DeviceId> placement, std::uint32_t draws,
                                      std::uint32_t first = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emplace
