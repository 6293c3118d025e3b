#pragma once
/// Chunked transfer of parameters, checkpoints and files. Pure state machines of the receiver; the bytes stay
/// with the caller.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/clock.h"

namespace emplace::runtime {

/// Byte range of a content.
struct Chunk {
  std::uint64_t offset = 0, size = 0;  ///< [bytes]
  bool operator==(const Chunk&) const = default;
};
/// Chunk that answers a request at `offset`: at most `most` bytes, none beyond `total`.
constexpr Chunk chunk_at(std::uint64_t offset, std::uint64_t total, std::uint64_t most) {
  offset = std::min(offset, total);
  return {offset, std::min(most, total - offset)};
}

/// Assembles chunks in order. `content` is a number that identifies a content; a chunk at offset 0 of another
/// content replaces the current one. Pure; one thread.
class Assembly {
 public:
  enum class Took : std::uint8_t {
    kFirst,   ///< Clear the content, then append the chunk.
    kNext,    ///< Append the chunk.
    kRepeat,  ///< Ignore: received before.
    kGap,     ///< Ignore: earlier bytes are missing, another content, or empty.
  };
  /// Continues a content of which `have` bytes are present.
  void resume(std::uint64_t content, std::uint64_t have) {
    content_ = content;
    have_ = have;
    total_.reset();
  }
  Took take(std::uint64_t content, Chunk chunk, std::uint64_t total) {
    if (content == content_ && chunk.offset < have_) return Took::kRepeat;
    if (chunk.offset == 0 || content != content_) resume(content, 0);
    if (chunk.offset != have_ || (chunk.size == 0 && have_ < total)) return Took::kGap;
    have_ += chunk.size;
    total_ = total;
    return chunk.offset == 0 ? Took::kFirst : Took::kNext;
  }
  std::uint64_t content() const { return content_; }
  std::uint64_t have() const { return have_; }  ///< [bytes]
  bool whole() const { return total_ && have_ >= *total_; }

 private:
  std::uint64_t content_ = 0, have_ = 0;
  std::optional<std::uint64_t> total_;
};

struct FetchOptions {
  std::uint64_t chunk = std::uint64_t{1} << 20;  ///< Largest size of a chunk [bytes].
  std::uint64_t window = 1;                      ///< Chunks in flight at once.
  Nanos timeout = std::chrono::seconds{1};       ///< Silence after which missing chunks are requested again.
};

/// Requests a content chunk by chunk, with retry after a timeout. Pure; one thread.
///   fetch.start(…); while (const auto offset = fetch.request(now)) send(*offset);
///   on a chunk: take() it, then request(); from a timer: if (fetch.timed_out(now)) request().
class Fetch {
 public:
  explicit Fetch(FetchOptions options) : options_{options} {}

  /// Starts or restarts. `have`: bytes already present; `total`: size, if known.
  void start(Nanos now, std::uint64_t content = 0, std::uint64_t have = 0,
             std::uint64_t total = std::numeric_limits<std::uint64_t>::max()) {
    assembly_.resume(content, have);
    requested_ = have;
    total_ = total;
    last_ = now;
    active_ = true;
  }
  void stop() { active_ = false; }
  bool active() const { return active_; }
  const Assembly& assembly() const { return assembly_; }

  /// Offset of the next request; empty while the window is full.
  std::optional<std::uint64_t> request(Nanos now) {
    const std::uint64_t room = options_.window * options_.chunk;
    if (!active_ || requested_ >= std::min(total_, assembly_.have() + room)) return std::nullopt;
    last_ = now;
    const std::uint64_t offset = requested_;
    requested_ += std::min(options_.chunk, total_ - requested_);
    return offset;
  }
  /// Takes a chunk. Becomes inactive when the content is complete.
  Assembly::Took take(std::uint64_t content, Chunk chunk, std::uint64_t total, Nanos now) {
    const bool is_new = content != assembly_.content();
    const Assembly::Took took = assembly_.take(content, chunk, total);
    if (took == Assembly::Took::kRepeat || took == Assembly::Took::kGap) return took;
    last_ = now;
    total_ = total;
    // Requests for another content, or beyond a short chunk, will not be answered.
    const bool starts_over = is_new || chunk.size < options_.chunk;
    requested_ = starts_over ? assembly_.have() : std::max(requested_, assembly_.have());
    if (assembly_.whole()) active_ = false;
    return took;
  }
  /// Returns true after a timeout: the caller requests the missing chunks again.
  bool timed_out(Nanos now) {
    if (!active_ || now - last_ < options_.timeout) return false;
    requested_ = assembly_.have();
    last_ = now;
    return true;
  }

 private:
  FetchOptions options_;
  Assembly assembly_;
  std::uint64_t requested_ = 0;  // Everything before this offset was requested [bytes].
  std::uint64_t total_ = std::numeric_limits<std::uint64_t>::max();
  Nanos last_{0};  // Time of the last request or chunk.
  bool active_ = false;
};

}  // namespace emplace::runtime
