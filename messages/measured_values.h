#pragma once
/// Validation of measurements. An executor runs in another process, perhaps under another owner; its values
/// are recorded, hashed, displayed and learned from. Code that receives results from outside validates them
/// here first.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "messages/placement_measured.h"

namespace emplace::messages {

/// Above any real step time, and small enough that sums and squares do not overflow.
inline constexpr double kLongestMeasuredS = 1e9;
inline constexpr std::int64_t kMaxMeasuredBytes = std::int64_t{1}
                                                  << 53;  ///< Limit [bytes]; exact in a double.
inline constexpr std::uint32_t kMaxSamples = 4'096;       ///< Limit on timed steps of one placement.
inline constexpr std::size_t kLongestName = 255;   ///< Limit for a host, an executor or a kind [bytes].
inline constexpr std::size_t kLongestText = 1000;  ///< Limit for a failure or an error [bytes].

/// Converts values to the canonical form that is recorded: 0 for -0.0; failures and the error as UTF-8
/// without control characters, truncated to kLongestText. Idempotent.
void canonicalise(PlacementMeasured& measured);
void canonicalise(EpisodeMeasured& measured);

/// The first invalid value, as a phrase: "step_time_s of placement 3 is not finite"; empty: all are valid.
/// Placements count from 0. An inconsistent message (see consistent()) yields only that problem. If the
/// executor could not measure (`error` is set), no other field is checked.
std::string wrong_values(const PlacementMeasured& measured);
std::string wrong_values(const EpisodeMeasured& measured);

/// The problem with the name of a host, an executor or a kind, starting with `what`; empty: valid.
std::string wrong_name(std::string_view what, std::string_view name);

/// True if every number of the update is finite.
bool all_finite(const UpdateApplied& update);

/// Any text as UTF-8 without control characters, at most kLongestText bytes.
std::string harmless_text(std::string_view text);

}  // namespace emplace::messages
