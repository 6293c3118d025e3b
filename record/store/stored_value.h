#pragma once
/// Numbers as SQLite returns them: it stores NaN as NULL and -0.0 as 0. Hashes cover the returned values,
/// so that every written row verifies.

#include <cmath>
#include <limits>

namespace emplace::record {

inline double as_stored(double number) {
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number + 0.0;
}

}  // namespace emplace::record
