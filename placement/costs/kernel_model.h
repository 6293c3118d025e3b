#pragma once
/// Times of kernels on a device, by cost version 2:
///   time_us = (launch_us · launches + max(flops / peak, memory_us)) · exp(residual)
/// The peak is that of the kernel's arithmetic. The residual is read from a table that was fitted to
/// measurements of the device, else of its family. Without either the time is that of the data sheet:
/// residual 0. Small kernels read a part of their operands from the L2 cache.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/arithmetic.h"
#include "graph/op_graph.h"
#include "placement/costs/fitted_tables.h"
#include "placement/costs/kernel_shape.h"

namespace emplace {

/// Where the time of an op is from, best first.
enum class CostSource : std::uint8_t {
  kCalibrated,  ///< Measured on such a device by a user: in the graph, or by `emplace calibrate`.
  kMeasured,    ///< A table fitted to measurements of the device.
  kFamily,      ///< A table of devices of the same family, with the device's own peaks.
  kDataSheet,   ///< Peaks and bandwidth alone.
};
inline constexpr std::size_t kNumCostSources = 4;

constexpr auto enum_words(CostSource) {
  return EnumWords{
      "source",
      std::array{EnumWord{CostSource::kCalibrated, "calibrated"}, EnumWord{CostSource::kMeasured, "measured"},
                 EnumWord{CostSource::kFamily, "family"}, EnumWord{CostSource::kDataSheet, "data-sheet"}}};
}

/// Where a time is from, and the mean error that such times had on held-out measurements.
struct CostTrust {
  CostSource source = CostSource::kDataSheet;
  double error = 0;
};

/// What the model needs to know of a device, beside tables.
struct DeviceRates {
  std::array<double, kNumArithmetics> peak_gflops{};  ///< Dense; 0 if the device has no such units.
  double bandwidth_gbs = 0;                           ///< Bandwidth of its memory [GB/s].
  double l2_bytes = 0;                                ///< 0: unknown.
  double launch_us = 0;                               ///< Least time of a kernel without a table [us].
  double unaligned_rate = 1;            ///< Rate of unaligned products, as a share of that of others.
  std::string_view name;                ///< The device, as in the catalogue: tables of this name are its own.
  std::span<const std::string> tables;  ///< Devices whose tables describe it, best first.
  std::string_view family;              ///< The family whose tables it takes otherwise; empty: none.
};

/// The arithmetic that a device with these peaks computes in where `wanted` is asked for: itself if there are
/// units for it, else what frameworks compute in instead. FP8 becomes BF16, FP16 or FP32, whichever comes
/// first; weights of four bits and INT8 become FP16, BF16 or FP32; the others FP32. Without any peak: itself.
Arithmetic arithmetic_on(const std::array<double, kNumArithmetics>& peak_gflops, Arithmetic wanted);

/// The kernels of a graph's ops, on the axes of their tables. Layers repeat, so that ops have few distinct
/// ones. Immutable; any thread.
class GraphKernels {
 public:
  explicit GraphKernels(const OpGraph& graph);
  struct Kernel {
    KernelShape shape;
    TablePoint point;
    /// The point of one product [batch · m, k] [k, n], for devices whose tables have no batches of products;
    /// other kinds of kernels have none.
    TablePoint as_one = {};
  };
  std::span<const Kernel> distinct() const { return distinct_; }
  /// The kernels of an op, as positions in distinct(): none for state and views, two for both gradients of a
  /// convolution.
  std::span<const std::uint32_t> of(OpId op) const {
    return {of_.data() + begin_[index(op)], begin_[index(op) + 1] - begin_[index(op)]};
  }

  /// Whether GPUs exchange tensors in it.
  bool has_collectives() const { return has_collectives_; }

 private:
  std::vector<Kernel> distinct_;
  std::vector<std::uint32_t> of_;     // Op by op.
  std::vector<std::uint32_t> begin_;  // [ops + 1]
  bool has_collectives_ = false;
};

/// The model of one device. Immutable; any thread.
class KernelModel {
 public:
  /// `rates` may name tables that do not exist: then it has none. `tables` must outlive it.
  explicit KernelModel(const DeviceRates& rates, const FittedTables& tables = FittedTables::shipped());
  /// [us] Of collectives, what their traffic takes in the device's own memory
  /// (placement/costs/collective_model.h).
  double us(const GraphKernels::Kernel& kernel) const;
  CostTrust trust(KernelKind kind, Arithmetic arithmetic) const;
  /// The time that the arithmetic or the memory alone would take at its peak, whichever is longer [us].
  double floor_us(const KernelShape& shape) const;

 private:
  /// The table of a kind and an arithmetic.
  struct Row {
    const FittedTable* table = nullptr;
    bool as_one = false;  ///< Whether the table is one of single products, read for a batch of them.
    CostTrust trust;
    double gflops = 0;  ///< The peak that the arithmetic runs at on this device.
  };
  const Row& row(KernelKind kind, Arithmetic arithmetic) const {
    return rows_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(arithmetic)];
  }
  /// `from`: the devices and families whose tables count, best first.
  static Row resolve(const DeviceRates& rates, std::span<const std::string> from, const FittedTables& tables,
                     KernelKind kind, Arithmetic arithmetic);
  double memory_us(double bytes) const;

  const FittedTables& tables_;
  double launch_us_, unaligned_rate_, bytes_per_us_, l2_bytes_;
  std::array<std::array<Row, kNumArithmetics>, kNumKernelKinds> rows_{};
};

}  // namespace emplace
