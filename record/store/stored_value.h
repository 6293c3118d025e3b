#pragma once
/// Numbers as SQLite gives them back. It stores NaN as NULL and -0.0 as 0; hashes cover what is read back, so
/// that every row that was written verifies.

#include <cmath>
#include <limits>

namespace emplace::record {

inline double as_stored(double number) {
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number + 0.0;
}

}  // namespace emplace::record
