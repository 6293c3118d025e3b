#pragma once
/// Names of the laboratory (lab/README.md). They are words of emplace that a build may lack.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace emplace {

/// What a name of the laboratory is.
enum class LabWord : std::uint8_t { kCommand, kFormat, kMethod, kModel };

/// The names of a kind that the laboratory adds. Any thread.
std::span<const std::string_view> lab_words(LabWord kind);

/// The error (kInvalid) for a name of the laboratory; nothing for any other. For a name that the list of its
/// kind does not have: then this build lacks the laboratory. `where` states the name with its kind: "method
/// 'towers-sync'". Any thread.
std::optional<Error> not_in_this_build(LabWord kind, std::string_view where, std::string_view name);

}  // namespace emplace
