// Goal: products of matrices equal the sums of their definition, for any layout of the operands. Method:
// drawn shapes, strides, broadcasts and scales against three plain loops.
#include <gtest/gtest.h>

#include <array>

#include "tests/executor/cpu/kernel_run.h"

namespace emplace::cpu {
namespace {

/// a [batch, m, k] · b [batch, k, n], row-major.
Values product(const Values& a, const Values& b, std::size_t batch, std::size_t m, std::size_t k,
               std::size_t n) {
  Values out(batch * m * n);
  for (std::size_t z = 0; z < batch; ++z) {
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t l = 0; l < k; ++l) sum += a[(z * m + i) * k + l] * b[(z * k + l) * n + j];
        out[(z * m + i) * n + j] = sum;
      }
    }
  }
  return out;
}

std::int64_t drawn_size(Rng& rng) {
  return rng.below(8) == 0 ? 1 : 1 + rng.below(rng.below(3) == 0 ? 70 : 9);
}

/// [m, k] in one of the layouts of a graph's views.
Operand drawn_matrix(std::vector<std::int64_t> shape, Rng& rng) {
  const std::size_t rank = shape.size();
  std::vector<std::size_t> order(rank);
  for (std::size_t d = 0; d < rank; ++d) order[d] = d;
  switch (rng.below(5)) {
    case 0:
      std::swap(order[rank - 1], order[rank - 2]);
      return permuted(shape, order);
    case 1:
      rng.shuffle(order);
      return permuted(shape, order);
    case 2:
      return permuted(shape, order, /*gap=*/1 + rng.below(2));
    case 3: {
      // Rows out of a wider matrix.
      Operand wide = packed(shape);
      for (std::size_t d = 0; d + 1 < rank; ++d)
        wide.strides[d] += wide.strides[d] / wide.shape[rank - 1] * 3;
      return wide;
    }
    default:
      return rng.below(4) == 0 ? expanded(packed(shape), {rng.below(static_cast<std::uint32_t>(rank))})
                               : packed(shape);
  }
}

/// Values in memory: where a dimension repeats, all its elements equal the first.
Values drawn_values(const Operand& operand, Rng& rng) {
  Values values = normal_values(operand, rng);
  std::vector<std::size_t> first(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t rest = i, base = 0, weight = 1;
    for (std::size_t d = operand.shape.size(); d-- > 0;) {
      const auto dim = static_cast<std::size_t>(operand.shape[d]);
      if (operand.strides[d] != 0) base += rest % dim * weight;
      rest /= dim;
      weight *= dim;
    }
    first[i] = base;
  }
  for (std::size_t i = values.size(); i-- > 0;) values[i] = values[first[i]];
  return values;
}

struct Sizes {
  std::int64_t m, k, n;
  explicit Sizes(Rng& rng) : m{drawn_size(rng)}, k{drawn_size(rng)}, n{drawn_size(rng)} {}
};

TEST(MatMulKernels, TwoMatricesInAnyLayout) {
  Rng rng{1, Purpose::kTest};
  for (int round = 0; round < 150; ++round) {
    const Sizes s{rng};
    const Operand a = drawn_matrix({s.m, s.k}, rng), b = drawn_matrix({s.k, s.n}, rng);
    const Values x = drawn_values(a, rng), y = drawn_values(b, rng);
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << s.m << " x " << s.k << " x " << s.n);
    const auto out = run_kernel({"aten::mm", "{}", {a, b}, {packed({s.m, s.n})}}, {x, y});
    ASSERT_EQ(out.size(), 1u);
    expect_near(out[0], product(x, y, 1, s.m, s.k, s.n));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(MatMulKernels, BatchesInAnyLayout) {
  Rng rng{2, Purpose::kTest};
  for (int round = 0; round < 100; ++round) {
    const Sizes s{rng};
    const std::int64_t batch = 1 + rng.below(4);
    const Operand a = drawn_matrix({batch, s.m, s.k}, rng), b = drawn_matrix({batch, s.k, s.n}, rng);
    const Values x = drawn_values(a, rng), y = drawn_values(b, rng);
    const auto out = run_kernel({"aten::bmm", "{}", {a, b}, {packed({batch, s.m, s.n})}}, {x, y});
    ASSERT_EQ(out.size(), 1u);
    expect_near(out[0], product(x, y, batch, s.m, s.k, s.n));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(MatMulKernels, AddsABroadcastOperandTimesBeta) {
  Rng rng{3, Purpose::kTest};
  for (int round = 0; round < 120; ++round) {
    const Sizes s{rng};
    const bool onnx = rng.below(2) == 0;
    const double alpha = rng.below(2) == 0 ? 1 : 0.5, beta = std::array{1.0, 0.25, 0.0}[rng.below(3)];
    const bool left = onnx && rng.below(2) == 0, right = onnx && rng.below(2) == 0;
    const Operand a = left ? packed({s.k, s.m}) : packed({s.m, s.k}),
                  b = right ? packed({s.n, s.k}) : packed({s.k, s.n});
    const std::vector<std::vector<std::int64_t>> shapes{{s.n}, {s.m, s.n}, {1, s.n}, {s.m, 1}, {1}, {}};
    const Operand c = packed(shapes[rng.below(6)]);
    const Values x = normal_values(a, rng), y = normal_values(b, rng), z = normal_values(c, rng);

    const auto turned = [](const Values& v, std::size_t rows, std::size_t columns) {
      Values out(v.size());
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = v[i * columns + j];
      }
      return out;
    };
    Values wanted =
        product(left ? turned(x, s.k, s.m) : x, right ? turned(y, s.n, s.k) : y, 1, s.m, s.k, s.n);
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        const std::size_t rank = c.shape.size();
        const std::int64_t column = rank >= 1 && c.shape[rank - 1] != 1 ? j : 0;
        const std::int64_t row = rank == 2 && c.shape[0] != 1 ? i : 0;
        double& w = wanted[static_cast<std::size_t>(i * s.n + j)];
        w = alpha * w +
            beta * z[static_cast<std::size_t>(row * (rank >= 1 ? c.shape[rank - 1] : 1) + column)];
      }
    }
    std::string attrs = "{\"alpha\":" + std::to_string(alpha) + ",\"beta\":" + std::to_string(beta);
    if (left) attrs += ",\"transA\":1";
    if (right) attrs += ",\"transB\":1";
    attrs += "}";
    const Operand out = packed({s.m, s.n});
    SCOPED_TRACE(testing::Message() << "round " << round << " " << attrs);
    const auto got = onnx ? run_kernel({"Gemm", attrs, {a, b, c}, {out}}, {x, y, z})
                          : run_kernel({"aten::addmm", attrs, {c, a, b}, {out}}, {z, x, y});
    ASSERT_EQ(got.size(), 1u);
    expect_near(got[0], wanted);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(MatMulKernels, OnnxBroadcastsBatchesAndAcceptsVectors) {
  Rng rng{4, Purpose::kTest};
  for (int round = 0; round < 120; ++round) {
    const Sizes s{rng};
    const auto dim = [&] { return std::int64_t{1} + rng.below(3); };
    std::vector<std::int64_t> batch(rng.below(3));
    for (auto& d : batch) d = dim();
    const auto part = [&](std::int64_t rows, std::int64_t columns) {
      std::vector<std::int64_t> shape(batch.begin() + rng.below(static_cast<std::uint32_t>(batch.size() + 1)),
                                      batch.end());
      for (auto& d : shape) d = rng.below(3) == 0 ? 1 : d;
      shape.push_back(rows);
      shape.push_back(columns);
      return shape;
    };
    const Operand a = packed(part(s.m, s.k)), b = packed(part(s.k, s.n));
    // The batch is the broadcast of both.
    std::vector<std::int64_t> shape(std::max(a.shape.size(), b.shape.size()), 1);
    const auto at = [&](const Operand& o, std::size_t d) {
      const std::size_t lead = shape.size() - o.shape.size();
      return d < lead ? 1 : o.shape[d - lead];
    };
    std::size_t batches = 1;
    for (std::size_t d = 0; d + 2 < shape.size(); ++d) {
      shape[d] = std::max(at(a, d), at(b, d));
      batches *= shape[d];
    }
    shape[shape.size() - 2] = s.m;
    shape[shape.size() - 1] = s.n;
    const Values x = normal_values(a, rng), y = normal_values(b, rng);
    Values wanted;
    for (std::size_t z = 0; z < batches; ++z) {
      const auto matrix = [&](const Operand& o, const Values& values, std::int64_t size) {
        std::size_t rest = z, index = 0, weight = 1;
        for (std::size_t d = shape.size() - 2; d-- > 0;) {
          if (at(o, d) != 1) index += rest % static_cast<std::size_t>(shape[d]) * weight;
          rest /= static_cast<std::size_t>(shape[d]);
          weight *= at(o, d);
        }
        return Values(values.begin() + index * size, values.begin() + (index + 1) * size);
      };
      const Values one = product(matrix(a, x, s.m * s.k), matrix(b, y, s.k * s.n), 1, s.m, s.k, s.n);
      wanted.insert(wanted.end(), one.begin(), one.end());
    }
    SCOPED_TRACE(round);
    const auto out = run_kernel({"MatMul", "{}", {a, b}, {packed(shape)}}, {x, y});
    ASSERT_EQ(out.size(), 1u);
    expect_near(out[0], wanted);
    if (testing::Test::HasFailure()) return;
  }
  const auto dot =
      run_kernel({"MatMul", "{}", {packed({3}), packed({3})}, {packed({})}}, {{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(dot.at(0), (Values{32}));
  const auto left = run_kernel({"MatMul", "{}", {packed({2}), packed({2, 3})}, {packed({3})}},
                               {{1, 2}, {1, 2, 3, 4, 5, 6}});
  EXPECT_EQ(left.at(0), (Values{9, 12, 15}));
  const auto right = run_kernel({"MatMul", "{}", {packed({2, 1, 2}), packed({2})}, {packed({2, 1})}},
                                {{1, 2, 3, 4}, {1, 10}});
  EXPECT_EQ(right.at(0), (Values{21, 43}));
}

TEST(MatMulKernels, RefusalsNameTheFault) {
  const auto f64 = DType::kF64;
  EXPECT_EQ(refusal({"aten::mm", "{}", {packed({2, 2}, f64), packed({2, 2}, f64)}, {packed({2, 2}, f64)}}),
            "aten::mm: oneDNN: dtype f64 is not supported");
  EXPECT_EQ(refusal({"aten::mm", "{}", {packed({2, 3}), packed({2, 3})}, {packed({2, 3})}}),
            "aten::mm: shapes do not match a matrix product");
  EXPECT_EQ(refusal({"aten::addmm", "{}", {packed({2}), packed({2, 3}), packed({3, 3})}, {packed({2, 3})}}),
            "aten::addmm: addend differs from the product in shape or dtype");
  EXPECT_EQ(refusal({"Gemm", R"({"transA":"yes"})", {packed({2, 2}), packed({2, 2})}, {packed({2, 2})}}),
            "Gemm: attribute transA is not true or false");
}

}  // namespace
}  // namespace emplace::cpu
