#pragma once
/// Encodes structs as MessagePack maps and decodes them. A message lists its fields once, with
/// EMPLACE_FIELDS (base/fields.h).
///
/// Supported fields: numbers, bool, enums, strings, Section, nested structs with EMPLACE_FIELDS, vectors of
/// strings and vectors of such structs. A vector of numbers is one `bin` of raw little-endian values (33
/// times faster than an array at 83,712 elements). The reader skips unknown fields and leaves missing
/// fields at their default. A struct whose fields had other names in an earlier version of the format maps
/// the old names: static name_now(name).

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "messages/shared_bytes.h"

namespace emplace::messages {

static_assert(std::endian::native == std::endian::little, "bulk and number vectors travel in memory order");

/// Part of a message's bulk frame. Offset and size must be checked against the frame before use (see
/// section_of).
struct Section {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  ///< Size [bytes].
  bool operator==(const Section&) const = default;
};

/// Appends MessagePack to a buffer (msgpack-cxx inside). Thread: one owner.
class Writer {
 public:
  explicit Writer(Bytes& out) : out_{&out} {}
  void map(std::size_t fields);
  void array(std::size_t elements);
  void boolean(bool value);
  void unsigned_int(std::uint64_t value);
  void signed_int(std::int64_t value);
  void real(double value);
  void real(float value);
  void text(std::string_view value);
  void binary(std::span<const std::byte> value);

 private:
  Bytes* out_;
};

/// Decodes untrusted MessagePack. Pulls one value at a time straight from the bytes and checks every size
/// before it allocates: element counts are at most the remaining bytes, depth is at most kMaxDepth. After
/// the first invalid byte every call returns false. Thread: one owner.
class Reader {
 public:
  static constexpr int kMaxDepth = 32;
  /// Limit on strings or structs in one array: an encoded element may take one byte, a decoded one many.
  static constexpr std::size_t kMaxElements = 65'536;

  explicit Reader(std::span<const std::byte> bytes) : bytes_{bytes} {}

  bool map(std::size_t& fields);      ///< Enters a map; it counts as one level until leave().
  bool array(std::size_t& elements);  ///< Enters an array; it counts as one level until leave().
  void leave() { --depth_; }
  bool boolean(bool& value);
  bool unsigned_int(std::uint64_t& value);  ///< Accepts any non-negative integer.
  bool signed_int(std::int64_t& value);     ///< Accepts any integer that fits.
  bool real(double& value);                 ///< Accepts float32, float64 and integers.
  bool text(std::string_view& value);       ///< The result is a view into the bytes.
  bool binary(std::span<const std::byte>& value);
  bool skip();  ///< Skips one value with its nested values.

  bool ok() const { return ok_; }
  bool fail() { return ok_ = false; }
  std::size_t position() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  bool container(std::uint8_t fix, std::uint8_t wide, std::size_t per_element, std::size_t& n);
  bool take(std::size_t n, const std::byte*& from);
  bool big_endian(std::size_t width, std::uint64_t& value);

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool ok_ = true;
};

using emplace::HasFields;
template <class T>
concept Number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

template <class T>
void write_value(Writer& writer, const T& value) {
  if constexpr (std::same_as<T, bool>) {
    writer.boolean(value);
  } else if constexpr (std::is_enum_v<T>) {
    write_value(writer, static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::floating_point<T>) {
    writer.real(value);
  } else if constexpr (std::unsigned_integral<T>) {
    writer.unsigned_int(value);
  } else if constexpr (std::signed_integral<T>) {
    writer.signed_int(value);
  } else if constexpr (std::same_as<T, std::string>) {
    writer.text(value);
  } else if constexpr (std::same_as<T, Section>) {
    writer.array(2);
    writer.unsigned_int(value.offset);
    writer.unsigned_int(value.size);
  } else if constexpr (HasFields<T>) {
    std::size_t fields = 0;
    value.visit_fields([&](const char*, const auto&) { ++fields; });
    writer.map(fields);
    value.visit_fields([&](const char* name, const auto& field) {
      writer.text(name);
      write_value(writer, field);
    });
  } else if constexpr (Number<typename T::value_type>) {
    writer.binary(std::as_bytes(std::span{value}));
  } else {
    writer.array(value.size());
    for (const auto& element : value) write_value(writer, element);
  }
}

template <class T>
bool read_value(Reader& reader, T& value) {
  if constexpr (std::same_as<T, bool>) {
    return reader.boolean(value);
  } else if constexpr (std::is_enum_v<T>) {
    std::underlying_type_t<T> number{};
    if (!read_value(reader, number)) return false;
    value = static_cast<T>(number);
    return true;
  } else if constexpr (std::floating_point<T>) {
    double number = 0;
    if (!reader.real(number)) return false;
    value = static_cast<T>(number);
    return true;
  } else if constexpr (std::unsigned_integral<T>) {
    std::uint64_t number = 0;
    if (!reader.unsigned_int(number) || number > std::numeric_limits<T>::max()) return reader.fail();
    value = static_cast<T>(number);
    return true;
  } else if constexpr (std::signed_integral<T>) {
    std::int64_t number = 0;
    if (!reader.signed_int(number) || number < std::numeric_limits<T>::min() ||
        number > std::numeric_limits<T>::max())
      return reader.fail();
    value = static_cast<T>(number);
    return true;
  } else if constexpr (std::same_as<T, std::string>) {
    std::string_view text;
    if (!reader.text(text)) return false;
    value.assign(text);
    return true;
  } else if constexpr (std::same_as<T, Section>) {
    std::size_t n = 0;
    if (!reader.array(n) || n != 2) return reader.fail();
    if (!reader.unsigned_int(value.offset) || !reader.unsigned_int(value.size)) return false;
    reader.leave();
    return true;
  } else if constexpr (HasFields<T>) {
    std::size_t n = 0;
    if (!reader.map(n)) return false;
    for (; n > 0; --n) {
      std::string_view key;
      if (!reader.text(key)) return false;
      if constexpr (requires { T::name_now(key); }) key = T::name_now(key);
      bool known = false;
      value.visit_fields([&](const char* name, auto& field) {
        if (known || key != name) return;
        known = true;
        read_value(reader, field);
      });
      if (!known) reader.skip();
      if (!reader.ok()) return false;
    }
    reader.leave();
    return true;
  } else if constexpr (Number<typename T::value_type>) {
    std::span<const std::byte> raw;
    if (!reader.binary(raw) || raw.size() % sizeof(typename T::value_type) != 0) return reader.fail();
    value = copy_as<typename T::value_type>(raw);
    return true;
  } else {
    std::size_t n = 0;
    if (!reader.array(n) || n > Reader::kMaxElements) return reader.fail();
    value.clear();
    for (; n > 0; --n) {
      if (!read_value(reader, value.emplace_back())) return false;
    }
    reader.leave();
    return true;
  }
}

/// Appends the body of a message to `out`.
template <HasFields M>
void encode_body(const M& message, Bytes& out) {
  Writer writer{out};
  write_value(writer, message);
}
template <HasFields M>
Bytes encode_body(const M& message) {
  Bytes out;
  encode_body(message, out);
  return out;
}

/// Errors (kInvalid): the body is not a map of these fields, has trailing bytes, or exceeds a limit. Never
/// throws on hostile bytes.
template <HasFields M>
Result<M> decode_body(std::span<const std::byte> body) {
  M message;
  Reader reader{body};
  if (!read_value(reader, message) || reader.left() != 0) {
    return invalid("message body", "not the MessagePack of type " + std::to_string(M::kType),
                   "byte " + std::to_string(reader.position()));
  }
  return message;
}

/// Concatenates sections into one bulk frame. A bulk frame with one section that is already a vector needs
/// no builder: SharedBytes::adopt.
class BulkBuilder {
 public:
  /// Appends a copy of `bytes`.
  Section add(std::span<const std::byte> bytes);
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  SharedBytes finish() { return bytes_.empty() ? SharedBytes{} : SharedBytes::adopt(std::move(bytes_)); }

 private:
  Bytes bytes_;
};

/// The bytes of a section. Errors (kInvalid): the section exceeds the frame.
Result<std::span<const std::byte>> section_of(std::span<const std::byte> bulk, Section section);
/// As above, with shared ownership: the bytes can be kept or forwarded without a copy.
Result<SharedBytes> section_of(const SharedBytes& bulk, Section section);

}  // namespace emplace::messages
