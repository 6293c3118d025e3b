#include "base/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/text/toml_reader.h"
#include "base/text/words.h"

namespace emplace {
namespace {

std::string joined(std::span<const std::string_view> words, std::string_view between) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

template <class Number>
std::string shortest(Number value) {
  std::array<char, 32> text{};
  const auto [end, failure] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

std::string written(const bool* value) { return *value ? "true" : "false"; }
template <std::integral Whole>
std::string written(const Whole* value) {
  return std::to_string(*value);
}
std::string written(const double* value) {
  const std::string text = shortest(*value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
std::string written(const float* value) {
  const std::string text = shortest(*value);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  // The reader parses a double. If that rounds to another float, write all digits of this float.
  const double exact = static_cast<float>(read) == *value ? read : static_cast<double>(*value);
  return written(&exact);
}
std::string written(const std::string* value) { return toml_text(*value); }
std::string written(const std::vector<std::string>* values) {
  std::string text = "[";
  for (const std::string& value : *values) text.append(text.size() > 1 ? ", " : "").append(toml_text(value));
  return text + "]";
}
std::string written(const Duration* value) {
  if (value->seconds == std::floor(value->seconds))
    return toml_text(std::to_string(static_cast<long long>(value->seconds)) + "s");
  const double ms = value->seconds * 1e3;
  const std::string text = written(&ms);
  return toml_text(text.substr(0, text.ends_with(".0") ? text.size() - 2 : std::string::npos) + "ms");
}
std::string written(const Reserve* value) {
  return value->bytes > 0 ? toml_text(value->text()) : written(&value->share);
}
std::string written(const EnumSetting& value) {
  const std::size_t at = value.get();
  return toml_text(at < value.words.size() ? value.words[at] : std::string_view{});
}

std::string bound_text(double bound) {
  if (bound == std::floor(bound) && std::abs(bound) < 1e15)
    return std::to_string(static_cast<long long>(bound));
  return shortest(bound);
}

/// Describes a range; empty if any value is allowed.
std::string range_text(const SettingRange& range) {
  const bool low = std::isfinite(range.low), high = std::isfinite(range.high);
  if (!range.words.empty() && !low) return "one of: " + joined(range.words, ", ");
  if (!range.words.empty())
    return range_text({range.low, range.high, range.below}) + ", or \"" + std::string{range.words.front()} +
           "\"";
  if (low && high && !range.below) return bound_text(range.low) + " to " + bound_text(range.high);
  std::string text = low ? "at least " + bound_text(range.low) : "";
  if (high)
    text += (low ? " and " : "") + std::string{range.below ? "below " : "at most "} + bound_text(range.high);
  return text;
}

/// Reads one value if the table has it.
struct Reader {
  TomlTable& table;
  std::string_view key;
  const SettingRange& range;

  void operator()(bool* value) { *value = table.boolean(key).value_or(*value); }
  template <std::integral Whole>
  void operator()(Whole* value) {
    if (!range.words.empty() && table.is_text(key)) {
      const std::string word = *table.text(key);
      if (word == range.words.front()) return void(*value = 0);
      return table.fail(key, "is '" + printable(word, 40) + "'", "expected " + range_text(range));
    }
    const auto read = table.integer(key);
    if (!read) return;
    if (*read < 0 || static_cast<std::uint64_t>(*read) > std::numeric_limits<Whole>::max())
      return table.fail(key, "is out of range");
    if (!range.words.empty() && *read == 0) return table.fail(key, "is 0", "expected " + range_text(range));
    *value = static_cast<Whole>(*read);
  }
  void operator()(double* value) { *value = table.number(key).value_or(*value); }
  void operator()(float* value) {
    if (const auto read = table.number(key)) *value = static_cast<float>(*read);
  }
  void operator()(std::string* value) { *value = table.text(key).value_or(*value); }
  void operator()(std::vector<std::string>* value) { *value = table.texts(key).value_or(*value); }
  void operator()(Duration* value) { value->seconds = table.seconds(key).value_or(value->seconds); }
  void operator()(Reserve* value) { *value = table.reserve(key).value_or(*value); }
  void operator()(EnumSetting& value) {
    const auto word = table.text(key);
    if (!word) return;
    if (const auto at = find_word(value.noun, *word, value.words))
      value.set(*at);
    else
      table.fail(key, at.error());
  }
};

/// The table of a section such as "policy.placeto"; nothing if the document does not have it.
std::optional<TomlTable> table_of(TomlTable root, std::string_view section) {
  std::optional<TomlTable> table{std::move(root)};
  for (std::size_t dot = 0; table && dot != std::string_view::npos;) {
    dot = section.find('.');
    table = table->table(section.substr(0, dot));
    section.remove_prefix(dot == std::string_view::npos ? section.size() : dot + 1);
  }
  return table;
}

template <class Number>
bool within(const SettingRange& range, Number value) {
  const auto low = static_cast<Number>(range.low), high = static_cast<Number>(range.high);
  return value >= low && (range.below ? value < high : value <= high);
}

/// Checks one value.
struct Checker {
  const Setting& setting;

  Result<Unit> out_of_range() const {
    return Error{Errc::kInvalid,
                 setting.name() + " = " + setting.written() + ": expected " + range_text(setting.range)};
  }
  template <std::floating_point Number>
  Result<Unit> operator()(const Number* value) const {
    return within(setting.range, *value) ? Result{Unit{}} : out_of_range();
  }
  template <std::integral Whole>
  Result<Unit> operator()(const Whole* value) const {
    if (!setting.range.words.empty() && *value == 0) return Unit{};
    // Compared as doubles, because an infinite bound is not a whole number.
    return within(setting.range, static_cast<double>(*value)) ? Result{Unit{}} : out_of_range();
  }
  Result<Unit> operator()(const Duration* value) const {
    return within(setting.range, value->seconds) ? Result{Unit{}} : out_of_range();
  }
  Result<Unit> operator()(const std::string* value) const {
    if (setting.range.words.empty()) return Unit{};
    const auto found = find_word(setting.key, *value, setting.range.words);
    if (!found) return Error{Errc::kInvalid, setting.name() + ": " + found.error().context};
    return Unit{};
  }
  Result<Unit> operator()(const std::vector<std::string>* values) const {
    for (const std::string& value : *values) EMPLACE_TRY((*this)(&value));
    return Unit{};
  }
  Result<Unit> operator()(const Reserve*) const { return Unit{}; }
  Result<Unit> operator()(const EnumSetting&) const { return Unit{}; }
};

/// The range of a setting as a sentence.
std::string range_sentence(const Setting& setting) {
  std::string text = setting.allowed();
  if (text.empty()) return text;
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return " " + text + ".";
}

}  // namespace

Result<std::size_t> find_word(std::string_view noun, std::string_view word,
                              std::span<const std::string_view> words) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  const std::string_view near = nearest_word(word, words);
  return invalid("", "unknown " + std::string{noun} + " '" + printable(word, 40) + "'",
                 "expected one of: " + joined(words, ", ") +
                     (near.empty() ? std::string{} : " (did you mean '" + std::string{near} + "'?)"));
}

std::string Setting::allowed() const {
  if (const auto* words = std::get_if<EnumSetting>(&value)) return "one of: " + joined(words->words, ", ");
  return range_text(range);
}

std::string Setting::written() const {
  const auto* const number = std::get_if<std::uint32_t*>(&value);
  if (number != nullptr && **number == 0 && !range.words.empty()) return toml_text(range.words.front());
  return std::visit([](const auto& held) { return emplace::written(held); }, value);
}

Result<Unit> read_settings(const Settings& settings, TomlDocument document) {
  TomlTable root = document.root();
  std::string section;
  std::optional<TomlTable> table = root;
  for (const Setting& setting : settings.all()) {
    if (setting.section != section) {
      section = setting.section;
      table = table_of(root, section);
    }
    if (!table) continue;
    auto value = setting.value;
    std::visit(Reader{*table, setting.key, setting.range}, value);
  }
  return document.finish();
}

Result<Unit> check_ranges(const Settings& settings) {
  for (const Setting& setting : settings.all()) EMPLACE_TRY(std::visit(Checker{setting}, setting.value));
  return Unit{};
}

void copy_settings(const Settings& from, const Settings& to) {
  EMPLACE_CHECK(from.all().size() == to.all().size(), "settings of two kinds");
  for (std::size_t i = 0; i < from.all().size(); ++i) {
    auto target = to.all()[i].value;
    std::visit(
        [&](auto& held) {
          using Held = std::remove_cvref_t<decltype(held)>;
          const auto& source = std::get<Held>(from.all()[i].value);
          if constexpr (std::is_pointer_v<Held>)
            *held = *source;
          else
            held.set(source.get());
        },
        target);
  }
}

std::vector<std::string> differing_settings(const Settings& a, const Settings& b,
                                            std::optional<OnResume> only) {
  EMPLACE_CHECK(a.all().size() == b.all().size(), "settings of two kinds");
  std::vector<std::string> differing;
  for (std::size_t i = 0; i < a.all().size(); ++i) {
    const Setting& setting = a.all()[i];
    if (only.value_or(setting.on_resume) != setting.on_resume) continue;
    if (setting.written() != b.all()[i].written()) differing.push_back(setting.name());
  }
  return differing;
}

std::string settings_toml(const Settings& settings, bool documented) {
  std::string out;
  auto section = settings.sections().begin();
  for (const Setting& setting : settings.all()) {
    for (; section != settings.sections().end() && section->name == setting.section; ++section) {
      if (!out.empty()) out += "\n";
      if (documented) out.append("# ").append(section->meaning).append("\n");
      out.append("[").append(section->name).append("]\n");
    }
    if (documented) out.append("# ").append(setting.meaning).append(range_sentence(setting)).append("\n");
    out.append(setting.key).append(" = ").append(setting.written()).append("\n");
  }
  return out;
}

}  // namespace emplace
