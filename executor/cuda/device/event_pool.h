#pragma once
/// Events of the devices of a group.

#include <vector>

#include "executor/cuda/device/logical_device.h"
#include "executor/cuda/libraries/session.h"

namespace emplace::cuda {

/// Events per device, created on first use and reused in every step. Thread: one at a time.
class EventPool {
 public:
  EventPool(Session& session, const DeviceGroup& devices, unsigned flags)
      : session_{session}, devices_{devices}, flags_{flags}, events_(devices.size()) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Event `number` of a device; makes the device current. Errors: those of Session.
  Result<cudaEvent_t> event(std::size_t device, std::size_t number);

 private:
  Session& session_;
  const DeviceGroup& devices_;
  const unsigned flags_;
  std::vector<std::vector<cudaEvent_t>> events_;  // [devices]
};

}  // namespace emplace::cuda
