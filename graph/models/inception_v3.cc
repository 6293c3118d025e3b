#include <optional>
#include <utility>
#include <vector>

#include "graph/models/layers.h"
#include "graph/models/modules.h"

namespace emplace::models {
namespace {

/// Block names are those of public implementations: Mixed_5b … Mixed_7c.
class InceptionV3 : private Modules {
 public:
  using Modules::Modules;

  struct Heads {
    Tensor logits;
    std::optional<Tensor> auxiliary;
  };
  Heads run(Tensor x, bool auxiliary) {
    x = unit("Conv2d_1a_3x3", x, {.out = 32, .kernel = 3, .stride = 2, .padded = false});
    x = unit("Conv2d_2a_3x3", x, {.out = 32, .kernel = 3, .padded = false});
    x = unit("Conv2d_2b_3x3", x, {.out = 64, .kernel = 3});
    x = halved("maxpool1", x);
    x = unit("Conv2d_3b_1x1", x, {.out = 80});
    x = unit("Conv2d_4a_3x3", x, {.out = 192, .kernel = 3, .padded = false});
    x = halved("maxpool2", x);
    x = block_5("Mixed_5b", x, 32);
    x = block_5("Mixed_5c", x, 64);
    x = block_5("Mixed_5d", x, 64);
    x = block_6a(x);
    x = block_6("Mixed_6b", x, 128);
    x = block_6("Mixed_6c", x, 160);
    x = block_6("Mixed_6d", x, 160);
    x = block_6("Mixed_6e", x, 192);
    Heads heads{};
    if (auxiliary) heads.auxiliary = auxiliary_head(x);
    x = block_7a(x);
    x = block_7("Mixed_7b", x);
    x = block_7("Mixed_7c", x);
    {
      const Level level{*this, "avgpool"};
      x = tape_.pool_all(x);
    }
    {
      const Level level{*this, "dropout"};
      x = tape_.dropout(x);
    }
    heads.logits = linear("fc", tape_.flatten(x), 1000);
    return heads;
  }

 private:
  /// A convolution with batch norm and ReLU.
  struct Unit {
    std::int64_t out, kernel = 1, kernel_width = 0, stride = 1;
    bool padded = true;
  };
  Tensor unit(const std::string& module, Tensor x, Unit u) {
    const Level level{*this, module};
    const ConvShape shape{.in = channels_of(x),
                          .out = u.out,
                          .kernel = u.kernel,
                          .stride = u.stride,
                          .kernel_width = u.kernel_width,
                          .padded = u.padded};
    return tape_.relu(norm("bn", conv("conv", x, shape)));
  }

  Tensor halved(const std::string& module, Tensor x) {
    const Level level{*this, module};
    return max_pooled(x);
  }
  Tensor max_pooled(Tensor x) { return tape_.max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 0}); }
  Tensor pooled_branch(Tensor x, std::int64_t out) {
    return unit("branch_pool", tape_.avg_pool2d(x, {.kernel = 3, .stride = 1, .padding = 1}), {.out = out});
  }

  /// Block at 35x35.
  Tensor block_5(const std::string& module, Tensor x, std::int64_t pool_channels) {
    const Level level{*this, module};
    const Tensor one = unit("branch1x1", x, {.out = 64});
    Tensor five = unit("branch5x5_1", x, {.out = 48});
    five = unit("branch5x5_2", five, {.out = 64, .kernel = 5});
    Tensor three = unit("branch3x3dbl_1", x, {.out = 64});
    three = unit("branch3x3dbl_2", three, {.out = 96, .kernel = 3});
    three = unit("branch3x3dbl_3", three, {.out = 96, .kernel = 3});
    return tape_.cat({one, five, three, pooled_branch(x, pool_channels)});
  }

  /// Reduction from 35x35 to 17x17.
  Tensor block_6a(Tensor x) {
    const Level level{*this, "Mixed_6a"};
    const Tensor three = unit("branch3x3", x, {.out = 384, .kernel = 3, .stride = 2, .padded = false});
    Tensor twice = unit("branch3x3dbl_1", x, {.out = 64});
    twice = unit("branch3x3dbl_2", twice, {.out = 96, .kernel = 3});
    twice = unit("branch3x3dbl_3", twice, {.out = 96, .kernel = 3, .stride = 2, .padded = false});
    return tape_.cat({three, twice, max_pooled(x)});
  }

  /// Block at 17x17: 7x7 convolutions factorised into 1x7 and 7x1.
  Tensor block_6(const std::string& module, Tensor x, std::int64_t width) {
    const Level level{*this, module};
    const auto wide = [](std::int64_t out) { return Unit{.out = out, .kernel = 1, .kernel_width = 7}; };
    const auto high = [](std::int64_t out) { return Unit{.out = out, .kernel = 7, .kernel_width = 1}; };
    const Tensor one = unit("branch1x1", x, {.out = 192});
    Tensor seven = unit("branch7x7_1", x, {.out = width});
    seven = unit("branch7x7_2", seven, wide(width));
    seven = unit("branch7x7_3", seven, high(192));
    Tensor twice = unit("branch7x7dbl_1", x, {.out = width});
    twice = unit("branch7x7dbl_2", twice, high(width));
    twice = unit("branch7x7dbl_3", twice, wide(width));
    twice = unit("branch7x7dbl_4", twice, high(width));
    twice = unit("branch7x7dbl_5", twice, wide(192));
    return tape_.cat({one, seven, twice, pooled_branch(x, 192)});
  }

  /// Reduction from 17x17 to 8x8.
  Tensor block_7a(Tensor x) {
    const Level level{*this, "Mixed_7a"};
    Tensor three = unit("branch3x3_1", x, {.out = 192});
    three = unit("branch3x3_2", three, {.out = 320, .kernel = 3, .stride = 2, .padded = false});
    Tensor seven = unit("branch7x7x3_1", x, {.out = 192});
    seven = unit("branch7x7x3_2", seven, {.out = 192, .kernel = 1, .kernel_width = 7});
    seven = unit("branch7x7x3_3", seven, {.out = 192, .kernel = 7, .kernel_width = 1});
    seven = unit("branch7x7x3_4", seven, {.out = 192, .kernel = 3, .stride = 2, .padded = false});
    return tape_.cat({three, seven, max_pooled(x)});
  }

  /// Block at 8x8: 3x3 convolutions split into parallel 1x3 and 3x1.
  Tensor block_7(const std::string& module, Tensor x) {
    const Level level{*this, module};
    const auto both = [&](const std::string& branch, Tensor from) {
      const Tensor wide = unit(branch + "a", from, {.out = 384, .kernel = 1, .kernel_width = 3});
      const Tensor high = unit(branch + "b", from, {.out = 384, .kernel = 3, .kernel_width = 1});
      return tape_.cat({wide, high});
    };
    const Tensor one = unit("branch1x1", x, {.out = 320});
    const Tensor three = both("branch3x3_2", unit("branch3x3_1", x, {.out = 384}));
    const Tensor narrow = unit("branch3x3dbl_1", x, {.out = 448});
    const Tensor twice = both("branch3x3dbl_3", unit("branch3x3dbl_2", narrow, {.out = 384, .kernel = 3}));
    return tape_.cat({one, three, twice, pooled_branch(x, 192)});
  }

  Tensor auxiliary_head(Tensor x) {
    const Level level{*this, "AuxLogits"};
    x = tape_.avg_pool2d(x, {.kernel = 5, .stride = 3, .padding = 0});
    x = unit("conv0", x, {.out = 128});
    x = unit("conv1", x, {.out = 768, .kernel = 5, .padded = false});
    return linear("fc", tape_.flatten(tape_.pool_all(x)), 1000);
  }
};

}  // namespace

Result<OpGraph> inception_v3_graph(const InceptionV3Options& options, Identity identity) {
  if (options.batch < 1) return invalid("inception-v3", "the batch is empty", "use a batch of at least 1");
  const auto tape = make_tape(options.recording, options.optimizer);
  const Tensor image = tape->input("image", DType::kF32, {options.batch, 3, 299, 299});
  const bool auxiliary = options.recording.training && options.batch > 1;
  const InceptionV3::Heads heads = InceptionV3{*tape}.run(image, auxiliary);
  return classifier(*tape, heads.logits, heads.auxiliary, std::move(identity));
}

}  // namespace emplace::models
