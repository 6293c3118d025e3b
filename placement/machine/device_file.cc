#include "placement/machine/device_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/toml_reader.h"
#include "base/text/words.h"
#include "base/units.h"
#include "placement/machine/catalogue.h"

namespace emplace {
namespace {

/// Matches "gpu:*" by prefix and other patterns exactly.
bool matches(std::string_view pattern, std::string_view name) {
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : pattern == name;
}

bool matches_any(std::string_view pattern, const std::vector<Device>& devices) {
  return std::ranges::any_of(devices, [&](const Device& one) { return matches(pattern, one.name); });
}

/// A profile, and the device of the catalogue that it is based on; null if there is none.
struct KnownProfile {
  Profile profile;
  const CatalogueDevice* kind = nullptr;
};

/// Reads the peaks that a file sets [FLOP/s]. Those of version 2 change in proportion: FP64 and FP32 with the
/// scalar peak, the others with that of matrix products, or with the scalar one if the file sets it alone.
void read_peaks(TomlTable& table, Profile& profile) {
  const auto scalar = table.flops_per_s("peak"), matrix = table.flops_per_s("matrix_peak");
  const double scalar_share = scalar ? *scalar * 1e-9 / profile.peak_gflops : 1;
  const double matrix_share = matrix ? *matrix * 1e-9 / profile.matrix_peak_gflops : scalar_share;
  for (std::size_t a = 0; a < kNumArithmetics; ++a) {
    if (profile.peaks_gflops[a] == 0) continue;
    const auto arithmetic = static_cast<Arithmetic>(a);
    const bool is_scalar = arithmetic == Arithmetic::kFp64 || arithmetic == Arithmetic::kFp32;
    profile.peaks_gflops[a] *= is_scalar ? scalar_share : matrix_share;
  }
  if (scalar) profile.peak_gflops = profile.matrix_peak_gflops = *scalar * 1e-9;
  if (matrix) profile.matrix_peak_gflops = *matrix * 1e-9;
}

KnownProfile read_profile(TomlTable table, CostVersion costs) {
  KnownProfile read;
  Profile& profile = read.profile;
  if (const auto base = table.text("base")) {
    const auto found = find_profile(*base, costs);
    if (found) {
      profile = *found;
      read.kind = known_device(*base);
    } else {
      table.fail("base", "= " + found.error().context);
    }
  }
  profile.cost_version = costs;
  if (const auto name = table.text("name")) {
    profile.name = *name;
  } else {
    table.fail("", "a profile needs a name");
  }
  if (const auto kind = table.text("kind")) {
    profile.kind = *kind;
    if (*kind != "cpu" && *kind != "gpu") table.fail("kind", "must be \"cpu\" or \"gpu\"");
  }
  if (const auto memory = table.bytes("memory")) profile.memory_bytes = *memory;
  read_peaks(table, profile);
  if (const auto rate = table.bytes_per_s("bandwidth")) profile.bandwidth_gbs = *rate * 1e-9;
  if (const auto share = table.number("bandwidth_efficiency")) profile.bandwidth_efficiency = *share;
  if (const auto launch = table.seconds("launch")) profile.launch_us = *launch * 1e6;
  if (const auto dispatch = table.seconds("dispatch")) profile.dispatch_us = *dispatch * 1e6;
  if (const auto rate = table.number("unaligned_rate")) profile.unaligned_rate = *rate;
  if (auto efficiency = table.table("efficiency")) {
    for (std::size_t c = 2; c < kNumOpClasses; ++c) {
      const auto value = efficiency->number(op_class_name(static_cast<OpClass>(c)));
      if (!value) continue;
      profile.efficiency[c] = *value;
      if (costs != CostVersion::k1) profile.own_efficiency.set(c);
    }
  }
  if (const auto texts = table.texts("costs_us")) {
    std::vector<SignatureCosts::Entry> entries;
    for (const std::string& text : *texts) {
      const auto entry = SignatureCosts::parse_entry(text);
      if (!entry) {
        table.fail("costs_us", entry.error().context);
        break;
      }
      entries.push_back(*entry);
    }
    profile.costs = std::make_shared<const SignatureCosts>(std::move(entries));
  }
  return read;
}

/// Returns the profile that a device names; without `profile` that of its name in the catalogue.
std::optional<KnownProfile> named_profile(TomlTable& device, const std::vector<KnownProfile>& own,
                                          const std::string& name, CostVersion costs) {
  const auto profile = device.text("profile");
  if (!profile) {
    if (const CatalogueDevice* const kind = known_device(name))
      return KnownProfile{kind->profile_of(costs), kind};
    return device.fail("", "a device needs a profile, or a name of the catalogue"), std::nullopt;
  }
  for (const KnownProfile& known : own) {
    if (known.profile.name == *profile) return known;
  }
  const auto found = find_profile(*profile, costs);
  if (!found) return device.fail("profile", "= " + found.error().context), std::nullopt;
  return KnownProfile{*found, known_device(*profile)};
}

/// The devices of a file.
struct DeviceList {
  std::vector<Device> devices;
  std::vector<const CatalogueDevice*> kinds;  // [devices] Null: not based on the catalogue.

  void add(Device device, const CatalogueDevice* kind) {
    devices.push_back(std::move(device));
    kinds.push_back(kind);
  }
  /// Returns "gpu:2": the kind and the least number that no device has.
  std::string next_name(const std::string& kind) const {
    for (std::size_t number = 0;; ++number) {
      std::string name = fmt::format("{}:{}", kind, number);
      if (std::none_of(devices.begin(), devices.end(), [&](const Device& d) { return d.name == name; }))
        return name;
    }
  }
};

/// Adds the device, or devices, of one [[device]].
void read_device(TomlTable table, const std::vector<KnownProfile>& own, CostVersion costs,
                 const Reserve& reserve, DeviceList& list) {
  Device device;
  const auto name = table.text("name");
  const auto count = table.integer("count");
  const std::size_t room = kMaxDevices - std::min(kMaxDevices, list.devices.size());
  if (count && (*count < 1 || static_cast<std::size_t>(*count) > kMaxDevices))
    return table.fail("count", "must be 1 to 256");
  if (count && name) return table.fail("count", "names its devices gpu:0, gpu:1, …", "remove 'name'");
  if (count && static_cast<std::size_t>(*count) > room)
    return table.fail("count", fmt::format("makes more than {} devices", kMaxDevices));
  std::optional<KnownProfile> known = named_profile(table, own, name.value_or(""), costs);
  const bool has_profile = table.text("profile").has_value();
  if (!name && !has_profile) return table.fail("", "a device needs a name or a profile");
  if (known) device.profile = known->profile;
  device.memory_bytes = table.bytes("memory").value_or(device.profile.memory_bytes);
  device.host = table.text("host").value_or("");
  std::int64_t reserved = reserve.of(device.memory_bytes);
  if (const auto own_reserve = table.text("reserve")) {
    if (const auto kept = parse_reserve(*own_reserve)) {
      reserved += kept->of(device.memory_bytes);
    } else {
      table.fail("reserve", "must be a share or a size", "write it like \"10%\" or \"1GiB\"");
    }
  }
  device.memory_bytes -= reserved;
  for (std::int64_t i = 0; i < count.value_or(1); ++i) {
    device.name = name ? *name : list.next_name(device.profile.kind);
    list.add(device, known ? known->kind : nullptr);
  }
}

/// Reads a number of engines.
std::optional<std::uint32_t> read_count(TomlTable& table, std::string_view key) {
  const auto count = table.integer(key);
  if (count && (*count < 1 || *count > 64)) table.fail(key, "must be a number from 1 to 64");
  return count ? std::optional{static_cast<std::uint32_t>(*count)} : std::nullopt;
}

/// Reads the number of copy engines of a device, or of all devices.
std::optional<std::uint32_t> read_engines(TomlTable& table) {
  if (table.is_text("copy_engines")) {
    if (table.text("copy_engines") == "unlimited") return kUnlimited;
    return table.fail("copy_engines", "must be a number from 1 to 64, or \"unlimited\""), std::nullopt;
  }
  return read_count(table, "copy_engines");
}

/// Reads a link that several devices share.
SharedLink read_shared(TomlTable& table, const std::vector<Device>& devices) {
  SharedLink shared;
  if (const auto name = table.text("name")) {
    shared.name = *name;
  } else {
    table.fail("", "a shared link needs a name");
  }
  const auto patterns = table.texts("devices").value_or(std::vector<std::string>{});
  if (patterns.empty()) table.fail("", "a shared link needs devices", "write devices = [\"host0/*\"]");
  for (const std::string& pattern : patterns)
    if (!matches_any(pattern, devices))
      table.fail("devices", "'" + printable(pattern, 60) + "' matches no device of this file");
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (std::ranges::any_of(patterns, [&](const auto& one) { return matches(one, devices[d].name); }))
      shared.devices.push_back(static_cast<DeviceId>(d));
  shared.engines = read_count(table, "engines").value_or(1);
  return shared;
}

/// The two patterns of a link, and whether it is one-way.
struct LinkEnds {
  std::string source, target;
  bool one_way = false;
};

std::optional<LinkEnds> read_ends(TomlTable& table) {
  const auto between = table.texts("between");
  const auto from = table.text("from"), to = table.text("to");
  if (between && between->size() == 2) return LinkEnds{(*between)[0], (*between)[1], false};
  if (from && to) return LinkEnds{*from, *to, true};
  table.fail("", "a link needs its two ends", "write between = [\"gpu:0\", \"gpu:1\"], or from and to");
  return std::nullopt;
}

Link read_link(TomlTable& table, CostVersion costs) {
  Link link;
  if (const auto name = table.text("profile")) {
    if (const auto known = find_link(*name)) {
      link = known->link_of(costs);
    } else {
      table.fail("profile", "= " + known.error().context);
    }
  }
  if (const auto rate = table.bytes_per_s("bandwidth")) link.bytes_per_s = *rate, link.name = {};
  if (const auto latency = table.seconds("latency")) link.latency_s = *latency, link.name = {};
  link.shaped = table.boolean("shaped").value_or(false);
  if (link.bytes_per_s == 0) table.fail("", "a link needs a bandwidth above zero");
  return link;
}

/// [devices, devices] The links of the catalogue, for a file without [[link]]; none between hosts, and none
/// to a device that is not based on the catalogue.
std::vector<Link> default_links(const DeviceList& list, CostVersion costs) {
  const std::size_t n = list.devices.size();
  std::vector<Link> matrix(n * n);
  for (std::size_t s = 0; s < n; ++s)
    for (std::size_t t = 0; t < n; ++t)
      if (list.kinds[s] != nullptr && list.kinds[t] != nullptr &&
          list.devices[s].host == list.devices[t].host)
        matrix[s * n + t] = default_link(*list.kinds[s], *list.kinds[t], costs);
  return matrix;
}

/// Reads the cost version of a file.
CostVersion read_costs(TomlTable& root) {
  const auto number = root.integer("costs");
  if (!number) return kUnstatedCosts;
  const auto costs = parse_word<CostVersion>(std::to_string(*number));
  if (costs) return *costs;
  root.fail("costs", costs.error());
  return kUnstatedCosts;
}

Result<DeviceSet> build(TomlDocument document, std::string_view where, const Reserve& reserve) {
  TomlTable root = document.root();
  const CostVersion costs = read_costs(root);
  std::vector<KnownProfile> profiles;
  for (TomlTable& table : root.tables("profile")) profiles.push_back(read_profile(table, costs));
  DeviceList list;
  std::vector<Device>& devices = list.devices;
  const std::uint32_t engines_of_all = read_engines(root).value_or(1);
  std::vector<std::uint32_t> engines;
  for (TomlTable& table : root.tables("device")) {
    read_device(table, profiles, costs, reserve, list);
    engines.resize(devices.size(), read_engines(table).value_or(engines_of_all));
  }
  std::vector<SharedLink> shared;
  for (TomlTable& table : root.tables("shared")) shared.push_back(read_shared(table, devices));
  std::vector<std::pair<LinkEnds, Link>> links;
  for (TomlTable& table : root.tables("link")) {
    const auto ends = read_ends(table);
    const Link link = read_link(table, costs);
    if (!ends) continue;
    for (const std::string& end : {ends->source, ends->target}) {
      if (!matches_any(end, devices))
        table.fail("", "the link's end '" + printable(end, 60) + "' is not a device of this file");
    }
    links.emplace_back(*ends, link);
  }
  const std::string copies = root.text("copies").value_or("source");
  if (copies != "source" && copies != "target")
    root.fail("copies", "is unknown", "expected source (a copy engine) or target (the device itself)");
  const double corun = root.number("corun").value_or(1);
  if (!std::isfinite(corun) || corun < 1) root.fail("corun", "must be a number of at least 1");
  EMPLACE_TRY(document.finish());
  if (devices.size() > kMaxDevices)
    return invalid(where, fmt::format("{} devices exceed the limit of 256", devices.size()));
  std::vector<Link> matrix =
      links.empty() ? default_links(list, costs) : std::vector<Link>(devices.size() * devices.size());
  for (std::size_t s = 0; s < devices.size(); ++s) {
    for (std::size_t t = 0; t < devices.size(); ++t) {
      for (const auto& [ends, link] : links) {  // Later entries override earlier ones.
        const bool forth = matches(ends.source, devices[s].name) && matches(ends.target, devices[t].name);
        const bool back =
            !ends.one_way && matches(ends.target, devices[s].name) && matches(ends.source, devices[t].name);
        if (forth || back) matrix[s * devices.size() + t] = link;
      }
    }
  }
  auto set = DeviceSet::make(std::move(devices), std::move(matrix));
  if (!set) return invalid(where, set.error().context);
  const DeviceSet timed =
      set->with_copies(copies == "target" ? CopyEngine::kTarget : CopyEngine::kSource).with_corun(corun);
  const auto at_file = [&](const Error& error) { return invalid(where, error.context); };
  const auto with_engines = timed.with_engines(std::move(engines));
  if (!with_engines) return at_file(with_engines.error());
  auto whole = with_engines->with_shared(std::move(shared));
  return whole ? std::move(whole) : at_file(whole.error());
}

}  // namespace

Result<DeviceSet> parse_devices(std::string_view toml, std::string_view where, const Reserve& reserve) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::parse(toml, where));
  return build(std::move(document), where, reserve);
}

Result<DeviceSet> load_devices(const std::filesystem::path& path, const Reserve& reserve) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::load(path));
  return build(std::move(document), printable(path.filename().string()), reserve);
}

}  // namespace emplace
