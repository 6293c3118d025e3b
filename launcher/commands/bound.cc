#include "placement/bound.h"

#include <string>

#include "base/units.h"
#include "launcher/commands/commands.h"
#include "launcher/inputs.h"
#include "launcher/json_object.h"
#include "placement/cost_model.h"

namespace emplace::launcher {
namespace {

class Bound final : public Command {
 public:
  std::string_view name() const override { return "bound"; }
  std::string_view summary() const override {
    return "A proven lower bound of the step time, and which bound it is";
  }
  void declare(Options& options) override {
    options.operand("GRAPH", graph_, "Graph file").required("--devices,-d", devices_, "Device file");
  }
  Result<ExitStatus> run(Console& console) override {
    const auto inputs = open_inputs(graph_, devices_, "");
    if (!inputs) return inputs.error();
    const CostTable costs{inputs->graph, inputs->devices};
    const LowerBound bound = lower_bound(inputs->graph, inputs->devices, inputs->constraints, costs);
    if (console.json()) {
      JsonObject json;
      json.add("graph", inputs->graph.name())
          .add("lower_bound_s", bound.seconds())
          .add("bound", bound.which());
      json.add("critical_path_s", bound.path_s).add("total_work_s", bound.work_s);
      console.print(json.text());
    } else {
      console.print("no step is faster than " + format_seconds(bound.seconds()) + ": the " +
                    std::string{bound.which()} + "\n  critical path, each op on its fastest device  " +
                    format_seconds(bound.path_s) + "\n  total work, divided over all devices           " +
                    format_seconds(bound.work_s));
    }
    return ExitStatus::kDone;
  }

 private:
  std::string graph_, devices_;
};

}  // namespace

std::unique_ptr<Command> make_bound() { return std::make_unique<Bound>(); }

}  // namespace emplace::launcher
