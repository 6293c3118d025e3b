#pragma once
/// The ways in which lower bounds are proven (docs/proofs/bounds.md), and their names in output.

#include <array>
#include <cstdint>

#include "base/settings.h"

namespace emplace {

enum class BoundProof : std::uint8_t {
  kNone,  ///< No bound is proven.
  // Proofs about the step time (lower_bound.h).
  kWork,    ///< Also of loads of splits.
  kPath,    ///< Also of the latency of splits.
  kMemory,  ///< Work with state limited by memory.
  kRoute,   ///< A path with transfers.
  kWindow,
  kWaiting,  ///< Work of a memory plan: also what runs again.
  // Proofs about splits alone (split_bound.h).
  kIdeals,
  kLargestClass,
};

constexpr auto enum_words(BoundProof) {
  return EnumWords{"bound",
                   std::array{EnumWord{BoundProof::kNone, "none"}, EnumWord{BoundProof::kWork, "total work"},
                              EnumWord{BoundProof::kPath, "critical path"},
                              EnumWord{BoundProof::kMemory, "total work within memory"},
                              EnumWord{BoundProof::kRoute, "critical path with transfers"},
                              EnumWord{BoundProof::kWindow, "work between head and tail"},
                              EnumWord{BoundProof::kWaiting, "total work with recomputation"},
                              EnumWord{BoundProof::kIdeals, "path over ideals"},
                              EnumWord{BoundProof::kLargestClass, "largest class"}}};
}

}  // namespace emplace
