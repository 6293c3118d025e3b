#pragma once
/// The settings of a program as tables, for its reference (docs/reference/config.md).

#include <concepts>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/settings.h"

namespace emplace::testing {

/// Describes the values of a setting without a range.
struct KindText {
  std::string_view operator()(const bool*) const { return "true, false"; }
  template <std::integral Whole>
  std::string_view operator()(const Whole*) const {
    return "at least 0";
  }
  template <std::floating_point Number>
  std::string_view operator()(const Number*) const {
    return "any number";
  }
  std::string_view operator()(const std::string*) const { return "any text"; }
  std::string_view operator()(const std::vector<std::string>*) const { return "any texts"; }
  std::string_view operator()(const Duration*) const { return "a time with a unit"; }
  std::string_view operator()(const Reserve*) const { return "a share below 1 or a size"; }
  std::string_view operator()(const EnumSetting&) const { return ""; }
};

/// A table per section: key, default (the current value), range, meaning.
inline std::string settings_markdown(const Settings& settings) {
  std::string out;
  auto section = settings.sections().begin();
  for (const Setting& setting : settings.all()) {
    for (; section != settings.sections().end() && section->name == setting.section; ++section) {
      out.append("\n## `[").append(section->name).append("]`\n").append(section->meaning);
      out.append("\n\n| key | default | range | meaning |\n|---|---|---|---|\n");
    }
    out.append("| `").append(setting.key).append("` | `").append(setting.written()).append("` | ");
    const std::string range = setting.allowed();
    out.append(range.empty() ? std::visit(KindText{}, setting.value) : std::string_view{range});
    out.append(" | ").append(setting.meaning).append(" |\n");
  }
  return out;
}

}  // namespace emplace::testing
