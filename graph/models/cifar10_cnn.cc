#include <utility>

#include "graph/models/layers.h"
#include "graph/models/modules.h"

namespace emplace::models {
namespace {

class Cifar10Cnn : private Modules {
 public:
  using Modules::Modules;

  Tensor run(Tensor x) {
    constexpr PoolOptions kHalf{.kernel = 3, .stride = 2, .padding = 1};
    x = relu("conv1", conv("conv1", x, {.in = 3, .out = 64, .kernel = 5, .bias = true}));
    x = norm("norm1", pool("pool1", x, kHalf));
    x = relu("conv2", conv("conv2", x, {.in = 64, .out = 64, .kernel = 5, .bias = true}));
    x = pool("pool2", norm("norm2", x), kHalf);
    x = tape_.flatten(x);
    x = relu("local3", linear("local3", x, 384));
    x = relu("local4", linear("local4", x, 192));
    return linear("logits", x, 10);
  }

 private:
  Tensor relu(const std::string& module, Tensor x) {
    const Level level{*this, module};
    return tape_.relu(x);
  }
  Tensor pool(const std::string& module, Tensor x, PoolOptions options) {
    const Level level{*this, module};
    return tape_.max_pool2d(x, options);
  }
};

}  // namespace

Result<OpGraph> cifar10_cnn_graph(const Cifar10CnnOptions& options, Identity identity) {
  if (options.batch < 1) return invalid("cifar10-cnn", "the batch is empty", "use a batch of at least 1");
  const auto tape = make_tape(options.recording, options.optimizer);
  const Tensor image = tape->input("image", DType::kF32, {options.batch, 3, 32, 32});
  return classifier(*tape, Cifar10Cnn{*tape}.run(image), {}, std::move(identity));
}

}  // namespace emplace::models
