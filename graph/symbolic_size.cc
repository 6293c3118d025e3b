#include "graph/symbolic_size.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "base/text/words.h"

namespace emplace {
namespace {

constexpr int kDeepest = 64;
constexpr std::int64_t kLargestValue = std::int64_t{1} << 62;

/// Recursive descent over the formula. Unknown sizes are nullopt, and so are values computed from them.
class SizeFormula {
 public:
  using Value = std::optional<std::int64_t>;

  SizeFormula(std::string_view text, std::size_t axis, DimUsage& dims)
      : whole_{text}, text_{text}, axis_{axis}, dims_{dims} {}

  Result<Value> evaluate() {
    auto value = sum(0);
    if (value && !rest().empty()) return bad("is not a size");
    return value;
  }

 private:
  Error bad(std::string_view what) const {
    return invalid({}, "'" + printable(whole_, 80) + "' " + std::string{what});
  }

  std::string_view rest() {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \t"), text_.size()));
    return text_;
  }
  bool take(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  Result<Value> apply(std::string_view what, const Value& a, const Value& b) const {
    if (!a || !b) return Value{};
    std::int64_t out = 0;
    bool overflow = false;
    if (what == "+") overflow = __builtin_add_overflow(*a, *b, &out);
    if (what == "-") overflow = __builtin_sub_overflow(*a, *b, &out);
    if (what == "*") overflow = __builtin_mul_overflow(*a, *b, &out);
    if (what == "Max") out = std::max(*a, *b);
    if (what == "Min") out = std::min(*a, *b);
    if (what == "/" || what == "//" || what == "%" || what == "ceil") {
      if (*b == 0) return bad("divides by zero");
      const std::int64_t remainder = *a % *b, quotient = *a / *b;
      if (what == "/" && remainder != 0) return bad("is not a whole number");
      const bool down = remainder != 0 && (remainder < 0) != (*b < 0);
      out = what == "%" ? remainder + (down ? *b : 0) : quotient - (down && what == "//" ? 1 : 0);
      if (what == "ceil" && remainder != 0 && !down) ++out;
    }
    if (overflow || out > kLargestValue || out < -kLargestValue) return bad("is beyond 2^62");
    return Value{out};
  }

  Result<Value> sum(int depth) {
    if (depth > kDeepest) return bad("is nested too deeply");
    auto left = product(depth);
    while (left) {
      const std::string_view what = take("+") ? "+" : take("-") ? "-" : "";
      if (what.empty()) break;
      EMPLACE_TRY_ASSIGN(const auto right, product(depth));
      left = apply(what, *left, right);
    }
    return left;
  }

  Result<Value> product(int depth) {
    auto left = power(depth);
    while (left) {
      const std::string_view what = take("//")        ? "//"
                                    : take("/")       ? "/"
                                    : take("%")       ? "%"
                                    : next_is_times() ? "*"
                                                      : "";
      if (what.empty()) break;
      EMPLACE_TRY_ASSIGN(const auto right, power(depth));
      left = apply(what, *left, right);
    }
    return left;
  }
  bool next_is_times() { return !rest().starts_with("**") && take("*"); }

  Result<Value> power(int depth) {
    auto base = atom(depth);
    if (!base || !take("**")) return base;
    const auto exponent = atom(depth);
    return exponent ? raised(*base, *exponent) : exponent;
  }
  Result<Value> raised(const Value& base, const Value& exponent) const {
    if (!base || !exponent) return Value{};
    if (*exponent < 0 || *exponent > 62) return bad("has an exponent outside of 0 to 62");
    Result<Value> result = Value{1};
    for (std::int64_t k = 0; k < *exponent && result; ++k) result = apply("*", *result, base);
    return result;
  }

  Result<Value> atom(int depth) {
    if (take("-")) {
      const auto value = depth < kDeepest ? atom(depth + 1) : Result<Value>{bad("is nested too deeply")};
      return value ? apply("-", Value{0}, *value) : value;
    }
    if (take("(")) {
      auto value = sum(depth + 1);
      if (value && !take(")")) return bad("has no closing ')'");
      return value;
    }
    const std::string_view text = rest();
    std::size_t end = 0;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    const std::string_view word = text.substr(0, end);
    if (word.empty()) return bad("is not a size");
    text_.remove_prefix(end);
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      std::int64_t number = 0;
      const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      if (error != std::errc{} || stop != word.data() + word.size()) return bad("is not a size");
      if (number > kLargestValue) return bad("is beyond 2^62");
      return Value{number};
    }
    if (take("(")) return word == "Symbol" ? symbol() : function(word, depth + 1);
    return Value{dims_.size_of(word, axis_)};
  }

  /// Parses the text after `Symbol(`: 's77', positive=True, integer=True).
  Result<Value> symbol() {
    const std::string_view text = rest();
    const std::size_t end = text.empty() ? std::string_view::npos : text.find(text[0], 1);
    const std::size_t close = text.find(')');
    if (end == std::string_view::npos || close == std::string_view::npos || close < end ||
        (text[0] != '\'' && text[0] != '"'))
      return bad("has a symbol without a name");
    text_.remove_prefix(close + 1);
    return Value{dims_.size_of(text.substr(1, end - 1), axis_)};
  }

  /// Parses the arguments after `NAME(`: two or more values, folded from the left.
  Result<Value> function(std::string_view name, int depth) {
    static constexpr std::pair<std::string_view, std::string_view> kFunctions[] = {
        {"Max", "Max"},     {"Min", "Min"},      {"Add", "+"},        {"Mul", "*"},
        {"Integer", "+"},   {"FloorDiv", "//"},  {"CleanDiv", "//"},  {"Mod", "%"},
        {"PythonMod", "%"}, {"CeilDiv", "ceil"}, {"IntTrueDiv", "/"}, {"Pow", "**"}};
    const auto* known = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                     [&](const auto& one) { return one.first == name; });
    if (known == std::end(kFunctions)) return bad("has an unknown function");
    auto value = sum(depth);
    while (value && take(",")) {
      EMPLACE_TRY_ASSIGN(const auto next, sum(depth));
      value = known->second == "**" ? raised(*value, next) : apply(known->second, *value, next);
    }
    if (value && !take(")")) return bad("has no closing ')'");
    return value;
  }

  const std::string_view whole_;
  std::string_view text_;
  const std::size_t axis_;
  DimUsage& dims_;
};

}  // namespace

Result<std::optional<std::int64_t>> evaluate_size(std::string_view formula, std::size_t axis,
                                                  DimUsage& dims) {
  return SizeFormula{formula, axis, dims}.evaluate();
}

}  // namespace emplace
