#pragma once
/// Tables with one row per rule and the op types that it holds for.

#include <initializer_list>
#include <span>
#include <string_view>
#include <unordered_map>

#include "base/text/word_list.h"

namespace emplace {

/// Finds the row of an op type, of which `Row::types` has all, separated by spaces. The rows must outlive it.
template <class Row>
class RowsByType {
 public:
  explicit RowsByType(std::initializer_list<std::span<const Row>> tables) {
    for (const std::span<const Row> table : tables)
      for (const Row& row : table)
        for (const std::string_view type : words_in(row.types)) rows_.emplace(type, &row);
  }
  /// Null if no row has the type.
  const Row* find(std::string_view type) const {
    const auto it = rows_.find(type);
    return it == rows_.end() ? nullptr : it->second;
  }

 private:
  std::unordered_map<std::string_view, const Row*> rows_;
};

}  // namespace emplace
