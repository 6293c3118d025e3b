#include "placement/machine/catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/text/words.h"

namespace emplace {
namespace {

constexpr double kGiB = 1073741824;

// --- Rules of derivation (catalogue_page.h prints them) ---

/// What determines the memory that a program can use.
enum class MemoryKind : std::uint8_t { kAsIs, kHbm, kEccInline, kGddr, kAmd, kIntel, kUnified, kModules };

/// Usable share of the memory of the data sheet.
double usable_share(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kAsIs:
      return 1;
    case MemoryKind::kHbm:
    case MemoryKind::kAmd:
      return 0.99;
    case MemoryKind::kEccInline:
      return 0.92;
    case MemoryKind::kGddr:
      return 0.98;
    case MemoryKind::kIntel:
      return 0.94;
    case MemoryKind::kUnified:
      return 0.75;
    case MemoryKind::kModules:
      return 0.95;
  }
  return 1;
}

std::int64_t usable_bytes(double gib, MemoryKind kind) {
  const double bytes = gib * kGiB * usable_share(kind);
  return kind == MemoryKind::kAsIs ? std::llround(bytes) : std::llround(bytes) >> 20 << 20;
}

using Prior = CataloguePrior;
constexpr Prior kKepler{"Kepler", 0.75, 8, 0.60, 0.40, 0.05, 0.2};
constexpr Prior kPascal{"Pascal", 0.75, 6, 0.75, 0.50, 0.05, 0.25};
constexpr Prior kVolta{"Volta, Turing", 0.80, 5, 0.80, 0.60, 0.08, 0.3};
constexpr Prior kTensor{"Ampere, Ada, Hopper, Blackwell for servers", 0.85, 4, 0.60, 0.45, 0.02, 0.3};
constexpr Prior kGeForce{"Ampere, Ada, Blackwell for desktops", 0.85, 4, 0.70, 0.50, 0.05, 0.3};
constexpr Prior kInstinct{"AMD Instinct", 0.75, 6, 0.50, 0.35, 0.03, 0.25};
constexpr Prior kRadeon{"AMD Radeon", 0.80, 6, 0.55, 0.40, 0.05, 0.25};
constexpr Prior kIntelGpu{"Intel GPUs", 0.70, 8, 0.50, 0.35, 0.03, 0.25};
constexpr Prior kApple{"Apple GPUs", 0.80, 10, 0.70, 0.45, 0.05, 0.3};
constexpr Prior kCpu{"CPUs", 0.70, 3, 0.70, 0.50, 0.10, 0.1};
constexpr std::array kPriors{kKepler,   kPascal, kVolta,    kTensor, kGeForce,
                             kInstinct, kRadeon, kIntelGpu, kApple,  kCpu};

/// One line of the table. Rates in GFLOP/s and GB/s, memory in GiB of the data sheet.
struct Row {
  std::string_view name, alias, title;
  DeviceFamily family;
  double gib;
  MemoryKind memory;
  double peak, matrix_peak;
  std::string_view matrix;
  double bandwidth;
  Prior prior;
  std::string_view host_link, reported;
  std::uint32_t cores;
  std::string_view source;
};

constexpr auto kServer = DeviceFamily::kDataCentre;
constexpr auto kDesk = DeviceFamily::kDesktop;
constexpr auto kShared = DeviceFamily::kUnified;
constexpr auto kEpyc = DeviceFamily::kServerCpu;
constexpr auto kCore = DeviceFamily::kDesktopCpu;
using M = MemoryKind;

constexpr std::string_view kAmpereGeForce = "NVIDIA Ampere GA102 GPU architecture white paper, V2.1";
constexpr std::string_view kAdaGeForce = "NVIDIA Ada GPU architecture white paper, V2.1";
constexpr std::string_view kBlackwellGeForce = "NVIDIA RTX Blackwell GPU architecture white paper";
constexpr std::string_view kInstinctPages = "AMD Instinct data sheets, amd.com/en/products/accelerators";
constexpr std::string_view kEpycPages =
    "amd.com/en/products/processors/server/epyc: cores, base clock, memory";
constexpr std::string_view kRyzenPages = "amd.com/en/products/processors: cores, base clock, memory";
constexpr std::string_view kArk = "ark.intel.com: cores, base clock, memory";

// clang-format off
constexpr std::array kRows{
    // Existing entries keep their values; their memory is that of the data sheet, in GiB.
    Row{"k40", "", "NVIDIA Tesla K40", kServer, 12, M::kAsIs, 4290, 4290, "FP32", 288, kKepler, "pcie3_x16", "k40m|k40c|k40t|k40s", 0,
        "NVIDIA Tesla K40 board specification BD-06902-001"},
    Row{"k80_gk210", "k80", "NVIDIA Tesla K80, one of its two GPUs", kServer, 12, M::kAsIs, 2796, 2796, "FP32", 240, kKepler, "pcie3_x16", "k80", 0,
        "NVIDIA Tesla K80 board specification BD-07317-001, without boost"},
    Row{"v100", "v100_16", "NVIDIA V100 SXM2 16 GB", kServer, 16, M::kAsIs, 15700, 15700, "FP32", 900, kVolta, "pcie3_x16", "v100 16gb", 0,
        "NVIDIA V100 data sheet, SXM2"},
    Row{"h100", "h100_sxm", "NVIDIA H100 SXM5 80 GB", kServer, 80, M::kAsIs, 67000, 494700, "TF32", 3350, kTensor, "pcie5_x16", "h100 80gb hbm3", 0,
        "NVIDIA H100 data sheet, SXM5"},
    Row{"h200", "", "NVIDIA H200 SXM 141 GB", kServer, 141, M::kAsIs, 67000, 494700, "TF32", 4800, kTensor, "pcie5_x16", "h200", 0,
        "NVIDIA H200 data sheet, SXM"},
    Row{"haswell18", "", "Intel Xeon E5-2699 v3, 18 cores", kEpyc, 256, M::kAsIs, 1094, 1094, "FP32", 68.3, kCpu, "pcie3_x16", "e5 2699 v3", 18,
        "ark.intel.com, at the AVX base clock of 1.9 GHz: 18 x 1.9 x 32"},
    // NVIDIA, for servers.
    Row{"p100", "", "NVIDIA P100 SXM2 16 GB", kServer, 16, M::kHbm, 10600, 10600, "FP32", 732, kPascal, "pcie3_x16", "p100 16gb", 0,
        "NVIDIA Tesla P100 data sheet, SXM2"},
    Row{"v100_32", "", "NVIDIA V100 SXM2 32 GB", kServer, 32, M::kHbm, 15700, 15700, "FP32", 900, kVolta, "pcie3_x16", "v100 32gb", 0,
        "NVIDIA V100 data sheet, SXM2"},
    Row{"t4", "", "NVIDIA T4", kServer, 16, M::kEccInline, 8100, 8100, "FP32", 320, kVolta, "pcie3_x16", "t4", 0,
        "NVIDIA T4 data sheet"},
    Row{"a10", "", "NVIDIA A10", kServer, 24, M::kEccInline, 31200, 62500, "TF32", 600, kTensor, "pcie4_x16", "a10", 0,
        "NVIDIA A10 data sheet"},
    Row{"a30", "", "NVIDIA A30", kServer, 24, M::kHbm, 10300, 82000, "TF32", 933, kTensor, "pcie4_x16", "a30", 0,
        "NVIDIA A30 data sheet"},
    Row{"a40", "", "NVIDIA A40", kServer, 48, M::kEccInline, 37400, 74800, "TF32", 696, kTensor, "pcie4_x16", "a40", 0,
        "NVIDIA A40 data sheet"},
    Row{"a100_40", "a100", "NVIDIA A100 SXM4 40 GB", kServer, 40, M::kHbm, 19500, 156000, "TF32", 1555, kTensor, "pcie4_x16", "a100 40gb", 0,
        "NVIDIA A100 data sheet, 40 GB"},
    Row{"a100_80", "", "NVIDIA A100 SXM4 80 GB", kServer, 80, M::kHbm, 19500, 156000, "TF32", 2039, kTensor, "pcie4_x16", "a100 80gb", 0,
        "NVIDIA A100 data sheet, 80 GB SXM"},
    Row{"l4", "", "NVIDIA L4", kServer, 24, M::kEccInline, 30300, 60000, "TF32", 300, kTensor, "pcie4_x16", "l4", 0,
        "NVIDIA L4 data sheet, half of its sparse rate"},
    Row{"l40", "", "NVIDIA L40", kServer, 48, M::kEccInline, 90500, 90500, "TF32", 864, kTensor, "pcie4_x16", "l40", 0,
        "NVIDIA L40 data sheet"},
    Row{"l40s", "", "NVIDIA L40S", kServer, 48, M::kEccInline, 91600, 183000, "TF32", 864, kTensor, "pcie4_x16", "l40s", 0,
        "NVIDIA L40S data sheet, half of its sparse rate"},
    Row{"h100_pcie", "", "NVIDIA H100 PCIe 80 GB", kServer, 80, M::kHbm, 51200, 378000, "TF32", 2000, kTensor, "pcie5_x16", "h100 pcie", 0,
        "NVIDIA H100 data sheet, PCIe; half of its sparse rate"},
    Row{"h100_nvl", "", "NVIDIA H100 NVL 94 GB", kServer, 94, M::kHbm, 60000, 417500, "TF32", 3900, kTensor, "pcie5_x16", "h100 nvl", 0,
        "NVIDIA H100 data sheet, NVL; half of its sparse rate"},
    Row{"b200", "", "NVIDIA B200 SXM 180 GB", kServer, 180, M::kHbm, 75000, 1125000, "TF32", 8000, kTensor, "pcie5_x16", "b200", 0,
        "NVIDIA DGX B200 data sheet, an eighth; half of its sparse rate"},
    Row{"gb200", "", "NVIDIA GB200, one of its two GPUs", kServer, 186, M::kHbm, 80000, 1250000, "TF32", 8000, kTensor, "nvlink_c2c", "gb200", 0,
        "NVIDIA GB200 NVL72 data sheet, a 72nd; half of its sparse rate"},
    // AMD and Intel, for servers.
    Row{"mi210", "", "AMD Instinct MI210", kServer, 64, M::kAmd, 22600, 45300, "FP32 matrix", 1638, kInstinct, "pcie4_x16", "mi210", 0, kInstinctPages},
    Row{"mi250x", "", "AMD Instinct MI250X, one of its two dies", kServer, 64, M::kAmd, 23950, 47850, "FP32 matrix", 1638, kInstinct, "pcie4_x16", "mi250x", 0, kInstinctPages},
    Row{"mi300x", "", "AMD Instinct MI300X", kServer, 192, M::kAmd, 163400, 653700, "TF32", 5300, kInstinct, "pcie5_x16", "mi300x", 0, kInstinctPages},
    Row{"mi325x", "", "AMD Instinct MI325X", kServer, 256, M::kAmd, 163400, 653700, "TF32", 6000, kInstinct, "pcie5_x16", "mi325x", 0, kInstinctPages},
    Row{"max1550", "", "Intel Data Center GPU Max 1550", kServer, 128, M::kIntel, 52400, 419000, "TF32", 3277, kIntelGpu, "pcie5_x16", "max 1550", 0,
        "Intel Data Center GPU Max Series product brief"},
    // GPUs for desktops and workstations.
    Row{"gtx1080ti", "", "NVIDIA GeForce GTX 1080 Ti", kDesk, 11, M::kGddr, 11340, 11340, "FP32", 484, kPascal, "pcie3_x16", "gtx 1080 ti", 0,
        "NVIDIA GeForce GTX 1080 Ti specifications: 3584 lanes x 2 x 1.582 GHz"},
    Row{"rtx2080ti", "", "NVIDIA GeForce RTX 2080 Ti", kDesk, 11, M::kGddr, 13450, 13450, "FP32", 616, kVolta, "pcie3_x16", "rtx 2080 ti", 0,
        "NVIDIA Turing GPU architecture white paper, reference clocks"},
    Row{"rtx3060", "", "NVIDIA GeForce RTX 3060 12 GB", kDesk, 12, M::kGddr, 12740, 12740, "TF32", 360, kGeForce, "pcie4_x16", "rtx 3060", 0, kAmpereGeForce},
    Row{"rtx3080", "", "NVIDIA GeForce RTX 3080 10 GB", kDesk, 10, M::kGddr, 29770, 29770, "TF32", 760, kGeForce, "pcie4_x16", "rtx 3080", 0, kAmpereGeForce},
    Row{"rtx3090", "", "NVIDIA GeForce RTX 3090", kDesk, 24, M::kGddr, 35580, 35580, "TF32", 936, kGeForce, "pcie4_x16", "rtx 3090", 0, kAmpereGeForce},
    Row{"rtx4060ti_16", "rtx4060ti", "NVIDIA GeForce RTX 4060 Ti 16 GB", kDesk, 16, M::kGddr, 22060, 22060, "TF32", 288, kGeForce, "pcie4_x8", "rtx 4060 ti", 0, kAdaGeForce},
    Row{"rtx4070", "", "NVIDIA GeForce RTX 4070", kDesk, 12, M::kGddr, 29150, 29150, "TF32", 504, kGeForce, "pcie4_x16", "rtx 4070", 0, kAdaGeForce},
    Row{"rtx4080", "", "NVIDIA GeForce RTX 4080", kDesk, 16, M::kGddr, 48740, 48740, "TF32", 717, kGeForce, "pcie4_x16", "rtx 4080", 0, kAdaGeForce},
    Row{"rtx4090", "", "NVIDIA GeForce RTX 4090", kDesk, 24, M::kGddr, 82580, 82580, "TF32", 1008, kGeForce, "pcie4_x16", "rtx 4090", 0, kAdaGeForce},
    Row{"rtx5080", "", "NVIDIA GeForce RTX 5080", kDesk, 16, M::kGddr, 56280, 56280, "TF32", 960, kGeForce, "pcie5_x16", "rtx 5080", 0, kBlackwellGeForce},
    Row{"rtx5090", "", "NVIDIA GeForce RTX 5090", kDesk, 32, M::kGddr, 104800, 104800, "TF32", 1792, kGeForce, "pcie5_x16", "rtx 5090", 0, kBlackwellGeForce},
    Row{"rtxa6000", "a6000", "NVIDIA RTX A6000", kDesk, 48, M::kGddr, 38700, 77400, "TF32", 768, kTensor, "pcie4_x16", "rtx a6000", 0,
        "NVIDIA RTX A6000 data sheet; half of its sparse rate"},
    Row{"rtx6000ada", "", "NVIDIA RTX 6000 Ada", kDesk, 48, M::kGddr, 91100, 182000, "TF32", 960, kTensor, "pcie4_x16", "rtx 6000 ada", 0,
        "NVIDIA RTX 6000 Ada data sheet; an eighth of its sparse FP8 rate"},
    Row{"rx7900xtx", "", "AMD Radeon RX 7900 XTX", kDesk, 24, M::kAmd, 61400, 61400, "FP32", 960, kRadeon, "pcie4_x16", "7900 xtx", 0,
        "amd.com/en/products/graphics: Radeon RX 7900 XTX"},
    Row{"arc_a770", "", "Intel Arc A770 16 GB", kDesk, 16, M::kIntel, 17200, 17200, "FP32", 560, kIntelGpu, "pcie4_x16", "arc a770", 0,
        "ark.intel.com: 4096 lanes x 2 x 2.1 GHz"},
    Row{"arc_b580", "", "Intel Arc B580", kDesk, 12, M::kIntel, 13670, 13670, "FP32", 456, kIntelGpu, "pcie4_x8", "arc b580", 0,
        "ark.intel.com: 2560 lanes x 2 x 2.67 GHz"},
    // GPUs that share the memory of the CPU.
    Row{"m1max", "", "Apple M1 Max, 32 GPU cores, 64 GB", kShared, 64, M::kUnified, 10400, 10400, "FP32", 400, kApple, "unified", "m1 max", 0,
        "apple.com/newsroom, 18 October 2021"},
    Row{"m2ultra", "", "Apple M2 Ultra, 76 GPU cores, 192 GB", kShared, 192, M::kUnified, 27200, 27200, "FP32", 800, kApple, "unified", "m2 ultra", 0,
        "apple.com/newsroom, 5 June 2023: memory; 76 cores x 256 x 1.398 GHz, a clock that others measured"},
    Row{"m3max", "", "Apple M3 Max, 40 GPU cores, 128 GB", kShared, 128, M::kUnified, 14300, 14300, "FP32", 400, kApple, "unified", "m3 max", 0,
        "apple.com/newsroom, 30 October 2023: memory; 40 cores x 256 x 1.398 GHz, a clock that others measured"},
    Row{"m4max", "", "Apple M4 Max, 40 GPU cores, 128 GB", kShared, 128, M::kUnified, 16200, 16200, "FP32", 546, kApple, "unified", "m4 max", 0,
        "apple.com/newsroom, 30 October 2024: memory; 40 cores x 256 x 1.578 GHz, a clock that others measured"},
    // CPUs: cores x base clock x operations per cycle.
    Row{"epyc7742", "", "AMD EPYC 7742", kEpyc, 512, M::kModules, 4608, 4608, "FP32", 204.8, kCpu, "pcie4_x16", "epyc 7742", 64, kEpycPages},
    Row{"epyc7763", "", "AMD EPYC 7763", kEpyc, 512, M::kModules, 5017.6, 5017.6, "FP32", 204.8, kCpu, "pcie4_x16", "epyc 7763", 64, kEpycPages},
    Row{"epyc9654", "", "AMD EPYC 9654", kEpyc, 768, M::kModules, 7372.8, 7372.8, "FP32", 460.8, kCpu, "pcie5_x16", "epyc 9654", 96, kEpycPages},
    Row{"epyc9755", "", "AMD EPYC 9755", kEpyc, 768, M::kModules, 22118.4, 22118.4, "FP32", 614.4, kCpu, "pcie5_x16", "epyc 9755", 128, kEpycPages},
    Row{"xeon8280", "", "Intel Xeon Platinum 8280", kEpyc, 384, M::kModules, 3870.7, 3870.7, "FP32", 140.8, kCpu, "pcie3_x16", "platinum 8280", 28, kArk},
    Row{"xeon8380", "", "Intel Xeon Platinum 8380", kEpyc, 512, M::kModules, 4710.4, 4710.4, "FP32", 204.8, kCpu, "pcie4_x16", "platinum 8380", 40, kArk},
    Row{"xeon8480", "xeon8480+", "Intel Xeon Platinum 8480+", kEpyc, 512, M::kModules, 5734.4, 5734.4, "FP32", 307.2, kCpu, "pcie5_x16", "platinum 8480", 56, kArk},
    Row{"xeon6980p", "", "Intel Xeon 6980P", kEpyc, 768, M::kModules, 13107.2, 13107.2, "FP32", 614.4, kCpu, "pcie5_x16", "xeon 6980p", 128, kArk},
    Row{"grace", "", "NVIDIA Grace, 72 cores", kEpyc, 480, M::kModules, 7142.4, 7142.4, "FP32", 500, kCpu, "nvlink_c2c", "", 72,
        "NVIDIA Grace CPU Superchip data sheet, a half: 72 x 3.1 x 32"},
    Row{"threadripper3990x", "", "AMD Ryzen Threadripper 3990X", kCore, 128, M::kModules, 5939.2, 5939.2, "FP32", 102.4, kCpu, "pcie4_x16", "threadripper 3990x", 64, kRyzenPages},
    Row{"threadripper5995wx", "", "AMD Ryzen Threadripper PRO 5995WX", kCore, 256, M::kModules, 5529.6, 5529.6, "FP32", 204.8, kCpu, "pcie4_x16", "threadripper 5995wx", 64, kRyzenPages},
    Row{"threadripper7980x", "", "AMD Ryzen Threadripper 7980X", kCore, 128, M::kModules, 6553.6, 6553.6, "FP32", 166.4, kCpu, "pcie5_x16", "threadripper 7980x", 64, kRyzenPages},
    Row{"ryzen5950x", "", "AMD Ryzen 9 5950X", kCore, 64, M::kModules, 1740.8, 1740.8, "FP32", 51.2, kCpu, "pcie4_x16", "ryzen 5950x", 16, kRyzenPages},
    Row{"ryzen7950x", "", "AMD Ryzen 9 7950X", kCore, 64, M::kModules, 2304, 2304, "FP32", 83.2, kCpu, "pcie5_x16", "ryzen 7950x", 16, kRyzenPages},
    Row{"ryzen9950x", "", "AMD Ryzen 9 9950X", kCore, 64, M::kModules, 4403.2, 4403.2, "FP32", 89.6, kCpu, "pcie5_x16", "ryzen 9950x", 16, kRyzenPages},
    Row{"corei9_13900k", "i9_13900k", "Intel Core i9-13900K", kCore, 64, M::kModules, 1331.2, 1331.2, "FP32", 89.6, kCpu, "pcie5_x16", "i9 13900k", 24, kArk},
    Row{"corei9_14900k", "i9_14900k", "Intel Core i9-14900K", kCore, 64, M::kModules, 1433.6, 1433.6, "FP32", 89.6, kCpu, "pcie5_x16", "i9 14900k", 24, kArk},
};

constexpr std::string_view kPcie = "PCI Express base specification; 75 to 80 % of the signalling rate";
constexpr std::string_view kNvlink = "NVIDIA architecture white papers; 87 to 89 % of the signalling rate";
constexpr std::string_view kInfiniBand = "IBTA roadmap; 92 % of the signalling rate, latency of a GPU-to-GPU copy";
constexpr std::string_view kEthernet = "IEEE 802.3; 92 % of the signalling rate";

constexpr std::array kLinkRows{
    // Existing entries keep their values.
    CatalogueLink{"pcie3_x16", "PCI Express 3, 16 lanes", {12e9, 10e-6}, kPcie},
    CatalogueLink{"pcie5_x16", "PCI Express 5, 16 lanes", {50e9, 10e-6}, kPcie},
    CatalogueLink{"nvlink2", "NVLink 2, 6 links (V100)", {130e9, 6e-6}, kNvlink},
    CatalogueLink{"nvlink4", "NVLink 4, 18 links (H100)", {400e9, 4e-6}, kNvlink},
    CatalogueLink{"pcie3_x8", "PCI Express 3, 8 lanes", {6e9, 10e-6}, kPcie},
    CatalogueLink{"pcie3_x4", "PCI Express 3, 4 lanes", {3e9, 10e-6}, kPcie},
    CatalogueLink{"pcie4_x16", "PCI Express 4, 16 lanes", {25e9, 10e-6}, kPcie},
    CatalogueLink{"pcie4_x8", "PCI Express 4, 8 lanes", {12.5e9, 10e-6}, kPcie},
    CatalogueLink{"pcie4_x4", "PCI Express 4, 4 lanes", {6.25e9, 10e-6}, kPcie},
    CatalogueLink{"pcie5_x8", "PCI Express 5, 8 lanes", {25e9, 10e-6}, kPcie},
    CatalogueLink{"pcie5_x4", "PCI Express 5, 4 lanes", {12.5e9, 10e-6}, kPcie},
    CatalogueLink{"pcie6_x16", "PCI Express 6, 16 lanes", {100e9, 10e-6}, kPcie},
    CatalogueLink{"pcie6_x8", "PCI Express 6, 8 lanes", {50e9, 10e-6}, kPcie},
    CatalogueLink{"pcie6_x4", "PCI Express 6, 4 lanes", {25e9, 10e-6}, kPcie},
    CatalogueLink{"nvlink1", "NVLink 1, 4 links (P100)", {70e9, 8e-6}, kNvlink},
    CatalogueLink{"nvlink3", "NVLink 3, 12 links (A100)", {260e9, 5e-6}, kNvlink},
    CatalogueLink{"nvlink3_bridge", "NVLink 3 bridge, 4 links (RTX 3090, A40)", {50e9, 6e-6}, kNvlink},
    CatalogueLink{"nvlink5", "NVLink 5, 18 links (B200)", {800e9, 4e-6}, kNvlink},
    CatalogueLink{"nvlink_c2c", "NVLink-C2C (GH200, GB200)", {375e9, 3e-6}, "NVIDIA GH200 data sheet: 450 GB/s; 83 % of it"},
    CatalogueLink{"xgmi2", "Infinity Fabric 2, one link (MI210, MI250X)", {37e9, 8e-6}, "AMD CDNA 2 white paper: 50 GB/s; 75 % of it"},
    CatalogueLink{"xgmi2_package", "Infinity Fabric between the dies of an MI250X", {150e9, 6e-6}, "AMD CDNA 2 white paper: 200 GB/s; 75 % of it"},
    CatalogueLink{"xgmi3", "Infinity Fabric 3, one link (MI300X)", {48e9, 8e-6}, "AMD CDNA 3 white paper: 64 GB/s; 75 % of it"},
    CatalogueLink{"unified", "Memory shared by CPU and GPU (Apple)", {100e9, 5e-6}, "prior: a copy within the memory of an M1 Max by one core"},
    CatalogueLink{"ib-edr", "InfiniBand EDR, 100 Gb/s", {11.5e9, 5e-6}, kInfiniBand},
    CatalogueLink{"ib-hdr", "InfiniBand HDR, 200 Gb/s", {23e9, 5e-6}, kInfiniBand},
    CatalogueLink{"ib-ndr", "InfiniBand NDR, 400 Gb/s", {46e9, 5e-6}, kInfiniBand},
    CatalogueLink{"ib-xdr", "InfiniBand XDR, 800 Gb/s", {92e9, 5e-6}, kInfiniBand},
    CatalogueLink{"ethernet-10", "Ethernet, 10 Gb/s, TCP", {1.15e9, 30e-6}, kEthernet},
    CatalogueLink{"ethernet-25", "Ethernet, 25 Gb/s, TCP", {2.9e9, 30e-6}, kEthernet},
    CatalogueLink{"ethernet-100", "Ethernet, 100 Gb/s, RoCE", {11.5e9, 10e-6}, kEthernet},
    CatalogueLink{"ethernet-400", "Ethernet, 400 Gb/s, RoCE", {46e9, 10e-6}, kEthernet},
};
// clang-format on

CatalogueDevice device_of(const Row& row) {
  CatalogueDevice device;
  Profile& p = device.profile;
  p.name = row.name;
  p.kind = row.family == kEpyc || row.family == kCore ? "cpu" : "gpu";
  p.memory_bytes = usable_bytes(row.gib, row.memory);
  p.peak_gflops = row.peak;
  p.matrix_peak_gflops = row.matrix_peak;
  p.bandwidth_gbs = row.bandwidth;
  p.bandwidth_efficiency = row.prior.bandwidth_efficiency;
  p.launch_us = row.prior.launch_us;
  const Prior& e = row.prior;
  p.efficiency = {1, 1, e.matmul, e.conv, e.conv_grouped, e.rest, e.rest, e.rest, e.rest};
  device.alias = row.alias;
  device.title = row.title;
  device.family = row.family;
  device.matrix = row.matrix;
  device.host_link = row.host_link;
  device.reported = row.reported;
  device.cores = row.cores;
  device.source = row.source;
  return device;
}

/// A device whose efficiencies of matmul and conv are calibrated to published step times.
struct Calibrated {
  std::string_view of, name;
  double matmul, conv;
  std::string_view source;
};
constexpr std::array kCalibrated{
    Calibrated{"k40", "k40-calibrated", 0.236, 0.067,
               "as k40; calibrated by published step times: rnnlm-bs64 1.57 s, inception_v3-bs1 0.15 s"},
    Calibrated{
        "k80_gk210", "k80_gk210-calibrated", 0.375, 0.088,
        "as k80_gk210; calibrated by published step times: rnnlm-bs64 1.57 s, inception_v3-bs32 4.60 s"},
    Calibrated{"haswell18", "haswell18-calibrated", 0.20, 0.039,
               "as haswell18; calibrated by published step times: rnnlm-bs64 6.89 s, nmt-2layer-bs64 6.46 s, "
               "inception_v3-bs32 26.21 s"},
};

std::vector<CatalogueDevice> make_devices() {
  std::vector<CatalogueDevice> devices;
  devices.reserve(kRows.size() + kCalibrated.size());
  for (const Row& row : kRows) devices.push_back(device_of(row));
  for (const Calibrated& calibrated : kCalibrated) {
    CatalogueDevice device = *std::find_if(devices.begin(), devices.end(), [&](const CatalogueDevice& known) {
      return known.profile.name == calibrated.of;
    });
    device.profile.name = calibrated.name;
    device.profile.efficiency[static_cast<std::size_t>(OpClass::kMatmul)] = calibrated.matmul;
    device.profile.efficiency[static_cast<std::size_t>(OpClass::kConv)] = calibrated.conv;
    device.alias = device.reported = {};
    device.source = calibrated.source;
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<Profile> make_profiles() {
  std::vector<Profile> profiles;
  for (const CatalogueDevice& device : catalogue_devices()) profiles.push_back(device.profile);
  return profiles;
}

/// A name without differences of case and separators.
std::string folded(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c != '-' && c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The words of a reported name, in lower case: letters and digits.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool within = false;
  for (const char c : text) {
    const bool part = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (part && !within) words.emplace_back();
    if (part) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    within = part;
  }
  return words;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Number of words of `pattern` ("k40m|k40c" is either) that `words` has; 0 unless it has all.
std::size_t matched_words(std::string_view pattern, const std::vector<std::string>& words) {
  std::size_t matched = 0;
  while (!pattern.empty()) {
    const std::size_t space = pattern.find(' ');
    std::string_view any = pattern.substr(0, space);
    pattern.remove_prefix(space == std::string_view::npos ? pattern.size() : space + 1);
    bool found = false;
    while (!any.empty()) {
      const std::size_t bar = any.find('|');
      found = found || contains(words, any.substr(0, bar));
      any.remove_prefix(bar == std::string_view::npos ? any.size() : bar + 1);
    }
    if (!found) return 0;
    ++matched;
  }
  return matched;
}

/// Whether the name is of another variant of the device, whose rates differ.
bool is_other_variant(std::string_view pattern, const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 6> kVariants{"ti", "super", "laptop", "mobile", "max", "ada"};
  const std::vector<std::string> known = words_of(pattern);
  return std::any_of(kVariants.begin(), kVariants.end(), [&](std::string_view variant) {
    return contains(words, variant) && !contains(known, variant);
  });
}

}  // namespace

std::span<const CatalogueDevice> catalogue_devices() {
  static const std::vector<CatalogueDevice> devices = make_devices();
  return devices;
}

std::span<const CatalogueLink> catalogue_links() { return kLinkRows; }

std::span<const CataloguePrior> catalogue_priors() { return kPriors; }

std::span<const Profile> builtin_profiles() {
  static const std::vector<Profile> profiles = make_profiles();
  return profiles;
}

const CatalogueDevice* known_device(std::string_view name) {
  const std::string wanted = folded(name);
  for (const CatalogueDevice& device : catalogue_devices())
    if (folded(device.profile.name) == wanted || (!device.alias.empty() && folded(device.alias) == wanted))
      return &device;
  return nullptr;
}

const CatalogueLink* known_link(std::string_view name) {
  const std::string wanted = folded(name);
  for (const CatalogueLink& link : kLinkRows)
    if (folded(link.name) == wanted) return &link;
  return nullptr;
}

std::string_view nearest_device(std::string_view name) {
  std::vector<std::string_view> names;
  for (const CatalogueDevice& device : catalogue_devices()) {
    names.push_back(device.profile.name);
    if (!device.alias.empty()) names.push_back(device.alias);
  }
  return nearest_word(name, names);
}

Result<Profile> find_profile(std::string_view name) {
  if (const CatalogueDevice* const device = known_device(name)) return device->profile;
  const std::string_view near = nearest_device(name);
  return invalid("profile '" + printable(name, 60) + "'", "is unknown",
                 near.empty() ? "docs/reference/machines.md lists the known ones"
                              : "did you mean '" + std::string{near} + "'?");
}

Result<CatalogueLink> find_link(std::string_view name) {
  if (const CatalogueLink* const link = known_link(name)) return *link;
  std::vector<std::string_view> names;
  names.reserve(std::size(kLinkRows));
  for (const CatalogueLink& link : kLinkRows) names.push_back(link.name);
  const std::string_view near = nearest_word(name, names);
  return invalid("", "link '" + printable(name, 60) + "' is unknown",
                 near.empty() ? "docs/reference/machines.md lists the known ones"
                              : "did you mean '" + std::string{near} + "'?");
}

const CatalogueDevice* recognised_device(std::string_view reported, std::int64_t memory_bytes) {
  const std::vector<std::string> words = words_of(reported);
  const CatalogueDevice* best = nullptr;
  std::size_t best_words = 0;
  double best_distance = 0;
  for (const CatalogueDevice& device : catalogue_devices()) {
    const std::size_t matched = matched_words(device.reported, words);
    if (matched == 0 || is_other_variant(device.reported, words)) continue;
    const double known = static_cast<double>(device.profile.memory_bytes);
    const double distance = memory_bytes == 0 ? 0 : std::abs(static_cast<double>(memory_bytes) / known - 1);
    // A GPU with another amount of memory is another product: the RTX 3060 with 8 GB has a narrower bus.
    if (distance > 0.15) continue;
    if (best != nullptr && (matched < best_words || (matched == best_words && distance >= best_distance)))
      continue;
    best = &device;
    best_words = matched;
    best_distance = distance;
  }
  return best;
}

Link default_link(const CatalogueDevice& a, const CatalogueDevice& b) {
  const Link x = known_link(a.host_link)->link, y = known_link(b.host_link)->link;
  return x.bytes_per_s <= y.bytes_per_s ? x : y;
}

}  // namespace emplace
