#include "policy/nn/perceptron.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace emplace::policy {
namespace {

/// Columns per pass through all layers: eight tiles of twelve, 24 KiB at 64 rows.
constexpr Eigen::Index kColumnsPerBlock = 96;

/// Packs n columns into panels, the layout of the first factor of Kernels::product.
const float* panels(const float* m, Eigen::Index rows, Eigen::Index n, float* space) {
  const Eigen::Index padded_rows = (rows + kPanel - 1) / kPanel * kPanel;
  std::fill_n(space, padded_rows * n, 0.0f);
  for (Eigen::Index i = 0; i < rows; i += kPanel) {
    const Eigen::Index height = std::min<Eigen::Index>(kPanel, rows - i);
    for (Eigen::Index j = 0; j < n; ++j) std::copy_n(m + j * rows + i, height, space + i * n + j * kPanel);
  }
  return space;
}

/// c [m, n] += a bᵀ.   a [m, k], b [n, k], column-major without gaps. `space`: for packing.
void add_outer_products(Eigen::Index m, Eigen::Index n, Eigen::Index k, const float* a, const float* b,
                        float* c, float* space) {
  if (m % kPanel == 0) return kernels().product_of_columns(m, n, k, a, b, c);
  kernels().product(m, n, k, panels(a, m, k, space), b, n, 1, c, m);
}

}  // namespace

Perceptron::Perceptron(ParameterStore& store, const std::string& name, std::vector<Eigen::Index> widths,
                       bool final_relu, std::uint64_t seed, Init last)
    : widths_{std::move(widths)}, final_relu_{final_relu} {
  EMPLACE_CHECK(widths_.size() >= 2, "a perceptron has an input and an output");
  for (std::size_t i = 1; i < widths_.size(); ++i) {
    const std::string number = std::to_string(i);
    const Init start = i + 1 == widths_.size() ? last : Init::kGlorot;
    layers_.push_back({store.add(name + ".w" + number, widths_[i], widths_[i - 1], start, seed),
                       store.add(name + ".b" + number, widths_[i], 1, Init::kZero, seed)});
  }
}

double Perceptron::flops() const {
  double flops = 0;
  for (std::size_t i = 1; i < widths_.size(); ++i)
    flops += 2.0 * static_cast<double>(widths_[i - 1] * widths_[i]);
  return flops;
}

PackedPerceptron::PackedPerceptron(const Perceptron& shape, const ParameterStore& store)
    : final_relu_{shape.final_relu()} {
  for (const Perceptron::Layer& layer : shape.layers()) {
    const ConstMatrixMap w = store.value(layer.w), b = store.value(layer.b);
    std::vector<float> bias(static_cast<std::size_t>((w.rows() + kPanel - 1) / kPanel * kPanel));
    std::copy_n(b.data(), b.size(), bias.data());
    layers_.push_back(
        {layer.w, layer.b, w.cols(), w.rows(), Packed{w}, Packed::transposed(w), std::move(bias)});
    widest_ = std::max({widest_, w.cols(), w.rows()});
  }
  widest_ = (widest_ + kPanel - 1) / kPanel * kPanel;
}

void PackedPerceptron::forward(Eigen::Index n, const float* x, float* y, Scratch& scratch) const {
  const std::size_t space = static_cast<std::size_t>(widest_ * kColumnsPerBlock);
  if (scratch.size() < 2 * space) scratch.resize(2 * space);
  for (Eigen::Index j = 0; j < n; j += kColumnsPerBlock) {
    const Eigen::Index columns = std::min(kColumnsPerBlock, n - j);
    const float* from = x + j * layers_.front().in;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const bool is_last = i + 1 == layers_.size();
      float* const to = is_last ? y + j * layer.out : scratch.data() + i % 2 * space;
      kernels().affine(layer.out, columns, layer.in, layer.packed.data(), layer.bias.data(), from, layer.in,
                       !is_last || final_relu_ ? Activation::kRelu : Activation::kNone, nullptr, to);
      from = to;
    }
  }
}

PackedPerceptron::Gradient::Gradient(const PackedPerceptron& of) {
  for (const PackedPerceptron::Layer& layer : of.layers_) {
    const bool transposed = layer.out != kPanel && layer.in == kPanel;
    layers_.push_back(
        {layer.w, layer.b, transposed,
         transposed ? Matrix(Matrix::Zero(layer.in, layer.out)) : Matrix(Matrix::Zero(layer.out, layer.in)),
         Eigen::VectorXf(Eigen::VectorXf::Zero(layer.out))});
  }
}

void PackedPerceptron::Gradient::clear() {
  for (Layer& layer : layers_) layer.dw.setZero(), layer.db.setZero();
}

void PackedPerceptron::Gradient::add_to(ParameterStore& store) const {
  for (const Layer& layer : layers_) {
    if (layer.transposed) {
      store.gradient(layer.w) += layer.dw.transpose();
    } else {
      store.gradient(layer.w) += layer.dw;
    }
    store.gradient(layer.b) += layer.db;
  }
}

void PackedPerceptron::backward(Eigen::Index n, const float* x, const float* y, const float* dy, float* dx,
                                Gradient& gradient, Scratch& scratch) const {
  // Scratch: the hidden activations of a block by layer, two gradient buffers, one packing buffer.
  const std::size_t space = static_cast<std::size_t>(widest_ * kColumnsPerBlock);
  if (scratch.size() < (layers_.size() + 3) * space) scratch.resize((layers_.size() + 3) * space);
  const auto part = [&](std::size_t i) { return scratch.data() + i * space; };
  float* const packing = part(layers_.size() + 2);
  for (Eigen::Index j = 0; j < n; j += kColumnsPerBlock) {
    const Eigen::Index columns = std::min(kColumnsPerBlock, n - j);
    const float* const first = x + j * layers_.front().in;
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      kernels().affine(layer.out, columns, layer.in, layer.packed.data(), layer.bias.data(),
                       i == 0 ? first : part(i - 1), layer.in, Activation::kRelu, nullptr, part(i));
    }
    const float* flow = dy + j * layers_.back().out;
    if (final_relu_) {
      const float* const gate = y + j * layers_.back().out;
      float* const gated = part(layers_.size() + layers_.size() % 2);
      for (Eigen::Index e = 0; e < columns * layers_.back().out; ++e) gated[e] = gate[e] > 0 ? flow[e] : 0.0f;
      flow = gated;
    }
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const Layer& layer = layers_[i];
      Gradient::Layer& sums = gradient.layers_[i];
      const float* const input = i == 0 ? first : part(i - 1);
      if (sums.transposed) {
        add_outer_products(layer.in, layer.out, columns, input, flow, sums.dw.data(), packing);
      } else {
        add_outer_products(layer.out, layer.in, columns, flow, input, sums.dw.data(), packing);
      }
      kernels().add_columns(layer.out, columns, flow, sums.db.data());
      if (i == 0 && dx == nullptr) break;
      float* const to = i == 0 ? dx + j * layer.in : part(layers_.size() + i % 2);
      kernels().affine(layer.in, columns, layer.out, layer.transposed.data(), nullptr, flow, layer.out,
                       i == 0 ? Activation::kNone : Activation::kGate, i == 0 ? nullptr : input, to);
      flow = to;
    }
  }
}

}  // namespace emplace::policy
