#include "placement/export/module_tree.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/words.h"

namespace emplace::interop {

std::string module_name(std::string_view scope) {
  std::string name;
  std::size_t last = 0;  // Start of the last part.
  for (std::size_t begin = 0; begin <= scope.size();) {
    const std::size_t end = std::min(scope.find('/', begin), scope.size());
    const std::string_view part = scope.substr(begin, end - begin);
    if (name.size() > last && part.starts_with(name.substr(last) + ".")) {
      name.resize(last);
    } else if (!name.empty()) {
      name += '.';
      last = name.size();
    }
    name += part;
    begin = end + 1;
  }
  return name;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<std::vector<std::string>> parse_module_names(std::string_view text, std::string_view where) {
  std::vector<std::string> names;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (text[first] == '[' || text[first] == '{')) {
    const auto list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!list.is_array() ||
        !std::all_of(list.begin(), list.end(), [](const auto& one) { return one.is_string(); }))
      return invalid(where, "is not a list of module names",
                     "write one name per line, or a JSON list of them");
    for (const auto& one : list) names.push_back(one.get<std::string>());
  } else {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      std::string_view line = text.substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      names.emplace_back(line);
      begin = end + 1;
    }
  }
  std::erase(names, std::string{});
  if (names.empty()) return invalid(where, "names no module");
  for (const std::string& name : names)
    if (!is_utf8(name)) return invalid(where, "the name '" + printable(name, 60) + "' is not UTF-8");
  return names;
}

ModuleTree::ModuleTree(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    names_.insert(name);
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      names_.insert(name.substr(0, dot));
      parents_.insert(name.substr(0, dot));
    }
  }
}

std::optional<std::string> ModuleTree::find(std::string_view name) const {
  std::string found;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    std::string_view part = name.substr(begin, end - begin);
    const std::string above = found.empty() ? std::string{} : found + ".";
    found = above + std::string{part};
    if (!names_.contains(found)) {
      const std::size_t digits = part.find_last_not_of("0123456789");
      if (digits == std::string_view::npos || digits + 1 == part.size() || part[digits] != '_')
        return std::nullopt;
      found = above + std::string{part.substr(0, digits)};
      if (!names_.contains(found)) return std::nullopt;
    }
    begin = end + 1;
  }
  return found;
}

}  // namespace emplace::interop
