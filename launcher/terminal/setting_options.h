#pragma once
/// Command line options made from a struct that lists its settings (base/settings.h).

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/settings.h"
#include "launcher/terminal/options.h"

namespace emplace::launcher {

/// One option per setting: --KEY, its meaning as the help, its value as the default. A negative number means
/// that there is no default. Texts and flags are set by the parse, everything else by apply(). Thread: one.
class SettingOptions {
 public:
  /// The struct must outlive it.
  template <class Struct>
  explicit SettingOptions(Struct& options) {
    Settings settings;
    options.list(settings);
    for (const Setting& setting : settings.all()) rows_.push_back({setting, {}, {}});
  }

  /// Declares the settings from `first` to `last`, as listed. `short_name`: "m" for -m of the first; empty:
  /// none. @pre both are listed.
  void declare(Options& options, std::string_view first, std::string_view last,
               std::string_view short_name = {});
  /// Reads the texts that were given. Errors (kInvalid): a text that is no value, or out of range.
  Result<Unit> apply();

 private:
  struct Row {
    Setting setting;
    std::string text, default_text;  ///< As on the command line; empty: not given.
  };
  static void declare(Options& options, Row& row, const std::string& names);

  std::deque<Row> rows_;
};

/// Returns the seconds of "60s". Errors (kInvalid), naming `option`: not a duration, or more than three
/// years.
Result<double> parse_duration(std::string_view option, const std::string& text);
/// The same for --budget.
Result<double> parse_budget(const std::string& text);

/// Returns the whole number in `text`. Errors: kInvalid, naming `option`, unless it is from `low` to `high`.
Result<std::uint32_t> parse_whole(std::string_view option, const std::string& text, std::uint32_t low,
                                  std::uint32_t high);

}  // namespace emplace::launcher
