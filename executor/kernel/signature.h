#pragma once
/// What an op computes, as every device's kernels are asked for it.

#include <string>
#include <vector>

#include "executor/kernel/operand.h"

namespace emplace {

/// Everything that decides what a kernel does. Two ops of one signature share one kernel.
struct Signature {
  std::string type;        ///< "aten::mm", "Conv", …
  std::string attrs_json;  ///< As OpGraph::attrs_json.
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;  ///< Packed.
  bool operator==(const Signature&) const = default;
};

}  // namespace emplace
