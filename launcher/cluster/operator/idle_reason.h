#pragma once
/// Why a run measures nothing at the moment, for people.

#include <string>

#include "messages/status.h"

namespace emplace::launcher {

/// A head or a node that was silent for this long is shown as such [s]: the head answers within milliseconds,
/// and three heartbeats take half of it.
inline constexpr double kSilent_s = 3;

/// Returns "" while placements are measured, otherwise a sentence "nothing runs because …" without a full
/// stop; control characters of names are replaced. `age_s`: time since the head delivered this status [s].
/// Pure; any thread.
std::string idle_reason(const messages::StatusDelivered& status, double age_s = 0);

}  // namespace emplace::launcher
