#include <algorithm>

#include "executor/cpu/onednn/onednn_program.h"

namespace emplace::cpu::onednn {
namespace {

/// [K, C / groups, …] → [groups, K / groups, C / groups, …], in the same memory.
Operand grouped(const Operand& weights, std::int64_t groups) {
  Operand out = weights;
  out.shape[0] /= groups;
  out.shape.insert(out.shape.begin(), groups);
  out.strides.insert(out.strides.begin(), out.shape[1] * weights.strides[0]);
  return out;
}

/// True if the primitive uses row-major tensors (im2col and a matrix product); false if tensors are first
/// reordered to its preferred layout. The two differ in the order of additions, so the choice depends on
/// the shape alone, never on timing. Measured on one core (AVX-512, GFLOP/s with reorders, plain :
/// reordered):
///   forward 1×1   56²: 231 : 205   14²: 226 : 231   7²: 175 : 197   (also backward to data)
///   forward 3×3   56²: 158 : 236   14²: 200 : 211   7²: 197 : 136 (batch 1), 201 : 224 (batch 8)
///   weights 1×1   56²: 88 : 116    14²: 185 : 216   7²: 206 : 232
///   weights 3×3   56²: 97 : 229    14²: 169 : 205   7²: 188 : 133 (batch 1), 208 : 210 (batch 8)
///   to data 7×7 into 3 channels: 119 : 43;   3×3   7²: 87 : 145;   depthwise: 5 : 60 and more
bool prefers_plain_layout(const Convolution& shape, ConvolutionPass pass) {
  std::int64_t positions = 1, taps = 1;
  for (std::size_t d = 2; d < shape.target.shape.size(); ++d) {
    positions *= shape.target.shape[d];
    taps *= shape.weights.shape[d];
  }
  const std::int64_t batch = shape.target.shape[0], channels = shape.source.shape[1];
  if (shape.groups > 1) return false;
  if (taps == 1) return pass != ConvolutionPass::kBackwardWeights && positions >= 400;
  if (pass == ConvolutionPass::kBackwardData) return channels < 8;
  // With more positions the reorder of the weights costs more than the faster sums save.
  return batch * positions < 100;
}

struct ConvolutionProblem {
  Desc source, weights, target, bias;
  Dims strides, dilations, pads_begin, pads_end;
};

Argument argument(int id, const Desc& given, const Desc& taken) { return {id, given, taken}; }

dnnl::convolution_forward::primitive_desc forward_desc(const ConvolutionProblem& p, bool bias) {
  using Forward = dnnl::convolution_forward;
  // Uses the "training" layouts, which have whole channels in blocks: reordering to them takes a fifth of
  // the time for the channels-last layout of "inference".
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const auto desc = bias ? Forward::desc{kind,     direct,    p.source,    p.weights,    p.bias,
                                         p.target, p.strides, p.dilations, p.pads_begin, p.pads_end}
                         : Forward::desc{kind,      direct,      p.source,     p.weights, p.target,
                                         p.strides, p.dilations, p.pads_begin, p.pads_end};
  return {desc, user_scratchpad(), engine()};
}

Program forward(const ConvolutionProblem& given, const ConvolutionProblem& asked, bool bias) {
  const auto chosen = forward_desc(asked, bias);
  std::vector<Argument> inputs{argument(DNNL_ARG_SRC, given.source, chosen.src_desc()),
                               argument(DNNL_ARG_WEIGHTS, given.weights, chosen.weights_desc())};
  if (bias) inputs.push_back(argument(DNNL_ARG_BIAS, given.bias, chosen.bias_desc()));
  return make_program(dnnl::convolution_forward{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(),
                      inputs, {argument(DNNL_ARG_DST, given.target, chosen.dst_desc())});
}

Program backward_data(const ConvolutionProblem& given, const ConvolutionProblem& p) {
  using Backward = dnnl::convolution_backward_data;
  const Backward::desc desc{dnnl::algorithm::convolution_direct,
                            p.source,
                            p.weights,
                            p.target,
                            p.strides,
                            p.dilations,
                            p.pads_begin,
                            p.pads_end};
  const Backward::primitive_desc chosen{desc, user_scratchpad(), engine(), forward_desc(p, false)};
  return make_program(Backward{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(),
                      {argument(DNNL_ARG_DIFF_DST, given.target, chosen.diff_dst_desc()),
                       argument(DNNL_ARG_WEIGHTS, given.weights, chosen.weights_desc())},
                      {argument(DNNL_ARG_DIFF_SRC, given.source, chosen.diff_src_desc())});
}

Program backward_weights(const ConvolutionProblem& given, const ConvolutionProblem& p, bool bias) {
  using Backward = dnnl::convolution_backward_weights;
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const auto desc = bias ? Backward::desc{direct,    p.source,    p.weights,    p.bias,    p.target,
                                          p.strides, p.dilations, p.pads_begin, p.pads_end}
                         : Backward::desc{direct,    p.source,    p.weights,    p.target,
                                          p.strides, p.dilations, p.pads_begin, p.pads_end};
  const Backward::primitive_desc chosen{desc, user_scratchpad(), engine(), forward_desc(p, bias)};
  std::vector<Argument> outputs{argument(DNNL_ARG_DIFF_WEIGHTS, given.weights, chosen.diff_weights_desc())};
  if (bias) outputs.push_back(argument(DNNL_ARG_DIFF_BIAS, given.bias, chosen.diff_bias_desc()));
  return make_program(Backward{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(),
                      {argument(DNNL_ARG_SRC, given.source, chosen.src_desc()),
                       argument(DNNL_ARG_DIFF_DST, given.target, chosen.diff_dst_desc())},
                      outputs);
}

}  // namespace

Result<Program> convolution(const Convolution& shape, ConvolutionPass pass) {
  return guarded([&] {
    const bool groups = shape.groups > 1;
    ConvolutionProblem given{
        described(shape.source), described(groups ? grouped(shape.weights, shape.groups) : shape.weights),
        described(shape.target), packed_desc({shape.target.shape[1]}, shape.target.dtype),
        shape.strides,           shape.dilations,
        shape.pads_begin,        shape.pads_end};
    for (auto& dilation : given.dilations) --dilation;  // oneDNN counts the skipped elements.
    const bool plain = prefers_plain_layout(shape, pass);
    const auto wanted = [plain](const Desc& desc) { return plain ? row_major(desc) : any_layout(desc); };
    ConvolutionProblem asked = given;
    asked.source = wanted(given.source);
    asked.weights = wanted(given.weights);
    asked.target = wanted(given.target);
    switch (pass) {
      case ConvolutionPass::kForward:
        return forward(given, asked, shape.bias);
      case ConvolutionPass::kBackwardData:
        return backward_data(given, asked);
      default:
        return backward_weights(given, asked, shape.bias);
    }
  });
}

}  // namespace emplace::cpu::onednn
