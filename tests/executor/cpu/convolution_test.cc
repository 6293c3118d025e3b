// Goal: convolutions and their gradients equal the sums of their definition, for any layout used internally.
// Method: drawn shapes (one to three spatial dimensions, groups, strides, padding, dilation, forward and
// transposed) against one plain loop over all pairs of places: forward it adds to the target, backward it
// reads the target's gradient.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "tests/executor/cpu/kernel_run.h"

namespace emplace::cpu {
namespace {

using Dims = std::vector<std::int64_t>;

std::string list(const Dims& values) {
  std::string text = "[";
  for (const auto value : values) text += (text.size() > 1 ? "," : "") + std::to_string(value);
  return text + "]";
}

struct Problem {
  Dims source, weights, target;  ///< Shapes of the convolution, also if it is used transposed.
  Dims strides, pads, pads_end, dilations;
  std::int64_t groups = 1;

  std::size_t spatial() const { return strides.size(); }

  /// visit(source, weights, target) for every product, as places in the packed tensors.
  template <class Visit>
  void each_product(Visit visit) const {
    const std::int64_t in = weights[1], out = weights[0] / groups;
    std::vector<Dims> reach;
    Dims place(spatial()), tap(spatial());
    const std::function<void(std::size_t, std::int64_t, std::int64_t, std::int64_t)> walk =
        [&](std::size_t d, std::int64_t s, std::int64_t w, std::int64_t t) {
          if (d == spatial()) return visit(s, w, t);
          for (std::int64_t y = 0; y < target[2 + d]; ++y) {
            for (std::int64_t k = 0; k < weights[2 + d]; ++k) {
              const std::int64_t x = y * strides[d] - pads[d] + k * dilations[d];
              if (x < 0 || x >= source[2 + d]) continue;
              walk(d + 1, s * source[2 + d] + x, w * weights[2 + d] + k, t * target[2 + d] + y);
            }
          }
        };
    for (std::int64_t n = 0; n < source[0]; ++n) {
      for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t o = 0; o < out; ++o) {
          for (std::int64_t i = 0; i < in; ++i) {
            walk(0, n * source[1] + g * in + i, (g * out + o) * in + i, n * target[1] + g * out + o);
          }
        }
      }
    }
  }
};

Problem drawn_problem(Rng& rng, bool even_pads) {
  Problem p;
  const std::size_t spatial = std::array{2u, 2u, 2u, 1u, 3u}[rng.below(5)];
  p.groups = rng.below(3) == 0 ? 1 + rng.below(4) : 1;
  const std::int64_t in = rng.below(3) == 0 ? 16 : 1 + rng.below(5),
                     out = rng.below(3) == 0 ? 16 : 1 + rng.below(5);
  const bool depthwise = p.groups > 1 && rng.below(2) == 0;
  p.source = {1 + rng.below(3), (depthwise ? 1 : in) * p.groups};
  p.weights = {(depthwise ? 1 : out) * p.groups, depthwise ? 1 : in};
  p.target = {p.source[0], p.weights[0]};
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::int64_t taps = 1 + rng.below(3), dilation = 1 + (rng.below(4) == 0), stride = 1 + rng.below(2);
    const std::int64_t reach = (taps - 1) * dilation + 1,
                       pad = rng.below(static_cast<std::uint32_t>(std::min<std::int64_t>(reach, 3)));
    const std::int64_t pad_end =
        even_pads ? pad : rng.below(static_cast<std::uint32_t>(std::min<std::int64_t>(reach, 3)));
    const std::int64_t size = reach + rng.below(spatial == 3 ? 4 : 9);
    p.source.push_back(size);
    p.weights.push_back(taps);
    p.target.push_back((size + pad + pad_end - reach) / stride + 1);
    p.strides.push_back(stride);
    p.pads.push_back(pad);
    p.pads_end.push_back(pad_end);
    p.dilations.push_back(dilation);
  }
  return p;
}

std::string aten_attrs(const Problem& p, const std::string& more = "") {
  return "{\"stride\":" + list(p.strides) + ",\"padding\":" + list(p.pads) +
         ",\"dilation\":" + list(p.dilations) + ",\"groups\":" + std::to_string(p.groups) + more + "}";
}

Values filled(const Dims& shape, double value = 0) {
  return Values(static_cast<std::size_t>(packed(shape).elements()), value);
}

/// Adds bias[c] to every element of channel c.
void add_bias(Values& target, const Dims& shape, const Values& bias) {
  const std::size_t plane = target.size() / static_cast<std::size_t>(shape[0] * shape[1]);
  for (std::size_t i = 0; i < target.size(); ++i) target[i] += bias[i / plane % bias.size()];
}

TEST(ConvolutionKernels, ForwardIsTheSumOverTheWindow) {
  Rng rng{21, Purpose::kTest};
  for (int round = 0; round < 60; ++round) {
    const bool onnx = rng.below(2) == 0, bias = rng.below(2) == 0;
    const Problem p = drawn_problem(rng, !onnx);
    std::vector<Operand> inputs{packed(p.source), packed(p.weights)};
    if (rng.below(3) == 0) {
      // Channels last, as a view.
      std::vector<std::size_t> order{0};
      for (std::size_t d = 2; d < p.source.size(); ++d) order.push_back(d);
      order.push_back(1);
      inputs[0] = permuted(p.source, order);
    }
    std::vector<Values> values{normal_values(inputs[0], rng), normal_values(inputs[1], rng)};
    Values wanted = filled(p.target);
    p.each_product([&](auto s, auto w, auto t) { wanted[t] += values[0][s] * values[1][w]; });
    if (bias) {
      inputs.push_back(packed({p.target[1]}));
      values.push_back(normal_values(inputs[2], rng));
      add_bias(wanted, p.target, values[2]);
    }
    Dims pads = p.pads;
    pads.insert(pads.end(), p.pads_end.begin(), p.pads_end.end());
    const std::string attrs = onnx ? "{\"strides\":" + list(p.strides) + ",\"pads\":" + list(pads) +
                                         ",\"dilations\":" + list(p.dilations) +
                                         ",\"group\":" + std::to_string(p.groups) + "}"
                                   : aten_attrs(p);
    SCOPED_TRACE(testing::Message() << "round " << round << " " << attrs << list(p.source)
                                    << list(p.weights));
    const auto out =
        run_kernel({onnx ? "Conv" : "aten::convolution", attrs, inputs, {packed(p.target)}}, values);
    ASSERT_EQ(out.size(), 1u);
    expect_near(out[0], wanted, 1e-5, 1e-4);
    if (testing::Test::HasFailure()) return;
  }
}

/// The end of the source that no window covers: a transposed convolution gets it as output padding.
Dims unseen(const Problem& p) {
  Dims extra;
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    extra.push_back(p.source[2 + d] + p.pads[d] + p.pads_end[d] - (p.weights[2 + d] - 1) * p.dilations[d] -
                    1 - (p.target[2 + d] - 1) * p.strides[d]);
  }
  return extra;
}

TEST(ConvolutionKernels, TransposedIsTheSumOverTheWindowsThatCoverAPlace) {
  Rng rng{22, Purpose::kTest};
  for (int round = 0; round < 50; ++round) {
    const bool onnx = rng.below(2) == 0, bias = rng.below(2) == 0;
    const Problem p = drawn_problem(rng, /*even_pads=*/true);
    std::vector<Operand> inputs{packed(p.target), packed(p.weights)};
    std::vector<Values> values{normal_values(inputs[0], rng), normal_values(inputs[1], rng)};
    Values wanted = filled(p.source);
    p.each_product([&](auto s, auto w, auto t) { wanted[s] += values[0][t] * values[1][w]; });
    if (bias) {
      inputs.push_back(packed({p.source[1]}));
      values.push_back(normal_values(inputs[2], rng));
      add_bias(wanted, p.source, values[2]);
    }
    Dims pads = p.pads;
    pads.insert(pads.end(), p.pads.begin(), p.pads.end());
    const std::string extra = ",\"output_padding\":" + list(unseen(p));
    const std::string attrs = onnx ? "{\"strides\":" + list(p.strides) + ",\"pads\":" + list(pads) +
                                         ",\"dilations\":" + list(p.dilations) +
                                         ",\"group\":" + std::to_string(p.groups) + extra + "}"
                                   : aten_attrs(p, ",\"transposed\":true" + extra);
    SCOPED_TRACE(testing::Message() << "round " << round << " " << attrs << list(p.source)
                                    << list(p.weights));
    const auto out =
        run_kernel({onnx ? "ConvTranspose" : "aten::convolution", attrs, inputs, {packed(p.source)}}, values);
    ASSERT_EQ(out.size(), 1u);
    expect_near(out[0], wanted, 1e-5, 1e-4);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ConvolutionKernels, ComputesTheGradientsOfTheMask) {
  Rng rng{23, Purpose::kTest};
  for (int round = 0; round < 60; ++round) {
    const bool transposed = rng.below(3) == 0;
    const Problem p = drawn_problem(rng, /*even_pads=*/true);
    const Dims &in = transposed ? p.target : p.source, &out = transposed ? p.source : p.target;
    const std::uint32_t asked = 1 + rng.below(7);
    const std::vector<Operand> inputs{packed(out), packed(in), packed(p.weights)};
    const std::vector<Values> values{normal_values(inputs[0], rng), normal_values(inputs[1], rng),
                                     normal_values(inputs[2], rng)};
    Values to_source = filled(in), to_weights = filled(p.weights), to_bias = filled({out[1]});
    p.each_product([&](auto s, auto w, auto t) {
      const auto i = transposed ? t : s, o = transposed ? s : t;
      to_source[i] += values[0][o] * values[2][w];
      to_weights[w] += values[0][o] * values[1][i];
    });
    const std::size_t plane = values[0].size() / static_cast<std::size_t>(out[0] * out[1]);
    for (std::size_t i = 0; i < values[0].size(); ++i) to_bias[i / plane % to_bias.size()] += values[0][i];

    std::vector<Operand> outputs;
    std::vector<Values> wanted;
    std::string mask;
    const auto add = [&](bool is_asked, const Dims& shape, const Values& gradient) {
      mask += mask.empty() ? "" : ",";
      mask += is_asked ? "true" : "false";
      if (!is_asked) return;
      outputs.push_back(packed(shape));
      wanted.push_back(gradient);
    };
    add(asked & 1, in, to_source);
    add(asked & 2, p.weights, to_weights);
    add(asked & 4, {out[1]}, to_bias);
    const std::string attrs =
        aten_attrs(p, (transposed ? ",\"transposed\":true,\"output_padding\":" + list(unseen(p)) : "") +
                          ",\"output_mask\":[" + mask + "]");
    SCOPED_TRACE(testing::Message() << "round " << round << " " << attrs << list(p.source)
                                    << list(p.weights));
    const auto got = run_kernel({"aten::convolution_backward", attrs, inputs, outputs}, values);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t k = 0; k < got.size(); ++k) expect_near(got[k], wanted[k], 1e-5, 2e-4);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ConvolutionKernels, AutomaticPaddingPutsTheOddElementOnTheSpecifiedSide) {
  const Values ones{1, 1};
  const auto conv = [&](const std::string& where) {
    return run_kernel({"Conv",
                       "{\"auto_pad\":\"" + where + "\"}",
                       {packed({1, 1, 3}), packed({1, 1, 2})},
                       {packed({1, 1, where == "VALID" ? 2 : 3})}},
                      {{1, 2, 4}, ones});
  };
  EXPECT_EQ(conv("SAME_UPPER").at(0), (Values{3, 6, 4}));
  EXPECT_EQ(conv("SAME_LOWER").at(0), (Values{1, 3, 6}));
  EXPECT_EQ(conv("VALID").at(0), (Values{3, 6}));
}

TEST(ConvolutionKernels, RefusalsNameTheFault) {
  const Operand source = packed({1, 4, 5, 5}), weights = packed({2, 4, 3, 3}), target = packed({1, 2, 3, 3});
  EXPECT_EQ(refusal({"aten::convolution", R"({"groups":2})", {source, weights}, {target}}),
            "aten::convolution: channels, groups and weights do not match");
  EXPECT_EQ(refusal({"aten::convolution", R"({"stride":[1,1,1]})", {source, weights}, {target}}),
            "aten::convolution: expected one value of stride, padding and dilation per spatial dimension");
  EXPECT_EQ(refusal({"Conv", R"({"auto_pad":"SAME"})", {source, weights}, {target}}),
            "Conv: auto_pad SAME is unknown");
  EXPECT_EQ(refusal({"aten::convolution_backward",
                     R"({"output_mask":[true,false,true]})",
                     {target, source, weights},
                     {source}}),
            "aten::convolution_backward: output_mask does not match the number of outputs");
  EXPECT_EQ(refusal({"aten::convolution", R"({"stride":[2,2]})", {source, weights}, {packed({1, 2, 3, 3})}}),
            "aten::convolution: output shape does not match stride, padding and dilation");
}

}  // namespace
}  // namespace emplace::cpu
