#pragma once
/// The arithmetic in which an op computes, as its framework would choose it: it decides which of a device's
/// peaks bounds the op.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/settings.h"
#include "graph/float32.h"
#include "graph/op_graph.h"
#include "graph/op_role.h"

namespace emplace {

/// Formats of the factors of a product, or of the elements that other ops read. Numbers are part of files:
/// append only.
enum class Arithmetic : std::uint8_t {
  kFp64,
  kFp32,
  kTf32,
  kFp16,
  kBf16,
  kFp8,
  kInt8,
  kW4  ///< Weights of four bits, which are converted to the format of the other factor.
};
inline constexpr std::size_t kNumArithmetics = 8;
constexpr auto enum_words(Arithmetic) {
  return EnumWords{"arithmetic",
                   std::array{EnumWord{Arithmetic::kFp64, "fp64"}, EnumWord{Arithmetic::kFp32, "fp32"},
                              EnumWord{Arithmetic::kTf32, "tf32"}, EnumWord{Arithmetic::kFp16, "fp16"},
                              EnumWord{Arithmetic::kBf16, "bf16"}, EnumWord{Arithmetic::kFp8, "fp8"},
                              EnumWord{Arithmetic::kInt8, "int8"}, EnumWord{Arithmetic::kW4, "w4"}}};
}

constexpr auto enum_words(Float32) {
  return EnumWords{"float32 arithmetic",
                   std::array{EnumWord{Float32::kIeee, "ieee"}, EnumWord{Float32::kTf32, "tf32"}}};
}

/// The framework whose kernels run a graph's ops: by its source, and by the names of its ops, since a
/// training step that was made from an ONNX graph has PyTorch's. Graphs of unknown tools count as PyTorch's.
enum class Framework : std::uint8_t { kPyTorch, kOnnxRuntime, kTensorFlow, kXla };
Framework framework_of(const OpGraph& graph);

/// What a step's float32 products are, and its convolutions and recurrent layers.
struct Float32Use {
  Float32 products = Float32::kIeee;
  Float32 convolutions = Float32::kTf32;
  bool operator==(const Float32Use&) const = default;
};

/// The use of a graph: what the tracer recorded, or the user asked for (ReadOptions::float32), in the graph's
/// metadata (`"float32": {"products": "ieee", "convolutions": "tf32"}`), else the default of its framework.
/// ONNX Runtime, TensorFlow and XLA use TF32; PyTorch, whose steps all other graphs count as, uses it in
/// cuDNN alone. Words that are unknown count as absent. Pure; any thread.
///   Sources: https://pytorch.org/docs/stable/notes/cuda.html (TensorFloat-32),
///   https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html (use_tf32),
///   https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_tensor_float_32_execution,
///   https://docs.jax.dev/en/latest/_autosummary/jax.default_matmul_precision.html
Float32Use float32_use(const OpGraph& graph);

/// The arithmetic of an op; of one that computes nothing, that of what it reads. Pure; any thread.
///   products, attention  the wider of the factors' formats, as libraries promote them; float32 by `use`.
///                        Integer factors of more than eight bits count as float32: no matrix unit has them.
///                        Weights of eight bits are converted to the other factor's format, so theirs is it.
///   other ops            the format of the first floating-point operand, never TF32
Arithmetic arithmetic_of(const OpGraph& graph, OpId op, const OpRole& role, Float32Use use);
inline Arithmetic arithmetic_of(const OpGraph& graph, OpId op) {
  return arithmetic_of(graph, op, role_of_type(graph.type_name(op)), float32_use(graph));
}

}  // namespace emplace
