#pragma once
/// Copies boxes from inputs to outputs, and fills the space around them.

#include <string_view>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/copy_loop.h"

namespace emplace::cpu {

/// Collects the parts of a kernel; the first error is its result.
class MovementBuilder {
 public:
  explicit MovementBuilder(const Signature& signature);

  /// Copies input `input`, viewed as `shape` in box `source`, to box `target` of output `output`. Errors:
  /// different dtypes; too many dimensions.
  void copy(std::size_t input, std::size_t output, const std::vector<std::int64_t>& shape, const Box& source,
            const Box& target);
  /// Fills output `output` outside the box [begin, end).
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
std::int64_t count_of(const std::vector<std::int64_t>& shape);  ///< Number of elements.
/// Slices, pads and their backward: movement kernels in a separate file.
std::span<const KernelEntry> box_kernels();
/// A dimension; negative values count from the end. Errors: kUnsupported if out of range.
Result<std::size_t> dimension(const Signature& signature, std::int64_t dim, std::size_t rank);

}  // namespace emplace::cpu
