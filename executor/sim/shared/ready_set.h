#pragma once
/// The ready ops of one device, lowest id first, for any number of ids.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "executor/sim/shared/ready_bits.h"

namespace emplace {

/// One bit set for every ReadyBits::kMost ids, which is one set for nearly every graph. Thread: one.
class ReadySet {
 public:
  explicit ReadySet(std::size_t ids) {
    for (std::size_t first = 0; first == 0 || first < ids; first += kMost)
      parts_.emplace_back(std::min(ids - first, kMost));
  }

  bool empty() const {
    return std::ranges::all_of(parts_, [](const simulated::ReadyBits& part) { return part.empty(); });
  }
  void insert(std::uint32_t id) { parts_[id / kMost].insert(id % kMost); }
  /// @pre !empty().
  std::uint32_t pop_min() {
    std::size_t part = 0;
    while (parts_[part].empty()) ++part;
    return static_cast<std::uint32_t>(part * kMost) + parts_[part].pop_min();
  }
  /// Appends all ids, lowest first.
  void append_to(std::vector<std::uint32_t>& ids) const {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const std::size_t first = ids.size();
      parts_[part].append_to(ids);
      for (std::size_t i = first; i < ids.size(); ++i) ids[i] += static_cast<std::uint32_t>(part * kMost);
    }
  }
  void clear() {
    for (simulated::ReadyBits& part : parts_) part.clear();
  }

 private:
  static constexpr std::size_t kMost = simulated::ReadyBits::kMost;
  std::vector<simulated::ReadyBits> parts_;
};

}  // namespace emplace
