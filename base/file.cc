#include "base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <glob.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/text/words.h"

namespace emplace {
namespace {

Error io_error(const std::filesystem::path& path, std::string_view what, int code) {
  return Error{Errc::kIo, printable_path(path) + ": " + std::string{what} + " (" +
                              std::generic_category().message(code) + ")"};
}

Error too_large(std::string_view where, std::size_t limit) {
  return invalid(where, fmt::format("unpacks to more than {} MiB", limit >> 20),
                 "if that is intended, unpack it by hand");
}

Result<Bytes> gunzip(std::span<const std::byte> packed, std::string_view where, std::size_t limit) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return invalid(where, "cannot initialise zlib");
  const auto end = std::unique_ptr<z_stream, decltype(&inflateEnd)>{&stream, &inflateEnd};
  Bytes out;
  std::size_t consumed = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    const std::size_t had = out.size();
    if (had >= limit) return too_large(where, limit);
    out.resize(std::min(limit, std::max<std::size_t>(1 << 16, had * 2)));
    const std::size_t feed = std::min<std::size_t>(packed.size() - consumed, 1u << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + consumed));
    stream.avail_in = static_cast<uInt>(feed);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    stream.avail_out = static_cast<uInt>(out.size() - had);
    status = inflate(&stream, Z_NO_FLUSH);
    consumed += feed - stream.avail_in;
    out.resize(out.size() - stream.avail_out);
    if (status == Z_BUF_ERROR || (status == Z_OK && consumed == packed.size() && stream.avail_out != 0)) {
      return invalid(where, "the gzip data is truncated", "fetch the file again");
    }
    if (status != Z_OK && status != Z_STREAM_END)
      return invalid(where, "the gzip data is damaged", "fetch the file again");
  }
  return out;
}

Result<Bytes> unzstd(std::span<const std::byte> packed, std::string_view where, std::size_t limit) {
  const auto stream =
      std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)>{ZSTD_createDStream(), &ZSTD_freeDStream};
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  Bytes out;
  std::size_t pending = 1;
  while (in.pos < in.size || pending != 0) {
    const std::size_t had = out.size();
    if (had >= limit) return too_large(where, limit);
    out.resize(std::min(limit, std::max<std::size_t>(1 << 16, had * 2)));
    ZSTD_outBuffer target{out.data(), out.size(), had};
    pending = ZSTD_decompressStream(stream.get(), &target, &in);
    out.resize(target.pos);
    if (ZSTD_isError(pending) != 0) return invalid(where, "the zstd data is damaged", "fetch the file again");
    if (pending != 0 && in.pos == in.size && target.pos < target.size) {
      return invalid(where, "the zstd data is truncated", "fetch the file again");
    }
  }
  return out;
}

/// The target of a link; the path itself if it is not a link.
std::filesystem::path target_of(const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::is_symlink(path, none)) return path;
  const auto target = std::filesystem::weakly_canonical(path, none);
  return none ? path : target;
}

/// Returns whether the path is a link that another user left in a world-writable folder (the rule of
/// fs.protected_symlinks, which is not enabled on every system).
bool is_foreign_link(const std::filesystem::path& path) {
  struct stat link {
  }, folder{};
  if (::lstat(path.c_str(), &link) != 0 || !S_ISLNK(link.st_mode)) return false;
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (::stat(parent.c_str(), &folder) != 0) return false;
  constexpr mode_t kShared = S_ISVTX | S_IWOTH;
  return (folder.st_mode & kShared) == kShared && link.st_uid != ::geteuid() && link.st_uid != folder.st_uid;
}

/// Unpredictable digits: if another user could guess the name, they could place a link there first.
std::string random_digits() {
  std::uint64_t number = 0;
  EMPLACE_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number, "getrandom failed");
  return std::to_string(number);
}

}  // namespace

Result<Bytes> read_file(const std::filesystem::path& path, std::size_t limit) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file.open()) return io_error(path, "cannot be read", errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return io_error(path, "cannot be read", errno);
  if (S_ISDIR(info.st_mode)) return Error{Errc::kIo, printable_path(path) + ": is a folder, not a file"};
  if (static_cast<std::size_t>(info.st_size) > limit) return invalid(printable_path(path), "is too large");
  // One byte more than the file has: its end is seen without a larger buffer, which would be a second copy.
  Bytes bytes(static_cast<std::size_t>(info.st_size) + 1);
  std::size_t have = 0;
  for (;;) {
    if (have == bytes.size())
      bytes.resize(bytes.size() + (1 << 16));  // Pipes and growing files have no fixed size.
    if (have > limit) return invalid(printable_path(path), "is too large");
    const ssize_t got = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path, "cannot be read", errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

Result<Unit> check_private(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return io_error(path, "cannot be read", errno);
  if (S_ISREG(info.st_mode) && (info.st_mode & 077) != 0)
    return invalid(printable_path(path), "others may read this secret", "chmod 600 " + printable_path(path));
  return Unit{};
}

Result<Unit> sync_folders(const std::filesystem::path& folder) {
  std::filesystem::path at = std::filesystem::absolute(folder).lexically_normal();
  std::optional<dev_t> disk;
  for (bool more = true; more; at = at.parent_path()) {
    more = at.has_relative_path();
    struct stat info {};
    if (::stat(at.c_str(), &info) != 0) return io_error(at, "cannot be read", errno);
    if (disk && *disk != info.st_dev) break;  // The mount point itself is stored on another disk.
    disk = info.st_dev;
    const Descriptor opened{::open(at.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (opened.get() < 0 && (errno == EACCES || errno == EPERM)) continue;
    if (opened.get() < 0) return io_error(at, "cannot be read", errno);
    // EINVAL, EROFS: the file system does not need folders to be synced.
    if (::fsync(opened.get()) != 0 && errno != EINVAL && errno != EROFS)
      return io_error(at, "cannot be synced", errno);
  }
  return Unit{};
}

std::optional<FileId> FileId::of(const std::filesystem::path& path) { return in(AT_FDCWD, path.c_str()); }

std::optional<FileId> FileId::of(int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return std::nullopt;
  return FileId{info.st_dev, info.st_ino};
}

std::optional<FileId> FileId::in(int folder, const char* name) {
  struct stat info {};
  if (::fstatat(folder, name, &info, 0) != 0) return std::nullopt;
  return FileId{info.st_dev, info.st_ino};
}

NewFile::NewFile(const std::filesystem::path& path, std::optional<mode_t> mode) : path_{target_of(path)} {
  if (is_foreign_link(path)) {
    error_ = Error{Errc::kIo, printable_path(path) +
                                  ": is a link of another user in a world-writable folder; "
                                  "name another file"};
    return;
  }
  struct stat there {};
  const bool replaces = ::stat(path_.c_str(), &there) == 0;
  if (replaces && !S_ISREG(there.st_mode)) {
    error_ = Error{Errc::kIo,
                   printable_path(path) + ": is not a regular file and would be replaced; name another file"};
    return;
  }
  if (!mode && replaces) mode = there.st_mode & 0777;
  if (!open_beside(mode)) fail("cannot be written", errno);
}

/// Creates the temporary file with `mode`, or the default mode of new files. Returns false with errno set if
/// it cannot be created.
bool NewFile::open_beside(std::optional<mode_t> mode) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries && fd_ < 0; ++i) {
    beside_ = path_.string() + ".part" + random_digits();
    fd_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode ? 0600 : 0644);
    if (fd_ < 0 && errno != EEXIST) return false;
  }
  return fd_ >= 0 && (!mode || ::fchmod(fd_, *mode) == 0);
}

NewFile::~NewFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(beside_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kTogether = 1 << 16;
  if (error_) return;
  size_ += bytes.size();
  if (waiting_.size() + bytes.size() <= kTogether) {
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
    return;
  }
  put(waiting_);
  waiting_.clear();
  put(bytes);
}

void NewFile::put(std::span<const std::byte> bytes) {
  for (std::size_t done = 0; done < bytes.size() && !error_;) {
    const ssize_t taken = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (taken < 0 && errno != EINTR) fail("cannot be written", errno);
    if (taken > 0) done += static_cast<std::size_t>(taken);
  }
}

void NewFile::fail(std::string_view what, int code) {
  if (!error_) error_ = io_error(path_, what, code);
}

Result<Unit> NewFile::commit() {
  put(std::exchange(waiting_, {}));
  if (!error_ && ::fsync(fd_) != 0) fail("cannot be written", errno);
  if (!error_ && ::rename(beside_.c_str(), path_.c_str()) != 0) fail("cannot be replaced", errno);
  if (error_) return *error_;
  ::close(std::exchange(fd_, -1));
  return Unit{};
}

std::vector<std::string> matching_files(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): only GLOB_TILDE makes it unsafe.
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

Result<Unit> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  NewFile file{path};
  file.write(bytes);
  return file.commit();
}

Result<Unit> write_file(const std::filesystem::path& path, std::string_view text) {
  return write_file(path, std::as_bytes(std::span{text.data(), text.size()}));
}

Result<Unit> write_private_file(const std::filesystem::path& path, std::string_view text) {
  NewFile file{path, 0600};
  file.write(text);
  return file.commit();
}

Result<Bytes> decompress(Bytes packed, std::string_view where, std::size_t limit) {
  const auto starts = [&](std::initializer_list<unsigned> magic) {
    if (packed.size() < magic.size()) return false;
    return std::equal(magic.begin(), magic.end(), packed.begin(),
                      [](unsigned a, std::byte b) { return std::byte(a) == b; });
  };
  if (starts({0x1f, 0x8b})) return gunzip(packed, where, limit);
  if (starts({0x28, 0xb5, 0x2f, 0xfd})) return unzstd(packed, where, limit);
  return packed;
}

Bytes compress_gzip(std::span<const std::byte> bytes) {
  z_stream stream{};
  EMPLACE_CHECK(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK,
                "cannot initialise zlib");
  Bytes out(deflateBound(&stream, bytes.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EMPLACE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflateBound was too small");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Bytes compress_zstd(std::span<const std::byte> bytes, int level) {
  Bytes out(ZSTD_compressBound(bytes.size()));
  // Creating a context takes longer than compressing a few kilobytes; one per thread is reused.
  thread_local const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context{ZSTD_createCCtx(),
                                                                                  &ZSTD_freeCCtx};
  const std::size_t size =
      ZSTD_compressCCtx(context.get(), out.data(), out.size(), bytes.data(), bytes.size(), level);
  EMPLACE_CHECK(ZSTD_isError(size) == 0, "ZSTD_compressBound was too small");
  out.resize(size);
  return out;
}

}  // namespace emplace
