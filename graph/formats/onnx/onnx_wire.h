#pragma once
/// Reads protobuf messages in wire format, field by field, without copying: weights can be larger than a
/// message of protobuf may be.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace emplace::onnx_io {

/// One field of a message.
struct WireField {
  std::uint64_t number = 0;
  std::span<const std::byte> whole;                   ///< The field and its tag.
  std::optional<std::span<const std::byte>> content;  ///< Content of a field that has a length.
};

/// Thread: one. The bytes must outlive it.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_{bytes} {}

  bool at_end() const { return rest_.empty(); }
  /// The next field; nothing if the bytes are malformed.
  std::optional<WireField> next() {
    const std::span<const std::byte> start = rest_;
    std::uint64_t tag = 0, length = 0;
    if (!varint(tag)) return std::nullopt;
    WireField field{tag >> 3, {}, {}};
    switch (tag & 7) {
      case 0:
        if (!varint(length)) return std::nullopt;
        break;
      case 1:
      case 5:
        length = (tag & 7) == 1 ? 8 : 4;
        if (length > rest_.size()) return std::nullopt;
        rest_ = rest_.subspan(length);
        break;
      case 2:
        if (!varint(length) || length > rest_.size()) return std::nullopt;
        field.content = rest_.first(length);
        rest_ = rest_.subspan(length);
        break;
      default:
        return std::nullopt;
    }
    field.whole = start.first(start.size() - rest_.size());
    return field;
  }

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(rest_.front());
      rest_ = rest_.subspan(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  std::span<const std::byte> rest_;
};

inline void append_bytes(std::string& text, std::span<const std::byte> bytes) {
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace emplace::onnx_io
