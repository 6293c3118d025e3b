#pragma once
/// Batch normalisation of f32 planes, by the loops of batch_norm_loops.h.

#include <array>
#include <memory>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/normalisation/batch_norm_loops.h"

namespace emplace::cpu {

/// Where the inputs of an op stand that an op may lack.
struct NormalisationPlaces {
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t scale = kNone, shift = kNone, mean = kNone, variance = kNone;
};

struct BatchNorm {
  batch_norm::Shape shape;
  NormalisationPlaces places;
  bool fixed_statistics = false;  ///< Mean and variance are inputs; backward else mean and inverse deviation.
  float epsilon = 0;
};

/// Source, … → target (, mean, inverse deviation).
std::unique_ptr<Kernel> make_plane_batch_norm(const BatchNorm& norm);
/// Target's gradient, source, … → those of the gradients of source, scale and shift that are `asked` for.
std::unique_ptr<Kernel> make_plane_batch_norm_backward(const BatchNorm& norm, std::array<bool, 3> asked);

}  // namespace emplace::cpu
