#pragma once
/// Workloads of msr-fiddle/dnn-partitioning: profiled nodes and the machine that they were measured for.
/// Source: Tarnawski et al., Efficient Algorithms for Device Placement, NeurIPS 2020

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Bytes per microsecond of a transfer cost in the file: links of such graphs have 12 GB/s.
inline constexpr double kPartitioningBytesPerUs = 12'000;

/// Returns whether the bytes look like a workload: a JSON object with `maxFPGAs`.
bool looks_like_dnn_partitioning(std::span<const std::byte> bytes);

/// Reads a workload as one op per node, called NAME#ID, in a topological order close to the file's. Mapping:
/// - latencies [ms]: measured_us of the classes "cpu" and "accelerator"
/// - `size`: bytes that the op keeps on its device (param_bytes)
/// - transfer cost: attrs.transfer_us, and one output whose size takes this time at 12 GB/s
/// - colour class: co-location class; backward nodes: the backward phase
/// - a node that accelerators do not support: restricted to "cpu:*"
/// - the machine: meta.partitioning {accelerators, cpus, memory_bytes} (placement/partitioning_machine.h)
/// Errors (kInvalid, one line): not such a file; a key that is missing, negative or too large; a duplicate or
/// unknown id; out-edges of one node whose costs differ by more than 1e-6; a cycle.
Result<OpGraph> parse_dnn_partitioning(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
