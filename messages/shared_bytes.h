#pragma once
/// Immutable bytes with shared ownership: the payload of bulk frames, sent and forwarded without copying.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace emplace::messages {

using Bytes = std::vector<std::byte>;

/// Thread: the bytes never change, so copies may be read and dropped on any thread.
class SharedBytes {
 public:
  SharedBytes() = default;
  SharedBytes(std::shared_ptr<const void> owner, std::span<const std::byte> view)
      : owner_{std::move(owner)}, view_{view} {}

  /// Takes over the vector's memory; the bytes are in memory order, little-endian.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  static SharedBytes adopt(std::vector<T> values) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const auto view = std::as_bytes(std::span{*owner});
    return {std::move(owner), view};
  }
  static SharedBytes copy(std::span<const std::byte> bytes) {
    return adopt(Bytes(bytes.begin(), bytes.end()));
  }

  std::span<const std::byte> bytes() const { return view_; }
  std::size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// A slice with the same owner. @pre offset + size <= size().
  SharedBytes slice(std::size_t offset, std::size_t size) const {
    EMPLACE_CHECK(offset <= view_.size() && size <= view_.size() - offset, "slice outside the buffer");
    return {owner_, view_.subspan(offset, size)};
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> view_;
};

/// Received bytes as aligned values. Copies, because frames arrive unaligned. A tail shorter than one T is
/// dropped.
template <class T>
requires std::is_trivially_copyable_v<T> std::vector<T> copy_as(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// One-byte values (devices, flags) as a view, without copying.
template <class T>
requires(std::is_trivially_copyable_v<T> &&
         sizeof(T) == 1) std::span<const T> view_as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size()};
}

}  // namespace emplace::messages
