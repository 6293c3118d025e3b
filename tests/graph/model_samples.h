#pragma once
/// The papers' models in the forms that their tests need.

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/models/catalogue.h"

namespace emplace::models {

inline constexpr Recording kTraced{.granularity = Granularity::kAten, .training = true};
inline constexpr Recording kTensorFlowStep{.granularity = Granularity::kTensorFlow, .training = true};

inline OpGraph made(std::string_view model, const ModelSizes& sizes, Recording recording) {
  auto graph = model_graph(*find_model(model), sizes, recording);
  EXPECT_TRUE(graph.ok()) << graph.error().context;
  return std::move(graph).value();
}

inline std::vector<OpId> ops_of(const OpGraph& graph) {
  std::vector<OpId> ops;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) ops.push_back(OpId{i});
  return ops;
}

struct Totals {
  std::int64_t flops = 0, parameter_bytes = 0, state_bytes = 0;
};
inline Totals totals_of(const OpGraph& graph) {
  Totals totals;
  for (const OpId op : ops_of(graph)) {
    totals.flops += graph.flops(op);
    totals.state_bytes += graph.param_bytes(op);
    if (graph.type_name(op) == "Parameter") totals.parameter_bytes += graph.param_bytes(op);
  }
  return totals;
}

/// Every model, small.
inline std::vector<std::pair<std::string_view, ModelSizes>> small_models() {
  return {{"inception-v3", {.batch = 4}},        {"resnet-152", {.batch = 4}},
          {"rnnlm", {.batch = 4, .steps = 3}},   {"nmt", {.layers = 3, .batch = 4, .steps = 3}},
          {"nasnet", {.layers = 1, .batch = 4}}, {"cifar10-cnn", {.batch = 4}}};
}

}  // namespace emplace::models
