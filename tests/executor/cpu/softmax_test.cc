// Goal: softmax, its logarithm, the loss read out of it and their gradients, along any dimension. Method:
// drawn shapes against sums in double; views, large and infinite scores, ignored classes.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/executor/cpu/kernel_run.h"

namespace emplace::cpu {
namespace {

struct DrawnLogits {
  std::vector<std::int64_t> dims;
  std::size_t dim = 0, count = 1, inner = 1, outer = 1;
  explicit DrawnLogits(Rng& rng) {
    for (std::uint32_t d = 1 + rng.below(4); d > 0; --d)
      dims.push_back(1 + rng.below(rng.below(5) == 0 ? 150 : 6));
    dim = rng.below(static_cast<std::uint32_t>(dims.size()));
    count = static_cast<std::size_t>(dims[dim]);
    for (std::size_t d = 0; d < dims.size(); ++d)
      (d < dim ? outer : inner) *= d == dim ? 1 : static_cast<std::size_t>(dims[d]);
  }
  /// visit(place of element 0 of a row); its elements are `inner` apart.
  template <class Visit>
  void each_row(Visit visit) const {
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::size_t i = 0; i < inner; ++i) visit(o * count * inner + i);
    }
  }
  std::string attrs(const std::string& name, Rng& rng) const {
    const auto at =
        static_cast<std::int64_t>(dim) - (rng.below(2) == 0 ? 0 : static_cast<std::int64_t>(dims.size()));
    return "{\"" + name + "\":" + std::to_string(at) + "}";
  }
};

Values softmax(const DrawnLogits& d, const Values& x, bool log) {
  Values out(x.size());
  d.each_row([&](std::size_t at) {
    double peak = -INFINITY, sum = 0;
    for (std::size_t k = 0; k < d.count; ++k) peak = std::max(peak, x[at + k * d.inner]);
    for (std::size_t k = 0; k < d.count; ++k) sum += std::exp(x[at + k * d.inner] - peak);
    for (std::size_t k = 0; k < d.count; ++k) {
      const double own = x[at + k * d.inner] - peak;
      out[at + k * d.inner] = log ? own - std::log(sum) : std::exp(own) / sum;
    }
  });
  return out;
}

TEST(SoftmaxKernels, ForwardAndBackwardAlongAnyDimension) {
  Rng rng{51, Purpose::kTest};
  for (int round = 0; round < 80; ++round) {
    const DrawnLogits d{rng};
    const bool log = rng.below(2) == 0;
    std::vector<std::size_t> order(d.dims.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    if (rng.below(3) == 0) rng.shuffle(order);
    const Operand source = permuted(d.dims, order), out = packed(d.dims);
    Values x = normal_values(source, rng);
    for (double& value : x) value *= 5;
    const Values y = softmax(d, x, log), dy = normal_values(out, rng);
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << d.outer << "x" << d.count << "x"
                                    << d.inner);
    const std::string name = log ? "_log_softmax" : "_softmax";
    const bool onnx = rng.below(3) == 0;
    const auto got =
        onnx ? run_kernel({log ? "LogSoftmax" : "Softmax", d.attrs("axis", rng), {source}, {out}}, {x})
             : run_kernel({"aten::" + name, d.attrs("dim", rng), {source}, {out}}, {x});
    ASSERT_EQ(got.size(), 1u);
    expect_near(got[0], y, 1e-5, 1e-5);

    Values wanted(x.size());
    d.each_row([&](std::size_t at) {
      double sum = 0;
      for (std::size_t k = 0; k < d.count; ++k) sum += dy[at + k * d.inner] * (log ? 1 : y[at + k * d.inner]);
      for (std::size_t k = 0; k < d.count; ++k) {
        const std::size_t i = at + k * d.inner;
        wanted[i] = log ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
      }
    });
    const auto back =
        run_kernel({"aten::" + name + "_backward_data", d.attrs("dim", rng), {out, out}, {out}}, {dy, y});
    ASSERT_EQ(back.size(), 1u);
    expect_near(back[0], wanted, 1e-5, 2e-5);
    if (testing::Test::HasFailure()) return;
  }
}

// A mask adds -∞: such places get 0, along rows and along columns.
TEST(SoftmaxKernels, MaskedPlacesGetZero) {
  const Values x{1, -INFINITY, 1, 2, -INFINITY, -INFINITY};
  const auto rows = run_kernel({"aten::_softmax", R"({"dim":1})", {packed({2, 3})}, {packed({2, 3})}}, {x});
  expect_near(rows.at(0), {0.5, 0, 0.5, 1, 0, 0}, 1e-6, 0);
  const auto columns = run_kernel({"aten::_softmax", R"({"dim":0})", {packed({3, 2})}, {packed({3, 2})}},
                                  {{1, 2, -INFINITY, -INFINITY, 1, -INFINITY}});
  expect_near(columns.at(0), {0.5, 1, 0, 0, 0.5, 0}, 1e-6, 0);
}

TEST(LossKernels, SumOrMeanOverClassesThatAreNotIgnored) {
  Rng rng{52, Purpose::kTest};
  for (int round = 0; round < 120; ++round) {
    const bool plane = rng.below(2) == 0;
    const std::int64_t batch = 1 + rng.below(5), classes = 1 + rng.below(6), inner = plane ? 6 : 1;
    const DType dtype = rng.below(4) == 0 ? DType::kF64 : DType::kF32;
    const Operand source = plane ? packed({batch, classes, 2, 3}, dtype) : packed({batch, classes}, dtype);
    const Operand chosen = plane ? packed({batch, 2, 3}, DType::kI64) : packed({batch}, DType::kI64),
                  list = packed({classes}, dtype), one = packed({}, dtype);
    const std::uint32_t reduction = rng.below(3);
    const bool weighted = rng.below(2) == 0;
    const Values x = normal_values(source, rng);
    Values weights(classes, 1);
    if (weighted) {
      for (double& w : weights) w = 0.25 * (1 + rng.below(8));
    }
    // Class 0 is ignored; at least one class is not, unless there is no other.
    const Values targets = integer_values(chosen, rng, 0, classes);
    Values losses(targets.size()), gradient(x.size()), dy(reduction == 0 ? targets.size() : 1);
    double sum = 0, total = 0;
    for (double& value : dy) value = rng.normal();
    const auto place = [&](std::size_t e) {
      return (e / inner * classes + static_cast<std::size_t>(targets[e])) * inner + e % inner;
    };
    const auto weight = [&](std::size_t e) {
      return targets[e] == 0 ? 0 : weights[static_cast<std::size_t>(targets[e])];
    };
    for (std::size_t e = 0; e < targets.size(); ++e) {
      losses[e] = weight(e) == 0 ? 0 : -weight(e) * x[place(e)];
      sum += losses[e];
      total += weight(e);
    }
    for (std::size_t e = 0; e < targets.size(); ++e) {
      if (weight(e) != 0)
        gradient[place(e)] = -weight(e) * dy[reduction == 0 ? e : 0] / (reduction == 1 ? total : 1);
    }
    const std::string kind = plane ? "aten::nll_loss2d_" : "aten::nll_loss_",
                      attrs = "{\"reduction\":" + std::to_string(reduction) + ",\"ignore_index\":0}";
    const Operand loss = reduction == 0 ? packed(chosen.shape, dtype) : one;
    std::vector<Operand> inputs{source, chosen};
    std::vector<Values> values{x, targets};
    if (weighted) inputs.push_back(list), values.push_back(weights);
    SCOPED_TRACE(testing::Message() << "round " << round << " " << kind << attrs);
    const auto out = run_kernel({kind + "forward", attrs, inputs, {loss, one}}, values);
    ASSERT_EQ(out.size(), 2u);
    expect_near(out[0], reduction == 0 ? losses : Values{reduction == 1 ? sum / total : sum});
    expect_near(out[1], {reduction == 0 ? 0 : total});
    inputs.insert(inputs.begin(), loss), inputs.push_back(one);
    values.insert(values.begin(), dy), values.push_back({total});
    const auto back = run_kernel({kind + "backward", attrs, inputs, {source}}, values);
    ASSERT_EQ(back.size(), 1u);
    expect_near(back[0], gradient);
    if (testing::Test::HasFailure()) return;
  }
}

// Nothing is read or written outside of the log probabilities, whatever the data contains.
TEST(LossKernels, IgnoreInvalidClasses) {
  const Operand source = packed({3, 2}), chosen = packed({3}, DType::kI64), one = packed({});
  const auto out = run_kernel({"aten::nll_loss_forward", R"({"reduction":1})", {source, chosen}, {one, one}},
                              {{-1, -2, -3, -4, -5, -6}, {1, 2, -1}});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0], Values{2});
  EXPECT_EQ(out[1], Values{1});
}

TEST(LossKernels, RefusalsNameTheFault) {
  const Operand source = packed({3, 2}), one = packed({});
  EXPECT_EQ(refusal({"aten::nll_loss_forward", "{}", {source, packed({3})}, {one, one}}),
            "aten::nll_loss_forward: expected classes of dtype i64 with the shape of the examples");
  EXPECT_EQ(
      refusal(
          {"aten::nll_loss_forward", R"({"reduction":3})", {source, packed({3}, DType::kI64)}, {one, one}}),
      "aten::nll_loss_forward: expected reduction 0, 1 or 2");
  EXPECT_EQ(refusal({"aten::_softmax", R"({"dim":2})", {source}, {source}}),
            "aten::_softmax: the dimension does not exist or is empty");
}

}  // namespace
}  // namespace emplace::cpu
