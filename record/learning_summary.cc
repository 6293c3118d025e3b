#include "record/learning_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

#include "base/text/counts.h"

namespace emplace::record {
namespace {

constexpr std::size_t kTenths = 10;
/// Below it all choices of a policy are practically certain [nat].
constexpr double kCertain = 0.01;

}  // namespace

bool SaturationWatch::add(const PolicySample& sample) {
  // A learner outside of the program that reports no gradient reports no learning rate either.
  if (!(sample.gradient_norm < kGradient) || !(sample.learning_rate > 0)) {
    length_ = 0;
    return false;
  }
  if (length_++ == 0) first_ = sample.update;
  if (found_ && found_->first == first_) {
    found_->last = sample.update;
    found_->entropy = sample.entropy;
  }
  if (found_ || length_ < kUpdates) return false;
  found_ = {first_, sample.update, sample.entropy};
  return true;
}

LearningSummary summarise_learning(std::span<const PolicySample> samples, std::string_view cure) {
  LearningSummary summary;
  SaturationWatch watch;
  for (const PolicySample& sample : samples) watch.add(sample);
  summary.saturation = watch.found();
  if (!samples.empty()) summary.updates = samples.back().update;
  if (summary.saturation) summary.warning = saturation_text(*summary.saturation, summary.updates, cure);
  const std::size_t parts = std::min(kTenths, samples.size());
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = part * samples.size() / parts, end = (part + 1) * samples.size() / parts;
    double sum = 0;
    for (const PolicySample& sample : samples.subspan(begin, end - begin)) sum += sample.entropy;
    summary.entropy.push_back(sum / static_cast<double>(end - begin));
  }
  return summary;
}

std::string entropy_text(std::span<const double> entropy) {
  std::string text;
  for (const double one : entropy)
    text += (text.empty() ? "" : " ") + (one == 0 ? std::string{"0"} : fmt::format("{:.2f}", one));
  return text;
}

std::string saturation_text(const Saturation& saturation, std::uint64_t updates, std::string_view cure) {
  const bool certain = saturation.entropy < kCertain;
  const std::string_view what = certain ? "the policy is saturated" : "the policy does not learn";
  const std::string why =
      certain ? "" : fmt::format(" at an entropy of {:.2f} nat per choice", saturation.entropy);
  const std::string_view so =
      saturation.last < updates ? "it learned nothing in them"
      : certain                 ? "it learns nothing more"
                                : "its logits are at their bound or all its placements have the same reward";
  return fmt::format("{}: the gradient was below {:g} in updates {} to {}{}, so {}; {}", what,
                     SaturationWatch::kGradient, thousands(saturation.first), thousands(saturation.last), why,
                     so, cure);
}

}  // namespace emplace::record
