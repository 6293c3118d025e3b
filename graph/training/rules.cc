#include "graph/training/rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/text/words.h"

namespace emplace::training {
namespace {

constexpr double kFarthest = 9e15;  // Integers up to this value are exact doubles.

}  // namespace

std::optional<Rule> rule_of(std::string_view type) {
  static const auto kRules = [] {
    std::unordered_map<std::string_view, Rule> all;
    for (const auto table : {unary_rules(), operand_rules(), product_rules(), fused_rules(), image_rules(),
                             norm_rules(), reduction_rules(), shape_rules(), cut_rules(), lookup_rules()}) {
      for (const NamedRule& named : table) all.emplace(named.type, named.rule);
    }
    return all;
  }();
  const auto found = kRules.find(type);
  return found == kRules.end() ? std::nullopt : std::optional{found->second};
}

Error contradiction(const Call& call) {
  return {Errc::kInvalid,
          "its shapes or attributes do not match an op of the kind '" + printable(call.type, 40) + "'"};
}

std::int64_t integer(const nlohmann::json& attrs, const char* key, std::int64_t absent) {
  const auto it = attrs.find(key);
  return it != attrs.end() && it->is_number_integer() ? it->get<std::int64_t>() : absent;
}

std::vector<std::int64_t> integers(const nlohmann::json& attrs, const char* key) {
  std::vector<std::int64_t> values;
  const auto it = attrs.find(key);
  if (it == attrs.end() || !it->is_array()) return values;
  for (const auto& value : *it) {
    if (!value.is_number_integer()) return {};
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

std::string word(const nlohmann::json& attrs, const char* key, std::string_view absent) {
  const auto it = attrs.find(key);
  return it != attrs.end() && it->is_string() ? it->get<std::string>() : std::string{absent};
}

std::optional<std::size_t> dimension(std::int64_t axis, std::size_t rank) {
  const auto dims = static_cast<std::int64_t>(rank);
  if (axis < -dims || axis >= dims) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + dims : axis);
}

bool broadcasts(const Shape& shape, const Shape& to) {
  if (shape.size() > to.size()) return false;
  const std::size_t more = to.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && shape[d] != to[d + more]) return false;
  }
  return true;
}

std::vector<std::int64_t> whole_values(const Call& call, std::size_t k) {
  std::vector<std::int64_t> numbers;
  if (k >= call.values.size()) return numbers;
  for (const double value : call.values[k]) {
    // Exporters write "to the end" as the largest integer.
    numbers.push_back(static_cast<std::int64_t>(std::clamp(value, -kFarthest, kFarthest)));
  }
  return numbers;
}

std::vector<TensorSpec> specs_of(const Recorder& r, const std::vector<Tensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const Tensor tensor : tensors) specs.push_back({.dtype = r.dtype(tensor), .shape = r.shape(tensor)});
  return specs;
}

std::vector<Tensor> operands(const Call& call) {
  std::vector<Tensor> tensors;
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    if (!call.number[k]) tensors.push_back(call.inputs[k]);
  }
  return tensors;
}

}  // namespace emplace::training
