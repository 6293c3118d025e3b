#pragma once
/// The seeded layered random graphs that the Placeto reference times were taken on, read from their text
/// form: "N E", then N lines "cost_us out0_bytes out1_bytes", then E lines "parent child out_index".

#include <filesystem>
#include <vector>

#include "base/rng.h"
#include "graph/op_graph.h"
#include "placement/placement.h"

namespace emplace::testing {

struct ReferenceDag {
  OpGraph graph;
  std::vector<double> cost_us;  ///< [ops], whole numbers.
};

/// Thread: any. Errors: kInvalid or kIo if the text is not of that form.
Result<ReferenceDag> read_reference_dag(const std::filesystem::path& path);

/// Placement k of op i is splitmix64(k << 32 | i) mod devices.
Placement reference_placement(std::size_t ops, std::uint64_t k, std::uint64_t devices);

}  // namespace emplace::testing
