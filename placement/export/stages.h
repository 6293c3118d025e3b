#pragma once
/// Divides a model into stages of a pipeline: consecutive layers, one device each.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "placement/export/module_search.h"
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
  Placement applied;                       ///< [ops]
  std::vector<std::uint32_t> stage_of_op;  ///< [ops]
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

  /// The places where every format can cut: before the elements of the model's outermost lists, and before
  /// what follows a list. Without two of them: modules().
  std::vector<StageStart> blocks() const;

  /// The stages that move least of the work, in the order in which the devices run most of theirs. The first
  /// start counts from the first op. `returning`: a device may have several stages, in any order.
  /// @pre `starts` is not empty and sorted by `first`; likewise below.
  Stages cut(const std::vector<StageStart>& starts, bool returning = false) const;
  /// [ops] The number of the start, without those that repeat an op, after which each op runs.
  std::vector<std::uint32_t> segments(const std::vector<StageStart>& starts) const;
  /// The stages of a plan over segments.
  Stages stages(const std::vector<StageStart>& starts, const std::vector<StagePlan>& plan) const;
  /// Forward ops without state, in order of execution.
  const std::vector<OpId>& order() const { return order_; }
  /// Devices with forward ops in the order in which they run most of their work.
  const std::vector<DeviceId>& used() const { return used_; }

 private:
  /// First and last op of a module, with all modules in it.
  struct Extent {
    std::string name;
    std::size_t first = 0, last = 0, ops = 0;
  };
  template <class T>
  void apply(const std::vector<T>& of_position, std::vector<T>& applied) const;

  const PlacementExport& what_;
  std::vector<OpId> order_;      // Forward ops without state, in order of execution.
  std::vector<double> weights_;  // [ops]
  std::vector<DeviceId> used_;   // Devices in the order in which they run most of their work.
  std::vector<Extent> extents_;  // [modules] In order of their first op, containers before contents.
};

}  // namespace emplace::interop
