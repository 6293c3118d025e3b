#pragma once
/// Reads FX graphs of PyTorch as text with tensor types.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace {

/// Returns whether the beginning of the text has a class derived from torch.nn.Module with a forward().
bool looks_like_fx(std::span<const std::byte> bytes);

/// Reads the output of GraphModule.print_readable(): TORCH_LOGS of Dynamo and AOTAutograd,
/// fx_graph_readable.py, an exported program. `where` names the input in errors, `dims` sizes symbolic
/// dimensions. Any thread.
///
/// A call is an op of its ATen type ("aten::mm") with the attributes and the work of the traced training
/// graphs; torch.add, x.add and x + y are aten::add. Calls without a tensor result are left out. A tuple is
/// one op; its outputs are those that a getitem reads. After an in-place op, readers of its first argument
/// read its result. fx_roles.h decides which inputs are parameters. Ops that depend on a tangents_… input are
/// in the backward phase. Constants of the module are Constant ops. If the text has several graphs, the first
/// is read; meta lists the others and ops of unknown work.
///
/// Errors (kInvalid, one line, with its number): those of parse_fx_text; a tensor without a type, or of an
/// unknown one; an undefined name; a symbolic size without a value; those of OpGraphBuilder.
Result<OpGraph> parse_fx(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims);

}  // namespace emplace
