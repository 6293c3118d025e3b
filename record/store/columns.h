#pragma once
/// Conversions between values and columns of the run database. Damaged values throw, as SQLite does.
/// Thread: any.

#include <SQLiteCpp/SQLiteCpp.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "record/store/packed.h"

namespace emplace::record {

/// Unsigned numbers are stored as signed SQLite integers with the same bits.
inline std::int64_t sql(std::uint64_t number) { return static_cast<std::int64_t>(number); }
inline std::uint64_t back(std::int64_t number) { return static_cast<std::uint64_t>(number); }

inline Bytes blob(const SQLite::Column& column) {
  const auto* first = static_cast<const std::byte*>(column.getBlob());
  return first == nullptr ? Bytes{} : Bytes(first, first + column.getBytes());
}

/// Numbers as text, separated by single spaces.
template <class T>
std::string joined(const std::vector<T>& numbers) {
  std::string text;
  for (const T number : numbers) text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

/// Parses the numbers of a joined() text.
template <class T>
std::vector<T> split(std::string_view text) {
  std::vector<T> numbers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    if (!numbers.empty() && *at == ' ') ++at;
    const auto [after, failed] = std::from_chars(at, end, numbers.emplace_back());
    if (failed != std::errc{} || (after != end && *after != ' '))
      throw std::runtime_error{"malformed list of numbers"};
    at = after;
  }
  return numbers;
}

/// A number whose column may be NULL, which represents NaN.
inline double real_of(const SQLite::Column& column) {
  return column.isNull() ? std::numeric_limits<double>::quiet_NaN() : column.getDouble();
}

/// The content of a compressed column.
inline Bytes unpacked(const SQLite::Column& column, std::string_view what) {
  auto bytes = decompress(blob(column), what);
  if (!bytes) throw std::runtime_error{bytes.error().context};
  return *std::move(bytes);
}

/// The placements of an episode or a heuristic.
inline Bytes placements_of(const SQLite::Column& column) {
  auto bytes = unpack_placements(blob(column), "placements");
  if (!bytes) throw std::runtime_error{bytes.error().context};
  return *std::move(bytes);
}

}  // namespace emplace::record
