#include "placement/machine/device.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "base/text/words.h"

namespace emplace {
namespace {

Result<Unit> check_device(const Device& device) {
  const std::string where = "device '" + printable(device.name, 60) + "'";
  const Profile& profile = device.profile;
  if (device.name.empty()) return invalid("device", "has no name");
  if (device.memory_bytes <= 0) return invalid(where, "memory must be above zero");
  const auto rate = [](double value) { return std::isfinite(value) && value > 0; };
  if (!rate(profile.peak_gflops) || !rate(profile.matrix_peak_gflops))
    return invalid(where, "peak rate must be above zero");
  if (!rate(profile.bandwidth_gbs) || !rate(profile.bandwidth_efficiency)) {
    return invalid(where, "memory bandwidth must be above zero");
  }
  if (!std::isfinite(profile.launch_us) || profile.launch_us < 0)
    return invalid(where, "launch time must not be negative");
  if (!std::isfinite(profile.dispatch_us) || profile.dispatch_us < 0)
    return invalid(where, "dispatch time must not be negative");
  if (!(profile.unaligned_rate > 0 && profile.unaligned_rate <= 1))
    return invalid(where, "unaligned_rate must be above 0 and at most 1");
  for (std::size_t c = 2; c < kNumOpClasses; ++c) {
    if (!rate(profile.efficiency[c]))
      return invalid(where, "efficiency of " + std::string{op_class_name(static_cast<OpClass>(c))} +
                                " must be above zero");
  }
  return Unit{};
}

}  // namespace

bool Profile::operator==(const Profile& other) const {
  const bool same_costs =
      costs == other.costs || (costs != nullptr && other.costs != nullptr && *costs == *other.costs);
  return same_costs && name == other.name && kind == other.kind && peak_gflops == other.peak_gflops &&
         matrix_peak_gflops == other.matrix_peak_gflops && bandwidth_gbs == other.bandwidth_gbs &&
         bandwidth_efficiency == other.bandwidth_efficiency && launch_us == other.launch_us &&
         dispatch_us == other.dispatch_us && unaligned_rate == other.unaligned_rate &&
         efficiency == other.efficiency && cost_version == other.cost_version &&
         own_efficiency == other.own_efficiency && peaks_gflops == other.peaks_gflops &&
         l2_bytes == other.l2_bytes && tables == other.tables && family == other.family;
}

bool Profile::has_tables() const {
  return cost_version != CostVersion::k1 && !family.empty() && family != "kepler" && family != "cpu";
}

DeviceRates Profile::rates() const {
  return {.peak_gflops = peaks_gflops,
          .bandwidth_gbs = bandwidth_gbs,
          .l2_bytes = static_cast<double>(l2_bytes),
          .launch_us = launch_us,
          .unaligned_rate = unaligned_rate,
          .name = name,
          .tables = tables,
          .family = family};
}

std::string_view copy_engine_name(CopyEngine engine) {
  return engine == CopyEngine::kSource ? "source" : "target";
}

Result<DeviceSet> DeviceSet::make(std::vector<Device> devices, std::vector<Link> links) {
  const std::size_t n = devices.size();
  if (n == 0) return invalid("devices", "the list is empty", "name at least one device");
  if (n > kMaxDevices) return invalid("devices", fmt::format("{} devices exceed the limit of 256", n));
  EMPLACE_CHECK(links.size() == n * n, "links must be [devices, devices]");
  for (std::size_t i = 0; i < n; ++i) {
    EMPLACE_TRY(check_device(devices[i]));
    for (std::size_t j = 0; j < i; ++j) {
      if (devices[j].name == devices[i].name)
        return invalid("device '" + printable(devices[i].name, 60) + "'", "is listed twice");
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const Link& link = links[i * n + j];
      const std::string where =
          "link " + printable(devices[i].name, 60) + " -> " + printable(devices[j].name, 60);
      if (link.bytes_per_s == 0 && link.latency_s == 0) {
        return invalid(where, "is missing", "add a [[link]] between the two");
      }
      if (!(std::isfinite(link.bytes_per_s) && link.bytes_per_s > 0))
        return invalid(where, "bandwidth must be above zero");
      if (!(std::isfinite(link.latency_s) && link.latency_s >= 0))
        return invalid(where, "latency must not be negative");
    }
  }
  DeviceSet set;
  set.devices_ = std::move(devices);
  set.links_ = std::move(links);
  return set;
}

Result<DeviceSet> DeviceSet::make(std::vector<Device> devices, Link everywhere) {
  std::vector<Link> links(devices.size() * devices.size(), everywhere);
  return make(std::move(devices), std::move(links));
}

DeviceSet DeviceSet::with_detours() const {
  DeviceSet set = *this;
  const std::size_t n = size();
  // Once is enough, but for the rounding of sums.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t by = 0; by < n; ++by)
      for (std::size_t from = 0; from < n; ++from)
        for (std::size_t to = 0; to < n; ++to) {
          if (from == by || to == by || from == to) continue;
          const Link &first = set.links_[from * n + by], &second = set.links_[by * n + to];
          Link& link = set.links_[from * n + to];
          const Link before = link;
          link.latency_s = std::min(link.latency_s, first.latency_s + second.latency_s);
          link.bytes_per_s = std::max(link.bytes_per_s, std::min(first.bytes_per_s, second.bytes_per_s));
          changed = changed || link != before;
        }
  }
  return set;
}

DeviceSet DeviceSet::with_memory(std::int64_t bytes) const {
  DeviceSet set = *this;
  for (Device& device : set.devices_) device.memory_bytes = bytes;
  return set;
}

DeviceSet DeviceSet::part(std::span<const DeviceId> devices) const {
  DeviceSet set;
  set.copies_ = copies_;
  set.corun_ = corun_;
  for (const DeviceId source : devices) {
    set.devices_.push_back((*this)[source]);
    if (!engines_.empty()) set.engines_.push_back(engines(source));
    for (const DeviceId target : devices) set.links_.push_back(link(source, target));
  }
  for (const SharedLink& shared : shared_) {
    SharedLink own{shared.name, {}, shared.engines};
    for (std::size_t k = 0; k < devices.size(); ++k)
      if (std::ranges::find(shared.devices, devices[k]) != shared.devices.end())
        own.devices.push_back(static_cast<DeviceId>(k));
    if (!own.devices.empty() && own.devices.size() < devices.size()) set.shared_.push_back(std::move(own));
  }
  return set;
}

std::vector<std::string> DeviceSet::names() const {
  std::vector<std::string> names;
  for (const Device& device : devices_) names.push_back(device.name);
  return names;
}

Result<DeviceId> DeviceSet::find(std::string_view name) const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].name == name) return static_cast<DeviceId>(i);
    names.push_back(devices_[i].name);
  }
  const std::string_view near = nearest_word(name, names);
  return invalid("device '" + printable(name, 60) + "'", "is not in the device file",
                 near.empty() ? "" : "did you mean '" + std::string{near} + "'?");
}

DeviceSet DeviceSet::with_copies(CopyEngine engine) const {
  DeviceSet set = *this;
  set.copies_ = engine;
  return set;
}

namespace {

/// What engines and shared links need: transfers that do not occupy the devices.
Result<Unit> check_source_copies(CopyEngine copies, std::string_view where) {
  if (copies == CopyEngine::kSource) return Unit{};
  return invalid(std::string{where}, "needs copies = \"source\"",
                 "with copies = \"target\" the target device is the engine of a transfer");
}

}  // namespace

Result<DeviceSet> DeviceSet::with_engines(std::vector<std::uint32_t> engines) const {
  EMPLACE_CHECK(engines.size() == size(), "engines must be [devices]");
  DeviceSet set = *this;
  const bool one_each = std::ranges::all_of(engines, [](std::uint32_t count) { return count == 1; });
  if (one_each) return set.engines_.clear(), set;
  EMPLACE_TRY(check_source_copies(copies_, "copy_engines"));
  set.engines_ = std::move(engines);
  return set;
}

Result<DeviceSet> DeviceSet::with_shared(std::vector<SharedLink> shared) const {
  DeviceSet set = *this;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    SharedLink& link = shared[i];
    const std::string where = "shared link '" + printable(link.name, 60) + "'";
    EMPLACE_TRY(check_source_copies(copies_, where));
    if (link.name.empty()) return invalid("shared link", "has no name");
    if (link.devices.empty()) return invalid(where, "has no devices", "name the devices that share it");
    if (link.engines == 0) return invalid(where, "needs at least one engine");
    std::ranges::sort(link.devices);
    if (std::ranges::adjacent_find(link.devices) != link.devices.end())
      return invalid(where, "lists a device twice");
    EMPLACE_CHECK(index(link.devices.back()) < size(), "a shared link names a device of another machine");
    if (link.devices.size() == size())
      return invalid(where, "has every device of the machine, so that no transfer would use it",
                     "list the devices on one side of it");
    const auto same_name = [&](const SharedLink& other) { return other.name == link.name; };
    if (std::any_of(shared.begin(), shared.begin() + static_cast<std::ptrdiff_t>(i), same_name))
      return invalid(where, "is listed twice");
  }
  set.shared_ = std::move(shared);
  return set;
}

DeviceMask DeviceSet::starting_with(std::string_view prefix) const {
  DeviceMask mask;
  for (std::size_t d = 0; d < size(); ++d) mask.set(d, devices_[d].name.starts_with(prefix));
  return mask;
}

DeviceSet DeviceSet::with_corun(double factor) const {
  EMPLACE_CHECK(std::isfinite(factor) && factor >= 1, "corun must be at least 1");
  DeviceSet set = *this;
  set.corun_ = factor;
  return set;
}

std::string DeviceSet::sha256() const {
  std::vector<std::byte> bytes;
  const auto append = [&](const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + size);
  };
  const auto number = [&](double value) { append(&value, sizeof value); };
  for (const Device& device : devices_) {
    const Profile& p = device.profile;
    append(device.name.c_str(), device.name.size() + 1);
    append(p.kind.c_str(), p.kind.size() + 1);
    append(&device.memory_bytes, sizeof device.memory_bytes);
    for (const double value :
         {p.peak_gflops, p.matrix_peak_gflops, p.bandwidth_gbs, p.bandwidth_efficiency, p.launch_us})
      number(value);
    for (const double value : p.efficiency) number(value);
    if (p.dispatch_us != 0 || p.unaligned_rate != 1) number(p.dispatch_us), number(p.unaligned_rate);
    if (p.cost_version != CostVersion::k1) {  // The hashes of version 1 are in records.
      append(&p.cost_version, sizeof p.cost_version);
      const std::uint64_t own = p.own_efficiency.to_ullong();
      append(&own, sizeof own);
      for (const double peak : p.peaks_gflops) number(peak);
      append(&p.l2_bytes, sizeof p.l2_bytes);
      for (const std::string& measured : p.tables) append(measured.c_str(), measured.size() + 1);
      append(p.family.c_str(), p.family.size() + 1);
    }
    if (p.costs == nullptr) continue;
    for (const SignatureCosts::Entry& entry : p.costs->entries()) {
      append(&entry.signature, sizeof entry.signature);
      number(entry.us);
    }
  }
  for (const Link& link : links_) {
    number(link.bytes_per_s), number(link.latency_s);
    if (link.shaped) append(&link.shaped, sizeof link.shaped);
    append(link.name.data(), link.name.size());
  }
  if (copies_ != CopyEngine::kSource) append(&copies_, sizeof copies_);
  if (corun_ != 1) number(corun_);
  for (const std::uint32_t count : engines_) append(&count, sizeof count);
  for (const SharedLink& link : shared_) {
    append(link.name.c_str(), link.name.size() + 1);
    append(&link.engines, sizeof link.engines);
    for (const DeviceId device : link.devices) append(&device, sizeof device);
  }
  return sha256_hex(bytes);
}

}  // namespace emplace
