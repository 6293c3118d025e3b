#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "graph/memory_plan.h"
#include "launcher/inputs/costs_json.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/json_text.h"
#include "placement/allowed.h"
#include "placement/bounds/certificate.h"
#include "placement/bounds/lower_bound.h"
#include "placement/machine/cost_model.h"

namespace emplace::launcher {
namespace {

/// Each op on the device where it takes least, whether that fits or not.
Placement cheapest_placement(const Inputs& inputs) {
  const CostTable costs{inputs.graph, inputs.devices};
  Placement placement(inputs.graph.num_ops());
  for (std::uint32_t i = 0; i < placement.size(); ++i)
    for (std::size_t d = 1; d < inputs.devices.size(); ++d)
      if (costs.ns(static_cast<DeviceId>(d), OpId{i}) < costs.ns(placement[i], OpId{i}))
        placement[i] = static_cast<DeviceId>(d);
  return placement;
}

class Bound final : public Command {
 public:
  Bound()
      : Command{"bound", "Print a proven lower bound of the step time, and which bound it is",
                "emplace bound configs/graphs/nmt-2layer-bs64.json.gz --devices "
                "configs/devices/quickstart.toml"} {}
  void declare(Options& options) override {
    declare_inputs(options, inputs_);
    declare_strategy(options, inputs_);
    options.option(
        "--allow", allow_,
        "Bound placements with memory plans, as place --allow: recompute, offload or all (default: "
        "none)");
    options.non_empty("--certificate", certificate_,
                      "Write why the bound holds to this file, for scripts/check_certificate.py (default: "
                      "none)");
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto inputs, open_inputs(inputs_));
    report_assumptions(inputs, inputs_.graph, console);
    EMPLACE_TRY_ASSIGN(const Allowed allowed, parse_allowed(allow_));
    if (allowed.memory()) {
      if (inputs.judge.objective != Objective::kStepTime)
        return invalid("--allow " + printable(allow_, 40), "needs --objective step-time",
                       "other objectives have no memory plans");
      EMPLACE_TRY(check_plannable(inputs.graph));
    }
    if (inputs.judge.strategy.pipelined() && (allowed != Allowed{} || !certificate_.empty()))
      return invalid("--micro-batches " + inputs_.micro_batches,
                     "has no bound of memory plans and no certificate", "remove --allow and --certificate");
    const ProvenBound bound =
        bound_of(inputs.judge, inputs.graph, inputs.devices, inputs.constraints, allowed);
    if (!certificate_.empty())
      EMPLACE_TRY(write_file(certificate_, certificate_text(inputs.graph, inputs.devices, inputs.constraints,
                                                            inputs.judge.objective, allowed)));
    if (console.json()) {
      Json json{{"graph", inputs.graph.name()},
                {"objective", word_of(inputs.judge.objective)},
                {"lower_bound_s", bound.seconds},
                {"bound", word_of(bound.proof)},
                {"objective_value", inputs.in_file_unit(bound.seconds)}};
      // A bound has no placement: its costs are those of each op where it takes least.
      if (const auto costs = costs_of(inputs, cheapest_placement(inputs))) json["costs"] = costs_json(*costs);
      console.print(json_text(json));
    } else {
      console.print("no " + std::string{word_of(inputs.judge.objective)} + " is below " +
                    format_seconds(bound.seconds) + ": the " + std::string{word_of(bound.proof)});
    }
    return ExitStatus::kDone;
  }

 private:
  InputOptions inputs_;
  std::string allow_, certificate_;
};

}  // namespace

std::unique_ptr<Command> make_bound() { return std::make_unique<Bound>(); }

}  // namespace emplace::launcher
