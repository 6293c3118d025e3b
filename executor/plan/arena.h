#pragma once
/// Where tensors lie on a device: an allocator of offsets with a hard cap. It never touches the memory, so a
/// simulated device runs the same code as a real one, and out of memory means the same on both.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace emplace {

/// Best fit over an address-ordered free list; neighbours that are free become one. Every call is O(log
/// blocks). Thread: one at a time.
class Arena {
 public:
  /// `cap` and `alignment` [B]; sizes are rounded up to the alignment. @pre alignment >= 1
  Arena(std::int64_t cap, std::int64_t alignment);

  /// Offset of `bytes` bytes, or nothing if no free stretch is as large. Nothing is taken for 0 bytes.
  std::optional<std::int64_t> take(std::int64_t bytes);
  /// @pre `offset` came from take(`bytes`) and was not given back since.
  void give(std::int64_t offset, std::int64_t bytes);
  /// Everything is free again; the peak begins anew.
  void clear();

  std::int64_t cap() const { return cap_; }
  std::int64_t used() const { return used_; }  ///< [B] taken now, rounding included.
  std::int64_t peak() const { return peak_; }  ///< [B] the most that was taken at once.
  std::int64_t largest_free() const;           ///< [B] the largest take() that would succeed.

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
