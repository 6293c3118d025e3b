#pragma once
/// The model of a step, with memory decisions where a placement does not fit: what a run measures by.

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "executor/executor.h"
#include "executor/polled_executor.h"
#include "executor/split/judge.h"
#include "graph/op_graph.h"
#include "placement/allowed.h"
#include "placement/machine/cost_model.h"
#include "solver/memory/plan_tuner.h"
#include "solver/method.h"

namespace emplace {

/// Measures a placement by the model of a judge and, if it does not fit, with the decisions of
/// PlanTuner::tune(), limited by a number of evaluations. So a measurement is a function of the placement and
/// of what the executor was made with, and the decisions can be made again from these. Thread: one.
class PlannedExecutor final : public Executor {
 public:
  /// Without memory decisions in `allowed`, and for graphs that have none (check_plannable()), it is the
  /// model alone. The references must outlive it.
  PlannedExecutor(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                  const Judge& judge, const Allowed& allowed);

  std::string_view kind() const override { return model_->kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;

  /// The placement as measure() measures it, with the decisions. Errors: those of the model and of
  /// PlanTuner::tune().
  Result<PlannedPlacement> decide(std::span<const DeviceId> placement);
  // The two parts of decide(). `stopped` ends the second one, whose result then means nothing.
  Result<PlannedPlacement> as_it_is(std::span<const DeviceId> placement);
  Result<PlannedPlacement> with_decisions(const Placement& placement, const std::function<bool()>& stopped);
  bool needs_decisions(const Result<PlannedPlacement>& found) const {
    return tuner_ && found && !found->measurement.valid;
  }

 private:
  const std::unique_ptr<Executor> model_;
  const CostTable costs_;
  const Problem problem_;
  std::optional<PlanTuner> tuner_;  // None: it is the model alone.
};

/// The same without blocking: decisions are made on a thread of its own. Thread: one.
class PolledPlannedExecutor final : public Executor, public PolledExecutor {
 public:
  explicit PolledPlannedExecutor(std::unique_ptr<PlannedExecutor> executor)
      : executor_{std::move(executor)} {}
  /// Ends a decision that is in progress.
  ~PolledPlannedExecutor() override { ending_ = true; }

  std::string_view kind() const override { return executor_->kind(); }
  /// @pre no measurement is in progress.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    return executor_->measure(placement, out);
  }
  void start(std::span<const DeviceId> placement, std::span<const DeviceId> next) override;
  Result<bool> poll(Measurement& out) override;
  bool broken() const override { return false; }

 private:
  const std::unique_ptr<PlannedExecutor> executor_;
  std::atomic<bool> ending_ = false;
  std::optional<Result<PlannedPlacement>> found_;  // What start() has found, if it needs no decisions.
  std::future<Result<PlannedPlacement>> deciding_;
};

}  // namespace emplace
