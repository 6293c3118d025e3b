#include "graph/formats/torch/zip_archive.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/text/words.h"

namespace emplace {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                        kLocator64 = 0x07064b50;
constexpr std::size_t kEndBytes = 22, kLocatorBytes = 20, kEntryBytes = 46, kLocalBytes = 30;

/// Reads little-endian numbers of an archive; out-of-range reads return zero.
class View {
 public:
  explicit View(std::span<const std::byte> bytes) : bytes_{bytes} {}

  bool has(std::uint64_t at, std::uint64_t bytes) const {
    return at <= bytes_.size() && bytes <= bytes_.size() - at;
  }
  std::uint64_t number(std::uint64_t at, std::size_t bytes) const {
    std::uint64_t value = 0;
    if (!has(at, bytes)) return 0;
    for (std::size_t k = bytes; k-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes_[at + k]);
    return value;
  }
  std::uint16_t u16(std::uint64_t at) const { return static_cast<std::uint16_t>(number(at, 2)); }
  std::uint32_t u32(std::uint64_t at) const { return static_cast<std::uint32_t>(number(at, 4)); }
  std::uint64_t u64(std::uint64_t at) const { return number(at, 8); }
  std::string_view text(std::uint64_t at, std::size_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }
  std::span<const std::byte> part(std::uint64_t at, std::uint64_t size) const {
    return bytes_.subspan(at, size);
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

/// Position of the end record: it precedes a comment of up to 64 KiB.
std::optional<std::uint64_t> find_end(const View& view) {
  if (view.size() < kEndBytes) return std::nullopt;
  const std::uint64_t first = view.size() - std::min<std::uint64_t>(view.size(), kEndBytes + 0xffff);
  for (std::uint64_t at = view.size() - kEndBytes;; --at) {
    if (view.u32(at) == kEnd) return at;
    if (at == first) return std::nullopt;
  }
}

/// Reads sizes and position that exceed 32 bits from the extra field, where they follow in this order.
void take_large(const View& view, std::uint64_t extra, std::uint64_t end, ZipEntry& entry) {
  for (; extra + 4 <= end; extra += 4 + view.u16(extra + 2)) {
    if (view.u16(extra) != 1) continue;
    std::uint64_t at = extra + 4;
    for (std::uint64_t* value : {&entry.bytes, &entry.packed_bytes, &entry.at})
      if (*value == 0xffffffff && at + 8 <= end) *value = view.u64(at), at += 8;
    return;
  }
}

}  // namespace

Result<std::vector<ZipEntry>> zip_entries(std::span<const std::byte> archive) {
  const View view{archive};
  const auto end = find_end(view);
  if (!end) return invalid({}, "is not a ZIP archive, or is truncated");
  std::uint64_t count = view.u16(*end + 10), size = view.u32(*end + 12), at = view.u32(*end + 16);
  if (*end >= kLocatorBytes && view.u32(*end - kLocatorBytes) == kLocator64) {
    const std::uint64_t large = view.u64(*end - kLocatorBytes + 8);
    if (!view.has(large, 56) || view.u32(large) != kEnd64) return invalid({}, "has a damaged directory");
    count = view.u64(large + 32), size = view.u64(large + 40), at = view.u64(large + 48);
  }
  if (!view.has(at, size) || count > size / kEntryBytes)
    return invalid({}, "has a directory outside of the archive");
  std::vector<ZipEntry> entries;
  for (std::uint64_t k = 0; k < count; ++k) {
    if (!view.has(at, kEntryBytes) || view.u32(at) != kEntry) return invalid({}, "has a damaged directory");
    const std::uint64_t name = view.u16(at + 28), extra = view.u16(at + 30), comment = view.u16(at + 32);
    if (!view.has(at, kEntryBytes + name + extra + comment)) return invalid({}, "has a damaged directory");
    ZipEntry entry;
    entry.name = view.text(at + kEntryBytes, name);
    entry.at = view.u32(at + 42);
    entry.packed_bytes = view.u32(at + 20), entry.bytes = view.u32(at + 24);
    entry.method = view.u16(at + 10);
    take_large(view, at + kEntryBytes + name, at + kEntryBytes + name + extra, entry);
    entries.push_back(entry);
    at += kEntryBytes + name + extra + comment;
  }
  return entries;
}

Result<Bytes> unzip(std::span<const std::byte> archive, const ZipEntry& entry, std::size_t limit) {
  const View view{archive};
  const auto bad = [&](std::string_view what) {
    return invalid({}, "entry '" + printable(entry.name, 80) + "' " + std::string{what});
  };
  if (!view.has(entry.at, kLocalBytes) || view.u32(entry.at) != kLocal)
    return bad("is outside of the archive");
  if ((view.u16(entry.at + 6) & 1) != 0) return bad("is encrypted");
  const std::uint64_t data = entry.at + kLocalBytes + view.u16(entry.at + 26) + view.u16(entry.at + 28);
  if (!view.has(data, entry.packed_bytes)) return bad("is outside of the archive");
  if (entry.bytes > limit) return bad(fmt::format("unpacks to more than {} MiB", limit >> 20));
  const auto packed = view.part(data, entry.packed_bytes);
  if (entry.method == 0) {
    if (entry.bytes != entry.packed_bytes) return bad("has contradictory sizes");
    return Bytes(packed.begin(), packed.end());
  }
  if (entry.method != 8) return bad("uses an unknown compression method: store or deflate it");
  // One byte more than the declared size detects a wrong size.
  Bytes out(static_cast<std::size_t>(entry.bytes) + 1);
  z_stream stream{};
  if (packed.size() > 0xffffffffu || inflateInit2(&stream, -MAX_WBITS) != Z_OK) return bad("is damaged");
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_FINISH);
  const std::uint64_t made = stream.total_out;
  inflateEnd(&stream);
  if (status != Z_STREAM_END || made != entry.bytes) return bad("is damaged");
  out.resize(static_cast<std::size_t>(entry.bytes));
  return out;
}

}  // namespace emplace
