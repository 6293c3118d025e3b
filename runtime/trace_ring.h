#pragma once
/// Trace of the actors of one loop: what they did and when, in a memory-mapped file of fixed size. Records
/// survive a kill of the process. See docs/guide/tracing.md.

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

/// Kind of activity. The numbers are those of the file.
enum class TraceKind : std::uint8_t {
  kMessage = 1,    ///< Handler of a message.
  kTimer = 2,      ///< Callback of a timer.
  kStart = 3,      ///< on_start, including construction of the actor.
  kStop = 4,       ///< on_stop.
  kDirectory = 5,  ///< on_directory.
  kPhase = 6,      ///< Phase reported by the actor (Context::phase).
};

/// One activity, in the layout of the file. Times are of the machine's monotonic clock.
struct TraceRecord {
  std::int64_t begin_ns = 0, end_ns = 0;
  messages::ActorId actor = messages::kNoActor;
  messages::ActorId from = messages::kNoActor;  ///< Sender; messages only.
  std::int64_t sent_ns = 0;                     ///< Send time by the sender's clock; 0: unknown.
  std::array<char, 16> name{};                  ///< Name of a phase, truncated and zero-padded.
  std::uint16_t type = 0;                       ///< Message type; messages only.
  TraceKind kind = TraceKind::kMessage;
  std::array<std::uint8_t, 5> reserved{};
};
static_assert(sizeof(TraceRecord) == 64, "must fill one cache line");

/// Thread: the loop's.
class TraceRing {
 public:
  static constexpr std::size_t kMaxRecords = std::size_t{1} << 17;

  /// Creates `folder`/NODE.NUMBER.PID.ring and allocates all its space, so that a full disk cannot break it
  /// later. After `records` records the oldest are overwritten. Errors: kIo.
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

/// Contents of a ring file.
struct TracePart {
  std::string node;
  std::vector<std::string> actors;
  std::string boot;          ///< Boot id of the machine; processes of one boot share the monotonic clock.
  std::int64_t wall_ns = 0;  ///< Wall clock at the time of `monotonic_ns`.
  std::int64_t monotonic_ns = 0;     ///< Monotonic clock at the time of `wall_ns`.
  std::vector<TraceRecord> records;  ///< Records, oldest end first.
  std::uint64_t overwritten = 0;     ///< Number of older records that were overwritten.
};

/// Reads a ring file. Errors: kIo; kInvalid if it is not a ring.
Result<TracePart> read_trace_part(const std::filesystem::path& path);

}  // namespace emplace::runtime
