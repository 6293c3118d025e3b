#pragma once
/// Whole files in, whole files out: what is written appears complete or not at all.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emplace {

using Bytes = std::vector<std::byte>;

/// Errors: kIo if it cannot be read, kInvalid if it is larger than `limit` bytes.
Result<Bytes> read_file(const std::filesystem::path& path, std::size_t limit = std::size_t{1} << 31);

/// Writes beside the target, then renames over it. Errors: kIo; nothing half-written stays.
Result<Unit> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
Result<Unit> write_file(const std::filesystem::path& path, std::string_view text);

/// gzip and zstd, recognised by their first bytes; anything else passes unchanged. `where` names the input in
/// errors. Errors (kInvalid): truncated, damaged, or larger than `limit` bytes when unpacked.
Result<Bytes> decompress(Bytes packed, std::string_view where, std::size_t limit = std::size_t{1} << 30);
Bytes compress_gzip(std::span<const std::byte> bytes);
Bytes compress_zstd(std::span<const std::byte> bytes, int level = 3);

}  // namespace emplace
