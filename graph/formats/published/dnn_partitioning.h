#pragma once
/// Workloads of msr-fiddle/dnn-partitioning: profiled nodes with the machine that they were measured for.
///                         Source: Tarnawski et al., Efficient Algorithms for Device Placement, NeurIPS 2020

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Bytes that stand for a microsecond of the file's transfer costs: links of such graphs carry 12 GB/s.
inline constexpr double kPartitioningBytesPerUs = 12'000;

/// True if the bytes look like a workload: a JSON object with `maxFPGAs`.
bool looks_like_dnn_partitioning(std::span<const std::byte> bytes);

/// One op per node, called NAME#ID, in a topological order that keeps the file's where it can. Latencies [ms]
/// become measured_us of the classes "cpu" and "accelerator", `size` the bytes that the op keeps on its
/// device (param_bytes), a node's transfer cost attrs.transfer_us and one output of as many bytes as take so
/// long at 12 GB/s, a colour class a co-location class, backward nodes the backward phase; a node that
/// accelerators do not support may use "cpu:*" only. The machine stands in meta.partitioning: {accelerators,
/// cpus, memory_bytes} (placement/partitioning_machine.h). Errors (kInvalid, one line): not such a file; a
/// key that is missing, negative or too large; an id twice or unknown; out-edges of one node whose costs
/// differ by more than 1e-6; a cycle.
Result<OpGraph> parse_dnn_partitioning(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
