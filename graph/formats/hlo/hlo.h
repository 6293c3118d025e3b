#pragma once
/// Reads XLA modules as text ("HloModule …"), optimised or not.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Returns whether the first line that is neither empty nor a comment starts with "HloModule".
bool looks_like_hlo(std::span<const std::byte> bytes);

/// Reads the ENTRY computation. `where` names the input in errors. Any thread.
///
/// An instruction is an op "hlo::OPCODE"; a custom call is "hlo::custom-call:TARGET". Fusions, calls, loops
/// and conditionals are one op each, with the work of the computations they run (hlo_work.h) and the bytes of
/// their operands and results; the type ends in "_dot" or "_convolution" if they contain such a product.
/// Tuples and get-tuple-element are resolved away; bitcasts and reshapes are views. The group is metadata's
/// op_name without jit(…) and its last part; an op with transpose( in its op_name is in the backward phase. A
/// parameter is an OptimizerState if its op_name contains opt_state, a Parameter if it contains params, a
/// Buffer if the module writes a result into it (input_output_alias), else an Input.
///
/// Errors (kInvalid, one line, with its number): those of parse_hlo_text and HloWork; no ENTRY; an operand
/// that is unknown or defined later; an index outside of a tuple; those of OpGraphBuilder.
Result<OpGraph> parse_hlo(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
