#pragma once
/// Placeto's simulator, on which the paper trained, bit for bit as in the authors' code.
///   A ready op enters its device's queue; the device runs the first op, then rests 5.7 us (not after a
///   cost of 0). An output with consumers on other devices is one transfer to all of them: bytes / 7600 us
///   on the device's single outgoing bus, which then rests 25 us. Outputs of one op leave in the order of
///   their first remote consumer.
///                                    Paper: Placeto 2019, section 3.3  [PLA-SIM]

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "executor/executor.h"
#include "graph/op_graph.h"

namespace emplace {

struct PlacetoOptions {
  double device_rest_us = 5.7;     ///< Rest between two ops of a device, unless the first cost 0.
  double bus_bytes_per_us = 7600;  ///< Bandwidth of the outgoing bus of each device.
  double bus_rest_us = 25;         ///< Rest between two transfers of a bus.
};

/// Queues are FIFO, so the start and end of an op and the arrivals of its outputs are known when it becomes
/// ready. The rest is a merge of two sorted streams per device; no event heap is needed.
///
/// Measurement: step_time_s is the time of the last event, rests included; there is no memory limit, so the
/// result is always valid; peak_bytes are zero. Thread: construct anywhere, then one at a time. `graph` must
/// outlive it. No allocation per evaluation after the first.
class PlacetoSimulator final : public Executor {
 public:
  /// `cost_us` [device rows, ops] row-major; `row_of_device` [devices] is the row of each device. Costs are
  /// integral or fractional microseconds, >= 0; exactly 0 is a free op. @pre 1 to 256 devices, ids are a
  /// topological order.
  PlacetoSimulator(const OpGraph& graph, std::vector<double> cost_us, std::vector<std::size_t> row_of_device,
                   PlacetoOptions options = {});
  ~PlacetoSimulator() override;

  std::string_view kind() const override { return "placeto"; }
  /// Errors: kInvalid if the length is not the number of ops or a device is out of range.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  /// The run time only, in the paper's unit. @pre as checked by measure().
  double run_time_us(std::span<const DeviceId> placement);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emplace
