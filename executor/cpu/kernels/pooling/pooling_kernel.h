#pragma once
/// Kernels built from loops over planes.

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/pooling/pooling_loops.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu::pooling {

/// A kernel that loops over planes. `Loop` has `scratch_bytes()` and `plane(shape, plane number, inputs,
/// outputs, scratch)`.
template <class Loop>
class PlanesKernel final : public Kernel {
 public:
  PlanesKernel(Shape shape, Loop loop) : shape_{std::move(shape)}, loop_{std::move(loop)} {}
  std::size_t scratch_bytes() const override { return loop_.scratch_bytes(shape_); }
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    for (std::int64_t p = 0; p < shape_.planes; ++p) loop_.plane(shape_, p, inputs, outputs, scratch);
  }

 private:
  const Shape shape_;
  const Loop loop_;
};

template <class T>
const T* source_plane(const Shape& shape, const std::byte* data, std::int64_t p) {
  return reinterpret_cast<const T*>(data) + p * shape.source_plane();
}
template <class T>
T* source_plane(const Shape& shape, std::byte* data, std::int64_t p) {
  return reinterpret_cast<T*>(data) + p * shape.source_plane();
}
template <class T>
const T* target_plane(const Shape& shape, const std::byte* data, std::int64_t p) {
  return reinterpret_cast<const T*>(data) + p * shape.target_plane();
}
template <class T>
T* target_plane(const Shape& shape, std::byte* data, std::int64_t p) {
  return reinterpret_cast<T*>(data) + p * shape.target_plane();
}

using Inputs = std::span<const std::byte* const>;
using Outputs = std::span<std::byte* const>;

/// Source → maxima (, their places).
template <class T>
struct Max {
  bool global_places = false;  ///< ONNX numbers indices through the whole tensor, not per plane.
  std::size_t scratch_bytes(const Shape& shape) const {
    return static_cast<std::size_t>(shape.width.target) * sizeof(std::int32_t);
  }
  void plane(const Shape& shape, std::int64_t p, Inputs inputs, Outputs outputs, std::byte* scratch) const {
    auto* indices = outputs.size() > 1 ? target_plane<std::int64_t>(shape, outputs[1], p) : nullptr;
    max_plane(shape, source_plane<T>(shape, inputs[0], p), target_plane<T>(shape, outputs[0], p), indices,
              reinterpret_cast<std::int32_t*>(scratch));
    if (indices == nullptr || !global_places) return;
    for (std::int64_t i = 0; i < shape.target_plane(); ++i) indices[i] += p * shape.source_plane();
  }
};

/// Maxima's gradient, source, places → source's gradient.
template <class T>
struct MaxBackward {
  std::size_t scratch_bytes(const Shape&) const { return 0; }
  void plane(const Shape& shape, std::int64_t p, Inputs inputs, Outputs outputs, std::byte*) const {
    max_plane_backward(shape, target_plane<T>(shape, inputs[0], p),
                       target_plane<std::int64_t>(shape, inputs[2], p),
                       source_plane<T>(shape, outputs[0], p));
  }
};

/// Divisor of the sum at (y, x): rows[y] · columns[x].
template <class T>
struct Divisors {
  std::vector<T> rows, columns;
  Divisors(const Shape& shape, bool with_padding, std::int64_t instead)
      : rows(static_cast<std::size_t>(shape.height.target), static_cast<T>(instead)),
        columns(static_cast<std::size_t>(shape.width.target), T{1}) {
    if (instead != 0) return;
    for (std::size_t y = 0; y < rows.size(); ++y) {
      rows[y] = static_cast<T>(shape.height.counted(static_cast<std::int64_t>(y), with_padding));
    }
    for (std::size_t x = 0; x < columns.size(); ++x) {
      columns[x] = static_cast<T>(shape.width.counted(static_cast<std::int64_t>(x), with_padding));
    }
  }
};

template <class T>
struct Mean {
  Divisors<T> divisors;
  std::size_t scratch_bytes(const Shape&) const { return 0; }
  void plane(const Shape& shape, std::int64_t p, Inputs inputs, Outputs outputs, std::byte*) const {
    mean_plane(shape, source_plane<T>(shape, inputs[0], p), target_plane<T>(shape, outputs[0], p),
               divisors.rows.data(), divisors.columns.data());
  }
};

/// Means' gradient, source → source's gradient.
template <class T>
struct MeanBackward {
  Divisors<T> divisors;
  std::size_t scratch_bytes(const Shape& shape) const {
    return static_cast<std::size_t>(shape.width.target) * sizeof(T);
  }
  void plane(const Shape& shape, std::int64_t p, Inputs inputs, Outputs outputs, std::byte* scratch) const {
    mean_plane_backward(shape, target_plane<T>(shape, inputs[0], p), source_plane<T>(shape, outputs[0], p),
                        divisors.rows.data(), divisors.columns.data(), reinterpret_cast<T*>(scratch));
  }
};

template <class T>
struct EvenMean {
  std::size_t scratch_bytes(const Shape&) const { return 0; }
  void plane(const Shape& shape, std::int64_t p, Inputs inputs, Outputs outputs, std::byte*) const {
    even_plane(shape, source_plane<T>(shape, inputs[0], p), target_plane<T>(shape, outputs[0], p));
  }
};
template <class T>
struct EvenMeanBackward {
  std::size_t scratch_bytes(const Shape&) const { return 0; }
  void plane(const Shape& shape, std::int64_t p, Inputs inputs, Outputs outputs, std::byte*) const {
    even_plane_backward(shape, target_plane<T>(shape, inputs[0], p), source_plane<T>(shape, outputs[0], p));
  }
};

/// Calls `make(T{})`, which returns the loop for elements of type T.
template <class Make>
Result<std::unique_ptr<Kernel>> make_loop(const Signature& signature, const Shape& shape, Make make) {
  const DType dtype = signature.outputs[0].dtype;
  if (signature.inputs[0].dtype != dtype) return unsupported(signature, "inputs and outputs differ in dtype");
  const auto kernel = [&]<class T>(T zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<PlanesKernel<decltype(make(zero))>>(shape, make(zero));
  };
  if (dtype == DType::kF32) return kernel(float{});
  if (dtype == DType::kF64) return kernel(double{});
  // Reached for bf16 only if oneDNN refused it: older processors do not support bf16.
  const std::string_view library = dtype == DType::kBF16 ? "oneDNN: " : "";
  return unsupported(signature, std::string{library} + "dtype " + std::string{dtype_name(dtype)});
}

}  // namespace emplace::cpu::pooling
