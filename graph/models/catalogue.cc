#include "graph/models/catalogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "graph/models/networks.h"

namespace emplace::models {
namespace {

constexpr std::array<ModelFacts, 6> kModels{{
    {"inception-v3", "image classifier of factorised convolutions, 299x299", 32, {}, {}},
    {"resnet-152", "image classifier of 50 bottlenecks, 224x224", 128, {}, {}},
    {"rnnlm", "language model of stacked LSTM cells, unrolled", 64, 2, 40},
    {"nmt", "encoder-decoder of LSTM layers with attention, unrolled", 64, 2, 40},
    {"nasnet", "NASNet-A on CIFAR-10", 32, 6, {}},
    {"cifar10-cnn", "two convolutions and three full layers on CIFAR-10", 128, {}, {}},
}};

/// The options that a model accepts, for the error about one that it does not.
std::string options_of(const ModelFacts& model) {
  std::string text = "it takes --batch";
  if (model.layers) text += ", --layers";
  if (model.steps) text += ", --steps";
  return text;
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
  std::int64_t layers, batch, steps;
};

Result<OpGraph> recorded(std::string_view model, const Sizes& s, Recording recording, Identity identity) {
  if (model == "inception-v3")
    return inception_v3_graph({.batch = s.batch, .recording = recording}, std::move(identity));
  if (model == "resnet-152")
    return resnet152_graph({.batch = s.batch, .recording = recording}, std::move(identity));
  if (model == "rnnlm") {
    return rnnlm_graph({.layers = s.layers, .steps = s.steps, .batch = s.batch, .recording = recording},
                       std::move(identity));
  }
  if (model == "nmt") {
    return nmt_graph({.layers = s.layers, .steps = s.steps, .batch = s.batch, .recording = recording},
                     std::move(identity));
  }
  if (model == "nasnet") {
    return nasnet_a_graph({.repeats = s.layers, .batch = s.batch, .recording = recording},
                          std::move(identity));
  }
  return cifar10_cnn_graph({.batch = s.batch, .recording = recording}, std::move(identity));
}

std::string_view optimizer_of(std::string_view model) {
  if (model == "inception-v3") return optimizer_name(Optimizer::kRmsProp);
  if (model == "nmt") return optimizer_name(Optimizer::kAdam);
  if (model == "resnet-152" || model == "nasnet") return optimizer_name(Optimizer::kMomentum);
  return optimizer_name(Optimizer::kSgd);
}

}  // namespace

std::span<const ModelFacts> all_models() { return kModels; }

const ModelFacts* find_model(std::string_view name) {
  const auto found = std::find_if(kModels.begin(), kModels.end(),
                                  [&](const ModelFacts& model) { return model.name == name; });
  return found == kModels.end() ? nullptr : &*found;
}

Result<OpGraph> model_graph(const ModelFacts& model, const ModelSizes& asked, Recording recording) {
  EMPLACE_TRY_ASSIGN(const auto layers, size_of("--layers", model, asked.layers, model.layers, kMaxLayers));
  EMPLACE_TRY_ASSIGN(const auto batch, size_of("--batch", model, asked.batch, model.batch, kMaxBatch));
  EMPLACE_TRY_ASSIGN(const auto steps, size_of("--steps", model, asked.steps, model.steps, kMaxSteps));

  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const std::string_view granularity = granularity_name(recording.granularity);
  Identity identity;
  identity.name = std::string{model.name};
  if (model.layers) identity.name += "-" + number(layers) + "layer";
  if (model.steps) identity.name += "-" + number(steps) + "step";
  identity.name += "-bs" + number(batch);
  if (!recording.training) identity.name += "-forward";
  if (recording.granularity != Granularity::kAten) identity.name.append("-").append(granularity);
  identity.source = "emplace generate " + std::string{model.name};
  identity.meta_json = R"({"batch":)" + number(batch) + R"(,"granularity":")" + std::string{granularity} +
                       R"(","kind":")" + (recording.training ? "training" : "forward") + "\"";
  if (model.layers) identity.meta_json += R"(,"layers":)" + number(layers);
  identity.meta_json += R"(,"model":")" + std::string{model.name} + "\"";
  if (recording.training)
    identity.meta_json += R"(,"optimizer":")" + std::string{optimizer_of(model.name)} + "\"";
  identity.meta_json += R"(,"precision":"f32")";
  if (model.steps) identity.meta_json += R"(,"steps":)" + number(steps);
  identity.meta_json += "}";
  return recorded(model.name, {layers, batch, steps}, recording, std::move(identity));
}

}  // namespace emplace::models
