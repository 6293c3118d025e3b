// Goal: placements round-trip, and are small where they consist of runs; damage is never read as data.
#include "record/store/packed.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace emplace::record {
namespace {

/// Placements [count, ops] where each op is on the device of the one before it with probability 1 - 1 /
/// mean_run.
Bytes placements_of_runs(std::size_t count, std::size_t ops, double mean_run, std::uint64_t seed) {
  Rng rng{seed, Purpose::kTest, 0};
  Bytes all;
  std::byte device{0};
  for (std::size_t i = 0; i < count * ops; ++i) {
    if (rng.uniform_double() * mean_run < 1) device = static_cast<std::byte>(rng.below(4));
    all.push_back(device);
  }
  return all;
}

TEST(Packed, RoundTrips) {
  std::uint64_t seed = 0;
  for (const std::size_t count : {0u, 1u, 2u, 7u, 64u}) {
    for (const std::size_t ops : {1u, 2u, 7u, 8u, 9u, 63u, 1000u}) {
      for (const double mean_run : {1.0, 2.0, 6.0, 40.0, 1e9}) {
        const Bytes all = placements_of_runs(count, ops, mean_run, ++seed);
        const auto back = unpack_placements(pack_placements(all, count), "here");
        ASSERT_TRUE(back.ok()) << back.error().context;
        ASSERT_EQ(*back, all) << count << " x " << ops << ", runs of " << mean_run;
      }
    }
  }
}

TEST(Packed, RunsPackWellAndSmallDifferencesBetter) {
  constexpr std::size_t kOps = 25'000;
  const Bytes one = placements_of_runs(1, kOps, 40, 1);
  EXPECT_LT(pack_placements(one, 1).size(), 2 * kOps / 40 + 100) << "two bytes a run";
  Bytes walk;  // Placements as Placeto makes them: one group moves at a time.
  Bytes row = one;
  for (std::size_t step = 0; step < 64; ++step) {
    std::fill_n(row.begin() + static_cast<std::ptrdiff_t>(300 * step), 300, static_cast<std::byte>(step % 4));
    walk.insert(walk.end(), row.begin(), row.end());
  }
  EXPECT_LT(pack_placements(walk, 64).size(), 2 * kOps / 40 + 64 * 64);
  EXPECT_EQ(*unpack_placements(pack_placements(walk, 64), "here"), walk);
}

TEST(Packed, DataWithoutRunsBecomesSmallerToo) {
  const Bytes noise = placements_of_runs(2, 20'000, 1, 3);
  EXPECT_LT(pack_placements(noise, 2).size(), noise.size() / 2);
}

TEST(Packed, ReadsZstdOfOlderRuns) {
  const Bytes all = placements_of_runs(3, 500, 10, 4);
  EXPECT_EQ(*unpack_placements(compress_zstd(all, 1), "here"), all);
}

TEST(Packed, ChangedBytesAreRefusedOrGiveAPlacementOfTheSameSize) {
  const Bytes all = placements_of_runs(3, 400, 20, 5);
  const Bytes packed = pack_placements(all, 3);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    const auto cut =
        unpack_placements(Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)), "here");
    EXPECT_EQ(cut.ok(), size < 3) << size;
  }
  for (std::size_t at = 0; at < packed.size(); ++at) {
    for (const unsigned flip : {1u, 0x80u, 0xFFu}) {
      Bytes changed = packed;
      changed[at] ^= static_cast<std::byte>(flip);
      const auto read = unpack_placements(changed, "here");
      if (read.ok()) {
        EXPECT_LE(read->size(), at < 3 ? packed.size() : all.size() * 2) << at;
      }
    }
  }
  // An impossible size is refused before memory is allocated.
  EXPECT_FALSE(
      unpack_placements({std::byte{'R'}, std::byte{'L'}, std::byte{'1'}, std::byte{2}, std::byte{0xFF},
                         std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0x7F}},
                        "here")
          .ok());
}

}  // namespace
}  // namespace emplace::record
