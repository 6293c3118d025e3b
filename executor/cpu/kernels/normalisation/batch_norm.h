#pragma once
/// Batch normalisation of f32 planes, by the loops of batch_norm_loops.h.

#include <array>
#include <memory>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/normalisation/batch_norm_loops.h"

namespace emplace::cpu {

/// Input positions of optional operands.
struct NormalisationPlaces {
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t scale = kNone, shift = kNone, mean = kNone, variance = kNone;
};

struct BatchNorm {
  batch_norm::Shape shape;
  NormalisationPlaces places;
  /// Mean and variance are inputs. Otherwise backward gets mean and inverse deviation.
  bool fixed_statistics = false;
  float epsilon = 0;
};

/// Source, … → target (, mean, inverse deviation).
std::unique_ptr<Kernel> make_plane_batch_norm(const BatchNorm& norm);
/// Target's gradient, source, … → the requested gradients of source, scale and shift.
std::unique_ptr<Kernel> make_plane_batch_norm_backward(const BatchNorm& norm, std::array<bool, 3> asked);

}  // namespace emplace::cpu
