#include <fmt/core.h>

#include <array>
#include <utility>

#include "graph/models/layers.h"
#include "graph/models/modules.h"

namespace emplace::models {
namespace {

class Resnet152 : private Modules {
 public:
  using Modules::Modules;

  Tensor run(Tensor x) {
    x = relu(norm("bn1", conv("conv1", x, {.in = 3, .out = 64, .kernel = 7, .stride = 2})));
    x = max_pool(x);
    for (std::size_t stage = 0; stage < kBlocks.size(); ++stage) {
      const Level at_stage{*this, fmt::format("layer{}", stage + 1)};
      for (int block = 0; block < kBlocks[stage]; ++block) {
        const Level at_block{*this, std::to_string(block)};
        x = bottleneck(x, std::int64_t{64} << stage, block == 0 && stage > 0 ? 2 : 1);
      }
    }
    return linear("fc", tape_.flatten(pool_all(x)), 1000);
  }

 private:
  static constexpr std::array kBlocks{3, 8, 36, 3};

  /// Convolutions 1x1, 3x3 (with the stride), 1x1 to four times the width; and the shortcut.
  Tensor bottleneck(Tensor x, std::int64_t width, std::int64_t stride) {
    const std::int64_t in = channels_of(x), out = 4 * width;
    Tensor y = relu(norm("bn1", conv("conv1", x, {.in = in, .out = width})));
    y = relu(norm("bn2", conv("conv2", y, {.in = width, .out = width, .kernel = 3, .stride = stride})));
    y = norm("bn3", conv("conv3", y, {.in = width, .out = out}));
    if (in != out || stride != 1) {
      const Level level{*this, "downsample"};
      x = norm("1", conv("0", x, {.in = in, .out = out, .stride = stride}));
    }
    return relu(tape_.add(y, x));
  }

  Tensor relu(Tensor x) {
    const Level level{*this, "relu"};
    return tape_.relu(x);
  }
  Tensor max_pool(Tensor x) {
    const Level level{*this, "maxpool"};
    return tape_.max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  }
  Tensor pool_all(Tensor x) {
    const Level level{*this, "avgpool"};
    return tape_.pool_all(x);
  }
};

}  // namespace

Result<OpGraph> resnet152_graph(const Resnet152Options& options, Identity identity) {
  if (options.batch < 1) return invalid("resnet-152", "the batch is empty", "use a batch of at least 1");
  const auto tape = make_tape(options.recording, options.optimizer);
  const Tensor image = tape->input("image", DType::kF32, {options.batch, 3, 224, 224});
  return classifier(*tape, Resnet152{*tape}.run(image), {}, std::move(identity));
}

}  // namespace emplace::models
