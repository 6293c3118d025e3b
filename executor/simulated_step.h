#pragma once
/// What a simulated step is made of: devices' lanes with their queues, the packed lowering, and snapshots to
/// begin again from. Plain data of one simulator's thread.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "executor/ready_set.h"
#include "placement/device.h"

namespace emplace::simulated {

inline constexpr std::int64_t kIdle = std::numeric_limits<std::int64_t>::max();

/// A transfer in an engine's queue: one buffer to one device.
struct Copy {
  std::uint32_t buffer;
  std::uint32_t target;
};

/// First in, first out, without giving memory back: an engine's copies, or a device's ready ops in FIFO
/// order.
template <class T>
class Queue {
 public:
  bool empty() const { return head_ == items_.size(); }
  void push(T item) { items_.push_back(item); }
  T pop() {
    const T item = items_[head_++];
    if (empty()) clear();
    return item;
  }
  void clear() { items_.clear(), head_ = 0; }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
};

/// What a device is doing.
struct Lane {
  std::uint32_t op = 0;
  Copy copy{};
  std::int64_t used_bytes = 0, peak_bytes = 0;
  std::int64_t busy_ns = 0;
  Queue<Copy> copies;
  Queue<std::uint32_t> fifo;
  ReadySet ready;

  explicit Lane(std::size_t ids) : ready{ids} {}
  void take(std::int64_t bytes) {
    used_bytes += bytes;
    peak_bytes = std::max(peak_bytes, used_bytes);
  }
};

/// The lowering once more, packed so that an event touches few cache lines.
struct Buffer {
  std::int64_t bytes;       // Of a transfer.
  std::int64_t held_bytes;  // Of the whole tensor, given back with its last reference.
  std::uint32_t owner, base;
  std::uint32_t first_reader;
  bool resident;
};
struct Kernel {
  std::int64_t output_bytes, unread_bytes;
  std::uint32_t first_read, first_owned;
};

/// Devices that may have something to start.
class AwakeSet {
 public:
  void wake(std::size_t d) { words_[d >> 6] |= std::uint64_t{1} << (d & 63); }
  template <class Visit>
  void drain(Visit visit) {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t bits = std::exchange(words_[w], 0); bits != 0; bits &= bits - 1) {
        visit(static_cast<std::uint32_t>(w << 6 | static_cast<std::size_t>(std::countr_zero(bits))));
      }
    }
  }

 private:
  std::array<std::uint64_t, kMaxDevices / 64> words_{};
};

/// A read of state by a kernel, in issue order: the only reads that a step starts with.
struct StateRead {
  std::uint32_t op, buffer;
};

/// A step at the moment when everything that could start has started.
struct Snapshot {
  std::size_t started = 0;  ///< Kernels; 0: none was taken.
  std::int64_t now_ns = 0, bytes_moved = 0;
  std::vector<Lane> lanes;  ///< Their bytes without what is resident.
  std::vector<std::int64_t> ends;
  std::vector<std::uint32_t> waits, references, copy_references;
};

}  // namespace emplace::simulated
