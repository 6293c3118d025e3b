#pragma once
/// A placement in the forms that other tools read: docs/export.md.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/placement.h"

namespace emplace::record {

/// The content of the file, `devices` being the names that `placement` [ops] counts. All formats here are
/// exact: no op is moved. Errors: kInvalid for a format that is none, naming those there are.
Result<std::string> export_placement(std::string_view format, const OpGraph& graph,
                                     const std::vector<std::string>& devices, const Placement& placement);

}  // namespace emplace::record
