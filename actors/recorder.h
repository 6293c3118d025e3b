#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/task.h"
#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "messages/log.h"
#include "record/run_writer.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/fetch.h"
#include "runtime/core/follower.h"

namespace emplace::actors {

struct RecorderOptions {
  Nanos commit_every = std::chrono::milliseconds{5};  ///< After the first uncommitted row,
  std::size_t commit_rows = 256;                      ///< or as soon as there are so many.
  bool learned = true;                                ///< False: there is no tracker and no learner to tell.
  /// [bytes] Of one message. Small, for the learner asks again after a second: on a slow line a large one
  /// would be sent many times before it has come once.
  std::uint64_t checkpoint_piece = messages::kParametersChunkBytes;
  /// Checkpoints that are kept (record/checkpoint_keeping.h); what a learner made anew may ask for always is.
  std::uint64_t keep_every = 0;
  std::uint64_t keep_recent = 64;             ///< [updates]
  Nanos retry = std::chrono::seconds{1};      ///< Of a disk that refuses,
  Nanos patience = std::chrono::minutes{10};  ///< for so long; then the run ends.
  /// How often the record's files are looked after, and rows that are checked each time (RunWriter::watch).
  Nanos watch_every = std::chrono::milliseconds{500};
  std::size_t watched_rows = 128;
};

/// A valid placement that is better than all before it, once it is on disk.
using BestHandler = std::function<void(std::span<const DeviceId> placement,
                                       const messages::EpisodeMeasured& measured, std::uint32_t number)>;
/// Opens the run database on the recorder's own loop.
using RunWriterFactory = std::function<Result<std::unique_ptr<record::RunWriter>>()>;

/// Everything that happened, in order, to the run database: durable first, then told. The only writer, and
/// the log that tracker and learner follow: whoever was made anew, or missed something, asks for it again.
/// What comes twice is recorded once and acknowledged twice. While the disk refuses, or the record is not
/// where it was, nothing is acknowledged, so that everybody waits, and says it again later. Damage ends the
/// run. A run.db that was deleted is written again, at the stop at the latest. Receives EpisodeReported,
/// UpdateApplied, CheckpointTaken, LogRequested, CheckpointRequested, UpdateRequested, EpisodesAsked,
/// CountRequested; sends EpisodeCommitted
/// (to its followers and the proposing sampler), EpisodesRecorded, UpdatesRecorded, CheckpointDelivered,
/// UpdateReplayed, EpisodesKnown, EpisodesCounted, RecordProgress. Its state is that of the database, read at
/// each start. Thread: constructed anywhere; every handler runs on the owning loop, one of its own.
class Recorder final : public runtime::Actor {
 public:
  Recorder(RecorderOptions options, RunWriterFactory factory, BestHandler on_best);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;
  void on_stop(runtime::Context& context) override;

 private:
  struct Uncommitted {
    messages::EpisodeCommitted committed;
    messages::SharedBytes bulk;
    messages::Section placements;
  };
  struct Reader {
    runtime::LogCursor cursor;
    bool actions = false;
    bool scheduled = false;  ///< More is read for it at the end of this turn.
  };
  /// A checkpoint that is read and unpacked once, whatever the number of its pieces.
  struct Delivery {
    messages::CheckpointDelivered about;
    messages::SharedBytes bytes;  ///< Parameters, then optimizer.
  };
  Result<Unit> open();
  void reopen(runtime::Context& context);
  Result<Unit> check_identity(const record::RunReader& db, std::uint64_t episodes);
  void disk_failed(runtime::Context& context, const Error& error);
  Result<Unit> write_deleted(runtime::Context& context);
  void write_deleted_at_the_end(runtime::Context& context);
  Result<Unit> open_again(runtime::Context& context);
  void watch(runtime::Context& context);
  void report_progress(runtime::Context& context);
  /// True if it is done; else the disk refused, and nothing of this transaction counts.
  bool wrote(runtime::Context& context, const Result<Unit>& done);
  void on_reported(runtime::Context& context, const messages::EpisodeReported& reported,
                   const runtime::Incoming& incoming);
  void on_update(runtime::Context& context, const messages::UpdateApplied& update);
  void on_checkpoint(runtime::Context& context, const messages::CheckpointTaken& taken,
                     const runtime::Incoming& incoming);
  bool is_current_learner(std::uint64_t epoch);
  bool keep_checkpoints(runtime::Context& context);
  void on_checkpoint_requested(runtime::Context& context, const messages::CheckpointRequested& request,
                               runtime::ActorId from);
  void on_update_requested(runtime::Context& context, const messages::UpdateRequested& request,
                           runtime::ActorId from);
  void on_count_requested(runtime::Context& context, runtime::ActorId from);
  void on_asked(runtime::Context& context, const messages::EpisodesAsked& asked, runtime::ActorId from);
  void on_log_requested(runtime::Context& context, const messages::LogRequested& request,
                        runtime::ActorId from);
  void feed(runtime::Context& context, runtime::ActorId id);
  void row_added(runtime::Context& context);
  bool commit(runtime::Context& context);
  void tell(runtime::Context& context, const Uncommitted& one);
  void acknowledge(runtime::Context& context);

  const RecorderOptions options_;
  const RunWriterFactory factory_;
  const BestHandler on_best_;

  // Owner loop only.
  std::unique_ptr<record::RunWriter> db_;       ///< Null while the disk refuses.
  std::unique_ptr<record::RunWriter> deleted_;  ///< Open, without a name, and not yet written again.
  std::optional<std::string> run_id_;           ///< Once it was opened.
  std::uint64_t chain_ = 0;                     ///< After the last row on disk.
  std::uint64_t next_seq_ = 1;                  ///< Sequence number of the next row.
  std::uint64_t committed_ = 0;                 ///< Rows on disk.
  std::uint64_t updates_ = 0;
  double staleness_ = 0;                              ///< Of the last update.
  std::set<std::string> noted_;                       ///< Executors that the table of actors has.
  std::uint64_t learner_epoch_ = 0;                   ///< Older lives of the learner are fenced.
  std::map<std::uint64_t, std::uint64_t> unlearned_;  ///< Log number by episode.
  std::map<std::string, double> best_step_time_s_;    ///< By graph.
  std::uint64_t best_version_ = 0;                    ///< Of the policy that drew the last one of these.
  std::vector<Uncommitted> uncommitted_;
  std::vector<std::uint64_t> acknowledged_;  ///< Episodes to acknowledge at the next commit.
  bool updates_came_ = false;                ///< Since the last commit.
  runtime::Assembly pieces_;       ///< Checkpoint that is arriving; its content is the number of its update.
  record::CheckpointRow partial_;  ///< Bytes of that checkpoint so far.
  std::optional<Delivery> delivery_;  ///< While the learner fetches one.
  std::map<runtime::ActorId, Reader> readers_;
  bool commit_due_ = false;
  bool stopping_ = false;   ///< What still comes is committed at once: no timer may run any more.
  Nanos refused_since_{0};  ///< 0: the disk takes writes.
};

}  // namespace emplace::actors
