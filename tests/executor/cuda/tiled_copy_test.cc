// Goal: the tiles of a transposing copy cover each element once, and only copies that gain from tiles get
// them. Method: every pair of two dimensions of small and odd sizes, by counting.
#include <gtest/gtest.h>

#include <map>

#include "executor/cuda/kernels/tiles.h"

namespace emplace::cuda {
namespace {

std::optional<TiledCopy> tiles_of(const std::vector<std::int64_t>& shape, std::vector<std::int64_t> target,
                                  std::vector<std::int64_t> source) {
  Walk<2> walk;
  EXPECT_TRUE(make_walk<2>(shape, {std::move(target), std::move(source)}, walk));
  return make_tiles(walk);
}

TEST(TiledCopy, EveryElementIsInOneTile) {
  for (const std::int64_t rows : {16, 32, 33, 70})
    for (const std::int64_t columns : {17, 32, 64, 95})
      for (const std::int64_t others : {1, 3}) {
        // Source [others, rows, columns], target [columns, others, rows].
        const auto copy =
            tiles_of({others, rows, columns}, {rows, 1, others * rows}, {rows * columns, columns, 1});
        ASSERT_TRUE(copy);
        std::map<std::int64_t, std::int64_t> from;  // Sources by target.
        for (std::int64_t block = 0; block < copy->blocks(); ++block) {
          const TiledCopy::Tile tile = copy->tile(block);
          for (std::int64_t r = tile.row; r < tile.row + kTile; ++r)
            for (std::int64_t c = tile.column; c < tile.column + kTile; ++c)
              if (copy->contains(r, c)) {
                EXPECT_TRUE(from.emplace(copy->target(tile, r, c), copy->source(tile, r, c)).second);
              }
        }
        ASSERT_EQ(from.size(), static_cast<std::size_t>(others * rows * columns));
        for (std::int64_t o = 0; o < others; ++o)
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < columns; ++c)
              ASSERT_EQ(from.at(o * rows + r + c * others * rows), (o * rows + r) * columns + c);
      }
}

TEST(TiledCopy, OnlyLargeTranspositionsGetTiles) {
  EXPECT_FALSE(tiles_of({64, 64}, {64, 1}, {64, 1})) << "a plain copy";
  EXPECT_FALSE(tiles_of({64, 64}, {64, 1}, {128, 1})) << "rows with gaps";
  EXPECT_FALSE(tiles_of({64, 64}, {64, 1}, {2, 128})) << "a source without a contiguous dimension";
  EXPECT_FALSE(tiles_of({8, 640}, {1, 8}, {640, 1})) << "a tile would be mostly empty";
  EXPECT_TRUE(tiles_of({16, 640}, {1, 16}, {640, 1}));
  EXPECT_FALSE(tiles_of({64, 64}, {64, 1}, {0, 1})) << "a broadcast row";
}

}  // namespace
}  // namespace emplace::cuda
