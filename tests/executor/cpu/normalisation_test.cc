// Goal: normalised values, statistics and gradients follow the definitions, with every mask and without
// optional operands. Method: drawn shapes against sums in double, written once for groups of elements.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/executor/cpu/kernel_run.h"

namespace emplace::cpu {
namespace {

/// Element i belongs to statistic of(i) and to parameter channel(i).
struct Groups {
  std::size_t statistics, channels, plane;  ///< Batch: plane elements per channel. Layer: plane = 0.
  std::size_t statistic(std::size_t i) const { return plane != 0 ? i / plane % channels : i / channels; }
  std::size_t channel(std::size_t i) const { return plane != 0 ? i / plane % channels : i % channels; }
};

struct Statistics {
  Values mean, inverse;
};

Statistics statistics_of(const Values& x, const Groups& groups, double epsilon) {
  Values count(groups.statistics), mean(groups.statistics), variance(groups.statistics);
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean[groups.statistic(i)] += x[i];
    count[groups.statistic(i)] += 1;
  }
  for (std::size_t s = 0; s < mean.size(); ++s) mean[s] /= count[s];
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t s = groups.statistic(i);
    variance[s] += (x[i] - mean[s]) * (x[i] - mean[s]) / count[s];
  }
  for (double& v : variance) v = 1 / std::sqrt(v + epsilon);
  return {mean, variance};
}

Values normalised(const Values& x, const Groups& groups, const Statistics& by, const Values& scale,
                  const Values& shift) {
  Values out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t s = groups.statistic(i), c = groups.channel(i);
    out[i] = (x[i] - by.mean[s]) * by.inverse[s] * scale[c] + shift[c];
  }
  return out;
}

struct Gradients {
  Values source, scale, shift;
};

/// `fixed`: the statistics do not depend on the source.
Gradients gradients_of(const Values& dy, const Values& x, const Groups& groups, const Statistics& by,
                       const Values& scale, bool fixed) {
  Gradients out{Values(x.size()), Values(groups.channels), Values(groups.channels)};
  Values count(groups.statistics), sum(groups.statistics), product(groups.statistics);
  const auto centred = [&](std::size_t i) {
    return (x[i] - by.mean[groups.statistic(i)]) * by.inverse[groups.statistic(i)];
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t s = groups.statistic(i), c = groups.channel(i);
    out.scale[c] += dy[i] * centred(i);
    out.shift[c] += dy[i];
    count[s] += 1;
    sum[s] += dy[i] * scale[c];
    product[s] += dy[i] * scale[c] * centred(i);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t s = groups.statistic(i);
    const double own = dy[i] * scale[groups.channel(i)];
    out.source[i] =
        by.inverse[s] * (fixed ? own : own - sum[s] / count[s] - centred(i) * product[s] / count[s]);
  }
  return out;
}

struct Drawn {
  Operand source, channels, statistics;
  Groups groups;
  Values x, dy, scale, shift;
  std::string shape;  ///< normalized_shape of the layer kind.

  Drawn(Rng& rng, bool layer) {
    if (layer) {
      std::vector<std::int64_t> dims{1 + rng.below(3), 1 + rng.below(6), 2 + rng.below(40)};
      const std::size_t normalised = rng.below(4) == 0 ? 2 : 1;
      source = packed(dims);
      channels = packed({dims.end() - static_cast<std::ptrdiff_t>(normalised), dims.end()});
      for (std::size_t d = 3 - normalised; d < 3; ++d) dims[d] = 1;
      statistics = packed(dims);
      shape = normalised == 2
                  ? "[" + std::to_string(source.shape[1]) + "," + std::to_string(source.shape[2]) + "]"
                  : "[" + std::to_string(source.shape[2]) + "]";
      groups = {static_cast<std::size_t>(statistics.elements()),
                static_cast<std::size_t>(channels.elements()), 0};
    } else {
      std::vector<std::int64_t> dims{2 + rng.below(4), 1 + rng.below(20)};
      for (std::uint32_t d = rng.below(3); d > 0; --d) dims.push_back(1 + rng.below(6));
      source = packed(dims);
      channels = statistics = packed({dims[1]});
      const auto c = static_cast<std::size_t>(dims[1]);
      groups = {c, c, static_cast<std::size_t>(source.elements() / dims[0] / dims[1])};
    }
    x = normal_values(source, rng);
    for (double& value : x) value = 2 * value + 0.5;
    dy = normal_values(source, rng);
    scale = normal_values(channels, rng);
    shift = normal_values(channels, rng);
  }
};

struct Mask {
  std::uint32_t bits;
  std::string text;
  explicit Mask(std::uint32_t b) : bits{b} {
    for (int k = 0; k < 3; ++k)
      text += std::string{k == 0 ? "[" : ","} + ((b >> k & 1) != 0 ? "true" : "false");
    text += "]";
  }
  /// The requested ones of the three.
  template <class T>
  std::vector<T> of(const T& first, const T& second, const T& third) const {
    std::vector<T> out;
    if (bits & 1) out.push_back(first);
    if (bits & 2) out.push_back(second);
    if (bits & 4) out.push_back(third);
    return out;
  }
};

void expect_all_near(const std::vector<Values>& values, const std::vector<Values>& wanted) {
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t k = 0; k < values.size(); ++k) expect_near(values[k], wanted[k], 2e-5, 1e-4);
}

TEST(NormalisationKernels, BatchNormInTraining) {
  Rng rng{41, Purpose::kTest};
  for (int round = 0; round < 60; ++round) {
    const Drawn d{rng, /*layer=*/false};
    const bool affine = rng.below(3) != 0, running = rng.below(2) == 0;
    const double epsilon = rng.below(2) == 0 ? 1e-5 : 1e-2;
    const Values ones(d.groups.channels, 1), zeros(d.groups.channels, 0), other(d.groups.channels, 9);
    const Values &scale = affine ? d.scale : ones, &shift = affine ? d.shift : zeros;
    const Statistics by = statistics_of(d.x, d.groups, epsilon);
    std::vector<Operand> inputs{d.source};
    std::vector<Values> values{d.x};
    const auto add = [&](bool is_there, const Values& list) {
      if (!is_there) return;
      inputs.push_back(d.channels);
      values.push_back(list);
    };
    add(affine, scale), add(affine, shift), add(affine && running, other), add(affine && running, other);
    const std::string eps = ",\"eps\":" + std::to_string(epsilon) + "}";
    SCOPED_TRACE(round);
    expect_all_near(run_kernel({"aten::native_batch_norm",
                                "{\"training\":true" + eps,
                                inputs,
                                {d.source, d.statistics, d.statistics}},
                               values),
                    {normalised(d.x, d.groups, by, scale, shift), by.mean, by.inverse});

    const Mask mask{affine ? 1 + rng.below(7) : 1};
    const Gradients wanted = gradients_of(d.dy, d.x, d.groups, by, scale, /*fixed=*/false);
    inputs = {d.source, d.source};
    values = {d.dy, d.x};
    add(affine, scale), add(affine && running, other), add(affine && running, other), add(true, by.mean),
        add(true, by.inverse);
    expect_all_near(
        run_kernel({"aten::native_batch_norm_backward", "{\"train\":true,\"output_mask\":" + mask.text + "}",
                    inputs, mask.of(d.source, d.channels, d.channels)},
                   values),
        mask.of(wanted.source, wanted.scale, wanted.shift));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NormalisationKernels, BatchNormWithGivenStatistics) {
  Rng rng{42, Purpose::kTest};
  for (int round = 0; round < 40; ++round) {
    const Drawn d{rng, /*layer=*/false};
    const Values mean = normal_values(d.channels, rng);
    Values variance = normal_values(d.channels, rng);
    for (double& v : variance) v = v * v + 0.25;
    Statistics by{mean, variance};
    for (double& v : by.inverse) v = 1 / std::sqrt(v + 1e-3);
    const std::vector<Operand> inputs{d.source, d.channels, d.channels, d.channels, d.channels};
    const std::vector<Values> values{d.x, d.scale, d.shift, mean, variance};
    const Values wanted = normalised(d.x, d.groups, by, d.scale, d.shift);
    SCOPED_TRACE(round);
    expect_all_near(
        run_kernel({"BatchNormalization", R"({"epsilon":0.001,"momentum":0.9})", inputs, {d.source}}, values),
        {wanted});
    expect_all_near(
        run_kernel(
            {"aten::native_batch_norm", R"({"eps":0.001})", inputs, {d.source, d.channels, d.channels}},
            values),
        {wanted, mean, by.inverse});
    const Gradients gradients = gradients_of(d.dy, d.x, d.groups, by, d.scale, /*fixed=*/true);
    expect_all_near(
        run_kernel({"aten::native_batch_norm_backward",
                    R"({"eps":0.001})",
                    {d.source, d.source, d.channels, d.channels, d.channels, d.channels, d.channels},
                    {d.source, d.channels, d.channels}},
                   {d.dy, d.x, d.scale, mean, variance, Values(mean.size()), Values(mean.size())}),
        {gradients.source, gradients.scale, gradients.shift});
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NormalisationKernels, LayerNormForwardAndBackward) {
  Rng rng{43, Purpose::kTest};
  for (int round = 0; round < 60; ++round) {
    const Drawn d{rng, /*layer=*/true};
    const bool affine = rng.below(3) != 0;
    const Values ones(d.groups.channels, 1), zeros(d.groups.channels, 0);
    const Values &scale = affine ? d.scale : ones, &shift = affine ? d.shift : zeros;
    const Statistics by = statistics_of(d.x, d.groups, 1e-5);
    const std::string attrs = "{\"normalized_shape\":" + d.shape;
    std::vector<Operand> inputs{d.source};
    std::vector<Values> values{d.x};
    if (affine)
      inputs.insert(inputs.end(), {d.channels, d.channels}), values.insert(values.end(), {scale, shift});
    SCOPED_TRACE(testing::Message() << round << " " << attrs);
    expect_all_near(
        run_kernel({"aten::native_layer_norm", attrs + "}", inputs, {d.source, d.statistics, d.statistics}},
                   values),
        {normalised(d.x, d.groups, by, scale, shift), by.mean, by.inverse});

    const Mask mask{affine ? 1 + rng.below(7) : 1};
    const Gradients wanted = gradients_of(d.dy, d.x, d.groups, by, scale, /*fixed=*/false);
    inputs = {d.source, d.source, d.statistics, d.statistics};
    values = {d.dy, d.x, by.mean, by.inverse};
    if (affine)
      inputs.insert(inputs.end(), {d.channels, d.channels}), values.insert(values.end(), {scale, shift});
    expect_all_near(
        run_kernel({"aten::native_layer_norm_backward", attrs + ",\"output_mask\":" + mask.text + "}", inputs,
                    mask.of(d.source, d.channels, d.channels)},
                   values),
        mask.of(wanted.source, wanted.scale, wanted.shift));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NormalisationKernels, RefusalsNameTheFault) {
  const Operand x = packed({2, 3}), list = packed({3}), rows = packed({2, 1});
  EXPECT_EQ(
      refusal({"aten::native_layer_norm", R"({"normalized_shape":[2]})", {x, list, list}, {x, rows, rows}}),
      "aten::native_layer_norm: normalized_shape does not match the last dimensions of the source");
  EXPECT_EQ(
      refusal({"aten::native_batch_norm", "{}", {x, list, list, list, rows}, {x, list, list}}),
      "aten::native_batch_norm: expected scale, shift and statistics as f32 lists that match the source");
  EXPECT_EQ(
      refusal({"aten::native_batch_norm_backward", R"({"train":true})", {x, x, list, list}, {x, list, list}}),
      "aten::native_batch_norm_backward: gradient of a missing scale or shift");
  EXPECT_EQ(refusal({"BatchNormalization", R"({"training_mode":1})", {x, list, list, list, list}, {x}}),
            "BatchNormalization: training_mode");
}

}  // namespace
}  // namespace emplace::cpu
