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

namespace emplace {
namespace {

struct LinkKind {
  std::string_view name;
  Link link;
};
constexpr std::array<LinkKind, 4> kLinks{{{"pcie3_x16", {12e9, 10e-6}},
                                          {"pcie5_x16", {50e9, 10e-6}},
                                          {"nvlink2", {130e9, 6e-6}},
                                          {"nvlink4", {400e9, 4e-6}}}};

/// Matches "gpu:*" by prefix and other patterns exactly.
bool matches(std::string_view pattern, std::string_view name) {
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : pattern == name;
}

Profile read_profile(TomlTable table) {
  Profile profile;
  if (const auto base = table.text("base")) {
    const auto found = find_profile(*base);
    if (found) {
      profile = *found;
    } else {
      table.fail("base", "= " + found.error().context);
    }
  }
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
  if (const auto peak = table.flops_per_s("peak"))
    profile.peak_gflops = profile.matrix_peak_gflops = *peak * 1e-9;
  if (const auto peak = table.flops_per_s("matrix_peak")) profile.matrix_peak_gflops = *peak * 1e-9;
  if (const auto rate = table.bytes_per_s("bandwidth")) profile.bandwidth_gbs = *rate * 1e-9;
  if (const auto share = table.number("bandwidth_efficiency")) profile.bandwidth_efficiency = *share;
  if (const auto launch = table.seconds("launch")) profile.launch_us = *launch * 1e6;
  if (auto efficiency = table.table("efficiency")) {
    for (std::size_t c = 2; c < kNumOpClasses; ++c) {
      if (const auto value = efficiency->number(op_class_name(static_cast<OpClass>(c))))
        profile.efficiency[c] = *value;
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
  return profile;
}

std::optional<Profile> named_profile(TomlTable& device, const std::vector<Profile>& own) {
  const auto name = device.text("profile");
  if (!name) return device.fail("", "a device needs a profile"), std::nullopt;
  for (const Profile& profile : own) {
    if (profile.name == *name) return profile;
  }
  const auto found = find_profile(*name);
  if (!found) return device.fail("profile", "= " + found.error().context), std::nullopt;
  return *found;
}

Device read_device(TomlTable table, const std::vector<Profile>& own, double reserve_share) {
  Device device;
  if (const auto name = table.text("name")) {
    device.name = *name;
  } else {
    table.fail("", "a device needs a name");
  }
  if (auto profile = named_profile(table, own)) device.profile = *std::move(profile);
  device.memory_bytes = table.bytes("memory").value_or(device.profile.memory_bytes);
  device.host = table.text("host").value_or("");
  std::int64_t reserved = static_cast<std::int64_t>(reserve_share * static_cast<double>(device.memory_bytes));
  if (const auto reserve = table.text("reserve")) {
    if (const auto share = parse_share(*reserve)) {
      reserved += static_cast<std::int64_t>(*share * static_cast<double>(device.memory_bytes));
    } else if (const auto bytes = parse_bytes(*reserve)) {
      reserved += *bytes;
    } else {
      table.fail("reserve", "must be a share or a size", "write it like \"10%\" or \"1GiB\"");
    }
  }
  device.memory_bytes -= reserved;
  return device;
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
  std::vector<bool> listed(devices.size(), false);
  for (const std::string& pattern : patterns) {
    bool known = false;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (!matches(pattern, devices[d].name)) continue;
      known = listed[d] = true;
    }
    if (!known) table.fail("devices", "'" + printable(pattern, 60) + "' matches no device of this file");
  }
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (listed[d]) shared.devices.push_back(static_cast<DeviceId>(d));
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

Link read_link(TomlTable& table) {
  Link link;
  if (const auto name = table.text("profile")) {
    const auto it =
        std::find_if(kLinks.begin(), kLinks.end(), [&](const LinkKind& kind) { return kind.name == *name; });
    if (it == kLinks.end()) {
      table.fail("profile", "is not a known link", "built in: pcie3_x16 pcie5_x16 nvlink2 nvlink4");
    } else {
      link = it->link;
    }
  }
  if (const auto rate = table.bytes_per_s("bandwidth")) link.bytes_per_s = *rate;
  if (const auto latency = table.seconds("latency")) link.latency_s = *latency;
  link.shaped = table.boolean("shaped").value_or(false);
  if (link.bytes_per_s == 0) table.fail("", "a link needs a bandwidth above zero");
  return link;
}

Result<DeviceSet> build(TomlDocument document, std::string_view where, double reserve_share) {
  TomlTable root = document.root();
  std::vector<Profile> profiles;
  for (TomlTable& table : root.tables("profile")) profiles.push_back(read_profile(table));
  std::vector<Device> devices;
  const std::uint32_t engines_of_all = read_engines(root).value_or(1);
  std::vector<std::uint32_t> engines;
  for (TomlTable& table : root.tables("device")) {
    devices.push_back(read_device(table, profiles, reserve_share));
    engines.push_back(read_engines(table).value_or(engines_of_all));
  }
  std::vector<SharedLink> shared;
  for (TomlTable& table : root.tables("shared")) shared.push_back(read_shared(table, devices));
  std::vector<std::pair<LinkEnds, Link>> links;
  for (TomlTable& table : root.tables("link")) {
    const auto ends = read_ends(table);
    const Link link = read_link(table);
    if (!ends) continue;
    const auto known = [&](const std::string& pattern) {
      return std::any_of(devices.begin(), devices.end(),
                         [&](const Device& device) { return matches(pattern, device.name); });
    };
    for (const std::string& end : {ends->source, ends->target}) {
      if (!known(end))
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
  std::vector<Link> matrix(devices.size() * devices.size());
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

Result<DeviceSet> parse_devices(std::string_view toml, std::string_view where, double reserve_share) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::parse(toml, where));
  return build(std::move(document), where, reserve_share);
}

Result<DeviceSet> load_devices(const std::filesystem::path& path, double reserve_share) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::load(path));
  return build(std::move(document), printable(path.filename().string()), reserve_share);
}

}  // namespace emplace
