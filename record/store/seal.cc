#include "record/store/seal.h"

#include <xxhash.h>

namespace emplace::record {

void RowHash::mix(char kind, const void* data, std::size_t size) {
  const std::uint64_t head[2]{static_cast<std::uint64_t>(kind), size};
  hash_ = XXH3_64bits_withSeed(head, sizeof head, hash_);
  hash_ = XXH3_64bits_withSeed(size == 0 ? "" : data, size, hash_);
}

void RowHash::add(double number) {
  const double stored = as_stored(number);
  if (std::isnan(stored)) return mix('b', nullptr, 0);  // NULL represents NaN.
  mix('f', &stored, sizeof stored);
}

void RowHash::add(const SQLite::Column& column) {
  if (column.isInteger()) {
    add(static_cast<std::int64_t>(column.getInt64()));
  } else if (column.isFloat()) {
    add(column.getDouble());
  } else if (column.isText()) {
    mix('t', column.getText(), static_cast<std::size_t>(column.getBytes()));
  } else {  // Bytes; empty ones may be read back as NULL.
    const void* const data = column.getBlob();
    mix('b', data, static_cast<std::size_t>(column.getBytes()));
  }
}

void RowHash::add(SQLite::Statement& row, int columns) {
  for (int c = 0; c < columns; ++c) add(row.getColumn(c));
}

}  // namespace emplace::record
