#pragma once
/// The text form of an XLA module, parsed into instructions. Views point into the file's bytes.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// A shape such as "f32[2,3]{1,0}", or a tuple of shapes.
struct HloShape {
  TensorSpec tensor;            ///< Tensor of a shape that is not a tuple. A token is u8[0].
  std::vector<HloShape> parts;  ///< Parts of a tuple.
  bool tuple = false;
  std::size_t leaves() const;  ///< Number of tensors.
};

/// An instruction: `[ROOT] NAME = SHAPE OPCODE(OPERANDS), KEY=VALUE, …`
struct HloInstruction {
  std::size_t line = 0;  ///< Line number, from 1.
  std::string_view name, opcode;
  bool root = false;  ///< Whether it is the result of its computation.
  HloShape shape;
  std::string_view arguments;  ///< Text inside the parentheses.
  std::vector<std::string_view> operands;
  std::vector<std::pair<std::string_view, std::string_view>> attributes;

  std::string_view attribute(std::string_view key) const;  ///< Value of a key; empty if absent.
};

struct HloComputation {
  std::string_view name;
  bool entry = false;
  std::vector<HloInstruction> instructions;
  std::unordered_map<std::string_view, std::size_t> by_name;
};

struct HloText {
  std::string_view name, header;  ///< Module name and the text after it.
  std::vector<HloComputation> computations;
  std::unordered_map<std::string_view, std::size_t> by_name;
};

/// Parses the whole numbers in "{1,2}"; skips other items.
std::vector<std::int64_t> hlo_numbers(std::string_view list);
/// Parses names in "{%a, %b}" or "%a", without "%".
std::vector<std::string_view> hlo_names(std::string_view list);

/// Returns how many devices take part in a collective: those of its first group of replicas; of all of them,
/// if it names no group, the number in the module's header; of a permutation, those that its pairs name. 0:
/// it is no collective, or the text has no number.
std::int64_t hlo_group_size(const HloInstruction& one, std::string_view header);

/// Unknown element types are read as known ones of the same width. `where` names the input in errors. Errors
/// (kInvalid, with the line): no HloModule; a malformed line; a shape of unknown type or size; a duplicate
/// name in a computation; an unclosed bracket or quote; shapes nested 64 deep. Any thread.
Result<HloText> parse_hlo_text(std::string_view text, std::string_view where);

}  // namespace emplace
