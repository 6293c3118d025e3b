#pragma once
/// Placeto's simulator, bit for bit: the model that the paper trained on, as METHODS describes it.
///   A ready op enters its device's queue; the device runs the first, then rests 5.7 us (not after a cost of
///   0). An output with consumers elsewhere is one transfer to all of them: bytes / 7600 us on the device's
///   one outgoing bus, which then rests 25 us. Outputs of one op leave in the order of their first consumer
///   elsewhere.
///                                    Paper: Placeto 2019, section 4.1  [PLA-SIM]

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "executor/executor.h"
#include "graph/op_graph.h"

namespace emplace {

struct PlacetoOptions {
  double device_rest_us = 5.7;     ///< Between two ops of a device, unless the first cost 0.
  double bus_bytes_per_us = 7600;  ///< One outgoing bus per device.
  double bus_rest_us = 25;         ///< Between two transfers of a bus.
};

/// Queues are first in, first out, so the start and end of an op, and the arrivals of its outputs, are known
/// the moment it becomes ready. What is left is a merge of two sorted streams per device: no event heap.
///
/// Measurement: step_time_s is the time of the last event, the rests included; no memory limit, so always
/// valid; peak_bytes are zero. Thread: construct anywhere, then one at a time. `graph` must outlive it. No
/// allocation per evaluation after the first.
class PlacetoSimulator final : public Executor {
 public:
  /// `cost_us` [device rows, ops] row-major with `row_of_device` [devices] naming each device's row; whole or
  /// fractional microseconds, >= 0; exactly 0 is a free op. @pre 1 to 256 devices, ids are a topological
  /// order.
  PlacetoSimulator(const OpGraph& graph, std::vector<double> cost_us, std::vector<std::size_t> row_of_device,
                   PlacetoOptions options = {});
  ~PlacetoSimulator() override;

  std::string_view kind() const override { return "sim"; }
  /// Errors: kInvalid if the length is not the number of ops or a device is out of range.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  /// The run time alone, in the paper's unit. @pre as measure() checks.
  double run_time_us(std::span<const DeviceId> placement);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emplace
