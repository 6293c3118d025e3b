#pragma once
/// A row's hash in its last column, which detects changes.

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <string>

#include "base/file.h"

namespace emplace::record {

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

/// Binds the columns of a row from left to right, and the seal last.
class SealedRow {
 public:
  explicit SealedRow(SQLite::Statement& insert) : insert_{insert} { insert_.reset(); }
  template <class Value>
  SealedRow& operator<<(const Value& value) {
    hash_.add(value);
    bind(value);
    return *this;
  }
  /// Bound values must still exist. Returns the number of rows inserted.
  int insert() {
    insert_.bind(++at_, hash_.value());
    return insert_.exec();
  }

 private:
  void bind(std::int64_t number) { insert_.bind(++at_, number); }
  void bind(double number) { insert_.bind(++at_, number); }
  void bind(const std::string& text) { insert_.bindNoCopy(++at_, text); }
  void bind(const Bytes& bytes) { insert_.bindNoCopy(++at_, bytes.data(), static_cast<int>(bytes.size())); }
  SQLite::Statement& insert_;
  RowHash hash_;
  int at_ = 0;
};

}  // namespace emplace::record
