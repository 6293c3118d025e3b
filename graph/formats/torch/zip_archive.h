#pragma once
/// Entries of a ZIP archive, stored or deflated. An own reader of the directory: no library for it is among
/// those that emplace links, and a hundred lines are less than a new dependency.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace emplace {

struct ZipEntry {
  std::string_view name;
  std::uint64_t at = 0;  ///< Of its local header [B].
  std::uint64_t packed_bytes = 0, bytes = 0;
  std::uint16_t method = 0;  ///< 0 stored, 8 deflated.
};

/// The directory, 64-bit forms too; names lie in `archive`. Errors (kInvalid, without a place): no archive; a
/// directory that does not lie inside it. Any thread.
Result<std::vector<ZipEntry>> zip_entries(std::span<const std::byte> archive);

/// What an entry holds. Errors (kInvalid, without a place): it does not lie in the archive; another method;
/// encrypted; damaged; larger than `limit` bytes, whatever the directory says. Any thread.
Result<Bytes> unzip(std::span<const std::byte> archive, const ZipEntry& entry, std::size_t limit);

}  // namespace emplace
