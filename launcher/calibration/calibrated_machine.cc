#include "launcher/calibration/calibrated_machine.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/terminal/json_text.h"
#include "placement/machine/device_file.h"

namespace emplace::launcher {
namespace {

std::string number(double value) { return fmt::format("{:.6g}", value); }
std::string assign(std::string_view key, const std::string& value) {
  return std::string{key} + " = " + value + "\n";
}
std::string in_quotes(const std::string& value) { return '"' + value + '"'; }

/// Returns the profile name of device `d`. Every device has its own: cores may differ.
std::string profile_name(const DeviceSet& devices, std::size_t d) {
  return devices[static_cast<DeviceId>(d)].name + "-measured";
}

std::string profile_text(const DeviceSet& devices, std::size_t d, const CostLedger& ledger, const Fit& fit) {
  Profile profile = ledger.fitted(d, devices[static_cast<DeviceId>(d)].profile);
  profile.name = profile_name(devices, d);
  std::string text = "\n[[profile]]\n";
  text += assign("name", in_quotes(profile.name));
  text += assign("kind", in_quotes(profile.kind));
  text += assign("peak", in_quotes(number(profile.peak_gflops) + "GFLOP/s"));
  text += assign("bandwidth", in_quotes(number(profile.bandwidth_gbs) + "GB/s"));
  text += assign("bandwidth_efficiency", number(profile.bandwidth_efficiency));
  text += assign("launch", in_quotes(number(profile.launch_us + fit.overhead_us) + "us"));
  text += "costs_us = [\n";
  for (const SignatureCosts::Entry& entry : ledger.costs(d, fit.overhead_us))
    text += "  " + in_quotes(SignatureCosts::entry_text(entry)) + ",\n";
  text += "]\n[profile.efficiency]\n";
  for (std::size_t c = 2; c < kNumOpClasses; ++c)
    text += assign(op_class_name(static_cast<OpClass>(c)), number(profile.efficiency[c]));
  return text;
}

}  // namespace

std::string device_file_text(const DeviceSet& devices, const CostLedger& ledger, const Fit& fit,
                             const std::string& costs_file) {
  std::string text = "# Written by emplace calibrate";
  text += costs_file.empty() ? "." : ": " + costs_file + " describes each entry of costs_us.";
  text += '\n';
  text += assign("copies", in_quotes(std::string{copy_engine_name(devices.copies())}));
  text += assign("corun", number(fit.corun));
  for (std::size_t d = 0; d < devices.size(); ++d) text += profile_text(devices, d, ledger, fit);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const Device& device = devices[static_cast<DeviceId>(d)];
    text += "\n[[device]]\n" + assign("name", in_quotes(device.name)) +
            assign("profile", in_quotes(profile_name(devices, d))) +
            assign("memory", in_quotes(fmt::format("{}B", device.memory_bytes)));
    if (!device.host.empty()) text += assign("host", in_quotes(device.host));
    if (const std::uint32_t engines = devices.engines(static_cast<DeviceId>(d)); engines != 1)
      text +=
          assign("copy_engines", engines == kUnlimited ? in_quotes("unlimited") : fmt::format("{}", engines));
  }
  for (const SharedLink& link : devices.shared()) {
    std::string names;
    for (const DeviceId device : link.devices)
      names.append(names.empty() ? "" : ", ").append(in_quotes(devices[device].name));
    text += "\n[[shared]]\n" + assign("name", in_quotes(link.name)) + assign("devices", "[" + names + "]") +
            assign("engines", fmt::format("{}", link.engines));
  }
  for (const LinkCost& link : ledger.links()) {
    const Link& given = devices.link(link.source, link.target);
    text += "\n[[link]]\n" + assign("from", in_quotes(devices[link.source].name)) +
            assign("to", in_quotes(devices[link.target].name));
    const double rate = given.shaped ? given.bytes_per_s : link.bytes_per_s * fit.link_efficiency;
    text += assign("bandwidth", in_quotes(number(rate * 1e-9) + "GB/s"));
    text +=
        assign("latency", in_quotes(number((given.shaped ? given.latency_s : link.latency_s) * 1e6) + "us"));
    if (given.shaped) text += assign("shaped", "true");
  }
  return text;
}

Result<DeviceSet> calibrated_devices(const DeviceSet& devices, const CostLedger& ledger, const Fit& fit) {
  return parse_devices(device_file_text(devices, ledger, fit, ""), "calibrated devices");
}

std::string costs_file_text(const CostLedger& ledger, const std::string& executor,
                            const std::string& machine) {
  Json file{{"format", "emplace.costs/1"}, {"executor", executor}, {"machine", machine}};
  auto entries = Json::array();
  for (std::size_t d = 0; d < ledger.num_devices(); ++d) {
    for (const auto& [signature, entry] : ledger.entries(d)) {
      Json one{{"device", d},
               {"signature", SignatureCosts::entry_text({signature, 0}).substr(0, 16)},
               {"op", entry.text},
               {"us", entry.us},
               {"mad_us", entry.mad_us}};
      if (entry.cold_us > 0) one["hot_us"] = entry.hot_us, one["cold_us"] = entry.cold_us;
      one["ops"] = entry.ops;
      one["samples"] = entry.samples;
      one["source"] = entry.synthetic ? "roofline" : "measured";
      entries.push_back(std::move(one));
    }
  }
  file["costs"] = std::move(entries);
  return json_text(file) + "\n";
}

}  // namespace emplace::launcher
