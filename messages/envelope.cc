#include "messages/envelope.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "messages/codec.h"
#include "messages/packing.h"

namespace emplace::messages {
namespace {

struct FixedSink {
  std::byte* out;
  std::size_t used = 0;
  void append(const std::byte* data, std::size_t size) {
    std::memcpy(out + used, data, size);
    used += size;
  }
};

}  // namespace

ActorId actor_id(std::string_view name) {
  const std::uint64_t hash = XXH3_64bits(name.data(), name.size());
  return ActorId{hash != 0 ? hash : 1};
}

std::size_t encode_envelope(const Envelope& envelope, std::byte* out) {
  FixedSink sink{out};
  PackTarget<FixedSink> target{sink};
  msgpack::packer<PackTarget<FixedSink>> packer{target};
  packer.pack_array(7);
  packer.pack_uint8(envelope.version);
  packer.pack_uint16(envelope.type);
  packer.pack_uint64(static_cast<std::uint64_t>(envelope.from));
  packer.pack_uint64(static_cast<std::uint64_t>(envelope.to));
  packer.pack_uint64(envelope.seq);
  packer.pack_uint32(0);  // Reserved. Version 1 and 2 sent the remaining time here; no node enforced it.
  packer.pack_uint64(envelope.trace);
  return sink.used;
}

Result<Envelope> decode_envelope(std::span<const std::byte> bytes, std::size_t* used) {
  Reader reader{bytes};
  Envelope envelope;
  std::size_t elements = 0;
  const bool read = reader.array(elements) && elements >= 7 && read_value(reader, envelope.version) &&
                    read_value(reader, envelope.type) && read_value(reader, envelope.from) &&
                    read_value(reader, envelope.to) && read_value(reader, envelope.seq) && reader.skip() &&
                    read_value(reader, envelope.trace);
  if (!read) return invalid("envelope", "not [version, type, from, to, seq, 0, trace]");
  for (; elements > 7; --elements)
    if (!reader.skip()) return invalid("envelope", "invalid element after the seventh");
  if (envelope.version == 0) return Error{Errc::kUnsupported, "envelope: version 0 never existed"};
  if (used != nullptr) *used = reader.position();
  return envelope;
}

}  // namespace emplace::messages
