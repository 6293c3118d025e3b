#pragma once
/// What columns of the run database hold, read back. Thread: any.

#include <SQLiteCpp/SQLiteCpp.h>

#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "record/packed.h"
#include "record/run_db_state.h"

namespace emplace::record {

/// The numbers of a text, one space between two. Throws, as SQLite does, if it is anything else.
template <class T>
std::vector<T> split(std::string_view text) {
  std::vector<T> numbers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    if (!numbers.empty() && *at == ' ') ++at;
    const auto [after, failed] = std::from_chars(at, end, numbers.emplace_back());
    if (failed != std::errc{} || (after != end && *after != ' '))
      throw std::runtime_error{"a list of numbers is damaged"};
    at = after;
  }
  return numbers;
}

/// A number that may be NULL: NaN was stored.
inline double real_of(const SQLite::Column& column) {
  return column.isNull() ? std::numeric_limits<double>::quiet_NaN() : column.getDouble();
}

/// What a compressed column holds. Throws, as SQLite does, if it is damaged.
inline Bytes unpacked(const SQLite::Column& column, std::string_view what) {
  auto bytes = decompress(blob(column), what);
  if (!bytes) throw std::runtime_error{bytes.error().context};
  return *std::move(bytes);
}

/// The placements of an episode, or of a baseline.
inline Bytes placements_of(const SQLite::Column& column) {
  auto bytes = unpack_placements(blob(column), "placements");
  if (!bytes) throw std::runtime_error{bytes.error().context};
  return *std::move(bytes);
}

}  // namespace emplace::record
