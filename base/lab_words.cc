#include "base/lab_words.h"

#include <algorithm>
#include <array>

namespace emplace {

std::span<const std::string_view> lab_words() {
  static constexpr std::array<std::string_view, 7> kWords{"doppler",     "pipedream", "piper", "towers-async",
                                                          "towers-sync", "train",     "worlds"};
  return kWords;
}

std::optional<Error> not_in_this_build(std::string_view where, std::string_view word) {
  const auto words = lab_words();
  if (std::find(words.begin(), words.end(), word) == words.end()) return std::nullopt;
  return invalid(where, "is not in this build", "configure it with -DEMPLACE_LAB=ON");
}

}  // namespace emplace
