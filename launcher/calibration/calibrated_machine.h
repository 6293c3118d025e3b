#pragma once
/// The device file of a measured machine, which `emplace calibrate` writes.

#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "launcher/calibration/cost_ledger.h"
#include "placement/machine/device.h"

namespace emplace::launcher {

/// The three parameters that are fitted to whole steps. Everything else is measured directly.
struct Fit {
  double overhead_us = 0;      ///< Extra overhead of each op when other ops run [us].
  double link_efficiency = 1;  ///< Factor on the measured bandwidth of links.
  double corun = 1;            ///< Slowdown of concurrent ops (DeviceSet::corun).
  bool operator==(const Fit&) const = default;
  EMPLACE_FIELDS(overhead_us, link_efficiency, corun)
};

/// Returns the text of the device file: `devices`, each with its profile from the ledger, their links, and
/// the fit. load_devices() reads it back.
std::string device_file_text(const DeviceSet& devices, const CostLedger& ledger, const Fit& fit,
                             const std::string& costs_file);
/// Returns the devices of device_file_text(). Errors: those of parse_devices().
Result<DeviceSet> calibrated_devices(const DeviceSet& devices, const CostLedger& ledger, const Fit& fit);

/// Returns the text of NAME.costs.json: each signature as text, its number of measurements and their spread.
std::string costs_file_text(const CostLedger& ledger, const std::string& executor,
                            const std::string& machine);

}  // namespace emplace::launcher
