#include "tests/powercut/power_cut.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <utility>

#include "base/check.h"

namespace emplace::powercut {
namespace {

constexpr std::size_t kSector = 512;

/// A write or, without bytes, a truncation to `offset` bytes.
struct Change {
  std::uint64_t at = 0;
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes = {};
  bool cut = false;

  void apply(Bytes& content) const {
    if (cut) return content.resize(offset);
    content.resize(std::max<std::size_t>(content.size(), offset + bytes.size()));
    std::copy(bytes.begin(), bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  /// Splits the change into sectors, which a disk writes whole.
  std::vector<Change> sectors() const {
    if (cut) return {*this};
    std::vector<Change> pieces;
    for (std::size_t done = 0; done < bytes.size();) {
      const std::size_t room = kSector - (offset + done) % kSector;
      const std::size_t taken = std::min(room, bytes.size() - done);
      pieces.push_back({at, offset + done, bytes.subspan(done, taken)});
      done += taken;
    }
    return pieces;
  }
};

struct FileState {
  Bytes durable;
  std::vector<Change> pending;
};

/// The target of a name: a file or a folder.
struct Entry {
  bool folder = false;
  std::size_t file = 0;
};
using Entries = std::map<std::string, Entry>;

/// One change of a folder; a rename within it is one change of two names.
struct EntryChange {
  std::uint64_t at = 0;
  std::vector<std::pair<std::string, std::optional<Entry>>> names;

  void apply(Entries& entries) const {
    for (const auto& [name, entry] : names) {
      if (entry) {
        entries[name] = *entry;
      } else {
        entries.erase(name);
      }
    }
  }
};

struct FolderState {
  Entries now, durable;
  std::vector<EntryChange> pending;

  void change(EntryChange change) {
    change.apply(now);
    pending.push_back(std::move(change));
  }
};

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path{path}.parent_path().string();
  return parent.empty() ? "." : parent;
}
std::string name_of(const std::string& path) { return std::filesystem::path{path}.filename().string(); }

/// Applies all changes that were in the log before `covers`.
template <class Pending, class To>
void settle(std::vector<Pending>& pending, std::uint64_t covers, To& to) {
  const auto rest = std::find_if(pending.begin(), pending.end(),
                                 [&](const Pending& change) { return change.at >= covers; });
  for (auto change = pending.begin(); change != rest; ++change) change->apply(to);
  pending.erase(pending.begin(), rest);
}

/// The disk and the changes that are only in the kernel.
class Disk {
 public:
  explicit Disk(const Tree& begin) {
    folders_["."];
    for (const std::string& path : begin.folders) {
      folders_[path];
      set_durable(path, {.folder = true});
    }
    for (const auto& [path, file] : begin.files) {
      set_durable(path, {.file = add_file(file.inode)});
      files_.back().durable = file.content;
    }
  }

  void apply(const Log::Operation& op) {
    switch (op.what) {
      case What::kCreated:
        return folder(op.path).change({op.at, {{name_of(op.path), Entry{.file = add_file(op.inode)}}}});
      case What::kMadeFolder:
        folders_[op.path] = {};
        return folder(op.path).change({op.at, {{name_of(op.path), Entry{.folder = true}}}});
      case What::kWrote:
        return file(op.inode).pending.push_back({op.at, op.offset, op.data});
      case What::kCut:
        return file(op.inode).pending.push_back({op.at, op.offset, {}, true});
      case What::kSynced:
        return settle(file(op.inode).pending, op.covers, file(op.inode).durable);
      case What::kSyncedFolder: {
        FolderState& synced = folders_.at(op.path);
        return settle(synced.pending, op.covers, synced.durable);
      }
      case What::kRenamed:
        return rename(op);
      case What::kRemoved:
        return folder(op.path).change({op.at, {{name_of(op.path), std::nullopt}}});
      case What::kPrinted:
        return;
    }
    EMPLACE_CHECK(false, "the log has an unknown operation");
  }

  /// The tree on the disk. `choose_entries`, `choose_content`: which pending changes it contains.
  template <class ChooseEntries, class ChooseContent>
  Tree tree(const ChooseEntries& choose_entries, const ChooseContent& choose_content) {
    Tree tree;
    const std::function<void(const std::string&)> visit = [&](const std::string& path) {
      const FolderState& state = folders_.at(path);
      Entries entries = state.durable;
      for (const EntryChange& change : choose_entries(state.pending)) change.apply(entries);
      for (const auto& [name, entry] : entries) {
        const std::string below = path == "." ? name : path + "/" + name;
        if (entry.folder) {
          tree.folders.insert(below);
          visit(below);
        } else {
          tree.files[below].content = choose_content(below, files_[entry.file]);
        }
      }
    };
    visit(".");
    return tree;
  }

 private:
  FolderState& folder(const std::string& path) { return folders_.at(parent_of(path)); }
  FileState& file(ino_t inode) { return files_[by_inode_.at(inode)]; }
  /// The number of an inode may be used again after its file is removed: it belongs to the newest file.
  std::size_t add_file(ino_t inode) {
    by_inode_[inode] = files_.size();
    files_.emplace_back();
    return files_.size() - 1;
  }
  void set_durable(const std::string& path, Entry entry) {
    folder(path).now[name_of(path)] = folder(path).durable[name_of(path)] = entry;
  }
  void rename(const Log::Operation& op) {
    EMPLACE_CHECK(parent_of(op.path) == parent_of(op.second_path), "a rename from one folder to another");
    FolderState& in = folder(op.path);
    const Entry moved = in.now.at(name_of(op.path));
    EMPLACE_CHECK(!moved.folder, "a folder was renamed");
    in.change({op.at, {{name_of(op.path), std::nullopt}, {name_of(op.second_path), moved}}});
  }

  std::map<std::string, FolderState> folders_;
  std::vector<FileState> files_;
  std::map<ino_t, std::size_t> by_inode_;
};

Disk disk_after(const Tree& begin, const Log& log, std::size_t count) {
  Disk disk{begin};
  for (std::size_t i = 0; i < count; ++i) disk.apply(log.operations()[i]);
  return disk;
}

/// Draws none, the first few, all, or any of the changes.
template <class Change>
std::vector<Change> some_of(const std::vector<Change>& pending, Rng& rng) {
  const auto below = [&](std::size_t bound) { return rng.below(static_cast<std::uint32_t>(bound)); };
  switch (below(4)) {
    case 0:
      return {};
    case 1:
      return pending;
    case 2:
      return {pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(below(pending.size() + 1))};
    default:
      break;
  }
  const double kept = rng.uniform_double();
  std::vector<Change> some;
  for (const Change& change : pending)
    if (rng.uniform_double() < kept) some.push_back(change);
  return some;
}

Bytes arbitrary(std::size_t bytes, Rng& rng) {
  Bytes content(bytes);
  for (std::byte& byte : content) byte = static_cast<std::byte>(rng.below(256));
  return content;
}

Bytes content_after_cut(const std::string& path, const FileState& file, Rng& rng) {
  if (path.ends_with("-shm")) return arbitrary(rng.below(2) * 32'768, rng);
  std::vector<Change> pending = file.pending;
  if (rng.below(2) == 0) {
    pending.clear();
    for (const Change& change : file.pending)
      for (const Change& piece : change.sectors()) pending.push_back(piece);
  }
  Bytes content = file.durable;
  for (const Change& change : some_of(pending, rng)) change.apply(content);
  return content;
}

}  // namespace

Tree Tree::read(const std::filesystem::path& folder) {
  Tree tree;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{folder}) {
    const std::string path = std::filesystem::relative(entry.path(), folder).string();
    if (entry.is_directory()) tree.folders.insert(path);
    if (!entry.is_regular_file()) continue;
    struct stat info {};
    EMPLACE_CHECK(::stat(entry.path().c_str(), &info) == 0, "a file that was just there");
    tree.files[path] = {info.st_ino, read_file(entry.path()).value()};
  }
  return tree;
}

void Tree::write(const std::filesystem::path& folder) const {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const std::string& path : folders) std::filesystem::create_directories(folder / path);
  for (const auto& [path, file] : files) {
    std::ofstream out{folder / path, std::ios::binary};
    out.write(reinterpret_cast<const char*>(file.content.data()),
              static_cast<std::streamsize>(file.content.size()));
    EMPLACE_CHECK(out.flush().good(), "the folder of a test takes a file");
  }
}

Log::Log(const std::filesystem::path& file) : bytes_{read_file(file, std::size_t{4} << 30).value()} {
  for (std::size_t at = 0; at < bytes_.size();) {
    OperationHeader header{};
    EMPLACE_CHECK(bytes_.size() - at >= sizeof header, "the log ends within a record");
    std::memcpy(&header, bytes_.data() + at, sizeof header);
    const std::size_t paths = at + sizeof header, data = paths + header.path_bytes + header.second_path_bytes;
    EMPLACE_CHECK(bytes_.size() >= data + header.data_bytes, "the log ends within a record");
    const char* const text = reinterpret_cast<const char*>(bytes_.data()) + paths;
    operations_.push_back({header.what, header.inode, header.offset, header.covers, at,
                           std::string(text, header.path_bytes),
                           std::string(text + header.path_bytes, header.second_path_bytes),
                           std::span{bytes_}.subspan(data, header.data_bytes)});
    at = data + header.data_bytes;
  }
}

std::string Log::printed(std::size_t count) const {
  std::string all;
  for (std::size_t i = 0; i < count; ++i)
    if (operations_[i].what == What::kPrinted)
      all.append(reinterpret_cast<const char*>(operations_[i].data.data()), operations_[i].data.size());
  return all;
}

Tree uncut(const Tree& begin, const Log& log, std::size_t count) {
  const auto all = [](const auto& pending) { return pending; };
  return disk_after(begin, log, count).tree(all, [](const std::string&, const FileState& file) {
    Bytes content = file.durable;
    for (const Change& change : file.pending) change.apply(content);
    return content;
  });
}

Tree after_power_cut(const Tree& begin, const Log& log, std::size_t count, Rng& rng) {
  const auto some = [&](const auto& pending) { return some_of(pending, rng); };
  return disk_after(begin, log, count).tree(some, [&](const std::string& path, const FileState& file) {
    return content_after_cut(path, file, rng);
  });
}

}  // namespace emplace::powercut
