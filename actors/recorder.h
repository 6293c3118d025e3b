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
#include "record/learning_summary.h"
#include "record/run_writer.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/fetch.h"
#include "runtime/core/follower.h"

namespace emplace::actors {

struct RecorderOptions {
  Nanos commit_every = std::chrono::milliseconds{5};  ///< Commits this long after the first uncommitted row.
  std::size_t commit_rows = 256;                      ///< Commits at once with this many uncommitted rows.
  bool learned = true;                                ///< False: the run has no tracker and no learner.
  std::string saturation_cure;                        ///< What to change if the policy saturates.
  /// Checkpoint bytes per message. Small, because the learner repeats its request after a second: on a slow
  /// line a large message would be sent many times.
  std::uint64_t checkpoint_chunk = messages::kParametersChunkBytes;
  /// Retention of checkpoints (record/checkpoints.h). Those that a restarted learner may request are
  /// always kept.
  std::uint64_t keep_every = 0;
  std::uint64_t keep_recent = 64;         ///< Number of recent updates [updates].
  Nanos retry = std::chrono::seconds{1};  ///< Interval between attempts while the disk refuses writes.
  /// Time without a successful write after which the run ends.
  Nanos give_up_after = std::chrono::minutes{10};
  /// Interval of checks of the record's files, and rows verified each time (RunWriter::watch).
  Nanos watch_every = std::chrono::milliseconds{500};
  std::size_t watched_rows = 128;
};

/// Called for a valid placement that beats all before it, once it is on disk.
using BestHandler = std::function<void(std::span<const DeviceId> placement,
                                       const messages::EpisodeMeasured& measured, std::uint32_t number)>;
/// Opens the run database on the recorder's own loop.
using RunWriterFactory = std::function<Result<std::unique_ptr<record::RunWriter>>()>;

/// Writes everything that happened, in order, to the run database, and acknowledges it once it is durable.
/// The only writer; serves the log that tracker and learner follow and that restarted actors read again.
/// Repeated messages are recorded once and acknowledged again. While the disk refuses writes or the record
/// was moved, nothing is acknowledged, so that senders wait and retry. A damaged record ends the run. A
/// deleted run.db is written again, at the latest when the actor stops. A policy that saturates is a warning,
/// whichever learner it has. Receives EpisodeReported,
/// UpdateApplied, CheckpointTaken, LogRequested, CheckpointRequested, UpdateRequested, EpisodesAsked,
/// CountRequested; sends EpisodeCommitted (to followers and the proposing sampler), EpisodesRecorded,
/// UpdatesRecorded, CheckpointDelivered, UpdateReplayed, EpisodesKnown, EpisodesCounted, RecordProgress. Its
/// state is that of the database, read at each start. Thread: constructed anywhere; every handler runs on the
/// owning loop, one of its own.
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
    bool scheduled = false;  ///< A read for it is scheduled at the end of this turn.
  };
  /// Checkpoint in delivery, read and unpacked once for all its chunks.
  struct Delivery {
    messages::CheckpointDelivered about;
    messages::SharedBytes bytes;  ///< Parameters, followed by the optimizer.
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
  /// Returns true on success; else the disk refused and the transaction is void.
  bool wrote(runtime::Context& context, const Result<Unit>& done);
  void on_reported(runtime::Context& context, const messages::EpisodeReported& reported,
                   const runtime::Incoming& incoming);
  void on_update(runtime::Context& context, const messages::UpdateApplied& update);
  void note_saturation();
  void on_checkpoint(runtime::Context& context, const messages::CheckpointTaken& taken,
                     const runtime::Incoming& incoming);
  bool is_current_learner(std::uint64_t epoch);
  bool keep_checkpoints(runtime::Context& context);
  void on_checkpoint_requested(runtime::Context& context, const messages::CheckpointRequested& request,
                               runtime::ActorId from);
  void on_update_requested(runtime::Context& context, const messages::UpdateRequested& request,
                           runtime::ActorId from);
  void on_count_requested(runtime::Context& context, runtime::ActorId from);
  void on_episodes_asked(runtime::Context& context, const messages::EpisodesAsked& asked,
                         runtime::ActorId from);
  void on_log_requested(runtime::Context& context, const messages::LogRequested& request,
                        runtime::ActorId from);
  void feed(runtime::Context& context, runtime::ActorId id);
  void row_added(runtime::Context& context);
  bool commit(runtime::Context& context);
  void publish(runtime::Context& context, const Uncommitted& one);
  void acknowledge(runtime::Context& context);

  const RecorderOptions options_;
  const RunWriterFactory factory_;
  const BestHandler on_best_;

  // Owner loop only.
  std::unique_ptr<record::RunWriter> db_;       ///< Null while the disk refuses writes.
  std::unique_ptr<record::RunWriter> deleted_;  ///< Deleted database, still open and not yet written again.
  std::optional<std::string> run_id_;           ///< Set by the first open().
  std::uint64_t chain_ = 0;                     ///< Hash chain after the last row on disk.
  std::uint64_t next_seq_ = 1;                  ///< Sequence number of the next row.
  std::uint64_t committed_ = 0;                 ///< Rows on disk.
  std::uint64_t updates_ = 0;
  double staleness_ = 0;                              ///< Mean staleness of the last update.
  record::SaturationWatch saturation_;                ///< Watches all updates of the record.
  std::string warning_;                               ///< RecordProgress::warning.
  std::set<std::string> noted_;                       ///< Executors listed in the table of actors.
  std::uint64_t learner_epoch_ = 0;                   ///< Epoch of the learner; earlier ones are fenced.
  std::map<std::uint64_t, std::uint64_t> unlearned_;  ///< Log number by episode.
  std::map<std::string, double> best_step_time_s_;    ///< Best step time by graph.
  std::uint64_t best_version_ = 0;                    ///< Policy version that drew the latest of these.
  std::vector<Uncommitted> uncommitted_;
  std::vector<std::uint64_t> acknowledged_;  ///< Episodes to acknowledge at the next commit.
  bool updates_came_ = false;                ///< Updates or checkpoints arrived since the last commit.
  runtime::Assembly chunks_;                 ///< Checkpoint being received; the content number is its update.
  record::CheckpointRow partial_;            ///< Received bytes of that checkpoint.
  std::optional<Delivery> delivery_;         ///< Set while the learner fetches a checkpoint.
  std::map<runtime::ActorId, Reader> readers_;
  bool commit_due_ = false;
  bool stopping_ = false;   ///< Timers no longer run, so every row is committed at once.
  Nanos refused_since_{0};  ///< Time of the first refusal; 0: the disk accepts writes.
};

}  // namespace emplace::actors
