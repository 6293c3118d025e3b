#include "launcher/cluster/files/file_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"

namespace emplace::launcher {
namespace {

Error refused(const std::filesystem::path& path) {
  return Error{Errc::kIo, printable_path(path) + ": " + std::generic_category().message(errno)};
}

/// Returns whether the open file still has this name.
bool is_at(const std::filesystem::path& path, int fd) {
  const auto id = FileId::of(fd);
  return id && id == FileId::of(path);
}

}  // namespace

FolderStore::~FolderStore() { close(); }

bool FolderStore::has(const messages::FileFacts& file) {
  std::error_code ignored;
  if (std::filesystem::file_size(path_of(file), ignored) != file.bytes) return false;
  const auto bytes = read_file(path_of(file));
  if (bytes && sha256_hex(*bytes) == file.sha256) return true;
  std::filesystem::remove(path_of(file), ignored);  // Size or hash is wrong: fetch it again.
  return false;
}

/// Opens the partial file and locks it for this process.
Result<Unit> FolderStore::open(const messages::FileFacts& file) {
  if (writing_ == file.sha256) return Unit{};
  close();
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure) return Error{Errc::kIo, printable_path(folder_) + ": " + failure.message()};
  part_ = path_of(file).string() + ".part";
  fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd_ >= 0 && (::flock(fd_, LOCK_EX | LOCK_NB) != 0 || !is_at(part_, fd_))) {
    ::close(fd_);  // Another process is fetching the file, or has just completed it.
    part_ += fmt::format("-{}", ::getpid());
    fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_TRUNC | O_CLOEXEC, 0600);
  }
  if (fd_ < 0) return refused(part_);
  writing_ = file.sha256;
  return Unit{};
}

void FolderStore::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  writing_.clear();
}

std::uint64_t FolderStore::received(const messages::FileFacts& file) {
  if (!open(file)) return 0;
  struct stat facts {};
  if (::fstat(fd_, &facts) != 0) return 0;
  if (static_cast<std::uint64_t>(facts.st_size) <= file.bytes)
    return static_cast<std::uint64_t>(facts.st_size);
  return ::ftruncate(fd_, 0) == 0 ? 0 : file.bytes;  // Too long to be part of this file.
}

Result<Unit> FolderStore::append(const messages::FileFacts& file, std::span<const std::byte> bytes) {
  EMPLACE_TRY(open(file));
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return refused(part_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return Unit{};
}

Result<Unit> FolderStore::finish(const messages::FileFacts& file) {
  EMPLACE_TRY(open(file));
  EMPLACE_TRY_ASSIGN(const auto bytes, read_file(part_));
  std::error_code failure;
  if (sha256_hex(bytes) != file.sha256) {
    std::filesystem::remove(part_, failure);
    close();
    return invalid(printable(file.path), "checksum mismatch", "retry");
  }
  std::filesystem::rename(part_, path_of(file), failure);
  close();
  if (failure) return Error{Errc::kIo, printable_path(part_) + ": " + failure.message()};
  return Unit{};
}

Result<std::filesystem::path> cache_folder() {
  for (const auto& [variable, below] : {std::pair{"XDG_CACHE_HOME", ""}, std::pair{"HOME", ".cache"}}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return std::filesystem::path{value} / below / "emplace";
  }
  return invalid("the cache", "neither XDG_CACHE_HOME nor HOME is set", "set one to a writable folder");
}

}  // namespace emplace::launcher
