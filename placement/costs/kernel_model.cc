#include "placement/costs/kernel_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace emplace {
namespace {

/// Kernels whose operands fill less than this share of the L2 cache find most of them there, where reading is
/// this much faster than from memory.
constexpr double kCachedShare = 0.6, kCacheSpeed = 3;

/// The family whose tables GPUs take that no measured one resembles.
constexpr std::string_view kAnyFamily = "family:nvidia-server";

/// What to compute in instead, the first choice first, before FP32.
std::span<const Arithmetic> substitutes_of(Arithmetic wanted) {
  static constexpr std::array kWide{Arithmetic::kBf16, Arithmetic::kFp16};
  static constexpr std::array kQuantised{Arithmetic::kFp16, Arithmetic::kBf16};
  switch (wanted) {
    case Arithmetic::kFp8:
      return kWide;
    case Arithmetic::kInt8:
    case Arithmetic::kW4:
      return kQuantised;
    case Arithmetic::kFp64:
    case Arithmetic::kFp32:
    case Arithmetic::kTf32:
    case Arithmetic::kFp16:
    case Arithmetic::kBf16:
      break;
  }
  return {};
}

/// Arithmetics whose tables describe kernels of `arithmetic`, nearest first: the same units at another rate.
std::span<const Arithmetic> alike(Arithmetic arithmetic) {
  using enum Arithmetic;
  static constexpr std::array kDouble{kFp64, kFp32}, kSingle{kFp32, kBf16}, kTensor{kTf32, kBf16},
      kHalf{kFp16, kBf16}, kBrain{kBf16, kFp16}, kEighth{kFp8, kBf16}, kByte{kInt8, kFp8},
      kNibble{kW4, kBf16};
  static constexpr std::array<std::span<const Arithmetic>, kNumArithmetics> kAlike{
      kDouble, kSingle, kTensor, kHalf, kBrain, kEighth, kByte, kNibble};
  return kAlike[static_cast<std::size_t>(arithmetic)];
}

/// Kinds whose tables describe kernels of `kind`, nearest first. They have the same axes, but for a batch of
/// products, which may be read as one.
std::span<const KernelKind> alike(KernelKind kind) {
  using enum KernelKind;
  static constexpr std::array<std::array<KernelKind, 2>, kNumKernelKinds> kAlike = [] {
    std::array<std::array<KernelKind, 2>, kNumKernelKinds> kinds{};
    for (std::size_t k = 0; k < kinds.size(); ++k) kinds[k].fill(static_cast<KernelKind>(k));
    const auto second = [&](KernelKind one, KernelKind other) {
      kinds[static_cast<std::size_t>(one)][1] = other;
    };
    second(kConvolution, kProduct), second(kBatchProduct, kProduct), second(kSoftmax, kNorm),
        second(kNorm, kSoftmax);
    second(kReduce, kElementwise), second(kGather, kElementwise), second(kCopy, kElementwise);
    return kinds;
  }();
  return kAlike[static_cast<std::size_t>(kind)];
}

/// Whether the bytes of a kernel decide its time, not its arithmetic.
bool is_by_bytes(KernelKind kind) {
  const TableAxes axes = axes_of(kind);
  return axes == TableAxes::kBytes || axes == TableAxes::kRows;
}

/// Whether kernels of both arithmetics use the same units at the same rate.
bool have_same_units(Arithmetic a, Arithmetic b) {
  const auto is_half = [](Arithmetic one) { return one == Arithmetic::kFp16 || one == Arithmetic::kBf16; };
  return a == b || (is_half(a) && is_half(b));
}

/// A batch of products as one with all of their rows.
KernelShape as_one_product(const KernelShape& batch) {
  const auto [count, m, n, k] = batch.at;
  KernelShape one = batch;
  one.kind = KernelKind::kProduct;
  one.at = {count * m, n, k, 1};
  return one;
}

struct ShapeHash {
  std::size_t operator()(const KernelShape& shape) const {
    std::uint64_t hash = std::uint64_t{shape.count} << 32 | static_cast<std::uint64_t>(shape.kind) << 8 |
                         static_cast<std::uint64_t>(shape.arithmetic);
    const auto mix = [&](double value) {
      hash = std::rotl((hash ^ std::bit_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U, 29);
    };
    for (const double size : shape.at) mix(size);
    for (const double value : {shape.flops, shape.bytes, shape.launches}) mix(value);
    return hash;
  }
};

GraphKernels::Kernel kernel_of(const KernelShape& shape, const FittedTables& tables) {
  if (shape.kind == KernelKind::kOther || shape.kind == KernelKind::kPermute) return {shape, {}};
  const bool batch = shape.kind == KernelKind::kBatchProduct;
  return {shape, tables.locate(shape), batch ? tables.locate(as_one_product(shape)) : TablePoint{}};
}

}  // namespace

Arithmetic arithmetic_on(const std::array<double, kNumArithmetics>& peak_gflops, Arithmetic wanted) {
  const auto has_units = [&](Arithmetic one) { return peak_gflops[static_cast<std::size_t>(one)] > 0; };
  if (has_units(wanted) || !has_units(Arithmetic::kFp32)) return wanted;
  for (const Arithmetic instead : substitutes_of(wanted))
    if (has_units(instead)) return instead;
  return Arithmetic::kFp32;
}

GraphKernels::GraphKernels(const OpGraph& graph) {
  const FittedTables& tables = FittedTables::shipped();
  const KernelShapes shapes{graph};
  std::unordered_map<KernelShape, std::uint32_t, ShapeHash> numbers;
  of_.reserve(shapes.all().size());
  begin_.reserve(graph.num_ops() + 1);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    begin_.push_back(static_cast<std::uint32_t>(of_.size()));
    for (const KernelShape& shape : shapes.of(OpId{i})) {
      if (shape.kind == KernelKind::kNone) continue;
      const auto [it, is_new] = numbers.try_emplace(shape, static_cast<std::uint32_t>(distinct_.size()));
      of_.push_back(it->second);
      if (is_new) distinct_.push_back(kernel_of(shape, tables));
    }
  }
  begin_.push_back(static_cast<std::uint32_t>(of_.size()));
  has_collectives_ =
      std::ranges::any_of(distinct_, [](const Kernel& kernel) { return is_collective(kernel.shape.kind); });
}

KernelModel::KernelModel(const DeviceRates& rates, const FittedTables& tables)
    : tables_{tables},
      launch_us_{rates.launch_us},
      unaligned_rate_{rates.unaligned_rate},
      bytes_per_us_{rates.bandwidth_gbs * 1e3},
      l2_bytes_{rates.l2_bytes} {
  std::vector<std::string> from{rates.tables.begin(), rates.tables.end()};
  from.push_back(fmt::format("family:{}", rates.family));
  from.emplace_back(kAnyFamily);
  for (std::size_t kind = 0; kind < kNumKernelKinds; ++kind)
    for (std::size_t arithmetic = 0; arithmetic < kNumArithmetics; ++arithmetic)
      rows_[kind][arithmetic] =
          resolve(rates, from, tables, static_cast<KernelKind>(kind), static_cast<Arithmetic>(arithmetic));
}

KernelModel::Row KernelModel::resolve(const DeviceRates& rates, std::span<const std::string> from,
                                      const FittedTables& tables, KernelKind kind, Arithmetic wanted) {
  const Arithmetic runs = arithmetic_on(rates.peak_gflops, wanted);
  Row row{.trust = {CostSource::kDataSheet, tables.data_sheet().mean},
          .gflops = rates.peak_gflops[static_cast<std::size_t>(runs)]};
  if (kind == KernelKind::kNone || kind == KernelKind::kOther || is_collective(kind)) return row;
  const bool by_bytes = is_by_bytes(kind);
  // Returns whether there is a table of a device or a family.
  const auto take = [&](std::string_view of, KernelKind like, Arithmetic arithmetic) {
    row.table = tables.find(of, like, arithmetic);
    if (row.table == nullptr) return false;
    const bool own = of == rates.name && like == kind && (by_bytes || have_same_units(arithmetic, wanted));
    row.trust = {own ? CostSource::kMeasured : CostSource::kFamily, row.table->error.mean};
    return true;
  };
  // Weights that are converted first: such kernels may be measured though the device has no units for them.
  if (runs != wanted && !by_bytes && take(rates.name, kind, wanted)) return row;
  static constexpr std::array kBytes{Arithmetic::kFp32};
  // Tables of the same units on another device are nearer than its own of other units.
  for (const KernelKind like : alike(kind)) {
    row.as_one = kind == KernelKind::kBatchProduct && like == KernelKind::kProduct;
    for (const Arithmetic arithmetic : by_bytes ? std::span<const Arithmetic>{kBytes} : alike(runs)) {
      // Batches were measured in FP32 alone, and matrix units differ.
      if (like == KernelKind::kBatchProduct && !have_same_units(arithmetic, runs)) continue;
      for (const std::string& of : from)
        if (take(of, like, arithmetic)) return row;
    }
  }
  return row;
}

double KernelModel::memory_us(double bytes) const {
  const double fill = l2_bytes_ > 0 ? bytes / (kCachedShare * l2_bytes_) : 1e9;
  const double cached = 1 / (1 + fill * fill);
  return bytes / bytes_per_us_ * (1 - cached + cached / kCacheSpeed);
}

double KernelModel::floor_us(const KernelShape& shape) const {
  const double gflops = row(shape.kind, shape.arithmetic).gflops;
  return shape.count * std::max(shape.flops / (gflops * 1e3), memory_us(shape.bytes));
}

double KernelModel::us(const GraphKernels::Kernel& kernel) const {
  const KernelShape& shape = kernel.shape;
  const Row& from = row(shape.kind, shape.arithmetic);
  const double launch_us = from.table == nullptr ? launch_us_ : from.table->launch_us;
  const double us = shape.count * launch_us * shape.launches + floor_us(shape);
  const double rate = shape.unaligned ? unaligned_rate_ : 1;
  return from.table == nullptr
             ? us / rate
             : us * std::exp(tables_.residual(*from.table, from.as_one ? kernel.as_one : kernel.point)) /
                   rate;
}

CostTrust KernelModel::trust(KernelKind kind, Arithmetic arithmetic) const {
  return row(kind, arithmetic).trust;
}

}  // namespace emplace
