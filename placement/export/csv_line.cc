#include "placement/export/csv_line.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/text/words.h"

namespace emplace::interop {

CsvLine& CsvLine::bare(std::string_view cell) {
  if (!std::exchange(first_, false)) line_ += ',';
  line_ += cell;
  return *this;
}

CsvLine& CsvLine::text(std::string_view cell) {
  std::string text = without_controls(to_valid_utf8(cell), "\t\r\n");
  if (!text.empty() && std::string_view{"=+-@\t\r\n"}.find(text.front()) != std::string_view::npos)
    text.insert(0, 1, '\'');
  if (text.find_first_of(",\"\r\n") == std::string::npos) return bare(text);
  std::string quoted{'"'};
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return bare(quoted + '"');
}

CsvLine& CsvLine::number(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return bare({digits.data(), end});
}

std::string CsvLine::take() {
  first_ = true;
  return std::exchange(line_, {}) + "\n";
}

}  // namespace emplace::interop
