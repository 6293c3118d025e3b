#include "base/units.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>

namespace emplace {
namespace {

struct UnitName {
  std::string_view name;
  double scale;
};

constexpr std::array<UnitName, 9> kBytes{{{"B", 1},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"KiB", 1024},
                                          {"MiB", 1048576},
                                          {"GiB", 1073741824},
                                          {"TiB", 1099511627776.0}}};
constexpr std::array<UnitName, 5> kFlops{
    {{"FLOP", 1}, {"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}}};
constexpr std::array<UnitName, 6> kTimes{
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};

std::string known(std::span<const UnitName> units, std::string_view per) {
  std::string text;
  for (const UnitName& unit : units) text.append(text.empty() ? "" : " ").append(unit.name).append(per);
  return text;
}

/// `per`: what follows each unit, such as "/s".
Result<double> parse(std::string_view text, std::span<const UnitName> units, std::string_view example,
                     std::string_view per = "") {
  const auto quoted = "'" + std::string{text} + "'";
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || !std::isfinite(number)) {
    return invalid(quoted, "not a number with a unit", "write it like " + std::string{example});
  }
  std::string_view unit{end, static_cast<std::size_t>(text.data() + text.size() - end)};
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const UnitName& candidate : units) {
    if (std::string{candidate.name}.append(per) != unit) continue;
    if (number < 0) return invalid(quoted, "must not be negative");
    return number * candidate.scale;
  }
  return invalid(quoted, unit.empty() ? "lacks a unit" : "has an unknown unit",
                 "use one of " + known(units, per));
}

Result<double> positive(std::string_view text, Result<double> value) {
  if (value && *value <= 0) return invalid("'" + std::string{text} + "'", "must be above zero");
  return value;
}

}  // namespace

Result<std::int64_t> parse_bytes(std::string_view text) {
  EMPLACE_TRY_ASSIGN(const auto bytes, parse(text, kBytes, "12GiB"));
  if (bytes > 4.6e18) return invalid("'" + std::string{text} + "'", "is too large");
  return static_cast<std::int64_t>(std::llround(bytes));
}

Result<double> parse_bytes_per_s(std::string_view text) {
  return positive(text, parse(text, kBytes, "7.6GB/s", "/s"));
}
Result<double> parse_flops_per_s(std::string_view text) {
  return positive(text, parse(text, kFlops, "4.29TFLOP/s", "/s"));
}
Result<double> parse_seconds(std::string_view text) { return parse(text, kTimes, "25us"); }

Result<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::string_view digits = percent ? text.substr(0, text.size() - 1) : text;
  double number = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const double share = percent ? number / 100 : number;
  if (failure != std::errc{} || end != digits.data() + digits.size() || !(share >= 0 && share <= 1)) {
    return invalid("'" + std::string{text} + "'", "not a share between 0 and 1", "write it like 10% or 0.1");
  }
  return share;
}

std::string Reserve::text() const {
  if (bytes == 0) {
    std::array<char, 32> digits{};
    const auto [end, failure] = std::to_chars(digits.data(), digits.data() + digits.size(), share);
    return {digits.data(), end};
  }
  constexpr std::array<std::string_view, 4> kUnits{"B", "KiB", "MiB", "GiB"};
  std::int64_t value = bytes;
  std::size_t unit = 0;
  while (value % 1024 == 0 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
  return std::to_string(value) + std::string{kUnits[unit]};
}

Reserve Reserve::from_recorded(double number) {
  if (number < 1) return Reserve{number};
  Reserve reserve;
  reserve.bytes = static_cast<std::int64_t>(number);
  return reserve;
}

Result<Reserve> parse_reserve(std::string_view text) {
  const std::string where = "'" + std::string{text} + "'";
  if (const auto share = parse_share(text)) {
    if (*share >= 1) return invalid(where, "leaves no memory", "write it like 10% or 2GiB");
    return Reserve{*share};
  }
  if (const auto size = parse_bytes(text)) {
    Reserve reserve;
    reserve.bytes = *size;
    return reserve;
  }
  return invalid(where, "is neither a share below 100 % nor a size", "write it like 10% or 2GiB");
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kNames.size()) value /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 2, kNames[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds >= 100) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 10) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

}  // namespace emplace
