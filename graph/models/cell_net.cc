#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "graph/models/layers.h"
#include "graph/models/modules.h"
#include "graph/models/networks.h"

namespace emplace::models {
namespace {

class CellNet : private Modules {
 public:
  CellNet(TrainingTape& tape, const CellNetOptions& options) : Modules{tape}, options_{options} {}

  Tensor run(Tensor image) {
    Tensor previous{}, before{};
    {
      const Level stem{*this, "stem"};
      const Tensor x = conv("0", image, {3, options_.stem_channels, 3});
      before = previous = norm("1", x);
    }
    bool reduce_input = false;
    int number = 0;
    const auto add_cell = [&](std::int64_t channels, bool reduction) {
      const Level level{*this, fmt::format("cells.{}", number++)};
      const Tensor made = cell(previous, before, channels, reduce_input, reduction);
      before = std::exchange(previous, made);
      reduce_input = reduction;
    };
    for (std::int64_t stage = 0; stage < 3; ++stage) {
      const std::int64_t channels = options_.filters << stage;
      if (stage > 0) add_cell(channels, true);
      for (std::int64_t i = 0; i < options_.repeats; ++i) add_cell(channels, false);
    }
    const Tensor features = tape_.global_mean(tape_.relu(previous));
    return linear("fc", features, options_.classes);
  }

 private:
  Tensor relu_conv_norm(Tensor x, std::int64_t channels) {
    return norm("bn", conv("conv", tape_.relu(x), {channels_of(x), channels}));
  }

  /// Halves the resolution by two paths, one of them shifted by a pixel.
  Tensor factorized_reduce(Tensor x, std::int64_t channels) {
    const PoolOptions every_other{.kernel = 1, .stride = 2, .padding = 0};
    const Tensor active = tape_.relu(x);
    const Tensor even = tape_.avg_pool2d(active, every_other);
    const Tensor odd = tape_.avg_pool2d(tape_.shifted(active), every_other);
    const std::int64_t in = channels_of(x);
    const Tensor first = conv("c1", even, {in, channels / 2});
    return norm("bn", tape_.cat({first, conv("c2", odd, {in, channels - channels / 2})}));
  }

  /// ReLU, depthwise, pointwise, batch norm; twice.
  Tensor separable(Tensor x, std::int64_t kernel, std::int64_t stride) {
    const std::int64_t c = channels_of(x);
    for (const std::string round : {"1", "2"}) {
      const std::int64_t step = round == "1" ? stride : 1;
      x = conv("dw" + round, tape_.relu(x), {c, c, kernel, step, c});
      x = norm("bn" + round, conv("pw" + round, x, {c, c}));
    }
    return x;
  }

  Tensor apply(const std::string& module, CellOp op, Tensor x, std::int64_t stride) {
    const Level level{*this, module};
    switch (op) {
      case CellOp::kIdentity:
        return stride == 1 ? x : factorized_reduce(x, channels_of(x));
      case CellOp::kAvgPool3:
        return tape_.avg_pool2d(x, {.stride = stride});
      case CellOp::kMaxPool3:
        return tape_.max_pool2d(x, {.stride = stride});
      case CellOp::kSepConv3:
        return separable(x, 3, stride);
      case CellOp::kSepConv5:
        return separable(x, 5, stride);
      case CellOp::kSepConv7:
        return separable(x, 7, stride);
    }
    return x;
  }

  Tensor preprocess(const std::string& module, Tensor x, std::int64_t channels, bool reduce) {
    const Level level{*this, module};
    return reduce ? factorized_reduce(x, channels) : relu_conv_norm(x, channels);
  }

  Tensor cell(Tensor previous, Tensor before, std::int64_t channels, bool reduce_input, bool reduction) {
    const std::vector<CellBlock>& blocks = reduction ? options_.reduction : options_.normal;
    std::vector<Tensor> states{preprocess("in0", previous, channels, false),
                               preprocess("in1", before, channels, reduce_input)};
    std::vector<bool> loose(2 + blocks.size(), true);
    if (reduction) loose[0] = loose[1] = false;  // Their resolution differs from the output's.
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      std::array<Tensor, 2> parts;
      for (std::size_t side = 0; side < 2; ++side) {
        const std::uint32_t from = blocks[k].inputs[side];
        const std::int64_t stride = reduction && from < 2 ? 2 : 1;
        parts[side] = apply(fmt::format("ops.{}", 2 * k + side), blocks[k].ops[side], states[from], stride);
        loose[from] = false;
      }
      states.push_back(tape_.add(parts[0], parts[1]));
    }
    std::vector<Tensor> ends;
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (loose[i]) ends.push_back(states[i]);
    }
    return tape_.cat(ends);
  }

  const CellNetOptions& options_;
};

Result<Unit> check_options(const CellNetOptions& options) {
  const bool sizes = options.repeats >= 1 && options.filters >= 2 && options.filters % 2 == 0 &&
                     options.stem_channels >= 1 && options.batch >= 1 && options.classes >= 2 &&
                     !options.normal.empty() && !options.reduction.empty();
  if (!sizes) return invalid("cell network", "sizes are out of range", "use an even number of filters");
  for (const auto* blocks : {&options.normal, &options.reduction}) {
    for (std::size_t k = 0; k < blocks->size(); ++k) {
      const auto& inputs = (*blocks)[k].inputs;
      if (std::max(inputs[0], inputs[1]) >= 2 + k)
        return invalid("cell network", fmt::format("block {} reads a state that does not precede it", k));
    }
  }
  return Unit{};
}

}  // namespace

Result<OpGraph> cell_net_graph(const CellNetOptions& options, Identity identity) {
  EMPLACE_TRY(check_options(options));
  const auto tape = make_tape(options.recording, options.optimizer);
  const Tensor image = tape->input("image", DType::kF32, {options.batch, 3, 32, 32});
  const Tensor logits = CellNet{*tape, options}.run(image);
  return classifier(*tape, logits, {}, std::move(identity));
}

}  // namespace emplace::models
