#pragma once
/// Transfers in pieces: parameters, checkpoints, files. Pure state machines of the receiving side; the bytes
/// themselves stay with the caller.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/clock.h"

namespace emplace::runtime {

/// A range of bytes of the whole.
struct Piece {
  std::uint64_t offset = 0, size = 0;  ///< [bytes]
  bool operator==(const Piece&) const = default;
};
/// What a sender answers to a request from `offset` on: at most `most` bytes, none beyond `total`.
constexpr Piece piece_at(std::uint64_t offset, std::uint64_t total, std::uint64_t most) {
  offset = std::min(offset, total);
  return {offset, std::min(most, total - offset)};
}

/// Puts pieces together in their order. A piece names the content that it is of, by any number that differs
/// between contents; a piece at offset 0 of another content replaces what is there. Pure; one thread.
class Assembly {
 public:
  enum class Took : std::uint8_t {
    kFirst,   ///< Clear what is there, then append the piece.
    kNext,    ///< Append the piece.
    kRepeat,  ///< It came before: ignore it.
    kGap,     ///< Something before it is missing, or it is of another content, or empty: ignore it.
  };
  /// Continues a content of which `have` bytes are there.
  void resume(std::uint64_t content, std::uint64_t have) {
    content_ = content;
    have_ = have;
    total_.reset();
  }
  Took take(std::uint64_t content, Piece piece, std::uint64_t total) {
    if (content == content_ && piece.offset < have_) return Took::kRepeat;
    if (piece.offset == 0 || content != content_) resume(content, 0);
    if (piece.offset != have_ || (piece.size == 0 && have_ < total)) return Took::kGap;
    have_ += piece.size;
    total_ = total;
    return piece.offset == 0 ? Took::kFirst : Took::kNext;
  }
  std::uint64_t content() const { return content_; }
  std::uint64_t have() const { return have_; }  ///< [bytes]
  bool whole() const { return total_ && have_ >= *total_; }

 private:
  std::uint64_t content_ = 0, have_ = 0;
  std::optional<std::uint64_t> total_;
};

struct FetchOptions {
  std::uint64_t piece = std::uint64_t{1} << 20;  ///< [bytes] The most that a sender puts into one piece.
  std::uint64_t window = 1;                      ///< Pieces that may be on their way at once.
  Nanos timeout = std::chrono::seconds{1};       ///< Silence after which missing pieces are requested again.
};

/// Requests a content piece by piece and again after a timeout. Pure; one thread.
///   fetch.start(…); while (const auto offset = fetch.request(now)) send(*offset);
///   on a piece: take() it, then request again; from a timer: if (fetch.timed_out(now)) request again.
class Fetch {
 public:
  explicit Fetch(FetchOptions options) : options_{options} {}

  /// Starts, or starts over. `have`: bytes that are there already; `total`: if it is known.
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

  /// The offset of the next request that the window has room for.
  std::optional<std::uint64_t> request(Nanos now) {
    const std::uint64_t room = options_.window * options_.piece;
    if (!active_ || requested_ >= std::min(total_, assembly_.have() + room)) return std::nullopt;
    last_ = now;
    const std::uint64_t offset = requested_;
    requested_ += std::min(options_.piece, total_ - requested_);
    return offset;
  }
  /// A piece came. Stops when the content is whole.
  Assembly::Took take(std::uint64_t content, Piece piece, std::uint64_t total, Nanos now) {
    const bool is_new = content != assembly_.content();
    const Assembly::Took took = assembly_.take(content, piece, total);
    if (took == Assembly::Took::kRepeat || took == Assembly::Took::kGap) return took;
    last_ = now;
    total_ = total;
    // What was requested of another content, or beyond a piece that is smaller than usual, does not arrive.
    const bool starts_over = is_new || piece.size < options_.piece;
    requested_ = starts_over ? assembly_.have() : std::max(requested_, assembly_.have());
    if (assembly_.whole()) active_ = false;
    return took;
  }
  /// True if nothing came for the timeout: what is missing is to be requested again.
  bool timed_out(Nanos now) {
    if (!active_ || now - last_ < options_.timeout) return false;
    requested_ = assembly_.have();
    last_ = now;
    return true;
  }

 private:
  FetchOptions options_;
  Assembly assembly_;
  std::uint64_t requested_ = 0;  // [bytes] Everything before it was requested.
  std::uint64_t total_ = std::numeric_limits<std::uint64_t>::max();
  Nanos last_{0};  // Time of the last request or piece.
  bool active_ = false;
};

}  // namespace emplace::runtime
