// Goal: times of version 2 are the formula's, read from the right table. Method: tables small enough to
// interpolate by hand; devices with every kind of table or none; then the tables of the program against
// measurements that the public data sets have.
#include "placement/costs/kernel_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "base/hash.h"
#include "graph/models/catalogue.h"
#include "placement/costs/fitted_tables.h"

namespace emplace {
namespace {

using enum KernelKind;
using enum Arithmetic;

/// Axes of products with knots 1, 4 and 16 along m, and of bytes; tables of two devices and a family.
constexpr std::string_view kSmall = R"(
version = 2
[[axes]]
kernel = "product"
knots = ["1 4 16", "16 64", "16 64"]
[[axes]]
kernel = "elementwise"
knots = ["1024 1048576"]
[[table]]
of = "one"
kernel = "product"
arithmetic = "bf16"
launch_us = 2
uneven = 0.5
median = 0.01
mean = 0.02
p90 = 0.03
rows = 10
source = "a test"
values = "808080808a80808094808080"
[[table]]
of = "family:some"
kernel = "product"
arithmetic = "fp32"
launch_us = 4
median = 0.1
mean = 0.2
p90 = 0.3
rows = 10
source = "a test"
values = "808080808080808080808080"
[[table]]
of = "one"
kernel = "elementwise"
arithmetic = "fp32"
launch_us = 3
median = 0.04
mean = 0.05
p90 = 0.06
rows = 10
source = "a test"
values = "80b2"
[data_sheet]
median = 0.3
mean = 0.4
p90 = 0.5
[version_1]
median = 0.5
mean = 0.6
p90 = 0.7
)";

const FittedTables& small_tables() {
  static const FittedTables tables{kSmall};
  return tables;
}

DeviceRates rates_of(std::string_view name, std::span<const std::string> tables, std::string_view family) {
  DeviceRates rates{.bandwidth_gbs = 100, .launch_us = 7, .name = name, .tables = tables, .family = family};
  rates.peak_gflops[static_cast<std::size_t>(kFp32)] = 1000;
  for (const Arithmetic half : {kFp16, kBf16}) rates.peak_gflops[static_cast<std::size_t>(half)] = 4000;
  return rates;
}

GraphKernels::Kernel product(double m, double n, double k, Arithmetic arithmetic) {
  const KernelShape shape{.kind = kProduct,
                          .arithmetic = arithmetic,
                          .at = {m, n, k},
                          .flops = 2 * m * n * k,
                          .bytes = 2 * (m * k + k * n + m * n)};
  return {shape, small_tables().locate(shape), {}};
}

double residual_of(const TablePoint& point) {
  return small_tables().residual(*small_tables().find("one", kProduct, kBf16), point);
}

const std::vector<std::string> kOne{"one"};

TEST(KernelModel, InterpolatesOnTheLogarithmOfEachSize) {
  const KernelModel model{rates_of("one", kOne, ""), small_tables()};
  // At m = 8, half way between the knots 4 and 16, whose residuals at n = k = 16 are 0.2 and 0.4.
  const auto kernel = product(8, 16, 16, kBf16);
  const double work_us = kernel.shape.bytes / 100e3;
  EXPECT_NEAR(model.us(kernel), (2 + work_us) * std::exp(0.3 + 0.5), 1e-5) << "8 is no multiple of 16";
  EXPECT_NEAR(residual_of(product(16, 16, 16, kBf16).point), 0.4, 1e-6);
  EXPECT_FALSE(product(16, 32, 48, kBf16).point.uneven);
  EXPECT_TRUE(product(16, 32, 47, kBf16).point.uneven);
  EXPECT_NEAR(residual_of(product(4096, 16, 16, kBf16).point), 0.4, 1e-6) << "beyond the last knot";
  EXPECT_NEAR(residual_of(product(16, 32, 16, kBf16).point), 0.2, 1e-6) << "half way to n = 64";
}

TEST(KernelModel, ComputesAtThePeakOfTheArithmetic) {
  const KernelModel model{rates_of("one", kOne, "some"), small_tables()};
  const auto wide = product(4096, 4096, 4096, kFp32);
  EXPECT_NEAR(model.us(wide), 4 + wide.shape.flops / 1e6, 1e-6 * wide.shape.flops / 1e6);
  EXPECT_NEAR(model.floor_us(wide.shape), wide.shape.flops / 1e6, 1e-9 * wide.shape.flops / 1e6);
  EXPECT_NEAR(model.floor_us(product(4096, 4096, 4096, kBf16).shape), wide.shape.flops / 4e6, 1e-3);
}

TEST(KernelModel, UnalignedProductsRunAtAShareOfTheRate) {
  DeviceRates rates = rates_of("one", kOne, "");
  const KernelModel even{rates, small_tables()};
  rates.unaligned_rate = 0.25;
  const KernelModel uneven{rates, small_tables()};
  auto kernel = product(4096, 4096, 4096, kBf16);
  EXPECT_EQ(uneven.us(kernel), even.us(kernel));
  const double aligned_us = even.us(kernel);
  kernel.shape.unaligned = true;
  EXPECT_EQ(even.us(kernel), aligned_us);
  EXPECT_NEAR(uneven.us(kernel), 4 * aligned_us, 1e-9 * aligned_us);
  EXPECT_EQ(uneven.floor_us(kernel.shape), even.floor_us(kernel.shape)) << "peaks stay bounds";
}

TEST(KernelModel, StatesWhereATimeIsFrom) {
  const KernelModel own{rates_of("one", kOne, "some"), small_tables()};
  const KernelModel kin{rates_of("other", kOne, "some"), small_tables()};
  const KernelModel none{rates_of("other", {}, ""), small_tables()};
  EXPECT_EQ(own.trust(kProduct, kBf16).source, CostSource::kMeasured);
  EXPECT_EQ(own.trust(kProduct, kBf16).error, 0.02);
  EXPECT_EQ(own.trust(kProduct, kFp16).source, CostSource::kMeasured) << "the same units as BF16";
  EXPECT_EQ(own.trust(kElementwise, kBf16).source, CostSource::kMeasured) << "bytes decide";
  EXPECT_EQ(own.trust(kReduce, kFp32).source, CostSource::kFamily) << "measured as another kind";
  EXPECT_EQ(kin.trust(kProduct, kBf16).source, CostSource::kFamily);
  EXPECT_EQ(none.trust(kProduct, kBf16).source, CostSource::kDataSheet);
  EXPECT_EQ(none.trust(kProduct, kBf16).error, 0.4);
  EXPECT_EQ(own.trust(kProduct, kFp32).error, 0.2) << "the family's, of these units, not its own of others";
  EXPECT_EQ(own.trust(kOther, kFp32).source, CostSource::kDataSheet);
  const auto kernel = product(16, 16, 16, kFp32);
  EXPECT_NEAR(none.us(kernel), 7 + none.floor_us(kernel.shape), 1e-9) << "its own launch";
}

TEST(KernelModel, ABatchOnMatrixUnitsIsReadAsOneProduct) {
  const KernelModel model{rates_of("one", kOne, "some"), small_tables()};
  const KernelShape batch{.kind = kBatchProduct,
                          .arithmetic = kBf16,
                          .at = {4, 4, 16, 16},
                          .flops = 2.0 * 4 * 4 * 16 * 16,
                          .bytes = 2.0 * 4 * (4 * 16 + 16 * 16 + 4 * 16)};
  KernelShape one = batch;
  one.kind = kProduct, one.at = {16, 16, 16, 1};
  const GraphKernels::Kernel kernel{batch, {}, small_tables().locate(one)};
  EXPECT_NEAR(model.us(kernel), (2 + batch.bytes / 100e3) * std::exp(0.4), 1e-5);
  EXPECT_EQ(model.trust(kBatchProduct, kBf16).source, CostSource::kFamily);
}

TEST(KernelModel, SmallOperandsAreReadFromTheCache) {
  DeviceRates rates = rates_of("other", {}, "");
  rates.launch_us = 0;
  rates.l2_bytes = 10e6;
  const KernelModel model{rates, small_tables()};
  const auto us = [&](double bytes) { return model.floor_us({.kind = kElementwise, .bytes = bytes}); };
  EXPECT_NEAR(us(1e4), 1e4 / 100e3 / 3, 1e-3 * us(1e4)) << "all of it";
  EXPECT_NEAR(us(6e6), 6e6 / 100e3 * (0.5 + 0.5 / 3), 1e-9) << "half of it";
  EXPECT_NEAR(us(1e9), 1e9 / 100e3, 1e-3 * us(1e9)) << "nothing";
}

TEST(KernelModel, ArithmeticThatADeviceLacksRunsInstead) {
  std::array<double, kNumArithmetics> peaks{};
  peaks[static_cast<std::size_t>(kFp32)] = 1;
  EXPECT_EQ(arithmetic_on(peaks, kFp8), kFp32);
  peaks[static_cast<std::size_t>(kFp16)] = 4;
  EXPECT_EQ(arithmetic_on(peaks, kFp8), kFp16);
  EXPECT_EQ(arithmetic_on(peaks, kBf16), kFp32) << "no conversion to a smaller range";
  peaks[static_cast<std::size_t>(kBf16)] = 4;
  EXPECT_EQ(arithmetic_on(peaks, kFp8), kBf16);
  EXPECT_EQ(arithmetic_on(peaks, kTf32), kFp32);
  EXPECT_EQ(arithmetic_on({}, kFp8), kFp8) << "nothing is known";
}

TEST(GraphKernels, EqualKernelsAreOne) {
  const OpGraph graph = models::model_graph(*models::find_model("nmt"), {.layers = 2},
                                            {.granularity = models::Granularity::kTensorFlow})
                            .value();
  const KernelShapes shapes{graph};
  const GraphKernels kernels{graph};
  std::size_t all = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    std::vector<KernelShape> own;
    for (const std::uint32_t kernel : kernels.of(OpId{i})) own.push_back(kernels.distinct()[kernel].shape);
    const auto expected = shapes.of(OpId{i});
    ASSERT_TRUE(std::ranges::equal(own, expected)) << graph.name(OpId{i});
    all += own.size();
  }
  EXPECT_LT(20 * kernels.distinct().size(), all) << "steps and layers repeat";
  for (std::size_t a = 0; a < kernels.distinct().size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_FALSE(kernels.distinct()[a].shape == kernels.distinct()[b].shape) << a << " and " << b;
}

TEST(FittedTables, TheProgramsOwnAreWhole) {
  const FittedTables& tables = FittedTables::shipped();
  ASSERT_GT(tables.all().size(), 50u);
  for (const FittedTable& table : tables.all()) {
    EXPECT_FALSE(table.source.empty()) << table.of;
    EXPECT_GT(table.rows, 0) << table.of;
    EXPECT_GT(table.launch_us, 0) << table.of;
    EXPECT_LE(table.error.median, table.error.p90) << table.of << ' ' << word_of(table.kernel);
    EXPECT_EQ(tables.find(table.of, table.kernel, table.arithmetic), &table) << "twice: " << table.of;
    KernelShape last{.kind = table.kernel, .at = {1e12, 1e12, 1e12, 1e12}};
    EXPECT_NEAR(tables.residual(table, tables.locate(last)), table.residual.back(), 1e-5)
        << table.of << ' ' << word_of(table.kernel) << " has another number of values than its axes";
  }
  EXPECT_LT(kFittedToml.size(), 300'000u);
}

// Records name the version alone, so their times would change with its tables.
TEST(FittedTables, AVersionNeverChanges) {
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span{kFittedToml})),
            "e13c34c77179ba3e0b0059d2c81f18abebc5dafcea22922adc316d6588a20d61")
      << "another fit is another cost version";
}

}  // namespace
}  // namespace emplace
