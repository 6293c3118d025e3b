// Rules for normalisation and softmax.
#include <array>
#include <utility>

#include "graph/training/rules.h"

namespace emplace::training {
namespace {

/// The type of statistics, per channel or per group of every row.
TensorSpec statistics(const Recorder& r, Tensor x, Shape shape) {
  return {.dtype = r.dtype(x), .shape = std::move(shape)};
}

Made batch_norm(Recorder& r, const Call& call) {
  if (call.inputs.size() != 5 || r.shape(call.inputs[0]).size() < 2) return contradiction(call);
  const std::vector<Tensor>& read = call.inputs;
  const Tensor x = read[0];
  const Shape in = r.shape(x);
  for (std::size_t k = 1; k < 5; ++k) {
    if (r.shape(read[k]) != Shape{in[1]}) return contradiction(call);
  }
  if (in != call.made()) return contradiction(call);
  return std::vector{r.batch_norm(x, read[1], read[2], read[3], read[4])};
}

Made layer_norm(Recorder& r, const Call& call) {
  if (call.inputs.size() < 2 || r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const std::vector<Tensor> read = call.inputs;
  const Tensor x = read[0];
  const Shape in = r.shape(x), scale = r.shape(read[1]);
  if (scale.empty() || scale.size() > in.size() || !broadcasts(scale, in)) return contradiction(call);
  Shape rows = in;
  for (std::size_t d = in.size() - scale.size(); d < in.size(); ++d) rows[d] = 1;
  const Recorder::Attributes attrs{{"normalized_shape", json_list(scale)}};
  const std::vector<TensorSpec> outputs{call.outputs[0], statistics(r, x, rows), statistics(r, x, rows)};
  const Tensor out = r.op("aten::native_layer_norm", read, outputs, attrs);
  r.flow(out, read, [&r, read, out, in, attrs](const Gradients& dy) {
    std::vector<Tensor> reads{*dy[0], read[0], Tensor{out.op, 1}, Tensor{out.op, 2}};
    reads.insert(reads.end(), read.begin() + 1, read.end());
    Recorder::Attributes asked = attrs;
    asked.emplace("output_mask", read.size() > 2 ? "[true,true,true]" : "[true,true,false]");
    const Tensor back = r.op("aten::native_layer_norm_backward", reads, specs_of(r, read), asked);
    for (std::uint32_t k = 0; k < read.size(); ++k) r.add_gradient(read[k], {back.op, k});
  });
  return std::vector{out};
}

/// An instance norm is a group norm with one channel per group.
Made group_norm(Recorder& r, const Call& call) {
  if (call.inputs.size() != 3 || r.shape(call.inputs[0]).size() < 2) return contradiction(call);
  const std::vector<Tensor> read = call.inputs;
  const Tensor x = read[0];
  const Shape in = r.shape(x);
  const std::int64_t groups =
      call.type == "GroupNormalization" ? integer(call.attrs, "num_groups", 1) : in[1];
  if (groups < 1 || in != call.made()) return contradiction(call);
  const Recorder::Attributes attrs{{"group", std::to_string(groups)}};
  const std::vector<TensorSpec> outputs{call.outputs[0], statistics(r, x, {in[0], groups}),
                                        statistics(r, x, {in[0], groups})};
  const Tensor out = r.op("aten::native_group_norm", read, outputs, attrs);
  r.flow(out, read, [&r, read, out, in, attrs](const Gradients& dy) {
    Recorder::Attributes asked = attrs;
    asked.emplace("output_mask", "[true,true,true]");
    const Tensor back =
        r.op("aten::native_group_norm_backward",
             {*dy[0], read[0], Tensor{out.op, 1}, Tensor{out.op, 2}, read[1]}, specs_of(r, read), asked);
    for (std::uint32_t k = 0; k < 3; ++k) r.add_gradient(read[k], {back.op, k});
  });
  return std::vector{out};
}

/// y = x / √(mean(x²) + ε) · w over the dimensions from `axis` on.
Made rms_norm(Recorder& r, const Call& call) {
  if (call.inputs.size() < 2 || r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const Tensor x = call.inputs[0];
  const Shape in = r.shape(x);
  const auto axis = dimension(integer(call.attrs, "axis", -1), in.size());
  if (!axis || !broadcasts(r.shape(call.inputs[1]), in)) return contradiction(call);
  std::vector<std::int64_t> dims;
  for (std::size_t d = *axis; d < in.size(); ++d) dims.push_back(static_cast<std::int64_t>(d));
  const Tensor mean = mean_along(r, raised(r, x), dims);
  const Tensor normed = multiplied(r, x, inverse_root(r, shifted(r, mean)), in);
  return std::vector{multiplied(r, normed, call.inputs[1], in)};
}

Made softmax(Recorder& r, const Call& call) {
  if (r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const auto axis = dimension(integer(call.attrs, "axis", -1), call.made().size());
  if (!axis) return contradiction(call);
  return std::vector{r.softmax(call.inputs[0], *axis, /*log=*/call.type == "LogSoftmax")};
}

constexpr std::array kNormRules{NamedRule{"BatchNormalization", batch_norm},
                                NamedRule{"LayerNormalization", layer_norm},
                                NamedRule{"InstanceNormalization", group_norm},
                                NamedRule{"GroupNormalization", group_norm},
                                NamedRule{"RMSNormalization", rms_norm},
                                NamedRule{"SimplifiedLayerNormalization", rms_norm},
                                NamedRule{"Softmax", softmax},
                                NamedRule{"LogSoftmax", softmax}};

}  // namespace

std::span<const NamedRule> norm_rules() { return kNormRules; }

}  // namespace emplace::training
