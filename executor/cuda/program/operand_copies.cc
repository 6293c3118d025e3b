#include "executor/cuda/program/operand_copies.h"

#include <algorithm>

#include "base/check.h"

namespace emplace::cuda {

OperandCopies::OperandCopies(const StepProgram& program, const Instruction& instruction,
                             std::span<std::byte> room, std::size_t most)
    : room_{room.data()} {
  EMPLACE_CHECK(instruction.kind == Instruction::Kind::kKernel && instruction.num_calls == 1,
                "only a kernel without packed inputs is repeated");
  const Call& call = program.calls(instruction)[0];
  const Pointers of = program.pointers(call);
  for (const MemoryUse& use : program.uses(instruction))
    add(static_cast<const std::byte*>(use.begin), use.bytes, use.written, false);
  const std::size_t scratch = add(of.scratch, call.kernel->scratch_bytes(), true, true);
  size_ = std::min(most, room.size() / std::max<std::size_t>(bytes_each_, 1));
  num_inputs_ = of.inputs.size(), num_outputs_ = of.outputs.size();
  for (std::size_t number = 0; number < size_; ++number) {
    for (const std::byte* const input : of.inputs) inputs_.push_back(moved(input, number));
    for (std::byte* const output : of.outputs)
      outputs_.push_back(const_cast<std::byte*>(moved(output, number)));
    scratch_.push_back(memory(ranges_[scratch], number));
  }
}

/// Returns the index of the range. An operand that is read twice, or updated in place, has one.
std::size_t OperandCopies::add(const std::byte* original, std::size_t bytes, bool written, bool scratch) {
  const auto rounded = [](std::size_t size) {
    constexpr auto kStep = static_cast<std::size_t>(LogicalDevice::kAlignment);
    return (size + kStep - 1) / kStep * kStep;
  };
  const auto known = std::ranges::find_if(
      ranges_, [&](const Range& range) { return range.original == original && range.bytes == bytes; });
  if (known != ranges_.end() && !scratch) {
    known->written = known->written || written;
    return static_cast<std::size_t>(known - ranges_.begin());
  }
  ranges_.push_back({original, bytes, bytes_each_, written, scratch});
  bytes_each_ += rounded(bytes);
  return ranges_.size() - 1;
}

const std::byte* OperandCopies::moved(const std::byte* original, std::size_t number) const {
  for (const Range& range : ranges_)
    if (!range.scratch && original >= range.original && original < range.original + range.bytes)
      return memory(range, number) + (original - range.original);
  return original;
}

Pointers OperandCopies::pointers(std::size_t number) const {
  return {std::span{inputs_}.subspan(number * num_inputs_, num_inputs_),
          std::span{outputs_}.subspan(number * num_outputs_, num_outputs_), scratch_[number]};
}

std::vector<MemoryUse> OperandCopies::uses(std::size_t number) const {
  std::vector<MemoryUse> uses;
  for (const Range& range : ranges_)
    if (range.bytes > 0) uses.push_back({memory(range, number), range.bytes, range.written});
  return uses;
}

}  // namespace emplace::cuda
