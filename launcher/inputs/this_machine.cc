#include "launcher/inputs/this_machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/cores.h"
#include "base/text/words.h"
#include "launcher/inputs/nvml.h"
#include "placement/machine/catalogue.h"
#include "placement/machine/device_file.h"

namespace emplace::launcher {
namespace {

constexpr double kBandwidthPerCore_gbs = 12, kMaxBandwidth_gbs = 100;
constexpr double kUnknownClock_ghz = 2;

/// Facts about the processor from /proc/cpuinfo.
struct CpuFacts {
  std::string model;
  std::set<std::string, std::less<>> flags;
  double max_mhz = 0;  ///< Highest current clock; 0 if the file has none.
  double threads_per_core = 1;
  bool intel = false;
};

/// Returns the value of "key : value", if the line has this key.
std::optional<std::string_view> value_of(std::string_view line, std::string_view key) {
  if (!line.starts_with(key)) return std::nullopt;
  line.remove_prefix(key.size());
  const std::size_t colon = line.find_first_not_of(" \t");
  if (colon == std::string_view::npos || line[colon] != ':') return std::nullopt;
  line.remove_prefix(colon + 1);
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view{} : line.substr(first);
}

/// The number that a text starts with; `otherwise` if there is none.
double number_in(std::string_view text, double otherwise) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} ? value : otherwise;
}

CpuFacts read_cpu(const std::filesystem::path& proc) {
  CpuFacts facts;
  double siblings = 0, cores = 0;
  std::ifstream file{proc / "cpuinfo"};
  for (std::string line; std::getline(file, line);) {
    if (const auto model = value_of(line, "model name"); model && facts.model.empty()) facts.model = *model;
    if (const auto vendor = value_of(line, "vendor_id")) facts.intel = *vendor == "GenuineIntel";
    if (const auto mhz = value_of(line, "cpu MHz"))
      facts.max_mhz = std::max(facts.max_mhz, number_in(*mhz, 0));
    if (const auto count = value_of(line, "siblings")) siblings = number_in(*count, 0);
    if (const auto count = value_of(line, "cpu cores")) cores = number_in(*count, 0);
    auto flags = value_of(line, "flags");
    if (!flags) flags = value_of(line, "Features");  // Arm
    if (!flags || !facts.flags.empty()) continue;
    for (std::size_t at = 0; at < flags->size();) {
      const std::size_t end = std::min(flags->find(' ', at), flags->size());
      if (end > at) facts.flags.emplace(flags->substr(at, end - at));
      at = end + 1;
    }
  }
  if (cores > 0 && siblings > cores) facts.threads_per_core = siblings / cores;
  return facts;
}

/// FP32 operations per cycle of a core, and the name of the instructions.
struct Simd {
  double flops_per_cycle;
  const char* name;
};

Simd simd_of(const CpuFacts& facts) {
  const auto has = [&](std::string_view flag) { return facts.flags.contains(flag); };
  if (has("avx512f") && facts.intel) return {64, "AVX-512"};
  if (has("avx2") && has("fma")) return {32, "AVX2"};
  if (has("avx")) return {16, "AVX"};
  if (has("asimd")) return {16, "Advanced SIMD"};
  return {8, "no AVX"};
}

/// The nominal clock [GHz]: "@ 2.30GHz" of the model, else the highest current clock.
double clock_ghz(const CpuFacts& facts) {
  const std::size_t at = facts.model.find("@ ");
  if (at != std::string::npos) {
    const double named = number_in(std::string_view{facts.model}.substr(at + 2), 0);
    if (named > 0) return named;
  }
  return facts.max_mhz > 0 ? facts.max_mhz * 1e-3 : kUnknownClock_ghz;
}

/// A whole number in a file such as memory.max; nothing if it holds none ("max").
std::optional<std::int64_t> number_of_file(const std::filesystem::path& file) {
  std::ifstream in{file};
  std::int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

/// The value of "key number" in a file such as memory.stat; 0 without one.
std::int64_t number_of_key(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in{file};
  std::string name;
  for (std::int64_t value = 0; in >> name >> value;)
    if (name == key) return value;
  return 0;
}

/// MemAvailable [B]; nothing if it is unknown.
std::optional<std::int64_t> available_bytes(const std::filesystem::path& proc) {
  std::ifstream file{proc / "meminfo"};
  for (std::string line; std::getline(file, line);)
    if (const auto kib = value_of(line, "MemAvailable"))
      return static_cast<std::int64_t>(number_in(*kib, 0)) * 1024;
  return std::nullopt;
}

/// What one cgroup and its parents leave [B].
std::int64_t left_in_cgroup(std::filesystem::path group, const std::filesystem::path& root,
                            const char* limit_file, const char* used_file, const char* cache_key) {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  for (;; group = group.parent_path()) {
    const auto limit = number_of_file(group / limit_file), used = number_of_file(group / used_file);
    // The page cache of inactive files is freed on demand.
    if (limit && used)
      left = std::min(left, *limit - *used + number_of_key(group / "memory.stat", cache_key));
    if (group == root || !group.has_relative_path() || group == group.parent_path()) return left;
  }
}

/// What the cgroups of this process leave [B], by /proc/self/cgroup; a huge number without a limit.
std::int64_t cgroup_left_bytes(const MachineSources& sources) {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  std::ifstream file{sources.proc / "self" / "cgroup"};
  for (std::string line; std::getline(file, line);) {  // "0::/a/b", "4:memory:/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view{line}.substr(first + 1, second - first - 1);
    const std::filesystem::path inner = std::filesystem::path{line.substr(second + 1)}.relative_path();
    const auto group_of = [&](const std::filesystem::path& root) {
      // In a container the path may be the host's; then the root is the group of the container.
      std::error_code failure;
      const std::filesystem::path group = inner.empty() ? root : root / inner;
      return std::filesystem::exists(group, failure) ? group : root;
    };
    if (controllers.empty()) {
      left = std::min(left, left_in_cgroup(group_of(sources.cgroup), sources.cgroup, "memory.max",
                                           "memory.current", "inactive_file"));
    } else if (controllers == "memory") {
      const std::filesystem::path root = sources.cgroup / "memory";
      left = std::min(left, left_in_cgroup(group_of(root), root, "memory.limit_in_bytes",
                                           "memory.usage_in_bytes", "total_inactive_file"));
    }
  }
  return left;
}

std::int64_t whole_mib(std::int64_t bytes) { return bytes >> 20 << 20; }

std::string profile_toml(std::string_view name, std::string_view base, double peak_gflops,
                         double matrix_gflops, double bandwidth_gbs) {
  return fmt::format(
      "[[profile]]\nname = \"{}\"\nbase = \"{}\"\npeak = \"{:.6g}GFLOP/s\"\nmatrix_peak = \"{:.6g}GFLOP/s\"\n"
      "bandwidth = \"{:.6g}GB/s\"\n\n",
      name, base, peak_gflops, matrix_gflops, bandwidth_gbs);
}

std::string device_toml(std::string_view name, std::string_view profile, std::int64_t memory) {
  return fmt::format("[[device]]\nname = \"{}\"\nprofile = \"{}\"\nmemory = \"{}B\"\n\n", name, profile,
                     memory);
}

/// Adds the CPU. Errors (kInvalid): its free memory is unknown.
Result<Unit> add_cpu(const MachineSources& sources, ThisMachine& machine) {
  const auto available = available_bytes(sources.proc);
  if (!available)
    return invalid((sources.proc / "meminfo").string(), "has no MemAvailable",
                   "name the machine with --devices: a device file, or e.g. \"h100 x 4, epyc9654\"");
  const std::int64_t free = whole_mib(std::min(*available, cgroup_left_bytes(sources)));
  if (free <= 0) return invalid("this machine", "has no free memory", "name the machine with --devices");
  const CpuFacts facts = read_cpu(sources.proc);
  const double cores = std::max(1.0, std::floor(sources.cores / facts.threads_per_core));
  std::string profile = "this-cpu";
  if (const CatalogueDevice* const known = recognised_device(facts.model);
      known != nullptr && known->cores > 0) {
    const double share = cores / known->cores;
    const Profile& p = known->profile;
    if (share == 1) {
      profile = p.name;
    } else {
      const double bandwidth =
          std::min(p.bandwidth_gbs * std::max(1.0, share), kBandwidthPerCore_gbs * cores);
      machine.tables +=
          profile_toml(profile, p.name, p.peak_gflops * share, p.matrix_peak_gflops * share, bandwidth);
      machine.notes.push_back(
          fmt::format("cpu:0: rates of {} of the {} cores of {}", cores, known->cores, p.name));
    }
  } else {
    const Simd simd = simd_of(facts);
    const double clock = clock_ghz(facts), peak = cores * clock * simd.flops_per_cycle;
    const double bandwidth = std::min(kMaxBandwidth_gbs, kBandwidthPerCore_gbs * cores);
    machine.tables += profile_toml(profile, "haswell18", peak, peak, bandwidth);
    machine.notes.push_back(
        fmt::format("cpu:0: {} is not in the catalogue; rates are estimated: {} cores x {:.3g} GHz x {} "
                    "({}), {:.3g} GB/s",
                    facts.model.empty() ? "this processor" : printable(facts.model, 60), cores, clock,
                    simd.flops_per_cycle, simd.name, bandwidth));
  }
  machine.tables += device_toml("cpu:0", profile, free);
  machine.summary = fmt::format("cpu:0 ({} {}, {} free)", sources.cores,
                                sources.cores == 1 ? "core" : "cores", format_bytes(free));
  return Unit{};
}

/// The GPU that a word of CUDA_VISIBLE_DEVICES names by the beginning of its UUID; null if none, or several.
const NvmlGpu* gpu_by_uuid(const std::vector<NvmlGpu>& all, std::string_view word) {
  const NvmlGpu* found = nullptr;
  for (const NvmlGpu& gpu : all) {
    if (!gpu.uuid.starts_with(word)) continue;
    if (found != nullptr) return nullptr;
    found = &gpu;
  }
  return found;
}

/// Returns the GPUs that CUDA_VISIBLE_DEVICES leaves, in its order. A value that is neither a list of numbers
/// nor of UUIDs is ignored and noted.
std::vector<NvmlGpu> visible_of(std::vector<NvmlGpu> all, const MachineSources& sources,
                                ThisMachine& machine) {
  if (!sources.visible_gpus) return all;
  std::vector<NvmlGpu> chosen;
  std::string_view rest = *sources.visible_gpus;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    int number = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (failure != std::errc{} || end != word.data() + word.size()) {
      const bool uuids =
          std::none_of(all.begin(), all.end(), [](const NvmlGpu& g) { return g.uuid.empty(); });
      if (!uuids || !word.starts_with("GPU-")) {
        machine.notes.push_back("CUDA_VISIBLE_DEVICES '" + printable(*sources.visible_gpus, 60) +
                                "' is not a list of numbers or UUIDs; all GPUs are used");
        return all;
      }
      const NvmlGpu* const named = gpu_by_uuid(all, word);
      if (named == nullptr) break;
      chosen.push_back(*named);
      continue;
    }
    // CUDA ignores everything from the first invalid number on.
    if (number < 0 || static_cast<std::size_t>(number) >= all.size()) break;
    chosen.push_back(all[static_cast<std::size_t>(number)]);
  }
  return chosen;
}

void add_gpu(const NvmlGpu& gpu, std::size_t number, const MachineSources& sources, ThisMachine& machine) {
  const std::string name = fmt::format("gpu:{}", number);
  const std::string title = gpu.name.empty() ? "a GPU without a name" : printable(gpu.name, 60);
  std::string profile;
  if (const CatalogueDevice* const known = recognised_device(gpu.name, gpu.memory_bytes)) {
    profile = known->profile.name;
  } else {
    profile = "this-" + name;
    machine.tables += profile_toml(profile, "rtx3090", gpu.peak_gflops, gpu.peak_gflops, gpu.bandwidth_gbs);
    machine.notes.push_back(
        fmt::format("{}: {} is not in the catalogue; rates are estimated from cores, clocks and memory bus: "
                    "{:.4g} GFLOP/s, {:.4g} GB/s",
                    name, title, gpu.peak_gflops, gpu.bandwidth_gbs));
  }
  const std::int64_t free = whole_mib(gpu.free_bytes);
  // The kernel writes -1 on a machine with one node.
  const auto node = gpu.pci.empty() ? std::nullopt : number_of_file(sources.pci / gpu.pci / "numa_node");
  const bool known_node = node && *node >= 0;
  if (known_node) machine.tables += fmt::format("# NUMA node {}, PCI {}\n", *node, gpu.pci);
  machine.tables += device_toml(name, profile, free);
  machine.summary += fmt::format(", {} ({}, {} free{})", name, title, format_bytes(free),
                                 known_node ? fmt::format(", NUMA node {}", *node) : "");
}

/// The NVLinks between two GPUs, as the link of the catalogue, or as its part for fewer links than it has.
/// Nothing if there are none.
std::optional<Link> nvlink_between(const NvmlGpu& a, const NvmlGpu& b) {
  constexpr std::array<unsigned, 6> kLinks{0, 4, 6, 12, 18, 18};  // [generations] Of the catalogue's link.
  const unsigned generation = std::min(a.nvlink, b.nvlink);
  const unsigned links = b.index < a.nvlinks.size() ? a.nvlinks[b.index] : 0;
  if (generation == 0 || links == 0) return std::nullopt;
  const CatalogueLink* const whole = known_link("nvlink" + std::to_string(generation));
  if (whole == nullptr) return std::nullopt;
  Link link = whole->link_of(kCurrentCosts);
  link.bytes_per_s *= static_cast<double>(links) / kLinks[generation];
  return link;
}

std::string link_toml(std::string_view a, std::string_view b, const Link& link) {
  return fmt::format(
      "[[link]]\nbetween = [\"{}\", \"{}\"]\nbandwidth = \"{:.6g}GB/s\"\nlatency = \"{:.6g}us\"\n\n", a, b,
      link.bytes_per_s * 1e-9, link.latency_s * 1e6);
}

/// Whether one of two GPUs cannot read the other one's memory: then copies go through the host.
bool cut_off(const NvmlGpu& a, const NvmlGpu& b) {
  const auto from = [](const NvmlGpu& one, const NvmlGpu& other) {
    return other.index < one.cut_off.size() && one.cut_off[other.index];
  };
  return from(a, b) || from(b, a);
}

/// Adds the links if some are NVLinks or go through the host: then all are written, since only a file without
/// links gets those of the catalogue. `gpus`: those of the machine, in order. Errors: those of
/// parse_devices().
Result<Unit> add_links(const std::vector<NvmlGpu>& gpus, ThisMachine& machine) {
  std::vector<std::optional<Link>> nvlinks;  // [gpus, gpus]
  for (const NvmlGpu& a : gpus)
    for (const NvmlGpu& b : gpus) nvlinks.push_back(nvlink_between(a, b));
  bool plain =
      std::none_of(nvlinks.begin(), nvlinks.end(), [](const auto& link) { return link.has_value(); });
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = a + 1; b < gpus.size(); ++b) {
      if (!cut_off(gpus[a], gpus[b])) continue;
      plain = false;
      machine.notes.push_back(fmt::format(
          "gpu:{} and gpu:{} cannot read each other's memory; copies between them go through the host", a,
          b));
    }
  }
  if (plain) return Unit{};
  EMPLACE_TRY_ASSIGN(const DeviceSet devices, machine.devices());
  std::string links;
  for (std::size_t a = 0; a < devices.size(); ++a) {
    for (std::size_t b = a + 1; b < devices.size(); ++b) {
      const auto s = static_cast<DeviceId>(a), t = static_cast<DeviceId>(b);
      const std::optional<Link> nvlink =  // The first device is the CPU.
          a == 0 ? std::nullopt : nvlinks[(a - 1) * gpus.size() + b - 1];
      Link link = nvlink.value_or(devices.link(s, t));
      if (a > 0 && cut_off(gpus[a - 1], gpus[b - 1])) link.latency_s *= 2;  // Two copies, in chunks.
      links += link_toml(devices[s].name, devices[t].name, link);
    }
  }
  machine.tables += links;
  return Unit{};
}

Result<Unit> add_gpus(const MachineSources& sources, ThisMachine& machine) {
  const auto found = nvml_gpus(sources.nvml);
  if (!found) {
    machine.notes.push_back(found.error().context + "; its GPUs are left out");
    return Unit{};
  }
  std::vector<NvmlGpu> added;
  for (const NvmlGpu& gpu : visible_of(*found, sources, machine)) {
    const bool known = recognised_device(gpu.name, gpu.memory_bytes) != nullptr;
    const bool rates = known || (gpu.peak_gflops > 0 && gpu.bandwidth_gbs > 0);
    if (rates && whole_mib(gpu.free_bytes) > 0 && added.size() + 2 <= kMaxDevices) {
      add_gpu(gpu, added.size(), sources, machine);
      added.push_back(gpu);
    } else {
      machine.notes.push_back(printable(gpu.name, 60) + ": is left out: " +
                              (rates ? "it has no free memory" : "it is not in the catalogue") +
                              "; describe it in a device file");
    }
  }
  return add_links(added, machine);
}

}  // namespace

MachineSources MachineSources::real() {
  MachineSources sources;
  sources.cores = usable_cores();
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) sources.visible_gpus = visible;
  return sources;
}

std::string ThisMachine::device_file(CostVersion costs) const {
  std::string text = "# Written by emplace: the machine of --devices here.\n";
  if (costs != kUnstatedCosts) text += fmt::format("costs = {}\n", word_of(costs));
  return text + "\n" + tables;
}

Result<DeviceSet> ThisMachine::devices(const Reserve& reserve, CostVersion costs) const {
  return parse_devices(device_file(costs), "this machine", reserve);
}

Result<ThisMachine> look_at_machine(const MachineSources& sources) {
  ThisMachine machine;
  EMPLACE_TRY(add_cpu(sources, machine));
  EMPLACE_TRY(add_gpus(sources, machine));
  while (machine.tables.ends_with("\n\n")) machine.tables.pop_back();
  EMPLACE_TRY(machine.devices());
  return machine;
}

const Result<ThisMachine>& this_machine() {
  static const Result<ThisMachine> machine = look_at_machine(MachineSources::real());
  return machine;
}

}  // namespace emplace::launcher
