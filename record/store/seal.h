#pragma once
/// A row's hash in its last column, which detects changes.

#include <SQLiteCpp/SQLiteCpp.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/file.h"
#include "record/store/columns.h"

namespace emplace::record {

/// A number as SQLite returns it: it stores NaN as NULL and -0.0 as 0. Hashes cover the returned values, so
/// that every written row verifies.
inline double as_stored(double number) {
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number + 0.0;
}

/// XXH3-64 over a row's values, chained. Covers the values that columns return, not their storage.
class RowHash {
 public:
  void add(std::int64_t number) { mix('i', &number, sizeof number); }
  void add(double number);
  /// As programs up to 0.1 hashed: includes NaN and the sign of zero, which SQLite does not store.
  void add_bits(double number) { mix('f', &number, sizeof number); }
  void add(const std::string& text) { mix('t', text.data(), text.size()); }
  void add(const Bytes& bytes) { mix('b', bytes.data(), bytes.size()); }
  void add(const SQLite::Column& column);
  /// Adds the first `columns` columns of the current row.
  void add(SQLite::Statement& row, int columns);
  std::int64_t value() const { return static_cast<std::int64_t>(hash_); }

 private:
  void mix(char kind, const void* data, std::size_t size);
  std::uint64_t hash_ = 0;
};

/// A row whose last column is its seal.
class SealedRow : private RowWriter {
 public:
  using RowWriter::RowWriter;
  template <class Value>
  SealedRow& operator<<(const Value& value) {
    if constexpr (HasFields<Value>) {
      value.visit_fields([&](const char*, const auto& field) { *this << field; });
    } else {
      auto&& column = stored(value);
      hash_.add(column);
      bind(std::forward<decltype(column)>(column));
    }
    return *this;
  }
  /// Returns the number of rows inserted.
  int insert() { return bind(hash_.value()), RowWriter::insert(); }

 private:
  RowHash hash_;
};

}  // namespace emplace::record
