#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/task.h"
#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "record/run_db.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::actors {

struct RecorderOptions {
  Nanos commit_every = std::chrono::milliseconds{5};  ///< After the first uncommitted row,
  std::size_t commit_rows = 256;                      ///< or as soon as there are so many.
  std::uint64_t first_seq = 1;                        ///< To go on with.
  std::map<std::string, double> best_step_time_s;     ///< By graph, of the run so far.
  bool learned = true;                                ///< False: there is no tracker and no learner to tell.
};

/// A valid placement that is better than all before it, once it is on disk.
using BestHandler = std::function<void(std::span<const DeviceId> placement,
                                       const messages::EpisodeMeasured& measured, std::uint32_t number)>;
/// Opens the run database on the recorder's own loop.
using RunDbFactory = std::function<Result<std::unique_ptr<record::RunDb>>()>;

/// Everything that happened, in order, to the run database: durable first, then told. The only writer.
/// Receives MeasurementReported, UpdateApplied, CheckpointTaken; sends MeasurementCommitted (to tracker,
/// learner and the proposing sampler, after the commit), RunProgress. Thread: constructed anywhere; every
/// handler runs on the owning loop, one of its own. A disk that fails throws: the node restarts the actor,
/// and what was not acknowledged is reported again by nobody, so it never counted.
class Recorder final : public runtime::Actor {
 public:
  Recorder(RecorderOptions options, RunDbFactory factory, BestHandler on_best);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;
  void on_stop(runtime::Context& context) override;

 private:
  struct Uncommitted {
    messages::MeasurementCommitted committed;
    messages::SharedBytes bulk;
    messages::Section placements;
  };
  void on_reported(runtime::Context& context, const messages::MeasurementReported& reported,
                   const runtime::Incoming& incoming);
  void row_added(runtime::Context& context);
  void commit(runtime::Context& context);

  const RecorderOptions options_;
  const RunDbFactory factory_;
  const BestHandler on_best_;

  // Owner loop only.
  std::unique_ptr<record::RunDb> db_;
  std::uint64_t next_seq_ = 1;
  std::uint64_t updates_ = 0;
  std::map<std::string, double> best_step_time_s_;  ///< By graph.
  std::vector<Uncommitted> uncommitted_;
  bool commit_due_ = false;
  bool stopping_ = false;  ///< What still comes is committed at once: no timer may run any more.
};

}  // namespace emplace::actors
