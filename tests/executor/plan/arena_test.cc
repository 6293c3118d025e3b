// Goal: the arena is a correct allocator with a hard cap. Method: random allocations and releases against a
// plain map of bytes: no two blocks overlap, none passes the cap, no refused block would fit, and all memory
// is returned.
#include "executor/plan/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace emplace {
namespace {

struct Block {
  std::int64_t offset, bytes;
};

/// Largest stretch that no block covers, sizes rounded up.
std::int64_t plain_largest_free(const std::vector<Block>& blocks, std::int64_t cap, std::int64_t alignment) {
  std::vector<bool> taken(static_cast<std::size_t>(cap / alignment), false);
  for (const Block& block : blocks)
    for (std::int64_t i = block.offset / alignment;
         i < (block.offset + block.bytes + alignment - 1) / alignment; ++i)
      taken[static_cast<std::size_t>(i)] = true;
  std::int64_t best = 0, run = 0;
  for (const bool t : taken) best = std::max(best, run = t ? 0 : run + alignment);
  return best;
}

TEST(ArenaTest, AgreesWithAPlainMapOfTheMemory) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const std::int64_t alignment = seed % 3 == 0 ? 1 : 64,
                       cap = 64 * (20 + static_cast<std::int64_t>(rng.below(200)));
    Arena arena{cap, alignment};
    std::vector<Block> blocks;
    std::int64_t peak = 0;
    for (int i = 0; i < 400; ++i) {
      if (rng.below(5) < 3) {
        const auto bytes = static_cast<std::int64_t>(1 + rng.below(1500));
        const std::int64_t free = plain_largest_free(blocks, arena.cap(), alignment);
        ASSERT_EQ(arena.largest_free(), free);
        const auto offset = arena.take(bytes);
        ASSERT_EQ(offset.has_value(), (bytes + alignment - 1) / alignment * alignment <= free)
            << seed << " " << i;
        if (!offset) continue;
        ASSERT_EQ(*offset % alignment, 0);
        ASSERT_LE(*offset + bytes, cap);
        for (const Block& block : blocks)
          ASSERT_TRUE(*offset >= block.offset + block.bytes || block.offset >= *offset + bytes) << "overlap";
        blocks.push_back({*offset, bytes});
        peak = std::max(peak, arena.used());
      } else if (!blocks.empty()) {
        const std::size_t which = rng.below(static_cast<std::uint32_t>(blocks.size()));
        arena.give(blocks[which].offset, blocks[which].bytes);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
      }
      ASSERT_EQ(arena.peak(), peak);
    }
    for (const Block& block : blocks) arena.give(block.offset, block.bytes);
    EXPECT_EQ(arena.used(), 0);
    EXPECT_EQ(arena.largest_free(), arena.cap());
  }
}

TEST(ArenaTest, TakesTheTightestHole) {
  Arena arena{100, 1};
  const auto a = arena.take(30), b = arena.take(10), c = arena.take(10), d = arena.take(50);
  ASSERT_TRUE(a && b && c && d);
  EXPECT_FALSE(arena.take(1));
  arena.give(*a, 30);
  arena.give(*c, 10);
  EXPECT_EQ(arena.take(10), *c);
  EXPECT_EQ(arena.take(30), *a);
}

TEST(ArenaTest, EmptyArenaHoldsOnlyEmptyBlocks) {
  Arena arena{0, 64};
  EXPECT_TRUE(arena.take(0));
  EXPECT_FALSE(arena.take(1));
  EXPECT_EQ(arena.largest_free(), 0);
}

}  // namespace
}  // namespace emplace
