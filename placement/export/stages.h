#pragma once
/// Divides a model into stages of a pipeline: consecutive layers, one device each.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "placement/export/placement_formats.h"

namespace emplace::interop {

/// A place where a stage may start: before the module `name`, whose first op has number `first` among the
/// forward ops in order of execution.
struct StageStart {
  std::string name;
  std::size_t first = 0;
};

/// Stages in order of execution.
struct Stages {
  struct Stage {
    DeviceId device{};
    std::size_t start = 0;  ///< Number of its start among the given ones.
    std::size_t ops = 0;    ///< Forward ops.
  };
  std::vector<Stage> stages;
  Placement applied;  ///< [ops]
};

/// The modules of a graph as they run.
class StagedModel {
 public:
  /// @param one_kind  leaves CPUs out if any GPU is in use: all stages are on devices of one kind.
  StagedModel(const PlacementExport& what, const std::vector<FrameworkDevice>& devices, bool one_kind);

  /// Modules that run once and without a break, outermost first where several start with the same op; the
  /// first one starts with the first op.
  std::vector<StageStart> modules() const;
  /// The layers of the list of modules with most of the work: "model.layers.0", "model.layers.1", … Errors
  /// (kInvalid): there is no such list, a layer of it is missing, or they do not run in order.
  Result<std::vector<StageStart>> numbered_layers() const;
  /// The model as a sequence: the elements of its outermost lists, and the modules beside them.
  Result<std::vector<StageStart>> layers() const;

  /// The stages that move least of the work, in the order in which the devices run most of theirs. The first
  /// start counts from the first op. @pre `starts` is not empty and sorted by `first`.
  Stages cut(const std::vector<StageStart>& starts) const;

 private:
  /// First and last op of a module, with all modules in it.
  struct Extent {
    std::string name;
    std::size_t first = 0, last = 0, ops = 0;
  };
  void apply(const std::vector<DeviceId>& device_of_position, Placement& applied) const;

  const PlacementExport& what_;
  std::vector<OpId> order_;      // Forward ops without state, in order of execution.
  std::vector<double> weights_;  // [ops]
  std::vector<DeviceId> used_;   // Devices in the order in which they run most of their work.
  std::vector<Extent> extents_;  // [modules] In order of their first op, containers before contents.
};

}  // namespace emplace::interop
