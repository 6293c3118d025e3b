#pragma once
// One well-filled message of each type, for the golden frames and for mutations of them.

#include <functional>
#include <string>
#include <vector>

#include "messages/all.h"
#include "messages/envelope.h"

namespace emplace::messages {

/// Three frames, each after its length as u32 little-endian: envelope, body, bulk.
struct Sample {
  std::string name;
  std::uint16_t type;
  Bytes frames;
  /// Decodes a body as this type and encodes it again; an error if it cannot be decoded.
  std::function<Result<Bytes>(std::span<const std::byte>)> round_trip;
};

std::vector<Sample> all_samples();
/// Samples of the session messages between nodes.
std::vector<Sample> session_samples();

}  // namespace emplace::messages
