#pragma once
/// A machine as a text of catalogue names: "h100 x 4, epyc9654", "2 x (h100 x 8 by nvlink4) by ib-ndr". The
/// grammar is in docs/reference/machines.md.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "placement/machine/device.h"

namespace emplace {

/// Builds the machine of a text: devices in the order of the text, named gpu:0, cpu:0, …; in a cluster
/// host0/gpu:0, … with the host host0. Keeps `reserve` of each device's memory free. Errors (kInvalid), with
/// the position: an unknown device or link (with the nearest name), a count out of range, more than 256
/// devices, hosts without a network, wrong syntax.
Result<DeviceSet> parse_machine(std::string_view text, const Reserve& reserve = {},
                                CostVersion costs = kCurrentCosts);

/// Builds a recorded machine: the content of a device file, which states its own cost version, or a text of
/// version `costs`. Errors: those of parse_devices() and parse_machine().
Result<DeviceSet> parse_recorded_devices(std::string_view recorded, std::string_view where,
                                         const Reserve& reserve, CostVersion costs);

/// The network card of each host, "host0/nic", with the host's devices; empty for a single machine.
std::vector<SharedLink> nics_of(const DeviceSet& devices);

}  // namespace emplace
