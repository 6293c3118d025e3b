#pragma once
/// What the actors of one loop did and when, in a file of fixed size that the loop writes as memory: what was
/// noted stays when the process is killed. docs/guide/tracing.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "messages/envelope.h"

namespace emplace::runtime {

/// What an actor was busy with. Numbers are those of the file.
enum class TraceKind : std::uint8_t {
  kMessage = 1,    ///< A handler of a message.
  kTimer = 2,      ///< The callback of a timer.
  kStart = 3,      ///< on_start, the making of the actor included.
  kStop = 4,       ///< on_stop.
  kDirectory = 5,  ///< on_directory.
  kPhase = 6,      ///< What it said itself (Context::phase).
};

/// One thing that was done; as it lies in the file. Times are the machine's monotonic clock.
struct TraceRecord {
  std::int64_t begin_ns = 0, end_ns = 0;
  messages::ActorId actor = messages::kNobody;
  messages::ActorId from = messages::kNobody;  ///< Of a message.
  std::int64_t sent_ns = 0;                    ///< By its sender's clock; 0: not known.
  std::array<char, 16> name{};                 ///< Of a phase, cut off; the rest is zero.
  std::uint16_t type = 0;                      ///< Of a message.
  TraceKind kind = TraceKind::kMessage;
  std::array<std::uint8_t, 5> reserved{};
};
static_assert(sizeof(TraceRecord) == 64, "a line of the cache");

/// Thread: the loop's.
class TraceRing {
 public:
  static constexpr std::size_t kMostRecords = std::size_t{1} << 17;

  /// Makes the file `folder`/NODE.NUMBER.PID.ring, all its space taken at once: a disk that gets full later
  /// does not matter. Once `records` are in it, the oldest are overwritten. Errors: kIo.
  static Result<std::unique_ptr<TraceRing>> make(const std::filesystem::path& folder, const std::string& node,
                                                 std::size_t number, const std::vector<std::string>& actors,
                                                 std::size_t records, const Clock& clock);
  ~TraceRing();
  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;

  void add(const TraceRecord& record);

 private:
  struct Header;
  TraceRing(void* memory, std::size_t bytes, TraceRecord* records, std::size_t capacity)
      : memory_{memory}, bytes_{bytes}, records_{records}, capacity_{capacity} {}

  void* const memory_;
  const std::size_t bytes_;
  TraceRecord* const records_;
  const std::size_t capacity_;
  std::uint64_t written_ = 0;
  friend Result<struct TracePart> read_trace_part(const std::filesystem::path& path);
};

/// A ring as it was left.
struct TracePart {
  std::string node;
  std::vector<std::string> actors;
  std::string boot;                  ///< Of the machine: of one boot all processes share the monotonic clock.
  std::int64_t wall_ns = 0;          ///< The wall clock when the monotonic one
  std::int64_t monotonic_ns = 0;     ///< was this.
  std::vector<TraceRecord> records;  ///< Oldest first, by their ends.
  std::uint64_t overwritten = 0;     ///< Older ones that are gone.
};

/// Errors: kIo; kInvalid if it is no ring.
Result<TracePart> read_trace_part(const std::filesystem::path& path);

}  // namespace emplace::runtime
