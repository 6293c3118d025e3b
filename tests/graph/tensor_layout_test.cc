// Goal: a view shows exactly the elements that its op defines. Method: random chains of views over a numbered
// tensor, read by their layout and by a plain interpreter that moves the data at every op; the views of real
// graphs all have a layout.
#include "graph/tensor_layout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "graph/formats/graph_file.h"

namespace emplace {
namespace {

using Dims = std::vector<std::int64_t>;

/// A tensor with its data, row-major.
struct Plain {
  Dims shape;
  std::vector<std::int64_t> data;

  std::int64_t at(const Dims& where) const {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + where[d];
    return data[static_cast<std::size_t>(flat)];
  }
};

/// Every index of a shape, in row-major order.
std::vector<Dims> indices(const Dims& shape) {
  std::vector<Dims> all{{}};
  for (const std::int64_t size : shape) {
    std::vector<Dims> next;
    for (const Dims& prefix : all) {
      for (std::int64_t i = 0; i < size; ++i) {
        next.push_back(prefix);
        next.back().push_back(i);
      }
    }
    all = std::move(next);
  }
  return all;
}

/// Builds the output of a view: `from` gives the input element of each output element.
template <class From>
Plain made(Dims shape, const Plain& in, From from) {
  Plain out{std::move(shape), {}};
  for (const Dims& where : indices(out.shape)) out.data.push_back(in.at(from(where)));
  return out;
}

std::vector<std::int64_t> read(const TensorLayout& layout, const std::vector<std::int64_t>& memory) {
  std::vector<std::int64_t> values = memory;
  for (const StridedLayout& step : layout.steps) {
    std::vector<std::int64_t> next;
    for (const Dims& where : indices(step.shape)) {
      std::int64_t at = step.offset;
      for (std::size_t d = 0; d < where.size(); ++d) at += where[d] * step.strides[d];
      next.push_back(values.at(static_cast<std::size_t>(at)));
    }
    values = std::move(next);
  }
  return values;
}

class ViewChain {
 public:
  explicit ViewChain(std::uint64_t seed) : rng_{seed, Purpose::kTest} {
    Dims shape;
    for (std::uint32_t d = 0, dims = 1 + rng_.below(3); d < dims; ++d) shape.push_back(1 + rng_.below(4));
    const std::int64_t count =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
    now_ = {shape, std::vector<std::int64_t>(static_cast<std::size_t>(count))};
    std::iota(now_.data.begin(), now_.data.end(), std::int64_t{0});
    memory_ = now_.data;
    builder_.add({.name = "base", .type = "Input", .inputs = {}, .outputs = {{DType::kF32, shape}}});
  }
  void grow() {
    const std::size_t dims = now_.shape.size();
    const std::size_t d = dims == 0 ? 0 : rng_.below(static_cast<std::uint32_t>(dims));
    const std::string dim = std::to_string(d);
    switch (rng_.below(dims == 0 ? 2 : 6)) {
      case 0: {  // Another shape: all in one row, or a new dimension of one.
        if (rng_.below(2) == 0)
          return add("aten::view", "{}", {static_cast<std::int64_t>(now_.data.size())}, now_.data);
        Dims shape = now_.shape;
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), 1);
        return add("aten::unsqueeze", "{\"dim\":" + dim + "}", shape, now_.data);
      }
      case 1: {  // Repeated along a new first dimension.
        Dims shape = now_.shape;
        shape.insert(shape.begin(), 2);
        return add("aten::expand", "{}", made(shape, now_, [](Dims where) {
                     where.erase(where.begin());
                     return where;
                   }));
      }
      case 2: {
        const std::size_t other = rng_.below(static_cast<std::uint32_t>(dims));
        Dims shape = now_.shape;
        std::swap(shape[d], shape[other]);
        return add("aten::transpose", "{\"dim0\":" + dim + ",\"dim1\":" + std::to_string(other) + "}",
                   made(shape, now_, [&](Dims where) {
                     std::swap(where[d], where[other]);
                     return where;
                   }));
      }
      case 3: {
        const std::int64_t start = rng_.below(static_cast<std::uint32_t>(now_.shape[d]));
        Dims shape = now_.shape;
        shape[d] = 1 + rng_.below(static_cast<std::uint32_t>(now_.shape[d] - start));
        return add("aten::slice", "{\"dim\":" + dim + ",\"start\":" + std::to_string(start) + "}",
                   made(shape, now_, [&](Dims where) {
                     where[d] += start;
                     return where;
                   }));
      }
      case 4: {  // Counted from the end.
        const std::int64_t back = 1 + rng_.below(static_cast<std::uint32_t>(now_.shape[d]));
        Dims shape = now_.shape;
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
        const std::string attrs =
            "{\"dim\":" + std::to_string(static_cast<std::int64_t>(d) - static_cast<std::int64_t>(dims)) +
            ",\"index\":" + std::to_string(-back) + "}";
        return add("aten::select", attrs, made(shape, now_, [&](Dims where) {
                     where.insert(where.begin() + static_cast<std::ptrdiff_t>(d), now_.shape[d] - back);
                     return where;
                   }));
      }
      default: {
        Dims order(dims);
        std::iota(order.begin(), order.end(), std::int64_t{0});
        rng_.shuffle(order);
        Dims shape;
        std::string list;
        for (const std::int64_t from : order) {
          shape.push_back(now_.shape[static_cast<std::size_t>(from)]);
          list += (list.empty() ? "" : ",") + std::to_string(from);
        }
        return add("aten::permute", "{\"dims\":[" + list + "]}", made(shape, now_, [&](const Dims& where) {
                     Dims inner(where.size());
                     for (std::size_t i = 0; i < where.size(); ++i)
                       inner[static_cast<std::size_t>(order[i])] = where[i];
                     return inner;
                   }));
      }
    }
  }
  void check() && {
    const OpGraph graph = *std::move(builder_).build();
    const auto layout = layout_in(graph, graph.output(OpId{last_}, 0), graph.output(OpId{0}, 0));
    ASSERT_TRUE(layout) << layout.error().context;
    EXPECT_EQ(read(*layout, memory_), now_.data);
    EXPECT_EQ(layout->steps.back().shape, now_.shape);
  }

 private:
  void add(const char* type, std::string attrs, Dims shape, std::vector<std::int64_t> data) {
    add(type, std::move(attrs), Plain{std::move(shape), std::move(data)});
  }
  void add(const char* type, std::string attrs, Plain shown) {
    now_ = std::move(shown);
    OpSpec op{.name = "v" + std::to_string(last_ + 1),
              .type = type,
              .inputs = {{last_, 0}},
              .outputs = {{DType::kF32, now_.shape}}};
    op.attrs_json = std::move(attrs);
    op.view = true;
    last_ = static_cast<std::uint32_t>(index(builder_.add(std::move(op))));
  }

  Rng rng_;
  OpGraphBuilder builder_;
  Plain now_;
  std::vector<std::int64_t> memory_;
  std::uint32_t last_ = 0;
};

TEST(TensorLayoutTest, ChainsOfViewsEqualMovedData) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    ViewChain chain{seed};
    for (std::uint64_t i = 0; i < 1 + seed % 5; ++i) chain.grow();
    std::move(chain).check();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(TensorLayoutTest, SplitsStartWhereThePreviousOnesEnd) {
  OpGraphBuilder builder;
  builder.add({.name = "base", .type = "Input", .inputs = {}, .outputs = {{DType::kF32, {2, 6}}}});
  OpSpec split{.name = "s",
               .type = "aten::split",
               .inputs = {{0, 0}},
               .outputs = {{DType::kF32, {2, 1}}, {DType::kF32, {2, 2}}, {DType::kF32, {2, 3}}}};
  split.attrs_json = "{\"dim\":1}";
  split.view = true;
  builder.add(std::move(split));
  const OpGraph graph = *std::move(builder).build();
  const auto third = layout_in(graph, graph.output(OpId{1}, 2), graph.output(OpId{0}, 0));
  ASSERT_TRUE(third);
  EXPECT_EQ(third->steps.front(), (StridedLayout{3, {2, 3}, {6, 1}}));
  EXPECT_FALSE(third->steps.front().is_packed());
}

TEST(TensorLayoutTest, EveryViewOfRealGraphsHasALayout) {
  for (const char* name :
       {"/configs/graphs/rnnlm-bs4.json.gz", "/configs/graphs/transformer_base-bs2-seq40.json.gz",
        "/configs/graphs/resnet50-bs2.json.gz", "/configs/graphs/nmt-2layer-bs64.json.gz"}) {
    const auto graph = load_graph(std::string{EMPLACE_SOURCE_DIR} + name);
    ASSERT_TRUE(graph) << graph.error().context;
    std::size_t views = 0;
    for (std::uint32_t i = 0; i < graph->num_ops(); ++i) {
      const OpId op{i};
      if (!graph->is_view(op) || graph->inputs(op).empty()) continue;
      for (std::size_t k = 0; k < graph->num_outputs(op); ++k) {
        const auto layout = layout_in(*graph, graph->output(op, k), graph->inputs(op)[0]);
        ASSERT_TRUE(layout) << layout.error().context;
        ++views;
      }
    }
    EXPECT_GT(views, 0u) << name;
  }
}

TEST(TensorLayoutTest, RefusesViewsThatDoNotFitTheirBase) {
  OpGraphBuilder builder;
  builder.add({.name = "a", .type = "Input", .inputs = {}, .outputs = {{DType::kF32, {4}}}});
  builder.add({.name = "b", .type = "Work", .inputs = {{0, 0}}, .outputs = {{DType::kF32, {4}}}});
  const OpGraph graph = *std::move(builder).build();
  const auto layout = layout_in(graph, graph.output(OpId{1}, 0), graph.output(OpId{0}, 0));
  ASSERT_FALSE(layout);
  EXPECT_NE(layout.error().context.find("op 'b'"), std::string::npos);
}

}  // namespace
}  // namespace emplace
