#pragma once
/// Multilayer perceptrons for many small columns: packed weights, fused layers, blocks that fit into the L1
/// cache. Hidden activations are not stored; backward() recomputes them from the inputs.
///   y = act(W_n relu(… relu(W_1 x + b_1) …) + b_n)

#include <span>
#include <string>
#include <vector>

#include "policy/nn/product.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// Shape and names. The matrices NAME.w1 [out, in], NAME.b1 [out, 1], … are in a ParameterStore.
/// Thread: immutable after construction.
class Perceptron {
 public:
  /// `widths`: in, hidden …, out. `last`: initialisation of the last matrix; the others start with Glorot,
  /// biases with 0. @pre at least two widths, each > 0.
  Perceptron(ParameterStore& store, const std::string& name, std::vector<Eigen::Index> widths,
             bool final_relu, std::uint64_t seed, Init last = Init::kGlorot);

  struct Layer {
    ParameterId w, b;
  };
  Eigen::Index in() const { return widths_.front(); }
  Eigen::Index out() const { return widths_.back(); }
  std::span<const Layer> layers() const { return layers_; }
  bool final_relu() const { return final_relu_; }
  double flops() const;  ///< Work [flop] of one column forward; a multiply-add counts as 2.

 private:
  std::vector<Eigen::Index> widths_;
  std::vector<Layer> layers_;
  bool final_relu_;
};

/// Scratch memory for passes of perceptrons; grows on demand. Thread: one at a time.
using Scratch = std::vector<float>;

/// A perceptron with its current weights, packed for the kernels.
/// Thread: const members from any thread. Pointers are to column-major float32 without gaps; n >= 0 columns.
class PackedPerceptron {
 public:
  PackedPerceptron(const Perceptron& shape, const ParameterStore& store);

  /// y [out, n] from x [in, n]. The bits of a column depend only on that column.
  void forward(Eigen::Index n, const float* x, float* y, Scratch& scratch) const;

  /// Gradient sums over calls, in the layout of the kernels.
  class Gradient {
   public:
    explicit Gradient(const PackedPerceptron& of);
    void clear();
    /// Adds the sums to the store's gradients.
    void add_to(ParameterStore& store) const;

   private:
    friend class PackedPerceptron;
    struct Layer {
      ParameterId w, b;
      bool transposed;  // True: stores dWᵀ, because the input and not the output is one panel high.
      Matrix dw;
      Eigen::VectorXf db;
    };
    std::vector<Layer> layers_;
  };
  /// Backward pass from dy [out, n] at x [in, n]: adds to `gradient` and writes dx [in, n] unless null. y
  /// [out, n] is the result of forward(); it is read only if the last layer has a ReLU.
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
