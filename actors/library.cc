#include "actors/library.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/text/words.h"
#include "runtime/log.h"

namespace emplace::actors {

using messages::FileDelivered;
using messages::FileFacts;
using messages::FileRequested;
using messages::kFileChunkBytes;
using messages::ManifestDelivered;
using messages::ManifestRequested;
using runtime::LogLevel;

namespace {

/// Whether `text` is a SHA-256 in hex; it is used as a file name.
bool is_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Library::Library(ManifestDelivered manifest, FileReader read)
    : manifest_{std::move(manifest)}, read_{std::move(read)} {}

void Library::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match(
      [&](const ManifestRequested& asked) {
        runtime::log(
            LogLevel::kInfo, context.name(),
            printable(asked.node, 80) + " (emplace " + printable(asked.version, 40) + ") requested the run");
        context.send(incoming.from(), manifest_);
      },
      [&](const FileRequested& asked) {
        messages::SharedBytes bulk;
        const FileDelivered delivered = chunk(asked, bulk);
        if (!delivered.error.empty()) runtime::log(LogLevel::kWarning, context.name(), delivered.error);
        context.send(incoming.from(), delivered, bulk);
      });
  if (!handled) runtime::log(LogLevel::kWarning, context.name(), handled.error().context);
}

FileDelivered Library::chunk(const FileRequested& asked, messages::SharedBytes& bulk) {
  FileDelivered answer{asked.sha256, asked.offset, {}, {}};
  const auto file = std::find_if(manifest_.files.begin(), manifest_.files.end(),
                                 [&](const FileFacts& one) { return one.sha256 == asked.sha256; });
  if (file == manifest_.files.end()) {
    answer.error = "no file of this run has the hash " + printable(asked.sha256, 64);
    return answer;
  }
  auto& [owner, content] = held_[asked.sha256];
  if (const auto held = owner.lock()) {
    latest_ = messages::SharedBytes{held, content};
  } else {
    latest_ = {};
    auto bytes = read_(*file);
    if (!bytes) {
      answer.error = bytes.error().context;
      return answer;
    }
    latest_ = messages::SharedBytes::adopt(*std::move(bytes));
    owner = latest_.owner();
    content = latest_.bytes();
  }
  const runtime::Chunk chunk = runtime::chunk_at(asked.offset, latest_.size(), kFileChunkBytes);
  answer.offset = chunk.offset;
  answer.piece = {0, chunk.size};
  bulk = latest_.slice(chunk.offset, chunk.size);
  return answer;
}

Borrower::Borrower(BorrowerOptions options, FileStore* store, Done done)
    : options_{std::move(options)},
      store_{store},
      done_{std::move(done)},
      fetch_{{.chunk = kFileChunkBytes, .window = options_.ahead, .timeout = options_.retry}} {}

void Borrower::on_start(runtime::Context& context) {
  received_ = context.now();
  request(context);
  context.after(options_.retry / 4, [this, &context] { on_timer(context); });
}

/// Sends the next request: for the settings, or for chunks up to the end of the window.
void Borrower::request(runtime::Context& context) {
  if (!manifest_) {
    requested_ = context.now();
    context.send(kLibrary, ManifestRequested{options_.node, options_.version});
    return;
  }
  while (const auto offset = fetch_.request(context.now()))
    context.send(kLibrary, FileRequested{manifest_->files[file_].sha256, *offset});
}

void Borrower::on_timer(runtime::Context& context) {
  if (ended_) return;
  const Nanos silent = context.now() - received_;
  if (silent > options_.timeout)
    return end(context, Error{Errc::kPeerLost, "the head does not deliver its run: no answer for " +
                                                   std::to_string(silent / std::chrono::seconds{1}) + " s"});
  const bool late = manifest_ ? fetch_.timed_out(context.now())
                              : context.now() - std::max(requested_, received_) > options_.retry;
  if (late) request(context);
  context.after(options_.retry / 4, [this, &context] { on_timer(context); });
}

void Borrower::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  if (ended_) return;
  const auto handled = incoming.match(
      [&](const ManifestDelivered& manifest) {
        received_ = context.now();
        if (manifest_) return;  // Repeated answer.
        for (const FileFacts& file : manifest.files)
          if (!is_hash(file.sha256))
            return end(context,
                       invalid("the head's manifest", "'" + printable(file.sha256, 80) + "' is not a hash"));
        manifest_ = manifest;
        next_file(context);
      },
      [&](const FileDelivered& delivered) { take(context, delivered, incoming); });
  if (!handled) runtime::log(LogLevel::kWarning, context.name(), handled.error().context);
}

/// Continues with the next file that is not in the store.
void Borrower::next_file(runtime::Context& context) {
  while (file_ < manifest_->files.size() && store_->has(manifest_->files[file_])) ++file_;
  if (file_ == manifest_->files.size()) return end(context, *std::move(manifest_));
  const FileFacts& file = manifest_->files[file_];
  const std::uint64_t have = std::min(store_->received(file), file.bytes);
  fetch_.start(context.now(), file_, have, file.bytes);
  have < file.bytes ? request(context) : finish_file(context);  // All bytes may be present already.
}

void Borrower::take(runtime::Context& context, const FileDelivered& delivered,
                    const runtime::Incoming& incoming) {
  if (!manifest_ || delivered.sha256 != manifest_->files[file_].sha256)
    return;  // Late chunk of an earlier file.
  received_ = context.now();
  const FileFacts& file = manifest_->files[file_];
  if (!delivered.error.empty()) return end(context, Error{Errc::kRunFailed, delivered.error});
  const auto bytes = incoming.section(delivered.piece);
  if (!bytes) return runtime::log(LogLevel::kWarning, context.name(), bytes.error().context);
  using Took = runtime::Assembly::Took;
  const Took took = fetch_.take(file_, {delivered.offset, bytes->size()}, file.bytes, context.now());
  if (took == Took::kRepeat || took == Took::kGap) return;
  if (fetch_.assembly().have() > file.bytes)
    return end(context, invalid(printable(file.path), "is longer than announced by the head"));
  if (auto kept = store_->append(file, *bytes); !kept) return end(context, kept.error());
  fetch_.assembly().whole() ? finish_file(context) : request(context);
}

/// Verifies a file whose bytes are all in the store.
void Borrower::finish_file(runtime::Context& context) {
  const FileFacts& file = manifest_->files[file_];
  if (auto finished = store_->finish(file); !finished) {
    // Fetch it once more from the start: the bytes of an interrupted transfer may be damaged.
    if (damaged_ || finished.error().code != Errc::kInvalid) return end(context, finished.error());
    damaged_ = true;
  } else {
    damaged_ = false;
    ++file_;
  }
  next_file(context);
}

void Borrower::end(runtime::Context& context, Result<ManifestDelivered> outcome) {
  if (std::exchange(ended_, true)) return;
  done_(std::move(outcome));
  context.stop_node("");
}

}  // namespace emplace::actors
