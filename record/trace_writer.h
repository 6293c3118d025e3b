#pragma once
/// Events of a trace, as Perfetto and chrome://tracing read them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace emplace::record {

/// `text` as JSON has it, in quotes; bytes that are not UTF-8 are mended.
std::string json_text(std::string_view text);

/// Writes events to a file as they come, packed if its name ends in ".gz". Times are whole nanoseconds since
/// the beginning; in the file they are microseconds. Slices come in the order of their begins. Thread: one.
class TraceWriter {
 public:
  /// Where an event is drawn.
  struct Track {
    std::size_t process = 0, track = 0;
  };

  explicit TraceWriter(const std::filesystem::path& path);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void name_process(std::size_t process, std::string_view name);
  void name_track(Track track, std::string_view name);
  /// `arguments`: what a JSON object holds, without its braces; may be empty.
  void slice(Track track, std::string_view name, std::string_view category, std::int64_t begin_ns,
             std::int64_t end_ns, std::string_view arguments);
  /// An arrow from the slice around `at_ns` on one track to that on another; `id` is small.
  void flow_begins(Track track, std::uint64_t id, std::int64_t at_ns) { flow("s", track, id, at_ns); }
  void flow_ends(Track track, std::uint64_t id, std::int64_t at_ns) {
    flow("f\",\"bp\":\"e", track, id, at_ns);
  }
  /// The file appears. `metadata`: as `arguments`. Errors: kIo.
  Result<Unit> finish(std::string_view metadata = {});

 private:
  struct Packer;
  void flow(std::string_view phase, Track track, std::uint64_t id, std::int64_t at_ns);
  void event(std::string_view text);
  void write(std::string_view text);

  NewFile file_;
  std::unique_ptr<Packer> packer_;  // Null: as it is.
  bool first_ = true;
};

}  // namespace emplace::record
