#include "actors/sampler.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "messages/placement_proposed.h"
#include "runtime/log.h"

namespace emplace::actors {

Sampler::Sampler(TaskPtr task, SamplerOptions options, PlacerFactory factory, ExecutorFactory local)
    : task_{std::move(task)},
      options_{options},
      factory_{std::move(factory)},
      measures_{local != nullptr},
      measurer_{task_, "sim", std::move(local)} {}

void Sampler::on_start(runtime::Context& context) {
  placer_ = factory_();
  next_episode_ = options_.controller;
  while (next_episode_ < options_.first_episode) next_episode_ += options_.controllers;
  has_parameters_ = !options_.learned;
  if (options_.learned) fetch(context, 0);
  propose_next(context);
}

void Sampler::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto ended = [&](std::uint64_t episode) {
    outstanding_.erase(episode);
    propose_next(context);
    say_if_drained(context);
  };
  const auto handled = incoming.match(
      [&](const messages::ParametersPublished& published) {
        announced_ = published.version;
        if (options_.batch == 0 && !fetching_ && (!has_parameters_ || announced_ > version_))
          fetch(context, 0);
      },
      [&](const messages::ParametersDelivered& delivered) { on_delivered(context, delivered, incoming); },
      [&](const messages::MeasurementCommitted& committed) {
        if (!options_.learned) ended(committed.measured.episode);
      },
      [&](const messages::UpdateApplied& applied) {
        for (const std::uint64_t episode : applied.episodes) ended(episode);
      },
      [&](const messages::StopRun&) {
        stopped_ = true;
        say_if_drained(context);
      });
  if (!handled) runtime::log(runtime::LogLevel::kWarning, context.name(), handled.error().context);
}

void Sampler::say_if_drained(runtime::Context& context) {
  if (!stopped_ || !outstanding_.empty()) return;
  messages::RunProgress drained;
  drained.from = context.name();
  context.send(kDispatcher, drained);
}

void Sampler::fetch(runtime::Context& context, std::uint64_t version) {
  fetching_ = true;
  incoming_.clear();
  context.send(kLearner, messages::ParametersRequested{version, 0});
}

void Sampler::on_delivered(runtime::Context& context, const messages::ParametersDelivered& delivered,
                           const runtime::Incoming& incoming) {
  const auto chunk = incoming.section(delivered.floats);
  if (!fetching_ || !chunk) return;
  if (delivered.offset == 0) incoming_.clear(), incoming_version_ = delivered.version;
  if (delivered.version != incoming_version_ || delivered.offset != incoming_.size())
    return fetch(context, 0);
  incoming_.insert(incoming_.end(), chunk->begin(), chunk->end());
  if (incoming_.size() < delivered.total) {
    context.send(kLearner, messages::ParametersRequested{incoming_version_, incoming_.size()});
    return;
  }
  fetching_ = false;
  if (auto loaded = placer_->parameters().load(incoming_); !loaded)
    return context.stop_node("the learner's policy differs: " + loaded.error().context);
  version_ = incoming_version_;
  has_parameters_ = true;
  if (options_.batch == 0 && announced_ > version_) fetch(context, 0);
  propose_next(context);
}

std::uint64_t Sampler::wanted_version() const {
  const std::uint64_t full = next_episode_ / options_.batch;
  return full > options_.lag ? full - options_.lag : 0;
}

/// Not at once: newer parameters that wait in the mailbox are taken first.
void Sampler::propose_next(runtime::Context& context) {
  if (scheduled_ || stopped_ || !has_parameters_ || outstanding_.size() >= options_.max_outstanding) return;
  if (options_.episodes > 0 && next_episode_ >= options_.episodes) return;
  if (options_.learned && options_.batch > 0 && version_ != wanted_version()) {
    if (!fetching_) fetch(context, wanted_version());
    return;
  }
  scheduled_ = true;
  context.after(Nanos{0}, [this, &context] {
    scheduled_ = false;
    if (!stopped_) propose(context);
    propose_next(context);
  });
}

/// What executors would have answered, without the way there and back.
bool Sampler::measure_and_report(runtime::Context& context, const messages::PlacementProposed& proposal,
                                 messages::SharedBytes bulk) {
  const Nanos began = context.now();
  const auto placements = messages::section_of(bulk.bytes(), proposal.placements);
  messages::PlacementMeasured measured = measurer_.measure(proposal, *placements);
  if (!measured.error.empty()) {
    context.stop_node(std::string{context.name()} + " cannot measure: " + measured.error);
    return true;
  }
  measured.executor = context.name();
  measured.attempt = 1;
  measured.wall_s = std::chrono::duration<double>(context.now() - began).count();
  messages::MeasurementReported reported{messages::EpisodeMeasured::begun(proposal), proposal.placements,
                                         proposal.actions};
  reported.measured.merge(measured);
  return context.send(kDispatcher, reported, std::move(bulk));
}

Sampler::Draw Sampler::draw(std::uint64_t episode) const {
  // Far from every episode's number, and the same graph's turn.
  const std::uint64_t stride = (std::uint64_t{1} << 40) / task_->graphs.size() * task_->graphs.size();
  Draw best;
  for (std::uint32_t attempt = 0; attempt <= options_.redraws; ++attempt) {
    Draw now;
    now.actions = placer_->sample(episode + attempt * stride, version_);
    auto placements = placer_->expand(now.actions);
    EMPLACE_CHECK(placements.ok(), "a policy understands its own actions");
    now.placements = *std::move(placements);
    if (options_.redraws == 0) return now;
    const std::uint64_t graph = placer_->graph_of(now.actions);
    std::unordered_set<std::uint64_t> here;
    for (const Placement& placement : now.placements) {
      now.keys.push_back(hash64(std::as_bytes(std::span{placement}), graph));
      if (!proposed_.contains(now.keys.back()) && here.insert(now.keys.back()).second) ++now.fresh;
    }
    const bool all = now.fresh == now.placements.size();
    if (attempt == 0 || now.fresh > best.fresh) best = std::move(now);
    if (all) break;
  }
  return best;
}

void Sampler::propose(runtime::Context& context) {
  const std::uint64_t episode = next_episode_;
  Draw drawn = draw(episode);
  const policy::Actions& actions = drawn.actions;
  const TaskGraph& task = task_->graphs.at(placer_->graph_of(actions));
  if (options_.self_critic) drawn.placements.push_back(placer_->greedy());
  messages::PlacementProposed proposal;
  proposal.graph_sha256 = task.sha256;
  proposal.controller = options_.controller;
  proposal.episode = episode;
  proposal.count = static_cast<std::uint32_t>(drawn.placements.size());
  proposal.placement_id = episode * (placer_->placements_per_episode() + (options_.self_critic ? 1 : 0));
  proposal.policy_version = version_;
  proposal.num_ops = static_cast<std::uint32_t>(task.graph.num_ops());
  proposal.num_devices = static_cast<std::uint32_t>(task.devices.size());
  messages::BulkBuilder bulk;
  bulk.reserve(task.graph.num_ops() * drawn.placements.size() + actions.bytes.size());
  for (const Placement& placement : drawn.placements)
    proposal.placements.size += bulk.add(std::as_bytes(std::span{placement})).size;
  proposal.actions = bulk.add(actions.bytes);
  messages::SharedBytes sent = bulk.finish();
  if (!(measures_ ? measure_and_report(context, proposal, std::move(sent))
                  : context.send(kDispatcher, proposal, std::move(sent)))) {
    // Refused: the same episode again when there is room; drawn again it is the same.
    scheduled_ = true;
    context.after(std::chrono::milliseconds{10},
                  [this, &context] { scheduled_ = false, propose_next(context); });
    return;
  }
  proposed_.insert(drawn.keys.begin(), drawn.keys.end());
  outstanding_.insert(episode);
  next_episode_ += options_.controllers;
}

}  // namespace emplace::actors
