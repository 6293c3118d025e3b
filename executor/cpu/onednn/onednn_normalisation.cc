#include <type_traits>

#include "executor/cpu/onednn/onednn_program.h"

namespace emplace::cpu::onednn {
namespace {

using dnnl::normalization_flags;
using dnnl::prop_kind;

struct Descs {
  Desc data, statistics, channels;
};

/// Statistics and parameters are f32 for every data type.
Descs descs_of(const Normalisation& shape) {
  const auto& dims = shape.source.shape;
  const bool batch = shape.of == Normalisation::Of::kBatch;
  return {described(shape.source), packed_desc({batch ? dims[1] : dims[0]}, DType::kF32),
          packed_desc({dims[1]}, DType::kF32)};
}

normalization_flags flags_of(const Normalisation& shape) {
  auto flags = normalization_flags::none;
  if (shape.affine) flags |= normalization_flags::use_scale | normalization_flags::use_shift;
  if (shape.fixed_statistics) flags |= normalization_flags::use_global_stats;
  return flags;
}

template <class Forward>
typename Forward::primitive_desc forward_desc(const Normalisation& shape, const Descs& descs) {
  const prop_kind kind = shape.fixed_statistics ? prop_kind::forward_inference : prop_kind::forward_training;
  const auto desc = [&]() -> typename Forward::desc {
    if constexpr (std::is_same_v<Forward, dnnl::batch_normalization_forward>) {
      return {kind, descs.data, shape.epsilon, flags_of(shape)};
    } else {
      return {kind, descs.data, descs.statistics, shape.epsilon, flags_of(shape)};
    }
  }();
  return {desc, user_scratchpad(), engine()};
}

template <class Forward>
Program forward(const Normalisation& shape) {
  const Descs descs = descs_of(shape);
  const auto chosen = forward_desc<Forward>(shape, descs);
  const Argument mean{DNNL_ARG_MEAN, descs.statistics, descs.statistics};
  const Argument variance{DNNL_ARG_VARIANCE, descs.statistics, descs.statistics};
  std::vector<Argument> inputs{{DNNL_ARG_SRC, descs.data, descs.data}};
  std::vector<Argument> outputs{{DNNL_ARG_DST, descs.data, descs.data}};
  auto& statistics = shape.fixed_statistics ? inputs : outputs;
  statistics.push_back(mean);
  statistics.push_back(variance);
  if (shape.affine) {
    inputs.push_back({DNNL_ARG_SCALE, descs.channels, descs.channels});
    inputs.push_back({DNNL_ARG_SHIFT, descs.channels, descs.channels});
  }
  return make_program(Forward{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(), inputs, outputs);
}

template <class Forward, class Backward>
Program backward(const Normalisation& shape) {
  const Descs descs = descs_of(shape);
  const prop_kind kind = shape.affine ? prop_kind::backward : prop_kind::backward_data;
  Normalisation training = shape;
  training.fixed_statistics = false;
  const auto hint = forward_desc<Forward>(training, descs);
  const auto desc = [&]() -> typename Backward::desc {
    if constexpr (std::is_same_v<Backward, dnnl::batch_normalization_backward>) {
      return {kind, descs.data, descs.data, shape.epsilon, flags_of(shape)};
    } else {
      return {kind, descs.data, descs.data, descs.statistics, shape.epsilon, flags_of(shape)};
    }
  }();
  const typename Backward::primitive_desc chosen{desc, user_scratchpad(), engine(), hint};
  std::vector<Argument> inputs{{DNNL_ARG_SRC, descs.data, descs.data},
                               {DNNL_ARG_DIFF_DST, descs.data, descs.data},
                               {DNNL_ARG_MEAN, descs.statistics, descs.statistics},
                               {DNNL_ARG_VARIANCE, descs.statistics, descs.statistics}};
  std::vector<Argument> outputs{{DNNL_ARG_DIFF_SRC, descs.data, descs.data}};
  if (shape.affine) {
    inputs.push_back({DNNL_ARG_SCALE, descs.channels, descs.channels});
    inputs.push_back({DNNL_ARG_SHIFT, descs.channels, descs.channels});
    outputs.push_back({DNNL_ARG_DIFF_SCALE, descs.channels, descs.channels});
    outputs.push_back({DNNL_ARG_DIFF_SHIFT, descs.channels, descs.channels});
  }
  return make_program(Backward{chosen}, chosen.scratchpad_desc(), chosen.impl_info_str(), inputs, outputs);
}

}  // namespace

Result<Program> normalise(const Normalisation& shape) {
  return guarded([&] {
    return shape.of == Normalisation::Of::kBatch ? forward<dnnl::batch_normalization_forward>(shape)
                                                 : forward<dnnl::layer_normalization_forward>(shape);
  });
}

Result<Program> normalise_backward(const Normalisation& shape) {
  return guarded([&] {
    return shape.of == Normalisation::Of::kBatch
               ? backward<dnnl::batch_normalization_forward, dnnl::batch_normalization_backward>(shape)
               : backward<dnnl::layer_normalization_forward, dnnl::layer_normalization_backward>(shape);
  });
}

}  // namespace emplace::cpu::onednn
