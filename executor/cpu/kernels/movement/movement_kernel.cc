#include "executor/cpu/kernels/movement/movement_kernel.h"

#include <fmt/core.h>

#include <string>
#include <utility>

namespace emplace::cpu {

void Movement::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

Movement& Movement::copy(std::size_t input, std::size_t output, const std::vector<std::int64_t>& shape,
                         const Box& source, const Box& target) {
  const DType from = signature_.inputs[input].dtype, to = signature_.outputs[output].dtype;
  if (from != to) {
    fail(unsupported(signature_,
                     fmt::format("cannot convert from {} to {}", dtype_name(from), dtype_name(to))));
  } else if (count_of(shape) > 0) {
    auto loop = CopyLoop::make(signature_, shape, target, source, element_bytes(to));
    loop ? copies_.push_back({input, output, *std::move(loop)}) : fail(loop.error());
  }
  return *this;
}

void Movement::fill_box(std::size_t output, const std::vector<std::int64_t>& shape, const Box& target,
                        double value) {
  if (count_of(shape) == 0) return;
  const DType dtype = signature_.outputs[output].dtype;
  if (value != 0 && (dtype == DType::kF16 || dtype == DType::kBF16))
    return fail(
        unsupported(signature_, "only 0 is supported as a fill value in " + std::string{dtype_name(dtype)}));
  auto loop = FillLoop::make(signature_, shape, target, element_bytes(dtype), scalar_bits(dtype, value));
  loop ? fills_.push_back({output, *std::move(loop)}) : fail(loop.error());
}

Movement& Movement::fill(std::size_t output, double value) {
  fill_box(output, {signature_.outputs[output].elements()}, {{1}, 0}, value);
  return *this;
}

Movement& Movement::fill_around(std::size_t output, const std::vector<std::int64_t>& begin,
                                const std::vector<std::int64_t>& end, double value) {
  // The regions before and after the box in each dimension, within the box in the preceding dimensions.
  std::vector<std::int64_t> shape = signature_.outputs[output].shape;
  const std::vector<std::int64_t> strides = packed_strides(shape);
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t all = shape[d];
    shape[d] = begin[d];
    fill_box(output, shape, {strides, offset}, value);
    shape[d] = all - end[d];
    fill_box(output, shape, {strides, offset + end[d] * strides[d]}, value);
    shape[d] = end[d] - begin[d];
    offset += begin[d] * strides[d];
  }
  return *this;
}

Made Movement::kernel() {
  if (error_) return *error_;
  return kernel_of([copies = std::move(copies_), fills = std::move(fills_)](const Pointers& memory) {
    for (const Fill& part : fills) part.loop.run(memory.outputs[part.output]);
    for (const Copy& part : copies) part.loop.run(memory.outputs[part.output], memory.inputs[part.input]);
  });
}

Result<std::size_t> dimension(const Signature& signature, std::int64_t dim, std::size_t rank) {
  const std::int64_t at = dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim;
  if (at >= 0 && at < static_cast<std::int64_t>(rank)) return static_cast<std::size_t>(at);
  return unsupported(signature, fmt::format("dimension {} is out of range for {} dimensions", dim, rank));
}

}  // namespace emplace::cpu
