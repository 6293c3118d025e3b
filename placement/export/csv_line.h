#pragma once
/// One line of comma-separated values, quoted as in RFC 4180.

#include <concepts>
#include <string>
#include <string_view>

namespace emplace::interop {

/// Numbers use the shortest form that parses to the same value. Invalid UTF-8 in text is replaced.
/// Characters that control a terminal or the text direction are escaped (without_controls); tabs and line
/// ends stay. Text that a spreadsheet would read as a formula (it starts with = + - @, a tab or a line end)
/// is prefixed with an apostrophe.
class CsvLine {
 public:
  CsvLine& text(std::string_view cell);
  CsvLine& number(double value);
  CsvLine& number(std::integral auto value) { return bare(std::to_string(value)); }
  CsvLine& flag(bool value) { return bare(value ? "true" : "false"); }
  CsvLine& empty() { return bare(""); }

  /// Returns the line with its line end, and starts the next one.
  std::string take();

 private:
  CsvLine& bare(std::string_view cell);

  std::string line_;
  bool first_ = true;
};

}  // namespace emplace::interop
