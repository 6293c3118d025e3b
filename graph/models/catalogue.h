#pragma once
/// The papers' models by name, with adjustable sizes: the models of `emplace generate MODEL`.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/tape/training_tape.h"

namespace emplace::models {

/// A model and its default sizes; empty if an option does not apply.
struct ModelFacts {
  std::string_view name;     ///< Name on the command line.
  std::string_view summary;  ///< Description in one line.
  std::int64_t batch;
  std::optional<std::int64_t> layers;  ///< LSTM layers; nasnet: normal cells per stack.
  std::optional<std::int64_t> steps;   ///< Unrolled length.
  std::optional<std::int64_t> hidden;  ///< Units of an LSTM cell.
  Optimizer optimizer;
  std::optional<std::int64_t> split = {};  ///< Parts of the convolutions.
};
std::span<const ModelFacts> all_models();
/// The model `name`, or null.
const ModelFacts* find_model(std::string_view name);

inline constexpr std::int64_t kMaxBatch = 65'536, kMaxLayers = 32, kMaxSteps = 99, kMaxHidden = 16'384,
                              kMaxSplit = 64;

struct ModelSizes {
  std::optional<std::int64_t> layers, batch, steps, hidden, split;  ///< Empty: the model's default.
  std::optional<Optimizer> optimizer;                               ///< Empty: the model's default.
};

/// Builds a graph with a name such as "nmt-8layer-40step-bs64-tensorflow"; a pure function of its arguments.
/// `meta` has model, sizes, granularity, kind ("training" or "forward") and optimizer. Name and `meta` have
/// the hidden size and the split, and the name has the optimizer, only if they are not the model's own.
/// Errors (kInvalid): an option that does not apply to the model or to a forward pass, or is out of range.
/// Any thread.
Result<OpGraph> model_graph(const ModelFacts& model, const ModelSizes& sizes, Recording recording);

}  // namespace emplace::models
