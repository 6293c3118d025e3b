// Rules for convolutions, pooling and resizing of [B, C, d1, …, dn].
#include <fmt/core.h>

#include <array>
#include <utility>

#include "graph/training/rules.h"

namespace emplace::training {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The parameters of a window over the n spatial dimensions.
struct Window {
  Sizes kernel, strides, dilations, before, after;  ///< [n] each; the last two are paddings.
};

Sizes or_ones(const Sizes& values, std::size_t n) { return values.size() == n ? values : Sizes(n, 1); }

/// Reads the attributes; with `auto_pad` the padding follows from the shapes.
Window window_of(const Call& call, const Sizes& kernel, const Shape& in) {
  const std::size_t n = kernel.size();
  Window w{kernel, or_ones(integers(call.attrs, "strides"), n), or_ones(integers(call.attrs, "dilations"), n),
           Sizes(n, 0), Sizes(n, 0)};
  const Sizes pads = integers(call.attrs, "pads");
  const std::string automatic = word(call.attrs, "auto_pad", "NOTSET");
  for (std::size_t d = 0; d < n; ++d) {
    if (pads.size() == 2 * n) {
      w.before[d] = pads[d];
      w.after[d] = pads[d + n];
    } else if (automatic.starts_with("SAME") && call.made().size() == n + 2) {
      const std::int64_t reach =
          times(call.made()[d + 2] - 1, w.strides[d]) + times(kernel[d] - 1, w.dilations[d]) + 1;
      const std::int64_t all = std::max<std::int64_t>(0, reach - in[d + 2]);
      w.before[d] = automatic == "SAME_LOWER" ? all - all / 2 : all / 2;
      w.after[d] = all - w.before[d];
    }
  }
  return w;
}

/// torch pads both ends equally; the excess of one end becomes a separate op.
Tensor evenly_padded(Recorder& r, Tensor x, Window& w) {
  if (w.before == w.after) return x;
  const Tensor out = padded(r, x, w.before, w.after);
  w.before = w.after = Sizes(w.kernel.size(), 0);
  return out;
}

// ---- Convolutions ----

Made conv(Recorder& r, const Call& call) {
  const bool turned = call.type == "ConvTranspose";
  if (call.inputs.size() < 2) return contradiction(call);
  Tensor x = call.inputs[0];
  const Shape in = r.shape(x), weight = r.shape(call.inputs[1]), made = call.made();
  if (in.size() < 3 || weight.size() != in.size() || made.size() != in.size()) return contradiction(call);
  const std::int64_t groups = integer(call.attrs, "groups", 1);
  const bool channels = groups > 0 && (turned ? in[1] == weight[0] : in[1] == times(weight[1], groups));
  const std::int64_t out_channels = turned ? times(weight[1], groups) : weight[0];
  if (!channels || made[1] != out_channels || made[0] != in[0]) return contradiction(call);
  if (call.inputs.size() > 2 && r.shape(call.inputs[2]) != Shape{out_channels}) return contradiction(call);
  const Sizes kernel{weight.begin() + 2, weight.end()};
  Window w = window_of(call, kernel, in);
  if (!turned) x = evenly_padded(r, x, w);
  const Sizes outer = integers(call.attrs, "output_padding");
  Recorder::Attributes attrs{
      {"stride", json_list(w.strides)},
      {"padding", json_list(w.before)},
      {"dilation", json_list(w.dilations)},
      {"output_padding", json_list(outer.size() == kernel.size() ? outer : Sizes(kernel.size(), 0))}};
  if (turned) attrs.emplace("transposed", "true");
  if (groups != 1) attrs.emplace("groups", std::to_string(groups));
  const std::int64_t base = elements(turned ? r.shape(x) : made);
  const std::int64_t each = times(2, times(base, times(weight[1], elements(kernel))));
  std::vector<Tensor> read = call.inputs;
  read[0] = x;
  return std::vector{r.convolution(read, call.outputs[0], attrs, each, groups)};
}

// ---- Pooling ----

/// Views rows as images of height 1, which is how torch pools [B, C, L].
struct Flat {
  Tensor x;
  Window window;
  Shape made;
  bool widened = false;
};

std::optional<Flat> pooled(Recorder& r, const Call& call) {
  Flat flat{call.inputs[0], {}, call.made()};
  const Shape in = r.shape(flat.x);
  const Sizes kernel = integers(call.attrs, "kernel_shape");
  if (in.size() < 3 || in.size() > 5 || kernel.size() + 2 != in.size() || flat.made.size() != in.size())
    return std::nullopt;
  flat.window = window_of(call, kernel, in);
  flat.x = evenly_padded(r, flat.x, flat.window);
  if (in.size() > 3) return flat;
  flat.widened = true;
  Window& w = flat.window;
  const Shape padded = r.shape(flat.x);
  flat.x = r.reshaped(flat.x, {padded[0], padded[1], 1, padded[2]});
  flat.made.insert(flat.made.begin() + 2, 1);
  for (Sizes* sizes : {&w.kernel, &w.strides, &w.dilations}) sizes->insert(sizes->begin(), 1);
  for (Sizes* sizes : {&w.before, &w.after}) sizes->insert(sizes->begin(), 0);
  return flat;
}

Recorder::Attributes pool_attrs(const Call& call, const Window& w) {
  Recorder::Attributes attrs{{"kernel_size", json_list(w.kernel)}, {"stride", json_list(w.strides)}};
  if (w.before != Sizes(w.before.size(), 0)) attrs.emplace("padding", json_list(w.before));
  if (integer(call.attrs, "ceil_mode", 0) != 0) attrs.emplace("ceil_mode", "true");
  return attrs;
}

Made max_pool(Recorder& r, const Call& call) {
  const auto flat = pooled(r, call);
  if (!flat) return contradiction(call);
  const Tensor x = flat->x;
  Recorder::Attributes attrs = pool_attrs(call, flat->window);
  if (flat->window.dilations != Sizes(flat->window.kernel.size(), 1))
    attrs.emplace("dilation", json_list(flat->window.dilations));
  const std::string kind =
      flat->made.size() == 5 ? "aten::max_pool3d_with_indices" : "aten::max_pool2d_with_indices";
  const std::vector<TensorSpec> outputs{{.dtype = r.dtype(x), .shape = flat->made},
                                        {.dtype = DType::kI64, .shape = flat->made}};
  const std::int64_t n = elements(flat->made);
  const Tensor out = r.op(kind, {x}, outputs, times(n, elements(flat->window.kernel)), attrs);
  attrs.emplace("dilation", json_list(flat->window.dilations));
  r.flow(out, {x}, [&r, x, out, kind, attrs, n](const Gradients& dy) {
    r.add_gradient(x, r.op(kind + "_backward", {*dy[0], x, Tensor{out.op, 1}}, r.shape(x), n, attrs));
  });
  return std::vector{r.reshaped(out, call.made())};
}

Made average_pool(Recorder& r, const Call& call) {
  const auto flat = pooled(r, call);
  if (!flat) return contradiction(call);
  const Tensor x = flat->x;
  Recorder::Attributes attrs = pool_attrs(call, flat->window);
  if (integer(call.attrs, "count_include_pad", 0) != 0) attrs.emplace("count_include_pad", "true");
  const std::string kind = flat->made.size() == 5 ? "aten::avg_pool3d" : "aten::avg_pool2d";
  const std::int64_t flops = times(elements(flat->made), elements(flat->window.kernel));
  const Tensor out = r.op(kind, {x}, flat->made, flops, attrs);
  r.flow(out, {x}, [&r, x, kind, attrs, flops](const Gradients& dy) {
    r.add_gradient(x, r.op(kind + "_backward", {*dy[0], x}, r.shape(x), flops, attrs));
  });
  return std::vector{r.reshaped(out, call.made())};
}

Made average_all(Recorder& r, const Call& call) {
  if (r.shape(call.inputs[0]).size() < 3) return contradiction(call);
  std::vector<std::int64_t> dims;
  for (std::size_t d = 2; d < r.shape(call.inputs[0]).size(); ++d)
    dims.push_back(static_cast<std::int64_t>(d));
  const Tensor out = mean_along(r, call.inputs[0], dims);
  if (r.shape(out) != call.made()) return contradiction(call);
  return std::vector{out};
}

// ---- Resizing ----

Made resize(Recorder& r, const Call& call) {
  const Tensor x = call.inputs[0];
  const Shape in = r.shape(x), made = call.made();
  if (in.size() < 3 || in.size() > 5 || made.size() != in.size()) return contradiction(call);
  const std::string mode = word(call.attrs, "mode", "nearest");
  static constexpr std::array<std::string_view, 3> kLinear{"linear1d", "bilinear2d", "trilinear3d"};
  const std::string sizes = fmt::format("{}d", in.size() - 2);
  std::string kind = "aten::upsample_";
  kind += mode == "nearest" ? "nearest" + sizes
          : mode == "cubic" ? "bicubic2d"
                            : std::string{kLinear[in.size() - 3]};
  const std::int64_t each = mode == "nearest" ? 1 : mode == "cubic" ? 32 : 8;
  const Tensor out = r.pointwise(kind, {x}, made, each);
  r.flow(out, {x}, [&r, x, kind, each](const Gradients& dy) {
    const std::int64_t flops = times(elements(r.shape(*dy[0])), each);
    r.add_gradient(x, r.op(kind + "_backward", {*dy[0]}, r.shape(x), flops));
  });
  return std::vector{out};
}

/// Moves space into channels or back: the same elements in another order.
Made shuffle(Recorder& r, const Call& call) {
  const Tensor x = call.inputs[0];
  if (elements(r.shape(x)) != elements(call.made())) return contradiction(call);
  const bool apart = call.type == "DepthToSpace";
  const Tensor out = r.op(apart ? "aten::pixel_shuffle" : "aten::pixel_unshuffle", {x}, call.made());
  r.flow(out, {x}, [&r, x, apart](const Gradients& dy) {
    r.add_gradient(x, r.op(apart ? "aten::pixel_unshuffle" : "aten::pixel_shuffle", {*dy[0]}, r.shape(x)));
  });
  return std::vector{out};
}

constexpr std::array kImageRules{NamedRule{"Conv", conv},
                                 NamedRule{"ConvTranspose", conv},
                                 NamedRule{"MaxPool", max_pool},
                                 NamedRule{"AveragePool", average_pool},
                                 NamedRule{"GlobalAveragePool", average_all},
                                 NamedRule{"Resize", resize},
                                 NamedRule{"Upsample", resize},
                                 NamedRule{"DepthToSpace", shuffle},
                                 NamedRule{"SpaceToDepth", shuffle}};

}  // namespace

std::span<const NamedRule> image_rules() { return kImageRules; }

}  // namespace emplace::training
