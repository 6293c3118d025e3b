#pragma once
/// Parses the text of an FX graph into statements. Views point into the file's bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emplace {

/// A Python expression, limited to the forms in such a text.
struct FxExpr {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kName,   ///< Text: "relu", "self.weight", "torch.float32".
    kList,   ///< Items: elements; also for a tuple and a slice.
    kCall,   ///< Text: callee, "torch.ops.aten.mm.default" or "x.flatten"; items: arguments.
    kItem,   ///< Items: the object and its index.
    kInfix,  ///< Text: operator; items: both operands, or one.
  };
  Kind kind = Kind::kNone;
  std::string_view text;
  std::string_view keyword;  ///< Name of a keyword argument.
  std::int64_t number = 0;   ///< Value of a kBool or kInt.
  std::vector<FxExpr> items;
};

/// A statement `NAME: "TYPE" = VALUE`, or a part of it.
struct FxStatement {
  std::size_t line = 0;  ///< Line number, from 1.
  std::string_view name, type;
  FxExpr value;
  bool has_value = false;
  bool writes = false;  ///< "x[i] = y": a call of x, i and y, whose result later readers of x read.
};

/// The first graph of a text.
struct FxText {
  std::vector<FxStatement> inputs;  ///< Inputs of forward(), without values.
  std::vector<FxStatement> statements;
  std::size_t graphs = 0;  ///< Number of top-level graphs in the text.
};

/// Strips logger prefixes from lines. Skips comments, imports, text before the first class, `x = None`, and
/// torch's packing of arguments. `where` names the input in errors. Errors (kInvalid, with the line): no
/// class with a forward(); an unclosed bracket or quote; an unknown kind of statement; 64 levels of brackets.
/// Any thread.
Result<FxText> parse_fx_text(std::string_view text, std::string_view where);

}  // namespace emplace
