#include "tests/executor/cuda/random_signatures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "executor/kernel/operand.h"

namespace emplace::testing {
namespace {

using Shape = std::vector<std::int64_t>;

Operand tensor(Shape shape, DType dtype = DType::kF32) {
  auto strides = packed_strides(shape);
  return {dtype, std::move(shape), std::move(strides)};
}

std::int64_t count(const Operand& operand) {
  std::int64_t n = 1;
  for (const std::int64_t size : operand.shape) n *= size;
  return n;
}

/// Sizes whose product is at most `most`, each from 1 on; large and small ones are equally frequent.
Shape random_shape(Rng& rng, std::size_t dims, std::int64_t most) {
  Shape shape(dims, 1);
  for (std::size_t i = 0; i < dims; ++i) {
    const double room = std::log2(static_cast<double>(most));
    const double share = i + 1 == dims ? 1 : rng.below(1000) / 1000.0;
    shape[i] = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::exp2(room * share)));
    most /= shape[i];
  }
  for (std::size_t i = dims; i > 1; --i)
    std::swap(shape[i - 1], shape[rng.below(static_cast<std::uint32_t>(i))]);
  return shape;
}

std::vector<std::byte> floats(Rng& rng, std::int64_t n, float low, float high) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n) * sizeof(float));
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const float value = low + (high - low) * static_cast<float>(rng.below(1 << 20)) * 0x1.0p-20f;
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

std::vector<std::byte> indices(Rng& rng, std::int64_t n, std::int64_t rows) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n) * sizeof(std::int64_t));
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const std::int64_t value = rng.below(static_cast<std::uint32_t>(rows));
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

struct Maker {
  Rng& rng;
  const std::int64_t most;
  KernelCase of;

  std::int64_t below(std::int64_t n) { return rng.below(static_cast<std::uint32_t>(n)); }
  void input(Operand operand, float low = -1, float high = 1) {
    of.inputs.push_back(floats(rng, count(operand), low, high));
    of.signature.inputs.push_back(std::move(operand));
  }
  void output(Operand operand) { of.signature.outputs.push_back(std::move(operand)); }
  void type(std::string name, std::string attrs) {
    of.signature.type = std::move(name), of.signature.attrs_json = std::move(attrs);
  }

  void pointwise() {
    static constexpr const char* kTypes[] = {"aten::relu", "aten::sigmoid", "aten::tanh", "aten::neg"};
    const Operand x = tensor(random_shape(rng, 1 + below(4), most));
    type(kTypes[below(4)], "{}");
    input(x), output(x);
  }
  void broadcast() {
    const Operand x = tensor(random_shape(rng, 4, most));
    Shape other = x.shape;
    for (std::int64_t& size : other)
      if (below(2) == 0) size = 1;
    type(below(2) == 0 ? "aten::add" : "aten::mul", "{}");
    input(x), input(tensor(other)), output(x);
  }
  void turned() {
    const Shape shape = random_shape(rng, 3, most);
    Operand x = tensor(shape);
    const std::size_t a = static_cast<std::size_t>(below(3)), b = static_cast<std::size_t>(below(3));
    std::swap(x.shape[a], x.shape[b]), std::swap(x.strides[a], x.strides[b]);
    type("aten::clone", "{}");
    const Shape out = x.shape;
    input(std::move(x)), output(tensor(out));
  }
  void transposed() {
    Shape order = random_order(2 + static_cast<std::size_t>(below(3)));
    const Operand x = tensor(random_shape(rng, order.size(), most));
    Shape out;
    std::string perm;
    for (const std::int64_t d : order) {
      out.push_back(x.shape[static_cast<std::size_t>(d)]);
      perm += (perm.empty() ? "" : ",") + std::to_string(d);
    }
    type("Transpose", "{\"perm\":[" + perm + "]}");
    input(x), output(tensor(out));
  }
  Shape random_order(std::size_t dims) {
    Shape order(dims);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = dims; i > 1; --i)
      std::swap(order[i - 1], order[rng.below(static_cast<std::uint32_t>(i))]);
    return order;
  }
  void sum() {
    const Operand x = tensor(random_shape(rng, 3, most));
    const std::int64_t first = below(3), last = first + below(3 - first);
    Shape left;
    std::string dims;
    for (std::int64_t d = 0; d < 3; ++d) {
      if (d < first || d > last) {
        left.push_back(x.shape[static_cast<std::size_t>(d)]);
      } else {
        dims += (dims.empty() ? "" : ",") + std::to_string(d);
      }
    }
    type(below(2) == 0 ? "aten::sum" : "aten::mean", "{\"dim\":[" + dims + "]}");
    input(x), output(tensor(left));
    // Sums cancel; their error is relative to a term.
    of.scale = std::sqrt(static_cast<double>(count(x)) / static_cast<double>(count(tensor(left))));
  }
  void softmax() {
    const Operand x = tensor(random_shape(rng, 3, most));
    const bool backward = below(2) == 0, log = below(2) == 0;
    const std::string dim = std::to_string(below(3));
    type(std::string{log ? "aten::_log_softmax" : "aten::_softmax"} + (backward ? "_backward_data" : ""),
         "{\"dim\":" + dim + "}");
    input(x, -4, 4);
    if (backward) input(x, log ? -8.0f : 0.0f, log ? -1.0f : 0.01f);
    output(x);
    of.scale = 1;
  }
  void batch_norm() {
    const Operand x = tensor(random_shape(rng, 4, most)), row = tensor({x.shape[1]});
    const bool backward = below(2) == 0;
    if (backward) {
      type("aten::native_batch_norm_backward",
           R"({"train":true,"eps":1e-05,"output_mask":[true,true,true]})");
      input(x), input(x);
      for (const auto& [low, high] :
           {std::pair{0.5f, 1.5f}, {0.f, 1.f}, {0.5f, 1.f}, {-.1f, .1f}, {0.5f, 1.5f}})
        input(row, low, high);
    } else {
      type("aten::native_batch_norm", R"({"training":true,"momentum":0.1,"eps":1e-05})");
      input(x, 0, 4);
      for (const auto& [low, high] : {std::pair{0.5f, 1.5f}, {0.f, 1.f}, {0.f, 1.f}, {0.5f, 1.f}})
        input(row, low, high);
    }
    output(x), output(row), output(row);
    of.scale = 10;
    if (backward) of.scale = std::sqrt(static_cast<double>(count(x) / x.shape[1])) + 1;
  }
  void layer_norm() {
    const Shape shape = random_shape(rng, 2, most);
    const Operand x = tensor({shape[0], std::max<std::int64_t>(shape[1], 2)});
    const Operand weight = tensor({x.shape[1]}), row = tensor({x.shape[0], 1});
    const std::string layer = "\"normalized_shape\":[" + std::to_string(x.shape[1]) + "]";
    if (below(2) == 0) {
      type("aten::native_layer_norm", "{" + layer + ",\"eps\":1e-05}");
      input(x, 0, 4), input(weight, 0.5, 1.5), input(weight);
      output(x), output(row), output(row);
      of.scale = 10;
    } else {
      type("aten::native_layer_norm_backward", "{" + layer + ",\"output_mask\":[true,true,true]}");
      input(x), input(x), input(row, -.1f, .1f), input(row, 0.5, 1.5), input(weight, 0.5, 1.5), input(weight);
      output(x), output(weight), output(weight);
      of.scale = std::sqrt(static_cast<double>(x.shape[0])) + 10;
    }
  }
  void pool() {
    Shape shape = random_shape(rng, 4, most);
    for (const std::size_t d : {2u, 3u}) shape[d] = std::max<std::int64_t>(shape[d], 3);
    const Operand x = tensor(shape);
    const auto reduced = [](std::int64_t size) { return (size + 2 - 3) / 2 + 1; };
    const Operand y = tensor({shape[0], shape[1], reduced(shape[2]), reduced(shape[3])});
    const char* const window = R"({"kernel_size":[3,3],"stride":[2,2],"padding":[1,1]})";
    const bool largest = below(2) == 0;
    type(largest ? "aten::max_pool2d_with_indices" : "aten::avg_pool2d", window);
    input(x), output(y);
    if (largest) output(tensor(y.shape, DType::kI64));
  }
  void embedding() {
    const Shape shape = random_shape(rng, 2, most);
    const Operand table = tensor(shape);
    const std::int64_t looked_up =
        1 + below(std::max<std::int64_t>(1, std::min<std::int64_t>(most / shape[1], 100'000)));
    type("aten::embedding", "{}");
    input(table);
    of.inputs.push_back(indices(rng, looked_up, shape[0]));
    of.signature.inputs.push_back(tensor({looked_up}, DType::kI64));
    output(tensor({looked_up, shape[1]}));
  }
  void product() {
    const std::int64_t side =
        std::min<std::int64_t>(200, static_cast<std::int64_t>(std::sqrt(static_cast<double>(most))));
    const std::int64_t m = 1 + below(side), k = 1 + below(side), n = 1 + below(side);
    type("aten::mm", "{}");
    input(tensor({m, k})), input(tensor({k, n})), output(tensor({m, n}));
    of.scale = std::sqrt(static_cast<double>(k));
  }
};

}  // namespace

KernelCase random_case(Rng& rng, std::int64_t most) {
  static constexpr void (Maker::*kMakers[])() = {&Maker::pointwise,  &Maker::broadcast, &Maker::turned,
                                                 &Maker::sum,        &Maker::softmax,   &Maker::batch_norm,
                                                 &Maker::layer_norm, &Maker::pool,      &Maker::embedding,
                                                 &Maker::product,    &Maker::transposed};
  // Sizes from some thousand elements on: the fixtures have fewer.
  const auto size = static_cast<std::int64_t>(static_cast<double>(most) / std::exp2(rng.below(9)));
  Maker maker{rng, std::max<std::int64_t>(size, 64), {}};
  (maker.*kMakers[rng.below(std::size(kMakers))])();
  KernelCase of = std::move(maker.of);
  of.tolerance = 1e-4;
  of.name = of.signature.type + " " + of.signature.attrs_json;
  for (const Operand& in : of.signature.inputs) {
    of.name += " [";
    for (const std::int64_t size_of : in.shape) of.name += " " + std::to_string(size_of);
    of.name += " ]";
  }
  return of;
}

}  // namespace emplace::testing
