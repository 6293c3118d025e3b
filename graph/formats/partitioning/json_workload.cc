#include "graph/formats/partitioning/json_workload.h"

#include <algorithm>

#include "base/text/words.h"

namespace emplace {

bool looks_like_json_with(std::span<const std::byte> bytes, std::string_view key, std::size_t within) {
  const std::string_view text = text_of(bytes).substr(0, within);
  const std::size_t first = text.find_first_not_of("\xEF\xBB\xBF \t\r\n");
  return first != std::string_view::npos && text[first] == '{' && text.find(key) != std::string_view::npos &&
         text.find("\"emplace-graph") == std::string_view::npos;
}

Result<nlohmann::json> parse_json_object(std::span<const std::byte> bytes, std::string_view where) {
  nlohmann::json file = nlohmann::json::parse(text_of(bytes), nullptr, false);
  if (file.is_discarded()) return invalid(where, "is not JSON, or has a number that is out of range");
  if (!file.is_object()) return invalid(where, "is not a JSON object");
  return file;
}

}  // namespace emplace
