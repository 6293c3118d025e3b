#pragma once
/// Data parallelism for comparison: a placement of replicas of the graph, not of the graph.

#include <string_view>

#include "solver/method.h"

namespace emplace {

/// `towers-sync`: one replica per GPU with its part of the batch; gradients are summed before the one update.
/// Tries parameters mirrored or in one place, and sums and shared parameters spread over the GPUs by bytes,
/// on one GPU or on the CPU; returns the best. The step time is that of the same batch.
///                                                               Paper: ColocRL 2017, section 4.4
///                                                               [COL-TOWERS]
class TowersSync final : public Method {
 public:
  std::string_view name() const override { return "towers-sync"; }
  std::string_view summary() const override {
    return "one replica per GPU, gradients summed (another graph)";
  }
  bool transforms_graph() const override { return true; }
  /// Always simulated with the default dispatch, whatever the executor, because the executor only has the
  /// original graph. Errors: kNoPlacement with fewer than two GPUs (or CPUs if there is no GPU), without a
  /// batch, or with a batch smaller than the number of devices.
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// `towers-async`: the same replicas with shared parameters, which each replica updates without waiting for
/// the others. The step time is the batch over the throughput, the sum of b_r / T_r, where T_r is the time
/// from a replica's start to its last update while all replicas contend for links and parameters. Updates use
/// gradients of older parameters, which changes convergence: a shorter time is not the same training.
///                                                               Paper: ColocRL 2017, section 4.4
///                                                               [COL-TOWERS]
class TowersAsync final : public Method {
 public:
  std::string_view name() const override { return "towers-async"; }
  std::string_view summary() const override {
    return "replicas that update without waiting (another graph, other convergence)";
  }
  bool transforms_graph() const override { return true; }
  /// Same contract as TowersSync::find().
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

}  // namespace emplace
