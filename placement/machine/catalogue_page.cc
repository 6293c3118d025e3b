#include "placement/machine/catalogue_page.h"

#include <fmt/core.h>

#include <string_view>

#include "base/units.h"
#include "placement/machine/catalogue.h"

namespace emplace {
namespace {

std::string rate_text(double giga, std::string_view unit) {
  return giga >= 1000 ? fmt::format("{:.4g} T{}", giga / 1000, unit) : fmt::format("{:.4g} G{}", giga, unit);
}

std::string_view family_title(DeviceFamily family) {
  switch (family) {
    case DeviceFamily::kDataCentre:
      return "GPUs for servers";
    case DeviceFamily::kDesktop:
      return "GPUs for desktops and workstations";
    case DeviceFamily::kUnified:
      return "GPUs that share the memory of the CPU";
    case DeviceFamily::kServerCpu:
      return "CPUs for servers";
    case DeviceFamily::kDesktopCpu:
      return "CPUs for desktops and workstations";
  }
  return "";
}

}  // namespace

std::string catalogue_page() {
  std::string out =
      "# Machines\n\n"
      "The catalogue of devices and links, and how `--devices` names a machine. The tables are generated "
      "from\n"
      "`placement/machine/catalogue.cc`; entries are added and never changed, because device files and runs "
      "refer to\nthem by name.\n\n"
      "## Naming a machine\n"
      "`--devices` (`-d`) and `input.devices` of a config take one of three:\n\n"
      "| text | machine |\n|---|---|\n"
      "| `machine.toml`, `dir/machine` | the device file of this name ([file formats](file_formats.md)) |\n"
      "| `here` | this machine: its CPU as one device, and its NVIDIA GPUs, with the memory that is free now "
      "|\n"
      "| `h100 x 4, epyc9654` | devices of the catalogue |\n\n"
      "A text is a file if it contains `/`, ends in `.toml`, or is the name of an existing file (not a "
      "folder). "
      "Without\n`--devices` the machine is `here`, and standard error states it; a graph file that contains "
      "a "
      "machine keeps its own.\n\n"
      "A run keeps a text as it is: resumed runs, replays and other nodes read the same text and never look "
      "for "
      "a file of\nthat name. `here` is resolved once, when the run starts: the run writes "
      "`RUN/devices.toml`, and "
      "its config refers to\nit.\n\n"
      "```\n"
      "machine = host | cluster ;\n"
      "host    = group { \",\" group } ;\n"
      "group   = ( device [ \"x\" count ] | count \"x\" device ) [ \"by\" link ] ;\n"
      "cluster = hosts { \",\" hosts } ;\n"
      "hosts   = [ count \"x\" ] \"(\" host \")\" [ \"by\" link ] ;\n"
      "count   = whole number, at least 1; at most 256 devices in all ;\n"
      "device, link = a name of the tables below ;\n"
      "```\n\n"
      "- Spaces around `,`, `x` and parentheses may be left out: `2x(h100x8 by nvlink4)by ib-ndr`.\n"
      "- Capital letters, `-` and `_` in names make no difference: `RTX-4090` is `rtx4090`.\n"
      "- Devices are named `gpu:0`, `gpu:1`, … and `cpu:0`, … in the order of the text; in a cluster "
      "`host0/gpu:0`, with\n  the host `host0`.\n"
      "- Two devices of a host are linked by the slower of their two host links. `by LINK` behind a group "
      "replaces the\n  links among the devices of that group.\n"
      "- `by LINK` behind hosts names their network, which several hosts need. Two hosts of different "
      "networks "
      "are linked\n  by the slower one, and a device uses the network at most at the rate of its host link. "
      "The "
      "devices of a host share\n  its network card: transfers that leave or enter the host queue at it.\n\n"
      "```sh\n"
      "emplace place GRAPH --devices \"h100 x 4, epyc9654\"\n"
      "emplace place GRAPH --devices \"rtx4090, rtx3060, ryzen7950x\"\n"
      "emplace place GRAPH --devices \"2 x (h100 x 8 by nvlink4, xeon8480 x 2) by ib-ndr\"\n"
      "emplace place GRAPH --devices here\n"
      "```\n\n"
      "## This machine\n"
      "`here` is one device `cpu:0` for the CPU and `gpu:0`, … for GPUs that NVML (the library of NVIDIA's "
      "driver) reports.\n\n"
      "- **Memory** is what is free now: `MemAvailable` of `/proc/meminfo`, at most what the cgroup leaves; "
      "for "
      "GPUs what\n  NVML reports as free.\n"
      "- **GPUs** of the catalogue have its rates. Another GPU is estimated from its cores, clocks and "
      "memory "
      "bus. If these\n  are unknown, too, it is left out; a note states either. `CUDA_VISIBLE_DEVICES` "
      "selects "
      "GPUs, by number or UUID.\n"
      "- **CPUs** of the catalogue have its rates times the share of its cores that this process may use. "
      "Another CPU is\n  estimated: cores × clock × operations per cycle (64 with AVX-512 of Intel, 32 with "
      "AVX2 and "
      "FMA, 16 with AVX or\n  Arm's Advanced SIMD, else 8), and a memory bandwidth of 12 GB/s per core, at "
      "most 100 "
      "GB/s. A note states it.\n"
      "- **Links** are NVLinks where NVML reports active ones, directly or through switches: the catalogue's "
      "rate of their\n  generation times their share of its links. The others are host links of the "
      "catalogue, with twice the latency where\n  NVML reports that two GPUs cannot read each other's "
      "memory; "
      "a note states it. For exact costs use\n  `emplace calibrate`.\n"
      "- **NUMA.** The file names the NUMA node of each GPU in a comment, where the kernel reports one.\n\n"
      "## What the values are\n"
      "- **Peak**: dense FP32 of the data sheet. Of CPUs: cores × base clock × FP32 operations per cycle (32 "
      "for "
      "AVX2 and\n  Zen 4, 64 for AVX-512 and Zen 5), for Intel's AVX-512 at 0.8 of the base clock.\n"
      "- **Matrix peak**: what `matmul` and `conv` of FP32 tensors reach, dense. TF32 where the device has "
      "it, "
      "as\n  frameworks use it, else FP32. FP16, BF16 and sparse rates are not used.\n"
      "- **Memory**: GiB of the data sheet times the share that a program can use: 0.99 with HBM (an H100 of "
      "80 "
      "GiB reports\n  81,559 MiB) and for AMD GPUs (64 GiB report 65,520 MiB); 0.92 for GDDR6 of servers, "
      "whose ECC "
      "takes a part of the\n  memory (CUDA reports 15,110 MiB of a T4); 0.98 for other GDDR (24,268 MiB of "
      "an RTX "
      "3090); 0.94 for Intel GPUs, a\n  prior; 0.75 of unified memory (Metal's recommended working set); "
      "0.95 of "
      "a CPU's modules, a prior. Sources:\n  `thundergolfer.com/blog/nvidia-gpu-memory-capacity`, outputs of "
      "`deviceQuery` and `rocm-smi`. The first entries\n  (k40, k80_gk210, v100, h100, h200, haswell18) have "
      "the full "
      "GiB. Frameworks need 0.3 to 0.6 GiB more on each GPU:\n  `--reserve`.\n"
      "- **Memory of CPUs** is a prior, because it depends on the machine: 64 GiB per channel of servers, 32 "
      "GiB "
      "of others.\n  A device file sets `memory`.\n"
      "- **Efficiencies**, bandwidth efficiency and launch time are priors of the family (last table), "
      "unless "
      "the source\n  states a calibration.\n";
  for (const DeviceFamily family : {DeviceFamily::kDataCentre, DeviceFamily::kDesktop, DeviceFamily::kUnified,
                                    DeviceFamily::kServerCpu, DeviceFamily::kDesktopCpu}) {
    out += fmt::format("\n## {}\n", family_title(family));
    out +=
        "| name | device | memory | peak | matrix peak | bandwidth | host link | source |\n"
        "|---|---|---:|---:|---:|---:|---|---|\n";
    for (const CatalogueDevice& device : catalogue_devices()) {
      if (device.family != family) continue;
      const Profile& p = device.profile;
      out += fmt::format("| `{}`{} | {} | {} | {} | {} {} | {} | {} | {} |\n", p.name,
                         device.alias.empty() ? "" : fmt::format(", `{}`", device.alias), device.title,
                         format_bytes(p.memory_bytes), rate_text(p.peak_gflops, "FLOP/s"),
                         rate_text(p.matrix_peak_gflops, "FLOP/s"), device.matrix,
                         rate_text(p.bandwidth_gbs, "B/s"), device.host_link, device.source);
    }
  }
  out +=
      "\n## Links\nEffective rates of one direction.\n\n"
      "| name | link | bandwidth | latency | source |\n|---|---|---:|---:|---|\n";
  for (const CatalogueLink& link : catalogue_links())
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", link.name, link.title,
                       rate_text(link.link.bytes_per_s * 1e-9, "B/s"), format_seconds(link.link.latency_s),
                       link.source);
  out +=
      "\n## Priors\n"
      "| family | bandwidth efficiency | launch | matmul | conv | grouped conv | other |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n";
  for (const CataloguePrior& prior : catalogue_priors())
    out += fmt::format("| {} | {} | {} us | {} | {} | {} | {} |\n", prior.name, prior.bandwidth_efficiency,
                       prior.launch_us, prior.matmul, prior.conv, prior.conv_grouped, prior.rest);
  return out;
}

}  // namespace emplace
