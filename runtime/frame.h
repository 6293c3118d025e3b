#pragma once
/// Frame format. A ZeroMQ message between two loops is either
///   one frame:    batch of records: [u32 envelope, u32 body, u32 bulk sizes, little-endian] envelope body
///   bulk
///   three frames: envelope, body, bulk, for a message too large to copy

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "messages/envelope.h"
#include "messages/shared_bytes.h"

namespace emplace::runtime {

inline constexpr std::size_t kRecordHeaderBytes = 12;
/// Smallest body or bulk that is sent without copying [bytes].
inline constexpr std::size_t kZeroCopyBytes = 64u << 10;

/// Message inside a received frame. Holds views into it.
struct Record {
  messages::Envelope envelope;
  std::span<const std::byte> body;
  std::span<const std::byte> bulk;
};

/// Appends one record to a batch.
void append_record(const messages::Envelope& envelope, std::span<const std::byte> body,
                   std::span<const std::byte> bulk, messages::Bytes& batch);

/// Takes the next record from the front of `batch`. Returns false for a malformed record or envelope; the
/// rest of the batch is lost.
bool take_record(std::span<const std::byte>& batch, Record& record);

}  // namespace emplace::runtime
