// Goal: a step time states the sources and the error of its costs, and the error of a difference counts only
// what differs. Method: two products and a measured op on devices with tables, of a family, and without; an
// op of two kernels, against the model of each; a training step of NMT, op by op.
#include "placement/machine/cost_trust.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/models/catalogue.h"
#include "placement/machine/machine_text.h"
#include "placement/placement.h"
#include "tests/placement/costs/one_op.h"

namespace emplace {
namespace {

/// Two products of 2048 x 2048 matrices in BF16, and an op that was measured on a "gpu": 50 us.
OpGraph two_products() {
  OpGraphBuilder builder;
  builder.set_name("two");
  const TensorSpec square{DType::kBF16, {2048, 2048}};
  builder.add({.name = "x", .type = "Input", .outputs = {square}});
  for (const char* name : {"first", "second"})
    builder.add({.name = name,
                 .type = "aten::mm",
                 .inputs = {{0, 0}, {0, 0}},
                 .outputs = {square},
                 .flops = std::int64_t{2} * 2048 * 2048 * 2048});
  builder.add({.name = "third",
               .type = "aten::relu",
               .inputs = {{1, 0}},
               .outputs = {square},
               .measured_us = {{"gpu", 50}}});
  return std::move(builder).build().value();
}

constexpr std::size_t at(CostSource source) { return static_cast<std::size_t>(source); }

TEST(CostTrust, SharesAreOfTheTimeInOps) {
  const OpGraph graph = two_products();
  const DeviceSet machine = parse_machine("h100, rtx4090").value();
  PlacementCosts costs{graph, machine};
  const Placement here(4, DeviceId{0});
  const StepCosts step = costs.of(here);
  EXPECT_EQ(step.version, CostVersion::k2);
  const double product_us = costs.of(OpId{1}, DeviceId{0}).us;
  EXPECT_NEAR(step.share[at(CostSource::kCalibrated)], 50 / (50 + 2 * product_us), 1e-9);
  EXPECT_NEAR(step.share[at(CostSource::kMeasured)], 2 * product_us / (50 + 2 * product_us), 1e-9);
  EXPECT_EQ(step.share[at(CostSource::kFamily)], 0);
  EXPECT_NEAR(step.error, step.share[at(CostSource::kMeasured)] * costs.of(OpId{1}, DeviceId{0}).trust.error,
              1e-12)
      << "a time that was measured on the device has no error of the model";
  EXPECT_GT(costs.of(Placement(4, DeviceId{1})).share[at(CostSource::kFamily)], 0.5);
}

TEST(CostTrust, OnlyOpsOnUnlikeDevicesMakeADifferenceUncertain) {
  const OpGraph graph = two_products();
  const DeviceSet machine = parse_machine("h100 x 2, rtx4090").value();
  PlacementCosts costs{graph, machine};
  const Placement here(4, DeviceId{0});
  EXPECT_EQ(costs.difference_error(here, here), 0);
  Placement other = here;
  other[1] = DeviceId{1};
  EXPECT_EQ(costs.difference_error(here, other), 0) << "the same kind of device";
  other[1] = DeviceId{2};
  const OpTime on_h100 = costs.of(OpId{1}, DeviceId{0}), on_rtx = costs.of(OpId{1}, DeviceId{2});
  const double all_us = 50 + 2 * on_h100.us;
  EXPECT_NEAR(costs.difference_error(here, other),
              (on_h100.us * on_h100.trust.error + on_rtx.us * on_rtx.trust.error) / all_us, 1e-12);
}

TEST(CostTrust, OfTwoKernelsTheErrorIsByTime) {
  const OpGraph graph = graph_of({.type = "aten::lstm_cell",
                                  .inputs = {{64, 512}, {64, 512}, {64, 512}, {2048, 512}, {2048, 512}},
                                  .outputs = {{64, 512}, {64, 512}}});
  const OpId cell{5};
  const DeviceSet machine = parse_machine("v100").value();
  const GraphKernels kernels{graph};
  ASSERT_EQ(kernels.of(cell).size(), 2u) << "a product, and the gates";
  const KernelModel model{machine[DeviceId{0}].profile.rates()};
  double all_us = 0, error_us = 0, floor_us = 0;
  CostSource least = CostSource::kCalibrated;
  std::vector<double> errors;
  for (const std::uint32_t k : kernels.of(cell)) {
    const GraphKernels::Kernel& kernel = kernels.distinct()[k];
    const CostTrust trust = model.trust(kernel.shape.kind, kernel.shape.arithmetic);
    all_us += model.us(kernel);
    error_us += model.us(kernel) * trust.error;
    floor_us += model.floor_us(kernel.shape);
    least = std::max(least, trust.source);
    errors.push_back(trust.error);
  }
  ASSERT_NE(errors[0], errors[1]);
  const OpTime cost = PlacementCosts{graph, machine}.of(cell, DeviceId{0});
  EXPECT_EQ(cost.us, all_us);
  EXPECT_EQ(cost.floor_us, floor_us);
  EXPECT_NEAR(cost.trust.error, error_us / all_us, 1e-12);
  EXPECT_EQ(cost.trust.source, least);
}

TEST(CostTrust, TimesOfADeviceAreThoseOfItsOps) {
  const OpGraph graph = models::model_graph(*models::find_model("nmt"), {.layers = 1},
                                            {.granularity = models::Granularity::kTensorFlow})
                            .value();
  const DeviceSet machine = parse_machine("h100, k80, epyc9654").value();
  PlacementCosts costs{graph, machine};
  const CostTable table{graph, machine};
  for (const DeviceId device : {DeviceId{0}, DeviceId{1}, DeviceId{2}}) {
    const std::vector<double> us = costs.us(device);
    ASSERT_EQ(us.size(), graph.num_ops());
    for (std::uint32_t i = 0; i < us.size(); ++i) {
      ASSERT_EQ(us[i], costs.of(OpId{i}, device).us) << graph.name(OpId{i});
      ASSERT_EQ(table.ns(device, OpId{i}), std::llround(us[i] * 1e3)) << graph.name(OpId{i});
    }
  }
}

TEST(CostTrust, VersionOneIsADataSheet) {
  const OpGraph graph = two_products();
  const DeviceSet machine = parse_machine("h100", {}, CostVersion::k1).value();
  const StepCosts step = PlacementCosts{graph, machine}.of(Placement(4, DeviceId{0}));
  EXPECT_EQ(step.version, CostVersion::k1);
  EXPECT_GT(step.share[at(CostSource::kDataSheet)], 0);
  EXPECT_EQ(step.share[at(CostSource::kMeasured)], 0);
}

// The examples of a device's arithmetics: measured 7.5 ms in FP32 and 0.6 ms in BF16 on an A100, 1.4 ms in
// FP16 on a V100 (aiconfigurator-core 0.12.0 and NeuSight); by version 1 1.6, 1.5 and 11.1 ms.
TEST(CostTrust, TheArithmeticOfAProductDecidesItsTime) {
  const auto ms = [](const char* device, DType dtype) {
    OpGraphBuilder builder;
    builder.set_name("square");
    const TensorSpec square{dtype, {4096, 4096}};
    builder.add({.name = "x", .type = "Input", .outputs = {square}});
    builder.add({.name = "y",
                 .type = "aten::mm",
                 .inputs = {{0, 0}, {0, 0}},
                 .outputs = {square},
                 .flops = std::int64_t{2} * 4096 * 4096 * 4096});
    const OpGraph graph = std::move(builder).build().value();
    const DeviceSet machine = parse_machine(device).value();
    return PlacementCosts{graph, machine}.of(OpId{1}, DeviceId{0}).us * 1e-3;
  };
  EXPECT_NEAR(ms("a100", DType::kF32), 7.9, 0.8);
  EXPECT_NEAR(ms("a100", DType::kBF16), 0.57, 0.06);
  EXPECT_NEAR(ms("v100", DType::kF16), 1.4, 0.2);
  EXPECT_NEAR(ms("v100", DType::kF32) / ms("a100", DType::kF32), 1.2, 0.15);
}

}  // namespace
}  // namespace emplace
