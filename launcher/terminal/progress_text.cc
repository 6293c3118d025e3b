#include "launcher/terminal/progress_text.h"

#include <fmt/core.h>

#include "base/units.h"

namespace emplace::launcher {

std::string progress_text(const ProgressFacts& facts) {
  std::string text = fmt::format("{}  {:.1f} s", facts.activity, facts.elapsed_s);
  if (facts.budget_s > 0) text += fmt::format(" of {:.1f} s", facts.budget_s);
  if (facts.has_best && facts.best_s > 0) {
    text += "  best " + format_seconds(facts.best_s);
    std::string compared;
    if (!facts.heuristic.empty() && facts.heuristic_s > 0)
      compared =
          fmt::format("{:+.1f} % vs {}", (facts.best_s / facts.heuristic_s - 1) * 100, facts.heuristic);
    if (facts.bound_s > 0)
      compared += fmt::format("{}{:.1f} % above the bound", compared.empty() ? "" : ", ",
                              (facts.best_s / facts.bound_s - 1) * 100);
    if (!compared.empty()) text += " (" + compared + ")";
  } else if (facts.has_best) {
    text += "  best none yet";
  }
  if (!facts.details.empty()) text += "  " + facts.details;
  return text;
}

}  // namespace emplace::launcher
