#include "lab/formats/node_order.h"

#include <functional>
#include <queue>

namespace emplace {

std::optional<std::vector<std::uint32_t>> node_order(
    std::size_t n, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges) {
  std::vector<std::vector<std::uint32_t>> readers(n);
  std::vector<std::size_t> missing(n, 0);
  for (const auto& [from, to] : edges) readers[from].push_back(to), ++missing[to];
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t i = 0; i < n; ++i)
    if (missing[i] == 0) ready.push(i);
  std::vector<std::uint32_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::uint32_t reader : readers[order.back()])
      if (--missing[reader] == 0) ready.push(reader);
  }
  if (order.size() != n) return std::nullopt;
  return order;
}

}  // namespace emplace
