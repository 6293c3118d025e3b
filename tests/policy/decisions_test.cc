// Goal: decisions round-trip, and invalid bytes are refused.
// Method: round trips; every prefix and every change of a byte of a valid message; invalid values by hand.
#include "policy/decisions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace emplace::policy {
namespace {

constexpr DecisionShape kShape{3, 2, true};

Decisions sample() {
  Decisions decisions{{0, 1, 1, 0, 0, 1}, {}};
  for (int n = 0; n < 6; ++n) {
    decisions.log_q.push_back(std::log(0.25f));
    decisions.log_q.push_back(std::log(0.75f));
  }
  return decisions;
}

Bytes encoded(const Decisions& decisions) {
  Bytes bytes;
  append_decisions(decisions, bytes);
  return bytes;
}

TEST(Decisions, RoundTrip) {
  const Decisions sent = sample();
  const auto got = read_decisions(encoded(sent), kShape);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->devices, sent.devices);
  EXPECT_EQ(got->log_q, sent.log_q);
  const auto without = read_decisions(encoded({sent.devices, {}}), {3, 2, false});
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->devices, sent.devices);
  EXPECT_TRUE(without->log_q.empty());
}

TEST(Decisions, UnneededProbabilitiesAreDropped) {
  const auto got = read_decisions(encoded(sample()), {3, 2, false});
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(got->log_q.empty());
}

TEST(Decisions, NeededProbabilitiesAreRequired) {
  const auto refused = read_decisions(encoded({sample().devices, {}}), kShape);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("behaviour probabilities are missing"), std::string::npos);
}

TEST(Decisions, AreRefusedIfTruncatedOrOfAnotherShape) {
  const Bytes whole = encoded(sample());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(read_decisions(std::span{whole}.first(size), kShape).ok()) << size;
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(read_decisions(longer, kShape).ok());
  EXPECT_FALSE(read_decisions(whole, {4, 2, true}).ok());
  EXPECT_FALSE(read_decisions(whole, {0, 2, true}).ok());
  EXPECT_FALSE(read_decisions(whole, {3, 3, true}).ok());
  EXPECT_FALSE(read_decisions(whole, {3, 1, false}).ok());
}

TEST(Decisions, TooManyPlacementsAreRefused) {
  Decisions many;
  many.devices.assign(3 * kMaxPlacements, 1);
  EXPECT_TRUE(read_decisions(encoded(many), {3, 2, false}).ok());
  many.devices.resize(3 * kMaxPlacements + 3, 1);
  EXPECT_FALSE(read_decisions(encoded(many), {3, 2, false}).ok());
}

TEST(Decisions, ChangedBytesAreReadSafelyOrRefused) {
  const Bytes whole = encoded(sample());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xC0, 0xFF}) {
      Bytes changed = whole;
      changed[at] = static_cast<std::byte>(value);
      const auto got = read_decisions(changed, kShape);
      if (!got) continue;
      ASSERT_EQ(got->devices.size(), 6u);
      for (std::size_t n = 0; n < 6; ++n) {
        ASSERT_LT(got->devices[n], 2);
        for (std::size_t d = 0; d < 2; ++d) ASSERT_LE(got->log_q[2 * n + d], 1e-3f);
        ASSERT_TRUE(std::isfinite(std::exp(-got->log_q[2 * n + got->devices[n]])));
      }
    }
  }
}

TEST(Decisions, InvalidProbabilitiesAreRefused) {
  for (const float lie : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), 0.5f, -3e38f}) {
    Decisions decisions = sample();
    decisions.log_q[3] = lie;
    EXPECT_FALSE(read_decisions(encoded(decisions), kShape).ok()) << lie;
  }
  Decisions impossible = sample();
  impossible.log_q[0] = -1e30f;  // Device 0 was chosen there, which this probability forbids.
  EXPECT_FALSE(read_decisions(encoded(impossible), kShape).ok());
}

}  // namespace
}  // namespace emplace::policy
