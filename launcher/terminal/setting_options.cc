#include "launcher/terminal/setting_options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <variant>

#include "base/check.h"
#include "base/text/words.h"
#include "base/units.h"

namespace emplace::launcher {
namespace {

/// The default as text; empty for a negative number, which stands for "not given".
struct DefaultText {
  std::string operator()(std::uint32_t* value) const { return std::to_string(*value); }
  std::string operator()(std::int64_t* value) const {
    return *value < 0 ? std::string{} : std::to_string(*value);
  }
  std::string operator()(Duration* value) const {
    return value->seconds < 0 ? std::string{} : fmt::format("{}s", value->seconds);
  }
  std::string operator()(const EnumSetting& value) const { return std::string{value.words[value.get()]}; }
  std::string operator()(const auto&) const {
    EMPLACE_CHECK(false, "no option is made for a setting of this kind");
    return {};
  }
};

/// Reads a text into the value.
struct ReadText {
  const std::string option;
  const std::string& text;
  const SettingRange& range;

  Result<Unit> operator()(std::uint32_t* value) const {
    EMPLACE_TRY_ASSIGN(*value, whole());
    return Unit{};
  }
  Result<Unit> operator()(std::int64_t* value) const {
    EMPLACE_TRY_ASSIGN(const auto number, whole());
    *value = number;
    return Unit{};
  }
  Result<Unit> operator()(Duration* value) const {
    EMPLACE_TRY_ASSIGN(value->seconds, parse_duration(option, text));
    return Unit{};
  }
  Result<Unit> operator()(const EnumSetting& value) const {
    const auto found = std::find(value.words.begin(), value.words.end(), text);
    if (found == value.words.end())
      return invalid(option + " '" + printable(text, 40) + "'", "is unknown",
                     fmt::format("use {}", fmt::join(value.words, " or ")));
    value.set(static_cast<std::size_t>(found - value.words.begin()));
    return Unit{};
  }
  Result<Unit> operator()(const auto&) const { return Unit{}; }  // The parse has set it.

 private:
  /// A negative number stands for "not given"; no text stands for it.
  Result<std::uint32_t> whole() const {
    constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
    return parse_whole(option, text, static_cast<std::uint32_t>(std::clamp(range.low, 0.0, kMost)),
                       static_cast<std::uint32_t>(std::clamp(range.high, 0.0, kMost)));
  }
};

}  // namespace

void SettingOptions::declare(Options& options, std::string_view first, std::string_view last,
                             std::string_view short_name) {
  const auto at = [&](std::string_view key) {
    return std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.setting.key == key; });
  };
  const auto end = at(last);
  EMPLACE_CHECK(at(first) != rows_.end() && end != rows_.end(), "a setting that is not listed");
  for (auto row = at(first); row != end + 1; ++row) {
    std::string names = "--" + std::string{row->setting.key};
    if (row == at(first) && !short_name.empty()) names += ",-" + std::string{short_name};
    declare(options, *row, names);
  }
}

void SettingOptions::declare(Options& options, Row& row, const std::string& names) {
  const std::string help{row.setting.meaning};
  if (auto* const* flag = std::get_if<bool*>(&row.setting.value)) {
    options.flag(names.c_str(), **flag, help.c_str());
  } else if (auto* const* text = std::get_if<std::string*>(&row.setting.value)) {
    if (row.setting.range.low > 0) {
      options.non_empty(names.c_str(), **text, help.c_str());
    } else {
      options.option(names.c_str(), **text, help.c_str());
    }
  } else {
    row.text = row.default_text = std::visit(DefaultText{}, row.setting.value);
    options.option(names.c_str(), row.text, help.c_str());
  }
}

Result<Unit> SettingOptions::apply() {
  for (const Row& row : rows_) {
    if (row.text == row.default_text) continue;
    EMPLACE_TRY(std::visit(ReadText{"--" + std::string{row.setting.key}, row.text, row.setting.range},
                           row.setting.value));
  }
  return Unit{};
}

Result<double> parse_duration(std::string_view option, const std::string& text) {
  const auto seconds = parse_seconds(text);
  if (!seconds) return invalid(option, seconds.error().context);
  if (*seconds > 1e8)
    return invalid(std::string{option} + " '" + printable(text, 40) + "'", "is too long", "use at most 1e8s");
  return *seconds;
}

Result<double> parse_budget(const std::string& text) { return parse_duration("--budget", text); }

Result<std::uint32_t> parse_whole(std::string_view option, const std::string& text, std::uint32_t low,
                                  std::uint32_t high) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= low && value <= high) return value;
  return invalid(std::string{option} + " '" + printable(text, 40) + "'", "is out of range",
                 fmt::format("use a whole number from {} to {}", low, high));
}

}  // namespace emplace::launcher
