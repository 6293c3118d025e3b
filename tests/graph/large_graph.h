#pragma once
/// A synthetic graph of the size and the vocabulary of the largest traced steps: an unrolled network of 12
/// layers with scopes, attributes, weights read at every step, backward ops and updates. Shared by the
/// loader's test and bench.

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/rng.h"
#include "graph/op_graph.h"

namespace emplace::testing {

/// @pre ops >= 100. The same seed gives the same graph everywhere.
inline OpGraph large_graph(std::uint32_t ops, std::uint64_t seed = 7) {
  constexpr std::uint32_t kLayers = 12;
  Rng rng{seed, Purpose::kTest};
  OpGraphBuilder builder;
  builder.set_name("synthetic-" + std::to_string(ops)).set_source("tests/graph/large_graph.h");
  builder.set_meta_json(R"({"batch":64,"kind":"training"})");
  builder.reserve(ops);
  const auto name = [](const std::string& scope, std::uint32_t id) {
    return scope + "/op_" + std::to_string(id);
  };
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    OpSpec weight;
    weight.group = "decoder/l" + std::to_string(layer);
    weight.name = weight.group + "/weight";
    weight.type = "Parameter";
    weight.outputs = {{DType::kF32, {1024, 4096}}};
    weight.param_bytes = 4 * 1024 * 4096;
    builder.add(std::move(weight));
  }
  for (std::uint32_t id = kLayers; id < ops; ++id) {
    const std::uint32_t layer = id / 10 % kLayers, step = id / 10 / kLayers;
    const auto back = [&](std::uint32_t reach) {
      return EdgeSpec{id - 1 - rng.below(std::min(reach, id)), 0};
    };
    OpSpec op;
    op.group = "decoder/t" + std::to_string(step) + "/l" + std::to_string(layer);
    op.name = name(op.group, id);
    op.phase = id < ops / 3 ? Phase::kForward : id + kLayers < ops ? Phase::kBackward : Phase::kUpdate;
    switch (id % 5) {
      case 0:
        op.type = "aten::addmm";
        op.inputs = {back(3), back(40), {layer, 0}};
        op.outputs = {{DType::kF32, {64, 4096}}};
        op.attrs_json = R"({"alpha":1,"beta":1})";
        op.flops = std::int64_t{2} * 64 * 1024 * 4096;
        break;
      case 1:
        op.type = "aten::split";
        op.inputs = {back(1)};
        op.outputs.assign(4, {DType::kF32, {64, 1024}});
        op.attrs_json = R"({"dim":1,"view":true})";
        op.view = true;
        break;
      default:
        op.type = id % 5 == 2 ? "aten::sigmoid" : "aten::mul";
        op.inputs = {back(8), back(120)};
        op.outputs = {{DType::kF32, {64, 1024}}};
        op.flops = 64 * 1024;
    }
    if (op.phase == Phase::kUpdate) op.colocate = OpId{ops - 1 - id};
    builder.add(std::move(op));
  }
  return *std::move(builder).build();
}

}  // namespace emplace::testing
