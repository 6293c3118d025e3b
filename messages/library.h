#pragma once
/// What a node that comes from elsewhere is given before it can take part: the run's settings, and its files
/// by hash, in pieces.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// A file of the run.
struct FileFacts {
  std::string path;    ///< Relative to the folder in which config.toml lies.
  std::string sha256;  ///< Of its bytes, 64 hex digits.
  std::uint64_t bytes = 0;
  EMPLACE_FIELDS(path, sha256, bytes)
};

/// node -> library: what is this run?
struct ManifestRequested {
  static constexpr std::uint16_t kType = number(Type::kManifestRequested);
  std::string node;
  std::string version;  ///< Of its program.
  EMPLACE_FIELDS(node, version)
};

/// library -> node.
struct ManifestDelivered {
  static constexpr std::uint16_t kType = number(Type::kManifestDelivered);
  std::string version;  ///< Of the head's program.
  std::string start;    ///< "scratch", "best-baseline".
  std::string config;   ///< config.toml, its paths as `files` has them.
  std::string cluster;  ///< cluster.toml; empty: there is none.
  std::vector<FileFacts> files;
  bool more_starts = false;  ///< When this start ends, another begins at the same address.
  EMPLACE_FIELDS(version, start, config, cluster, files, more_starts)
};

/// node -> library.
struct FileRequested {
  static constexpr std::uint16_t kType = number(Type::kFileRequested);
  std::string sha256;
  std::uint64_t offset = 0;  ///< [bytes]
  EMPLACE_FIELDS(sha256, offset)
};

/// library -> node. At most kFilePieceBytes from there on.
struct FileDelivered {
  static constexpr std::uint16_t kType = number(Type::kFileDelivered);
  std::string sha256;
  std::uint64_t offset = 0;  ///< [bytes]
  Section piece;
  std::string error;  ///< Not empty: it cannot be had, and why; there is no piece.
  EMPLACE_FIELDS(sha256, offset, piece, error)
};

inline constexpr std::size_t kFilePieceBytes = std::size_t{1} << 20;

}  // namespace emplace::messages
