#pragma once
/// FX graphs of PyTorch as text, with the type of every tensor beside it.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace {

/// True for text with a class of torch.nn.Module and a forward() in its beginning.
bool looks_like_fx(std::span<const std::byte> bytes);

/// Reads what GraphModule.print_readable() prints: TORCH_LOGS of Dynamo and AOTAutograd,
/// fx_graph_readable.py, an exported program. `where` names the input in errors, `dims` sizes symbolic
/// dimensions. Any thread.
///
/// A call is an op of its ATen type ("aten::mm") with the attributes and the work of the traced training
/// graphs; torch.add, x.add and x + y are aten::add. Calls that give no tensor are left out. A tuple is one
/// op whose outputs are those that a getitem takes. After an in-place op, readers of its first argument read
/// its result. Which inputs are parameters, fx_roles.h decides. What follows from a tangents_… input is of
/// the backward phase. Constants of the module are Constant ops. Of several graphs the first is read; the
/// others, and ops of unknown work, stand in the graph's meta.
///
/// Errors (kInvalid, one line, with its number): those of parse_fx_text; a tensor without a type, or of an
/// unknown one; a name that nobody made; a symbolic size that has no value; those of OpGraphBuilder.
Result<OpGraph> parse_fx(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims);

}  // namespace emplace
