#include "executor/cpu/kernels/movement/movement_kernel.h"

#include <fmt/core.h>

#include <numeric>
#include <string>

#include "executor/kernel/attributes.h"

namespace emplace::cpu {

class MovementKernel final : public Kernel {
 public:
  struct Copy {
    std::size_t input, output;
    CopyLoop loop;
  };
  struct Fill {
    std::size_t output;
    FillLoop loop;
  };

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* /*scratch*/) const override {
    for (const Fill& part : fills) part.loop.run(outputs[part.output]);
    for (const Copy& part : copies) part.loop.run(outputs[part.output], inputs[part.input]);
  }

  std::vector<Copy> copies;
  std::vector<Fill> fills;
};

MovementBuilder::MovementBuilder(const Signature& signature)
    : signature_{signature}, kernel_{std::make_unique<MovementKernel>()} {}
MovementBuilder::~MovementBuilder() = default;

void MovementBuilder::fail(std::string_view what) {
  if (!error_) error_ = unsupported(signature_, what);
}

void MovementBuilder::copy(std::size_t input, std::size_t output, const std::vector<std::int64_t>& shape,
                           const Box& source, const Box& target) {
  const DType dtype = signature_.outputs[output].dtype;
  if (signature_.inputs[input].dtype != dtype) {
    return fail("cannot convert from " + std::string{dtype_name(signature_.inputs[input].dtype)} + " to " +
                std::string{dtype_name(dtype)});
  }
  if (count_of(shape) == 0) return;
  auto loop = CopyLoop::make(shape, target, source, element_bytes(dtype));
  if (!loop) return fail("more than 8 dimensions remain after merging");
  kernel_->copies.push_back({input, output, *loop});
}

void MovementBuilder::fill_box(std::size_t output, const std::vector<std::int64_t>& shape, const Box& target,
                               double value) {
  const DType dtype = signature_.outputs[output].dtype;
  if (value != 0 && (dtype == DType::kF16 || dtype == DType::kBF16)) {
    return fail("only 0 is supported as a fill value in " + std::string{dtype_name(dtype)});
  }
  auto loop = FillLoop::make(shape, target, element_bytes(dtype), scalar_bits(dtype, value));
  if (!loop) return fail("more than 8 dimensions remain after merging");
  kernel_->fills.push_back({output, *loop});
}

void MovementBuilder::fill(std::size_t output, double value) {
  const Operand& out = signature_.outputs[output];
  fill_box(output, {out.elements()}, {{1}, 0}, value);
}

void MovementBuilder::fill_around(std::size_t output, const std::vector<std::int64_t>& begin,
                                  const std::vector<std::int64_t>& end, double value) {
  // The regions before and after the box in each dimension, within the box in the preceding dimensions.
  std::vector<std::int64_t> shape = signature_.outputs[output].shape;
  const std::vector<std::int64_t> strides = packed_strides(shape);
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t all = shape[d];
    shape[d] = begin[d];
    if (count_of(shape) > 0) fill_box(output, shape, {strides, offset}, value);
    shape[d] = all - end[d];
    if (count_of(shape) > 0) fill_box(output, shape, {strides, offset + end[d] * strides[d]}, value);
    shape[d] = end[d] - begin[d];
    offset += begin[d] * strides[d];
  }
}

Result<std::unique_ptr<Kernel>> MovementBuilder::finish() && {
  if (error_) return *error_;
  return std::unique_ptr<Kernel>{std::move(kernel_)};
}

std::vector<std::int64_t> packed_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t next = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = next;
    next *= shape[d];
  }
  return strides;
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies{});
}

Result<std::size_t> dimension(const Signature& signature, std::int64_t dim, std::size_t rank) {
  const std::int64_t at = dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim;
  if (at >= 0 && at < static_cast<std::int64_t>(rank)) return static_cast<std::size_t>(at);
  return unsupported(signature, fmt::format("dimension {} is out of range for {} dimensions", dim, rank));
}

}  // namespace emplace::cpu
