#pragma once
/// Multilayer perceptrons for many small columns: packed weights, fused layers, blocks that stay in the first
/// cache. Activations inside are never kept; backward computes them again from the inputs.
///   y = act(W_n relu(… relu(W_1 x + b_1) …) + b_n)

#include <span>
#include <string>
#include <vector>

#include "policy/nn/product.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// Shape and names. Its matrices NAME.w1 [out, in], NAME.b1 [out, 1], … live in a ParameterStore.
/// Thread: immutable after construction.
class Perceptron {
 public:
  /// `widths` are in, hidden …, out. `last` is how the last matrix starts; the others start Glorot, biases 0.
  /// @pre at least two widths, each > 0.
  Perceptron(ParameterStore& store, const std::string& name, std::vector<Eigen::Index> widths,
             bool final_relu, std::uint64_t seed, Init last = Init::kGlorot);

  struct Layer {
    ParameterId w, b;
  };
  Eigen::Index in() const { return widths_.front(); }
  Eigen::Index out() const { return widths_.back(); }
  std::span<const Layer> layers() const { return layers_; }
  bool final_relu() const { return final_relu_; }
  double flops() const;  ///< Of one column forward, two per multiply-add.

 private:
  std::vector<Eigen::Index> widths_;
  std::vector<Layer> layers_;
  bool final_relu_;
};

/// Floats that passes of perceptrons write over; grows to what is asked. Thread: one at a time.
using Scratch = std::vector<float>;

/// A perceptron with its weights of now, packed for the kernels.
/// Thread: const members from any thread. Pointers are to column-major float32 without gaps; n >= 0 columns.
class PackedPerceptron {
 public:
  PackedPerceptron(const Perceptron& shape, const ParameterStore& store);

  /// y [out, n] of x [in, n]. A column's bits depend on that column alone.
  void forward(Eigen::Index n, const float* x, float* y, Scratch& scratch) const;

  /// Sums of gradients over calls, in the layout that the kernels like.
  class Gradient {
   public:
    explicit Gradient(const PackedPerceptron& of);
    void clear();
    /// Adds them to the store's.
    void add_to(ParameterStore& store) const;

   private:
    friend class PackedPerceptron;
    struct Layer {
      ParameterId w, b;
      bool transposed;  // dWᵀ is kept where the input, not the output, is one panel high.
      Matrix dw;
      Eigen::VectorXf db;
    };
    std::vector<Layer> layers_;
  };
  /// From dy [out, n] at x [in, n] (y [out, n] as forward gave it; read only if the last layer is a ReLU):
  /// adds to `gradient`, and writes dx [in, n] unless it is null.
  void backward(Eigen::Index n, const float* x, const float* y, const float* dy, float* dx,
                Gradient& gradient, Scratch& scratch) const;

 private:
  struct Layer {
    ParameterId w, b;
    Eigen::Index in, out;
    Packed packed, transposed;
    std::vector<float> bias;  // Padded to whole panels.
  };
  std::vector<Layer> layers_;
  bool final_relu_;
  Eigen::Index widest_ = 0;
};

}  // namespace emplace::policy
