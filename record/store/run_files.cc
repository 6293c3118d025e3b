#include "record/store/run_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/text/words.h"

namespace emplace::record {
namespace {

constexpr const char* kDatabase = "run.db";
constexpr const char* kLog = "run.db-wal";
constexpr const char* kHead = "head.seq";

/// True if the open file still has a name. False also if `fd` is not open.
bool is_named(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_nlink > 0;
}

}  // namespace

RunFiles::RunFiles(std::filesystem::path directory, int folder)
    : directory_{std::move(directory)},
      folder_{folder},
      database_{::openat(folder, kDatabase, O_PATH | O_CLOEXEC)} {
  remember();
}

Result<Unit> RunFiles::check() const {
  const std::string where = printable_path(directory_);
  if (!is_named(folder_))
    return invalid(where, "the run folder was deleted during the run, including its record");
  const auto there = FileId::of(directory_);
  if (!there) return Error{Errc::kIo, where + ": the run folder was moved away; move it back"};
  if (FileId::of(folder_) != there)
    return invalid(where, "another folder took the place of the run folder during the run",
                   "the record is in the folder that was moved away");
  const auto database = FileId::of(database_.get());
  if (!database) return Unit{};  // run.db did not exist at construction.
  const auto named = FileId::in(folder_, kDatabase);
  if (!named)
    return Error{Errc::kIo, where + ": run.db was " +
                                (is_named(database_.get()) ? "moved away; move it back" : "deleted")};
  if (database != named)
    return invalid(where, "another file took the place of run.db during the run",
                   "move the original file back, then continue with --resume");
  return Unit{};
}

bool RunFiles::deleted() const {
  if (!is_named(folder_) || !FileId::of(database_.get()) || is_named(database_.get())) return false;
  return !FileId::in(folder_, kDatabase) && errno == ENOENT;
}

RunFiles::Stamp RunFiles::stamp(const char* name) const {
  struct stat now {};
  if (::fstatat(folder_, name, &now, 0) != 0) return {};
  return {{now.st_dev, now.st_ino},
          now.st_size,
          {now.st_mtim.tv_sec, now.st_mtim.tv_nsec, now.st_ctim.tv_sec, now.st_ctim.tv_nsec}};
}

void RunFiles::remember() {
  database_then_ = stamp(kDatabase);
  log_then_ = stamp(kLog);
}

bool RunFiles::changed(bool log_too) const {
  return stamp(kDatabase) != database_then_ || (log_too && stamp(kLog) != log_then_);
}

Result<Unit> RunFiles::write_head(std::uint64_t seq, std::uint64_t update) {
  if (!head_.open()) head_.reset(::openat(folder_, kHead, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  // A small write of constant size is never partially visible.
  const std::string text = fmt::format("{:020} {:020}\n", seq, update);
  if (head_.open() && ::pwrite(head_.get(), text.data(), text.size(), 0) == std::ssize(text)) return Unit{};
  const int code = errno;
  return Error{Errc::kIo,
               printable((directory_ / kHead).string()) + ": " + std::generic_category().message(code)};
}

}  // namespace emplace::record
