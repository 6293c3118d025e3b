#include "base/lab_words.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace emplace {

std::span<const std::string_view> lab_words(LabWord kind) {
  static constexpr std::array<std::string_view, 1> kCommands{"train"}, kModels{"worlds"};
  static constexpr std::array<std::string_view, 3> kFormats{"pipedream", "doppler", "piper"};
  static constexpr std::array<std::string_view, 2> kMethods{"towers-sync", "towers-async"};
  switch (kind) {
    case LabWord::kCommand:
      return kCommands;
    case LabWord::kFormat:
      return kFormats;
    case LabWord::kMethod:
      return kMethods;
    case LabWord::kModel:
      return kModels;
  }
  EMPLACE_CHECK(false, "unknown kind of word");
}

std::optional<Error> not_in_this_build(LabWord kind, std::string_view where, std::string_view name) {
  const auto names = lab_words(kind);
  if (std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
  return invalid(where, "is not in this build", "configure it with -DEMPLACE_LAB=ON");
}

}  // namespace emplace
