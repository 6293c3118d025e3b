#pragma once
/// XLA modules as text ("HloModule …"), optimised or not.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// True if the first line that is neither empty nor a comment begins with "HloModule".
bool looks_like_hlo(std::span<const std::byte> bytes);

/// Reads the ENTRY computation. `where` names the input in errors. Any thread.
///
/// An instruction is an op "hlo::OPCODE"; of a custom call "hlo::custom-call:TARGET". Fusions, calls, loops
/// and conditionals are one op each, with the work of what they run (hlo_work.h) and the bytes of their
/// operands and results; where that holds a product the type ends in "_dot" or "_convolution". Tuples and
/// get-tuple-element vanish; bitcasts and reshapes are views. metadata's op_name, without jit(…) and its last
/// part, is the group, and with transpose( in it the op is of the backward phase. A parameter is an
/// OptimizerState if its op_name holds opt_state, a Parameter if it holds params, a Buffer if the module
/// writes its result into it (input_output_alias), else an Input.
///
/// Errors (kInvalid, one line, with its number): those of parse_hlo_text and HloWork; no ENTRY; an operand
/// that does not exist or that comes later; an index outside of a tuple; those of OpGraphBuilder.
Result<OpGraph> parse_hlo(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
