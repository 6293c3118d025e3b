#pragma once
/// Events in the trace format of Perfetto and chrome://tracing.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace emplace::interop {

/// `text` as a quoted JSON string; invalid UTF-8 is replaced.
std::string json_text(std::string_view text);

/// Streams events to a file, compressed if its name ends in ".gz". Times are whole nanoseconds since the
/// start, written as microseconds. Slices must be ordered by start time. Thread: one.
class TraceWriter {
 public:
  /// Position of an event in the drawing.
  struct Track {
    std::size_t process = 0, track = 0;
  };

  explicit TraceWriter(const std::filesystem::path& path);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void name_process(std::size_t process, std::string_view name);
  void name_track(Track track, std::string_view name);
  /// `arguments`: the members of a JSON object without braces; may be empty.
  void slice(Track track, std::string_view name, std::string_view category, std::int64_t begin_ns,
             std::int64_t end_ns, std::string_view arguments);
  /// The value of a counter of a process from `at_ns` on.
  void counter(std::size_t process, std::string_view name, std::int64_t at_ns, std::int64_t value);
  /// Flow arrow from the slice around `at_ns` on one track to one on another track; `id` is small.
  void flow_start(Track track, std::uint64_t id, std::int64_t at_ns) { flow("s", track, id, at_ns); }
  void flow_ends(Track track, std::uint64_t id, std::int64_t at_ns) {
    flow("f\",\"bp\":\"e", track, id, at_ns);
  }
  /// Completes the file and makes it visible at its path. `metadata`: same form as `arguments`. Errors:
  /// kIo.
  Result<Unit> finish(std::string_view metadata = {});

 private:
  struct Packer;
  void flow(std::string_view phase, Track track, std::uint64_t id, std::int64_t at_ns);
  void event(std::string_view text);
  void write(std::string_view text);

  NewFile file_;
  std::unique_ptr<Packer> packer_;  // Null: uncompressed.
  bool first_ = true;
};

}  // namespace emplace::interop
