#include "launcher/placing/dear_ops.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/inputs/costs_json.h"
#include "launcher/placing/results.h"

namespace emplace::launcher {
namespace {

/// Returns "product 4096 x 1024 x 4096, bf16", with "2 x" before it if there are two of them.
std::string kernel_text(const KernelShape& shape) {
  std::string sizes;
  for (const double size : shape.at)
    if (size > 1 || &size == shape.at.data())
      sizes += fmt::format("{}{:.0f}", sizes.empty() ? "" : " x ", size);
  return fmt::format("{}{} {}, {}", shape.count > 1 ? fmt::format("{} x ", shape.count) : "",
                     word_of(shape.kind), sizes, word_of(shape.arithmetic));
}

/// The share of the device's peaks that an op reaches; 0: unknown.
double utilisation(const OpTime& cost) { return cost.us > 0 ? cost.floor_us / cost.us : 0; }

}  // namespace

DearOps::DearOps(const Inputs& inputs, const Placement& placement, std::vector<OpId> ops, std::size_t most)
    : inputs_{inputs}, placement_{placement}, shapes_{inputs.graph} {
  PlacementCosts costs{inputs.graph, inputs.devices};
  step_ = costs.of(placement);
  for (std::uint32_t i = 0; i < placement.size(); ++i) all_us_ += costs.of(OpId{i}, placement[i]).us;
  if (ops.empty()) {
    for (std::uint32_t i = 0; i < placement.size(); ++i) ops.push_back(OpId{i});
  }
  for (const OpId op : ops)
    if (const OpTime cost = costs.of(op, placement[index(op)]); cost.us > 0) rows_.push_back({op, cost});
  std::ranges::stable_sort(rows_, std::greater{}, [](const Row& row) { return row.cost.us; });
  not_shown_ = rows_.size() - std::min(rows_.size(), most);
  rows_.resize(rows_.size() - not_shown_);
}

std::string DearOps::kernels_of(OpId op) const {
  std::string text;
  for (const KernelShape& shape : shapes_.of(op)) text += (text.empty() ? "" : " and ") + kernel_text(shape);
  return text;
}

std::string DearOps::as_text() const {
  std::vector<std::vector<std::string>> table{
      {"op", "type", "on", "time", "of all", "of peak", "costs", "error", "kernel"}};
  for (const Row& row : rows_) {
    const Device& device = inputs_.devices[placement_[index(row.op)]];
    const bool known = row.cost.floor_us > 0;
    const bool judged = row.cost.trust.error > 0;
    table.push_back({printable(inputs_.graph.name(row.op), 48),
                     printable(inputs_.graph.type_name(row.op), 32), printable(device.name, 20),
                     format_seconds(row.cost.us * 1e-6), fmt::format("{:.1f} %", 100 * row.cost.us / all_us_),
                     known ? fmt::format("{:.0f} %", 100 * utilisation(row.cost)) : "-",
                     std::string{word_of(row.cost.trust.source)},
                     judged ? fmt::format("{:.0f} %", 100 * row.cost.trust.error) : "-", kernels_of(row.op)});
  }
  std::string text;
  for (const std::string& line : aligned(table, true)) text += line + "\n";
  if (not_shown_ > 0) text += fmt::format("and {} more (--top)\n", not_shown_);
  return text +
         "\nof peak: the time that the device's peak rates allow, as a share of the op's time\n"
         "error: mean error of such costs on measurements that they were not fitted to";
}

Json DearOps::as_json() const {
  auto items = Json::array();
  for (const Row& row : rows_) {
    auto kernels = Json::array();
    for (const KernelShape& shape : shapes_.of(row.op)) kernels.push_back(kernel_text(shape));
    items.push_back({{"op", inputs_.graph.name(row.op)},
                     {"type", inputs_.graph.type_name(row.op)},
                     {"device", inputs_.devices[placement_[index(row.op)]].name},
                     {"time_s", row.cost.us * 1e-6},
                     {"share", row.cost.us / all_us_},
                     {"kernels", std::move(kernels)},
                     {"utilisation", row.cost.floor_us > 0 ? utilisation(row.cost) : kJsonNull},
                     {"source", word_of(row.cost.trust.source)},
                     {"error", row.cost.trust.error}});
  }
  return {{"graph", inputs_.graph.name()},
          {"costs", costs_json(step_)},
          {"items", std::move(items)},
          {"not_shown", not_shown_}};
}

}  // namespace emplace::launcher
