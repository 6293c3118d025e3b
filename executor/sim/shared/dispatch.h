#pragma once
/// Which of the ready ops of a device runs next.

#include <array>
#include <cstdint>

#include "base/settings.h"

namespace emplace {

/// Order in which the ready ops of a device run.
enum class Dispatch : std::uint8_t {
  /// Lowest id first: the issue order of the framework. It determines memory use, so it is the default.
  kProgram,
  kFifo,  ///< First ready, first run.
};
constexpr auto enum_words(Dispatch) {
  return EnumWords{"dispatch",
                   std::array{EnumWord{Dispatch::kProgram, "program"}, EnumWord{Dispatch::kFifo, "fifo"}}};
}

}  // namespace emplace
