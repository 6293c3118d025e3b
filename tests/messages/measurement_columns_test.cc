// Goal: columns round-trip measurements in any order of rows, and lengths are always checked. Method: random
// measurements, set in random order and read back; each column made one too short.
#include "messages/measurement_columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "messages/codec.h"

namespace emplace::messages {
namespace {

Measurement random_measurement(Rng& rng, std::size_t devices) {
  Measurement m;
  m.valid = rng.below(2) == 0;
  m.step_time_s = rng.uniform_double();
  m.bytes_moved = static_cast<std::int64_t>(rng.below(1000));
  m.bytes_over = static_cast<std::int64_t>(rng.below(1000));
  for (std::size_t d = 0; d < devices; ++d) {
    m.peak_bytes.push_back(static_cast<std::int64_t>(rng.below(1000)));
    m.busy_s.push_back(rng.uniform_double());
  }
  if (rng.below(2) == 0) m.synthetic_share = rng.uniform_double();
  if (rng.below(2) == 0) m.failure = "oom: " + std::to_string(rng.below(10));
  if (rng.below(2) == 0) m.label = MeasurementLabel::kEmulated;
  for (std::uint64_t n = rng.below(4); n > 0; --n) m.samples_s.push_back(rng.uniform_double());
  return m;
}

TEST(MeasurementColumns, RoundTripInAnyOrderAndTwice) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng{seed, Purpose::kTest, 0};
    const auto rows = static_cast<std::uint32_t>(1 + rng.below(6));
    const auto devices = static_cast<std::uint32_t>(1 + rng.below(3));
    MeasurementColumns columns;
    columns.resize(rows, devices);
    std::vector<Measurement> expected(rows, columns.at(0));
    for (std::uint32_t i = 0; i < 2 * rows; ++i) {
      const auto row = static_cast<std::uint32_t>(rng.below(rows));
      expected[row] = random_measurement(rng, devices);
      columns.set(row, expected[row]);
      ASSERT_TRUE(columns.consistent()) << "seed " << seed;
    }
    const auto read = [&] {
      Bytes body;
      Writer writer{body};
      write_value(writer, columns);
      MeasurementColumns again;
      Reader reader{body};
      EXPECT_TRUE(read_value(reader, again));
      return again;
    }();
    for (std::uint32_t row = 0; row < rows; ++row) {
      ASSERT_EQ(columns.at(row), expected[row]) << "seed " << seed << " row " << row;
      ASSERT_EQ(read.at(row), expected[row]) << "seed " << seed << " row " << row;
      const auto samples = columns.samples_of(row);
      ASSERT_TRUE(std::equal(samples.begin(), samples.end(), expected[row].samples_s.begin(),
                             expected[row].samples_s.end()));
    }
    MeasurementColumns wider;
    wider.resize(rows + 2, devices);
    wider.copy_rows(columns, 1);
    for (std::uint32_t row = 0; row < rows; ++row) ASSERT_EQ(wider.at(row + 1), expected[row]);
    ASSERT_EQ(wider.at(0), MeasurementColumns{wider}.at(rows + 1)) << "the others keep their defaults";
  }
}

TEST(MeasurementColumns, SimulatedMeasurementsNeedNoSparseColumns) {
  MeasurementColumns columns;
  columns.resize(2, 1);
  columns.set(1, {.valid = true, .step_time_s = 0.5, .peak_bytes = {1}, .busy_s = {0.25}});
  EXPECT_TRUE(columns.synthetic_shares.empty() && columns.failures.empty() && columns.labels.empty() &&
              columns.sample_counts.empty() && columns.samples_s.empty());
}

TEST(MeasurementColumns, PadOrCutMeasurementsToTheNumberOfDevices) {
  MeasurementColumns columns;
  columns.resize(2, 2);
  columns.set(0, {.failure = "crashed: signal 11"});
  columns.set(1, {.peak_bytes = {1, 2, 3}, .busy_s = {0.5}});
  EXPECT_EQ(columns.peak_bytes, (std::vector<std::int64_t>{0, 0, 1, 2}));
  EXPECT_EQ(columns.busy_s, (std::vector<double>{0, 0, 0.5, 0}));
  EXPECT_TRUE(columns.consistent());
}

TEST(MeasurementColumns, RefuseColumnsOfTheWrongLength) {
  Rng rng{1, Purpose::kTest, 0};
  MeasurementColumns good;
  good.resize(3, 2);
  Measurement full = random_measurement(rng, 2);
  full.synthetic_share = 0.5;
  full.failure = "x";
  full.label = MeasurementLabel::kMeasured;
  full.samples_s = {1, 2};
  for (std::uint32_t row = 0; row < 3; ++row) good.set(row, full);
  ASSERT_TRUE(good.consistent());
  const auto without_last = [&](auto member) {
    MeasurementColumns bad = good;
    (bad.*member).pop_back();
    return bad;
  };
  EXPECT_FALSE(without_last(&MeasurementColumns::valid).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::step_time_s).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::bytes_over).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::bytes_moved).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::peak_bytes).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::busy_s).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::synthetic_shares).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::failures).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::labels).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::sample_counts).consistent());
  EXPECT_FALSE(without_last(&MeasurementColumns::samples_s).consistent());
  MeasurementColumns bad = good;
  bad.count = 1u << 31;
  EXPECT_FALSE(bad.consistent());
}

}  // namespace
}  // namespace emplace::messages
