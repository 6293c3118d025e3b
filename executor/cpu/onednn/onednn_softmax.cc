#include "executor/cpu/onednn/onednn_program.h"

namespace emplace::cpu::onednn {
namespace {

int last_axis(const Softmax& shape) { return static_cast<int>(shape.source.shape.size()) - 1; }

template <class Forward>
typename Forward::primitive_desc forward_desc(const Softmax& shape, const Desc& data) {
  return {{dnnl::prop_kind::forward_training, data, last_axis(shape)}, user_scratchpad(), engine()};
}

template <class Forward>
Program forward(const Softmax& shape) {
  const Desc data = described(shape.source);
  const auto chosen = forward_desc<Forward>(shape, data);
  return make_program(Forward{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(),
                      {{DNNL_ARG_SRC, data, data}}, {{DNNL_ARG_DST, data, data}});
}

template <class Forward, class Backward>
Program backward(const Softmax& shape) {
  const Desc data = described(shape.source);
  const typename Backward::primitive_desc chosen{
      {data, data, last_axis(shape)}, user_scratchpad(), engine(), forward_desc<Forward>(shape, data)};
  return make_program(Backward{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(),
                      {{DNNL_ARG_DST, data, data}, {DNNL_ARG_DIFF_DST, data, data}},
                      {{DNNL_ARG_DIFF_SRC, data, data}});
}

}  // namespace

Result<Program> softmax(const Softmax& shape) {
  return guarded([&] {
    return shape.log ? forward<dnnl::logsoftmax_forward>(shape) : forward<dnnl::softmax_forward>(shape);
  });
}

Result<Program> softmax_backward(const Softmax& shape) {
  return guarded([&] {
    return shape.log ? backward<dnnl::logsoftmax_forward, dnnl::logsoftmax_backward>(shape)
                     : backward<dnnl::softmax_forward, dnnl::softmax_backward>(shape);
  });
}

}  // namespace emplace::cpu::onednn
