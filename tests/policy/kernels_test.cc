// Goal: the kernels compute their formulas, and give the same bits whatever the machine's vector width.
// Method: plain loops in double beside them, on sizes with and without remainders; then both variants,
// compared bit by bit.
#include "policy/nn/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/rng.h"
#include "policy/nn/product.h"
#include "tests/policy/matrices.h"

namespace emplace::policy {
namespace {

struct Shape {
  Eigen::Index m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1},   {5, 4, 7},    {32, 12, 16},  {33, 13, 40},
                             {64, 1, 64}, {200, 1, 31}, {256, 4, 100}, {160, 27, 5}};
// Products that pack parts of B: rows, columns and depths that end inside a panel, a strip and a part.
constexpr Shape kWideShapes[] = {{128, 24, 128}, {161, 269, 300}, {200, 25, 1}};

std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes{std::begin(kShapes), std::end(kShapes)};
  shapes.insert(shapes.end(), std::begin(kWideShapes), std::end(kWideShapes));
  return shapes;
}

TEST(Kernels, ProductsEqualPlainLoops) {
  for (const Shape& s : kShapes) {
    const Matrix a = random_matrix(s.m, s.k, 1), b = random_matrix(s.k, s.n, 2),
                 start = random_matrix(s.m, s.n, 3);
    const Matrix expected = (start.cast<double>() + a.cast<double>() * b.cast<double>()).cast<float>();
    Matrix c = start;
    add_product(c, Packed{a}, b);
    EXPECT_LT((c - expected).cwiseAbs().maxCoeff(), 1e-5f) << s.m << 'x' << s.n << 'x' << s.k;
    c = start;
    add_product_bt(c, Packed::transposed(a.transpose()), b.transpose());
    EXPECT_LT((c - expected).cwiseAbs().maxCoeff(), 1e-5f)
        << "transposed " << s.m << 'x' << s.n << 'x' << s.k;
  }
}

TEST(Kernels, ElementsOfAProductAreSummedInOneChain) {
  for (const Shape& s : all_shapes()) {
    const Matrix a = random_matrix(s.m, s.k, 1), b = random_matrix(s.k, s.n, 2);
    Matrix expected = random_matrix(s.m, s.n, 3), c = expected, transposed = expected;
    for (Eigen::Index j = 0; j < s.n; ++j) {
      for (Eigen::Index i = 0; i < s.m; ++i) {
        for (Eigen::Index p = 0; p < s.k; ++p) expected(i, j) = std::fma(a(i, p), b(p, j), expected(i, j));
      }
    }
    add_product(c, Packed{a}, b);
    EXPECT_EQ(c, expected) << s.m << 'x' << s.n << 'x' << s.k;
    add_product_bt(transposed, Packed{a}, b.transpose());
    EXPECT_EQ(transposed, expected) << "transposed " << s.m << 'x' << s.n << 'x' << s.k;
  }
}

TEST(Kernels, LayersEqualPlainLoopsOnBothWidths) {
  for (const Shape& s : kShapes) {
    const Matrix w = random_matrix(s.m, s.k, 1), x = random_matrix(s.k, s.n, 2),
                 gate = random_matrix(s.m, s.n, 3);
    const Matrix bias = random_matrix(padded(s.m) + kPanel, 1, 4);
    const Packed packed{w};
    for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kGate}) {
      Matrix expected =
          ((w.cast<double>() * x.cast<double>()).colwise() + bias.col(0).head(s.m).cast<double>())
              .cast<float>();
      if (act == Activation::kRelu) expected = expected.cwiseMax(0.0f);
      if (act == Activation::kGate) expected = (gate.array() > 0.0f).select(expected, 0.0f);
      Matrix y(s.m, s.n), narrow(s.m, s.n);
      kernels().affine(s.m, s.n, s.k, packed.data(), bias.data(), x.data(), s.k, act, gate.data(), y.data());
      EXPECT_LT((y - expected).cwiseAbs().maxCoeff(), 1e-5f) << s.m << 'x' << s.n << 'x' << s.k;
      kernels_v3().affine(s.m, s.n, s.k, packed.data(), bias.data(), x.data(), s.k, act, gate.data(),
                          narrow.data());
      EXPECT_EQ(y, narrow) << s.m << 'x' << s.n << 'x' << s.k;
    }
  }
}

TEST(Kernels, ProductsOfColumnsEqualThoseOfPanelsOnBothWidths) {
  for (const Shape& s : {Shape{32, 64, 96}, Shape{64, 33, 5}, Shape{160, 3, 1}, Shape{32, 1, 40}}) {
    const Matrix a = random_matrix(s.m, s.k, 1), b = random_matrix(s.n, s.k, 2);
    Matrix expected = random_matrix(s.m, s.n, 3), c = expected, narrow = expected;
    add_product_bt(expected, Packed{a}, b);
    kernels().product_of_columns(s.m, s.n, s.k, a.data(), b.data(), c.data());
    kernels_v3().product_of_columns(s.m, s.n, s.k, a.data(), b.data(), narrow.data());
    EXPECT_EQ(c, expected) << s.m << 'x' << s.n << 'x' << s.k;
    EXPECT_EQ(narrow, expected) << s.m << 'x' << s.n << 'x' << s.k;
  }
}

TEST(Kernels, SumsOfColumnsAddOneByOneOnBothWidths) {
  const std::vector<std::uint32_t> index = {3, 0, 3, 6, 1};
  for (const Eigen::Index rows : {1, 16, 31, 32, 33, 70}) {
    const Matrix from = random_matrix(rows, 7, 1), before = random_matrix(rows, 7, 2);
    Matrix sum = Matrix::Zero(rows, 1), total = before.col(0), spread = before;
    for (const std::uint32_t k : index) {
      sum += from.col(k);
      spread.col(k) += from.col(0);
    }
    sum *= 0.3f;
    for (Eigen::Index k = 0; k < 7; ++k) total += from.col(k);
    for (const Kernels* const wide : {&kernels(), &kernels_v3()}) {
      Matrix to(rows, 1), added = before.col(0), columns = before;
      wide->sum_columns(rows, 5, index.data(), from.data(), 0.3f, to.data());
      EXPECT_EQ(to, sum) << rows;
      wide->sum_columns(rows, 0, index.data(), from.data(), 0.3f, to.data());
      EXPECT_EQ(to, Matrix(Matrix::Zero(rows, 1))) << rows;
      wide->add_columns(rows, 7, from.data(), added.data());
      EXPECT_EQ(added, total) << rows;
      wide->add_to_columns(rows, 5, index.data(), from.data(), columns.data());
      EXPECT_EQ(columns, spread) << rows;
    }
  }
}

TEST(Kernels, AttentionScoresEqualPlainLoops) {
  const Matrix keys = random_matrix(48, 9, 4, 6), query = random_matrix(48, 1, 5, 6),
               v = random_matrix(48, 1, 6);
  Matrix scores(9, 1);
  kernels().attend(48, 9, keys.data(), query.data(), v.data(), scores.data());
  for (Eigen::Index g = 0; g < 9; ++g) {
    double expected = 0;
    for (Eigen::Index h = 0; h < 48; ++h)
      expected += static_cast<double>(v(h, 0)) * std::tanh(static_cast<double>(keys(h, g)) + query(h, 0));
    EXPECT_NEAR(scores(g), expected, 1e-5);
  }
}

TEST(Kernels, ExponentialsAndDrawsSkipThePadding) {
  Matrix x = Matrix::Constant(32, 1, -1e30f);
  x.topRows(3) << 1.0f, -2.0f, 3.0f;
  float peak = 0;
  const float total = kernels().exponentials(32, x.data(), &peak);
  EXPECT_EQ(peak, 3.0f);
  EXPECT_NEAR(total, std::exp(-2.0) + std::exp(-5.0) + 1.0, 1e-6);
  EXPECT_EQ(kernels().find_running_sum(32, x.data(), 0.0f), 0);
  EXPECT_EQ(kernels().find_running_sum(32, x.data(), 0.137f), 1);
  EXPECT_EQ(kernels().find_running_sum(32, x.data(), 0.5f), 2);
  EXPECT_EQ(kernels().find_running_sum(32, x.data(), 2.0f), 32);
}

TEST(Kernels, NoiseIsNearlyNormalAndAFunctionOfItsKey) {
  constexpr Eigen::Index kSize = 160'000;
  const std::uint32_t key[4] = {1, 2, 3, 4}, other[4] = {1, 2, 3, 5};
  Matrix x = Matrix::Zero(kSize, 1), y = x, z = x;
  kernels().add_noise(kSize, x.data(), 0.5f, key);
  kernels().add_noise(kSize, y.data(), 0.5f, key);
  kernels().add_noise(kSize, z.data(), 0.5f, other);
  EXPECT_EQ(x, y);
  const auto moment = [](const Eigen::ArrayXd& a) { return a.mean(); };
  const Eigen::ArrayXd a = x.cast<double>().col(0).array(), b = z.cast<double>().col(0).array();
  EXPECT_NEAR(moment(a), 0, 0.005);
  EXPECT_NEAR(moment(a.square()), 0.25, 0.003);
  EXPECT_NEAR(moment(a.square().square()) / 0.0625, 3 - 0.3, 0.05);
  EXPECT_NEAR(moment(a * b), 0, 0.003) << "another key, other noise";
  EXPECT_NEAR(moment(a.head(kSize - 1) * a.tail(kSize - 1)), 0, 0.003) << "neighbours";
  const auto words = philox4x32({0, 0, 3, 4}, {1, 2});
  int bytes = 0;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<int>(words[0] >> shift & 255u);
  EXPECT_NEAR(x(0), 0.5 * (bytes - 510) / 147.8, 1e-4) << "the same Philox as base/rng.h";
}

TEST(Kernels, BothWidthsGiveTheSameBits) {
  const Kernels* wide = kernels_v4();
  if (wide == nullptr) GTEST_SKIP() << "this machine has no AVX-512";
  const Kernels& narrow = kernels_v3();
  const auto same = [](const Matrix& a, const Matrix& b) {
    return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(float)) == 0;
  };
  for (const Shape& s : all_shapes()) {
    const Matrix a = random_matrix(s.m, s.k, 1), b = random_matrix(s.k, s.n, 2);
    const Packed packed{a};
    Matrix one = Matrix::Zero(s.m, s.n), two = one;
    narrow.product(s.m, s.n, s.k, packed.data(), b.data(), 1, s.k, one.data(), s.m);
    wide->product(s.m, s.n, s.k, packed.data(), b.data(), 1, s.k, two.data(), s.m);
    EXPECT_TRUE(same(one, two)) << "product " << s.m << 'x' << s.n << 'x' << s.k;
  }
  const Matrix keys = random_matrix(64, 30, 4, 5), query = random_matrix(64, 1, 5, 5),
               v = random_matrix(64, 1, 6), ds = random_matrix(30, 1, 7);
  Matrix scores[2], dkeys[2], dquery[2], dv[2], weights[2];
  for (const int i : {0, 1}) {
    const Kernels& k = i == 0 ? narrow : *wide;
    scores[i].resize(30, 1);
    k.attend(64, 30, keys.data(), query.data(), v.data(), scores[i].data());
    dkeys[i] = Matrix::Zero(64, 30), dquery[i] = Matrix::Zero(64, 1), dv[i] = Matrix::Zero(64, 1);
    k.attend_backward(64, 30, keys.data(), query.data(), v.data(), ds.data(), dkeys[i].data(),
                      dquery[i].data(), dv[i].data());
    weights[i] = random_matrix(64, 1, 8, 40);
    float peak = 0;
    const float total = k.exponentials(64, weights[i].data(), &peak);
    weights[i](0) +=
        total + peak + static_cast<float>(k.find_running_sum(64, weights[i].data(), 0.5f * total));
  }
  EXPECT_TRUE(same(scores[0], scores[1]));
  EXPECT_TRUE(same(dkeys[0], dkeys[1]));
  EXPECT_TRUE(same(dquery[0], dquery[1]));
  EXPECT_TRUE(same(dv[0], dv[1]));
  EXPECT_TRUE(same(weights[0], weights[1]));
}

}  // namespace
}  // namespace emplace::policy
