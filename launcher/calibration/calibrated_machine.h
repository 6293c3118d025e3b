#pragma once
/// A machine as it was measured: the device file that `emplace calibrate` writes.

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/calibration/cost_ledger.h"
#include "placement/machine/device.h"

namespace emplace::launcher {

/// What is fitted to whole steps, and no more than this: everything else is measured part by part.
struct Fit {
  double overhead_us = 0;      ///< [us] on top of every op: what starting it costs beside others.
  double link_efficiency = 1;  ///< Times the measured rates of links.
  double corun = 1;            ///< DeviceSet::corun
  bool operator==(const Fit&) const = default;
};

/// The device file's text: `devices`, each with its profile from the ledger, their links, and the fit.
/// load_devices reads it back.
std::string device_file_text(const DeviceSet& devices, const CostLedger& ledger, const Fit& fit,
                             const std::string& costs_file);
/// The same as the file's reader has it. Errors: those of parse_devices.
Result<DeviceSet> calibrated_devices(const DeviceSet& devices, const CostLedger& ledger, const Fit& fit);

/// NAME.costs.json beside it: each signature in words, how often it was measured and how far that spread.
std::string costs_file_text(const CostLedger& ledger, const std::string& executor,
                            const std::string& machine);

}  // namespace emplace::launcher
