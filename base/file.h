#pragma once
/// Whole files in, whole files out: what is written appears complete or not at all.

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

/// Errors: kIo if it cannot be read, kInvalid if it is larger than `limit` bytes.
Result<Bytes> read_file(const std::filesystem::path& path, std::size_t limit = std::size_t{1} << 31);

/// Writes beside the target, then renames over it. Errors: kIo; nothing half-written stays.
Result<Unit> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
Result<Unit> write_file(const std::filesystem::path& path, std::string_view text);
/// The same, with mode 0600 whatever was there: for what may hold secrets.
Result<Unit> write_private_file(const std::filesystem::path& path, std::string_view text);

/// Waits until `folder`'s name, and those of the folders that it lies in, are on the disk: a power cut then
/// leaves them. A file's own sync does not do that. As far as its file system goes; what may not be opened is
/// passed over. Errors: kIo.
Result<Unit> sync_folders(const std::filesystem::path& folder);

/// Which file it is, whatever its name: two paths or descriptors with equal ids lead to one file or folder.
/// The number of a file that is gone may be given to another one, so whoever keeps an id also keeps the file
/// open, or accepts that.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  /// Follows links. None if it cannot be looked at; errno says why.
  static std::optional<FileId> of(const std::filesystem::path& path);
  static std::optional<FileId> of(int descriptor);
  /// Of `name` within the open folder.
  static std::optional<FileId> in(int folder, const char* name);
  bool operator==(const FileId&) const = default;
};

/// A file that is written piece by piece and appears whole or not at all: it lies beside its place until
/// commit(), and is gone if there is none. After a failure everything is ignored but commit(), which tells
/// it. A power cut leaves the old file or the new one: which of them is certain once the folder was synced.
/// Thread: one.
class NewFile {
 public:
  /// Follows a link, but not one that another user left in a folder where anybody may write. What is there
  /// and no regular file (a folder, a pipe, a device) is refused by commit(). The mode of a file that is
  /// replaced stays; a new one has 0644, less the umask. `mode` rules over both.
  explicit NewFile(const std::filesystem::path& path, std::optional<mode_t> mode = {});
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span{text.data(), text.size()})); }
  std::uint64_t size() const { return size_; }  ///< Written so far [B].
  /// Errors: kIo, of whatever was refused first.
  Result<Unit> so_far() const { return error_ ? Result<Unit>{*error_} : Unit{}; }
  Result<Unit> commit();  ///< Errors: the same.

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

/// gzip and zstd, recognised by their first bytes; anything else passes unchanged. `where` names the input in
/// errors. Errors (kInvalid): truncated, damaged, or larger than `limit` bytes when unpacked.
Result<Bytes> decompress(Bytes packed, std::string_view where, std::size_t limit = std::size_t{1} << 30);
Bytes compress_gzip(std::span<const std::byte> bytes);
Bytes compress_zstd(std::span<const std::byte> bytes, int level = 3);

}  // namespace emplace
