#pragma once
/// Replicas beside stages: how many, on which devices, with which shares of the micro-batches
/// (docs/reference/pipelines.md).

#include <vector>

#include "executor/split/judge.h"
#include "placement/allowed.h"
#include "solver/method.h"

namespace emplace {

/// The strategies that share the micro-batches of `strategy` among that number of replicas: on consecutive
/// devices and on every k-th one, in equal shares, or by the speed of devices that differ. Empty if the
/// devices or the micro-batches cannot be divided.
std::vector<Strategy> replicated(const Strategy& strategy, const Problem& problem, std::uint32_t replicas);

/// Finds the best split into stages for each strategy with as many replicas as that of the judge, or for all
/// numbers of replicas if it states none; then `auto` for the best of these, until the deadline of the
/// problem's context. While it searches, a step is that of the first replica alone; answers are measured with
/// all. The answer states its strategy, also one without replicas. Errors: as search_pipelines();
/// kNoPlacement if the rules leave no device of a replica.
Result<Answer> search_strategies(const std::vector<const Method*>& methods, const Problem& problem,
                                 const Judge& judge, const Allowed& allowed);

/// A row of comparisons: one replica for each device, with the whole model, as PyTorch's DDP.
class DataParallel final : public Method {
 public:
  /// `strategy`, whose micro-batches it shares, must outlive it, and may be filled in later.
  explicit DataParallel(const Strategy& strategy) : strategy_{strategy} {}
  std::string_view name() const override { return "data-parallel"; }
  std::string_view summary() const override { return "the whole model on each device (several copies)"; }
  bool transforms_graph() const override { return true; }
  /// Errors: kNoPlacement with one device, or fewer micro-batches than devices.
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const Strategy& strategy_;
};

}  // namespace emplace
