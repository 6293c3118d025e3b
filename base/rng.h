#pragma once
/// The only source of randomness: Philox4x32-10 (Salmon et al., SC 2011), counter based. A number is a pure
/// function of (run seed, purpose, step, position), so results do not depend on the order of requests.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace emplace {

/// The purpose of a stream. Values determine the results of a run: append only.
enum class Purpose : std::uint32_t {
  kInit = 1,        ///< Parameters before training.
  kGrouping = 2,    ///< Grouper samples.
  kPlacing = 3,     ///< Placer samples.
  kNoise = 4,       ///< Exploration noise on logits.
  kHeuristic = 5,   ///< Randomised heuristics.
  kSimulation = 6,  ///< Simulated worlds and faults in tests.
  kTest = 7,
  kJitter = 8,  ///< Reconnect and restart delays.
  kGraphs = 9,  ///< Graphs drawn from a family.
};

/// One Philox block: ten rounds over a 128-bit counter and a 64-bit key. Known answers are tested in
/// tests/base.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// The finaliser of splitmix64 over x + golden ratio, for hashing and for the reference placements in
/// Placeto's tests.
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// A stream for one purpose and step of one run. It satisfies UniformRandomBitGenerator (32 bits). The
/// distributions below are implemented here, so every standard library gives the same numbers. Thread: a
/// plain value.
class Rng {
 public:
  using result_type = std::uint32_t;
  Rng(std::uint64_t seed, Purpose purpose, std::uint64_t step = 0);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()();

  float uniform();                           ///< Uniform in [0, 1), 24 bits.
  double uniform_double();                   ///< Uniform in [0, 1), 53 bits.
  std::uint32_t below(std::uint32_t bound);  ///< Uniform in [0, bound), unbiased. @pre bound > 0.
  float normal();                            ///< Standard normal (Box-Muller, both halves used).

  /// Fisher-Yates shuffle of any random-access range.
  template <class Range>
  void shuffle(Range& range) {
    for (std::size_t i = range.size(); i > 1; --i) {
      using std::swap;
      swap(range[i - 1], range[below(static_cast<std::uint32_t>(i))]);
    }
  }

 private:
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> block_{};
  std::uint32_t used_ = 4;
  float spare_normal_ = 0;
  bool has_spare_ = false;
};

}  // namespace emplace
