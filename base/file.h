#pragma once
/// Reads and writes whole files. A written file appears complete or not at all.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emplace {

using Bytes = std::vector<std::byte>;

/// Reads a file. Errors: kIo if it cannot be read, kInvalid if it is larger than `limit` bytes.
Result<Bytes> read_file(const std::filesystem::path& path, std::size_t limit = std::size_t{1} << 31);

/// The existing files and folders that match a shell pattern, sorted. Empty if none does.
std::vector<std::string> matching_files(const std::string& pattern);

/// Writes beside the target, then renames over it. Errors: kIo; no partial file remains.
Result<Unit> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
Result<Unit> write_file(const std::filesystem::path& path, std::string_view text);
/// Writes a file that may hold secrets, always with mode 0600. Errors: as write_file.
Result<Unit> write_private_file(const std::filesystem::path& path, std::string_view text);

/// Checks that only its owner can read a file with a secret. Errors: kIo if it cannot be examined; kInvalid
/// if others can read it. Devices and pipes are allowed.
Result<Unit> check_private(const std::filesystem::path& path);

/// Syncs the entries of `folder` and of its parents on the same file system to disk, so that they survive a
/// power cut; syncing a file alone does not guarantee that. Folders without access are skipped. Errors: kIo.
Result<Unit> sync_folders(const std::filesystem::path& folder);

/// The identity of a file: two paths or descriptors with equal ids refer to the same file or folder. The id
/// of a deleted file may be reused, so keep the file open while its id is in use, or accept that.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  /// Follows links. Returns nothing, with errno set, if the file cannot be examined.
  static std::optional<FileId> of(const std::filesystem::path& path);
  static std::optional<FileId> of(int descriptor);
  /// Identifies `name` within the open folder.
  static std::optional<FileId> in(int folder, const char* name);
  bool operator==(const FileId&) const = default;
};

/// A file that is written piece by piece and appears whole or not at all. The data is in a temporary file
/// beside the target until commit(); without commit() it is removed. After a failure, writes are ignored and
/// commit() returns the first error. After a power cut either the old or the new file remains; sync the
/// folder to be certain of the new one. Thread: one.
class NewFile {
 public:
  /// Follows a link, unless another user left it in a world-writable folder. commit() refuses a target that
  /// exists and is not a regular file (a folder, a pipe, a device). An existing file keeps its mode; a new
  /// file gets 0644 less the umask. `mode` overrides both.
  explicit NewFile(const std::filesystem::path& path, std::optional<mode_t> mode = {});
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span{text.data(), text.size()})); }
  std::uint64_t size() const { return size_; }  ///< Bytes written so far.
  /// Errors: kIo, the first failure so far.
  Result<Unit> so_far() const { return error_ ? Result<Unit>{*error_} : Unit{}; }
  Result<Unit> commit();  ///< Errors: as so_far().

 private:
  void put(std::span<const std::byte> bytes);
  void fail(std::string_view what, int code);

  bool open_beside(std::optional<mode_t> mode);

  const std::filesystem::path path_;
  std::filesystem::path beside_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  Bytes waiting_;
  std::optional<Error> error_;
};

/// Unpacks gzip and zstd, recognised by their first bytes; other data passes unchanged. `where` names the
/// input in errors. Errors (kInvalid): truncated, damaged, or larger than `limit` bytes when unpacked.
Result<Bytes> decompress(Bytes packed, std::string_view where, std::size_t limit = std::size_t{1} << 30);
Bytes compress_gzip(std::span<const std::byte> bytes);
Bytes compress_zstd(std::span<const std::byte> bytes, int level = 3);

}  // namespace emplace
