#include "launcher/placing/step_model.h"

#include "base/text/words.h"

namespace emplace::launcher {

Result<Unit> check_step_model(const std::string& executor) {
  if (executor == "sim" || executor == "placeto") return Unit{};
  return invalid("--executor '" + printable(executor, 40) + "'", "evaluates no search",
                 "use sim or placeto, and emplace evaluate for real devices");
}

Result<Unit> use_placeto(bool placeto, Judge& judge, Console& console) {
  judge.placeto = placeto;
  if (!placeto) return Unit{};
  if (judge.objective != Objective::kStepTime)
    return invalid("--executor placeto", "simulates only step times",
                   "use --objective step-time, or --executor sim");
  console.note("Placeto's simulator has no memory: every placement fits, and peaks are 0");
  return Unit{};
}

}  // namespace emplace::launcher
