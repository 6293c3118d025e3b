#pragma once
// Messages of the runtime's own tests; the runtime knows none of the real ones.

#include <cstdint>
#include <string>

#include "messages/codec.h"

namespace emplace::runtime {

struct Ping {
  static constexpr std::uint16_t kType = 40;
  std::uint64_t number = 0;
  std::string text;
  messages::Section blob;
  EMPLACE_FIELDS(number, text, blob)
};
struct Pong {
  static constexpr std::uint16_t kType = 41;
  std::uint64_t number = 0;
  EMPLACE_FIELDS(number)
};
struct Urgent {
  static constexpr std::uint16_t kType = 100;
  std::uint64_t number = 0;
  EMPLACE_FIELDS(number)
};
struct Newest {
  static constexpr std::uint16_t kType = 130;
  std::uint64_t number = 0;
  EMPLACE_FIELDS(number)
};

}  // namespace emplace::runtime
