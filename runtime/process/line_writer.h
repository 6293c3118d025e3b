#pragma once
/// Output that never waits for its reader: a pager, a stopped terminal or a stopped launcher stops nobody.

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "runtime/process/descriptor.h"

namespace emplace::process {

/// Writes texts to a descriptor as far as it takes them. What it does not take is kept: notes in order, of
/// progress only the newest. A text that was begun is completed, so texts are never mixed. Nothing is kept
/// for a reader that is gone, or for a file that cannot grow. Thread: one.
class LineWriter {
 public:
  static constexpr std::size_t kMostNotes =
      256;  ///< That wait; of more the oldest are left out, and their number is written.

  /// Uses `fd`, which stays the caller's. Whoever else has its file open notices nothing.
  explicit LineWriter(int fd);

  /// Progress: it replaces the progress that waits.
  void show(std::string text);
  /// A note: it is written, unless more than kMostNotes wait.
  void say(std::string text);
  /// Writes what fits now.
  void flush();
  /// Writes the rest, and waits while the reader goes on taking it, for each piece at most so long. False:
  /// something is left.
  bool finish(std::chrono::milliseconds most);
  bool pending() const { return !waiting_.empty(); }

 private:
  struct Text {
    std::string bytes;
    bool progress = false;
  };
  bool begun(const Text& text) const { return written_ > 0 && &text == &waiting_.front(); }
  /// True if some of it was written.
  bool write_some();

  enum class Kind : std::uint8_t {
    kNeverWaits,  ///< A file of ours that does not block, or a regular file.
    kSocket,      ///< Each send says that it shall not block.
    kAsked,       ///< Asked before each write, which is then small.
  };
  Kind kind_ = Kind::kAsked;
  int fd_;
  Descriptor own_;
  std::deque<Text> waiting_;
  std::size_t written_ = 0;  // Of the first.
  std::uint64_t left_out_ = 0;
};

}  // namespace emplace::process
