#pragma once
/// What a remote node receives before it can take part: the run's settings, and the run's files by hash, in
/// chunks.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// A file of the run.
struct FileFacts {
  std::string path;    ///< Path relative to the folder of config.toml.
  std::string sha256;  ///< SHA-256 of the bytes, 64 hex digits.
  std::uint64_t bytes = 0;
  EMPLACE_FIELDS(path, sha256, bytes)
};

/// node -> library: requests the manifest of the run.
struct ManifestRequested {
  static constexpr std::uint16_t kType = number(Type::kManifestRequested);
  std::string node;
  std::string version;  ///< Version of the node's program.
  EMPLACE_FIELDS(node, version)
};

/// library -> node: settings and files of the run.
struct ManifestDelivered {
  static constexpr std::uint16_t kType = number(Type::kManifestDelivered);
  std::string version;  ///< Version of the head's program.
  std::string start;    ///< "scratch", "best-heuristic".
  std::string config;   ///< config.toml; its paths are those in `files`.
  std::string cluster;  ///< cluster.toml; empty: the run has none.
  std::vector<FileFacts> files;
  bool more_starts = false;  ///< True: another start follows at the same address when this one ends.
  std::string run;           ///< Identity of the run, which the node states when it joins.
  EMPLACE_FIELDS(version, start, config, cluster, files, more_starts, run)
};

/// node -> library: requests a chunk of a file.
struct FileRequested {
  static constexpr std::uint16_t kType = number(Type::kFileRequested);
  std::string sha256;
  std::uint64_t offset = 0;  ///< [bytes]
  EMPLACE_FIELDS(sha256, offset)
};

/// library -> node. At most kFileChunkBytes from `offset` on.
struct FileDelivered {
  static constexpr std::uint16_t kType = number(Type::kFileDelivered);
  std::string sha256;
  std::uint64_t offset = 0;  ///< [bytes]
  Section piece;             ///< A chunk of the content.
  std::string error;  ///< Why the file is not available; empty: no error. There is no chunk with an error.
  EMPLACE_FIELDS(sha256, offset, piece, error)
};

inline constexpr std::size_t kFileChunkBytes = std::size_t{1} << 20;

}  // namespace emplace::messages
