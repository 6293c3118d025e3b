#include "graph/models/modules.h"

namespace emplace::models {

Modules::Level::Level(Modules& modules, const std::string& level)
    : modules_{modules}, length_{modules.path_.size()}, scope_{modules.tape_, level} {
  modules.path_ += level + ".";
}

Tensor Modules::conv(const std::string& module, Tensor x, ConvShape shape) {
  const Level level{*this, module};
  const std::int64_t width = shape.kernel_width == 0 ? shape.kernel : shape.kernel_width;
  const Tensor weight =
      tape_.parameter(name("weight"), {shape.out, shape.in / shape.groups, shape.kernel, width});
  const ConvOptions options{.stride = shape.stride,
                            .padding = shape.padded ? shape.kernel / 2 : 0,
                            .groups = shape.groups,
                            .padding_width = shape.padded ? width / 2 : 0};
  if (!shape.bias) return tape_.conv2d(x, weight, options);
  return tape_.conv2d(x, weight, tape_.parameter(name("bias"), {shape.out}), options);
}

Tensor Modules::norm(const std::string& module, Tensor x) {
  const Level level{*this, module};
  const Shape channels{channels_of(x)};
  const Tensor weight = tape_.parameter(name("weight"), channels);
  const Tensor bias = tape_.parameter(name("bias"), channels);
  const Tensor mean = tape_.buffer(name("running_mean"), channels);
  return tape_.batch_norm(x, weight, bias, mean, tape_.buffer(name("running_var"), channels));
}

Tensor Modules::linear(const std::string& module, Tensor x, std::int64_t out) {
  const Level level{*this, module};
  const Tensor weight = tape_.parameter(name("weight"), {out, channels_of(x)});
  return tape_.linear(x, weight, tape_.parameter(name("bias"), {out}));
}

}  // namespace emplace::models
