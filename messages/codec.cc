#include "messages/codec.h"

#include "messages/packing.h"

namespace emplace::messages {
namespace {

struct GrowingSink {
  Bytes& out;
  void append(const std::byte* data, std::size_t size) { out.insert(out.end(), data, data + size); }
};

/// Calls `pack` with a packer over `out`.
template <class Pack>
void with_packer(Bytes& out, Pack&& pack) {
  GrowingSink sink{out};
  PackTarget<GrowingSink> target{sink};
  msgpack::packer<PackTarget<GrowingSink>> packer{target};
  pack(packer);
}

// First bytes of the MessagePack specification.
constexpr std::uint8_t kNil = 0xc0, kFalse = 0xc2, kTrue = 0xc3;
constexpr std::uint8_t kBin8 = 0xc4, kExt8 = 0xc7, kFloat32 = 0xca, kFloat64 = 0xcb;
constexpr std::uint8_t kUint8 = 0xcc, kInt8 = 0xd0, kFixExt1 = 0xd4, kStr8 = 0xd9;
constexpr std::uint8_t kArray16 = 0xdc, kMap16 = 0xde, kNegativeFix = 0xe0;

}  // namespace

void Writer::map(std::size_t fields) {
  with_packer(*out_, [&](auto& packer) { packer.pack_map(static_cast<std::uint32_t>(fields)); });
}
void Writer::array(std::size_t elements) {
  with_packer(*out_, [&](auto& packer) { packer.pack_array(static_cast<std::uint32_t>(elements)); });
}
void Writer::boolean(bool value) {
  with_packer(*out_, [&](auto& packer) { value ? packer.pack_true() : packer.pack_false(); });
}
void Writer::unsigned_int(std::uint64_t value) {
  with_packer(*out_, [&](auto& packer) { packer.pack_uint64(value); });
}
void Writer::signed_int(std::int64_t value) {
  with_packer(*out_, [&](auto& packer) { packer.pack_int64(value); });
}
void Writer::real(double value) {
  with_packer(*out_, [&](auto& packer) { packer.pack_double(value); });
}
void Writer::real(float value) {
  with_packer(*out_, [&](auto& packer) { packer.pack_float(value); });
}
void Writer::text(std::string_view value) {
  with_packer(*out_, [&](auto& packer) {
    packer.pack_str(static_cast<std::uint32_t>(value.size()));
    packer.pack_str_body(value.data(), static_cast<std::uint32_t>(value.size()));
  });
}
void Writer::binary(std::span<const std::byte> value) {
  with_packer(*out_, [&](auto& packer) {
    packer.pack_bin(static_cast<std::uint32_t>(value.size()));
    packer.pack_bin_body(reinterpret_cast<const char*>(value.data()),
                         static_cast<std::uint32_t>(value.size()));
  });
}

bool Reader::take(std::size_t n, const std::byte*& from) {
  if (!ok_ || n > left()) return fail();
  from = bytes_.data() + at_;
  at_ += n;
  return true;
}

bool Reader::big_endian(std::size_t width, std::uint64_t& value) {
  const std::byte* from = nullptr;
  if (!take(width, from)) return false;
  value = 0;
  for (std::size_t i = 0; i < width; ++i) value = value << 8 | static_cast<std::uint8_t>(from[i]);
  return true;
}

/// Reads the header of a map or an array. `fix`: 0x80 or 0x90, with the count in the low four bits. `wide`:
/// 0xde or 0xdc, followed by a 16-bit count; the next code has a 32-bit count.
bool Reader::container(std::uint8_t fix, std::uint8_t wide, std::size_t per_element, std::size_t& n) {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  if (!big_endian(1, first)) return false;
  if ((first & 0xf0u) == fix) {
    count = first & 0x0fu;
  } else if (first == wide || first == wide + 1u) {
    if (!big_endian(first == wide ? 2 : 4, count)) return false;
  } else {
    return fail();
  }
  if (count > left() / per_element || ++depth_ > kMaxDepth) return fail();
  n = count;
  return true;
}

bool Reader::map(std::size_t& fields) { return container(0x80, kMap16, 2, fields); }
bool Reader::array(std::size_t& elements) { return container(0x90, kArray16, 1, elements); }

bool Reader::boolean(bool& value) {
  std::uint64_t first = 0;
  if (!big_endian(1, first) || (first != kTrue && first != kFalse)) return fail();
  value = first == kTrue;
  return true;
}

bool Reader::unsigned_int(std::uint64_t& value) {
  std::uint64_t first = 0;
  if (!big_endian(1, first)) return false;
  if (first < 0x80) return value = first, true;
  if (first >= kUint8 && first < kUint8 + 4u) return big_endian(std::size_t{1} << (first - kUint8), value);
  if (first < kInt8 || first >= kInt8 + 4u) return fail();
  const std::size_t width = std::size_t{1} << (first - kInt8);
  return big_endian(width, value) && (value >> (8 * width - 1) == 0 || fail());  // Signed and non-negative.
}

bool Reader::signed_int(std::int64_t& value) {
  if (!ok_ || left() == 0) return fail();
  const auto first = static_cast<std::uint8_t>(bytes_[at_]);
  std::uint64_t raw = 0;
  if (first >= kNegativeFix) return ++at_, value = std::int64_t{first} - 256, true;
  if (first < kInt8 || first >= kInt8 + 4u) {
    if (!unsigned_int(raw) || raw > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return fail();
    return value = static_cast<std::int64_t>(raw), true;
  }
  ++at_;
  const std::size_t width = std::size_t{1} << (first - kInt8);
  if (!big_endian(width, raw)) return false;
  const int unused = static_cast<int>(64 - 8 * width);
  value = static_cast<std::int64_t>(raw << unused) >> unused;
  return true;
}

bool Reader::real(double& value) {
  if (!ok_ || left() == 0) return fail();
  const auto first = static_cast<std::uint8_t>(bytes_[at_]);
  std::uint64_t raw = 0;
  if (first == kFloat64) {
    ++at_;
    if (!big_endian(8, raw)) return false;
    value = std::bit_cast<double>(raw);
    return true;
  }
  if (first == kFloat32) {
    ++at_;
    if (!big_endian(4, raw)) return false;
    value = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw)));
    return true;
  }
  std::int64_t integer = 0;
  if (!signed_int(integer)) return false;
  value = static_cast<double>(integer);
  return true;
}

bool Reader::text(std::string_view& value) {
  std::uint64_t first = 0;
  std::uint64_t size = 0;
  if (!big_endian(1, first)) return false;
  if ((first & 0xe0u) == 0xa0u) {
    size = first & 0x1fu;
  } else if (first < kStr8 || first > kStr8 + 2u || !big_endian(std::size_t{1} << (first - kStr8), size)) {
    return fail();
  }
  const std::byte* from = nullptr;
  if (!take(size, from)) return false;
  value = {reinterpret_cast<const char*>(from), size};
  return true;
}

bool Reader::binary(std::span<const std::byte>& value) {
  std::uint64_t first = 0;
  std::uint64_t size = 0;
  if (!big_endian(1, first)) return false;
  if (first < kBin8 || first > kBin8 + 2u || !big_endian(std::size_t{1} << (first - kBin8), size))
    return fail();
  const std::byte* from = nullptr;
  if (!take(size, from)) return false;
  value = {from, size};
  return true;
}

bool Reader::skip() {
  if (!ok_ || left() == 0) return fail();
  const auto first = static_cast<std::uint8_t>(bytes_[at_]);
  const bool is_map = (first & 0xf0u) == 0x80u || first == kMap16 || first == kMap16 + 1u;
  const bool is_array = (first & 0xf0u) == 0x90u || first == kArray16 || first == kArray16 + 1u;
  if (is_map || is_array) {
    std::size_t n = 0;
    if (!(is_map ? map(n) : array(n))) return false;
    for (std::size_t values = is_map ? 2 * n : n; values > 0; --values)
      if (!skip()) return false;
    leave();
    return true;
  }
  std::string_view text_value;
  std::span<const std::byte> binary_value;
  const std::byte* from = nullptr;
  double number = 0;
  if ((first & 0xe0u) == 0xa0u || (first >= kStr8 && first <= kStr8 + 2u)) return text(text_value);
  if (first >= kBin8 && first <= kBin8 + 2u) return binary(binary_value);
  if (first == kNil || first == kFalse || first == kTrue) return take(1, from);
  if (first >= kFixExt1 && first < kFixExt1 + 5u)
    return take(2 + (std::size_t{1} << (first - kFixExt1)), from);
  if (first >= kExt8 && first < kExt8 + 3u) {
    std::uint64_t size = 0;
    return take(1, from) && big_endian(std::size_t{1} << (first - kExt8), size) && take(size + 1, from);
  }
  if (first >= kUint8 && first < kUint8 + 4u) return take(1 + (std::size_t{1} << (first - kUint8)), from);
  return real(number);
}

Section BulkBuilder::add(std::span<const std::byte> bytes) {
  const Section section{.offset = bytes_.size(), .size = bytes.size()};
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return section;
}

Result<std::span<const std::byte>> section_of(std::span<const std::byte> bulk, Section section) {
  if (section.offset > bulk.size() || section.size > bulk.size() - section.offset) {
    return invalid("bulk frame", "a section of " + std::to_string(section.size) + " bytes at " +
                                     std::to_string(section.offset) + " of " + std::to_string(bulk.size()));
  }
  return bulk.subspan(section.offset, section.size);
}

Result<SharedBytes> section_of(const SharedBytes& bulk, Section section) {
  EMPLACE_TRY_ASSIGN(const auto view, section_of(bulk.bytes(), section));
  return SharedBytes{bulk.owner(), view};
}

}  // namespace emplace::messages
