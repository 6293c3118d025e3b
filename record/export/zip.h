#pragma once
/// A zip archive whose members are written concurrently, in small pieces. Uses ZIP64 where needed.

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

/// A member. Data is compressed as it arrives, into memory and beyond one megabyte into an anonymous
/// temporary file. Thread: one.
class ZipMember {
 public:
  /// `folder`: location of the temporary file.
  ZipMember(std::string name, std::filesystem::path folder);
  ~ZipMember();
  ZipMember(const ZipMember&) = delete;
  ZipMember& operator=(const ZipMember&) = delete;

  void write(std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }  ///< Bytes written so far, before compression.
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
  Bytes packed_;  // Compressed bytes that are not in the file yet.
  int fd_ = -1;
  std::optional<Error> error_;
};

/// Thread: one.
class ZipFile {
 public:
  explicit ZipFile(const std::filesystem::path& path) : file_{path} {}

  /// Finishes a member; no more data may be written to it. `head` (less than 64 KiB) precedes its content.
  void add(ZipMember& member, std::string_view head);
  /// Completes the archive and makes it visible at its path. Errors: kIo, of a member or of the archive.
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
