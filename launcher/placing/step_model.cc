#include "launcher/placing/step_model.h"

#include "base/text/words.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/jitter_options.h"

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

Result<Inputs> open_problem(const InputOptions& options, bool placeto, const std::string& noise,
                            Console& console) {
  EMPLACE_TRY_ASSIGN(auto inputs, open_inputs(options));
  EMPLACE_TRY(use_placeto(placeto, inputs.judge, console));
  if (!noise.empty()) EMPLACE_TRY(check_jitter(noise, inputs.judge));
  report_assumptions(inputs, options.graph, console);
  for (const std::string& line : inputs.rules.lines()) console.note(line);
  if (auto fits = must_fit(inputs); !placeto && !fits)
    return Error{fits.error().code, printable(options.graph) + ": " + fits.error().context};
  return inputs;
}

}  // namespace emplace::launcher
