#pragma once
// One well-filled message of each type, for the golden frames and for what is made of them.

#include <functional>
#include <string>
#include <vector>

#include "messages/all.h"
#include "messages/envelope.h"

namespace emplace::messages {

/// Three frames one after another, each led by its length as u32 little-endian: envelope, body, bulk.
struct Sample {
  std::string name;
  std::uint16_t type;
  Bytes frames;
  /// Decodes a body as this type; the bytes of encoding it again, or an error.
  std::function<Result<Bytes>(std::span<const std::byte>)> round_trip;
};

std::vector<Sample> all_samples();
/// The same of what nodes say to each other.
std::vector<Sample> session_samples();

}  // namespace emplace::messages
