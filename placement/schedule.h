#pragma once
/// The trace of one simulated or measured step: start and end of all ops and transfers.

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace emplace {

struct OpRun {
  OpId op{};
  DeviceId device{};
  double start_s = 0, end_s = 0;
};

struct TransferRun {
  TensorId tensor{};  ///< Base tensor (or part of it) that moved.
  DeviceId source{}, target{};
  std::int64_t bytes = 0;
  double start_s = 0, end_s = 0;
};

/// The memory in use on a device from `at_s` on, after everything that starts at that moment has started.
struct MemoryLevel {
  DeviceId device{};
  double at_s = 0;
  std::int64_t bytes = 0;  ///< State, live tensors and received copies [B].
};

struct Schedule {
  std::vector<OpRun> ops;              ///< Sorted by start time; without views and state.
  std::vector<TransferRun> transfers;  ///< Sorted by start time.
  /// Changes of memory use, sorted by time. A device's maximum is Measurement::peak_bytes. Two levels at one
  /// moment result from an op or transfer that takes no time.
  std::vector<MemoryLevel> memory;
};

/// One link of the critical chain.
struct ChainLink {
  enum class Kind : std::uint8_t { kOp, kTransfer, kGap };
  /// The cause of the start time: an input, or the previous op or transfer on the same engine.
  enum class Cause : std::uint8_t { kStart, kInput, kEngine };
  Kind kind = Kind::kGap;
  Cause cause = Cause::kStart;
  /// Index into Schedule::ops or ::transfers; 0 for a gap, in which the chain was idle.
  std::uint32_t run = 0;
  double start_s = 0, end_s = 0;
};

/// The ops and transfers that follow one another without a break from the step's start to its end. Speeding
/// up anything else does not shorten the step.
struct CriticalChain {
  std::vector<ChainLink> links;                   ///< Sorted by time.
  double ops_s = 0, transfers_s = 0, gaps_s = 0;  ///< Sums by kind; together the step time.
  double behind_engine_s = 0;  ///< Part of ops_s and transfers_s that started as soon as its engine was free.
};

}  // namespace emplace
