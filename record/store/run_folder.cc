#include "record/store/run_folder.h"

#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "base/text/words.h"
#include "record/store/database_errors.h"
#include "record/store/folder_lock.h"

namespace emplace::record {
namespace {

bool on_network(const std::filesystem::path& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0) return false;
  constexpr std::array<unsigned long, 9> kNetwork{
      0x6969 /* NFS */,        0xff534d42 /* CIFS */, 0x517b /* SMB */,
      0x0bd00bd0 /* Lustre */, 0x00c36400 /* Ceph */, 0x47504653 /* GPFS */,
      0x5346414f /* AFS */,    0xfe534d42 /* SMB2 */, 0x01021997 /* 9P */};
  return std::find(kNetwork.begin(), kNetwork.end(), static_cast<unsigned long>(info.f_type)) !=
         kNetwork.end();
}

/// Refuses a folder of another user: it may have links in it that lead anywhere, now or later.
/// Root's are trusted, as by ssh. `links`: whether it may be a link.
Result<Unit> check_owner(const std::filesystem::path& folder, bool links) {
  struct stat info {};
  if ((links ? ::stat(folder.c_str(), &info) : ::lstat(folder.c_str(), &info)) != 0) return Unit{};
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return invalid(printable_path(folder),
                   "belongs to another user (number " + std::to_string(info.st_uid) + ")",
                   "choose another --run-dir, or make it yours with chown");
  if (S_ISLNK(info.st_mode))
    return invalid(printable_path(folder), "is a link", "choose another --run-dir, or remove the link");
  return Unit{};
}

}  // namespace

Result<Unit> check_folder(const std::filesystem::path& directory) {
  std::error_code none;
  std::filesystem::path there = std::filesystem::absolute(directory, none);
  EMPLACE_TRY(check_owner(there, true));
  EMPLACE_TRY(check_owner(there / "log", false));
  while (!std::filesystem::exists(there, none) && there.has_relative_path()) there = there.parent_path();
  if (!on_network(there)) return Unit{};
  return io_error(directory,
                  "is on a network file system, where a database is not safe; use a local --run-dir");
}

bool is_being_written(const std::filesystem::path& directory) {
  std::error_code none;
  return std::filesystem::is_directory(directory, none) && FolderLock{directory, false}.held_elsewhere();
}

Result<Unit> make_private_folder(const std::filesystem::path& directory) {
  const auto refused = [&](const std::string& why) {
    return Error{Errc::kIo, printable_path(directory) + ": the run directory cannot be created (" + why +
                                "); choose another with --run-dir"};
  };
  std::error_code failure;
  std::filesystem::path folder = directory;
  // Strips the trailing slash: "runs/a/" means "runs/a".
  if (!folder.has_filename()) folder = folder.parent_path();
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), failure);
  if (failure) return refused(failure.message());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return refused(std::generic_category().message(errno));
  if (!std::filesystem::is_directory(folder, failure)) return refused("it is not a folder");
  return Unit{};
}

}  // namespace emplace::record
