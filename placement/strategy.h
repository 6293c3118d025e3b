#pragma once
/// What a step is besides one copy of the graph: how many replicas it has, how often each runs before the
/// update, and in what order.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/settings.h"
#include "placement/machine/device.h"

namespace emplace {

enum class PipelineSchedule : std::uint8_t {
  kGPipe,  ///< All forward passes, then all backward passes.  Paper: Huang et al., GPipe, NeurIPS 2019
  k1F1B,   ///< A backward pass as soon as there is one.       Paper: Narayanan et al., PipeDream, SOSP 2019
};
constexpr auto enum_words(PipelineSchedule) {
  return EnumWords{"schedule", std::array{EnumWord{PipelineSchedule::kGPipe, "gpipe"},
                                          EnumWord{PipelineSchedule::k1F1B, "1f1b"}}};
}

/// The most micro-batches of a step.
inline constexpr std::uint32_t kMostMicroBatches = 4096;
/// As many as suit the machine, until it is known (micro_batches_for()).
inline constexpr std::uint32_t kAutoMicroBatches = 0;

/// Thread: a plain value.
struct Strategy {
  std::uint32_t micro_batches = 1;  ///< All replicas together: 1 to kMostMicroBatches; 1: a plain step.
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  /// [replicas, devices of a replica] A placement is on devices of the first replica; what it puts on the
  /// k-th of these is in each replica on the k-th. Empty: one copy, on any devices.
  std::vector<std::vector<DeviceId>> replicas;
  std::vector<std::uint32_t> shares;  ///< [replicas] Micro-batches of each; empty: equal shares.

  bool pipelined() const { return micro_batches != 1; }
  std::uint32_t num_replicas() const {
    return replicas.empty() ? 1 : static_cast<std::uint32_t>(replicas.size());
  }
  std::uint32_t share(std::uint32_t replica) const {
    return shares.empty() ? micro_batches / num_replicas() : shares[replica];
  }
  bool operator==(const Strategy&) const = default;
};

/// The number of micro-batches, or "auto".
std::string text_of_micro_batches(const Strategy& strategy);

/// Four for each device of consecutive_groups(): with them a pipeline of equal stages, one on each device, is
/// busy for more than 80 % of its step.
std::uint32_t micro_batches_for(const DeviceSet& devices);

/// Divides the devices of a machine among replicas, in their order: its GPUs, or its CPUs where it has none.
/// Errors (kInvalid): the number of devices is no multiple of `replicas`.
Result<std::vector<std::vector<DeviceId>>> consecutive_groups(const DeviceSet& devices,
                                                              std::uint32_t replicas);

/// Errors (kInvalid): a number out of range, shares that do not add up, devices in two replicas, or replicas
/// of different size.
Result<Unit> check_strategy(const Strategy& strategy, const DeviceSet& devices);

}  // namespace emplace
