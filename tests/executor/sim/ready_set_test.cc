// Goal: the ready set is a set that returns its lowest id. Method: against std::set, seeded, across level
// borders.
#include "executor/sim/shared/ready_set.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace emplace {
namespace {

TEST(ReadySet, ReturnsTheLowestIdLikeAnOrderedSet) {
  for (const std::uint32_t ids : {1u, 64u, 65u, 4096u, 4097u, 300'000u}) {
    Rng rng{ids, Purpose::kTest};
    ReadySet ready{ids};
    std::set<std::uint32_t> oracle;
    for (int step = 0; step < 3000; ++step) {
      if (rng.below(3) != 0) {
        const std::uint32_t id = rng.below(ids);
        ready.insert(id);
        oracle.insert(id);
      } else if (!oracle.empty()) {
        EXPECT_EQ(ready.pop_min(), *oracle.begin());
        oracle.erase(oracle.begin());
      }
      ASSERT_EQ(ready.empty(), oracle.empty());
    }
  }
}

}  // namespace
}  // namespace emplace
