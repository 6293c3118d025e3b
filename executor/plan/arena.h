#pragma once
/// Offset allocator for device memory with a hard cap. It never touches the memory, so simulated and real
/// devices run the same code, and out of memory means the same on both.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace emplace {

/// Best fit over an address-ordered free list; adjacent free blocks are merged. Every call is O(log blocks).
/// Thread: one at a time.
class Arena {
 public:
  /// `cap` and `alignment` [B]; sizes are rounded up to the alignment. @pre alignment >= 1
  Arena(std::int64_t cap, std::int64_t alignment);

  /// Returns the offset of `bytes` bytes; nothing if no free block is large enough. 0 bytes take no memory.
  std::optional<std::int64_t> take(std::int64_t bytes);
  /// @pre `offset` is from take(`bytes`) and has not been released since.
  void give(std::int64_t offset, std::int64_t bytes);
  /// Releases everything and resets the peak.
  void clear();

  std::int64_t cap() const { return cap_; }
  std::int64_t used() const { return used_; }  ///< Bytes in use, rounding included.
  std::int64_t peak() const { return peak_; }  ///< Maximum of used() so far.
  std::int64_t largest_free() const;           ///< Size of the largest free block [B].

 private:
  std::int64_t rounded(std::int64_t bytes) const;
  void insert_free(std::int64_t offset, std::int64_t size);
  void erase_free(std::map<std::int64_t, std::int64_t>::iterator at);

  const std::int64_t cap_, alignment_;
  std::int64_t used_ = 0, peak_ = 0;
  std::map<std::int64_t, std::int64_t> free_;                // Offset → size.
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // (size, offset)
};

}  // namespace emplace
