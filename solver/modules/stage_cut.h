#pragma once
/// Consecutive units as stages of a pipeline.

#include <cstdint>
#include <optional>
#include <vector>

#include "executor/sim/simulator.h"
#include "placement/export/module_search.h"
#include "solver/modules/unit_costs.h"

namespace emplace {

/// Finds the cut and the devices whose slowest stage takes the least time: dynamic programming over the units
/// and the numbers of devices in use of each kind. Of very many kinds, those with the least memory count as
/// one. Thread: one.
class StageCut {
 public:
  /// What is given must outlive it.
  StageCut(const UnitCosts& costs, const interop::ModuleChoice& choice, Simulator& simulator);
  /// @pre 1 <= stages <= units. Errors: those of the simulator.
  Result<std::vector<interop::StagePlan>> run(std::size_t stages);

 private:
  static constexpr std::size_t kMoments = UnitCosts::kMoments;
  using Plan = std::vector<interop::StagePlan>;
  /// Devices that are the same for a stage.
  struct Kind {
    std::vector<DeviceId> devices;
    std::size_t places = 0;  ///< Stages that they may run.
    double memory = 1.1;     ///< Share of the memory that the estimates may use; less after a refusal.
  };
  /// The value of a cut: lower is better.
  struct Value {
    double first, second;
    auto operator<=>(const Value&) const = default;
  };
  void find_kinds(std::size_t stages);
  bool may_run(std::size_t begin, std::size_t end, DeviceId device) const;
  std::int64_t time_ns(std::size_t begin, std::size_t end, DeviceId device) const {
    return times_[index(device)][end] - times_[index(device)][begin];
  }
  double filled(std::size_t begin, std::size_t end, const Kind& kind) const;
  std::optional<Plan> best(std::size_t stages, bool in_memory) const;
  Result<Unit> judge(const Plan& plan, Measurement& out);
  Result<Unit> shift(Plan& plan);
  std::int64_t slowest_ns(const Plan& plan) const;

  const UnitCosts& costs_;
  const interop::ModuleChoice& choice_;
  Simulator& simulator_;
  std::vector<Kind> kinds_;
  std::size_t slots_ = 1;                         // Stages per device.
  std::vector<std::vector<std::int64_t>> times_;  // [devices][units + 1] Of the units before [ns].
  std::vector<std::vector<std::size_t>> barred_;  // [devices][units + 1] Units before that may not be there.
  std::vector<std::int64_t> live_;                // [units + 1, kMoments] Of the units before [B].
  Placement placement_;
};

}  // namespace emplace
