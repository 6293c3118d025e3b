#include "record/export/zip.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/text/words.h"

namespace emplace::record {
namespace {

constexpr std::size_t kInMemory = std::size_t{1} << 20;
constexpr std::uint64_t kBeyond32 = 0xffff'ffff;

/// Little-endian, as in all zip fields.
class Fields {
 public:
  Fields& u16(std::uint64_t value) { return put(value, 2); }
  Fields& u32(std::uint64_t value) { return put(value, 4); }
  Fields& u64(std::uint64_t value) { return put(value, 8); }
  Fields& text(std::string_view value) { return bytes_ += value, *this; }
  /// The low form of a size: 32 bits, or all ones if it needs more; the extra field then holds the value.
  Fields& u32_or_more(std::uint64_t value) { return u32(std::min(value, kBeyond32)); }
  const std::string& bytes() const { return bytes_; }

 private:
  Fields& put(std::uint64_t value, int bytes) {
    for (int k = 0; k < bytes; ++k) bytes_ += static_cast<char>(value >> (8 * k) & 0xff);
    return *this;
  }
  std::string bytes_;
};

/// The ZIP64 extra field of the numbers that need it; empty if none does.
std::string extra_field(std::initializer_list<std::uint64_t> numbers) {
  Fields values;
  for (const std::uint64_t number : numbers)
    if (number >= kBeyond32) values.u64(number);
  if (values.bytes().empty()) return {};
  return Fields{}.u16(1).u16(values.bytes().size()).text(values.bytes()).bytes();
}

/// Fields shared by a member's header and its directory entry, from "version needed" on.
std::string common_fields(std::string_view name, std::string_view extra, std::uint32_t crc,
                          std::uint64_t packed_size, std::uint64_t size) {
  constexpr std::uint64_t kDeflated = 8, kFirstOf1980 = 0x21;
  return Fields{}
      .u16(extra.empty() ? 20 : 45)
      .u16(0)
      .u16(kDeflated)
      .u16(0)
      .u16(kFirstOf1980)  // Constant time, so that equal rows give equal bytes.
      .u32(crc)
      .u32_or_more(packed_size)
      .u32_or_more(size)
      .u16(name.size())
      .u16(extra.size())
      .bytes();
}

/// An anonymous temporary file; it disappears with its descriptor.
int unnamed_file(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string name = (folder / ".part-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

struct ZipMember::Deflater {
  z_stream stream{};
  Deflater() {
    constexpr int kLevel = 4, kRaw = -15, kMemory = 8;
    EMPLACE_CHECK(deflateInit2(&stream, kLevel, Z_DEFLATED, kRaw, kMemory, Z_DEFAULT_STRATEGY) == Z_OK,
                  "zlib initialisation failed");
  }
  ~Deflater() { deflateEnd(&stream); }
};

ZipMember::ZipMember(std::string name, std::filesystem::path folder)
    : name_{std::move(name)}, folder_{std::move(folder)}, deflater_{std::make_unique<Deflater>()} {}

ZipMember::~ZipMember() {
  if (fd_ >= 0) ::close(fd_);
}

void ZipMember::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 30;  // The counters of zlib have 32 bits.
  for (; !bytes.empty() && !error_; bytes = bytes.subspan(std::min(bytes.size(), kAtOnce))) {
    const auto part = bytes.first(std::min(bytes.size(), kAtOnce));
    deflater_->stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(part.data()));
    deflater_->stream.avail_in = static_cast<uInt>(part.size());
    crc_ = crc32_z(crc_, deflater_->stream.next_in, part.size());
    size_ += part.size();
    deflate(false);
  }
}

void ZipMember::deflate(bool last) {
  std::array<std::byte, 1 << 15> out;
  do {
    deflater_->stream.next_out = reinterpret_cast<Bytef*>(out.data());
    deflater_->stream.avail_out = static_cast<uInt>(out.size());
    ::deflate(&deflater_->stream, last ? Z_FINISH : Z_NO_FLUSH);
    const std::size_t made = out.size() - deflater_->stream.avail_out;
    packed_.insert(packed_.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(made));
    packed_size_ += made;
  } while (deflater_->stream.avail_out == 0);
  if (packed_.size() > kInMemory) spill();
}

void ZipMember::spill() {
  if (fd_ < 0) fd_ = unnamed_file(folder_);
  for (std::size_t done = 0; done < packed_.size() && !error_;) {
    const ssize_t put = fd_ < 0 ? -1 : ::write(fd_, packed_.data() + done, packed_.size() - done);
    if (put < 0 && (fd_ < 0 || errno != EINTR))
      error_ = Error{Errc::kIo, printable_path(folder_) + ": cannot be written (" +
                                    std::generic_category().message(errno) + ")"};
    if (put > 0) done += static_cast<std::size_t>(put);
  }
  packed_.clear();
}

void ZipFile::add(ZipMember& member, std::string_view head) {
  member.deflate(true);
  if (member.error_ && !error_) error_ = member.error_;
  // Deflate streams can be concatenated at a byte boundary: the header is a stored (uncompressed) block.
  const std::string piece = Fields{}.text({"\0", 1}).u16(head.size()).u16(~head.size()).text(head).bytes();
  const auto* text = reinterpret_cast<const Bytef*>(head.data());
  const unsigned long crc =
      crc32_combine(crc32_z(0, text, head.size()), member.crc_, static_cast<z_off_t>(member.size_));
  Entry entry{member.name_, head.size() + member.size_, piece.size() + member.packed_size_, file_.size(),
              static_cast<std::uint32_t>(crc)};
  const std::string extra = entry.size >= kBeyond32 || entry.packed_size >= kBeyond32
                                ? Fields{}.u16(1).u16(16).u64(entry.size).u64(entry.packed_size).bytes()
                                : std::string{};
  // The extra field holds either both sizes or neither.
  const std::uint64_t size = extra.empty() ? entry.size : kBeyond32;
  const std::uint64_t packed_size = extra.empty() ? entry.packed_size : kBeyond32;
  file_.write(Fields{}.u32(0x04034b50).bytes() +
              common_fields(entry.name, extra, entry.crc, packed_size, size) + entry.name + extra);
  file_.write(piece);
  Bytes page(kInMemory);
  for (off_t at = 0; member.fd_ >= 0 && !error_;) {
    const ssize_t got = ::pread(member.fd_, page.data(), page.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      error_ = Error{Errc::kIo, printable_path(member.folder_) + ": cannot be read (" +
                                    std::generic_category().message(errno) + ")"};
    if (got <= 0) break;
    file_.write(std::span{page}.first(static_cast<std::size_t>(got)));
    at += got;
  }
  file_.write(member.packed_);
  entries_.push_back(std::move(entry));
}

Result<Unit> ZipFile::commit() {
  if (error_) return *error_;
  const std::uint64_t start = file_.size();
  for (const Entry& entry : entries_) {
    const std::string extra = extra_field({entry.size, entry.packed_size, entry.offset});
    constexpr std::uint64_t kMadeByZip64 = 45;
    file_.write(Fields{}.u32(0x02014b50).u16(kMadeByZip64).bytes() +
                common_fields(entry.name, extra, entry.crc, entry.packed_size, entry.size) +
                Fields{}.u16(0).u16(0).u16(0).u32(0).u32_or_more(entry.offset).bytes() + entry.name + extra);
  }
  const std::uint64_t end = file_.size(), count = entries_.size();
  if (start >= kBeyond32) {
    file_.write(Fields{}.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count).bytes());
    file_.write(Fields{}.u64(end - start).u64(start).u32(0x07064b50).u32(0).u64(end).u32(1).bytes());
  }
  file_.write(Fields{}.u32(0x06054b50).u16(0).u16(0).u16(count).u16(count).u32_or_more(end - start).bytes());
  file_.write(Fields{}.u32_or_more(start).u16(0).bytes());
  return file_.commit();
}

}  // namespace emplace::record
