#include "placement/costs/fitted_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/settings.h"
#include "base/text/toml_reader.h"

namespace emplace {
namespace {

/// One step of a value of fitted.toml, which is two hex digits: 80 is 0.
constexpr float kResidualStep = 0.02F;
constexpr int kResidualZero = 0x80;
/// Products whose sizes are multiples of this waste nothing in their tiles.
constexpr double kTile = 16;

int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

std::vector<float> residuals(std::string_view hex) {
  std::vector<float> values(hex.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int byte = hex_digit(hex[2 * i]) * 16 + hex_digit(hex[2 * i + 1]);
    values[i] = static_cast<float>(byte - kResidualZero) * kResidualStep;
  }
  return values;
}

/// Reads "16 17 32" as binary logarithms.
std::vector<float> log2_of(std::string_view numbers) {
  std::vector<float> values;
  std::string text{numbers};
  for (const char* at = text.c_str(); *at != 0;) {
    char* end = nullptr;
    values.push_back(static_cast<float>(std::log2(std::strtod(at, &end))));
    at = end + (*end != 0 ? 1 : 0);
  }
  return values;
}

/// Interpolates the first `axes` axes from `corner` on.
float interpolated(const float* corner, const std::array<std::uint32_t, kMostAxes>& stride,
                   const std::array<float, kMostAxes>& share, std::size_t axes) {
  if (axes == 0) return *corner;
  const float low = interpolated(corner, stride, share, axes - 1);
  const float part = share[axes - 1];
  return part == 0 ? low
                   : low + part * (interpolated(corner + stride[axes - 1], stride, share, axes - 1) - low);
}

HeldOutError read_error(TomlTable table) {
  return {table.number("median").value(), table.number("mean").value(), table.number("p90").value()};
}

}  // namespace

TableAxes axes_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::kProduct:
    case KernelKind::kConvolution:
      return TableAxes::kProducts;
    case KernelKind::kBatchProduct:
      return TableAxes::kBatches;
    case KernelKind::kPrefill:
      return TableAxes::kPrefill;
    case KernelKind::kEncoder:
      return TableAxes::kEncoder;
    case KernelKind::kDecode:
      return TableAxes::kDecode;
    case KernelKind::kSoftmax:
    case KernelKind::kNorm:
      return TableAxes::kRows;
    case KernelKind::kAllReduce:
      return TableAxes::kAllReduce;
    case KernelKind::kAllGather:
      return TableAxes::kAllGather;
    case KernelKind::kReduceScatter:
      return TableAxes::kReduceScatter;
    case KernelKind::kAllToAll:
      return TableAxes::kAllToAll;
    default:
      return TableAxes::kBytes;
  }
}

const FittedTables& FittedTables::shipped() {
  static const FittedTables tables{kFittedToml};
  return tables;
}

FittedTables::FittedTables(std::string_view toml) {
  TomlDocument document = TomlDocument::parse(toml, "fitted.toml").value();
  TomlTable root = document.root();
  const auto read_axes = [&](TomlTable& table) {
    Axes& axes = axes_[static_cast<std::size_t>(
        axes_of(parse_word<KernelKind>(table.text("kernel").value()).value()))];
    const auto all_knots = table.texts("knots").value();
    for (const std::string& knots : all_knots) axes.log2_knots.push_back(log2_of(knots));
    std::uint32_t stride = 1;
    for (std::size_t axis = axes.log2_knots.size(); axis-- > 0;) {
      axes.stride[axis] = stride;
      stride *= static_cast<std::uint32_t>(axes.log2_knots[axis].size());
    }
  };
  for (const char* const list : {"axes", "collective_axes"})
    for (TomlTable& table : root.tables(list)) read_axes(table);
  const auto read_table = [&](TomlTable& table, Arithmetic arithmetic) {
    tables_.push_back({.of = table.text("of").value(),
                       .kernel = parse_word<KernelKind>(table.text("kernel").value()).value(),
                       .arithmetic = arithmetic,
                       .launch_us = table.number("launch_us").value(),
                       .gbs = table.number("gbs").value_or(0),
                       .error = read_error(table),
                       .rows = table.integer("rows").value(),
                       .source = table.text("source").value(),
                       .uneven = static_cast<float>(table.number("uneven").value_or(0)),
                       .residual = residuals(table.text("values").value())});
  };
  for (TomlTable& table : root.tables("table"))
    read_table(table, parse_word<Arithmetic>(table.text("arithmetic").value()).value());
  for (TomlTable& table : root.tables("collective")) read_table(table, Arithmetic::kFp32);
  const auto place = [](const FittedTable& table) { return place_of(table.kernel, table.arithmetic); };
  std::ranges::stable_sort(tables_, {}, place);
  for (const FittedTable& table : tables_) ++begin_[place(table) + 1];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  data_sheet_ = read_error(*root.table("data_sheet"));
  version_1_ = read_error(*root.table("version_1"));
}

const FittedTable* FittedTables::find(std::string_view of, KernelKind kernel, Arithmetic arithmetic) const {
  const std::size_t place = place_of(kernel, arithmetic);
  const auto same = all().subspan(begin_[place], begin_[place + 1] - begin_[place]);
  const auto found = std::ranges::find(same, of, &FittedTable::of);
  return found == same.end() ? nullptr : &*found;
}

TablePoint FittedTables::locate(const KernelShape& shape) const {
  const Axes& axes = axes_for(shape.kind);
  TablePoint point;
  for (std::size_t axis = 0; axis < axes.log2_knots.size(); ++axis) {
    const std::vector<float>& knots = axes.log2_knots[axis];
    const auto x = static_cast<float>(std::log2(std::max(shape.at[axis], 1.0)));
    const auto above = std::upper_bound(knots.begin() + 1, knots.end() - 1, x);
    const float low = above[-1], high = above[0];
    point.first += axes.stride[axis] * static_cast<std::uint32_t>(above - knots.begin() - 1);
    point.share[axis] = std::clamp((x - low) / (high - low), 0.0F, 1.0F);
  }
  const TableAxes kind = axes_of(shape.kind);
  if (kind == TableAxes::kProducts || kind == TableAxes::kBatches) {
    const auto sizes = std::span{shape.at}.subspan(kind == TableAxes::kBatches ? 1 : 0, 3);  // m, n, k
    point.uneven =
        std::any_of(sizes.begin(), sizes.end(), [](double size) { return std::fmod(size, kTile) != 0; });
  }
  return point;
}

double FittedTables::residual(const FittedTable& table, const TablePoint& point) const {
  const Axes& axes = axes_for(table.kernel);
  const float at =
      interpolated(table.residual.data() + point.first, axes.stride, point.share, axes.log2_knots.size());
  return static_cast<double>(at + (point.uneven ? table.uneven : 0));
}

}  // namespace emplace
