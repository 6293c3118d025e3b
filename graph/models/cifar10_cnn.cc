#include <fmt/core.h>

#include <utility>
#include <vector>

#include "graph/models/layers.h"
#include "graph/models/modules.h"

namespace emplace::models {
namespace {

constexpr std::int64_t kChannels = 64;
constexpr PoolOptions kHalf{.kernel = 3, .stride = 2, .padding = 1};

class Cifar10Cnn : private Modules {
 public:
  Cifar10Cnn(TrainingTape& tape, std::int64_t split)
      : Modules{tape}, channels_{kChannels / split}, parts_(static_cast<std::size_t>(split)) {}

  Tensor run(Tensor image) {
    const auto convolved = [this](const std::string& module, Tensor x) {
      const ConvShape shape{.in = channels_of(x), .out = channels_, .kernel = 5, .bias = true};
      return relu(module, conv(module, x, shape));
    };
    const auto halved = [this](const std::string& module, Tensor x) { return pool(module, x, kHalf); };
    const auto normed = [this](const std::string& module, Tensor x) { return norm(module, x); };
    for (Tensor& part : parts_) part = image;
    each("conv1", convolved);
    each("pool1", halved);
    each("norm1", normed);
    each("conv2", convolved);
    each("norm2", normed);
    each("pool2", halved);
    Tensor x = joined("pool2", "local3");
    x = relu("local3", linear("local3", x, 384));
    x = relu("local4", linear("local4", x, 192));
    return linear("logits", x, 10);
  }

 private:
  /// Runs a layer of each part in its own scope: "conv1/branch0", or "conv1" if the network is whole.
  template <class Layer>
  void each(const std::string& name, Layer layer) {
    if (parts_.size() == 1) {
      parts_[0] = layer(name, parts_[0]);
      return;
    }
    const Level level{*this, name};
    for (std::size_t k = 0; k < parts_.size(); ++k) parts_[k] = layer(fmt::format("branch{}", k), parts_[k]);
  }
  /// All features as [batch, features]. A part is flattened where it ends and joined where it is read, so
  /// that only its own features, and only their gradients, go between devices.
  Tensor joined(const std::string& end, const std::string& reader) {
    if (parts_.size() == 1) return tape_.flatten(parts_[0]);
    each(end, [this](const std::string& module, Tensor x) {
      const Level level{*this, module};
      return tape_.flatten(x);
    });
    const Level level{*this, reader};
    return tape_.cat(parts_);
  }
  Tensor relu(const std::string& module, Tensor x) {
    const Level level{*this, module};
    return tape_.relu(x);
  }
  Tensor pool(const std::string& module, Tensor x, PoolOptions options) {
    const Level level{*this, module};
    return tape_.max_pool2d(x, options);
  }

  const std::int64_t channels_;  // Channels of one part.
  std::vector<Tensor> parts_;
};

}  // namespace

Result<OpGraph> cifar10_cnn_graph(const Cifar10CnnOptions& options, Identity identity) {
  if (options.batch < 1) return invalid("cifar10-cnn", "the batch is empty", "use a batch of at least 1");
  if (options.split < 1 || kChannels % options.split != 0) {
    return invalid(fmt::format("--split '{}'", options.split),
                   fmt::format("does not divide the {} channels of a convolution", kChannels),
                   "use 1, 2, 4, 8, 16, 32 or 64");
  }
  const auto tape = make_tape(options.recording, options.optimizer);
  const Tensor image = tape->input("image", DType::kF32, {options.batch, 3, 32, 32});
  return classifier(*tape, Cifar10Cnn{*tape, options.split}.run(image), {}, std::move(identity));
}

}  // namespace emplace::models
