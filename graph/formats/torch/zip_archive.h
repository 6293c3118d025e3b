#pragma once
/// Reads entries of a ZIP archive, stored or deflated. A hundred lines are less than a new dependency, and
/// none of the linked libraries reads ZIP.

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
  std::uint64_t at = 0;  ///< Position of its local header [B].
  std::uint64_t packed_bytes = 0, bytes = 0;
  std::uint16_t method = 0;  ///< Compression method: 0 stored, 8 deflated.
};

/// Reads the directory, including 64-bit forms; names point into `archive`. Errors (kInvalid, without a
/// place): not an archive; a directory outside of it. Any thread.
Result<std::vector<ZipEntry>> zip_entries(std::span<const std::byte> archive);

/// Unpacks an entry. Errors (kInvalid, without a place): outside of the archive; unsupported method;
/// encrypted; damaged; larger than `limit` bytes, whatever the directory declares. Any thread.
Result<Bytes> unzip(std::span<const std::byte> archive, const ZipEntry& entry, std::size_t limit);

}  // namespace emplace
