#include "graph/models/drawing.h"

#include <algorithm>
#include <cmath>

namespace emplace::models {

std::int64_t drawn(Rng& rng, std::int64_t low, std::int64_t high, std::int64_t step) {
  return low + step * rng.below(static_cast<std::uint32_t>((high - low) / step + 1));
}

double drawn_log(Rng& rng, double low, double high) {
  return std::clamp(low * std::exp(rng.uniform_double() * std::log(high / low)), low, high);
}

bool happens(Rng& rng, double probability) { return rng.uniform_double() < probability; }

std::vector<CellBlock> drawn_cell(Rng& rng, std::uint32_t blocks, std::uint32_t kinds) {
  std::vector<CellBlock> cell;
  for (std::uint32_t k = 0; k < blocks; ++k) {
    const std::uint32_t states = 2 + k, first = rng.below(states), second = rng.below(states - 1);
    CellBlock block{.inputs = {first, second + (second >= first ? 1u : 0u)}};
    for (CellOp& op : block.ops) op = static_cast<CellOp>(rng.below(kinds));
    cell.push_back(block);
  }
  return cell;
}

std::vector<CellBlock> drawn_reduction(Rng& rng, std::uint32_t blocks, std::uint32_t kinds) {
  std::vector<CellBlock> cell = drawn_cell(rng, blocks, kinds);
  cell.front().ops = {CellOp::kSepConv5, CellOp::kMaxPool3};
  return cell;
}

}  // namespace emplace::models
