// Goal: signatures find their kernels, refusals state the reason, and views are copied element by element.
// Method: types that do not exist, attributes of the wrong kind; copies of random strides against a plain
// loop.
#include "executor/cpu/kernel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "executor/cpu/kernels/movement/copy_loop.h"
#include "executor/kernel/attributes.h"
#include "tests/executor/cpu/kernel_run.h"

namespace emplace::cpu {
namespace {

TEST(Kernel, UnknownTypeIsRefusedByName) {
  EXPECT_FALSE(has_kernel("aten::fft"));
  EXPECT_EQ(refusal({"aten::fft", "{}", {packed({2})}, {packed({2})}}), "aten::fft: no kernel on the CPU");
}

TEST(Kernel, IsPackedIgnoresStridesOfSingleElements) {
  EXPECT_TRUE(packed({}).is_packed());
  EXPECT_TRUE(packed({2, 3, 4}).is_packed());
  EXPECT_FALSE(permuted({2, 3}, {1, 0}).is_packed());
  EXPECT_TRUE(permuted({2, 1}, {1, 0}).is_packed()) << "strides of dimensions of size 1 do not matter";
  EXPECT_FALSE(permuted({2, 3}, {0, 1}, /*gap=*/1).is_packed());
  EXPECT_TRUE((Operand{DType::kF32, {0, 3}, {7, 9}}.is_packed())) << "no element is out of order";
  EXPECT_EQ(packed({0, 3}).elements(), 0);
}

TEST(KernelAttributes, AreReadByNameAndTheFirstWrongOneIsTheFault) {
  const Signature signature{
      "Pool", R"({"a":2,"b":[1,2],"c":true,"d":"same","e":0.5,"f":null,"g":[true]})", {}, {}};
  Attributes attributes{signature};
  EXPECT_EQ(attributes.integer("a", 9), 2);
  EXPECT_EQ(attributes.integers("a"), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(attributes.integers("b"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(attributes.flag("c", false));
  EXPECT_TRUE(attributes.flag("a", false));
  EXPECT_EQ(attributes.word("d", ""), "same");
  EXPECT_EQ(attributes.number("e", 0), 0.5);
  EXPECT_EQ(attributes.number("a", 0), 2.0);
  EXPECT_EQ(attributes.flags("g"), std::vector<bool>{true});
  EXPECT_FALSE(attributes.has("f")) << "null counts as absent";
  EXPECT_EQ(attributes.integer("f", 7), 7);
  ASSERT_FALSE(attributes.fault());
  EXPECT_EQ(attributes.integer("d", 5), 5);
  EXPECT_EQ(attributes.number("b", 1), 1);
  ASSERT_TRUE(attributes.fault());
  EXPECT_EQ(attributes.fault()->context, "Pool: attribute d is not an integer");
  const Signature broken{"Pool", "[1]", {}, {}};
  EXPECT_EQ(Attributes{broken}.fault()->context, "Pool: attributes are not a JSON object");
}

TEST(CopyLoop, CopiesEveryElementOfRandomViews) {
  Rng rng{11, Purpose::kTest};
  for (int round = 0; round < 300; ++round) {
    const DType dtype = std::array{DType::kBool, DType::kBF16, DType::kF32, DType::kI64}[rng.below(4)];
    std::vector<std::int64_t> shape(rng.below(5));
    for (auto& dim : shape) dim = rng.below(20) == 0 ? 0 : 1 + rng.below(rng.below(4) == 0 ? 40 : 5);
    std::vector<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    rng.shuffle(order);
    Operand source = permuted(shape, order, rng.below(3), dtype);
    for (auto& stride : source.strides) stride = rng.below(6) == 0 ? 0 : stride;

    std::int64_t places = 1;
    for (std::size_t d = 0; d < shape.size(); ++d)
      places += std::max<std::int64_t>(0, shape[d] - 1) * source.strides[d];
    const auto size = static_cast<std::size_t>(element_bytes(dtype));
    std::vector<std::byte> memory(static_cast<std::size_t>(places) * size);
    for (auto& byte : memory) byte = static_cast<std::byte>(rng());
    const auto copy = CopyLoop::packing({"a copy", "{}", {source}, {}}, source);
    ASSERT_TRUE(copy);
    std::vector<std::byte> target(static_cast<std::size_t>(source.bytes()) + 1, std::byte{0x5A});
    copy->run(target.data(), memory.data());
    ASSERT_EQ(target.back(), std::byte{0x5A});
    for (std::int64_t i = 0; i < source.elements(); ++i) {
      std::int64_t rest = i, place = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        place += rest % shape[d] * source.strides[d];
        rest /= shape[d];
      }
      ASSERT_EQ(std::memcmp(&target[static_cast<std::size_t>(i) * size],
                            &memory[static_cast<std::size_t>(place) * size], size),
                0)
          << "round " << round << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace emplace::cpu
