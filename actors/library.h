#pragma once
/// How a run reaches a machine that has none of its files: the library gives them out by hash, the borrower
/// takes them in.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/file.h"
#include "messages/library.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/fetch.h"

namespace emplace::actors {

inline constexpr const char* kLibrary = "library/0";

/// The bytes of a file of the manifest, by its hash. Errors: kIo, kInvalid if it changed since.
using FileReader = std::function<Result<Bytes>(const messages::FileFacts& file)>;

/// Gives out a run's settings and files. Receives ManifestRequested, FileRequested; answers with
/// ManifestDelivered, FileDelivered. Thread: constructed anywhere; every handler runs on the owning loop, one
/// of its own (it reads files).
class Library final : public runtime::Actor {
 public:
  Library(messages::ManifestDelivered manifest, FileReader read);
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  messages::FileDelivered piece(const messages::FileRequested& asked, messages::SharedBytes& bulk);

  const messages::ManifestDelivered manifest_;
  const FileReader read_;

  // Owner loop only.
  std::string held_;             ///< Hash of the file that was read last,
  messages::SharedBytes bytes_;  ///< and what is in it.
};

/// Where files are kept by their hash, across runs. Thread: one.
class FileStore {
 public:
  virtual ~FileStore() = default;
  /// Whole, and with this hash.
  virtual bool has(const messages::FileFacts& file) = 0;
  /// How much of it an earlier try brought. [bytes]
  virtual std::uint64_t begun(const messages::FileFacts& file) = 0;
  virtual Result<Unit> append(const messages::FileFacts& file, std::span<const std::byte> bytes) = 0;
  /// All of it is here. Errors: kInvalid: another hash; it is gone then, and begins anew.
  virtual Result<Unit> finish(const messages::FileFacts& file) = 0;
};

struct BorrowerOptions {
  std::string node;                           ///< For the head's log.
  std::string version;                        ///< Of this program.
  Nanos again = std::chrono::seconds{2};      ///< What was not answered is asked for once more.
  Nanos patience = std::chrono::seconds{20};  ///< Without an answer for so long, it fails.
  std::uint64_t ahead = 8;                    ///< Pieces on their way, so that a long line stays full.
};

/// Fetches a run from its library: settings, and those files that are not in the store; then ends its node.
/// What a cut left is gone on with. Receives ManifestDelivered, FileDelivered; sends ManifestRequested,
/// FileRequested. Thread: the owning loop.
class Borrower final : public runtime::Actor {
 public:
  /// Called once, before the node is asked to stop: the run, or why it cannot be had.
  using Done = std::function<void(Result<messages::ManifestDelivered>)>;
  Borrower(BorrowerOptions options, FileStore* store, Done done);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  void look(runtime::Context& context);
  void request(runtime::Context& context);
  void next_file(runtime::Context& context);
  void finish_file(runtime::Context& context);
  void take(runtime::Context& context, const messages::FileDelivered& delivered,
            const runtime::Incoming& incoming);
  void end(runtime::Context& context, Result<messages::ManifestDelivered> outcome);

  const BorrowerOptions options_;
  FileStore* const store_;  // Outlives the node.
  const Done done_;

  // Owner loop only.
  std::optional<messages::ManifestDelivered> manifest_;
  std::size_t file_ = 0;  ///< Index in the manifest of the file that is being fetched.
  runtime::Fetch fetch_;  ///< Transfer of that file; its content is the index.
  bool damaged_ = false;  ///< It arrived with another hash once.
  Nanos heard_{0};        ///< When the library answered last.
  Nanos requested_{0};    ///< When the manifest was requested last.
  bool ended_ = false;
};

}  // namespace emplace::actors
