#pragma once
/// Settings: values that a config file, a command line or a record may set. An options struct lists its
/// settings, each with a key, a range and one sentence. All structs share the code that reads, writes,
/// checks, compares and documents them.
///
///   struct WalkOptions {
///     std::size_t rounds = 8;
///     void list(Settings& settings) { settings.add("rounds", rounds, between(1, 256), "Rounds of a walk.");
///     }
///   };

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace emplace {

class TomlDocument;

/// A time in seconds that is written with a unit: "60s".
struct Duration {
  double seconds = 0;
};

// --- words of enums ---

/// A value of an enum and its published word.
template <class Enum>
struct EnumWord {
  Enum value;
  std::string_view word;
};
template <class Enum>
EnumWord(Enum, const char*) -> EnumWord<Enum>;

/// The words of an enum, returned by a function in the enum's namespace, found by argument-dependent lookup:
///   constexpr auto enum_words(Order) {
///     return EnumWords{"order", std::array{EnumWord{Order::kFifo, "fifo"}, EnumWord{Order::kLifo, "lifo"}}};
///   }
template <class Enum, std::size_t N>
struct EnumWords {
  std::string_view noun;  ///< Noun for the enum in errors.
  std::array<EnumWord<Enum>, N> words;
};
template <class Enum, std::size_t N>
EnumWords(const char*, std::array<EnumWord<Enum>, N>) -> EnumWords<Enum, N>;

template <class Enum>
concept HasWords = std::is_enum_v<Enum> && requires(Enum value) {
  enum_words(value).words;
};

/// Returns the position of `word` in `words`. Errors (kInvalid): "unknown objective 'kll'; expected one of:
/// reinforce, kl, clipped (did you mean 'kl'?)".
Result<std::size_t> find_word(std::string_view noun, std::string_view word,
                              std::span<const std::string_view> words);

/// The word of a value; empty for a value without a word.
template <HasWords Enum>
constexpr std::string_view word_of(Enum value) {
  for (const auto& [known, word] : enum_words(value).words)
    if (known == value) return word;
  return {};
}
/// Errors: as find_word.
template <HasWords Enum>
Result<Enum> parse_word(std::string_view word) {
  const auto known = enum_words(Enum{});
  std::vector<std::string_view> words;
  for (const auto& one : known.words) words.push_back(one.word);
  const auto found = find_word(known.noun, word, words);
  if (!found) return found.error();
  return known.words[*found].value;
}

// --- ranges ---

/// The allowed values of a setting. Thread: a plain value.
struct SettingRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool below = false;  ///< Whether `high` itself is out of range.
  /// Allowed texts; empty: any. A whole number may also be the first word, which is held as 0. The words must
  /// outlive the range.
  std::span<const std::string_view> words = {};
};
constexpr SettingRange at_least(double low) { return {.low = low}; }
constexpr SettingRange between(double low, double high) { return {.low = low, .high = high}; }
constexpr SettingRange from_to_below(double low, double high) {
  return {.low = low, .high = high, .below = true};
}
constexpr SettingRange one_of(std::span<const std::string_view> words) { return {.words = words}; }
/// A whole number of at least `low`, or the word, which is held as 0.
constexpr SettingRange at_least_or(double low, std::span<const std::string_view, 1> word) {
  return {.low = low, .words = word};
}

// --- settings ---

/// A setting of an enum: its words and access to the position of the current one.
struct EnumSetting {
  std::string_view noun;
  std::vector<std::string_view> words;
  std::function<std::size_t()> get;  ///< words.size() for a value without a word.
  std::function<void(std::size_t)> set;
};

/// Whether a run that is resumed may have another value than before.
enum class OnResume : std::uint8_t { kSame, kMayChange };

/// One setting, bound to the field that holds it.
struct Setting {
  std::string section;  ///< Name of the section, such as "policy.placeto".
  std::string_view key, meaning;
  SettingRange range;
  std::variant<bool*, std::uint32_t*, std::uint64_t*, std::int64_t*, float*, double*, std::string*,
               std::vector<std::string>*, Duration*, Reserve*, EnumSetting>
      value;
  OnResume on_resume = OnResume::kSame;

  std::string name() const { return section.empty() ? std::string{key} : section + "." + std::string{key}; }
  std::string allowed() const;  ///< The range in words; empty if any value of the kind is allowed.
  std::string written() const;  ///< The value as TOML. A float is written as its shortest decimal.
};

/// The settings of some structs, in order. It holds pointers into the structs, so they must outlive it.
/// Thread: one.
class Settings {
 public:
  struct Section {
    std::string name;
    std::string_view meaning;
    OnResume on_resume = OnResume::kSame;
  };

  /// Returns what was added; valid until the next one is.
  template <class Value>
  Setting& add(std::string_view key, Value& value, SettingRange range, std::string_view meaning) {
    Setting& added = settings_.emplace_back();
    if (!sections_.empty()) {
      added.section = sections_.back().name;
      added.on_resume = sections_.back().on_resume;
    }
    added.key = key;
    added.meaning = meaning;
    added.range = range;
    if constexpr (HasWords<Value>) {
      added.value = enum_setting(value);
    } else {
      added.value = &value;
    }
    return added;
  }
  template <class Value>
  Setting& add(std::string_view key, Value& value, std::string_view meaning) {
    return add(key, value, SettingRange{}, meaning);
  }
  /// Adds a section such as "policy.placeto" with the settings that `options` lists. Each section is added
  /// once. `on_resume`: of the settings that do not set their own.
  template <class Options>
  void add_section(std::string_view name, std::string_view meaning, Options& options,
                   OnResume on_resume = OnResume::kSame) {
    sections_.push_back({std::string{name}, meaning, on_resume});
    options.list(*this);
  }

  const std::vector<Setting>& all() const { return settings_; }
  const std::vector<Section>& sections() const { return sections_; }

 private:
  template <class Enum>
  static EnumSetting enum_setting(Enum& value) {
    static constexpr auto kKnown = enum_words(Enum{});
    EnumSetting setting{kKnown.noun, {}, {}, {}};
    for (const auto& one : kKnown.words) setting.words.push_back(one.word);
    setting.get = [&value] {
      std::size_t at = 0;
      while (at < kKnown.words.size() && kKnown.words[at].value != value) ++at;
      return at;
    };
    setting.set = [&value](std::size_t at) { value = kKnown.words[at].value; };
    return setting;
  }

  std::vector<Setting> settings_;
  std::vector<Section> sections_;
};

/// Reads the settings in the document; the others keep their values. Does not check ranges. Errors (kInvalid,
/// with file and line): an unknown key or section (with the nearest known one), a wrong kind, unit or word, a
/// number that the field cannot hold.
Result<Unit> read_settings(const Settings& settings, TomlDocument document);
/// Errors (kInvalid): the first setting that is out of range: "policy.placeto.hidden = 0: expected 1 to
/// 4096".
Result<Unit> check_ranges(const Settings& settings);
/// Checks one struct; errors name keys without a section.
template <class Options>
Result<Unit> check_ranges(Options options) {
  Settings settings;
  options.list(settings);
  return check_ranges(settings);
}
/// Checks a number that is not in the list of an options struct. Errors (kInvalid): as check_ranges().
template <class Number>
Result<Unit> in_range(std::string_view key, Number value, double low, double high) {
  Settings settings;
  settings.add(key, value, between(low, high), "");
  return check_ranges(settings);
}
/// Copies all values. @pre both list the same struct.
void copy_settings(const Settings& from, const Settings& to);
/// The names of the settings whose values differ; with `only`, of those. @pre both list the same struct.
std::vector<std::string> differing_settings(const Settings& a, const Settings& b,
                                            std::optional<OnResume> only = {});

/// All settings as TOML, which read_settings reads back bit by bit; `documented` adds meaning and range.
std::string settings_toml(const Settings& settings, bool documented);

}  // namespace emplace
