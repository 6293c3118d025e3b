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

struct Schedule {
  std::vector<OpRun> ops;              ///< By start time; views and state are left out.
  std::vector<TransferRun> transfers;  ///< By start time.
};

}  // namespace emplace
