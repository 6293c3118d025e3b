// Goal: kernels that move data move every element to its place and write nothing else; masks and constants
// have their defined values. Method: seeded random views against index arithmetic; small cases by hand.
#include <gtest/gtest.h>

#include <numeric>

#include "executor/cpu/kernels/movement/copy_loop.h"
#include "tests/executor/cpu/random_operand.h"

namespace emplace::cpu {
namespace {

Values counted(const Operand& operand) {
  Values values(static_cast<std::size_t>(operand.elements()));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

const DType kDtypes[] = {DType::kF32, DType::kF64, DType::kI64, DType::kI16, DType::kU8};

TEST(MovementKernels, PackRandomViews) {
  Rng rng{41, Purpose::kTest};
  for (int round = 0; round < 400; ++round) {
    const DType dtype = kDtypes[rng.below(std::size(kDtypes))];
    const Operand in = random_view(random_shape(rng, 5, 80), rng, dtype);
    const Values values = shared_places(in, integer_values(in, rng, 0, 100));
    ASSERT_EQ(run_kernel({"aten::clone", "{}", {in}, {packed(in.shape, dtype)}}, {values}).at(0), values);
  }
}

TEST(MovementKernels, TransposeLargeMatricesOfEverySize) {
  Rng rng{42, Purpose::kTest};
  for (const DType dtype : kDtypes) {
    for (const auto& [rows, columns] : {std::pair{130, 67}, {64, 64}, {200, 3}, {7, 150}}) {
      const Operand in = permuted({2, rows, columns}, {0, 2, 1}, 0, dtype);
      const Values values = integer_values(in, rng, 0, 100);
      ASSERT_EQ(run_kernel({"aten::clone", "{}", {in}, {packed(in.shape, dtype)}}, {values}).at(0), values);
    }
  }
}

TEST(MovementKernels, TransposesReorderDimensions) {
  Rng rng{43, Purpose::kTest};
  for (int round = 0; round < 200; ++round) {
    const Operand in = random_view(random_shape(rng, 4, 40), rng);
    std::vector<std::size_t> order(in.shape.size());
    std::iota(order.begin(), order.end(), 0);
    rng.shuffle(order);
    std::vector<std::int64_t> shape;
    std::string perm;
    for (const std::size_t d : order) {
      shape.push_back(in.shape[d]);
      perm += (perm.empty() ? "" : ",") + std::to_string(d);
    }
    const Values values = shared_places(in, integer_values(in, rng, 0, 1000));
    Values wanted(values.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::size_t rest = i, from = 0;
      std::vector<std::size_t> at(shape.size());
      for (std::size_t d = shape.size(); d-- > 0; rest /= static_cast<std::size_t>(shape[d])) {
        at[order[d]] = rest % static_cast<std::size_t>(shape[d]);
      }
      for (std::size_t d = 0; d < at.size(); ++d) from = from * static_cast<std::size_t>(in.shape[d]) + at[d];
      wanted[i] = values[from];
    }
    ASSERT_EQ(run_kernel({"Transpose", "{\"perm\":[" + perm + "]}", {in}, {packed(shape)}}, {values}).at(0),
              wanted);
  }
}

// The parts of a split are joined again, along every dimension.
TEST(MovementKernels, SplitAndCatAreInverse) {
  Rng rng{44, Purpose::kTest};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> shape = random_shape(rng, 4, 30);
    if (shape.empty()) continue;
    const std::size_t dim = rng.below(static_cast<std::uint32_t>(shape.size()));
    const Operand whole = random_view(shape, rng);
    const Values values = shared_places(whole, integer_values(whole, rng, 0, 1000));
    std::vector<Operand> parts, views;
    for (std::int64_t left = shape[dim]; left > 0;) {
      std::vector<std::int64_t> part = shape;
      part[dim] = 1 + rng.below(static_cast<std::uint32_t>(left));
      left -= part[dim];
      parts.push_back(packed(part));
      std::vector<std::size_t> order(part.size());
      std::iota(order.begin(), order.end(), 0);
      rng.shuffle(order);
      views.push_back(permuted(part, order));
    }
    const std::string attrs = "{\"dim\":" + std::to_string(dim) + "}";
    const auto pieces = run_kernel({"aten::unsafe_split", attrs, {whole}, parts}, {values});
    ASSERT_EQ(pieces.size(), parts.size());
    ASSERT_EQ(run_kernel({"aten::cat", attrs, views, {packed(shape)}}, pieces).at(0), values);
  }
}

TEST(MovementKernels, StackAndUnbindAreInverse) {
  const Operand row = permuted({3, 2}, {1, 0}), stacked = packed({3, 4, 2});
  const std::vector<Values> rows{
      {1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}, {0, 0, 1, 1, 2, 2}, {5, 4, 3, 2, 1, 0}};
  const auto made = run_kernel({"aten::stack", R"({"dim":1})", {row, row, row, row}, {stacked}}, rows);
  EXPECT_EQ(made.at(0), (Values{1, 2, 7, 8, 0, 0, 5, 4, 3, 4, 9, 10, 1, 1, 3, 2, 5, 6, 11, 12, 2, 2, 1, 0}));
  const std::vector<Operand> out(4, packed({3, 2}));
  EXPECT_EQ(run_kernel({"aten::unbind", R"({"dim":1})", {stacked}, out}, made), rows);
}

TEST(MovementKernels, PadsFillAndCrop) {
  const Operand x = packed({2, 2});
  const Values values{1, 2, 3, 4};
  EXPECT_EQ(
      run_kernel({"aten::constant_pad_nd", R"({"pad":[1,0,0,1],"value":9})", {x}, {packed({3, 3})}}, {values})
          .at(0),
      (Values{9, 1, 2, 9, 3, 4, 9, 9, 9}));
  EXPECT_EQ(run_kernel({"aten::constant_pad_nd", R"({"pad":[-1,2]})", {x}, {packed({2, 3})}}, {values}).at(0),
            (Values{2, 0, 0, 4, 0, 0}));
  EXPECT_EQ(run_kernel({"Pad", "{}", {x, packed({4}, DType::kI64)}, {packed({2, 3})}}, {values, {0, 0, 0, 1}})
                .at(0),
            (Values{1, 2, 0, 3, 4, 0}));
  EXPECT_NE(refusal({"Pad", R"({"mode":"reflect"})", {x}, {packed({4, 4})}}).find("reflect"),
            std::string::npos);
  EXPECT_NE(refusal({"aten::constant_pad_nd", R"({"pad":[1,1]})", {x}, {packed({2, 3})}}).find("shape"),
            std::string::npos);
}

TEST(MovementKernels, SlicesAndTheirGradientsUseTheRightPlaces) {
  const Operand x = packed({2, 5}), part = packed({2, 2});
  const Values values = counted(x);
  EXPECT_EQ(run_kernel({"aten::slice", R"({"dim":1,"start":1,"step":2})", {x}, {part}}, {values}).at(0),
            (Values{2, 4, 7, 9}));
  EXPECT_EQ(
      run_kernel({"aten::slice_backward", R"({"dim":1,"start":-2})", {part}, {x}}, {{1, 2, 3, 4}}).at(0),
      (Values{0, 0, 0, 1, 2, 0, 0, 0, 3, 4}));
  EXPECT_EQ(
      run_kernel({"aten::slice_backward", R"({"dim":1,"start":1,"step":3})", {part}, {x}}, {{1, 2, 3, 4}})
          .at(0),
      (Values{0, 1, 0, 0, 2, 0, 3, 0, 0, 4}));
  EXPECT_EQ(
      run_kernel({"aten::select_backward", R"({"dim":1,"index":-1})", {packed({2})}, {x}}, {{8, 9}}).at(0),
      (Values{0, 0, 0, 0, 8, 0, 0, 0, 0, 9}));
  EXPECT_EQ(run_kernel({"aten::flip", R"({"dims":[1]})", {x}, {x}}, {values}).at(0),
            (Values{5, 4, 3, 2, 1, 10, 9, 8, 7, 6}));
  EXPECT_NE(
      refusal({"aten::slice_backward", R"({"dim":1,"start":4})", {part}, {x}}).find("exceeds the tensor"),
      std::string::npos);
  EXPECT_NE(refusal({"aten::select_backward", R"({"dim":1,"index":5})", {packed({2})}, {x}}).find("index"),
            std::string::npos);
}

TEST(MovementKernels, ExpandAndTileRepeat) {
  const Operand x = packed({2, 1}), out = packed({2, 2, 3});
  EXPECT_EQ(run_kernel({"Expand", "{}", {x}, {out}}, {{1, 2}}).at(0),
            (Values{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(run_kernel({"Tile", "{}", {packed({1, 2}), packed({2}, DType::kI64)}, {packed({2, 4})}},
                       {{1, 2}, {2, 2}})
                .at(0),
            (Values{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(run_kernel({"aten::pixel_shuffle", "{}", {packed({1, 4, 1, 2})}, {packed({1, 1, 2, 4})}},
                       {{1, 2, 3, 4, 5, 6, 7, 8}})
                .at(0),
            (Values{1, 3, 2, 4, 5, 7, 6, 8}));
}

TEST(MovementKernels, RefuseWithAReason) {
  const Operand x = packed({2, 3}), wholes = packed({2, 3}, DType::kI64);
  EXPECT_EQ(refusal({"aten::clone", "{}", {x}, {wholes}}), "aten::clone: cannot convert from f32 to i64");
  EXPECT_NE(refusal({"aten::cat", R"({"dim":0})", {x, x}, {packed({3, 3})}}).find("does not fit"),
            std::string::npos);
  EXPECT_NE(refusal({"aten::cat", R"({"dim":0})", {x}, {packed({3, 3})}}).find("do not fill"),
            std::string::npos);
  EXPECT_NE(refusal({"Transpose", R"({"perm":[0,0]})", {x}, {x}}).find("order"), std::string::npos);
  EXPECT_NE(refusal({"aten::unsafe_split", R"({"dim":1})", {x}, {x, x}}).find("output 1"), std::string::npos);
}

TEST(ResizeKernels, KeepLinearFunctionsAndTheirGradientIsTheTranspose) {
  const Operand small = packed({1, 1, 3, 4}), large = packed({1, 1, 5, 7});
  Rng rng{45, Purpose::kTest};
  const Values x = normal_values(small, rng), g = normal_values(large, rng);
  for (const char* type : {"aten::upsample_bilinear2d", "aten::upsample_nearest2d"}) {
    const auto y = run_kernel({type, "{}", {small}, {large}}, {x}).at(0);
    const auto dx = run_kernel({std::string{type} + "_backward", "{}", {large}, {small}}, {g}).at(0);
    EXPECT_NEAR(std::inner_product(y.begin(), y.end(), g.begin(), 0.0),
                std::inner_product(x.begin(), x.end(), dx.begin(), 0.0), 1e-5)
        << type;
  }
  const auto line = run_kernel({"Resize",
                                R"({"mode":"linear","coordinate_transformation_mode":"align_corners"})",
                                {packed({1, 1, 1, 3})},
                                {packed({1, 1, 1, 5})}},
                               {{0, 2, 4}});
  EXPECT_EQ(line.at(0), (Values{0, 1, 2, 3, 4}));
  EXPECT_NE(refusal({"Resize", R"({"mode":"cubic"})", {small}, {large}}).find("cubic"), std::string::npos);
}

TEST(CreationKernels, MakeConstantsShapesAndMasksOfHalfOnes) {
  const Operand x = packed({101, 100}), wholes = packed({2}, DType::kI64);
  EXPECT_EQ(run_kernel({"aten::ones_like", "{}", {wholes}, {wholes}}, {{5, 6}}).at(0), (Values{1, 1}));
  EXPECT_EQ(run_kernel({"aten::full", R"({"fill_value":-3})", {}, {wholes}}, {}).at(0), (Values{-3, -3}));
  EXPECT_EQ(run_kernel({"aten::empty_like", "{}", {wholes}, {wholes}}, {{5, 6}}).at(0), (Values{0, 0}));
  EXPECT_EQ(run_kernel({"Shape", "{}", {x}, {wholes}}, {Values(10100, 0.0)}).at(0), (Values{101, 100}));
  for (const double p : {0.0, 0.1, 0.5, 1.0}) {
    const auto mask =
        run_kernel({"aten::bernoulli", "{\"p\":" + std::to_string(p) + "}", {x}, {x}}, {Values(10100, 0.0)})
            .at(0);
    double ones = 0;
    for (const double value : mask) {
      ASSERT_TRUE(value == 0 || value == 1);
      ones += value;
    }
    EXPECT_NEAR(ones / 10100, p, p * (1 - p) / 10) << p;
  }
  const Operand truth = packed({101, 100}, DType::kBool);
  const auto dropped =
      run_kernel({"aten::native_dropout", R"({"p":0.75})", {x}, {x, truth}}, {Values(10100, 2.0)});
  for (std::size_t i = 0; i < 10100; ++i) ASSERT_EQ(dropped[0][i], dropped[1][i] * 8);
  EXPECT_NE(refusal({"aten::bernoulli", R"({"p":2})", {x}, {x}}).find("probability"), std::string::npos);
  EXPECT_EQ(refusal({"aten::full", "{}", {}, {packed({2}, DType::kBF16)}}),
            "aten::full: only 0 is supported as a fill value in bf16");
}

}  // namespace
}  // namespace emplace::cpu
