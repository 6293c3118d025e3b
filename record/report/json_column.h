#pragma once
/// Columns of the page's data.

#include <functional>
#include <nlohmann/json.hpp>

namespace emplace::record {

/// An array with one value per item: a member of it, or what `value` returns for it.
template <class Items, class Value>
nlohmann::json column(const Items& items, Value&& value) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& item : items) all.push_back(std::invoke(value, item));
  return all;
}

}  // namespace emplace::record
