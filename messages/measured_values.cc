#include "messages/measured_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/text/words.h"
#include "placement/measurement.h"

namespace emplace::messages {
namespace {

constexpr auto kLastLabel = static_cast<std::uint8_t>(MeasurementLabel::kTorch);

std::string of_placement(std::string_view what, std::size_t placement, std::string_view why) {
  return std::string{what} + " of placement " + std::to_string(placement) + " " + std::string{why};
}

/// Why a number is not a valid time; empty: it is valid.
std::string_view wrong_time(double seconds) {
  if (!std::isfinite(seconds)) return "is not finite";
  if (seconds < 0) return "is negative";
  return seconds > kLongestMeasuredS ? "is longer than 1e9 s" : "";
}
std::string_view wrong_bytes(std::int64_t bytes) {
  if (bytes < 0) return "is negative";
  return bytes > kMaxMeasuredBytes ? "is above 2^53" : "";
}
std::string_view wrong_share(double share) {
  if (!std::isfinite(share)) return "is not finite";
  return share < 0 || share > 1 ? "is outside [0, 1]" : "";
}
std::string_view wrong_flag(std::uint8_t flag) { return flag > 1 ? "is neither 0 nor 1" : ""; }
std::string_view wrong_label(std::uint8_t label) { return label > kLastLabel ? "is not a known label" : ""; }
std::string_view wrong_samples(std::uint32_t count) { return count > kMaxSamples ? "is above 4096" : ""; }

/// The first invalid value, as a phrase; empty: all are valid. One placement has `per` values.
template <class Values, class Wrong>
std::string first_wrong(std::string_view what, const Values& values, std::size_t per, Wrong&& wrong) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string_view why = wrong(values[i]);
    if (!why.empty()) return of_placement(what, i / per, why);
  }
  return "";
}

std::string wrong_columns(const MeasurementColumns& m) {
  const std::size_t devices = std::max<std::size_t>(m.num_devices, 1);
  std::string why = first_wrong("valid", m.valid, 1, wrong_flag);
  const auto then = [&](std::string_view what, const auto& values, std::size_t per, auto&& wrong) {
    if (why.empty()) why = first_wrong(what, values, per, wrong);
  };
  then("step_time_s", m.step_time_s, 1, wrong_time);
  then("bytes_over", m.bytes_over, 1, wrong_bytes);
  then("bytes_moved", m.bytes_moved, 1, wrong_bytes);
  then("peak_bytes", m.peak_bytes, devices, wrong_bytes);
  then("busy_s", m.busy_s, devices, wrong_time);
  then("synthetic_share", m.synthetic_shares, 1, wrong_share);
  then("label", m.labels, 1, wrong_label);
  then("sample_count", m.sample_counts, 1, wrong_samples);
  for (std::size_t i = 0; i < m.valid.size() && why.empty(); ++i)
    if (m.valid[i] != 0 && !(m.step_time_s[i] > 0))
      why = of_placement("step_time_s", i, "is 0 although the placement is valid");
  std::span<const double> samples = m.samples_s;
  for (std::size_t i = 0; i < m.sample_counts.size() && why.empty(); ++i) {
    for (const double sample : samples.first(m.sample_counts[i]))
      if (why.empty() && !wrong_time(sample).empty()) why = of_placement("a sample", i, wrong_time(sample));
    samples = samples.subspan(m.sample_counts[i]);
  }
  return why;
}

std::string wrong_wall(double wall_s) {
  const std::string_view why = wrong_time(wall_s);
  return why.empty() ? "" : "wall_s " + std::string{why};
}

/// Replaces -0.0 by 0; every other value stays.
void clear_negative_zero(double& value) {
  if (value == 0) value = 0;
}
void clear_negative_zero(std::vector<double>& values) {
  for (double& value : values) clear_negative_zero(value);
}

void canonicalise_columns(MeasurementColumns& m) {
  clear_negative_zero(m.step_time_s);
  clear_negative_zero(m.busy_s);
  clear_negative_zero(m.samples_s);
  clear_negative_zero(m.synthetic_shares);
  for (std::string& failure : m.failures) failure = harmless_text(failure);
}

bool is_harmless(std::string_view text) {
  return text.size() <= kLongestText && is_utf8(text) && printable(text, kLongestText) == text;
}

}  // namespace

std::string harmless_text(std::string_view text) {
  if (is_harmless(text)) return std::string{text};
  // Room for the last escape, the truncation mark, and a character split by the cut.
  constexpr std::size_t kRoom = 16;
  const std::string valid = to_valid_utf8(text.substr(0, kLongestText));
  return to_valid_utf8(printable(valid, kLongestText - kRoom));
}

std::string wrong_name(std::string_view what, std::string_view name) {
  if (name.size() > kLongestName) return std::string{what} + " is longer than 255 bytes";
  if (!is_utf8(name) || printable(name, kLongestName + 1) != name)
    return std::string{what} + " contains unprintable bytes";
  return "";
}

bool all_finite(const UpdateApplied& u) {
  const auto finite = [](auto value) { return std::isfinite(value); };
  return std::all_of(u.advantages.begin(), u.advantages.end(), finite) && finite(u.staleness_mean) &&
         finite(u.gradient_norm) && finite(u.loss) && finite(u.entropy) && finite(u.learning_rate) &&
         finite(u.wall_s) && finite(u.log_probability) && finite(u.divergence);
}

void canonicalise(PlacementMeasured& measured) {
  canonicalise_columns(measured);
  clear_negative_zero(measured.wall_s);
  if (!measured.error.empty()) measured.error = harmless_text(measured.error);
}

void canonicalise(EpisodeMeasured& measured) {
  canonicalise_columns(measured);
  clear_negative_zero(measured.wall_s);
}

std::string wrong_values(const PlacementMeasured& m) {
  if (!m.error.empty()) return "";
  if (!m.consistent()) return "columns differ in length";
  std::string why = wrong_columns(m);
  if (why.empty()) why = wrong_wall(m.wall_s);
  for (const auto& [what, name] :
       {std::pair{"executor", &m.executor}, {"executor_kind", &m.executor_kind}, {"host", &m.host}})
    if (why.empty()) why = wrong_name(what, *name);
  return why;
}

std::string wrong_values(const EpisodeMeasured& m) {
  if (!m.consistent()) return "columns differ in length";
  if (m.count == 0) return "has no placements";
  if (m.executors.empty()) return "has no executors";
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (m.episode > kMax || m.policy_version > kMax || m.placement_id > kMax - m.count)
    return "ids exceed 2^63 - 1";
  std::string why = wrong_columns(m);
  if (why.empty()) why = wrong_wall(m.wall_s);
  if (why.empty()) why = wrong_name("graph_sha256", m.graph_sha256);
  for (std::size_t i = 0; i < m.executors.size() && why.empty(); ++i) {
    why = wrong_name("executor", m.executors[i]);
    if (why.empty()) why = wrong_name("executor_kind", m.executor_kinds[i]);
    if (why.empty()) why = wrong_name("host", m.hosts[i]);
  }
  return why;
}

}  // namespace emplace::messages
