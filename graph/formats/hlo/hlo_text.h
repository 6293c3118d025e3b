#pragma once
/// The text form of an XLA module, as instructions. Texts lie in the file's bytes.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// "f32[2,3]{1,0}", or a tuple of shapes.
struct HloShape {
  TensorSpec tensor;            ///< Of a shape that is no tuple. A token is u8[0].
  std::vector<HloShape> parts;  ///< Of a tuple.
  bool tuple = false;
  std::size_t leaves() const;  ///< Tensors in it.
};

/// `[ROOT] NAME = SHAPE OPCODE(OPERANDS), KEY=VALUE, …`
struct HloInstruction {
  std::size_t line = 0;  ///< From 1.
  std::string_view name, opcode;
  HloShape shape;
  std::string_view arguments;  ///< What stands in the parentheses.
  std::vector<std::string_view> operands;
  std::vector<std::pair<std::string_view, std::string_view>> attributes;
  bool root = false;

  std::string_view attribute(std::string_view key) const;  ///< Empty if there is none.
};

struct HloComputation {
  std::string_view name;
  bool entry = false;
  std::vector<HloInstruction> instructions;
  std::unordered_map<std::string_view, std::size_t> by_name;
};

struct HloText {
  std::string_view name, header;  ///< Of the module: its name, and what follows it.
  std::vector<HloComputation> computations;
  std::unordered_map<std::string_view, std::size_t> by_name;
};

/// A list "{1,2}" of whole numbers; others in it are left out.
std::vector<std::int64_t> hlo_numbers(std::string_view list);
/// Names in "{%a, %b}" or "%a", without the sign.
std::vector<std::string_view> hlo_names(std::string_view list);

/// Element types that graphs do not know are taken as others of their width. `where` names the input in
/// errors. Errors (kInvalid, with the line): no HloModule; a line that is none of this form; a shape of
/// unknown type or size; a name twice in a computation; a bracket or a quote that does not end; shapes nested
/// 64 deep. Any thread.
Result<HloText> parse_hlo_text(std::string_view text, std::string_view where);

}  // namespace emplace
