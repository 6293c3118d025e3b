#include "placement/machine/arithmetic_on.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <span>

namespace emplace {
namespace {

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

bool has_units(const Profile& profile, Arithmetic arithmetic) {
  return profile.peaks_gflops[static_cast<std::size_t>(arithmetic)] > 0;
}

std::string upper_name(Arithmetic arithmetic) {
  std::string name{arithmetic_name(arithmetic)};
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

}  // namespace

Arithmetic arithmetic_on(const Profile& profile, Arithmetic wanted) {
  if (has_units(profile, wanted) || !has_units(profile, Arithmetic::kFp32)) return wanted;
  for (const Arithmetic instead : substitutes_of(wanted))
    if (has_units(profile, instead)) return instead;
  return Arithmetic::kFp32;
}

std::string arithmetic_note(const Profile& profile, Arithmetic wanted) {
  const Arithmetic used = arithmetic_on(profile, wanted);
  if (used == wanted || wanted == Arithmetic::kW4) return {};
  return fmt::format("{0} has no {1} units: {1} products run as {2}", profile.name, upper_name(wanted),
                     upper_name(used));
}

}  // namespace emplace
