#include "graph/formats/hlo/hlo_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <string>

#include "base/text/nesting.h"
#include "graph/capped.h"
#include "graph/formats/reading/file_parts.h"

namespace emplace {
namespace {

constexpr int kDeepestShape = 64;
constexpr std::string_view kHloQuotes = "\"";

std::string_view unsigned_name(std::string_view name) {
  name = stripped(name);
  if (name.starts_with('%')) name.remove_prefix(1);
  return name;
}

/// Scans `text` from `at` and calls `each(position)` outside quotes, comments and brackets until it returns
/// true. Returns that position, or npos.
template <class Each>
std::size_t outside(std::string_view text, std::size_t at, Each each) {
  Nesting nesting{kHloQuotes};
  for (; at < text.size(); ++at) {
    if (!nesting.in_quote() && text.substr(at).starts_with("/*")) {
      at = std::min(text.find("*/", at), text.size() - 2) + 1;
      continue;
    }
    if (nesting.outside() && text[at] != '"' && each(at)) return at;
    nesting.read(text[at]);
  }
  return std::string_view::npos;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = outside(text, begin, [&](std::size_t at) { return text[at] == ','; });
    if (const auto part = stripped(text.substr(begin, end == std::string_view::npos ? end : end - begin));
        !part.empty())
      parts.push_back(part);
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

/// Extracts the name of an operand: "/*index=5*/f32[2]{0} %x" → "x".
std::string_view operand_name(std::string_view part) {
  if (const std::size_t comment = part.rfind("*/"); comment != std::string_view::npos)
    part.remove_prefix(comment + 2);
  part = stripped(part);
  return unsigned_name(part.substr(part.rfind(' ') + 1));
}

std::optional<TensorSpec> element(std::string_view type) {
  struct Known {
    std::string_view name;
    DType dtype;
  };
  static constexpr std::array<Known, 12> kKnown{{{"pred", DType::kBool},
                                                 {"s8", DType::kI8},
                                                 {"s16", DType::kI16},
                                                 {"s32", DType::kI32},
                                                 {"s64", DType::kI64},
                                                 {"u8", DType::kU8},
                                                 {"u16", DType::kI16},
                                                 {"u32", DType::kI32},
                                                 {"u64", DType::kI64},
                                                 {"c64", DType::kF64},
                                                 {"token", DType::kU8},
                                                 {"opaque", DType::kU8}}};
  for (const auto& [name, dtype] : kKnown)
    if (name == type) return TensorSpec{dtype, {}};
  if (type == "c128") return TensorSpec{DType::kF64, {2}};
  if (type.starts_with("f8")) return TensorSpec{DType::kF8, {}};
  if (type.starts_with("f4") || type == "s4" || type == "u4" || type == "s2" || type == "u2" ||
      type == "s1" || type == "u1")
    return TensorSpec{DType::kI8, {}};
  if (const auto dtype = parse_dtype(type)) return TensorSpec{*dtype, {}};
  return std::nullopt;
}

class HloTextReader {
 public:
  HloTextReader(std::string_view text, std::string_view where) : text_{text}, where_{where} {}

  Result<HloText> read() {
    while (next_line()) {
      if (!error_.empty()) return fail(error_);
      EMPLACE_TRY(on_line(stripped(line_)));
    }
    if (!error_.empty()) return fail(error_);
    if (!seen_module_) return invalid(where_, "has no HloModule");
    if (inside_) return fail("ends inside a computation");
    return std::move(out_);
  }

 private:
  Error fail(std::string_view what, std::string_view cure = {}) const {
    return invalid(fmt::format("{}: line {}", where_, begin_), what, cure);
  }

  /// Reads the next line, joined with following lines while brackets are open. A line that opens a
  /// computation is not joined with its body.
  bool next_line() {
    if (text_.empty()) return false;
    begin_ = ++count_;
    std::size_t end = 0;
    Nesting nesting{kHloQuotes};
    for (; end < text_.size(); ++end) {
      if (text_[end] == '\n') {
        const std::string_view so_far = stripped(text_.substr(0, end));
        const bool opens = nesting.open() == 1 && so_far.ends_with('{') && !is_instruction(so_far);
        if (!nesting.in_quote() && (nesting.open() <= 0 || opens)) break;
        ++count_;
      }
      nesting.read(text_[end]);
    }
    const int open = nesting.open();
    end = std::min(end, text_.size());
    line_ = text_.substr(0, end);
    if (nesting.in_quote() ||
        (open > 0 && (open > 1 || is_instruction(stripped(line_)) || !stripped(line_).ends_with('{'))))
      error_ = "has an unclosed bracket or quote";
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return true;
  }
  static bool is_instruction(std::string_view line) {
    return outside(line, 0, [&](std::size_t at) { return line.substr(at).starts_with(" = "); }) !=
               std::string_view::npos ||
           line.starts_with("HloModule");
  }

  Result<Unit> on_line(std::string_view line) {
    if (line.empty() || line.starts_with("//") || line.starts_with("FileNames") ||
        line.starts_with("FunctionNames") || line.starts_with("FileLocations") ||
        line.starts_with("StackFrames"))
      return Unit{};
    if (line.starts_with("HloModule")) {
      if (seen_module_) return fail("starts a second module", "write one module per file");
      seen_module_ = true;
      const std::string_view rest = stripped(line.substr(9));
      out_.name = rest.substr(0, rest.find_first_of(", "));
      out_.header = rest;
      return Unit{};
    }
    if (!seen_module_) return Unit{};
    if (line.starts_with('}')) {
      inside_ = false;
      return Unit{};
    }
    if (inside_) return on_instruction(line);
    if (line.ends_with('{')) return on_computation(line);
    return Unit{};  // Tables of files and frames.
  }

  Result<Unit> on_computation(std::string_view line) {
    HloComputation one;
    if (line.starts_with("ENTRY ")) {
      one.entry = true;
      line = stripped(line.substr(6));
    }
    one.name = unsigned_name(line.substr(0, line.find_first_of(" (")));
    if (one.name.empty()) return fail("is not a computation");
    if (!out_.by_name.emplace(one.name, out_.computations.size()).second)
      return fail("defines computation '" + printable(one.name, 80) + "' twice");
    out_.computations.push_back(std::move(one));
    inside_ = true;
    return Unit{};
  }

  Result<HloShape> shape(std::string_view& text, int depth) {
    HloShape out;
    text = stripped(text);
    if (text.starts_with("/*")) text = stripped(text.substr(std::min(text.find("*/"), text.size() - 2) + 2));
    if (text.starts_with('(')) {
      if (depth > kDeepestShape) return fail("has a shape that is nested too deeply");
      out.tuple = true;
      text.remove_prefix(1);
      while (!(text = stripped(text)).starts_with(')')) {
        EMPLACE_TRY_ASSIGN(auto part, shape(text, depth + 1));
        out.parts.push_back(std::move(part));
        text = stripped(text);
        if (text.starts_with(',')) {
          text.remove_prefix(1);
        } else if (!text.starts_with(')')) {
          return fail("has a tuple shape that is not closed");
        }
      }
      text.remove_prefix(1);
      return out;
    }
    const std::size_t open = text.find('['), close = text.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open)
      return fail("has no shape", "write NAME = f32[2,3] OPCODE(…)");
    auto spec = element(text.substr(0, open));
    if (!spec) return fail("has a shape of unknown type '" + printable(text.substr(0, open), 40) + "'");
    const bool empty = text.starts_with("token") || text.starts_with("opaque");
    for (std::string_view size : split(text.substr(open + 1, close - open - 1))) {
      if (size.starts_with("<=")) size.remove_prefix(2);  // Bound of a dynamic size.
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), value);
      if (error != std::errc{} || end != size.data() + size.size() || value < 0)
        return fail("has a shape of unknown size '" + printable(size, 40) + "'");
      spec->shape.push_back(value);
    }
    if (empty) spec->shape = {0};
    out.tensor = *std::move(spec);
    text.remove_prefix(close + 1);
    if (text.starts_with('{')) {  // Skip the layout: sizes do not depend on it.
      const std::size_t end = text.find('}');
      if (end == std::string_view::npos) return fail("has a layout that is not closed");
      text.remove_prefix(end + 1);
    }
    return out;
  }

  Result<Unit> on_instruction(std::string_view line) {
    HloInstruction one;
    one.line = begin_;
    one.root = line.starts_with("ROOT ");
    if (one.root) line = stripped(line.substr(5));
    const std::size_t equals = line.find(" = ");
    if (equals == std::string_view::npos)
      return fail("is not an instruction", "write NAME = f32[2,3] OPCODE(…)");
    one.name = unsigned_name(line.substr(0, equals));
    std::string_view rest = line.substr(equals + 3);
    EMPLACE_TRY_ASSIGN(one.shape, shape(rest, 0));
    rest = stripped(rest);
    const std::size_t open = rest.find('(');
    if (open == std::string_view::npos || open == 0) return fail("has no opcode");
    one.opcode = stripped(rest.substr(0, open));
    const std::size_t close = outside(rest, open + 1, [&](std::size_t at) { return rest[at] == ')'; });
    if (close == std::string_view::npos) return fail("has an operand list that is not closed");
    one.arguments = rest.substr(open + 1, close - open - 1);
    if (one.opcode != "constant" && one.opcode != "parameter" && one.opcode != "iota")
      for (const std::string_view part : split(one.arguments)) one.operands.push_back(operand_name(part));
    for (const std::string_view part : split(rest.substr(close + 1))) {
      const std::size_t sign = part.find('=');
      if (sign != std::string_view::npos)
        one.attributes.emplace_back(stripped(part.substr(0, sign)), stripped(part.substr(sign + 1)));
    }
    HloComputation& computation = out_.computations.back();
    if (one.name.empty() || !computation.by_name.emplace(one.name, computation.instructions.size()).second)
      return fail("defines '" + printable(one.name, 80) + "' twice");
    computation.instructions.push_back(std::move(one));
    return Unit{};
  }

  std::string_view text_, line_, error_;
  const std::string_view where_;
  std::size_t count_ = 0, begin_ = 0;
  bool seen_module_ = false, inside_ = false;
  HloText out_;
};

}  // namespace

std::size_t HloShape::leaves() const {
  if (!tuple) return 1;
  std::size_t sum = 0;
  for (const HloShape& part : parts) sum += part.leaves();
  return sum;
}

std::string_view HloInstruction::attribute(std::string_view key) const {
  for (const auto& [known, value] : attributes)
    if (known == key) return value;
  return {};
}

std::vector<std::int64_t> hlo_numbers(std::string_view list) {
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at < list.size();) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(list.data() + at, list.data() + list.size(), value);
    if (error == std::errc{}) numbers.push_back(value);
    at = error == std::errc{} ? static_cast<std::size_t>(end - list.data()) : at + 1;
  }
  return numbers;
}

std::int64_t hlo_group_size(const HloInstruction& one, std::string_view header) {
  const auto pairs = hlo_numbers(one.attribute("source_target_pairs"));
  if (!pairs.empty())
    return static_cast<std::int64_t>(std::set<std::int64_t>{pairs.begin(), pairs.end()}.size());
  const std::string_view groups = one.attribute("replica_groups");
  if (groups.empty()) return 0;
  const auto first = hlo_numbers(groups.substr(0, groups.find(groups.front() == '[' ? ']' : '}')));
  // "{{0,1},{2,3}}" lists groups, "[2,4]<=[8]" states how many there are and their size.
  if (!first.empty()) return groups.front() == '[' ? first.back() : static_cast<std::int64_t>(first.size());
  std::int64_t all = 1;
  for (const std::string_view key : {"replica_count=", "num_partitions="}) {
    const std::size_t at = header.find(key);
    if (at == std::string_view::npos) continue;
    const auto count = hlo_numbers(header.substr(at + key.size(), header.find(',', at) - at - key.size()));
    if (!count.empty()) all = capped::times(all, count[0]);
  }
  return all > 1 ? all : 0;
}

std::vector<std::string_view> hlo_names(std::string_view list) {
  if (list.starts_with('{') && list.ends_with('}')) list = list.substr(1, list.size() - 2);
  std::vector<std::string_view> names;
  for (const std::string_view part : split(list)) names.push_back(unsigned_name(part));
  return names;
}

Result<HloText> parse_hlo_text(std::string_view text, std::string_view where) {
  return HloTextReader{text, where}.read();
}

}  // namespace emplace
