#pragma once
/// Counts floating-point operations of XLA instructions from shapes; a multiply-add counts as two.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/formats/hlo/hlo_text.h"

namespace emplace {

/// Counts the work of a module's instructions. Thread: one. The text must outlive it.
///
/// - dot: 2 · outputs · contracted sizes
/// - convolution: 2 · pairs of input and kernel elements that meet, without padding and dilation holes, as
///   XLA counts
/// - custom calls that libraries of GPUs and CPUs run: products, convolutions and their gradients, fused
///   attention, factorisations; dimensions come from backend_config, dim_labels and window
/// - element-wise ops: the constants of the traced graphs
/// - reduction: its body once per input element
/// - fusion, call: the body; loop: body and condition times known_trip_count (1 if unknown); conditional: the
///   most expensive branch
/// - integer work and data movement: 0
/// Sums saturate at 2^60.
class HloWork {
 public:
  HloWork(const HloText& text, std::string_view where);

  struct Count {
    std::int64_t flops = 0;
    // Whether the instruction, or a body that it runs, is one; or has an opcode or a target without a rule.
    bool dot = false, convolution = false, unknown = false;
  };
  /// Errors (kInvalid, with the line): an unknown computation or operand, recursive computations.
  Result<Count> of(const HloComputation& in, const HloInstruction& one);

  std::size_t loops_once() const { return loops_once_; }  ///< Number of loops of unknown length.

 private:
  Result<Count> body(std::string_view name, std::size_t line);
  Result<Count> bodies(const HloInstruction& one);
  Result<std::optional<std::int64_t>> own(const HloComputation& in, const HloInstruction& one,
                                          std::int64_t applied);
  std::int64_t trips(const HloInstruction& one);
  Error fail(std::size_t line, std::string_view what) const;

  const HloText& text_;
  const std::string_view where_;
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  std::vector<State> states_;
  std::vector<Count> counts_;
  std::size_t loops_once_ = 0;
  int depth_ = 0;
};

}  // namespace emplace
