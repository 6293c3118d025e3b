#pragma once
/// Output that never blocks: a pager, a stopped terminal or a stopped launcher cannot stop the writer.

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "runtime/process/descriptor.h"

namespace emplace::process {

/// Writes texts to a descriptor without blocking and queues the rest: all notes in order, and only the newest
/// progress. A text is completed once it is partly written, so texts are never mixed. The queue is dropped if
/// the reader is gone or the file cannot grow. Thread: one.
class LineWriter {
 public:
  /// Capacity of the queue; beyond it the oldest notes are dropped and counted.
  static constexpr std::size_t kMaxNotes = 256;

  /// Writes to `fd`, which stays the caller's. Other users of its open file are not affected.
  explicit LineWriter(int fd);

  /// Queues progress; replaces queued progress.
  void show(std::string text);
  /// Queues a note; the oldest is dropped beyond kMaxNotes.
  void note(std::string text);
  /// Writes as much as possible without blocking.
  void flush();
  /// Writes the rest, waiting up to `most` for each piece. Returns false if something is left.
  bool finish(std::chrono::milliseconds most);
  bool pending() const { return !waiting_.empty(); }

 private:
  struct Text {
    std::string bytes;
    bool progress = false;
  };
  bool started(const Text& text) const { return written_ > 0 && &text == &waiting_.front(); }
  /// Returns true if bytes were written.
  bool write_some();

  enum class Kind : std::uint8_t {
    kNeverWaits,  ///< A non-blocking file of our own, or a regular file.
    kSocket,      ///< A socket: each send uses MSG_DONTWAIT.
    kAsked,       ///< Anything else: poll before each write, and write little.
  };
  Kind kind_ = Kind::kAsked;
  int fd_;
  Descriptor own_;
  std::deque<Text> waiting_;
  std::size_t written_ = 0;  // Bytes of the first text already written.
  std::uint64_t left_out_ = 0;
};

}  // namespace emplace::process
