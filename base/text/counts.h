#pragma once
/// Counts for people.

#include <cstdint>
#include <string>
#include <string_view>

namespace emplace {

std::string thousands(std::uint64_t number);                    ///< "13,581"
std::string plural(std::uint64_t count, std::string_view one);  ///< "1 placement", "2 placements"

}  // namespace emplace
