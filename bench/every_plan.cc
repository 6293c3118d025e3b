// Measures every placement of a small training step with every memory plan: the exact optimum, by the
// simulator itself.
//
//   every_plan GRAPH DEVICES [offload]
//
// Plans recompute; with `offload` they also move tensors to any device, to come back after any kernel.
// DEVICES is a device file. Prints one JSON object per line, from the least memory to the least time: an
// optimum for `peak_bytes` of memory on each device, which all others with no larger peak take at least as
// long as. bench/plan_optima.py uses it.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "graph/lowering.h"
#include "placement/machine/device_file.h"
#include "placement/order.h"
#include "solver/memory/forward_pass.h"

namespace emplace {
namespace {

/// Placements times plans, at most; a tenth of them has to be simulated, in some minutes.
constexpr double kMost = 3e9;

class EveryPlan {
 public:
  EveryPlan(const OpGraph& graph, const DeviceSet& devices, bool offload)
      : graph_{graph}, devices_{devices}, costs_{graph, devices}, names_{devices.names()}, lowered_{graph} {
    const ForwardPass forward{lowered_};
    for (const OpId op : forward.kernels())
      if (forward.may_run_again(op)) choices_.push_back({.op = op});
    if (!offload) return;
    for (const BufferId buffer : forward.waiting()) {
      Choice choice{.op = lowered_.owner(buffer), .tensor = lowered_.tensor(buffer), .moves = true};
      choice.after.push_back(kNoOp);
      for (const OpId later : lowered_.kernels())
        if (later > choice.op) choice.after.push_back(later);
      choices_.push_back(std::move(choice));
    }
  }

  Result<Unit> run() {
    EMPLACE_TRY_ASSIGN(constraints_, Constraints::make(graph_, devices_));
    double all =
        std::pow(static_cast<double>(devices_.size()), static_cast<double>(constraints_.num_classes()));
    for (const Choice& choice : choices_)
      all *= choice.moves ? 1.0 + static_cast<double>(choice.after.size()) : 2.0;
    if (all > kMost) return Error{Errc::kUnsupported, fmt::format("{:.2g} plans are too many", all)};
    return choose(0);
  }

  void print() const {
    for (const auto& [peak, found] : best_) {
      nlohmann::json line{
          {"peak_bytes", peak}, {"step_ns", found.ns}, {"placement", nlohmann::json::object()}};
      for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
        line["placement"][std::string{graph_.name(OpId{i})}] = names_[index(found.placement[i])];
      line["recompute"] = nlohmann::json::array();
      for (const OpId op : found.plan.recompute) line["recompute"].push_back(graph_.name(op));
      line["move"] = nlohmann::json::array();
      for (const MovedTensor& move : found.plan.moved) {
        const OpId op = graph_.producer(move.tensor);
        nlohmann::json moved{{"tensor", graph_.name(op)}, {"to", names_[index(move.to)]}};
        if (const auto output = index(move.tensor) - index(graph_.first_output(op)); output > 0)
          moved["output"] = output;
        if (move.after != kNoOp) moved["after"] = graph_.name(move.after);
        line["move"].push_back(std::move(moved));
      }
      fmt::print("{}\n", line.dump());
    }
  }
  std::uint64_t evaluations() const { return evaluations_; }

 private:
  /// An op that may run again, or a tensor that may be moved.
  struct Choice {
    OpId op{};
    TensorId tensor{};
    bool moves = false;
    std::vector<OpId> after = {};
  };
  struct Found {
    std::int64_t ns = 0;
    MemoryPlan plan = {};
    Placement placement = {};
  };

  /// Tries all decisions about the choices from `k` on.
  Result<Unit> choose(std::size_t k) {
    if (k == choices_.size()) return place();
    EMPLACE_TRY(choose(k + 1));
    const Choice& choice = choices_[k];
    if (!choice.moves) {
      plan_.recompute.push_back(choice.op);
      EMPLACE_TRY(choose(k + 1));
      plan_.recompute.pop_back();
      return Unit{};
    }
    if (std::ranges::find(plan_.recompute, choice.op) != plan_.recompute.end()) return Unit{};
    for (std::size_t d = 0; d < devices_.size(); ++d)
      for (const OpId after : choice.after) {
        plan_.moved.push_back({choice.tensor, static_cast<DeviceId>(d), after});
        EMPLACE_TRY(choose(k + 1));
        plan_.moved.pop_back();
      }
    return Unit{};
  }

  /// Measures all placements of the plan.
  Result<Unit> place() {
    const auto made = planned(graph_, plan_, names_);
    if (!made) return Unit{};  // A tensor that comes back too late.
    if (made->recomputed.size() < plan_.recompute.size())
      return Unit{};  // The plan without what nothing needs.
    Simulator simulator{made->graph, devices_, derived(costs_, made->graph, made->source), {}};
    std::vector<DeviceId> device(constraints_.num_classes(), DeviceId{0});
    Placement placement(graph_.num_ops());
    while (true) {
      bool possible = true;
      for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
        placement[i] = device[constraints_.class_of(OpId{i})];
        possible = possible && constraints_.allows(OpId{i}, placement[i]);
      }
      for (const MovedTensor& move : plan_.moved)
        possible = possible && placement[index(graph_.producer(move.tensor))] != move.to;
      if (possible) EMPLACE_TRY(measure(simulator, *made, placement));
      std::size_t c = 0;
      for (; c < device.size(); ++c) {
        device[c] = static_cast<DeviceId>(index(device[c]) + 1);
        if (index(device[c]) < devices_.size()) break;
        device[c] = DeviceId{0};
      }
      if (c == device.size()) return Unit{};
    }
  }

  Result<Unit> measure(Simulator& simulator, const PlannedGraph& made, const Placement& placement) {
    EMPLACE_TRY(simulator.measure(planned(placement, made), measured_));
    ++evaluations_;
    const std::int64_t peak = std::ranges::max(measured_.peak_bytes);
    const std::int64_t ns = std::llround(measured_.step_time_s * 1e9);
    const auto above = best_.upper_bound(peak);
    if (above != best_.begin() && std::prev(above)->second.ns <= ns) return Unit{};
    auto [at, added] = best_.insert_or_assign(peak, Found{ns, plan_, placement});
    while (std::next(at) != best_.end() && std::next(at)->second.ns >= ns) best_.erase(std::next(at));
    return Unit{};
  }

  const OpGraph& graph_;
  const DeviceSet& devices_;
  const CostTable costs_;
  const std::vector<std::string> names_;
  const LoweredGraph lowered_;
  Constraints constraints_;
  std::vector<Choice> choices_;  // Ops first.
  MemoryPlan plan_;
  Measurement measured_;
  std::map<std::int64_t, Found> best_;  // Keys: largest peak of a device [B]; times fall.
  std::uint64_t evaluations_ = 0;
};

Result<Unit> run(std::string_view graph_file, std::string_view devices_file, bool offload) {
  EMPLACE_TRY_ASSIGN(const OpGraph graph, load_graph(graph_file));
  EMPLACE_TRY_ASSIGN(const DeviceSet devices, load_devices(devices_file));
  EMPLACE_TRY(check_plannable(graph));
  EveryPlan every{graph, devices, offload};
  EMPLACE_TRY(every.run());
  every.print();
  fmt::print(stderr, "{} evaluations\n", every.evaluations());
  return Unit{};
}

}  // namespace
}  // namespace emplace

int main(int count, char** words) {
  if (count < 3 || count > 4 || (count == 4 && std::string_view{words[3]} != "offload")) {
    fmt::print(stderr, "usage: every_plan GRAPH DEVICES [offload]\n");
    return 2;
  }
  const auto done = emplace::run(words[1], words[2], count == 4);
  if (!done.ok()) fmt::print(stderr, "error: {}\n", done.error().context);
  return done.ok() ? 0 : 2;
}
