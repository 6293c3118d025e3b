#pragma once
/// Boxes copied from inputs to outputs, and what lies around them filled.

#include <string_view>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/copy_loop.h"

namespace emplace::cpu {

/// Collects the parts of one kernel; the first that cannot be had is its error.
class MovementBuilder {
 public:
  explicit MovementBuilder(const Signature& signature);

  /// Input `input`'s elements, seen as `shape` in box `source`, to output `output`'s box `target`.
  /// Errors: dtypes that differ; too many dimensions.
  void copy(std::size_t input, std::size_t output, const std::vector<std::int64_t>& shape, const Box& source,
            const Box& target);
  /// All of output `output` but the box [begin, end).
  void fill_around(std::size_t output, const std::vector<std::int64_t>& begin,
                   const std::vector<std::int64_t>& end, double value);
  void fill(std::size_t output, double value);
  Result<std::unique_ptr<Kernel>> finish() &&;

 private:
  void fill_box(std::size_t output, const std::vector<std::int64_t>& shape, const Box& target, double value);
  void fail(std::string_view what);

  const Signature& signature_;
  std::unique_ptr<class MovementKernel> kernel_;
  std::optional<Error> error_;

 public:
  ~MovementBuilder();
};

std::vector<std::int64_t> packed_strides(const std::vector<std::int64_t>& shape);
std::int64_t count_of(const std::vector<std::int64_t>& shape);  ///< Elements.
/// Parts of the movement family in a file of their own: slices, pads and their backward.
std::span<const KernelEntry> box_kernels();
/// A dimension counted from the end if negative. Errors: kUnsupported if there is none such.
Result<std::size_t> dimension(const Signature& signature, std::int64_t dim, std::size_t rank);

}  // namespace emplace::cpu
