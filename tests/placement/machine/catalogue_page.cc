#include "tests/placement/machine/catalogue_page.h"

#include <fmt/format.h>

#include <string_view>

#include "base/text/toml_reader.h"
#include "base/units.h"
#include "placement/machine/catalogue.h"

namespace emplace {
namespace {

constexpr std::string_view kNaming = R"md(# Machines

The catalogue of devices and links, and how `--devices` names a machine. The tables are generated from
`placement/machine/catalogue.toml`; entries are added and never changed, because device files and runs refer to
them by name.

## Naming a machine
`--devices` (`-d`) and `input.devices` of a config take one of three:

| text | machine |
|---|---|
| `machine.toml`, `dir/machine` | the device file of this name ([file formats](file_formats.md)) |
| `here` | this machine: its CPU as one device, and its NVIDIA GPUs, with the memory that is free now |
| `h100 x 4, epyc9654` | devices of the catalogue |

A text is a file if it contains `/`, ends in `.toml`, or is the name of an existing file (not a folder). Without
`--devices` the machine is `here`, and standard error states it; a graph file that contains a machine keeps its own.

A run keeps a text as it is: resumed runs, replays and other nodes read the same text and never look for a file of
that name. `here` is resolved once, when the run starts: the run writes `RUN/devices.toml`, and its config refers to
it.

```
machine = host | cluster ;
host    = group { "," group } ;
group   = ( kind [ "x" count ] | count "x" kind ) [ "by" link ] ;
kind    = device [ ":" memory ] ;
cluster = hosts { "," hosts } ;
hosts   = [ count "x" ] "(" host ")" [ "by" link ] ;
count   = whole number, at least 1; at most 256 devices in all ;
memory  = a size with its unit, such as 60GiB or 24GB ;
device, link = a name of the tables below ;
```

- Spaces around `,`, `x` and parentheses may be left out: `2x(h100x8 by nvlink4)by ib-ndr`.
- Capital letters, `-` and `_` in names make no difference: `RTX-4090` is `rtx4090`.
- `rtx4090:3GiB x 2` are two devices with 3 GiB each, whatever the tables have; `--reserve` is taken off that.
- Devices are named `gpu:0`, `gpu:1`, … and `cpu:0`, … in the order of the text; in a cluster `host0/gpu:0`, with
  the host `host0`.
- Two devices of a host are linked by the slower of their two host links. `by LINK` behind a group replaces the
  links among the devices of that group.
- `by LINK` behind hosts names their network, which several hosts need. Two hosts of different networks are linked
  by the slower one, and a device uses the network at most at the rate of its host link. The devices of a host share
  its network card: transfers that leave or enter the host queue at it.

```sh
emplace place GRAPH --devices "h100 x 4, epyc9654"
emplace place GRAPH --devices "rtx4090, rtx3060, ryzen7950x"
emplace place GRAPH --devices "rtx4090:20GiB x 2, ryzen7950x"
emplace place GRAPH --devices "2 x (h100 x 8 by nvlink4, xeon8480 x 2) by ib-ndr"
emplace place GRAPH --devices here
```

)md";

constexpr std::string_view kThisMachine = R"md(## This machine
`here` is one device `cpu:0` for the CPU and `gpu:0`, … for GPUs that NVML (the library of NVIDIA's driver) reports.

- **Memory** is what is free now: `MemAvailable` of `/proc/meminfo`, at most what the cgroup leaves; for GPUs what
  NVML reports as free.
- **GPUs** of the catalogue have its rates. Another GPU is estimated from its cores, clocks and memory bus. If these
  are unknown, too, it is left out; a note states either. `CUDA_VISIBLE_DEVICES` selects GPUs, by number or UUID.
- **CPUs** of the catalogue have its rates times the share of its cores that this process may use. Another CPU is
  estimated: cores × clock × operations per cycle (64 with AVX-512 of Intel, 32 with AVX2 and FMA, 16 with AVX or
  Arm's Advanced SIMD, else 8), and a memory bandwidth of 12 GB/s per core, at most 100 GB/s. A note states it.
- **Links** are NVLinks where NVML reports active ones, directly or through switches: the catalogue's rate of their
  generation times their share of its links. The others are host links of the catalogue, with twice the latency where
  NVML reports that two GPUs cannot read each other's memory; a note states it. For exact costs use
  `emplace calibrate`.
- **NUMA.** The file names the NUMA node of each GPU in a comment, where the kernel reports one.

)md";

constexpr std::string_view kValues = R"md(## Cost versions
The estimates of op times have a version. Version 1 has one peak per device for products, whatever their dtype, and a
fixed efficiency per class of op. Version 2 has a peak for each arithmetic, and kernels fitted to measurements.

| machine | version |
|---|---|
| a text, `here`, or the text in a graph file | 2; `--cost-version 1` (a config: `input.costs`) chooses version 1 |
| a device file | that of its key `costs`; 1 without it |
| the machine of a run's record, for `--resume`, `--branch` and `replay` | that of the run; 1 if the run is older than versions |

All files of `configs/devices` have version 1. CPUs and Kepler GPUs have the same float32 times in both. Times measured
on a device, in a graph or by `emplace calibrate`, win over the estimates of either.

## Float32 and TF32
In version 2 the arithmetic of an op decides its time, and frameworks have switches for float32: products and
convolutions may use TF32 on GPUs that have it. A graph of `em.trace` records PyTorch's switches. Other graphs have the
default of their framework: TF32 for ONNX Runtime, TensorFlow and XLA; for PyTorch, TF32 for convolutions alone.
`--float32 ieee` or `--float32 tf32` (a config: `input.float32`) overrides it for both.

```sh
emplace compare GRAPH --devices "a100 x 2" --float32 tf32
emplace place GRAPH --devices "a100 x 2" --cost-version 1
```

## What the values are
- **Peak**: dense FP32 of the data sheet. Of CPUs: cores × base clock × FP32 operations per cycle (32 for AVX2 and
  Zen 4, 64 for AVX-512 and Zen 5), for Intel's AVX-512 at 0.8 of the base clock.
- **Matrix peak**: what `matmul` and `conv` of FP32 tensors reach, dense. TF32 where the device has it, as
  frameworks use it, else FP32. FP16, BF16 and sparse rates are not used.
- **Memory**: GiB of the data sheet times the share that a program can use: 0.99 with HBM (an H100 of 80 GiB reports
  81,559 MiB) and for AMD GPUs (64 GiB report 65,520 MiB); 0.92 for GDDR6 of servers, whose ECC takes a part of the
  memory (CUDA reports 15,110 MiB of a T4); 0.98 for other GDDR (24,268 MiB of an RTX 3090); 0.94 for Intel GPUs, a
  prior; 0.75 of unified memory (Metal's recommended working set); 0.95 of a CPU's modules, a prior. Sources:
  `thundergolfer.com/blog/nvidia-gpu-memory-capacity`, outputs of `deviceQuery` and `rocm-smi`. The first entries
  (k40, k80_gk210, v100, h100, h200, haswell18) have the full GiB. Frameworks need 0.3 to 0.6 GiB more on each GPU:
  `--reserve`.
- **Memory of CPUs** is a prior, because it depends on the machine: 64 GiB per channel of servers, 32 GiB of others.
  A device file sets `memory`.
- **Efficiencies**, bandwidth efficiency and launch time are priors of the family (last table), unless the source
  states a calibration.

The values of these tables are those of cost version 1 and do not change. Cost version 2, which machines named by a text
and `here` have, takes memory and bandwidth from them too, and beside them

- **Peaks by arithmetic** (second table of each family): dense rates of the data sheet as products reach them. FP64 of
  A100, H100 and A30 is that of their tensor cores, FP32 of AMD Instinct that of their matrix cores. FP16, BF16 and FP8
  accumulate in FP32, as frameworks do: GeForce cards run these at half of the rate in their data sheets.
- **What a device lacks** (–) runs as frameworks run it, and a note states it: FP8 as BF16, else FP16; INT8 as FP16, else
  BF16; all others, and what lacks these too, as FP32. Weights of four bits are converted to FP16 or BF16 and have no
  peak of their own.
- **Cache**: the last one that all units of the device share: L2 of NVIDIA's GPUs, the Infinity Cache of AMD's from MI300X
  and RX 7900 on, the system cache of Apple's, L3 of CPUs.
- **Kernels**: the measured devices whose kernels time it, the best first, or the family. Kepler's GPUs and CPUs have the
  estimates of version 1.
)md";

std::string rate_text(double giga, std::string_view unit) {
  return giga >= 1000 ? fmt::format("{:.4g} T{}", giga / 1000, unit) : fmt::format("{:.4g} G{}", giga, unit);
}

std::string device_table(DeviceFamily family) {
  std::string out = fmt::format("\n## {}\n", word_of(family));
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
  return out;
}

/// Peaks by arithmetic [TFLOP/s], cache and kernels of cost version 2.
std::string peak_table(DeviceFamily family) {
  std::string out =
      "\nPeaks by arithmetic, in TFLOP/s (INT8: TOP/s):\n\n"
      "| name | FP64 | FP32 | TF32 | FP16 | BF16 | FP8 | INT8 | cache | units | kernels | source |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|\n";
  for (const CatalogueDevice& device : catalogue_devices()) {
    if (device.family != family) continue;
    const Profile& p = device.profile_2;
    out += fmt::format("| `{}`", p.name);
    for (std::size_t a = 0; a < static_cast<std::size_t>(Arithmetic::kW4); ++a)
      out += p.peaks_gflops[a] > 0 ? fmt::format(" | {:.4g}", p.peaks_gflops[a] / 1000) : " | –";
    const std::string kernels =
        p.tables.empty() ? "family " + p.family : fmt::format("`{}`", fmt::join(p.tables, "`, `"));
    out += fmt::format(" | {} | {} | {} | {} |\n", format_bytes(p.l2_bytes),
                       p.kind == "cpu" ? device.cores : device.units, kernels, device.source_2);
  }
  return out;
}

std::string link_table() {
  std::string out =
      "\n## Links\nEffective rates of one direction, and those of cost version 2 where these were "
      "measured.\n\n"
      "| name | link | bandwidth | latency | source | version 2 |\n|---|---|---:|---:|---|---|\n";
  for (const CatalogueLink& link : catalogue_links()) {
    const auto values = [](const Link& one, std::string_view between) {
      return rate_text(one.bytes_per_s * 1e-9, "B/s") + std::string{between} + format_seconds(one.latency_s);
    };
    out += fmt::format(
        "| `{}` | {} | {} | {} | {} |\n", link.name, link.title, values(link.link, " | "), link.source,
        link.source_2.empty() ? "" : fmt::format("{}: {}", values(link.link_2, ", "), link.source_2));
  }
  return out;
}

std::string prior_table() {
  std::string out =
      "\n## Priors\n"
      "| family | bandwidth efficiency | launch | matmul | conv | grouped conv | other |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n";
  TomlDocument document = TomlDocument::parse(kCatalogueToml, "catalogue.toml").value();
  for (TomlTable& prior : document.root().tables("prior")) {
    out += "| " + prior.text("family").value();
    for (const char* key : {"bandwidth_efficiency", "launch_us", "matmul", "conv", "conv_grouped", "rest"})
      out += fmt::format(" | {}{}", prior.number(key).value(), key == std::string{"launch_us"} ? " us" : "");
    out += " |\n";
  }
  return out;
}

}  // namespace

std::string catalogue_page() {
  std::string out{kNaming};
  out += kThisMachine;
  out += kValues;
  for (const auto& family : enum_words(DeviceFamily{}).words)
    out += device_table(family.value) + peak_table(family.value);
  out += link_table();
  out += prior_table();
  return out;
}

}  // namespace emplace
