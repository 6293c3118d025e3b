#pragma once
/// Copies boxes from inputs to outputs, and fills the space around them.

#include <optional>
#include <vector>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/copy_loop.h"

namespace emplace::cpu {

/// Collects the parts of a kernel; the first error is its result. `signature` must outlive it.
class Movement {
 public:
  explicit Movement(const Signature& signature) : signature_{signature} {}

  /// Copies input `input`, viewed as `shape` in box `source`, to box `target` of output `output`. Errors:
  /// different dtypes; too many dimensions.
  Movement& copy(std::size_t input, std::size_t output, const std::vector<std::int64_t>& shape,
                 const Box& source, const Box& target);
  /// Fills output `output` outside the box [begin, end).
  Movement& fill_around(std::size_t output, const std::vector<std::int64_t>& begin,
                        const std::vector<std::int64_t>& end, double value);
  Movement& fill(std::size_t output, double value);
  Made kernel();

 private:
  struct Copy {
    std::size_t input, output;
    CopyLoop loop;
  };
  struct Fill {
    std::size_t output;
    FillLoop loop;
  };
  void fill_box(std::size_t output, const std::vector<std::int64_t>& shape, const Box& target, double value);
  void fail(Error error);

  const Signature& signature_;
  std::vector<Copy> copies_;
  std::vector<Fill> fills_;
  std::optional<Error> error_;
};

/// A dimension; negative values count from the end. Errors: kUnsupported if out of range.
Result<std::size_t> dimension(const Signature& signature, std::int64_t dim, std::size_t rank);

}  // namespace emplace::cpu
