#pragma once
/// The values that a measurement may have. An executor lives in another process, perhaps with another owner;
/// what it says is recorded, hashed, shown to people and learned from. Whoever takes a result from outside
/// checks it here first.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "messages/placement_measured.h"

namespace emplace::messages {

/// Beyond every machine, and so small that no sum or square of them overflows.
inline constexpr double kLongestMeasuredS = 1e9;
inline constexpr std::int64_t kMostMeasuredBytes = std::int64_t{1} << 53;  ///< A double holds it exactly.
inline constexpr std::uint32_t kMostSamples = 4'096;                       ///< Timed steps of one placement.
inline constexpr std::size_t kLongestName = 255;   ///< [bytes] Of a host, an executor, a kind.
inline constexpr std::size_t kLongestText = 1000;  ///< [bytes] Of a failure or an error.

/// Gives each value the one form in which it is recorded: 0 for -0.0; failures and the error as UTF-8 without
/// control characters, cut to kLongestText. Doing it twice changes nothing more.
void canonicalise(PlacementMeasured& measured);
void canonicalise(EpisodeMeasured& measured);

/// What is wrong with the values, as one phrase: "step_time_s of placement 3 is not finite"; empty: nothing.
/// Placements count from 0. Of an inconsistent message (consistent()) it says that and no more. Of a lease
/// whose executor could not measure (`error`) nothing else is looked at.
std::string wrong_values(const PlacementMeasured& measured);
std::string wrong_values(const EpisodeMeasured& measured);

/// What is wrong with the name of a host, an executor or a kind: `what` and why; empty: nothing.
std::string wrong_name(std::string_view what, std::string_view name);

/// True if every number of an update is one.
bool all_finite(const UpdateApplied& update);

/// A text of any origin as UTF-8 without control characters, at most kLongestText bytes.
std::string harmless_text(std::string_view text);

}  // namespace emplace::messages
