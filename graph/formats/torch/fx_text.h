#pragma once
/// The text that torch prints of an FX graph, as statements. Texts lie in the file's bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emplace {

/// A Python expression, as far as such a text has them.
struct FxExpr {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kName,   ///< text: "relu", "self.weight", "torch.float32".
    kList,   ///< items: its elements; a tuple and a slice too.
    kCall,   ///< text: the callee, "torch.ops.aten.mm.default" or "x.flatten"; items: the arguments.
    kItem,   ///< items: the thing and its index.
    kInfix,  ///< text: the operator; items: both sides, or one.
  };
  Kind kind = Kind::kNone;
  std::string_view text;
  std::string_view keyword;  ///< Of an argument given by name.
  std::int64_t number = 0;   ///< kBool, kInt.
  std::vector<FxExpr> items;
};

/// `NAME: "TYPE" = VALUE`, or one of its parts.
struct FxStatement {
  std::size_t line = 0;  ///< From 1.
  std::string_view name, type;
  FxExpr value;
  bool has_value = false;
};

/// The first graph of a text.
struct FxText {
  std::string_view class_name;
  std::vector<FxStatement> inputs;  ///< Of its forward(), without values.
  std::vector<FxStatement> statements;
  std::vector<std::string_view> returned;  ///< Names that the return statement has.
  std::size_t graphs = 0;                  ///< In the text, on the same level.
};

/// Lines of a log lose what the logger put before them. Comments, imports, what stands before the first
/// class, `x = None` and what torch does to pack arguments are left out. `where` names the input in errors.
/// Errors (kInvalid, with the line): no class with a forward(); a bracket or a quote that does not end; what
/// is no statement of such a text; 64 levels of brackets. Any thread.
Result<FxText> parse_fx_text(std::string_view text, std::string_view where);

}  // namespace emplace
