// Goal: the rules of a sampler: which episode is next, what is drawn, where it starts, with which parameters.
// Method: each of its pure parts by hand, with a policy whose actions are its placements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/best_so_far.h"
#include "actors/drawer.h"
#include "actors/own_episodes.h"
#include "actors/parameter_fetch.h"
#include "base/hash.h"

namespace emplace::actors {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

messages::EpisodesKnown starting(std::uint64_t next, std::vector<std::uint64_t> recorded = {},
                                 std::vector<std::uint64_t> missing = {}) {
  messages::EpisodesKnown known;
  known.starting = true;
  known.next_episode = next;
  known.recorded = std::move(recorded);
  known.missing = std::move(missing);
  return known;
}

TEST(OwnEpisodes, ProposesItsShareOfTheNumbersUpToTheLimit) {
  OwnEpisodes episodes{3, 2, 8};
  EXPECT_FALSE(episodes.may_propose()) << "the recorder has not answered";
  episodes.start(starting(1), Nanos{0});
  std::vector<std::uint64_t> numbers;
  while (episodes.may_propose()) {
    numbers.push_back(episodes.next());
    episodes.proposed({});
    episodes.end(numbers.back());
  }
  EXPECT_THAT(numbers, ElementsAre(1, 4, 7));
}

TEST(OwnEpisodes, KeepsNoMoreOutstandingThanAllowed) {
  OwnEpisodes episodes{1, 2, 0};
  episodes.start(starting(5), Nanos{0});
  episodes.proposed({});
  episodes.proposed({});
  EXPECT_FALSE(episodes.may_propose());
  EXPECT_TRUE(episodes.end(5));
  EXPECT_FALSE(episodes.end(5)) << "it has ended already";
  EXPECT_TRUE(episodes.may_propose());
  EXPECT_EQ(episodes.next(), 7u);
}

TEST(OwnEpisodes, DrawsLostEpisodesOfEarlierIncarnationsFirst) {
  OwnEpisodes episodes{2, 4, 0};
  episodes.start(starting(9, {7}, {3, 5}), Nanos{0});
  EXPECT_TRUE(episodes.is_outstanding(7)) << "on disk, not yet learned from";
  EXPECT_EQ(episodes.next(), 3u);
  episodes.proposed({});
  EXPECT_EQ(episodes.next(), 5u);
  episodes.proposed({});
  EXPECT_EQ(episodes.next(), 9u);
  EXPECT_TRUE(episodes.may_be_drawn_before(16));
  EXPECT_FALSE(episodes.may_be_drawn_before(17)) << "9 + 4 outstanding · 2 controllers";
}

TEST(OwnEpisodes, NamesLateEpisodesOncePerTimeout) {
  OwnEpisodes episodes{1, 4, 0};
  episodes.start(starting(0), Nanos{0});
  episodes.proposed({.since = seconds{1}});
  episodes.proposed({.since = seconds{2}});
  EXPECT_THAT(episodes.late(seconds{3}, seconds{2}), ElementsAre(0));
  EXPECT_THAT(episodes.late(seconds{4}, seconds{2}), ElementsAre(1));
  EXPECT_THAT(episodes.late(seconds{4}, seconds{2}), IsEmpty());
  episodes.recorded(0);
  EXPECT_EQ(episodes.unrecorded(0), nullptr);
  EXPECT_NE(episodes.unrecorded(1), nullptr);
  EXPECT_EQ(episodes.unrecorded(2), nullptr);
}

/// A policy whose actions are its placements, one byte each; an episode has two placements of one op.
class Literal final : public policy::Drawing {
 public:
  std::vector<std::vector<std::uint8_t>> draws;  ///< Actions of each attempt.
  policy::Incumbent by = policy::Incumbent::kFitting;
  policy::Incumbent incumbent() const override { return by; }
  std::size_t placements_per_episode() const override { return 2; }
  policy::Actions sample(std::uint64_t episode, std::uint64_t) const override {
    const std::size_t attempt = episode >> 40;
    policy::Actions actions;
    for (const std::uint8_t device : draws.at(attempt)) actions.bytes.push_back(std::byte{device});
    return actions;
  }
  Result<std::vector<Placement>> expand(const policy::Actions& actions) const override {
    std::vector<Placement> placements;
    for (const std::byte device : actions.bytes) placements.push_back({static_cast<DeviceId>(device)});
    return placements;
  }
  Placement greedy() const override { return {DeviceId{0}}; }
  Result<std::vector<double>> log_probabilities(const policy::Actions&) const override {
    return std::vector<double>(2, 0.0);
  }
};

TEST(Drawer, ProposesTheDrawWithTheMostNewPlacements) {
  Literal placer;
  placer.draws = {{0, 1}, {0, 2}, {2, 2}};
  Drawer drawer{2};
  const Draw first = drawer.draw(placer, 1, {}, 0, 0);
  EXPECT_THAT(first.placements, ElementsAre(Placement{DeviceId{0}}, Placement{DeviceId{1}}));
  EXPECT_EQ(first.fresh, 2u);
  drawer.proposed(first);
  const Draw second = drawer.draw(placer, 1, {}, 0, 0);
  EXPECT_THAT(second.placements, ElementsAre(Placement{DeviceId{0}}, Placement{DeviceId{2}}));
  EXPECT_EQ(second.fresh, 1u) << "of {2, 2} one is new as well, and the first draw counts";
  Drawer plain{0};
  plain.proposed(plain.draw(placer, 1, {}, 0, 0));
  EXPECT_EQ(plain.draw(placer, 1, {}, 0, 0).placements, first.placements) << "without redraws it may repeat";
}

// A sampler that runs for weeks keeps its size.
TEST(Drawer, ForgetsTheOldestProposals) {
  Literal placer;
  placer.draws = {{0, 1}, {0, 1}};
  Drawer drawer{1};
  drawer.proposed(drawer.draw(placer, 1, {}, 0, 0));
  Draw other;
  for (std::uint64_t key = 1; key < Drawer::kRemembered; ++key)
    other.keys.assign(1, key), drawer.proposed(other);
  EXPECT_EQ(drawer.draw(placer, 1, {}, 0, 0).fresh, 1u) << "the older of its two placements is forgotten";
  other.keys.assign(1, Drawer::kRemembered);
  drawer.proposed(other);
  EXPECT_EQ(drawer.draw(placer, 1, {}, 0, 0).fresh, 2u);
}

messages::EpisodeMeasured measured(std::uint64_t episode, std::vector<Measurement> measurements) {
  messages::EpisodeMeasured m;
  m.resize(static_cast<std::uint32_t>(measurements.size()), 1);
  m.episode = episode;
  for (std::uint32_t i = 0; i < m.count; ++i) m.set(i, measurements[i]);
  return m;
}
policy::Actions actions(std::uint8_t first, std::uint8_t second) {
  return {{std::byte{first}, std::byte{second}}};
}
const Measurement kSlow{.valid = true, .step_time_s = 2}, kFast{.valid = true, .step_time_s = 1};
const Measurement kTooBig{.valid = false, .step_time_s = 0.5, .bytes_over = 10};

TEST(BestSoFar, PrefersFeasibleOverFaster) {
  const Literal placer;
  BestSoFar best{{100}};
  best.proposed(0, actions(4, 5));
  best.measured(measured(0, {kTooBig, kSlow}), placer);
  EXPECT_TRUE(best.settle(1, false, placer));
  EXPECT_THAT(best.placements(), ElementsAre(Placement{DeviceId{5}}));
  best.proposed(1, actions(6, 7));
  best.measured(measured(1, {kSlow, kFast}), placer);
  EXPECT_TRUE(best.settle(2, false, placer));
  EXPECT_THAT(best.placements(), ElementsAre(Placement{DeviceId{7}}));
  best.proposed(2, actions(1, 2));
  best.measured(measured(2, {kSlow, kTooBig}), placer);
  EXPECT_TRUE(best.settle(3, false, placer));
  EXPECT_THAT(best.placements(), ElementsAre(Placement{DeviceId{7}})) << "it stays";
}

TEST(BestSoFar, LeastEnergyWeighsMemoryAgainstTime) {
  Literal placer;
  placer.by = policy::Incumbent::kLeastEnergy;
  BestSoFar best{{100}};
  const auto after = [&](std::uint64_t episode, std::uint8_t first, const Measurement& one,
                         const Measurement& other) {
    best.proposed(episode, actions(first, static_cast<std::uint8_t>(first + 1)));
    best.measured(measured(episode, {one, other}), placer);
    EXPECT_TRUE(best.settle(episode + 1, false, placer));
    return best.placements().front().front();
  };
  const Measurement no_time{.valid = false, .bytes_over = 1, .failure = "oom: device 1"};
  EXPECT_EQ(after(0, 10, no_time, no_time), DeviceId{10});
  EXPECT_EQ(after(1, 20, no_time, kSlow), DeviceId{21}) << "one with a time";
  // log 0.5 + 0.05 + 2 * 0.1 < log 1 < log 0.9 + 0.05 + 2 * 0.1
  const Measurement nearly{.valid = false, .step_time_s = 0.9, .bytes_over = 10};
  EXPECT_EQ(after(2, 30, nearly, kFast), DeviceId{31});
  EXPECT_EQ(after(3, 40, kFast, kTooBig), DeviceId{41});
  EXPECT_EQ(after(4, 50, kFast, kSlow), DeviceId{41}) << "it stays";
}

TEST(BestSoFar, InOrderWaitsForMissingEpisodes) {
  const Literal placer;
  BestSoFar best{{100}};
  best.proposed(0, actions(4, 5));
  best.proposed(1, actions(6, 7));
  best.measured(measured(1, {kFast, kSlow}), placer);
  EXPECT_FALSE(best.settle(2, true, placer));
  EXPECT_THAT(best.placements(), ElementsAre(Placement{}));
  EXPECT_THAT(best.unmeasured(), ElementsAre(0));
  best.measured(measured(0, {kSlow, kSlow}), placer);
  EXPECT_TRUE(best.settle(1, true, placer)) << "only those below the end";
  EXPECT_THAT(best.placements(), ElementsAre(Placement{DeviceId{4}}));
  EXPECT_TRUE(best.settle(2, true, placer));
  EXPECT_THAT(best.placements(), ElementsAre(Placement{DeviceId{6}}));
}

TEST(BestSoFar, LogDecidesWhichActionsWereMeasured) {
  const Literal placer;
  BestSoFar best{{100}};
  best.logged(0, actions(8, 9).bytes);
  best.proposed(0, actions(4, 5));
  best.measured(measured(0, {kFast, kSlow}), placer);
  best.measured(measured(0, {kSlow, kFast}), placer);
  EXPECT_TRUE(best.settle(1, true, placer));
  EXPECT_THAT(best.placements(), ElementsAre(Placement{DeviceId{8}}))
      << "and a repeated chunk changes nothing";
}

messages::ParametersDelivered piece_of(const Bytes& whole, std::uint64_t version, std::uint64_t offset,
                                       std::uint64_t size) {
  return {version, offset, whole.size(), "hash", {0, size}, hash64(whole)};
}

TEST(ParameterFetch, AssemblesAndChecksChunks) {
  const Bytes whole((std::size_t{1} << 20) + 3, std::byte{7});
  const std::span<const std::byte> bytes{whole};
  const std::uint64_t first = messages::kParametersChunkBytes;
  ParameterFetch fetch{seconds{1}};
  using Took = ParameterFetch::Took;
  EXPECT_EQ(fetch.take(piece_of(whole, 5, 0, first), bytes.first(first), Nanos{0}), Took::kNothing);
  fetch.start(0, false, Nanos{0});
  auto request = fetch.request(Nanos{0});
  ASSERT_TRUE(request.has_value());
  EXPECT_TRUE(request->version == 0 && request->offset == 0 && !request->exact);
  EXPECT_EQ(fetch.take(piece_of(whole, 5, 0, first), bytes.first(first), Nanos{0}), Took::kMore);
  request = fetch.request(Nanos{0});
  ASSERT_TRUE(request.has_value());
  EXPECT_TRUE(request->version == 5 && request->offset == first && request->exact)
      << "the rest of the version that arrived";
  EXPECT_FALSE(fetch.repeat(seconds{0}).has_value());
  request = fetch.repeat(seconds{1});
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->offset, first);
  EXPECT_EQ(fetch.take(piece_of(whole, 6, first, 3), bytes.subspan(first), seconds{1}), Took::kStartOver);
  fetch.start(0, false, seconds{1});
  EXPECT_EQ(fetch.take(piece_of(whole, 6, 0, first), bytes.first(first), seconds{1}), Took::kMore);
  EXPECT_EQ(fetch.take(piece_of(whole, 6, first, 3), bytes.subspan(first), seconds{1}), Took::kWhole);
  EXPECT_EQ(fetch.version(), 6u);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), fetch.bytes().begin(), fetch.bytes().end()));
  EXPECT_FALSE(fetch.is_the_requested());
}

TEST(ParameterFetch, DetectsAlteredBytes) {
  const Bytes whole{std::byte{1}, std::byte{2}}, altered{std::byte{1}, std::byte{3}};
  ParameterFetch fetch{seconds{1}};
  fetch.start(4, true, Nanos{0});
  EXPECT_EQ(fetch.take(piece_of(whole, 4, 0, 2), altered, Nanos{0}), ParameterFetch::Took::kAltered);
  fetch.start(4, true, Nanos{0});
  EXPECT_EQ(fetch.take(piece_of(whole, 4, 0, 2), whole, Nanos{0}), ParameterFetch::Took::kWhole);
  EXPECT_TRUE(fetch.is_the_requested());
}

}  // namespace
}  // namespace emplace::actors
