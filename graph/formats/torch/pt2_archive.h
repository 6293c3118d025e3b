#pragma once
/// The ZIP archive of an exported program, in memory.

#include <fmt/core.h>
#include <zip.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/formats/reading/file_parts.h"

namespace emplace {

struct CloseZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, CloseZip>;

/// Opens an archive in memory. Errors (kInvalid, without a place): not an archive; damaged.
inline Result<Archive> opened(std::span<const std::byte> bytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  Archive archive{source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY, &error)};
  if (archive != nullptr) return archive;
  zip_source_free(source);
  const bool other = zip_error_code_zip(&error) == ZIP_ER_NOZIP;
  return invalid({}, other ? "is not a ZIP archive, or is truncated or damaged" : "has a damaged directory");
}

/// Unpacks an entry. Errors (kInvalid, without a place): an unsupported method; encrypted; damaged; too
/// large, whatever the directory declares.
inline Result<std::string> unpacked(zip_t* archive, zip_uint64_t number) {
  zip_stat_t entry;
  zip_stat_init(&entry);
  if (zip_stat_index(archive, number, 0, &entry) != 0) return invalid({}, "has a damaged directory");
  const auto bad = [&](std::string_view what) {
    return invalid({}, "entry " + in_quotes(entry.name) + " " + std::string{what});
  };
  constexpr std::size_t kLeastLimit = std::size_t{64} << 20, kMaxLimit = std::size_t{1} << 30, kRatio = 200;
  const auto packed = static_cast<std::size_t>(std::min<std::uint64_t>(entry.comp_size, kMaxLimit));
  const std::size_t limit = std::clamp(packed * kRatio, kLeastLimit, kMaxLimit);
  if (entry.size > limit) return bad(fmt::format("unpacks to more than {} MiB", limit >> 20));
  if (entry.comp_method == ZIP_CM_STORE && entry.size != entry.comp_size)
    return bad("has contradictory sizes");
  const std::unique_ptr<zip_file_t, CloseZip> file{zip_fopen_index(archive, number, 0)};
  if (file == nullptr) {
    const int why = zip_error_code_zip(zip_get_error(archive));
    if (why == ZIP_ER_COMPNOTSUPP) return bad("uses an unknown compression method: store or deflate it");
    return bad(why == ZIP_ER_NOPASSWD || why == ZIP_ER_ENCRNOTSUPP ? "is encrypted" : "is damaged");
  }
  std::string text(entry.size, '\0');
  char more = 0;  // The checksum is compared at the end.
  if (zip_fread(file.get(), text.data(), text.size()) != static_cast<zip_int64_t>(text.size()) ||
      zip_fread(file.get(), &more, 1) != 0)
    return bad("is damaged");
  return text;
}

}  // namespace emplace
