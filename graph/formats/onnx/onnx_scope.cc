#include "graph/formats/onnx/onnx_scope.h"

#include <onnx.pb.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace emplace::onnx_io {
namespace {

/// Parses a Python list such as "['a', \"b\"]".
std::vector<std::string> list_of(std::string_view text) {
  std::vector<std::string> items;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char quote = text[at];
    if (quote != '\'' && quote != '"') continue;
    std::string item;
    for (++at; at < text.size() && text[at] != quote; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      item += text[at];
    }
    items.push_back(std::move(item));
  }
  return items;
}

/// Splits ": Net/layers.0: Block/add: aten.add" into "", "layers.0", "add".
std::vector<std::string> levels_of(std::string_view text) {
  std::vector<std::string> levels;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view level = text.substr(begin, end - begin);
    levels.emplace_back(level.substr(0, level.find(':')));
    begin = end + 1;
  }
  return levels;
}

/// The last level but one is the innermost module's full path; its dots become levels.
std::string module_of(const std::vector<std::string>& levels) {
  if (levels.size() < 2) return {};
  std::string path = levels[levels.size() - 2];
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

}  // namespace

std::string onnx_scope(const onnx::NodeProto& node) {
  const std::string* scopes = nullptr;
  const std::string* space = nullptr;
  for (const auto& entry : node.metadata_props()) {
    if (entry.key() == "pkg.torch.onnx.name_scopes") scopes = &entry.value();
    if (entry.key() == "namespace") space = &entry.value();
  }
  if (scopes != nullptr) return module_of(list_of(*scopes));
  if (space != nullptr) return module_of(levels_of(*space));
  std::string_view name = node.name();
  while (name.starts_with('/')) name.remove_prefix(1);
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string{} : std::string{name.substr(0, slash)};
}

}  // namespace emplace::onnx_io
