#include "solver/method.h"

#include <utility>

namespace emplace {

bool better(const Measurement& a, const Measurement& b) {
  if (a.valid != b.valid) return a.valid;
  if (!a.valid) {  // A placement that did not run at all may be far from fitting, so it is worse.
    const bool a_measured = out_of_memory(a.valid, a.failure), b_measured = out_of_memory(b.valid, b.failure);
    if (a_measured != b_measured) return a_measured;
    if (a.bytes_over != b.bytes_over) return a.bytes_over < b.bytes_over;
  }
  return a.step_time_s < b.step_time_s;
}

Result<Unit> Best::offer(Placement placement) {
  problem_.constraints.repair(placement);
  EMPLACE_TRY(executor_.measure(placement, last_));
  ++found_.evaluations;
  if (found_any() && !better(last_, found_.measurement)) return Unit{};
  found_.placement = std::move(placement);
  found_.measurement = last_;
  return Unit{};
}

Result<Answer> Best::take() && {
  if (found_.placement.empty()) return Error{Errc::kNoPlacement, "this method has no suitable device"};
  return std::move(found_);
}

std::vector<DeviceId> devices_of_kind(const DeviceSet& devices, std::string_view kind) {
  std::vector<DeviceId> ids;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (devices[static_cast<DeviceId>(d)].profile.kind == kind) ids.push_back(static_cast<DeviceId>(d));
  }
  return ids;
}

std::vector<DeviceId> fast_devices(const DeviceSet& devices) {
  std::vector<DeviceId> ids = devices_of_kind(devices, "gpu");
  if (ids.empty()) ids = devices_of_kind(devices, "cpu");
  return ids;
}

std::vector<DeviceId> all_devices(const DeviceSet& devices) {
  std::vector<DeviceId> ids;
  for (std::size_t d = 0; d < devices.size(); ++d) ids.push_back(static_cast<DeviceId>(d));
  return ids;
}

std::vector<std::vector<DeviceId>> tried_machines(const DeviceSet& devices) {
  std::vector<std::vector<DeviceId>> machines{fast_devices(devices)};
  if (machines.front().size() < devices.size()) machines.push_back(all_devices(devices));
  return machines;
}

}  // namespace emplace
