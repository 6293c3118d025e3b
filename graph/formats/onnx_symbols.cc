#include "graph/formats/onnx_symbols.h"

#include <onnx.pb.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

namespace emplace::onnx_io {
namespace {

/// Sums, differences, products, floor divisions and remainders of numbers and names, with Max, Min and
/// parentheses: what exporters write into dim_param.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const std::unordered_map<std::string, std::int64_t>& sizes)
      : text_{text}, sizes_{sizes} {}

  std::optional<std::int64_t> read() {
    const auto value = sum(0);
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;
  static constexpr int kDeepest = 32;

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Number sum(int depth) {
    Number value = product(depth);
    while (value) {
      const bool plus = take("+");
      if (!plus && !take("-")) return value;
      const Number next = product(depth);
      if (!next || (plus ? __builtin_add_overflow(*value, *next, &*value)
                         : __builtin_sub_overflow(*value, *next, &*value)))
        return std::nullopt;
    }
    return value;
  }

  Number product(int depth) {
    Number value = factor(depth);
    while (value) {
      const bool divide = take("//"), remainder = !divide && take("%");
      if (!divide && !remainder && !take("*")) return value;
      const Number next = factor(depth);
      if (!next || ((divide || remainder) && *next <= 0)) return std::nullopt;
      if (divide || remainder) {
        const std::int64_t rest = ((*value % *next) + *next) % *next;
        value = remainder ? rest : (*value - rest) / *next;
      } else if (__builtin_mul_overflow(*value, *next, &*value)) {
        return std::nullopt;
      }
    }
    return value;
  }

  Number factor(int depth) {
    if (depth > kDeepest) return std::nullopt;
    if (take("-")) {
      const Number value = factor(depth + 1);
      return value && *value > std::numeric_limits<std::int64_t>::min() ? Number{-*value} : std::nullopt;
    }
    if (take("(")) {
      const Number value = sum(depth + 1);
      return take(")") ? value : std::nullopt;
    }
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return std::nullopt;
    if (take("(")) return call(word, depth + 1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc{} && end == word.data() + word.size()) return number;
    const auto it = sizes_.find(std::string{word});
    return it == sizes_.end() ? std::nullopt : Number{it->second};
  }

  Number call(std::string_view function, int depth) {
    const bool most = function == "Max" || function == "max", least = function == "Min" || function == "min";
    Number value = sum(depth);
    while (value && take(",")) {
      const Number next = sum(depth);
      if (!next || (!most && !least)) return std::nullopt;
      value = most ? std::max(*value, *next) : std::min(*value, *next);
    }
    return take(")") && (most || least || function == "floor") ? value : std::nullopt;
  }

  const std::string_view text_;
  const std::unordered_map<std::string, std::int64_t>& sizes_;
  std::size_t at_ = 0;
};

}  // namespace

Symbols::Symbols(const OpenDims& given) : given_{given} {
  sizes_.insert(given.named.begin(), given.named.end());
}

void Symbols::add_input(const onnx::ValueInfoProto& input) {
  const auto& shape = input.type().tensor_type().shape();
  for (int axis = 0; axis < shape.dim_size(); ++axis) {
    const auto& dim = shape.dim(axis);
    if (dim.has_dim_value() && dim.dim_value() >= 0) continue;
    const std::string name =
        dim.dim_param().empty() ? input.name() + "." + std::to_string(axis) : dim.dim_param();
    if (sizes_.contains(name) && !given_.named.contains(name)) continue;
    const auto size = met_.size_of(name, static_cast<std::size_t>(axis));
    if (size) sizes_[name] = *size;
  }
}

std::optional<std::vector<std::int64_t>> Symbols::shape(const onnx::TensorShapeProto& shape,
                                                        std::string_view input) {
  std::vector<std::int64_t> dims;
  for (int axis = 0; axis < shape.dim_size(); ++axis) {
    const auto& dim = shape.dim(axis);
    std::optional<std::int64_t> size;
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      size = dim.dim_value();
    } else if (!dim.dim_param().empty()) {
      size = value(dim.dim_param());
    } else if (const auto it = sizes_.find(std::string{input} + "." + std::to_string(axis));
               !input.empty() && it != sizes_.end()) {
      size = it->second;
    }
    if (!size || *size < 0) return std::nullopt;
    dims.push_back(*size);
  }
  return dims;
}

std::optional<std::int64_t> Symbols::value(std::string_view expression) {
  if (const auto it = sizes_.find(std::string{expression}); it != sizes_.end()) {
    if (given_.named.contains(expression)) static_cast<void>(met_.size_of(expression, 1));
    return it->second;
  }
  return Arithmetic{expression, sizes_}.read();
}

}  // namespace emplace::onnx_io
