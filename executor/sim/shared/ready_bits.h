#pragma once
/// Ready ops of a lane as bits.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emplace::simulated {

/// Ready ops of a lane, lowest id first: a bit set with two summary levels, for at most kMost ids.
class ReadyBits {
 public:
  static constexpr std::size_t kMost = std::size_t{64} * 64 * 64;
  explicit ReadyBits(std::size_t ids) : ops_(ids / 64 + 1, 0), words_(ids / 4096 + 1, 0) {}

  bool empty() const { return top_ == 0; }
  void insert(std::uint32_t id) {
    ops_[id >> 6] |= bit(id);
    words_[id >> 12] |= bit(id >> 6);
    top_ |= bit(id >> 12);
  }
  /// @pre !empty().
  std::uint32_t pop_min() {
    const std::uint32_t upper = lowest(top_);
    std::uint64_t& word = words_[upper];
    const std::uint32_t middle = upper << 6 | lowest(word);
    std::uint64_t& ops = ops_[middle];
    const std::uint32_t id = middle << 6 | lowest(ops);
    ops &= ops - 1;
    if (ops != 0) return id;
    word &= word - 1;
    if (word == 0) top_ &= top_ - 1;
    return id;
  }
  void clear() {
    while (top_ != 0) pop_min();
  }
  /// Appends the ids and returns their number.
  std::uint32_t append_to(std::vector<std::uint32_t>& ids) const {
    const std::size_t before = ids.size();
    for (std::uint64_t top = top_; top != 0; top &= top - 1) {
      const std::uint32_t upper = lowest(top);
      for (std::uint64_t word = words_[upper]; word != 0; word &= word - 1) {
        const std::uint32_t middle = upper << 6 | lowest(word);
        for (std::uint64_t ops = ops_[middle]; ops != 0; ops &= ops - 1)
          ids.push_back(middle << 6 | lowest(ops));
      }
    }
    return static_cast<std::uint32_t>(ids.size() - before);
  }

 private:
  static constexpr std::uint64_t bit(std::uint32_t id) { return std::uint64_t{1} << (id & 63); }
  static std::uint32_t lowest(std::uint64_t bits) {
    return static_cast<std::uint32_t>(std::countr_zero(bits));
  }

  std::vector<std::uint64_t> ops_, words_;
  std::uint64_t top_ = 0;
};

}  // namespace emplace::simulated
