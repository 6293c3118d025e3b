#include "lab/worlds/world_machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "graph/models/drawing.h"
#include "lab/worlds/held_out.h"

namespace emplace::lab {
namespace {

using models::drawn;
using models::drawn_log;
using models::happens;

constexpr std::array<std::size_t, 21> kSizes{2, 2, 2, 3,  3,  4,  4,  4,  5,  6, 7,
                                             8, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr std::array<std::string_view, 7> kNetworks{
    "ethernet-10", "ethernet-25", "ethernet-100", "ethernet-400", "ib-edr", "ib-hdr", "ib-ndr"};
/// Links between the GPUs of a host, beside the host links of the catalogue.
constexpr std::array<std::string_view, 8> kBridges{"nvlink1", "nvlink2",        "nvlink3", "nvlink4",
                                                   "nvlink5", "nvlink3_bridge", "xgmi2",   "xgmi3"};
constexpr std::array<std::string_view, 7> kBuses{"pcie3_x16", "pcie3_x8", "pcie4_x16", "pcie4_x8",
                                                 "pcie5_x16", "pcie5_x8", "pcie6_x16"};

template <class Names>
const auto& one_of(Rng& rng, const Names& names) {
  return names[rng.below(static_cast<std::uint32_t>(names.size()))];
}

/// The devices of a kind to draw from.
std::vector<const CatalogueDevice*> pool(std::string_view kind, bool held_out) {
  std::vector<const CatalogueDevice*> found;
  for (const CatalogueDevice& device : catalogue_devices()) {
    // A GPU that shares the memory of its CPU is never one of several. Later devices would change the worlds
    // of a seed.
    if (device.profile.kind != kind || device.family == DeviceFamily::kUnified) continue;
    if (device.since != CostVersion::k1) continue;
    if (device.profile.name.ends_with("-calibrated") || is_held_out_device(device.profile.name) != held_out)
      continue;
    found.push_back(&device);
  }
  return found;
}

/// A link of the catalogue whose rate differs from its own by up to a fifth, as those of real machines do.
std::string link_table(Rng& rng, std::string_view first, std::string_view second, std::string_view name) {
  const Link& link = known_link(name)->link;
  return fmt::format(
      "[[link]]\nbetween = [\"{}\", \"{}\"]\nbandwidth = \"{:.4g}GB/s\"\nlatency = \"{:.4g}us\"\n", first,
      second, link.bytes_per_s * 1e-9 * drawn_log(rng, 0.8, 1.25),
      link.latency_s * 1e6 * drawn_log(rng, 0.8, 1.25));
}

/// The kinds of the GPUs, in the order of the devices: neighbours are of one kind.
std::vector<const CatalogueDevice*> drawn_gpus(Rng& rng, std::size_t count, std::size_t most_kinds,
                                               bool held_out) {
  std::vector<const CatalogueDevice*> kinds = pool("gpu", held_out);
  rng.shuffle(kinds);
  constexpr std::array<std::size_t, 10> kKinds{1, 1, 1, 1, 1, 2, 2, 2, 3, 4};
  kinds.resize(std::min({one_of(rng, kKinds), most_kinds, count, kinds.size()}));
  std::vector<std::size_t> ends{count};  // Where the runs of equal devices end.
  while (ends.size() < kinds.size()) {
    const std::size_t end = 1 + rng.below(static_cast<std::uint32_t>(count - 1));
    if (std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
  std::sort(ends.begin(), ends.end());
  std::vector<const CatalogueDevice*> gpus;
  for (std::size_t k = 0; k < kinds.size(); ++k) gpus.resize(ends[k], kinds[k]);
  return gpus;
}

/// The links of a host: those of the catalogue with other rates, or a bus of all, or bridges between its
/// GPUs.
std::string links_of_host(Rng& rng, const DrawnMachine& machine, std::span<const std::size_t> members) {
  std::string text;
  const bool bus = happens(rng, 0.3), bridged = happens(rng, 0.4);
  const std::string_view common = one_of(rng, kBuses);
  const std::string_view bridge = one_of(rng, kBridges);
  for (std::size_t a = 0; a < members.size(); ++a) {
    for (std::size_t b = a + 1; b < members.size(); ++b) {
      const CatalogueDevice& first = *machine.devices[members[a]];
      const CatalogueDevice& second = *machine.devices[members[b]];
      const bool same = first.profile.name == second.profile.name && first.profile.kind == "gpu";
      const bool first_slower =
          known_link(first.host_link)->link.bytes_per_s <= known_link(second.host_link)->link.bytes_per_s;
      const std::string_view own = first_slower ? first.host_link : second.host_link;
      Rng rates = rng;  // Links of one kind have one rate within a host.
      text += link_table(rates, machine.names[members[a]], machine.names[members[b]],
                         bridged && same ? bridge
                         : bus           ? common
                                         : own);
    }
  }
  rng();  // The next host draws other rates.
  return text;
}

std::string quoted_names(const DrawnMachine& machine, std::span<const std::size_t> members) {
  std::string text;
  for (const std::size_t d : members)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", machine.names[d]);
  return text;
}

std::string shared_table(const std::string& name, const std::string& devices, std::int64_t engines) {
  return fmt::format("[[shared]]\nname = \"{}\"\ndevices = [{}]\nengines = {}\n", name, devices, engines);
}

}  // namespace

std::string_view memory_class_name(MemoryClass memory) {
  constexpr std::array<std::string_view, 3> kNames{"loose", "uneven", "tight"};
  return kNames[static_cast<std::size_t>(memory)];
}

std::size_t DrawnMachine::kinds() const {
  std::set<std::string_view> names_of_kinds;
  for (const CatalogueDevice* device : devices) names_of_kinds.insert(device->profile.name);
  return names_of_kinds.size();
}

DrawnMachine drawn_machine(Rng& rng, bool held_out) {
  DrawnMachine machine;
  const std::size_t size = one_of(rng, kSizes);
  std::size_t hosts =
      size >= 4 && happens(rng, 0.4) ? static_cast<std::size_t>(drawn(rng, 2, size >= 8 ? 4 : 2)) : 1;
  const bool cpus = size > hosts && happens(rng, 0.55);
  const std::size_t count = size - (cpus ? hosts : 0);
  hosts = std::min(hosts, count);
  const auto gpus = drawn_gpus(rng, count, cpus ? 3 : 4, held_out);
  const std::vector<const CatalogueDevice*> processors = pool("cpu", held_out);
  const CatalogueDevice* const processor = one_of(rng, processors);
  std::vector<std::vector<std::size_t>> members(hosts);
  for (std::size_t h = 0, next = 0; h < hosts; ++h) {
    const std::string host = hosts > 1 ? fmt::format("host{}", h) : "";
    const auto add = [&](const CatalogueDevice* device, const std::string& name) {
      members[h].push_back(machine.devices.size());
      machine.devices.push_back(device);
      machine.names.push_back(host.empty() ? name : host + "/" + name);
      machine.hosts.push_back(host);
    };
    const std::size_t end = count * (h + 1) / hosts;
    for (std::size_t g = 0; next < end; ++g) add(gpus[next++], fmt::format("gpu:{}", g));
    if (cpus) add(processor, "cpu:0");
  }
  if (hosts > 1) {
    const std::string_view network = one_of(rng, kNetworks);
    machine.links += link_table(rng, "*", "*", network);
  }
  const std::int64_t cards = drawn(rng, 1, 2);
  const bool behind_switch = happens(rng, 0.15);
  for (std::size_t h = 0; h < hosts; ++h) {
    machine.links += links_of_host(rng, machine, members[h]);
    if (hosts > 1)
      machine.links += shared_table(fmt::format("host{}/nic", h), quoted_names(machine, members[h]), cards);
  }
  // Half of the GPUs of a single machine behind one uplink of a switch.
  if (hosts == 1 && behind_switch && count >= 4)
    machine.links += shared_table("switch", quoted_names(machine, std::span{members[0]}.first(count / 2)), 1);
  if (happens(rng, 0.2)) machine.head = fmt::format("copy_engines = {}\n", drawn(rng, 2, 3));
  return machine;
}

std::vector<std::int64_t> drawn_memory(Rng& rng, const DrawnMachine& machine, MemoryClass memory,
                                       std::int64_t need_bytes) {
  const auto need = static_cast<double>(need_bytes);
  const auto bytes = [](double value) { return static_cast<std::int64_t>(value); };
  std::vector<std::int64_t> caps;
  double all = 0;
  for (const CatalogueDevice* device : machine.devices)
    if (device->profile.kind == "gpu") all += static_cast<double>(device->profile.memory_bytes);
  const double total = need * drawn_log(rng, 1.15, 2.2);
  const bool full_host = happens(rng, 0.75);
  for (const CatalogueDevice* device : machine.devices) {
    const auto own = static_cast<double>(device->profile.memory_bytes);
    const double enough = std::max(own, need * drawn_log(rng, 1.05, 1.6));
    if (memory == MemoryClass::kLoose || (device->profile.kind == "cpu" && full_host)) {
      caps.push_back(bytes(enough));
    } else if (memory == MemoryClass::kUneven) {
      caps.push_back(bytes(need * drawn_log(rng, 0.4, 1.3)));
    } else {
      const double share =
          device->profile.kind == "gpu" ? own / all : 1 / static_cast<double>(machine.devices.size());
      caps.push_back(bytes(std::min(total * share, need * 0.95)));
    }
  }
  return caps;
}

std::string device_file(const DrawnMachine& machine, std::span<const std::int64_t> memory_bytes) {
  std::string text = machine.head;
  for (std::size_t d = 0; d < machine.devices.size(); ++d) {
    text += fmt::format("[[device]]\nname = \"{}\"\nprofile = \"{}\"\nmemory = \"{}B\"\n", machine.names[d],
                        machine.devices[d]->profile.name, memory_bytes[d]);
    if (!machine.hosts[d].empty()) text += fmt::format("host = \"{}\"\n", machine.hosts[d]);
  }
  return text + machine.links;
}

}  // namespace emplace::lab
