#pragma once
/// When everything happened in one simulated or measured step: the trace as a value.

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
  TensorId tensor{};  ///< The base tensor (or part of it) that moved.
  DeviceId source{}, target{};
  std::int64_t bytes = 0;
  double start_s = 0, end_s = 0;
};

/// What a device holds from a moment on, once everything that starts at that moment has started.
struct MemoryLevel {
  DeviceId device{};
  double at_s = 0;
  std::int64_t bytes = 0;  ///< State, live tensors and received copies.
};

struct Schedule {
  std::vector<OpRun> ops;              ///< By start time; views and state are left out.
  std::vector<TransferRun> transfers;  ///< By start time.
  /// By time, only where it changes; a device's highest is Measurement::peak_bytes. Two levels of one moment:
  /// something took no time.
  std::vector<MemoryLevel> memory;
};

/// One stretch of what kept a step from ending earlier.
struct ChainLink {
  enum class Kind : std::uint8_t { kOp, kTransfer, kGap };
  /// Why it did not start before: it waited for what it reads, or for the op or transfer before it on its
  /// engine.
  enum class Cause : std::uint8_t { kStart, kInput, kEngine };
  Kind kind = Kind::kGap;
  Cause cause = Cause::kStart;
  std::uint32_t run = 0;  ///< Of Schedule::ops or ::transfers; 0 for a gap, in which nothing of it ran.
  double start_s = 0, end_s = 0;
};

/// The ops and transfers that follow one another without a hole from the step's start to its end: to make any
/// other faster does not make the step shorter.
struct CriticalChain {
  std::vector<ChainLink> links;                   ///< By time.
  double ops_s = 0, transfers_s = 0, gaps_s = 0;  ///< Their sum is the step time.
  double behind_engine_s = 0;                     ///< Of the first two, what began when its engine came free.
};

}  // namespace emplace
