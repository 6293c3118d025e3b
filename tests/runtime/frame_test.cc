// Goal: batches round-trip, and broken ones are refused without reading past their end.
#include "runtime/frame.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/rng.h"

namespace emplace::runtime {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span{text}); }

messages::Bytes sample_batch() {
  messages::Bytes batch;
  for (std::uint64_t i = 1; i <= 3; ++i)
    append_record({.type = static_cast<std::uint16_t>(i), .seq = i}, bytes_of("body"), bytes_of("bulk!"),
                  batch);
  return batch;
}

TEST(Frame, RoundTripsABatch) {
  const messages::Bytes batch = sample_batch();
  std::span<const std::byte> rest{batch};
  Record record;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(take_record(rest, record));
    EXPECT_EQ(record.envelope.seq, i);
    EXPECT_EQ(record.body.size(), 4u);
    EXPECT_TRUE(std::equal(record.bulk.begin(), record.bulk.end(), bytes_of("bulk!").begin()));
  }
  EXPECT_TRUE(rest.empty());
}

TEST(Frame, RefusesEveryTruncation) {
  const messages::Bytes batch = sample_batch();
  const std::size_t one = batch.size() / 3;
  for (std::size_t size = 0; size < one; ++size) {
    const messages::Bytes cut(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(size));
    std::span<const std::byte> rest{cut};
    Record record;
    EXPECT_FALSE(take_record(rest, record)) << size;
  }
}

TEST(Frame, ToleratesAnyBytes) {
  const messages::Bytes batch = sample_batch();
  std::size_t accepted = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Rng rng{seed, Purpose::kTest};
    messages::Bytes mutated = batch;
    for (int i = 0; i < 4; ++i)
      mutated[rng.below(static_cast<std::uint32_t>(mutated.size()))] = static_cast<std::byte>(rng.below(256));
    std::span<const std::byte> rest{mutated};
    Record record;
    while (!rest.empty() && take_record(rest, record)) ++accepted;
    ASSERT_LE(rest.size(), mutated.size());
  }
  EXPECT_GT(accepted, 0u);
}

}  // namespace
}  // namespace emplace::runtime
