#pragma once
/// Floating-point operations of XLA instructions, from shapes; a multiply-add counts as two.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/formats/hlo/hlo_text.h"

namespace emplace {

/// Counts the work of a module's instructions. Thread: one. The text must outlive it.
///
/// A dot is 2 · outputs · contracted sizes; a convolution 2 · the pairs of input and kernel elements that
/// meet, padding and the holes of a dilation left out, as XLA counts them; element-wise ops have the
/// constants of the traced graphs; a reduction its body once per element that goes in. A fusion or a call is
/// its body, a loop its body and condition times known_trip_count (1 if it is not known), a conditional its
/// most expensive branch. Work on whole numbers, and movement, count nothing. Sums stop at 2^60.
class HloWork {
 public:
  HloWork(const HloText& text, std::string_view where);

  struct Count {
    std::int64_t flops = 0;
    bool dot = false, convolution = false;  ///< The instruction is one, or a body that it runs has one.
  };
  /// Errors (kInvalid, with the line): a computation or an operand that there is not, or computations that
  /// call themselves.
  Result<Count> of(const HloComputation& in, const HloInstruction& one);

  const std::set<std::string>& uncounted() const {
    return uncounted_;
  }                                                       ///< Targets of custom calls, unknown opcodes.
  std::size_t loops_once() const { return loops_once_; }  ///< Loops of unknown length.

 private:
  Result<Count> body(std::string_view name, std::size_t line);
  Result<Count> bodies(const HloInstruction& one);
  Result<std::int64_t> own(const HloComputation& in, const HloInstruction& one, std::int64_t applied);
  std::int64_t trips(const HloInstruction& one);
  Error fail(std::size_t line, std::string_view what) const;

  const HloText& text_;
  const std::string_view where_;
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  std::vector<State> states_;
  std::vector<Count> counts_;
  std::set<std::string> uncounted_;
  std::size_t loops_once_ = 0;
  int depth_ = 0;
};

}  // namespace emplace
