#pragma once
/// One line of comma-separated values, as RFC 4180 quotes them.

#include <concepts>
#include <string>
#include <string_view>

namespace emplace::record {

/// Numbers take their shortest form that reads back the same. Text is mended to UTF-8; what would steer a
/// terminal or turn the direction of text is escaped (inert_text), but tabs and line ends stay; and one that
/// a spreadsheet would take for a formula (it begins with = + - @, a tab or a line end) gets an apostrophe in
/// front.
class CsvLine {
 public:
  CsvLine& text(std::string_view cell);
  CsvLine& number(double value);
  CsvLine& number(std::integral auto value) { return bare(std::to_string(value)); }
  CsvLine& flag(bool value) { return bare(value ? "true" : "false"); }
  CsvLine& empty() { return bare(""); }

  /// The line, with its end; the next one begins.
  std::string take();

 private:
  CsvLine& bare(std::string_view cell);

  std::string line_;
  bool first_ = true;
};

}  // namespace emplace::record
