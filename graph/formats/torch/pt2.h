#pragma once
/// Reads exported programs of PyTorch (.pt2, torch.export.save), without torch and without their weights.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace {

/// Returns whether the bytes are a ZIP archive.
bool looks_like_pt2(std::span<const std::byte> bytes);

/// Reads the archive's models/model.json (else its first models/*.json) of schema major 8; other majors are
/// rejected, because their keys may have other meanings. No other entry is unpacked. `where` names the input
/// in errors, `dims` sizes symbolic dimensions. Any thread.
///
/// A node is an op of its ATen type ("aten::mm") with the attributes and the work of the traced training
/// graphs; nodes without a tensor result are left out. Parameters of the signature become Parameters under
/// their names in the module, buffers Buffers, lifted tensors Constants, and the rest Inputs. nn_module_stack
/// is the group. meta.uncounted lists ops of unknown work.
///
/// Errors (kInvalid, one line, with the node): not an archive, no program in it, damaged; keys that are
/// missing or of another kind; an undefined name; an unknown element type; a symbolic size without a value;
/// those of OpGraphBuilder.
Result<OpGraph> parse_pt2(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims);

}  // namespace emplace
