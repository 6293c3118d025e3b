#include "base/text/counts.h"

namespace emplace {

std::string thousands(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string plural(std::uint64_t count, std::string_view one) {
  return thousands(count) + " " + std::string{one} + (count == 1 ? "" : "s");
}

}  // namespace emplace
