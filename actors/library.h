#pragma once
/// Transfer of a run's files to machines that have none of them: the library serves files by hash, the
/// borrower fetches them.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/file.h"
#include "messages/library.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/fetch.h"

namespace emplace::actors {

inline constexpr const char* kLibrary = "library/0";

/// Reads a file of the manifest. Errors: kIo; kInvalid if it has changed.
using FileReader = std::function<Result<Bytes>(const messages::FileFacts& file)>;

/// Serves the settings and files of a run. Receives ManifestRequested, FileRequested; answers with
/// ManifestDelivered, FileDelivered. Thread: constructed anywhere; every handler runs on the owning loop, one
/// of its own (it reads files).
class Library final : public runtime::Actor {
 public:
  Library(messages::ManifestDelivered manifest, FileReader read);
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  messages::FileDelivered chunk(const messages::FileRequested& asked, messages::SharedBytes& bulk);

  const messages::ManifestDelivered manifest_;
  const FileReader read_;

  // Owner loop only.
  /// Contents of the file that was asked for last, and by hash of those that answers in queues still hold: no
  /// file is in memory twice.
  messages::SharedBytes latest_;
  std::map<std::string, std::pair<std::weak_ptr<const void>, std::span<const std::byte>>> held_;
};

/// Content-addressed store of files, shared by runs. Thread: one.
class FileStore {
 public:
  virtual ~FileStore() = default;
  /// Whether the complete file is present, with this hash.
  virtual bool has(const messages::FileFacts& file) = 0;
  /// Bytes kept from an interrupted transfer.
  virtual std::uint64_t received(const messages::FileFacts& file) = 0;
  virtual Result<Unit> append(const messages::FileFacts& file, std::span<const std::byte> bytes) = 0;
  /// Completes a transfer. Errors: kInvalid, the hash does not match; the file is then removed and starts
  /// again.
  virtual Result<Unit> finish(const messages::FileFacts& file) = 0;
};

struct BorrowerOptions {
  std::string node;                          ///< Name in the head's log.
  std::string version;                       ///< Version of this program.
  Nanos retry = std::chrono::seconds{2};     ///< Timeout after which a request is repeated.
  Nanos timeout = std::chrono::seconds{20};  ///< Fails after this time without an answer.
  std::uint64_t ahead = 8;                   ///< Chunks in flight, so that a slow line stays full.
};

/// Fetches the settings of a run and the files that are not in the store, then stops its node. Resumes
/// interrupted transfers. Receives ManifestDelivered, FileDelivered; sends ManifestRequested, FileRequested.
/// Thread: the owning loop.
class Borrower final : public runtime::Actor {
 public:
  /// Called once, before the node is asked to stop, with the settings of the run or an error.
  using Done = std::function<void(Result<messages::ManifestDelivered>)>;
  Borrower(BorrowerOptions options, FileStore* store, Done done);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  void on_timer(runtime::Context& context);
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
  std::size_t file_ = 0;  ///< Index of the current file in the manifest.
  runtime::Fetch fetch_;  ///< Transfer of that file; the content number is the index.
  bool damaged_ = false;  ///< Its last transfer ended with a wrong hash.
  Nanos received_{0};     ///< Time of the library's last answer.
  Nanos requested_{0};    ///< Time of the last manifest request.
  bool ended_ = false;
};

}  // namespace emplace::actors
