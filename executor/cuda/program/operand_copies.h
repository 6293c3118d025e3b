#pragma once
/// Copies of what a kernel reads and writes, so that each call of a row finds its operands in memory and not
/// in the L2 cache.

#include <cstddef>
#include <span>
#include <vector>

#include "executor/cuda/program/step_program.h"

namespace emplace::cuda {

/// Copies of the operands of one instruction, each with its own scratch. Immutable after construction. Any
/// thread.
class OperandCopies {
 public:
  /// As many copies as fit into `room`, at most `most`, without a call to CUDA. @pre `instruction` is a
  /// kernel with a single call
  OperandCopies(const StepProgram& program, const Instruction& instruction, std::span<std::byte> room,
                std::size_t most);

  std::size_t size() const { return size_; }
  /// Arguments of the call on copy `number`; valid as long as this object.
  Pointers pointers(std::size_t number) const;
  /// Memory that the call on copy `number` uses, for observers.
  std::vector<MemoryUse> uses(std::size_t number) const;

  /// A range that every copy has at the same offset.
  struct Range {
    const std::byte* original = nullptr;
    std::size_t bytes = 0;
    std::size_t offset = 0;  ///< From the start of a copy [B].
    bool written = false;
    bool scratch = false;  ///< Its bytes need not be copied.
  };
  std::span<const Range> ranges() const { return ranges_; }
  std::byte* memory(const Range& range, std::size_t number) const {
    return room_ + number * bytes_each_ + range.offset;
  }

 private:
  std::size_t add(const std::byte* original, std::size_t bytes, bool written, bool scratch);
  /// The address in copy `number` of what is at `original`; `original` itself if no range has it.
  const std::byte* moved(const std::byte* original, std::size_t number) const;

  std::byte* const room_;
  std::vector<Range> ranges_;
  std::size_t bytes_each_ = 0, size_ = 0;
  std::size_t num_inputs_ = 0, num_outputs_ = 0;
  std::vector<const std::byte*> inputs_;  // [copies, inputs]
  std::vector<std::byte*> outputs_;       // [copies, outputs]
  std::vector<std::byte*> scratch_;       // [copies]
};

}  // namespace emplace::cuda
