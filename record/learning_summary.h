#pragma once
/// How a policy learned, by the updates of one start.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::record {

/// The policy in one update.
struct PolicySample {
  std::uint64_t update = 0;  ///< Number of the update, from 1.
  double entropy = 0;        ///< Mean per choice [nat].
  double gradient_norm = 0;  ///< Norm before clipping.
  double learning_rate = 0;
};

/// Updates in sequence whose gradient was practically 0.
struct Saturation {
  std::uint64_t first = 0, last = 0;  ///< Numbers of these updates.
  double entropy = 0;                 ///< Entropy in the last of them, mean per choice [nat].
};

/// Looks for a policy that no longer learns. Pure; one thread.
class SaturationWatch {
 public:
  /// In this number of updates in sequence, a gradient of practically 0 is no accident.
  static constexpr std::uint64_t kUpdates = 50;
  /// Below this norm a gradient is practically 0: Adam, whose epsilon is 1e-8, then moves no parameter by
  /// more than a hundredth of the learning rate.
  static constexpr double kGradient = 1e-10;

  /// Takes the next update. Returns true for the one with which the policy first counts as saturated.
  bool add(const PolicySample& sample);
  /// The first sequence of at least kUpdates; it grows until a gradient is larger.
  const std::optional<Saturation>& found() const { return found_; }

 private:
  std::optional<Saturation> found_;
  std::uint64_t first_ = 0, length_ = 0;  // The sequence in progress.
};

struct LearningSummary {
  std::uint64_t updates = 0;  ///< Number of the last update.
  /// Mean entropy per choice [nat] in each tenth of the updates; with fewer than ten updates, in each update.
  std::vector<double> entropy;
  std::optional<Saturation> saturation;
  std::string warning;  ///< saturation_text(), if it is saturated.
};

/// `cure`: what to change if the policy is saturated. @pre `samples` are in order. Pure; any thread.
LearningSummary summarise_learning(std::span<const PolicySample> samples, std::string_view cure);

/// "0.69 0.69 0.54 0.00 0": entropies with two decimals; one that is exactly 0 has none.
std::string entropy_text(std::span<const double> entropy);

/// Returns one line: where the gradient vanished, what that means, and the cure, without "warning: ".
/// `updates`: number of the last update. `cure`: what to change.
std::string saturation_text(const Saturation& saturation, std::uint64_t updates, std::string_view cure);

}  // namespace emplace::record
