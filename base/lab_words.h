#pragma once
/// Names of the laboratory (lab/README.md). They are words of emplace that a build may lack.

#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace emplace {

/// The names of all methods, formats and commands that the laboratory adds. Any thread.
std::span<const std::string_view> lab_words();

/// The error (kInvalid) for a word of the laboratory that no list of this build has; nothing for any other
/// word. `where` names the word with its kind: "method 'towers-sync'". Any thread.
std::optional<Error> not_in_this_build(std::string_view where, std::string_view word);

}  // namespace emplace
