#pragma once
/// Plain values in bytes, as they are in memory: little-endian.

#include <cstddef>
#include <cstring>
#include <span>

#include "base/file.h"
#include "base/result.h"

namespace emplace::policy {

/// Appends the values of a span, vector or array.
template <class Values>
void append_values(const Values& values, Bytes& bytes) {
  const auto raw = std::as_bytes(std::span{values});
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}
/// Removes values from the front of `bytes`, which are untrusted: as many as `values` has room for. Errors
/// (kInvalid): too few bytes.
template <class Values>
Result<Unit> take_values(std::span<const std::byte>& bytes, Values&& values) {
  const std::span into{values};
  if (bytes.size() < into.size_bytes()) return invalid("actions", "truncated");
  if (!into.empty()) std::memcpy(into.data(), bytes.data(), into.size_bytes());
  bytes = bytes.subspan(into.size_bytes());
  return Unit{};
}

}  // namespace emplace::policy
