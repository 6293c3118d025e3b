#include "runtime/frame.h"

#include <array>

namespace emplace::runtime {

void append_record(const messages::Envelope& envelope, std::span<const std::byte> body,
                   std::span<const std::byte> bulk, messages::Bytes& batch) {
  std::array<std::byte, kRecordHeaderBytes + messages::kMaxEnvelopeBytes> head;
  const std::size_t envelope_bytes = messages::encode_envelope(envelope, head.data() + kRecordHeaderBytes);
  const std::uint32_t sizes[3] = {static_cast<std::uint32_t>(envelope_bytes),
                                  static_cast<std::uint32_t>(body.size()),
                                  static_cast<std::uint32_t>(bulk.size())};
  std::memcpy(head.data(), sizes, sizeof sizes);
  batch.insert(batch.end(), head.begin(),
               head.begin() + static_cast<std::ptrdiff_t>(kRecordHeaderBytes + envelope_bytes));
  batch.insert(batch.end(), body.begin(), body.end());
  batch.insert(batch.end(), bulk.begin(), bulk.end());
}

bool take_record(std::span<const std::byte>& batch, Record& record) {
  if (batch.size() < kRecordHeaderBytes) return false;
  std::uint32_t sizes[3];
  std::memcpy(sizes, batch.data(), sizeof sizes);
  const std::uint64_t total = std::uint64_t{sizes[0]} + sizes[1] + sizes[2];
  if (total > batch.size() - kRecordHeaderBytes) return false;
  auto rest = batch.subspan(kRecordHeaderBytes);
  const auto envelope = messages::decode_envelope(rest.first(sizes[0]));
  if (!envelope) return false;
  record = {.envelope = *envelope,
            .body = rest.subspan(sizes[0], sizes[1]),
            .bulk = rest.subspan(sizes[0] + sizes[1], sizes[2])};
  batch = rest.subspan(total);
  return true;
}

}  // namespace emplace::runtime
