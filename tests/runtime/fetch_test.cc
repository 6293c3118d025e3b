// Goal: a transfer in chunks ends with all bytes in order, whatever is lost, repeated, reordered or replaced
// by newer content, and never has more chunks in flight than its window. Method: the state machines by hand,
// then thousands of seeded transfers over a line that loses, repeats and reorders.
#include "runtime/core/fetch.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "base/rng.h"
#include "runtime/core/consumed.h"

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;
using Took = Assembly::Took;

TEST(PieceAt, StaysWithinTheContent) {
  EXPECT_EQ(chunk_at(0, 10, 4), (Chunk{0, 4}));
  EXPECT_EQ(chunk_at(8, 10, 4), (Chunk{8, 2}));
  EXPECT_EQ(chunk_at(10, 10, 4), (Chunk{10, 0}));
  EXPECT_EQ(chunk_at(99, 10, 4), (Chunk{10, 0}));
}

TEST(Assembly, TakesChunksInOrder) {
  Assembly assembly;
  EXPECT_EQ(assembly.take(7, {0, 4}, 10), Took::kFirst);
  EXPECT_EQ(assembly.take(7, {0, 4}, 10), Took::kRepeat);
  EXPECT_EQ(assembly.take(7, {8, 2}, 10), Took::kGap);
  EXPECT_EQ(assembly.take(7, {4, 4}, 10), Took::kNext);
  EXPECT_FALSE(assembly.whole());
  EXPECT_EQ(assembly.take(7, {8, 0}, 10), Took::kGap) << "an empty chunk has no effect";
  EXPECT_EQ(assembly.take(7, {8, 2}, 10), Took::kNext);
  EXPECT_TRUE(assembly.whole());
}

TEST(Assembly, NewContentReplacesTheOld) {
  Assembly assembly;
  EXPECT_EQ(assembly.take(7, {0, 4}, 10), Took::kFirst);
  EXPECT_EQ(assembly.take(8, {4, 4}, 10), Took::kGap) << "its beginning is missing";
  EXPECT_EQ(assembly.have(), 0u);
  EXPECT_EQ(assembly.take(8, {0, 10}, 10), Took::kFirst);
  EXPECT_TRUE(assembly.whole());
}

TEST(Assembly, EmptyContentIsComplete) {
  Assembly assembly;
  EXPECT_FALSE(assembly.whole());
  EXPECT_EQ(assembly.take(7, {0, 0}, 0), Took::kFirst);
  EXPECT_TRUE(assembly.whole());
}

TEST(Fetch, KeepsTheWindowFullAndRequestsAgainAfterTheTimeout) {
  Fetch fetch{{.chunk = 4, .window = 2, .timeout = milliseconds{100}}};
  EXPECT_EQ(fetch.request(Nanos{0}), std::nullopt) << "not started";
  fetch.start(Nanos{0}, 1, 0, 18);
  EXPECT_EQ(fetch.request(Nanos{0}), 0u);
  EXPECT_EQ(fetch.request(Nanos{0}), 4u);
  EXPECT_EQ(fetch.request(Nanos{0}), std::nullopt);
  EXPECT_EQ(fetch.take(1, {0, 4}, 18, milliseconds{10}), Took::kFirst);
  EXPECT_EQ(fetch.request(milliseconds{10}), 8u);
  EXPECT_EQ(fetch.take(1, {8, 4}, 18, milliseconds{20}), Took::kGap) << "the chunk at 4 was lost";
  EXPECT_FALSE(fetch.timed_out(milliseconds{109}));
  EXPECT_TRUE(fetch.timed_out(milliseconds{110}));
  EXPECT_EQ(fetch.request(milliseconds{110}), 4u);
  EXPECT_EQ(fetch.request(milliseconds{110}), 8u);
  EXPECT_EQ(fetch.take(1, {4, 4}, 18, milliseconds{120}), Took::kNext);
  EXPECT_EQ(fetch.take(1, {8, 4}, 18, milliseconds{120}), Took::kNext);
  EXPECT_EQ(fetch.request(milliseconds{120}), 12u);
  EXPECT_EQ(fetch.request(milliseconds{120}), 16u);
  EXPECT_EQ(fetch.request(milliseconds{120}), std::nullopt) << "nothing beyond the end";
  EXPECT_EQ(fetch.take(1, {12, 4}, 18, milliseconds{130}), Took::kNext);
  EXPECT_EQ(fetch.take(1, {16, 2}, 18, milliseconds{130}), Took::kNext);
  EXPECT_FALSE(fetch.active()) << "it is whole";
  EXPECT_FALSE(fetch.timed_out(milliseconds{9999}));
}

TEST(Fetch, ContinuesAfterExistingBytes) {
  Fetch fetch{{.chunk = 4, .window = 1, .timeout = milliseconds{100}}};
  fetch.start(Nanos{0}, 1, 8, 10);
  EXPECT_EQ(fetch.request(Nanos{0}), 8u);
  EXPECT_EQ(fetch.take(1, {8, 2}, 10, Nanos{0}), Took::kNext);
  EXPECT_FALSE(fetch.active());
}

TEST(Fetch, AcceptsSmallerChunks) {
  Fetch fetch{{.chunk = 8, .window = 1, .timeout = milliseconds{100}}};
  fetch.start(Nanos{0});
  EXPECT_EQ(fetch.request(Nanos{0}), 0u);
  EXPECT_EQ(fetch.take(1, {0, 3}, 5, Nanos{0}), Took::kFirst);
  EXPECT_EQ(fetch.request(Nanos{0}), 3u);
  EXPECT_EQ(fetch.take(1, {3, 2}, 5, Nanos{0}), Took::kNext);
  EXPECT_FALSE(fetch.active());
}

TEST(Fetch, AcceptsLargerChunks) {
  Fetch fetch{{.chunk = 2, .window = 1, .timeout = milliseconds{100}}};
  fetch.start(Nanos{0}, 1);
  EXPECT_EQ(fetch.request(Nanos{0}), 0u);
  EXPECT_EQ(fetch.take(1, {0, 6}, 9, Nanos{0}), Took::kFirst);
  EXPECT_EQ(fetch.request(Nanos{0}), 6u);
}

TEST(Fetch, RequestsNewContentFromItsOffset) {
  Fetch fetch{{.chunk = 4, .window = 3, .timeout = milliseconds{100}}};
  fetch.start(Nanos{0}, 1, 0, 40);
  for (const std::uint64_t offset : {0u, 4u, 8u}) EXPECT_EQ(fetch.request(Nanos{0}), offset);
  EXPECT_EQ(fetch.take(2, {0, 4}, 12, Nanos{0}), Took::kFirst);
  EXPECT_EQ(fetch.request(Nanos{0}), 4u) << "what was requested was of the first content";
}

/// One transfer over a line that loses, repeats and reorders, from a sender whose content may change once.
void transfer(std::uint64_t seed) {
  Rng rng{seed, Purpose::kTest, 0};
  const std::uint64_t totals[]{rng.below(40), rng.below(40)};
  const std::uint64_t chunk = 1 + rng.below(6), sent = 1 + rng.below(static_cast<std::uint32_t>(chunk));
  const std::uint64_t window = 1 + rng.below(4);
  Fetch fetch{{.chunk = chunk, .window = window, .timeout = milliseconds{100}}};
  struct Answer {
    std::uint64_t content;
    Chunk chunk;
  };
  std::deque<Answer> line;
  std::uint64_t content = 0;
  std::vector<std::uint64_t> got;  // Each byte as content · 1000 + offset.
  Nanos now{0};
  fetch.start(now);
  for (int turn = 0; fetch.active(); ++turn) {
    ASSERT_LT(turn, 10'000) << "seed " << seed << ": it does not end";
    now += milliseconds{10};
    if (turn == 5) content = 1;
    (void)fetch.timed_out(now);
    std::uint64_t requests = 0;
    while (const auto offset = fetch.request(now)) {
      ASSERT_LE(++requests, window);
      for (std::uint32_t copies = rng.below(3); copies > 0; --copies)  // 0: it is lost.
        line.push_back({content, chunk_at(*offset, totals[content], sent)});
    }
    if (line.empty()) continue;
    const auto at = line.begin() + rng.below(static_cast<std::uint32_t>(line.size()));
    const Answer answer = *at;
    line.erase(at);
    const Took took = fetch.take(answer.content, answer.chunk, totals[answer.content], now);
    if (took == Took::kFirst) got.clear();
    if (took == Took::kFirst || took == Took::kNext)
      for (std::uint64_t i = 0; i < answer.chunk.size; ++i)
        got.push_back(answer.content * 1000 + answer.chunk.offset + i);
  }
  const std::uint64_t of = fetch.assembly().content();
  ASSERT_EQ(got.size(), totals[of]) << "seed " << seed;
  for (std::uint64_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], of * 1000 + i) << "seed " << seed;
}

TEST(Fetch, DeliversAllBytesInOrderOverAFaultyLine) {
  for (std::uint64_t seed = 0; seed < 3'000; ++seed) transfer(seed);
}

TEST(Consumed, NamesEpisodesConsumedTwice) {
  Consumed consumed;
  EXPECT_TRUE(consumed.add(10, 4).empty());
  EXPECT_TRUE(consumed.add(14, 2).empty());
  EXPECT_TRUE(consumed.add(0, 4).empty());
  EXPECT_EQ(consumed.intervals(), 2u);
  EXPECT_EQ(consumed.add(13, 1), std::vector<std::uint64_t>{13});
  EXPECT_EQ(consumed.add(2, 10), (std::vector<std::uint64_t>{2, 3, 10, 11}));
  EXPECT_EQ(consumed.intervals(), 1u);
  EXPECT_TRUE(consumed.add(20, 0).empty());
  EXPECT_EQ(consumed.add(0, 30, 3).size(), 3u) << "no more than are wanted";
}

TEST(Consumed, AgreesWithASet) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng{seed, Purpose::kTest, 0};
    Consumed consumed;
    std::vector<bool> seen(200);
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t first = rng.below(180), count = rng.below(12);
      std::vector<std::uint64_t> twice;
      for (std::uint64_t id = first; id < first + count; ++id) {
        if (seen[id]) twice.push_back(id);
        seen[id] = true;
      }
      ASSERT_EQ(consumed.add(first, count), twice) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace emplace::runtime
