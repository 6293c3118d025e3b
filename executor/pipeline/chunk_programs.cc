#include "executor/pipeline/chunk_programs.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace emplace {
namespace {

class Programmer {
 public:
  Programmer(const MicroBatchGraph& graph, const StepTables& tables, const Chunks& chunks,
             std::span<const DeviceId> placement)
      : each_{graph.each}, tables_{tables}, chunks_{chunks}, placement_{placement} {}

  ChunkPrograms run() && {
    find_remotes();
    find_last_reads();
    count_references();
    make_segments();
    return std::move(programs_);
  }

 private:
  /// The last read of a tensor, or of a copy, in a chunk.
  struct LastRead {
    std::uint32_t chunk, kernel;
  };

  std::uint32_t owner(std::uint32_t buffer) const { return tables_.buffers[buffer].owner; }
  std::uint32_t device_of(std::uint32_t op) const {
    return static_cast<std::uint32_t>(index(placement_[op]));
  }

  bool is_each(std::uint32_t buffer) const {
    return each_[index(tables_.graph.producer(tables_.lowered.tensor(BufferId{buffer})))];
  }

  template <class Visit>
  void for_each_read(Visit visit) const {
    for (std::uint32_t c = 0; c < chunks_.size(); ++c)
      for (const OpId op : chunks_[c].kernels)
        for (const std::uint32_t buffer : tables_.reads_of(static_cast<std::uint32_t>(index(op))))
          visit(c, static_cast<std::uint32_t>(index(op)), buffer);
  }
  bool is_remote(std::uint32_t chunk, std::uint32_t buffer) const {
    return device_of(owner(buffer)) != index(chunks_[chunk].device);
  }

  /// Lists the copies by buffer, and what each chunk waits for.
  void find_remotes() {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;  // Buffer, chunk that reads it elsewhere.
    for_each_read([&](std::uint32_t c, std::uint32_t, std::uint32_t buffer) {
      if (is_remote(c, buffer)) pairs.emplace_back(buffer, c);
    });
    std::vector<std::pair<std::uint32_t, std::uint32_t>> in_order = pairs;
    std::ranges::sort(pairs);
    pairs.erase(std::ranges::unique(pairs).begin(), pairs.end());
    programs_.first_remote.assign(tables_.num_buffers() + 1, 0);
    for (std::size_t first = 0, end = 0; first < pairs.size(); first = end) {
      const std::uint32_t buffer = pairs[first].first;
      while (end < pairs.size() && pairs[end].first == buffer) ++end;
      std::vector<std::uint32_t> targets;
      for (std::size_t i = first; i < end; ++i) {
        const auto target = static_cast<std::uint32_t>(index(chunks_[pairs[i].second].device));
        if (std::ranges::find(targets, target) == targets.end()) targets.push_back(target);
      }
      for (const std::uint32_t target : targets) {
        ChunkPrograms::Remote remote{buffer, target, {}, next_reader(), 0, kNoIndex};
        for (std::size_t i = first; i < end; ++i) {
          const Chunk& chunk = chunks_[pairs[i].second];
          if (index(chunk.device) != target) continue;
          ++(chunk.runs_once() ? remote.readers.once : remote.readers.each);
          programs_.readers.push_back(pairs[i].second);
        }
        remote.end_reader = next_reader();
        programs_.remotes.push_back(remote);
        ++programs_.first_remote[buffer + 1];
      }
    }
    std::partial_sum(programs_.first_remote.begin(), programs_.first_remote.end(),
                     programs_.first_remote.begin());
    programs_.waits.resize(chunks_.size());
    for (const auto& [buffer, chunk] : in_order) {
      const std::uint32_t remote =
          remote_of(buffer, static_cast<std::uint32_t>(index(chunks_[chunk].device)));
      std::vector<std::uint32_t>& waits = programs_.waits[chunk];
      if (std::ranges::find(waits, remote) == waits.end()) waits.push_back(remote);
    }
  }
  std::uint32_t next_reader() const { return static_cast<std::uint32_t>(programs_.readers.size()); }
  std::uint32_t remote_of(std::uint32_t buffer, std::uint32_t target) const {
    std::uint32_t remote = programs_.first_remote[buffer];
    while (programs_.remotes[remote].target != target) ++remote;
    return remote;
  }

  void find_last_reads() {
    home_reads_.resize(tables_.num_buffers());
    remote_reads_.resize(programs_.remotes.size());
    for_each_read([&](std::uint32_t c, std::uint32_t op, std::uint32_t buffer) {
      std::vector<LastRead>* reads = nullptr;
      if (is_remote(c, buffer)) {
        reads = &remote_reads_[remote_of(buffer, static_cast<std::uint32_t>(index(chunks_[c].device)))];
      } else if (!tables_.buffers[buffer].resident) {
        reads = &home_reads_[tables_.buffers[buffer].base];
      }
      if (reads == nullptr) return;
      if (reads->empty() || reads->back().chunk != c) reads->push_back({c, op});
      reads->back().kernel = op;
    });
  }

  ReadingChunks readers_of(const std::vector<LastRead>& reads) const {
    ReadingChunks readers;
    for (const LastRead& read : reads) ++(chunks_[read.chunk].runs_once() ? readers.once : readers.each);
    return readers;
  }

  /// Decides which kernel frees a tensor or a copy. Where that depends on the step, it is counted.
  void count_references() {
    freed_.assign(tables_.num_ops(), 0);
    drops_of_.assign(tables_.num_ops(), {});
    std::vector<std::uint32_t> copies(tables_.num_buffers(), 0);  // Copies of a tensor and its parts.
    for (std::uint32_t b = 0; b < tables_.num_buffers(); ++b)
      copies[tables_.buffers[b].base] += programs_.first_remote[b + 1] - programs_.first_remote[b];
    for (std::uint32_t b = 0; b < tables_.num_buffers(); ++b) {
      const StepTables::Buffer& buffer = tables_.buffers[b];
      if (buffer.base != b || buffer.resident || buffer.held_bytes == 0) continue;
      const std::vector<LastRead>& reads = home_reads_[b];
      const std::uint32_t own = chunks_.of[buffer.owner];
      const auto others =
          std::ranges::count_if(reads, [&](const LastRead& read) { return read.chunk != own; });
      const ReadingChunks readers = readers_of(reads);
      if (copies[b] == 0 && others <= 1 && (readers.once == 0 || !each_[buffer.owner])) {
        // Reads are in the order of the chunks, and the own one is before all that read from it.
        if (!reads.empty()) freed_[reads.back().kernel] += buffer.held_bytes;
        continue;
      }
      // What makes it refers to it as well, since only the last micro-batch has readers that run once.
      drops_of_[buffer.owner].push_back(static_cast<std::uint32_t>(programs_.counters.size()));
      count(reads, {buffer.held_bytes, device_of(buffer.owner), b, false, readers});
    }
    for (std::uint32_t r = 0; r < programs_.remotes.size(); ++r) {
      ChunkPrograms::Remote& remote = programs_.remotes[r];
      const StepTables::Buffer& buffer = tables_.buffers[remote.buffer];
      const std::vector<LastRead>& reads = remote_reads_[r];
      // A tensor that is there once is read again by each micro-batch.
      if (reads.size() == 1 && (is_each(remote.buffer) || remote.readers.each == 0)) {
        freed_[reads.front().kernel] += buffer.copy_bytes();
        continue;
      }
      remote.counter = static_cast<std::uint32_t>(programs_.counters.size());
      count(reads, {buffer.copy_bytes(), remote.target, remote.buffer, true, remote.readers});
    }
  }
  void count(const std::vector<LastRead>& reads, const ChunkPrograms::Counter& counter) {
    const auto number = static_cast<std::uint32_t>(programs_.counters.size());
    for (const LastRead& read : reads) drops_of_[read.kernel].push_back(number);
    programs_.counters.push_back(counter);
  }

  void make_segments() {
    using Segment = ChunkPrograms::Segment;
    for (std::uint32_t c = 0; c < chunks_.size(); ++c) {
      programs_.first_segment.push_back(static_cast<std::uint32_t>(programs_.segments.size()));
      programs_.segments.push_back(opened());
      Segment segment = opened();
      const Chunk& chunk = chunks_[c];
      const std::int64_t* const row = tables_.rows[index(chunk.device)];
      for (const OpId id : chunk.kernels) {
        const auto op = static_cast<std::uint32_t>(index(id));
        const StepTables::Kernel& kernel = tables_.kernels[op];
        segment.after_bytes += kernel.output_bytes;
        segment.most_bytes = std::max(segment.most_bytes, segment.after_bytes);
        programs_.points.push_back({segment.ns, segment.after_bytes});
        segment.ns += row[op];
        segment.after_bytes -= kernel.unread_bytes + freed_[op];
        for (std::uint32_t b = kernel.first_owned; b < tables_.kernels[op + 1].first_owned; ++b)
          if (programs_.first_remote[b] != programs_.first_remote[b + 1]) programs_.sends.push_back(b);
        programs_.drops.insert(programs_.drops.end(), drops_of_[op].begin(), drops_of_[op].end());
        const bool ends =
            programs_.sends.size() > segment.first_send || programs_.drops.size() > segment.first_drop;
        if (!ends && id != chunk.kernels.back()) continue;
        segment.end_point = static_cast<std::uint32_t>(programs_.points.size());
        segment.end_send = static_cast<std::uint32_t>(programs_.sends.size());
        segment.end_drop = static_cast<std::uint32_t>(programs_.drops.size());
        programs_.segments.push_back(std::exchange(segment, opened()));
      }
    }
    programs_.first_segment.push_back(static_cast<std::uint32_t>(programs_.segments.size()));
  }
  /// A segment without kernels.
  ChunkPrograms::Segment opened() const {
    ChunkPrograms::Segment segment;
    segment.first_point = segment.end_point = static_cast<std::uint32_t>(programs_.points.size());
    segment.first_send = segment.end_send = static_cast<std::uint32_t>(programs_.sends.size());
    segment.first_drop = segment.end_drop = static_cast<std::uint32_t>(programs_.drops.size());
    return segment;
  }

  const std::vector<bool>& each_;
  const StepTables& tables_;
  const Chunks& chunks_;
  const std::span<const DeviceId> placement_;
  ChunkPrograms programs_;
  std::vector<std::vector<LastRead>> home_reads_;     // [buffers] Of whole tensors, by chunk.
  std::vector<std::vector<LastRead>> remote_reads_;   // [remotes] By chunk.
  std::vector<std::int64_t> freed_;                   // [ops] Bytes that end with the kernel.
  std::vector<std::vector<std::uint32_t>> drops_of_;  // [ops] Counters.
};

}  // namespace

ChunkPrograms chunk_programs(const MicroBatchGraph& graph, const StepTables& tables, const Chunks& chunks,
                             std::span<const DeviceId> placement) {
  return Programmer{graph, tables, chunks, placement}.run();
}

}  // namespace emplace
