#pragma once
/// How messages share a frame. A ZeroMQ message between two loops is either
///   one frame:    a batch of records   [u32 envelope, u32 body, u32 bulk sizes] envelope body bulk …
///   little-endian three frames: envelope, body, bulk, for a message too large to copy.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "messages/envelope.h"
#include "messages/shared_bytes.h"

namespace emplace::runtime {

inline constexpr std::size_t kRecordHeaderBytes = 12;
/// From here on a bulk frame is sent from where it lies.
inline constexpr std::size_t kZeroCopyBytes = 64u << 10;

/// A message inside a received frame. Views into it.
struct Record {
  messages::Envelope envelope;
  std::span<const std::byte> body;
  std::span<const std::byte> bulk;
};

/// Appends one record to a batch.
void append_record(const messages::Envelope& envelope, std::span<const std::byte> body,
                   std::span<const std::byte> bulk, messages::Bytes& batch);

/// Takes the next record from the front of `batch`. False: not a record, or its envelope is none; the rest is
/// lost.
bool take_record(std::span<const std::byte>& batch, Record& record);

}  // namespace emplace::runtime
