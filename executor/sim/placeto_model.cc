#include "executor/sim/placeto_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "executor/sim/placeto_simulator.h"
#include "graph/order.h"
#include "placement/machine/cost_trust.h"

namespace emplace {
namespace {

/// A simulator of a graph whose ids are no topological order: it simulates the renumbered graph.
class Renumbered final : public Executor {
 public:
  Renumbered(OpOrder order, std::unique_ptr<Executor> simulator)
      : order_{std::move(order)}, simulator_{std::move(simulator)}, placement_(order_.size()) {}

  std::string_view kind() const override { return simulator_->kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    if (placement.size() != order_.size())
      return simulator_->measure(placement, out);  // It reports the error.
    for (std::size_t k = 0; k < order_.size(); ++k) placement_[k] = placement[index(order_[k])];
    return simulator_->measure(placement_, out);
  }

 private:
  const OpOrder order_;
  const std::unique_ptr<Executor> simulator_;
  Placement placement_;
};

}  // namespace

std::unique_ptr<Executor> make_placeto_model(const OpGraph& graph, const DeviceSet& devices) {
  if (!graph.ids_are_topological()) {
    const auto ids = graph.topological_order();
    OpOrder order(ids.begin(), ids.end());
    auto simulator = make_placeto_model(renumbered(graph, order), devices);
    return std::make_unique<Renumbered>(std::move(order), std::move(simulator));
  }
  PlacementCosts of_machine{graph, devices};
  std::vector<double> costs;
  std::vector<std::size_t> rows;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::vector<double> row = of_machine.us(static_cast<DeviceId>(d));
    costs.insert(costs.end(), row.begin(), row.end());
    rows.push_back(d);
  }
  return std::make_unique<PlacetoSimulator>(graph, std::move(costs), std::move(rows));
}

}  // namespace emplace
