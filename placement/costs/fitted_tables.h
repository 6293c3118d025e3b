#pragma once
/// Tables of how kernels deviate from a roofline, fitted to public measurements of GPUs by scripts/fit_costs.
/// docs/results/costs.md has the errors on measurements that were held out.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/arithmetic.h"
#include "placement/costs/kernel_shape.h"

namespace emplace {

/// placement/costs/fitted.toml, which is compiled into the program.
extern const std::string_view kFittedToml;

/// Kernels whose tables have the same axes.
enum class TableAxes : std::uint8_t {
  kProducts,
  kBatches,
  kPrefill,
  kEncoder,
  kDecode,
  kRows,
  kBytes,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll
};
inline constexpr std::size_t kNumTableAxes = 11;
inline constexpr std::size_t kMostAxes = 4;

/// Returns the axes of the tables of a kind. @pre not kNone, kOther or kPermute, which have no table
TableAxes axes_of(KernelKind kind);

/// Errors that a model had on measurements that it was not fitted to: |predicted / measured - 1|.
struct HeldOutError {
  double median = 0, mean = 0, p90 = 0;
};

/// ln (time / roofline) of one kind of kernel on one device, or of a collective over one kind of link, at the
/// knots of its axes.
struct FittedTable {
  /// The measured device, as in the catalogue, or a family of devices: "family:nvidia-server". Of a
  /// collective: the link.
  std::string of;
  KernelKind kernel = KernelKind::kNone;
  Arithmetic arithmetic = Arithmetic::kFp32;
  double launch_us = 0;  ///< Least time of a kernel [us].
  double gbs = 0;        ///< Rate of the roofline of a collective [GB/s].
  HeldOutError error;
  std::int64_t rows = 0;        ///< Measurements that it is fitted to.
  std::string source;           ///< The data set, and the path in it.
  float uneven = 0;             ///< What is added where sizes do not fill tiles (TablePoint::uneven).
  std::vector<float> residual;  ///< [knots of axis 0, …] The last axis is contiguous.
};

/// The place of a kernel on the axes of its tables, which is the same for all devices. A plain value.
struct TablePoint {
  std::uint32_t first = 0;  ///< Position of the corner with the lowest knots in FittedTable::residual.
  std::array<float, kMostAxes> share{};  ///< [axis] How far the kernel is from that corner to the next one.
  bool uneven = false;                   ///< A size of a product is no multiple of 16.
};

/// All tables of the program. Immutable; any thread.
class FittedTables {
 public:
  /// The tables in the program, read at the first call.
  static const FittedTables& shipped();
  /// Reads the text of a fitted.toml. @pre it is well-formed: the program contains it, and tests read it
  explicit FittedTables(std::string_view toml);

  /// All tables, ordered by kind and arithmetic.
  std::span<const FittedTable> all() const { return tables_; }
  /// Returns null if there is none.
  const FittedTable* find(std::string_view of, KernelKind kernel, Arithmetic arithmetic) const;
  /// The point of `shape`; outside of the knots the nearest place on their border.
  TablePoint locate(const KernelShape& shape) const;
  /// ln (time / roofline) of a kernel at a point, by linear interpolation along each axis.
  double residual(const FittedTable& table, const TablePoint& point) const;
  /// The error of rooflines by data sheet alone, and of version 1's, on all measurements.
  const HeldOutError& data_sheet() const { return data_sheet_; }
  const HeldOutError& version_1() const { return version_1_; }

 private:
  struct Axes {
    std::vector<std::vector<float>> log2_knots;  ///< [axis, knot] Ascending, at least two an axis.
    std::array<std::uint32_t, kMostAxes>
        stride{};  ///< [axis] Distance of two knots in FittedTable::residual.
  };
  const Axes& axes_for(KernelKind kind) const { return axes_[static_cast<std::size_t>(axes_of(kind))]; }

  static std::size_t place_of(KernelKind kernel, Arithmetic arithmetic) {
    return static_cast<std::size_t>(kernel) * kNumArithmetics + static_cast<std::size_t>(arithmetic);
  }

  std::array<Axes, kNumTableAxes> axes_;
  std::vector<FittedTable> tables_;  // In the order of their place_of().
  std::array<std::uint32_t, kNumKernelKinds * kNumArithmetics + 1>
      begin_{};  // [place_of] The first table of a place.
  HeldOutError data_sheet_, version_1_;
};

}  // namespace emplace
