// Goal: state that is made on the device has the bytes that the host would write. Method: a graph with every
// kind of state in every type, through the twins of the kernels, which run the device's functors.
#include <gtest/gtest.h>

#include "executor/cuda/kernels/kernel.h"
#include "executor/kernel/initial_values.h"
#include "graph/lowering.h"

namespace emplace::cuda {
namespace {

OpGraph all_kinds_of_state() {
  OpGraphBuilder builder;
  std::uint32_t ops = 0;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI64, DType::kI32,
                            DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    const std::string type_name = std::to_string(static_cast<int>(dtype));
    for (const auto& [type, shape] : {std::pair{"Parameter", std::vector<std::int64_t>{7, 33}},
                                      {"Parameter", {129}},
                                      {"Buffer", {5, 5, 5}},
                                      {"OptimizerState", {1'003}},
                                      {"Constant", {}},
                                      {"Input", {64, 3}}}) {
      builder.add({.name = type + type_name + "." + std::to_string(ops++) + "weight",
                   .type = type,
                   .outputs = {{dtype, shape}}});
    }
  }
  // Integers that index rows are below the number of rows.
  builder.add({.name = "table", .type = "Parameter", .outputs = {{DType::kF32, {11, 4}}}});
  builder.add({.name = "rows", .type = "Input", .outputs = {{DType::kI64, {1'000}}}});
  builder.add({.name = "lookup",
               .type = "aten::embedding",
               .inputs = {{ops, 0}, {ops + 1, 0}},
               .outputs = {{DType::kF32, {1'000, 4}}}});
  return *std::move(builder).build();
}

TEST(InitialFill, DeviceWritesTheBytesOfTheHost) {
  const OpGraph graph = all_kinds_of_state();
  const LoweredGraph lowered{graph};
  std::size_t compared = 0, different_from_zero = 0;
  for (const std::uint64_t seed : {0u, 17u}) {
    const InitialValues values{lowered, seed};
    for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
      const BufferId buffer{b};
      if (graph.type_name(lowered.owner(buffer)) == "aten::embedding") continue;
      const auto bytes = static_cast<std::size_t>(lowered.bytes(buffer));
      std::vector<std::byte> host(bytes, std::byte{0xff}), device(bytes, std::byte{0xee});
      values.fill(buffer, host.data());
      std::byte* const to = device.data();
      make_fill(values.fill_of(buffer))->run({{}, {&to, 1}, nullptr});
      EXPECT_EQ(host, device) << graph.name(lowered.owner(buffer));
      ++compared;
      different_from_zero += host != std::vector<std::byte>(bytes) ? 1 : 0;
    }
  }
  EXPECT_EQ(compared, 2 * 62u);
  EXPECT_GT(different_from_zero, 100u);
}

}  // namespace
}  // namespace emplace::cuda
