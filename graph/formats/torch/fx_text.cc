#include "graph/formats/torch/fx_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text/nesting.h"
#include "graph/formats/reading/file_parts.h"

namespace emplace {
namespace {

constexpr int kDeepestExpr = 64;
constexpr std::string_view kFxQuotes = "\"'";
constexpr std::string_view kModule = "(torch.nn.Module):";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Parses one expression; sets `failed_` on an error.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_{text} {}

  std::optional<FxExpr> whole() {
    FxExpr value = expression(0);
    // A tuple without parentheses.
    if (!failed_ && rest().starts_with(',')) {
      FxExpr tuple{.kind = FxExpr::Kind::kList, .text = {}, .keyword = {}, .items = {}};
      tuple.items.push_back(std::move(value));
      while (!failed_ && take(","))
        if (!rest().empty()) tuple.items.push_back(expression(0));
      value = std::move(tuple);
    }
    if (failed_ || !rest().empty()) return std::nullopt;
    return value;
  }

 private:
  std::string_view rest() {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size()));
    return text_;
  }
  bool take(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  FxExpr fail() {
    failed_ = true;
    return {};
  }
  static FxExpr made(FxExpr::Kind kind, std::string_view text = {}, std::int64_t number = 0) {
    FxExpr value;
    value.kind = kind, value.text = text, value.number = number;
    return value;
  }

  std::string_view infix() {
    static constexpr std::array<std::string_view, 19> kInfix{
        "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+", "-",
        "*",  "/",  "%",  "@",  "<",  ">",  "&",  "|",  "^"};
    for (const std::string_view one : kInfix)
      if (take(one)) return one;
    return {};
  }

  /// All operators bind from the left: precedence does not affect the work of a mixed line.
  FxExpr expression(int depth) {
    FxExpr left = operand(depth);
    while (!failed_) {
      const std::string_view what = infix();
      if (what.empty()) break;
      FxExpr both = made(FxExpr::Kind::kInfix, what);
      both.items.push_back(std::move(left));
      both.items.push_back(operand(depth));
      left = std::move(both);
      if (++joined_ > 1000) return fail();
    }
    return left;
  }

  FxExpr operand(int depth) {
    if (depth > kDeepestExpr) return fail();
    FxExpr value = atom(depth);
    for (int links = 0; !failed_ && rest().starts_with('['); ++links) {
      if (links > kDeepestExpr) return fail();
      take("[");
      FxExpr item = made(FxExpr::Kind::kItem);
      item.items.push_back(std::move(value));
      item.items.push_back(list("]", depth));
      FxExpr& index = item.items.back();
      if (index.items.size() == 1) index = FxExpr{std::move(index.items[0])};
      value = std::move(item);
    }
    return value;
  }

  FxExpr atom(int depth) {
    const std::string_view text = rest();
    if (text.empty()) return fail();
    if (take("(")) return parenthesis(depth);
    if (take("[")) return list("]", depth);
    if (take("{")) return skipped_map();
    if (text[0] == '\'' || text[0] == '"') return quoted(text[0]);
    if (text[0] == '-' || text[0] == '~') {
      take(text.substr(0, 1));
      FxExpr value = depth < kDeepestExpr ? operand(depth + 1) : fail();
      if (value.kind == FxExpr::Kind::kInt) return made(FxExpr::Kind::kInt, {}, -value.number);
      if (value.kind == FxExpr::Kind::kFloat) return value;
      FxExpr one = made(FxExpr::Kind::kInfix, text.substr(0, 1));
      one.items.push_back(std::move(value));
      return one;
    }
    if (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.') return number();
    if (is_word(text[0])) return name(depth);
    return fail();
  }

  FxExpr parenthesis(int depth) {
    FxExpr inner = list(")", depth);
    // A single element without a comma is the element itself.
    if (!trailing_comma_ && inner.items.size() == 1 && inner.items[0].keyword.empty())
      return FxExpr{std::move(inner.items[0])};
    return inner;
  }

  /// Parses elements up to `closing`; arguments may have keywords, an index may have colons.
  FxExpr list(std::string_view closing, int depth) {
    FxExpr all = made(FxExpr::Kind::kList);
    trailing_comma_ = false;
    bool comma = false;
    while (!failed_ && !take(closing)) {
      if (depth >= kDeepestExpr) return fail();
      const std::string_view text = rest();
      std::size_t end = 0;
      while (end < text.size() && is_word(text[end])) ++end;
      const std::size_t equals = std::min(text.find_first_not_of(" \t", end), text.size());
      const bool named =
          end > 0 && text.substr(equals).starts_with('=') && !text.substr(equals).starts_with("==");
      if (named) text_.remove_prefix(equals + 1);
      FxExpr value = rest().starts_with(':') || rest().starts_with("...") ? dots() : expression(depth + 1);
      if (named) value.keyword = text.substr(0, end);
      all.items.push_back(std::move(value));
      if (!failed_ && rest().starts_with(':'))
        dots();  // Range "a:b" of an index: the result has its own type.
      comma = take(",");
      if (!failed_ && !comma && !rest().starts_with(closing)) return fail();
    }
    trailing_comma_ = comma;
    return all;
  }

  /// Skips ranges of an index and `...` up to the next comma or bracket.
  FxExpr dots() {
    const std::size_t end = std::min(text_.find_first_of(",])"), text_.size());
    text_.remove_prefix(end);
    return made(FxExpr::Kind::kList);
  }

  FxExpr skipped_map() {
    int open = 1;
    while (open > 0) {
      const std::size_t at = text_.find_first_of("{}");
      if (at == std::string_view::npos) return fail();
      open += text_[at] == '{' ? 1 : -1;
      text_.remove_prefix(at + 1);
    }
    return made(FxExpr::Kind::kNone);
  }

  FxExpr quoted(char quote) {
    text_.remove_prefix(1);
    std::size_t end = 0;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return fail();
    FxExpr value = made(FxExpr::Kind::kText, text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }

  FxExpr number() {
    std::size_t end = 0;
    while (end < text_.size() && (is_word(text_[end]) || text_[end] == '.' ||
                                  ((text_[end] == '-' || text_[end] == '+') && end > 0 &&
                                   (text_[end - 1] == 'e' || text_[end - 1] == 'E'))))
      ++end;
    const std::string_view digits = text_.substr(0, end);
    text_.remove_prefix(end);
    std::int64_t whole = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
    if (error == std::errc{} && stop == digits.data() + digits.size())
      return made(FxExpr::Kind::kInt, {}, whole);
    return made(FxExpr::Kind::kFloat, digits);
  }

  FxExpr name(int depth) {
    std::size_t end = 0;
    const auto dotted = [&](std::size_t k) {
      return text_[k] == '.' && k + 1 < text_.size() && is_word(text_[k + 1]);
    };
    while (end < text_.size() && (is_word(text_[end]) || dotted(end))) ++end;
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(end);
    if (word == "None") return made(FxExpr::Kind::kNone);
    if (word == "True" || word == "False") return made(FxExpr::Kind::kBool, {}, word == "True" ? 1 : 0);
    if (word == "inf" || word == "nan") return made(FxExpr::Kind::kFloat, word);
    if (!text_.starts_with('(')) return made(FxExpr::Kind::kName, word);
    text_.remove_prefix(1);
    FxExpr call = list(")", depth);
    call.kind = FxExpr::Kind::kCall, call.text = word;
    return call;
  }

  std::string_view text_;
  bool failed_ = false, trailing_comma_ = false;
  int joined_ = 0;
};

/// Splits the text into lines, joined while a bracket is open, and lines into statements.
class FxTextReader {
 public:
  FxTextReader(std::string_view text, std::string_view where) : text_{text}, where_{where} {}

  Result<FxText> read() {
    while (next_line()) {
      if (bad_) return fail("has an unclosed bracket or quote");
      const std::string_view line = stripped(line_);
      if (line.starts_with("class ") || (line.ends_with(kModule) && line.find(" class ") < line.size())) {
        on_class(line);
      } else if (line.starts_with("def ")) {
        EMPLACE_TRY(on_forward(line));
      } else if (inside_ && !line.empty()) {
        EMPLACE_TRY(on_line(line));
      }
    }
    if (!seen_forward_)
      return invalid(where_, "has no graph as text", "print it with GraphModule.print_readable()");
    return std::move(out_);
  }

 private:
  Error fail(std::string_view what, std::string_view cure = {}) const {
    return invalid(fmt::format("{}: line {}", where_, begin_), what, cure);
  }

  /// Reads the next line into line_, joined with following lines while brackets are open.
  bool next_line() {
    if (text_.empty()) return false;
    begin_ = ++count_;
    std::string_view line = cut_line();
    const std::size_t before = log_prefix(line);
    line.remove_prefix(before);
    indent_ = std::min(line.find_first_not_of(" \t"), line.size());
    const char* const from = line.data();
    int open = 0;
    scan(line, open);
    while (open > 0 && inside_ && !text_.empty() && !bad_) {
      ++count_;
      line = cut_line();
      scan(line, open);
    }
    bad_ = bad_ || (inside_ && open != 0);
    line_ = {from, static_cast<std::size_t>(line.data() + line.size() - from)};
    return true;
  }

  std::string_view cut_line() {
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return line;
  }

  /// Length of the prefix of torch's logger: "V1122 16:00:00.000000 123 torch/a.py:1] [0/0] [__aot_graphs] ".
  static std::size_t log_prefix(std::string_view line) {
    if (line.size() < 6 || std::string_view{"VDIWE"}.find(line[0]) == std::string_view::npos ||
        line[5] != ' ' ||
        !std::all_of(line.begin() + 1, line.begin() + 5, [](char c) { return c >= '0' && c <= '9'; }))
      return 0;
    std::size_t at = line.find("] ");
    if (at == std::string_view::npos) return line.size();
    for (at += 2; line.substr(at).starts_with('[');) {
      const std::size_t end = line.find(']', at);
      if (end == std::string_view::npos) return line.size();
      at = std::min(end + 2, line.size());
    }
    return at;
  }

  /// Counts brackets outside quotes; removes the comment from the line.
  void scan(std::string_view& line, int& open) {
    Nesting nesting{kFxQuotes};
    for (std::size_t k = 0; k < line.size(); ++k) {
      if (line[k] == '#' && !nesting.in_quote()) line = line.substr(0, k);
      if (k < line.size()) nesting.read(line[k]);
    }
    open += nesting.open();
    bad_ = bad_ || (inside_ && (nesting.in_quote() || open < 0));
  }

  /// Graphs nested in the first one are its parts; those beside it are separate graphs. Torch's logger writes
  /// the name of a separate graph's code before its class: "<eval_with_key>.1 class GraphModule(…):".
  void on_class(std::string_view line) {
    inside_ = !seen_forward_;
    if (!line.starts_with("class ")) indent_ = 0;
    if (out_.graphs == 0) level_ = indent_;
    if (indent_ <= level_) ++out_.graphs;
  }

  Result<Unit> on_forward(std::string_view line) {
    if (!inside_ || seen_forward_ || !line.starts_with("def forward")) return Unit{};
    seen_forward_ = true;
    const std::size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open)
      return fail("is not a signature of forward()");
    for (std::string_view part : split(line.substr(open + 1, close - open - 1), ',')) {
      part = stripped(part);
      const std::size_t colon = part.find(':');
      FxStatement input;
      input.line = begin_;
      input.name = stripped(part.substr(0, colon));
      if (input.name.empty() || input.name == "self" || input.name.starts_with('*')) continue;
      if (colon != std::string_view::npos) input.type = unquoted(stripped(part.substr(colon + 1)));
      out_.inputs.push_back(input);
    }
    return Unit{};
  }

  /// Splits a text at separators outside brackets and quotes.
  static std::vector<std::string_view> split(std::string_view text, char by) {
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    Nesting nesting{kFxQuotes};
    for (std::size_t k = 0; k < text.size(); ++k) {
      if (text[k] == by && nesting.outside()) {
        parts.push_back(text.substr(begin, k - begin));
        begin = k + 1;
      }
      nesting.read(text[k]);
    }
    parts.push_back(text.substr(begin));
    return parts;
  }

  static std::string_view unquoted(std::string_view text) {
    if (text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0])
      return text.substr(1, text.size() - 2);
    return {};  // A class such as "torch.Tensor" has no sizes.
  }

  Result<Unit> on_line(std::string_view line) {
    if (!seen_forward_) return Unit{};
    if (line.starts_with("return")) inside_ = false;
    if (!inside_ || line == "pass") return Unit{};
    for (const std::string_view part : split(line, ';')) EMPLACE_TRY(on_statement(stripped(part)));
    return Unit{};
  }

  Result<Unit> on_statement(std::string_view text) {
    if (text.empty() || text.ends_with("= None") || text.find("fx_pytree.") != std::string_view::npos)
      return Unit{};
    FxStatement one;
    one.line = begin_;
    std::size_t end = 0;
    while (end < text.size() && is_word(text[end])) ++end;
    one.name = text.substr(0, end);
    std::string_view rest = stripped(text.substr(end));
    if (rest.starts_with('[')) {
      const auto sides = split(text, '=');
      if (sides.size() == 2 && add_write(stripped(sides[0]), sides[1])) return Unit{};
    }
    if (rest.starts_with(':')) {
      const auto sides = split(rest.substr(1), '=');
      one.type = unquoted(stripped(sides[0]));
      rest = sides.size() > 1 ? rest.substr(static_cast<std::size_t>(sides[1].data() - rest.data()) - 1)
                              : std::string_view{};
    }
    if (one.name.empty() || (!rest.empty() && !rest.starts_with('=')))
      return fail("is not a statement of a graph: '" + printable(text, 60) + "'",
                  "print it with GraphModule.print_readable()");
    if (!rest.empty()) {
      auto value = Parser{rest.substr(1)}.whole();
      if (!value)
        return fail("has a value that cannot be parsed: '" + printable(stripped(rest.substr(1)), 60) + "'");
      one.value = *std::move(value), one.has_value = true;
    }
    out_.statements.push_back(std::move(one));
    return Unit{};
  }

  /// Adds "x[i] = y"; returns whether that is what it is.
  bool add_write(std::string_view part, std::string_view from) {
    auto target = Parser{part}.whole(), value = Parser{from}.whole();
    if (!target || target->kind != FxExpr::Kind::kItem || !value) return false;
    FxStatement one;
    one.line = begin_, one.name = part, one.has_value = one.writes = true;
    one.value.kind = FxExpr::Kind::kCall, one.value.text = "torch.ops.aten.index_put_.default";
    one.value.items = std::move(target->items);
    one.value.items.push_back(*std::move(value));
    out_.statements.push_back(std::move(one));
    return true;
  }

  std::string_view text_, line_;
  const std::string_view where_;
  std::size_t count_ = 0, begin_ = 0, indent_ = 0, level_ = 0;
  bool inside_ = false, seen_forward_ = false, bad_ = false;
  FxText out_;
};

}  // namespace

Result<FxText> parse_fx_text(std::string_view text, std::string_view where) {
  return FxTextReader{text, where}.read();
}

}  // namespace emplace
