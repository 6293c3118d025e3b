// Goal: pooling equals its definition in every implementation. Method: drawn windows (uneven, padded, rounded
// up, with holes) against a plain loop over each window; gradients by sending each share to its origin.
// Values are few and often equal, so that ties show.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/executor/cpu/kernel_run.h"

namespace emplace::cpu {
namespace {

struct Window {
  std::int64_t source, taps, stride, pad, pad_end, dilation, target;
  Window(Rng& rng, bool ceil, bool even_pads, bool holes) {
    taps = 1 + rng.below(4);
    dilation = holes && taps > 1 ? 1 + rng.below(2) : 1;
    stride = 1 + rng.below(3);
    const std::int64_t reach = (taps - 1) * dilation + 1;
    pad = rng.below(static_cast<std::uint32_t>(taps / 2 + 1));
    pad_end = even_pads ? pad : rng.below(static_cast<std::uint32_t>(taps / 2 + 1));
    source = reach + rng.below(12);
    const std::int64_t room = source + pad + pad_end - reach;
    target = (ceil ? (room + stride - 1) / stride : room / stride) + 1;
    if (ceil && (target - 1) * stride >= source + pad) --target;
  }
  std::int64_t at(std::int64_t position, std::int64_t tap) const {
    return position * stride - pad + tap * dilation;
  }
  bool inside(std::int64_t place) const { return place >= 0 && place < source; }
  std::int64_t size(std::int64_t position) const {
    return std::min(at(position, 0) + taps, source + pad_end) - at(position, 0);
  }
};

/// visit(place in the target's plane, place in the source's plane) for all pairs inside.
void each_pair(const Window& h, const Window& w,
               const std::function<void(std::int64_t, std::int64_t)>& visit) {
  for (std::int64_t y = 0; y < h.target; ++y) {
    for (std::int64_t x = 0; x < w.target; ++x) {
      for (std::int64_t ky = 0; ky < h.taps; ++ky) {
        for (std::int64_t kx = 0; kx < w.taps; ++kx) {
          const std::int64_t sy = h.at(y, ky), sx = w.at(x, kx);
          if (h.inside(sy) && w.inside(sx)) visit(y * w.target + x, sy * w.source + sx);
        }
      }
    }
  }
}

std::string pair(std::int64_t a, std::int64_t b) {
  return "[" + std::to_string(a) + "," + std::to_string(b) + "]";
}

struct Case {
  Window h, w;
  std::int64_t batch, channels;
  DType dtype;
  bool ceil;
  static Case drawn(Rng& rng, bool even_pads, bool holes) {
    const bool ceil = rng.below(3) == 0;
    return {Window{rng, ceil, even_pads, holes},
            Window{rng, ceil, even_pads, holes},
            1 + rng.below(2),
            1 + rng.below(20),
            rng.below(4) == 0 ? DType::kF64 : DType::kF32,
            ceil};
  }
  Operand source() const { return packed({batch, channels, h.source, w.source}, dtype); }
  Operand target(DType of) const { return packed({batch, channels, h.target, w.target}, of); }
  Operand target() const { return target(dtype); }
  std::string aten(const std::string& more = "") const {
    return "{\"kernel_size\":" + pair(h.taps, w.taps) + ",\"stride\":" + pair(h.stride, w.stride) +
           ",\"padding\":" + pair(h.pad, w.pad) + ",\"ceil_mode\":" + (ceil ? "true" : "false") + more + "}";
  }
  std::string onnx(const std::string& more = "") const {
    return "{\"kernel_shape\":" + pair(h.taps, w.taps) + ",\"strides\":" + pair(h.stride, w.stride) +
           ",\"pads\":[" + std::to_string(h.pad) + "," + std::to_string(w.pad) + "," +
           std::to_string(h.pad_end) + "," + std::to_string(w.pad_end) +
           "],\"dilations\":" + pair(h.dilation, w.dilation) + more + "}";
  }
};

TEST(PoolingKernels, MaximaTheirIndicesAndGradients) {
  Rng rng{31, Purpose::kTest};
  for (int round = 0; round < 100; ++round) {
    const Case c = Case::drawn(rng, /*even_pads=*/true, /*holes=*/true);
    const Values x = integer_values(c.source(), rng, -3, 3);
    const std::size_t planes = c.batch * c.channels, from = c.h.source * c.w.source,
                      to = c.h.target * c.w.target;
    Values best(planes * to, -INFINITY), places(planes * to, -1), gradient(planes * from, 0);
    const Values share = normal_values(c.target(), rng);
    for (std::size_t p = 0; p < planes; ++p) {
      each_pair(c.h, c.w, [&](std::int64_t t, std::int64_t s) {
        if (x[p * from + s] <= best[p * to + t]) return;
        best[p * to + t] = x[p * from + s];
        places[p * to + t] = static_cast<double>(s);
      });
      for (std::size_t t = 0; t < to; ++t)
        gradient[p * from + static_cast<std::size_t>(places[p * to + t])] += share[p * to + t];
    }
    const std::string attrs = c.aten(",\"dilation\":" + pair(c.h.dilation, c.w.dilation));
    SCOPED_TRACE(testing::Message() << "round " << round << " " << attrs << c.h.source << "x" << c.w.source);
    const auto out = run_kernel(
        {"aten::max_pool2d_with_indices", attrs, {c.source()}, {c.target(), c.target(DType::kI64)}}, {x});
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(out[0], best);
    EXPECT_EQ(out[1], places);
    const auto back = run_kernel({"aten::max_pool2d_with_indices_backward",
                                  attrs,
                                  {c.target(), c.source(), c.target(DType::kI64)},
                                  {c.source()}},
                                 {share, x, places});
    ASSERT_EQ(back.size(), 1u);
    expect_near(back[0], gradient);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PoolingKernels, OnnxMaximaWithAndWithoutIndices) {
  Rng rng{32, Purpose::kTest};
  for (int round = 0; round < 60; ++round) {
    const Case c = Case::drawn(rng, /*even_pads=*/false, /*holes=*/true);
    const Values x = integer_values(c.source(), rng, -3, 3);
    const std::size_t planes = c.batch * c.channels, from = c.h.source * c.w.source,
                      to = c.h.target * c.w.target;
    Values best(planes * to, -INFINITY), places(planes * to, -1);
    for (std::size_t p = 0; p < planes; ++p) {
      each_pair(c.h, c.w, [&](std::int64_t t, std::int64_t s) {
        if (x[p * from + s] <= best[p * to + t]) return;
        best[p * to + t] = x[p * from + s];
        places[p * to + t] = static_cast<double>(p * from + s);  // Indices count through the whole tensor.
      });
    }
    SCOPED_TRACE(testing::Message() << "round " << round << " " << c.onnx());
    const auto alone = run_kernel({"MaxPool", c.onnx(), {c.source()}, {c.target()}}, {x});
    const auto both =
        run_kernel({"MaxPool", c.onnx(), {c.source()}, {c.target(), c.target(DType::kI64)}}, {x});
    ASSERT_EQ(alone.size() + both.size(), 3u);
    EXPECT_EQ(alone[0], best);
    EXPECT_EQ(both[0], best);
    EXPECT_EQ(both[1], places);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PoolingKernels, MeansDivideByTheSpecifiedCount) {
  Rng rng{33, Purpose::kTest};
  for (int round = 0; round < 150; ++round) {
    const bool onnx = rng.below(2) == 0, padding = rng.below(2) == 0;
    const Case c = Case::drawn(rng, /*even_pads=*/!onnx, /*holes=*/false);
    const std::int64_t divisor = !onnx && rng.below(4) == 0 ? 7 : 0;
    const Values x = normal_values(c.source(), rng), share = normal_values(c.target(), rng);
    const std::size_t planes = c.batch * c.channels, from = c.h.source * c.w.source,
                      to = c.h.target * c.w.target;
    Values sums(planes * to, 0), inside(to, 0), gradient(planes * from, 0);
    each_pair(c.h, c.w, [&](std::int64_t t, std::int64_t) { inside[t] += 1; });
    const auto by = [&](std::size_t t) {
      if (divisor != 0) return static_cast<double>(divisor);
      return padding ? static_cast<double>(c.h.size(t / c.w.target) * c.w.size(t % c.w.target)) : inside[t];
    };
    for (std::size_t p = 0; p < planes; ++p) {
      each_pair(c.h, c.w, [&](std::int64_t t, std::int64_t s) {
        sums[p * to + t] += x[p * from + s] / by(t);
        gradient[p * from + s] += share[p * to + t] / by(t);
      });
    }
    std::string more = std::string{",\"count_include_pad\":"} + (padding ? "1" : "0");
    if (divisor != 0) more += ",\"divisor_override\":7";
    const std::string attrs = onnx ? c.onnx(more) : c.aten(more);
    SCOPED_TRACE(testing::Message() << "round " << round << " " << attrs << c.h.source << "x" << c.w.source);
    const auto out =
        run_kernel({onnx ? "AveragePool" : "aten::avg_pool2d", attrs, {c.source()}, {c.target()}}, {x});
    ASSERT_EQ(out.size(), 1u);
    expect_near(out[0], sums);
    if (!onnx) {
      const auto back = run_kernel(
          {"aten::avg_pool2d_backward", attrs, {c.target(), c.source()}, {c.source()}}, {share, x});
      ASSERT_EQ(back.size(), 1u);
      expect_near(back[0], gradient);
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PoolingKernels, EvenGridCoversTheWholeSource) {
  Rng rng{34, Purpose::kTest};
  for (int round = 0; round < 80; ++round) {
    const std::int64_t h = 1 + rng.below(20), w = 1 + rng.below(20), oh = 1 + rng.below(9),
                       ow = rng.below(3) == 0 ? 1 : 1 + rng.below(9);
    const Operand source = packed({2, 3, h, w}), target = packed({2, 3, oh, ow});
    const Values x = normal_values(source, rng), share = normal_values(target, rng);
    Values means(6 * oh * ow, 0), gradient(6 * h * w, 0);
    for (std::int64_t p = 0; p < 6; ++p) {
      for (std::int64_t t = 0; t < oh * ow; ++t) {
        const double y = static_cast<double>(t / ow), z = static_cast<double>(t % ow),
                     rows = static_cast<double>(h) / static_cast<double>(oh),
                     columns = static_cast<double>(w) / static_cast<double>(ow);
        const auto y0 = static_cast<std::int64_t>(std::floor(y * rows + 1e-9)),
                   y1 = static_cast<std::int64_t>(std::ceil((y + 1) * rows - 1e-9));
        const auto z0 = static_cast<std::int64_t>(std::floor(z * columns + 1e-9)),
                   z1 = static_cast<std::int64_t>(std::ceil((z + 1) * columns - 1e-9));
        const double count = static_cast<double>((y1 - y0) * (z1 - z0));
        for (std::int64_t sy = y0; sy < y1; ++sy) {
          for (std::int64_t sx = z0; sx < z1; ++sx) {
            means[p * oh * ow + t] += x[p * h * w + sy * w + sx] / count;
            gradient[p * h * w + sy * w + sx] += share[p * oh * ow + t] / count;
          }
        }
      }
    }
    SCOPED_TRACE(testing::Message() << h << "x" << w << " to " << oh << "x" << ow);
    const auto out = run_kernel({"aten::_adaptive_avg_pool2d", "{}", {source}, {target}}, {x});
    const auto back =
        run_kernel({"aten::_adaptive_avg_pool2d_backward", "{}", {target, source}, {source}}, {share, x});
    ASSERT_EQ(out.size() + back.size(), 2u);
    expect_near(out[0], means);
    expect_near(back[0], gradient);
    if (oh == 1 && ow == 1)
      expect_near(run_kernel({"GlobalAveragePool", "{}", {source}, {target}}, {x}).at(0), means);
    if (testing::Test::HasFailure()) return;
  }
}

// A NaN is the maximum of its window, and a window of only -∞ has its first place.
TEST(PoolingKernels, NaNAndMinusInfinityAreMaximaWithIndices) {
  const Signature signature{"aten::max_pool2d_with_indices",
                            R"({"kernel_size":[1,2],"stride":[1,2],"padding":[0,0]})",
                            {packed({1, 1, 1, 4})},
                            {packed({1, 1, 1, 2}), packed({1, 1, 1, 2}, DType::kI64)}};
  const auto out = run_kernel(signature, {{NAN, 1, -INFINITY, -INFINITY}});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(std::isnan(out[0][0]));
  EXPECT_EQ(out[0][1], -INFINITY);
  EXPECT_EQ(out[1], (Values{0, 2}));
}

TEST(PoolingKernels, RefusalsNameTheFault) {
  const Operand x = packed({1, 1, 4, 4});
  EXPECT_EQ(
      refusal({"aten::avg_pool2d", R"({"kernel_size":[2,2],"padding":[3,3]})", {x}, {packed({1, 1, 5, 5})}}),
      "aten::avg_pool2d: a window is empty");
  EXPECT_EQ(refusal({"aten::avg_pool2d",
                     R"({"kernel_size":[2,2]})",
                     {packed({1, 1, 4, 4}, DType::kI32)},
                     {packed({1, 1, 2, 2}, DType::kI32)}}),
            "aten::avg_pool2d: dtype i32");
  EXPECT_EQ(
      refusal(
          {"MaxPool", R"({"kernel_shape":[2,2,2]})", {packed({1, 1, 4, 4, 4})}, {packed({1, 1, 3, 3, 3})}}),
      "MaxPool: source and target differ outside the pooled dimensions");
  EXPECT_EQ(
      refusal({"AveragePool", R"({"kernel_shape":[2,2],"dilations":[2,2]})", {x}, {packed({1, 1, 2, 2})}}),
      "AveragePool: means with dilations are not supported");
}

}  // namespace
}  // namespace emplace::cpu
