#pragma once
/// Description of the computation of an op, used to look up kernels on any device.

#include <string>
#include <vector>

#include "executor/kernel/operand.h"

namespace emplace {

/// Everything that determines a kernel. Ops with equal signatures share a kernel.
struct Signature {
  std::string type;        ///< "aten::mm", "Conv", …
  std::string attrs_json;  ///< Same format as OpGraph::attrs_json.
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;  ///< Packed.
  bool operator==(const Signature&) const = default;
};

}  // namespace emplace
