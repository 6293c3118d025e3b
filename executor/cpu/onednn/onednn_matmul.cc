#include "executor/cpu/onednn/onednn_program.h"

namespace emplace::cpu::onednn {

Result<Program> matmul(const MatMul& product) {
  return guarded([&] {
    const Desc a = described(product.a), b = described(product.b), target = described(product.target);
    std::vector<Argument> inputs{{DNNL_ARG_SRC, a, a}, {DNNL_ARG_WEIGHTS, b, b}};
    dnnl::primitive_attr attributes = user_scratchpad();
    dnnl::post_ops after;
    if (product.alpha != 1) after.append_eltwise(1, dnnl::algorithm::eltwise_linear, product.alpha, 0);
    if (product.accumulates) after.append_sum(product.beta);
    attributes.set_post_ops(after);
    const auto make = [&](const dnnl::matmul::desc& desc) {
      const dnnl::matmul::primitive_desc chosen{desc, attributes, engine()};
      return make_program(dnnl::matmul{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(), inputs,
                          {{DNNL_ARG_DST, target, target}});
    };
    if (!product.bias) return make({a, b, target});
    const Desc bias = packed_desc({1, product.bias->elements()}, product.bias->dtype);
    inputs.push_back({DNNL_ARG_BIAS, bias, bias});
    return make({a, b, bias, target});
  });
}

}  // namespace emplace::cpu::onednn
