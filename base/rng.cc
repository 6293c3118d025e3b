#include "base/rng.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace emplace {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

Rng::Rng(std::uint64_t seed, Purpose purpose, std::uint64_t step)
    : counter_{0, static_cast<std::uint32_t>(purpose), static_cast<std::uint32_t>(step),
               static_cast<std::uint32_t>(step >> 32)},
      key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

Rng::result_type Rng::operator()() {
  if (used_ == block_.size()) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

float Rng::uniform() { return static_cast<float>((*this)() >> 8) * 0x1p-24f; }

double Rng::uniform_double() {
  const std::uint64_t high = (*this)() >> 5;
  const std::uint64_t low = (*this)() >> 6;
  return static_cast<double>(high << 26 | low) * 0x1p-53;
}

std::uint32_t Rng::below(std::uint32_t bound) {
  EMPLACE_CHECK(bound > 0, "below(0)");
  // Lemire: reject the few values that would bias the result.
  const std::uint32_t threshold = (0u - bound) % bound;
  for (;;) {
    const std::uint64_t product = std::uint64_t{(*this)()} * bound;
    if (static_cast<std::uint32_t>(product) >= threshold) return static_cast<std::uint32_t>(product >> 32);
  }
}

float Rng::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_double()));
  const double angle = 2.0 * std::numbers::pi * uniform_double();
  spare_normal_ = static_cast<float>(radius * std::sin(angle));
  has_spare_ = true;
  return static_cast<float>(radius * std::cos(angle));
}

}  // namespace emplace
