#pragma once
/// What a device does when it runs a chunk of a pipeline: how long, what it sends when, and how its memory
/// changes. It is the same for every micro-batch, and is summed up once.

#include <cstdint>
#include <span>
#include <vector>

#include "executor/sim/shared/step_tables.h"
#include "graph/training/micro_batch.h"
#include "placement/pipeline/chunks.h"

namespace emplace {

/// Chunks that read a tensor or a copy of it: those that run for each micro-batch, and those that run once.
struct ReadingChunks {
  std::uint32_t each = 0, once = 0;
};

/// The program of each chunk of a placement. Thread: a plain value.
struct ChunkPrograms {
  /// Kernels up to one at whose end something is sent, or a tensor may end that other chunks or copies use.
  /// The first segment of a chunk has no kernels: it is its start.
  struct Segment {
    std::int64_t ns = 0;
    std::int64_t most_bytes = 0;   ///< Highest level of memory within it, from the level at its start.
    std::int64_t after_bytes = 0;  ///< Level at its end, from the level at its start.
    std::uint32_t first_point = 0, end_point = 0;
    std::uint32_t first_send = 0, end_send = 0;
    std::uint32_t first_drop = 0, end_drop = 0;
  };
  /// The level from the start of a kernel on, from the level at the start of the segment.
  struct Point {
    std::int64_t at_ns, bytes;
  };
  /// A buffer that is copied to another device.
  struct Remote {
    std::uint32_t buffer, target;
    ReadingChunks readers;
    std::uint32_t first_reader, end_reader;  ///< In `readers`.
    std::uint32_t counter;  ///< The counter of its readers; kNoIndex: the only one frees it by itself.
  };
  /// References to a tensor or a copy, whose last one frees it.
  struct Counter {
    std::int64_t bytes;
    std::uint32_t device;
    std::uint32_t buffer;  ///< A whole tensor, or what was copied.
    bool copy;             ///< Whether it is of the copy, or of the tensor, which its copies and those of its
                           ///< parts refer to as well.
    ReadingChunks readers;
  };

  std::vector<Segment> segments;
  std::vector<std::uint32_t> first_segment;  ///< [chunks + 1]
  std::vector<Point> points;
  std::vector<std::uint32_t> sends;         ///< Buffers that are made at the end of a segment.
  std::vector<std::uint32_t> drops;         ///< Counters of which a reference ends at the end of a segment.
  std::vector<Remote> remotes;              ///< Sorted by buffer, then by the first chunk that reads them.
  std::vector<std::uint32_t> first_remote;  ///< [buffers + 1]
  std::vector<std::uint32_t> readers;       ///< Chunks that read a remote buffer, ascending.
  std::vector<Counter> counters;
  /// [chunks] Remotes that a chunk waits for, in the order in which its kernels read them.
  std::vector<std::vector<std::uint32_t>> waits;
};

/// `tables`: of the micro-batch's graph. `placement` [its ops]. Pure; O(ops + reads).
ChunkPrograms chunk_programs(const MicroBatchGraph& graph, const StepTables& tables, const Chunks& chunks,
                             std::span<const DeviceId> placement);

}  // namespace emplace
