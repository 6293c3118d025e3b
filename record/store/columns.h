#pragma once
/// Conversions between values and columns of the run database. Damaged values throw, as SQLite does.
/// Thread: any.

#include <SQLiteCpp/SQLiteCpp.h>

#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/fields.h"
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

/// A value as its column holds it: numbers, text, or bytes.
inline std::int64_t stored(std::integral auto number) { return static_cast<std::int64_t>(number); }
inline double stored(double number) { return number; }
inline const std::string& stored(const std::string& text) { return text; }
inline const Bytes& stored(const Bytes& bytes) { return bytes; }
template <std::integral T>
std::string stored(const std::vector<T>& numbers) {
  return joined(numbers);
}
template <std::floating_point T>
Bytes stored(const std::vector<T>& numbers) {
  const auto bytes = std::as_bytes(std::span{numbers});
  return {bytes.begin(), bytes.end()};
}

/// The inverse of stored(). NULL reads as 0, as an empty text or as no bytes.
template <std::integral T>
void read_column(const SQLite::Column& column, T& number) {
  number = static_cast<T>(column.getInt64());
}
inline void read_column(const SQLite::Column& column, double& number) { number = column.getDouble(); }
inline void read_column(const SQLite::Column& column, std::string& text) { text = column.getString(); }
inline void read_column(const SQLite::Column& column, Bytes& bytes) { bytes = blob(column); }
template <std::integral T>
void read_column(const SQLite::Column& column, std::vector<T>& numbers) {
  numbers = split<T>(column.getString());
}
template <std::floating_point T>
void read_column(const SQLite::Column& column, std::vector<T>& numbers) {
  const Bytes bytes = blob(column);
  numbers.resize(bytes.size() / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
}

/// Reads the columns of a row from left to right.
class RowReader {
 public:
  explicit RowReader(SQLite::Statement& row) : row_{row} {}
  template <class Value>
  RowReader& operator>>(Value& value) {
    if constexpr (HasFields<Value>) {
      value.visit_fields([&](const char*, auto& field) { *this >> field; });
    } else {
      read_column(next(), value);
    }
    return *this;
  }
  SQLite::Column next() { return row_.getColumn(at_++); }  ///< For a column of another form.

 private:
  SQLite::Statement& row_;
  int at_ = 0;
};

/// Binds the columns of a row from left to right. Bound values must exist until insert().
class RowWriter {
 public:
  explicit RowWriter(SQLite::Statement& insert) : insert_{insert} { insert_.reset(); }
  template <class Value>
  RowWriter& operator<<(const Value& value) {
    return bind(stored(value)), *this;
  }
  RowWriter& null() { return insert_.bind(++at_), *this; }
  /// Returns the number of rows inserted.
  int insert() { return insert_.exec(); }

 protected:
  void bind(std::int64_t number) { insert_.bind(++at_, number); }
  void bind(double number) { insert_.bind(++at_, number); }
  void bind(const std::string& text) { insert_.bindNoCopy(++at_, text); }
  void bind(std::string&& text) { insert_.bind(++at_, text); }
  void bind(const Bytes& bytes) { insert_.bindNoCopy(++at_, bytes.data(), static_cast<int>(bytes.size())); }
  void bind(Bytes&& bytes) { insert_.bind(++at_, bytes.data(), static_cast<int>(bytes.size())); }

 private:
  SQLite::Statement& insert_;
  int at_ = 0;
};

}  // namespace emplace::record
