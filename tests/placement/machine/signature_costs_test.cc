// Goal: measured costs reach every op of their signature and no other, through a device file and back.
// Method: small graphs whose ops differ in one thing each.
#include "placement/machine/signature_costs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "placement/machine/cost_model.h"
#include "placement/machine/cost_trust.h"
#include "placement/machine/device_file.h"
#include "placement/placement.h"

namespace emplace {
namespace {

/// mm of x and w; of x and transposed w; with another attribute; and the first again.
OpGraph products() {
  OpGraphBuilder builder;
  const auto f32 = [](std::vector<std::int64_t> shape) { return TensorSpec{DType::kF32, std::move(shape)}; };
  builder.add({.name = "x", .type = "Input", .inputs = {}, .outputs = {f32({4, 4})}});
  builder.add({.name = "w", .type = "Parameter", .inputs = {}, .outputs = {f32({4, 4})}});
  OpSpec transposed{.name = "t", .type = "aten::t", .inputs = {{1, 0}}, .outputs = {f32({4, 4})}};
  transposed.view = true;
  builder.add(std::move(transposed));
  builder.add({.name = "plain", .type = "aten::mm", .inputs = {{0, 0}, {1, 0}}, .outputs = {f32({4, 4})}});
  builder.add(
      {.name = "transposed", .type = "aten::mm", .inputs = {{0, 0}, {2, 0}}, .outputs = {f32({4, 4})}});
  OpSpec flagged{.name = "flagged", .type = "aten::mm", .inputs = {{0, 0}, {1, 0}}, .outputs = {f32({4, 4})}};
  flagged.attrs_json = "{\"k\":1}";
  builder.add(std::move(flagged));
  builder.add({.name = "again", .type = "aten::mm", .inputs = {{3, 0}, {1, 0}}, .outputs = {f32({4, 4})}});
  return *std::move(builder).build();
}

TEST(SignatureCostsTest, DistinguishesOnlyLayoutsAndAttributes) {
  const OpGraph graph = products();
  std::set<std::uint64_t> distinct;
  for (const std::uint32_t op : {3u, 4u, 5u}) distinct.insert(signature_hash(graph, OpId{op}));
  EXPECT_EQ(distinct.size(), 3u);
  EXPECT_EQ(signature_hash(graph, OpId{3}), signature_hash(graph, OpId{6}));
  EXPECT_EQ(signature_text(graph, OpId{4}), "aten::mm {} f32[4,4] f32[4,4]:1,4 > f32[4,4]");
}

TEST(SignatureCostsTest, EntriesRoundTripAsText) {
  const SignatureCosts::Entry entry{0x00f3a1c27b9d4e58ull, 12.625};
  EXPECT_EQ(SignatureCosts::entry_text(entry), "00f3a1c27b9d4e58=12.625");
  const auto back = SignatureCosts::parse_entry(SignatureCosts::entry_text(entry));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, entry);
  for (const char* wrong : {"", "12=1", "00f3a1c27b9d4e58", "00f3a1c27b9d4e58=", "00f3a1c27b9d4e58=-1",
                            "00f3a1c27b9d4e5x=1", "00f3a1c27b9d4e58=nan", "00f3a1c27b9d4e58=1us"})
    EXPECT_FALSE(SignatureCosts::parse_entry(wrong)) << wrong;
}

TEST(SignatureCostsTest, DeviceFileAppliesThemToItsOps) {
  const OpGraph graph = products();
  const std::string known = SignatureCosts::entry_text({signature_hash(graph, OpId{3}), 77.5});
  const std::string file =
      "copies = \"target\"\ncorun = 1.25\n[[profile]]\nname = \"here\"\nbase = \"haswell18\"\ncosts_us = "
      "[\"" +
      known +
      "\"]\n[[device]]\nname = \"cpu:0\"\nprofile = \"here\"\n[[device]]\nname = \"cpu:1\"\nprofile = "
      "\"here\"\n"
      "[[link]]\nbetween = [\"*\", \"*\"]\nbandwidth = \"1GB/s\"\nlatency = \"1us\"\nshaped = true\n";
  const auto devices = parse_devices(file, "here.toml");
  ASSERT_TRUE(devices) << devices.error().context;
  EXPECT_EQ(devices->copies(), CopyEngine::kTarget);
  EXPECT_EQ(devices->corun(), 1.25);
  EXPECT_TRUE(devices->link(DeviceId{0}, DeviceId{1}).shaped);
  const CostTable costs{graph, *devices};
  EXPECT_EQ(costs.ns(DeviceId{0}, OpId{3}), 77'500);
  EXPECT_EQ(costs.ns(DeviceId{1}, OpId{6}), 77'500);
  const double estimate = roofline_us(graph, OpId{4}, (*devices)[DeviceId{0}].profile);
  EXPECT_EQ(costs.ns(DeviceId{0}, OpId{4}), std::llround(estimate * 1e3));
  EXPECT_EQ(costs.ns(DeviceId{0}, OpId{2}), 0);  // A view is free.
  // Half of the ops are on each device; those of one signature are measured.
  const auto calibrated = [&](const DeviceSet& machine, DeviceId device) {
    const StepCosts step = PlacementCosts{graph, machine}.of(Placement(7, device));
    return step.share[static_cast<std::size_t>(CostSource::kCalibrated)];
  };
  EXPECT_EQ(calibrated(*devices, DeviceId{0}), 155 / (155 + 2 * estimate));
  EXPECT_EQ(calibrated(devices->with_corun(2), DeviceId{1}), 155 / (155 + 2 * estimate));
  const DeviceSet other = devices->with_corun(1.5);
  EXPECT_NE(other.sha256(), devices->sha256());
}

TEST(SignatureCostsTest, ErrorsOfADeviceFileNameTheLine) {
  const std::string good = "[[device]]\nname = \"cpu:0\"\nprofile = \"haswell18\"\n";
  for (const char* wrong : {"copies = \"elsewhere\"\n", "corun = 0.5\n"}) {
    const auto devices = parse_devices(wrong + good, "here.toml");
    ASSERT_FALSE(devices) << wrong;
    EXPECT_NE(devices.error().context.find("here.toml:1"), std::string::npos) << devices.error().context;
  }
  const auto costs =
      parse_devices("[[profile]]\nname = \"p\"\nbase = \"k40\"\ncosts_us = [\"x=1\"]\n" + good, "here.toml");
  ASSERT_FALSE(costs);
  EXPECT_NE(costs.error().context.find("x=1"), std::string::npos) << costs.error().context;
}

}  // namespace
}  // namespace emplace
