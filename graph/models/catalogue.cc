#include "graph/models/catalogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "graph/models/networks.h"

namespace emplace::models {
namespace {

constexpr std::array<ModelFacts, 6> kModels{{
    {"inception-v3",
     "image classifier of factorised convolutions, 299x299",
     32,
     {},
     {},
     {},
     Optimizer::kRmsProp},
    {"resnet-152", "image classifier of 50 bottlenecks, 224x224", 128, {}, {}, {}, Optimizer::kMomentum},
    {"rnnlm", "language model of stacked LSTM cells, unrolled", 64, 2, 40, 2048, Optimizer::kSgd},
    {"nmt", "encoder-decoder of LSTM layers with attention, unrolled", 64, 2, 40, 1024, Optimizer::kAdam},
    {"nasnet", "NASNet-A on CIFAR-10", 32, 6, {}, {}, Optimizer::kMomentum},
    {"cifar10-cnn",
     "two convolutions and three full layers on CIFAR-10",
     128,
     {},
     {},
     {},
     Optimizer::kSgd,
     1},
}};

/// The options that a model accepts, for the error about one that it does not.
std::string options_of(const ModelFacts& model) {
  std::string text = "it takes --batch";
  if (model.layers) text += ", --layers";
  if (model.steps) text += ", --steps";
  if (model.hidden) text += ", --hidden";
  if (model.split) text += ", --split";
  return text + ", --optimizer";
}

/// A size as given, or the model's default; 0 if the model has no such size.
Result<std::int64_t> size_of(const char* option, const ModelFacts& model, std::optional<std::int64_t> asked,
                             std::optional<std::int64_t> own, std::int64_t high) {
  if (!asked) return own.value_or(0);
  if (!own) {
    return invalid(option, "does not apply to " + std::string{model.name}, options_of(model));
  }
  if (*asked < 1 || *asked > high) {
    return invalid(fmt::format("{} '{}'", option, *asked), "is out of range",
                   fmt::format("use a whole number from 1 to {}", high));
  }
  return *asked;
}

struct Sizes {
  std::int64_t layers, batch, steps, hidden, split;
  Optimizer optimizer;
};

Result<Sizes> sizes_of(const ModelFacts& model, const ModelSizes& asked, bool training) {
  Sizes s{};
  EMPLACE_TRY_ASSIGN(s.layers, size_of("--layers", model, asked.layers, model.layers, kMaxLayers));
  EMPLACE_TRY_ASSIGN(s.batch, size_of("--batch", model, asked.batch, model.batch, kMaxBatch));
  EMPLACE_TRY_ASSIGN(s.steps, size_of("--steps", model, asked.steps, model.steps, kMaxSteps));
  EMPLACE_TRY_ASSIGN(s.hidden, size_of("--hidden", model, asked.hidden, model.hidden, kMaxHidden));
  EMPLACE_TRY_ASSIGN(s.split, size_of("--split", model, asked.split, model.split, kMaxSplit));
  if (model.name == "nmt" && s.hidden % 2 != 0) {
    return invalid(fmt::format("--hidden '{}'", s.hidden),
                   "is odd, and both directions of nmt's first encoder layer have half of it",
                   "use an even number");
  }
  if (asked.optimizer && !training)
    return invalid("--optimizer", "has no effect on a forward pass", "add --training");
  s.optimizer = asked.optimizer.value_or(model.optimizer);
  return s;
}

Result<OpGraph> recorded(std::string_view model, const Sizes& s, Recording recording, Identity identity) {
  if (model == "inception-v3") {
    return inception_v3_graph({.batch = s.batch, .optimizer = s.optimizer, .recording = recording},
                              std::move(identity));
  }
  if (model == "resnet-152") {
    return resnet152_graph({.batch = s.batch, .optimizer = s.optimizer, .recording = recording},
                           std::move(identity));
  }
  if (model == "rnnlm") {
    return rnnlm_graph({.layers = s.layers,
                        .steps = s.steps,
                        .hidden = s.hidden,
                        .batch = s.batch,
                        .optimizer = s.optimizer,
                        .recording = recording},
                       std::move(identity));
  }
  if (model == "nmt") {
    return nmt_graph({.layers = s.layers,
                      .steps = s.steps,
                      .hidden = s.hidden,
                      .batch = s.batch,
                      .optimizer = s.optimizer,
                      .recording = recording},
                     std::move(identity));
  }
  if (model == "nasnet") {
    return nasnet_a_graph(
        {.repeats = s.layers, .batch = s.batch, .optimizer = s.optimizer, .recording = recording},
        std::move(identity));
  }
  return cifar10_cnn_graph(
      {.batch = s.batch, .split = s.split, .optimizer = s.optimizer, .recording = recording},
      std::move(identity));
}

}  // namespace

std::span<const ModelFacts> all_models() { return kModels; }

const ModelFacts* find_model(std::string_view name) {
  const auto found = std::find_if(kModels.begin(), kModels.end(),
                                  [&](const ModelFacts& model) { return model.name == name; });
  return found == kModels.end() ? nullptr : &*found;
}

Result<OpGraph> model_graph(const ModelFacts& model, const ModelSizes& asked, Recording recording) {
  EMPLACE_TRY_ASSIGN(const Sizes sizes, sizes_of(model, asked, recording.training));
  const bool own_hidden = !model.hidden || sizes.hidden == *model.hidden;
  const bool own_split = !model.split || sizes.split == *model.split;

  const std::string name{model.name};
  Identity identity;
  identity.name = name;
  nlohmann::json meta{{"batch", sizes.batch},
                      {"granularity", word_of(recording.granularity)},
                      {"kind", recording.training ? "training" : "forward"},
                      {"model", name},
                      {"precision", "f32"}};
  if (model.layers) identity.name += fmt::format("-{}layer", sizes.layers), meta["layers"] = sizes.layers;
  if (model.steps) identity.name += fmt::format("-{}step", sizes.steps), meta["steps"] = sizes.steps;
  if (!own_hidden) identity.name += fmt::format("-hidden{}", sizes.hidden), meta["hidden"] = sizes.hidden;
  if (!own_split) identity.name += fmt::format("-split{}", sizes.split), meta["split"] = sizes.split;
  identity.name += fmt::format("-bs{}", sizes.batch);
  if (sizes.optimizer != model.optimizer) identity.name.append("-").append(word_of(sizes.optimizer));
  if (recording.training) meta["optimizer"] = word_of(sizes.optimizer);
  if (!recording.training) identity.name += "-forward";
  if (recording.granularity != Granularity::kAten)
    identity.name.append("-").append(word_of(recording.granularity));
  identity.source = "emplace generate " + name;
  identity.meta_json = meta.dump();
  return recorded(model.name, sizes, recording, std::move(identity));
}

}  // namespace emplace::models
