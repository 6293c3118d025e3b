#pragma once
/// Names of a PyTorch model's modules.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"

namespace emplace::interop {

/// "layer1/0/conv1" → "layer1.0.conv1". PyTorch's ONNX exporter repeats the name of a list at its members,
/// "layer1/layer1.0/conv1"; the repetition is removed.
std::string module_name(std::string_view scope);

/// Whether a name is that of an element of a list: "3".
bool is_number(std::string_view text);

/// Reads names of modules and tensors in the order of a model: a JSON list, or one per line; the empty name
/// is the model. Errors (kInvalid): another kind of JSON, no name, a name that is not UTF-8.
Result<std::vector<std::string>> parse_module_names(std::string_view text, std::string_view where);

/// The names of a model's modules, and of everything that contains one.
class ModuleTree {
 public:
  explicit ModuleTree(const std::vector<std::string>& names);

  /// The module in which an op with the scope `name` is: legacy exporters number repeated calls of a module
  /// ("relu_1"). Nothing if it is not in the tree.
  std::optional<std::string> find(std::string_view name) const;
  /// Returns whether `name` contains no other name of the tree.
  bool is_leaf(const std::string& name) const { return !parents_.contains(name); }

 private:
  std::unordered_set<std::string> names_, parents_;
};

}  // namespace emplace::interop
