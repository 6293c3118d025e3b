#pragma once
/// The ready ops of one device, lowest id first: a bitset with summary levels.

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace emplace {

/// insert() and pop_min() cost one word access per level (three levels reach 262,144 ids). Thread: one.
class ReadySet {
 public:
  explicit ReadySet(std::size_t ids) {
    for (std::size_t words = (ids + 63) / 64;; words = (words + 63) / 64) {
      levels_.emplace_back(words, 0);
      if (words <= 1) break;
    }
  }

  bool empty() const { return levels_.back()[0] == 0; }

  void insert(std::uint32_t id) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[id >> 6];
      const bool summarised = word != 0;
      word |= std::uint64_t{1} << (id & 63);
      if (summarised) return;
      id >>= 6;
    }
  }

  /// @pre !empty().
  std::uint32_t pop_min() {
    std::size_t at = 0;
    for (std::size_t l = levels_.size(); l-- > 0;) {
      at = at << 6 | static_cast<std::size_t>(std::countr_zero(levels_[l][at]));
    }
    const auto id = static_cast<std::uint32_t>(at);
    for (auto& level : levels_) {
      std::uint64_t& word = level[at >> 6];
      word &= ~(std::uint64_t{1} << (at & 63));
      if (word != 0) break;
      at >>= 6;
    }
    return id;
  }

  /// Appends all ids, lowest first.
  void append_to(std::vector<std::uint32_t>& ids) const { append_to(ids, levels_.size() - 1, 0); }

  void clear() {
    while (!empty()) pop_min();
  }

 private:
  void append_to(std::vector<std::uint32_t>& ids, std::size_t l, std::size_t at) const {
    for (std::uint64_t bits = levels_[l][at]; bits != 0; bits &= bits - 1) {
      const std::size_t below = at << 6 | static_cast<std::size_t>(std::countr_zero(bits));
      if (l == 0) {
        ids.push_back(static_cast<std::uint32_t>(below));
      } else {
        append_to(ids, l - 1, below);
      }
    }
  }

  // Finest first; a bit of a level is set if its word one level below is not 0.
  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace emplace
