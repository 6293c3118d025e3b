#include "launcher/inputs/costs_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace emplace::launcher {

nlohmann::ordered_json costs_json(const StepCosts& costs) {
  auto sources = nlohmann::ordered_json::object();
  for (std::size_t source = 0; source < kNumCostSources; ++source)
    sources[std::string{word_of(static_cast<CostSource>(source))}] = costs.share[source];
  return {
      {"version", static_cast<int>(costs.version)}, {"sources", std::move(sources)}, {"error", costs.error}};
}

}  // namespace emplace::launcher
