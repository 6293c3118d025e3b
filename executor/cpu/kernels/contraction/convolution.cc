// Convolutions with one to three spatial dimensions, and their gradients. A transposed convolution is the
// gradient of a convolution with respect to its source, and vice versa.
#include <algorithm>
#include <array>

#include "executor/cpu/onednn/onednn.h"
#include "executor/cpu/onednn/program_kernel.h"
#include "executor/cpu/packed_inputs.h"

namespace emplace::cpu {
namespace {

using onednn::Convolution;
using onednn::ConvolutionPass;
using Dims = std::vector<std::int64_t>;

/// Adds the bias of a transposed convolution per channel; oneDNN's backward pass has no bias.
template <class T>
void add_to_planes(T* target, const T* bias, std::int64_t batch, std::int64_t channels, std::int64_t plane) {
  for (std::int64_t n = 0; n < batch * channels; ++n) {
    for (std::int64_t i = 0; i < plane; ++i) target[n * plane + i] += bias[n % channels];
  }
}
/// Sums of planes over the batch, in eight interleaved partial sums that vectorise.
void sum_of_planes(const float* source, float* sums, std::int64_t batch, std::int64_t channels,
                   std::int64_t plane) {
  for (std::int64_t c = 0; c < channels; ++c) {
    std::array<float, 8> parts{};
    float rest = 0;
    for (std::int64_t n = 0; n < batch; ++n) {
      const float* row = source + (n * channels + c) * plane;
      std::int64_t i = 0;
      for (; i + 8 <= plane; i += 8) {
        for (std::int64_t k = 0; k < 8; ++k) parts[k] += row[i + k];
      }
      for (; i < plane; ++i) rest += row[i];
    }
    for (const float part : parts) rest += part;
    sums[c] = rest;
  }
}

/// Dimensions of a tensor [N, C, …]: batch, channels, elements per plane.
struct Planes {
  std::int64_t batch = 0, channels = 0, plane = 0;
  explicit Planes(const Operand& operand)
      : batch{operand.shape[0]},
        channels{operand.shape[1]},
        plane{operand.elements() / std::max<std::int64_t>(1, batch * channels)} {}
};

/// Target's gradient, source, weights → the requested gradients of source, weights and bias.
struct Gradients {
  std::optional<onednn::Program> source, weights;
  bool transposed = false;       ///< True: source and target are swapped in `weights`.
  bool bias_in_weights = false;  ///< True: `weights` also computes the gradient of the bias.
  std::optional<Planes> bias_alone;

  void operator()(const Pointers& memory) const {
    const std::byte *gradient = memory.inputs[0], *of_source = memory.inputs[1];
    std::size_t next = 0;
    if (source) {
      source->run(
          {std::array{gradient, memory.inputs[2]}, memory.outputs.subspan(next++, 1), memory.scratch});
    }
    if (weights) {
      const std::size_t count = bias_in_weights ? 2 : 1;
      const auto ends = transposed ? std::array{gradient, of_source} : std::array{of_source, gradient};
      weights->run({ends, memory.outputs.subspan(next, count), memory.scratch});
      next += count;
    }
    if (!bias_alone) return;
    const auto& [batch, channels, plane] = *bias_alone;
    sum_of_planes(memory.input<float>(0), memory.output<float>(next), batch, channels, plane);
  }
};

/// Common attributes, one value per spatial dimension.
struct Window {
  Dims strides, dilations, pads_begin, pads_end, output_padding;
  std::int64_t groups = 1;
};

std::optional<Dims> per_dimension(Dims values, std::size_t spatial) {
  if (values.size() == 1) values.resize(spatial, values[0]);
  if (values.size() != spatial) return std::nullopt;
  return values;
}

/// Extent of a window in the source.
std::int64_t reach(std::int64_t taps, std::int64_t dilation) { return (taps - 1) * dilation + 1; }

Result<Window> aten_window(const Signature& signature, Attributes& attributes, std::size_t spatial) {
  const auto strides = per_dimension(attributes.integers("stride", {1}), spatial);
  const auto dilations = per_dimension(attributes.integers("dilation", {1}), spatial);
  const auto padding = per_dimension(attributes.integers("padding", {0}), spatial);
  const auto output_padding = per_dimension(attributes.integers("output_padding", {0}), spatial);
  if (!strides || !dilations || !padding || !output_padding) {
    return unsupported(signature, "expected one value of stride, padding and dilation per spatial dimension");
  }
  return Window{*strides, *dilations, *padding, *padding, *output_padding, attributes.integer("groups", 1)};
}

/// The window of a convolution of `source` into `target`; spatial dimensions start at the third. A
/// transposed convolution swaps the two.
Result<Window> onnx_window(const Signature& signature, Attributes& attributes, const Operand& source,
                           const Operand& weights, const Operand& target, bool transposed) {
  const std::size_t spatial = source.shape.size() - 2;
  const auto strides = per_dimension(attributes.integers("strides", {1}), spatial);
  const auto dilations = per_dimension(attributes.integers("dilations", {1}), spatial);
  const auto output_padding = per_dimension(attributes.integers("output_padding", {0}), spatial);
  const Dims pads = attributes.integers("pads", Dims(2 * spatial, 0));
  if (!strides || !dilations || !output_padding || pads.size() != 2 * spatial) {
    return unsupported(signature,
                       "expected values of strides, dilations and pads for each spatial dimension");
  }
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  Window window{*strides, *dilations, {pads.begin(), middle}, {middle, pads.end()}, *output_padding, 1};
  window.groups = attributes.integer("groups", attributes.integer("group", 1));
  const std::string automatic = attributes.word("auto_pad", "NOTSET");
  if (automatic == "VALID") {
    window.pads_begin.assign(spatial, 0);
    window.pads_end.assign(spatial, 0);
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER" ||
             (transposed && attributes.has("output_shape"))) {
    // Padding follows from the shapes; an odd element goes to the end, for SAME_LOWER to the start.
    const bool first = transposed ? automatic != "SAME_UPPER" : automatic == "SAME_LOWER";
    for (std::size_t d = 0; d < spatial; ++d) {
      const std::int64_t total = (target.shape[2 + d] - 1) * window.strides[d] +
                                 reach(weights.shape[2 + d], window.dilations[d]) - source.shape[2 + d] +
                                 (transposed ? window.output_padding[d] : 0);
      const std::int64_t padding = std::max<std::int64_t>(0, total);
      window.pads_begin[d] = first ? padding - padding / 2 : padding / 2;
      window.pads_end[d] = padding - window.pads_begin[d];
    }
  } else if (automatic != "NOTSET") {
    return unsupported(signature, "auto_pad " + automatic + " is unknown");
  }
  return window;
}

/// Sets the end padding such that the target's shape determines the source's exactly: source elements that
/// a convolution does not read must still be written by a transposed convolution.
void set_end_padding(Convolution& shape) {
  for (std::size_t d = 0; d < shape.strides.size(); ++d) {
    const std::int64_t seen = (shape.target.shape[2 + d] - 1) * shape.strides[d] +
                              reach(shape.weights.shape[2 + d], shape.dilations[d]);
    const std::int64_t exact = seen - shape.source.shape[2 + d] - shape.pads_begin[d];
    // Any end padding from this to one stride more gives the same number of positions.
    shape.pads_end[d] = exact >= 0 ? exact : std::min<std::int64_t>(0, exact + shape.strides[d] - 1);
  }
}

/// The underlying convolution. For a transposed kind: the one whose gradient it is.
Convolution convolution_of(const Operand& source, const Operand& weights, const Operand& target,
                           const Window& window) {
  Convolution shape{source,           weights,           target,          false,        window.strides,
                    window.dilations, window.pads_begin, window.pads_end, window.groups};
  set_end_padding(shape);
  return shape;
}

/// Why these are not tensors of a convolution; empty if they are.
std::optional<Error> misfit(const Signature& signature, const Operand& source, const Operand& weights,
                            const Operand& target, const Window& window, bool transposed) {
  const std::int64_t groups = window.groups;
  const std::size_t rank = source.shape.size();
  if (rank < 3 || rank > 5 || weights.shape.size() != rank || target.shape.size() != rank) {
    return unsupported(signature, "expected one to three spatial dimensions");
  }
  if (source.elements() == 0 || target.elements() == 0 || weights.elements() == 0) {
    return unsupported(signature, "empty tensors are not supported");
  }
  if (groups < 1 || weights.shape[0] % groups != 0 || source.shape[1] != weights.shape[1] * groups ||
      target.shape[1] != weights.shape[0] || source.shape[0] != target.shape[0]) {
    return unsupported(signature, "channels, groups and weights do not match");
  }
  for (std::size_t d = 0; d < rank - 2; ++d) {
    const std::int64_t stride = window.strides[d], positions = target.shape[2 + d];
    const std::int64_t padding = window.pads_begin[d] + window.pads_end[d];
    const std::int64_t seen =
        source.shape[2 + d] + padding - reach(weights.shape[2 + d], window.dilations[d]);
    const bool sound = stride > 0 && window.dilations[d] > 0 && seen >= 0;
    const bool follows = transposed ? seen == (positions - 1) * stride + window.output_padding[d]
                                    : sound && seen / stride + 1 == positions;
    if (!sound || !follows) {
      return unsupported(signature, "output shape does not match stride, padding and dilation");
    }
  }
  return std::nullopt;
}

Made make_forward(const Signature& signature, const Window& window, bool transposed) {
  const Operand &in = signature.inputs[0], &weights = signature.inputs[1], &out = signature.outputs[0];
  const Operand &source = transposed ? out : in, &target = transposed ? in : out;
  if (auto error = misfit(signature, source, weights, target, window, transposed)) return *error;
  const bool bias = signature.inputs.size() > 2;
  if (bias && signature.inputs[2].shape != Dims{out.shape[1]}) {
    return unsupported(signature, "expected a bias with one value per channel");
  }
  Convolution shape = convolution_of(source, weights, target, window);
  if (!transposed) {
    shape.bias = bias;
    return program_kernel(signature, onednn::convolution(shape, ConvolutionPass::kForward));
  }
  if (bias && out.dtype != DType::kF32) return unsupported(signature, "expected a bias of dtype f32");
  EMPLACE_TRY_ASSIGN(const auto program,
                     checked(signature, onednn::convolution(shape, ConvolutionPass::kBackwardData)));
  return kernel_of(
      [program, bias = bias ? std::optional{Planes{out}} : std::nullopt](const Pointers& memory) {
        program.run(memory);
        if (!bias) return;
        add_to_planes(memory.output<float>(0), memory.input<float>(2), bias->batch, bias->channels,
                      bias->plane);
      },
      program.scratch_bytes());
}

enum class Format : std::uint8_t { kAten, kOnnx, kOnnxTransposed };

/// Source, weights (, bias) → target.
template <Format format>
Made make_convolution(const Signature& signature) {
  constexpr bool onnx = format != Format::kAten;
  const std::size_t inputs = signature.inputs.size(),
                    rank = inputs == 0 ? 0 : signature.inputs[0].shape.size();
  if (inputs < 2 || inputs > 3 || signature.outputs.size() != 1 || rank < 3 ||
      (onnx && (signature.outputs[0].shape.size() != rank || signature.inputs[1].shape.size() != rank))) {
    return unsupported(signature, "expected source, weights and an optional bias as inputs, and one output");
  }
  Attributes attributes{signature};
  const bool transposed = onnx ? format == Format::kOnnxTransposed : attributes.flag("transposed", false);
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  const auto window = onnx ? onnx_window(signature, attributes, transposed ? out : in, signature.inputs[1],
                                         transposed ? in : out, transposed)
                           : aten_window(signature, attributes, rank - 2);
  if (attributes.fault()) return *attributes.fault();
  if (!window.ok()) return window.error();
  return with_packed_inputs(signature,
                            [&](const Signature& inner) { return make_forward(inner, *window, transposed); });
}

/// Packed inputs: target's gradient, source, weights.
Made make_gradients(const Signature& signature, const Window& window, bool transposed,
                    const std::vector<bool>& mask) {
  const Operand &gradient = signature.inputs[0], &in = signature.inputs[1], &weights = signature.inputs[2];
  const Operand &source = transposed ? gradient : in, &target = transposed ? in : gradient;
  if (auto error = misfit(signature, source, weights, target, window, transposed)) return *error;
  Convolution shape = convolution_of(source, weights, target, window);
  Gradients gradients{.transposed = transposed};
  gradients.bias_in_weights = mask[1] && mask[2] && !transposed;
  if (mask[2] && !gradients.bias_in_weights) {
    if (gradient.dtype != DType::kF32) return unsupported(signature, "expected a bias of dtype f32");
    gradients.bias_alone = Planes{gradient};
  }
  std::size_t bytes = 0;
  const auto make = [&](ConvolutionPass pass, std::optional<onednn::Program>& to) -> Result<Unit> {
    EMPLACE_TRY_ASSIGN(to, checked(signature, onednn::convolution(shape, pass)));
    bytes = std::max(bytes, to->scratch_bytes());
    return Unit{};
  };
  if (mask[0])
    EMPLACE_TRY(
        make(transposed ? ConvolutionPass::kForward : ConvolutionPass::kBackwardData, gradients.source));
  shape.bias = gradients.bias_in_weights;
  if (mask[1]) EMPLACE_TRY(make(ConvolutionPass::kBackwardWeights, gradients.weights));
  return kernel_of(std::move(gradients), bytes);
}

Made make_backward(const Signature& signature) {
  if (signature.inputs.size() != 3 || signature.inputs[0].shape.size() < 3) {
    return unsupported(signature, "expected three inputs: target's gradient, source and weights");
  }
  Attributes attributes{signature};
  const std::vector<bool> mask = attributes.flags("output_mask", {true, true, true});
  const bool transposed = attributes.flag("transposed", false);
  const auto window = aten_window(signature, attributes, signature.inputs[0].shape.size() - 2);
  if (attributes.fault()) return *attributes.fault();
  if (!window.ok()) return window.error();
  const auto asked = static_cast<std::size_t>(std::ranges::count(mask, true));
  if (mask.size() != 3 || signature.outputs.size() != asked) {
    return unsupported(signature, "output_mask does not match the number of outputs");
  }
  return with_packed_inputs(
      signature, [&](const Signature& inner) { return make_gradients(inner, *window, transposed, mask); });
}

constexpr KernelEntry kConvolutionKernels[] = {
    {"aten::convolution", make_convolution<Format::kAten>},
    {"aten::convolution_backward", make_backward},
    {"Conv", make_convolution<Format::kOnnx>},
    {"ConvTranspose", make_convolution<Format::kOnnxTransposed>},
};

}  // namespace

std::span<const KernelEntry> convolution_kernels() { return kConvolutionKernels; }

}  // namespace emplace::cpu
