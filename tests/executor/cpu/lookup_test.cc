// Goal: lookups read and add the right slices, and an index out of range never leads outside of the memory.
// Method: seeded random tables, views and indices against index arithmetic; guard bytes of run_kernel.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/executor/cpu/random_operand.h"

namespace emplace::cpu {
namespace {

/// The index that kernels use: from the end if negative, and limited to the nearest valid one.
std::size_t inside(double index, std::int64_t limit) {
  auto i = static_cast<std::int64_t>(index);
  if (i < 0) i += limit;
  return static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, limit - 1));
}

TEST(LookupKernels, GatherTakesSlicesAlongAnyDimension) {
  Rng rng{51, Purpose::kTest};
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> shape = random_shape(rng, 4, 20);
    if (shape.empty()) continue;
    const std::size_t axis = rng.below(static_cast<std::uint32_t>(shape.size()));
    const Operand data = random_view(shape, rng);
    const Operand index =
        random_view(random_shape(rng, 2, 10), rng, rng.below(2) == 0 ? DType::kI64 : DType::kI32);
    const Values values = shared_places(data, integer_values(data, rng, 0, 1000));
    const Values indices =
        shared_places(index, integer_values(index, rng, -2 * shape[axis] - 3, 2 * shape[axis] + 3));
    std::vector<std::int64_t> out(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis));
    out.insert(out.end(), index.shape.begin(), index.shape.end());
    out.insert(out.end(), shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end());
    std::size_t before = 1, behind = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (d < axis) before *= static_cast<std::size_t>(shape[d]);
      if (d > axis) behind *= static_cast<std::size_t>(shape[d]);
    }
    Values wanted;
    for (std::size_t o = 0; o < before; ++o) {
      for (const double j : indices) {
        for (std::size_t i = 0; i < behind; ++i) {
          wanted.push_back(
              values[(o * static_cast<std::size_t>(shape[axis]) + inside(j, shape[axis])) * behind + i]);
        }
      }
    }
    const std::string attrs = "{\"axis\":" + std::to_string(axis) + "}";
    ASSERT_EQ(run_kernel({"Gather", attrs, {data, index}, {packed(out)}}, {values, indices}).at(0), wanted);
  }
}

TEST(LookupKernels, EmbeddingBackwardAddsRowsInOrder) {
  Rng rng{52, Purpose::kTest};
  for (int round = 0; round < 200; ++round) {
    const std::int64_t rows = 1 + rng.below(12), wide = 1 + rng.below(20);
    const Operand index = random_view(random_shape(rng, 2, 30), rng, DType::kI64);
    std::vector<std::int64_t> shape = index.shape;
    shape.push_back(wide);
    const Operand grads = random_view(shape, rng), out = packed({rows, wide});
    const std::int64_t padding = rng.below(2) == 0 ? -1 : rng.below(static_cast<std::uint32_t>(rows));
    const Values indices = shared_places(index, integer_values(index, rng, -2, rows + 2));
    const Values g = shared_places(grads, integer_values(grads, rng, -50, 50));
    Values wanted(static_cast<std::size_t>(rows * wide), 0.0);
    for (std::size_t j = 0; j < indices.size(); ++j) {
      if (padding >= 0 && static_cast<std::int64_t>(indices[j]) == padding) continue;
      for (std::size_t c = 0; c < static_cast<std::size_t>(wide); ++c) {
        wanted[inside(indices[j], rows) * static_cast<std::size_t>(wide) + c] +=
            g[j * static_cast<std::size_t>(wide) + c];
      }
    }
    const std::string attrs =
        "{\"num_weights\":" + std::to_string(rows) + ",\"padding_idx\":" + std::to_string(padding) + "}";
    ASSERT_EQ(
        run_kernel({"aten::embedding_dense_backward", attrs, {grads, index}, {out}}, {g, indices}).at(0),
        wanted);
  }
}

TEST(LookupKernels, GatherAndScatterSingleElements) {
  Rng rng{53, Purpose::kTest};
  for (int round = 0; round < 200; ++round) {
    const std::int64_t rows = 1 + rng.below(6), columns = 1 + rng.below(6), taken = 1 + rng.below(9);
    const Operand table = random_view({rows, columns}, rng),
                  index = random_view({taken, columns}, rng, DType::kI64);
    const Operand source = random_view({taken, columns}, rng);
    const Values values = shared_places(table, integer_values(table, rng, 0, 100));
    const Values indices = shared_places(index, integer_values(index, rng, -9, 9));
    const Values put = shared_places(source, integer_values(source, rng, 0, 100));
    Values found, written = values, added = values;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::size_t place = inside(indices[i], rows) * static_cast<std::size_t>(columns) +
                                i % static_cast<std::size_t>(columns);
      found.push_back(values[place]);
      written[place] = put[i];
      added[place] += put[i];
    }
    const Operand out = packed({rows, columns});
    ASSERT_EQ(run_kernel({"aten::gather", R"({"dim":0})", {table, index}, {packed({taken, columns})}},
                         {values, indices})
                  .at(0),
              found);
    ASSERT_EQ(
        run_kernel({"aten::scatter", R"({"dim":0})", {table, index, source}, {out}}, {values, indices, put})
            .at(0),
        written);
    ASSERT_EQ(
        run_kernel({"ScatterElements", R"({"axis":0,"reduction":"add"})", {table, index, source}, {out}},
                   {values, indices, put})
            .at(0),
        added);
    ASSERT_EQ(run_kernel({"aten::scatter_add", R"({"dim":0})", {table, index, source}, {out}},
                         {values, indices, put})
                  .at(0),
              added);
  }
}

TEST(LookupKernels, ArgMaxRunningSumsAndOneHot) {
  const Operand x = packed({2, 3}), turned = permuted({2, 3}, {1, 0}), rows = packed({2}, DType::kI64),
                values = packed({2});
  const Values v{3, 7, 7, -1, -5, -2};
  for (const Operand& in : {x, turned}) {
    EXPECT_EQ(run_kernel({"aten::argmax", R"({"dim":1})", {in}, {rows}}, {v}).at(0), (Values{1, 0}))
        << "the first of equals";
    EXPECT_EQ(run_kernel({"ArgMin", R"({"axis":-1})", {in}, {packed({2, 1}, DType::kI64)}}, {v}).at(0),
              (Values{0, 1}));
    EXPECT_EQ(run_kernel({"aten::max", R"({"dim":1})", {in}, {values, rows}}, {v}),
              (std::vector<Values>{{7, -1}, {1, 0}}));
    EXPECT_EQ(run_kernel({"aten::cumsum", R"({"dim":1})", {in}, {x}}, {v}).at(0),
              (Values{3, 10, 17, -1, -6, -8}));
    EXPECT_EQ(run_kernel({"CumSum", R"({"axis":0})", {in}, {x}}, {v}).at(0), (Values{3, 7, 7, 2, 2, 5}));
  }
  EXPECT_EQ(run_kernel({"aten::argmax", "{}", {x}, {packed({}, DType::kI64)}}, {v}).at(0), Values{1});
  EXPECT_EQ(run_kernel({"aten::max", "{}", {x}, {packed({})}}, {v}).at(0), Values{7});
  EXPECT_EQ(run_kernel({"aten::min", "{}", {x, packed({3})}, {x}}, {v, {0, 9, 9}}).at(0),
            (Values{0, 7, 7, -1, -5, -2}));
  EXPECT_EQ(run_kernel({"aten::max", R"({"dim":1})", {x}, {values, rows}}, {{1, NAN, 2, 3, 4, 5}}).at(1),
            (Values{1, 2}))
      << "NaN wins";
  const Operand hot = packed({2, 3}, DType::kI64), pair = packed({2}), depth = packed({1}, DType::kI64);
  EXPECT_EQ(run_kernel({"aten::one_hot", "{}", {rows}, {hot}}, {{2, 99}}).at(0), (Values{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(run_kernel({"OneHot", "{}", {rows, depth, pair}, {x}}, {{-3, 1}, {3}, {-1, 5}}).at(0),
            (Values{5, -1, -1, -1, 5, -1}));
  EXPECT_NE(refusal({"ArgMax", R"({"axis":1})", {packed({2, 0})}, {rows}}).find("is empty"),
            std::string::npos);
  EXPECT_NE(refusal({"CumSum", R"({"axis":1,"reverse":1})", {x}, {x}}).find("reverse"), std::string::npos);
}

TEST(LookupKernels, ScatterAndAddSlicesByIndex) {
  const Operand table = packed({3, 2}), turned = permuted({3, 2}, {1, 0}), two = packed({2}, DType::kI64);
  const Values t{1, 2, 3, 4, 5, 6}, u{10, 20, 30, 40};
  EXPECT_EQ(
      run_kernel(
          {"aten::index_add", R"({"dim":0,"alpha":2})", {turned, two, permuted({2, 2}, {1, 0})}, {table}},
          {t, {2, 2}, u})
          .at(0),
      (Values{1, 2, 3, 4, 85, 126}));
  EXPECT_EQ(run_kernel({"aten::index_copy", R"({"dim":-1})", {table, two, table}, {table}},
                       {t, {1, 0}, {7, 8, 9, 10, 11, 12}})
                .at(0),
            (Values{8, 7, 10, 9, 12, 11}));
  const Operand tuples = packed({2, 2}, DType::kI64), rows = packed({2, 1}, DType::kI64);
  EXPECT_EQ(
      run_kernel({"ScatterND", "{}", {table, tuples, packed({2})}, {table}}, {t, {0, 1, -1, 99}, {7, 8}})
          .at(0),
      (Values{1, 7, 3, 4, 5, 8}));
  EXPECT_EQ(run_kernel({"ScatterND", R"({"reduction":"add"})", {table, rows, packed({2, 2})}, {table}},
                       {t, {1, 1}, u})
                .at(0),
            (Values{1, 2, 43, 64, 5, 6}));
  EXPECT_NE(refusal({"ScatterND", "{}", {table, packed({1, 3}, DType::kI64), packed({1})}, {table}})
                .find("too many"),
            std::string::npos);
  EXPECT_NE(refusal({"aten::index_add", "{}", {table, two, packed({3, 2})}, {table}}).find("differ in size"),
            std::string::npos);
}

TEST(LookupKernels, RefusalsNameTheFault) {
  const Operand table = packed({4, 2}), index = packed({3}, DType::kI64), out = packed({3, 2});
  EXPECT_NE(refusal({"aten::embedding", "{}", {table, packed({3})}, {out}}).find("integer indices"),
            std::string::npos);
  EXPECT_NE(refusal({"aten::embedding", "{}", {table, index}, {packed({2, 2})}}).find("shape"),
            std::string::npos);
  EXPECT_NE(refusal({"aten::embedding", "{}", {packed({0, 2}), index}, {out}}).find("empty dimension"),
            std::string::npos);
  EXPECT_NE(
      refusal({"aten::embedding_dense_backward", R"({"scale_grad_by_freq":true})", {out, index}, {table}})
          .find("freq"),
      std::string::npos);
  EXPECT_NE(refusal({"aten::embedding_dense_backward", "{}", {packed({2, 2}), index}, {table}})
                .find("differ in count"),
            std::string::npos);
  EXPECT_NE(refusal({"aten::scatter",
                     R"({"reduce":"multiply"})",
                     {table, packed({1, 2}, DType::kI64), packed({1, 2})},
                     {table}})
                .find("multiply"),
            std::string::npos);
  const Operand brain = packed({4, 2}, DType::kBF16);
  EXPECT_EQ(refusal({"aten::gather", "{}", {brain, packed({4, 2}, DType::kI64)}, {brain}}),
            "aten::gather: no kernel for bf16");
}

}  // namespace
}  // namespace emplace::cpu
