#include "executor/cpu/onednn/onednn_program.h"

namespace emplace::cpu::onednn {
namespace {

using dnnl::algorithm;

/// In oneDNN 2.x only the "v2" interface supports dilations; 0 means none.
struct PoolingProblem {
  algorithm kind;
  Desc source, target;
  Dims strides, taps, dilations, pads_begin, pads_end;
};

PoolingProblem problem_of(const Pooling& shape) {
  const auto kind = shape.of == Pooling::Of::kMax          ? algorithm::pooling_max
                    : shape.of == Pooling::Of::kMeanInside ? algorithm::pooling_avg_exclude_padding
                                                           : algorithm::pooling_avg_include_padding;
  PoolingProblem p{kind,       described(shape.source), described(shape.target), shape.strides,
                   shape.taps, shape.dilations,         shape.pads_begin,        shape.pads_end};
  for (auto& dilation : p.dilations) --dilation;
  return p;
}

dnnl::pooling_v2_forward::primitive_desc forward_desc(const PoolingProblem& p, dnnl::prop_kind prop) {
  return {{prop, p.kind, p.source, p.target, p.strides, p.taps, p.dilations, p.pads_begin, p.pads_end},
          user_scratchpad(),
          engine()};
}

}  // namespace

Result<Program> pool(const Pooling& shape) {
  return guarded([&] {
    const PoolingProblem p = problem_of(shape);
    const auto chosen = forward_desc(p, dnnl::prop_kind::forward_inference);
    return make_program(dnnl::pooling_v2_forward{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(),
                        {{DNNL_ARG_SRC, p.source, p.source}}, {{DNNL_ARG_DST, p.target, p.target}});
  });
}

Result<Program> pool_backward(const Pooling& shape) {
  return guarded([&] {
    const PoolingProblem p = problem_of(shape);
    const dnnl::pooling_v2_backward::desc desc{p.kind, p.source,    p.target,     p.strides,
                                               p.taps, p.dilations, p.pads_begin, p.pads_end};
    const dnnl::pooling_v2_backward::primitive_desc chosen{
        desc, user_scratchpad(), engine(), forward_desc(p, dnnl::prop_kind::forward_training)};
    return make_program(dnnl::pooling_v2_backward{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(),
                        {{DNNL_ARG_DIFF_DST, p.target, p.target}}, {{DNNL_ARG_DIFF_SRC, p.source, p.source}});
  });
}

}  // namespace emplace::cpu::onednn
