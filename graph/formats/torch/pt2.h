#pragma once
/// Exported programs of PyTorch (.pt2, torch.export.save), without loading torch or their weights.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace {

/// True for a ZIP archive.
bool looks_like_pt2(std::span<const std::byte> bytes);

/// Reads the archive's models/model.json (else its first models/*.json) of schema major 8; another major is
/// refused, since its keys may mean other things. Nothing else in the archive is unpacked. `where` names the
/// input in errors, `dims` sizes symbolic dimensions. Any thread.
///
/// A node is an op of its ATen type ("aten::mm") with the attributes and the work of the traced training
/// graphs; nodes that give no tensor are left out. What the signature calls a parameter is a Parameter, under
/// its name in the module; buffers are Buffers, lifted tensors Constants, the rest Inputs. nn_module_stack is
/// the group. Unknown work stands in meta.uncounted.
///
/// Errors (kInvalid, one line, with the node): no archive, no program in it, a damaged one; keys that are
/// missing or of another kind; a name that nobody made; an unknown element type; a symbolic size without a
/// value; those of OpGraphBuilder.
Result<OpGraph> parse_pt2(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims);

}  // namespace emplace
