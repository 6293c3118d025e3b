#pragma once
/// A zip archive whose members are written all at once, a little of each at a time (ZIP64 where they need
/// it).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace emplace::record {

/// A member: packed as it comes, into memory and, beyond a megabyte, into a file without a name.
/// Thread: one.
class ZipMember {
 public:
  /// `folder`: where that file may lie.
  ZipMember(std::string name, std::filesystem::path folder);
  ~ZipMember();
  ZipMember(const ZipMember&) = delete;
  ZipMember& operator=(const ZipMember&) = delete;

  void write(std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }  ///< Written so far, before packing [B].
  Result<Unit> so_far() const { return error_ ? Result<Unit>{*error_} : Unit{}; }

 private:
  friend class ZipFile;
  struct Deflater;
  void deflate(bool last);
  void spill();

  const std::string name_;
  const std::filesystem::path folder_;
  const std::unique_ptr<Deflater> deflater_;
  std::uint64_t size_ = 0, packed_size_ = 0;
  unsigned long crc_ = 0;
  Bytes packed_;  // What the file does not hold yet.
  int fd_ = -1;
  std::optional<Error> error_;
};

/// Thread: one.
class ZipFile {
 public:
  explicit ZipFile(std::filesystem::path path) : file_{std::move(path)} {}

  /// `head` (of less than 64 KiB) comes before what the member holds; no more is written to it.
  void add(ZipMember& member, std::string_view head);
  /// The archive appears. Errors: kIo, of a member or of the archive.
  Result<Unit> commit();

 private:
  struct Entry {
    std::string name;
    std::uint64_t size, packed_size, offset;
    std::uint32_t crc;
  };
  NewFile file_;
  std::vector<Entry> entries_;
  std::optional<Error> error_;
};

}  // namespace emplace::record
