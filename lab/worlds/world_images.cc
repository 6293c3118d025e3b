// Families of convolutional networks of today.
#include <fmt/core.h>

#include <array>
#include <utility>

#include "graph/models/drawing.h"
#include "lab/worlds/node_net.h"
#include "lab/worlds/world_families.h"

namespace emplace::models {
namespace {

using NetScope = NodeNet::Scope;

Optimizer image_optimizer(Rng& rng) {
  constexpr std::array kOptimizers{Optimizer::kSgd, Optimizer::kMomentum, Optimizer::kMomentum,
                                   Optimizer::kRmsProp, Optimizer::kAdam};
  return kOptimizers[rng.below(static_cast<std::uint32_t>(kOptimizers.size()))];
}

std::string level(std::string_view name, std::int64_t number) { return fmt::format("{}.{}", name, number); }

Tensor conv_norm_relu(NodeNet& net, const std::string& name, Tensor x, std::int64_t out, std::int64_t kernel,
                      std::int64_t stride = 1, std::int64_t groups = 1) {
  const NetScope scope{net, name};
  return net.unary("Relu", net.batch_norm("norm", net.conv("conv", x, out, kernel, stride, groups)));
}

Tensor classified(NodeNet& net, Tensor x, std::int64_t classes) {
  const NetScope scope{net, "head"};
  return net.linear("fc", net.global_mean(x), classes);
}

/// A residual block: two convolutions, a bottleneck with groups, or an inverted bottleneck with a gate.
enum class Block : std::uint8_t { kBasic, kBottleneck, kInverted };

Tensor gated(NodeNet& net, Tensor x) {
  const NetScope scope{net, "gate"};
  const std::int64_t channels = net.shape(x)[1];
  const Tensor squeezed =
      net.unary("Relu", net.linear("down", net.global_mean(x), std::max<std::int64_t>(8, channels / 16)));
  const Tensor share = net.unary("Sigmoid", net.linear("up", squeezed, channels));
  return net.binary("Mul", x, net.reshape(share, {net.shape(x)[0], channels, 1, 1}));
}

Tensor residual_block(NodeNet& net, Block kind, Tensor x, std::int64_t out, std::int64_t stride,
                      std::int64_t groups) {
  Tensor y = x;
  if (kind == Block::kBasic) {
    y = conv_norm_relu(net, "0", y, out, 3, stride);
    y = net.batch_norm("1.norm", net.conv("1.conv", y, out, 3));
  } else {
    const std::int64_t inner = kind == Block::kBottleneck ? out / 4 : net.shape(x)[1] * 4;
    y = conv_norm_relu(net, "0", y, inner, 1);
    y = conv_norm_relu(net, "1", y, inner, 3, stride, kind == Block::kBottleneck ? groups : inner);
    if (kind == Block::kInverted) y = gated(net, y);
    y = net.batch_norm("2.norm", net.conv("2.conv", y, out, 1));
  }
  if (net.shape(x) != net.shape(y)) {
    const NetScope scope{net, "shortcut"};
    x = net.batch_norm("norm", net.conv("conv", x, out, 1, stride));
  }
  const Tensor sum = net.binary("Add", x, y);
  return kind == Block::kInverted ? sum : net.unary("Relu", sum);
}

Result<OpGraph> residual(Rng rng, DrawnStep step, Identity identity) {
  NodeNet net;
  const auto kind = static_cast<Block>(rng.below(3));
  const std::int64_t groups = std::int64_t{1} << rng.below(4);
  const std::int64_t width = drawn(rng, 32, 160, 32), stages = drawn(rng, 2, 4), batch = drawn(rng, 4, 128);
  const std::int64_t size = drawn(rng, 64, 256, 32), classes = drawn(rng, 10, 2000);
  const Optimizer optimizer = image_optimizer(rng);
  Tensor x =
      conv_norm_relu(net, "stem", net.input("image", DType::kF32, {batch, 3, size, size}), width, 7, 2);
  for (std::int64_t s = 0; s < stages; ++s) {
    for (std::int64_t b = 0; b < step.depth; ++b) {
      const NetScope scope{net, fmt::format("stages.{}/blocks.{}", s, b)};
      const std::int64_t out = (width << s) * (kind == Block::kBottleneck ? 4 : 1);
      x = residual_block(net, kind, x, out, b == 0 && s > 0 ? 2 : 1, groups);
    }
  }
  return std::move(net).finish({classified(net, x, classes)}, step.training, optimizer, std::move(identity));
}

/// Modules of parallel branches whose results are joined, as in Inception; the branches are random.
Result<OpGraph> branches(Rng rng, DrawnStep step, Identity identity) {
  NodeNet net;
  const std::int64_t ways = drawn(rng, 2, 8), width = drawn(rng, 16, 128, 8), batch = drawn(rng, 4, 128);
  const std::int64_t size = drawn(rng, 32, 224, 32), classes = drawn(rng, 10, 1000);
  struct Branch {
    std::int64_t length, kernel, width;
  };
  std::vector<Branch> plan;
  for (std::int64_t k = 0; k < ways; ++k)
    plan.push_back({drawn(rng, 1, 4), drawn(rng, 1, 7, 2), drawn(rng, width / 2, 2 * width, 4)});
  const Optimizer optimizer = image_optimizer(rng);
  Tensor x =
      conv_norm_relu(net, "stem", net.input("image", DType::kF32, {batch, 3, size, size}), width, 3, 2);
  for (std::int64_t m = 0; m < step.depth; ++m) {
    const NetScope module{net, level("modules", m)};
    std::vector<Tensor> ends;
    for (std::int64_t k = 0; k < ways; ++k) {
      const NetScope scope{net, level("branch", k)};
      const Branch& branch = plan[static_cast<std::size_t>(k)];
      Tensor y = conv_norm_relu(net, "0", x, branch.width, 1);
      for (std::int64_t c = 1; c < branch.length; ++c)
        y = conv_norm_relu(net, std::to_string(c), y, branch.width, branch.kernel);
      ends.push_back(y);
    }
    x = net.concat(ends, 1);
    if (m % 4 == 3 && net.shape(x)[2] >= 8) x = net.max_pool(x, 3, 2);
  }
  return std::move(net).finish({classified(net, x, classes)}, step.training, optimizer, std::move(identity));
}

/// DenseNet: every layer reads all earlier ones of its block.
Result<OpGraph> dense(Rng rng, DrawnStep step, Identity identity) {
  NodeNet net;
  const std::int64_t growth = drawn(rng, 12, 48, 4), blocks = drawn(rng, 2, 4), batch = drawn(rng, 4, 96);
  const std::int64_t size = drawn(rng, 64, 224, 32), classes = drawn(rng, 10, 1000);
  const Optimizer optimizer = image_optimizer(rng);
  Tensor x =
      conv_norm_relu(net, "stem", net.input("image", DType::kF32, {batch, 3, size, size}), 2 * growth, 7, 2);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const NetScope block{net, level("blocks", b)};
    std::vector<Tensor> made{x};
    for (std::int64_t l = 0; l < step.depth; ++l) {
      const NetScope scope{net, level("layers", l)};
      const Tensor all = made.size() == 1 ? x : net.concat(made, 1);
      made.push_back(conv_norm_relu(net, "1", conv_norm_relu(net, "0", all, 4 * growth, 1), growth, 3));
    }
    x = net.concat(made, 1);
    if (b + 1 < blocks)
      x = net.average_pool(
          conv_norm_relu(net, "transition", x, std::max<std::int64_t>(8, net.shape(x)[1] / 8 * 4), 1), 2, 2);
  }
  return std::move(net).finish({classified(net, x, classes)}, step.training, optimizer, std::move(identity));
}

/// Attention over the pixels of an image.
Tensor pixel_attention(NodeNet& net, Tensor x) {
  const NetScope scope{net, "attention"};
  const Shape in = net.shape(x);
  const std::int64_t pixels = in[2] * in[3], width = in[1];
  const Tensor rows =
      net.transpose(net.reshape(net.group_norm("norm", x, 8), {in[0], width, pixels}), {0, 2, 1});
  const std::vector<Tensor> parts = net.split(net.linear("qkv", rows, 3 * width), 3, 2);
  const Tensor shares = net.softmax(net.matmul(parts[0], net.transpose(parts[1], {0, 2, 1})));
  const Tensor mixed = net.linear("out", net.matmul(shares, parts[2]), width);
  return net.binary("Add", x, net.reshape(net.transpose(mixed, {0, 2, 1}), in));
}

/// A U-Net; with `diffusion` a denoiser: group norm, an embedding of the time in every block, and attention
/// at the lower resolutions.
Result<OpGraph> u_net(Rng& rng, const DrawnStep& step, Identity identity, bool diffusion) {
  NodeNet net;
  const std::int64_t levels = drawn(rng, 2, 5), width = drawn(rng, 32, 96, 16), batch = drawn(rng, 1, 24);
  const std::int64_t size = drawn(rng, 1, diffusion ? 2 : 3) * (std::int64_t{8} << levels) / 2;
  const std::int64_t channels = drawn(rng, 1, 4), results = drawn(rng, 2, 32);
  const Optimizer optimizer = diffusion ? Optimizer::kAdam : image_optimizer(rng);
  Tensor time{};
  if (diffusion) {
    const NetScope scope{net, "time"};
    const Tensor waves = net.input("time", DType::kF32, {batch, width});
    time = net.linear("1", net.unary("Silu", net.linear("0", waves, 4 * width)), 4 * width);
  }
  const auto block = [&](const std::string& name, Tensor x, std::int64_t out, std::int64_t at) {
    const NetScope scope{net, name};
    for (std::int64_t b = 0; b < step.depth; ++b) {
      const NetScope inner{net, std::to_string(b)};
      if (!diffusion) {
        x = conv_norm_relu(net, "1", conv_norm_relu(net, "0", x, out, 3), out, 3);
        continue;
      }
      const Tensor shift = net.reshape(net.linear("time", net.unary("Silu", time), out), {batch, out, 1, 1});
      const Tensor before = net.shape(x)[1] == out ? x : net.conv("skip", x, out, 1);
      Tensor y = net.conv("0.conv", net.unary("Silu", net.group_norm("0.norm", x, 8)), out, 3);
      y = net.binary("Add", y, shift);
      y = net.conv("1.conv", net.unary("Silu", net.group_norm("1.norm", y, 8)), out, 3);
      x = net.binary("Add", before, y);
      if (at + 1 >= levels) x = pixel_attention(net, x);
    }
    return x;
  };
  Tensor x = net.conv("stem", net.input("image", DType::kF32, {batch, channels, size, size}), width, 3);
  std::vector<Tensor> skipped;
  for (std::int64_t l = 0; l < levels; ++l) {
    x = block(level("down", l), x, width << l, l);
    skipped.push_back(x);
    x = net.max_pool(x, 2, 2);
  }
  x = block("middle", x, width << levels, levels);
  for (std::int64_t l = levels; l-- > 0;) {
    const Tensor beside = skipped[static_cast<std::size_t>(l)];
    const Tensor wide = net.conv(level("up.conv", l), net.upsampled(x, 2), width << l, 3);
    x = block(level("up", l), net.concat({beside, wide}, 1), width << l, l);
  }
  const Tensor pixels = net.conv("head", x, diffusion ? channels : results, 1);
  return std::move(net).finish({pixels}, step.training, optimizer, std::move(identity));
}

Result<OpGraph> segmenter(Rng rng, DrawnStep step, Identity identity) {
  return u_net(rng, step, std::move(identity), false);
}
Result<OpGraph> diffusion(Rng rng, DrawnStep step, Identity identity) {
  return u_net(rng, step, std::move(identity), true);
}

constexpr std::array kImages{
    WorldFamily{"residual", "residual networks: basic blocks, bottlenecks with groups, gated inverted ones",
                residual, 300},
    WorldFamily{"branches", "image classifiers of modules with random parallel branches", branches, 200},
    WorldFamily{"u-net", "U-Nets that segment images", segmenter, 40},
    WorldFamily{"dense", "DenseNets", dense, 60},
    WorldFamily{"diffusion", "denoisers: U-Nets with attention and an embedded time", diffusion, 40},
};

}  // namespace

std::span<const WorldFamily> image_families() { return kImages; }

}  // namespace emplace::models
