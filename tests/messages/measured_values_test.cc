// Goal: a value that cannot be a measurement is named, and no other. Method: a valid result with one field
// changed at a time.
#include "messages/measured_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/rng.h"
#include "base/text/words.h"

namespace emplace::messages {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

PlacementMeasured sound() {
  PlacementMeasured m;
  m.resize(2, 2);
  m.set(0, {.valid = true,
            .step_time_s = 0.5,
            .peak_bytes = {1, 2},
            .busy_s = {0.1, 0.2},
            .bytes_moved = 3,
            .samples_s = {0.5, 0.6},
            .label = MeasurementLabel::kMeasured});
  m.set(1, {.peak_bytes = {3, 4}, .bytes_over = 7, .synthetic_share = 1, .failure = "oom: gpu:0"});
  m.placement_id = 100;
  m.host = "here";
  m.executor = "executor/0";
  m.executor_kind = "cpu";
  m.wall_s = 1;
  return m;
}

struct Case {
  const char* phrase;  ///< Part of the expected message.
  std::function<void(PlacementMeasured&)> change;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {"step_time_s of placement 0 is not finite", [](auto& m) { m.step_time_s[0] = kNan; }},
      {"step_time_s of placement 1 is not finite", [](auto& m) { m.step_time_s[1] = kInf; }},
      {"step_time_s of placement 1 is not finite", [](auto& m) { m.step_time_s[1] = -kInf; }},
      {"step_time_s of placement 0 is negative", [](auto& m) { m.step_time_s[0] = -1e9; }},
      {"step_time_s of placement 0 is longer", [](auto& m) { m.step_time_s[0] = 1e308; }},
      {"step_time_s of placement 0 is 0 although the placement is valid",
       [](auto& m) { m.step_time_s[0] = 0; }},
      {"valid of placement 1 is neither", [](auto& m) { m.valid[1] = 2; }},
      {"label of placement 1 is not a known label", [](auto& m) { m.labels[1] = 5; }},
      {"bytes_over of placement 0 is negative", [](auto& m) { m.bytes_over[0] = kLowest; }},
      {"bytes_moved of placement 1 is above", [](auto& m) { m.bytes_moved[1] = kMaxMeasuredBytes + 1; }},
      {"peak_bytes of placement 1 is negative", [](auto& m) { m.peak_bytes[2] = -1; }},
      {"busy_s of placement 1 is not finite", [](auto& m) { m.busy_s[3] = kNan; }},
      {"wall_s is not finite", [](auto& m) { m.wall_s = kInf; }},
      {"wall_s is negative", [](auto& m) { m.wall_s = -1; }},
      {"synthetic_share of placement 0 is not finite", [](auto& m) { m.synthetic_shares[0] = kNan; }},
      {"synthetic_share of placement 1 is outside", [](auto& m) { m.synthetic_shares[1] = -0.1; }},
      {"a sample of placement 0 is not finite", [](auto& m) { m.samples_s[1] = kNan; }},
      {"sample_count of placement 0 is above",
       [](auto& m) { m.sample_counts[0] = 1'000'000, m.samples_s.assign(1'000'000, 1.0); }},
      {"columns differ in length", [](auto& m) { m.sample_counts[0] = 3; }},
      {"columns differ in length",
       [](auto& m) {
         m.sample_counts = {0xffffffff, 0xffffffff};
       }},
      {"columns differ in length", [](auto& m) { m.step_time_s.clear(); }},
      {"columns differ in length", [](auto& m) { m.num_devices = 0xffffffff; }},
      {"host is longer", [](auto& m) { m.host.assign(300, 'a'); }},
      {"host contains unprintable bytes", [](auto& m) { m.host = "\x1b[31mred"; }},
      {"executor_kind contains unprintable bytes", [](auto& m) { m.executor_kind = "\xff"; }},
      {"executor contains unprintable bytes",
       [](auto& m) {
         m.executor = std::string{"a\0b", 3};
       }},
  };
  return kCases;
}

TEST(MeasuredValues, AcceptsAValidResult) {
  EXPECT_EQ(wrong_values(sound()), "");
  PlacementMeasured failed;
  failed.error = "no kernel";
  EXPECT_EQ(wrong_values(failed), "") << "nothing was measured";
}

TEST(MeasuredValues, NamesTheInvalidValue) {
  for (const Case& one : cases()) {
    PlacementMeasured m = sound();
    one.change(m);
    canonicalise(m);
    EXPECT_NE(wrong_values(m).find(one.phrase), std::string::npos) << one.phrase << ": " << wrong_values(m);
  }
}

TEST(MeasuredValues, ChecksEpisodesToo) {
  EpisodeMeasured whole;
  whole.placement_id = 100;
  EXPECT_EQ(wrong_values(EpisodeMeasured{}), "has no placements");
  whole.resize(2, 2);
  EXPECT_NE(wrong_values(whole), "") << "no executors";
  whole.merge(sound(), 1);
  EXPECT_EQ(wrong_values(whole), "");
  for (const auto& [phrase, change] :
       std::vector<std::pair<std::string, std::function<void(EpisodeMeasured&)>>>{
           {"step_time_s of placement 0 is not finite", [](auto& m) { m.step_time_s[0] = kNan; }},
           {"label of placement 0", [](auto& m) { m.labels[0] = kMeasurementLabels; }},
           {"synthetic_share of placement 1", [](auto& m) { m.synthetic_shares[1] = 2; }},
           {"ids exceed", [](auto& m) { m.episode = std::uint64_t{1} << 63; }},
           {"ids exceed", [](auto& m) { m.placement_id = ~std::uint64_t{0}; }},
           {"graph_sha256 is longer", [](auto& m) { m.graph_sha256.assign(1 << 20, 'a'); }},
           {"executor contains unprintable", [](auto& m) { m.executors[0] = "\x80"; }}}) {
    EpisodeMeasured m = whole;
    change(m);
    EXPECT_NE(wrong_values(m).find(phrase), std::string::npos) << phrase << ": " << wrong_values(m);
  }
}

TEST(MeasuredValues, CanonicaliseRemovesTheSignOfZero) {
  PlacementMeasured m = sound();
  m.step_time_s[1] = m.busy_s[2] = m.synthetic_shares[0] = m.samples_s[0] = m.wall_s = -0.0;
  canonicalise(m);
  for (const double value : {m.step_time_s[1], m.busy_s[2], m.synthetic_shares[0], m.samples_s[0], m.wall_s})
    EXPECT_FALSE(std::signbit(value));
  EXPECT_EQ(wrong_values(m), "");
  m.step_time_s[0] = -0.0;
  canonicalise(m);
  EXPECT_NE(wrong_values(m), "") << "what ran took some time";
}

TEST(MeasuredValues, CanonicaliseEscapesAndCutsTexts) {
  Rng rng{1, Purpose::kTest};
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (std::uint32_t n = rng.below(3'000); n > 0; --n)
      text += rng.below(3) == 0 ? static_cast<char>(rng.below(256)) : rng.below(2) == 0 ? 'a' : '\xc3';
    const std::string once = harmless_text(text);
    EXPECT_LE(once.size(), kLongestText);
    EXPECT_TRUE(is_utf8(once));
    EXPECT_EQ(printable(once, kLongestText), once);
    EXPECT_EQ(harmless_text(once), once);
  }
  EXPECT_EQ(harmless_text("crashed: \x1b[31mboo\n\xff"), "crashed: \\x1b[31mboo\\n\xef\xbf\xbd");
  EXPECT_EQ(harmless_text("größer"), "größer");
  PlacementMeasured m = sound();
  m.error.assign(1 << 20, '\x1b');
  m.failures[1] = "\xff";
  canonicalise(m);
  EXPECT_LE(m.error.size(), kLongestText);
  EXPECT_EQ(m.failures[1], "\xef\xbf\xbd");
  EXPECT_EQ(m.failures[0], "") << "nothing is made of nothing";
}

}  // namespace
}  // namespace emplace::messages
