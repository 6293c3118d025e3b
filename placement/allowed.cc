#include "placement/allowed.h"

#include <array>

#include "base/settings.h"

namespace emplace {

Result<Allowed> parse_allowed(std::string_view text) {
  Allowed allowed;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    constexpr std::array<std::string_view, 5> kWords{"none", "all", "recompute", "offload", "order"};
    EMPLACE_TRY_ASSIGN(const std::size_t word, find_word("kind of decision", text.substr(0, comma), kWords));
    allowed.recompute = allowed.recompute || word == 1 || word == 2;
    allowed.offload = allowed.offload || word == 1 || word == 3;
    allowed.order = allowed.order || word == 1 || word == 4;
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return allowed;
}

}  // namespace emplace
