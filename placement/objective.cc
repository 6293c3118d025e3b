#include "placement/objective.h"

#include <array>
#include <string>

#include "base/text/words.h"

namespace emplace {
namespace {

constexpr std::array<std::string_view, 4> kNames{"step-time", "throughput", "latency", "max-load"};

}  // namespace

std::string_view objective_name(Objective objective) { return kNames[static_cast<std::size_t>(objective)]; }

Result<Objective> parse_objective(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Objective>(i);
  const std::string_view near = nearest_word(name, kNames);
  return invalid("objective '" + printable(name, 40) + "'", "is unknown",
                 near.empty() ? "use step-time, throughput, latency or max-load"
                              : "did you mean '" + std::string{near} + "'?");
}

}  // namespace emplace
