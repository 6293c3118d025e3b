#include "launcher/replay/learn_from_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "actors/log_rows.h"
#include "actors/scoring.h"
#include "base/text/words.h"
#include "executor/sim/simulator.h"
#include "launcher/inputs/inputs.h"
#include "launcher/replay/behaviour.h"
#include "launcher/settings/host_facts.h"
#include "launcher/settings/placers.h"
#include "launcher/terminal/build_info.h"
#include "launcher/terminal/json_text.h"
#include "policy/decisions.h"
#include "policy/placers/placeto.h"
#include "policy/training/trainer.h"
#include "record/learning_summary.h"
#include "record/run_writer.h"

namespace emplace::launcher {
namespace {

/// Rows of the log that are read at once; an episode of Placeto may have megabytes of placements.
constexpr std::size_t kEpisodesPerPage = 32;
/// Least mean importance weight. Below it the log has no effect.
constexpr double kLeastWeight = 1e-6;
/// Least share of the placements in the range that must be usable. Below it the log has other groups.
constexpr double kLeastShare = 0.01;

bool is_stepwise(const RunConfig& config) { return method_of(config).is_stepwise; }

/// Returns the method's tuned config, with the run's graphs and grouping.
Result<RunConfig> config_of(const RecordedRun& run, const LearnFromLogRequest& request) {
  auto config = method_defaults(request.method, "tuned");
  if (!config) return Error{config.error().code, "--learn: " + config.error().context};
  if (!learns(*config))
    return invalid("--learn " + request.method, "does not learn", "name a method that learns");
  PolicySection& p = config->policy;
  config->input = run.config.input;
  config->run.seed = run.config.run.seed;
  config->executor.dispatch = run.config.executor.dispatch;
  config->executor.allow = run.config.executor.allow;
  p.grouping = run.config.policy.grouping;
  p.groups = run.config.policy.groups;
  // Clip norms of surrogate objectives are for means over the choices; REINFORCE sums over them.
  if (p.loss.kind != policy::LossKind::kReinforce) p.training.adam.clip_norm = 1;
  p.loss.kind = policy::LossKind::kReinforce;
  p.loss.max_weight = 1;
  // High entropy keeps the policy near the log's placements; otherwise almost all weights vanish.
  if (!is_stepwise(*config)) p.loss.entropy = 1;
  if (is_stepwise(*config) && is_stepwise(run.config)) {
    p.placeto.rounds_per_episode = run.config.policy.placeto.rounds_per_episode;
    p.placeto.traversal = run.config.policy.placeto.traversal;
    p.placeto.measure_start = run.config.policy.placeto.measure_start;
    p.initial = run.config.policy.initial;
    config->reward.baseline.returns = run.config.reward.baseline.returns;
  } else if (is_stepwise(*config)) {
    p.initial = policy::InitialPlacement::kSingle;
    p.placeto.measure_start = false;  // The log has no start.
    config->reward.baseline.returns = policy::Returns::kFinal;
  }
  for (const std::string& setting : request.settings) EMPLACE_TRY(set_option(*config, setting));
  if (const std::string text = old_names_warning(*config); !text.empty() && request.warn) request.warn(text);
  if (p.method != request.method)
    return invalid("--set policy.method", "conflicts with --learn " + printable(request.method), "remove it");
  if (p.loss.kind != policy::LossKind::kReinforce)
    return invalid("policy.loss",
                   "= '" + std::string{word_of(p.loss.kind)} +
                       "' needs the full behaviour distribution, which the log does not store",
                   "use reinforce");
  if (!(p.loss.max_weight > 0))
    return invalid("policy.max_weight", "must be above 0",
                   "it truncates importance weights, which off-policy learning needs");
  if (config->reward.baseline.kind == policy::BaselineKind::kSelfCritic)
    return invalid("reward.baseline", "= 'self-critic' needs measurements of the new policy",
                   "use moving-average");
  // Use as many groups as the graph has: the device of an empty group is not in the log.
  if (method_of(*config).draws_grouping) p.groups = grouping_of(*config, run.task->graphs.front()).num_groups;
  EMPLACE_TRY(check_config(*config));
  return config;
}

/// Sums of the importance weights, for the report.
struct Weights {
  double sum = 0, squares = 0;
  std::uint64_t count = 0;
  void add(double weight) {
    sum += weight;
    squares += weight * weight;
    ++count;
  }
};

class Learning {
 public:
  Learning(RecordedRun& run, const LearnFromLogRequest& request, const Clock& clock,
           const LearnWatcher& watcher)
      : run_{run}, request_{request}, clock_{clock}, watcher_{watcher} {}

  Result<LearnReport> make() {
    const Nanos started = clock_.now();
    EMPLACE_TRY(begin());
    for (std::uint64_t pass = 1; pass <= request_.passes && !report_.stopped; ++pass)
      EMPLACE_TRY(learn_once(pass));
    if (report_.stopped) return std::move(report_);
    report_.updates = trainer_->updates();
    report_.parameters_sha256 = trainer_->parameters().sha256();
    report_.mean_weight = weights_.sum / static_cast<double>(weights_.count);
    if (report_.mean_weight < kLeastWeight) return improbable();
    report_.effective_share =
        weights_.squares > 0
            ? weights_.sum * weights_.sum / (static_cast<double>(weights_.count) * weights_.squares)
            : 0;
    warn_of_saturation();
    EMPLACE_TRY(measure_likeliest());
    report_.wall_s = std::chrono::duration<double>(clock_.now() - started).count();
    EMPLACE_TRY(keep());
    return std::move(report_);
  }

 private:
  /// A logged placement, its log q and its measurement.
  struct Drawn {
    Placement placement;
    double log_q = 0;
    record::MeasurementRow measured;
  };
  /// An episode of the new policy, waiting for an update.
  struct Taken {
    policy::ScoredEpisode scored;
    std::vector<double> log_q;
  };

  Result<Unit> begin() {
    EMPLACE_TRY_ASSIGN(config_, config_of(run_, request_));
    EMPLACE_TRY(fill_words(config_, *run_.task));
    report_.method = request_.method;
    report_.passes = request_.passes;
    report_.directory =
        request_.directory.empty() ? run_.directory / ("learned-" + request_.method) : request_.directory;
    if (std::filesystem::exists(report_.directory / "run.db"))
      return invalid(printable_path(report_.directory), "already has a run",
                     "name another folder with --run-dir");
    if (request_.passes == 0) return invalid("--passes", "must be at least 1");
    const bool steps = is_stepwise(run_.config);
    stepwise_ = steps && is_stepwise(config_);
    if (steps && !stepwise_ && run_.config.policy.placeto.rounds_per_episode != 1)
      return invalid(
          where(),
          "was drawn by " + run_.config.policy.method +
              " in several rounds, which reach a placement in many ways: its probability is unknown",
          "use --learn " + run_.config.policy.method);
    EMPLACE_TRY_ASSIGN(auto placer, make_placer(config_, *run_.task, {}));
    per_episode_ = is_stepwise(config_) ? 1 : placer->placements_per_episode();
    trainer_.emplace(config_.policy.training, std::move(placer));
    if (!config_.run.policy.empty()) {
      EMPLACE_TRY_ASSIGN(const auto warm, load_policy(config_, trainer_->placer()));
      EMPLACE_TRY(trainer_->placer().parameters().load(warm.checkpoint.parameters));
    }
    scoring_.emplace(scoring_options(config_, *run_.task));
    checkpoint();
    std::vector<std::uint64_t> versions;
    EMPLACE_TRY(scan_range(versions));
    EMPLACE_TRY_ASSIGN(auto behaviour, Behaviour::make(run_, versions));
    behaviour_.emplace(std::move(behaviour));
    return Unit{};
  }

  /// Scans the range for the versions that drew it and the step times of its placements.
  Result<Unit> scan_range(std::vector<std::uint64_t>& versions) {
    double total_s = 0;
    std::uint64_t valid = 0;
    auto read = for_each_page(false, [&](const std::vector<record::LogRow>& page, auto&) -> Result<bool> {
      for (const record::LogRow& row : page) {
        if (first_seq_ == 0) first_seq_ = row.episode.seq;
        last_seq_ = row.episode.seq;
        versions.push_back(row.episode.policy_version);
        ++report_.episodes;
        if (row.episode.graph_sha256 != run_.task->graphs.front().sha256) continue;
        for (const record::MeasurementRow& m : row.measurements) {
          if (!m.valid) continue;
          total_s += m.step_time_s;
          ++valid;
          if (report_.log_best_s == 0 || m.step_time_s < report_.log_best_s)
            report_.log_best_s = m.step_time_s;
        }
      }
      return true;
    });
    if (!read) return read;
    if (valid > 0) report_.log_mean_s = total_s / static_cast<double>(valid);
    if (report_.episodes == 0) return invalid(where(), "has no episode in this range", "use a wider range");
    return Unit{};
  }

  /// Calls `visit(rows, episodes)` for each page of the range, in order, until it returns false. `episodes`:
  /// [rows] if `placements`, else empty.
  template <class Visit>
  Result<Unit> for_each_page(bool placements, const Visit& visit) {
    std::uint64_t seq = std::max<std::uint64_t>(request_.from, 1);
    for (;;) {
      EMPLACE_TRY_ASSIGN(auto page, run_.db->log().rows(seq, kEpisodesPerPage, placements));
      EMPLACE_TRY_ASSIGN(auto episodes, placements ? run_.db->log().episodes(seq, kEpisodesPerPage)
                                                   : Result{std::vector<record::EpisodeRow>{}});
      while (!page.empty() && request_.to > 0 && page.back().episode.seq > request_.to) page.pop_back();
      if (page.empty()) return Unit{};
      seq = page.back().episode.seq + 1;
      EMPLACE_TRY_ASSIGN(const auto proceed, visit(page, episodes));
      if (!proceed) return Unit{};
    }
  }

  Result<Unit> learn_once(std::uint64_t pass) {
    std::size_t number = 0;
    auto learned = for_each_page(
        true,
        [&](std::vector<record::LogRow>& page, std::vector<record::EpisodeRow>& episodes) -> Result<bool> {
          for (std::size_t i = 0; i < page.size(); ++i) {
            if (pass == 1) {
              EMPLACE_TRY_ASSIGN(auto log_q, log_probabilities(episodes[i]));
              log_q_.push_back(std::move(log_q));
            }
            EMPLACE_TRY(take(log_q_[number++], page[i], episodes[i], pass == 1));
          }
          report_.stopped =
              !watcher_({pass, request_.passes, page.back().episode.seq, last_seq_, trainer_->updates()});
          return !report_.stopped;
        });
    if (!learned || report_.stopped) return learned;
    if (pass == 1) {
      const double share = static_cast<double>(report_.learned) / static_cast<double>(report_.placements);
      if (report_.learned == 0 || share < kLeastShare) return refuse();
    }
    EMPLACE_TRY(take_pending());
    return update();
  }

  /// Returns log q of an episode; empty if it is refused.
  Result<std::vector<double>> log_probabilities(const record::EpisodeRow& episode) {
    auto log_q = behaviour_->log_q(episode);
    if (log_q || log_q.error().code != Errc::kInvalid) return log_q;
    report_.placements += episode.count;
    note_refusal(episode.count, log_q.error());
    return std::vector<double>{};
  }

  Result<Unit> take(const std::vector<double>& log_q, const record::LogRow& row,
                    const record::EpisodeRow& episode, bool first) {
    if (log_q.empty()) return Unit{};
    const std::size_t ops = episode.placements.size() / std::max<std::size_t>(episode.count, 1);
    const auto placement = [&](std::size_t i) {
      return record::placement_of(std::span{episode.placements}.subspan(i * ops, ops));
    };
    if (row.measurements.size() != episode.count || log_q.size() > episode.count)
      return invalid(where(), fmt::format("episode {} is incomplete", episode.episode));
    if (stepwise_) return take_episode(log_q, row, episode, first);
    // The last placement of a single round of steps contains every decision.
    const std::size_t skip = is_stepwise(run_.config) ? episode.count - 1 : 0;
    for (std::size_t i = 0; i < log_q.size(); ++i) {
      Drawn drawn{placement(skip + i), log_q[i], row.measurements[skip + i]};
      const auto actions =
          policy::actions_of(trainer_->placer(), graph_of(episode), {&drawn.placement, 1}, {&drawn.log_q, 1});
      if (first) {
        ++report_.placements;
        actions ? void(++report_.learned) : note_refusal(1, actions.error());
      }
      if (!actions) continue;
      if (consumed_.empty() || consumed_.back() != episode.episode) consumed_.push_back(episode.episode);
      // An episode places one graph.
      if (pending_graph_ != episode.graph_sha256) EMPLACE_TRY(take_pending());
      pending_graph_ = episode.graph_sha256;
      pending_.push_back(std::move(drawn));
      if (pending_.size() < per_episode_) continue;
      EMPLACE_TRY(take_pending());
    }
    return Unit{};
  }

  /// Takes a logged episode of steps unchanged, if the new policy reaches the same placements with its
  /// actions.
  Result<Unit> take_episode(const std::vector<double>& log_q, const record::LogRow& row,
                            const record::EpisodeRow& episode, bool first) {
    const auto& theirs = dynamic_cast<const policy::PlacetoPlacer&>(behaviour_->placer());
    const auto& ours = dynamic_cast<const policy::PlacetoPlacer&>(trainer_->placer());
    EMPLACE_TRY_ASSIGN(auto choice, theirs.decode_actions({episode.actions}));
    const std::size_t devices = run_.task->graphs.front().devices.size();
    choice.decisions.log_q = policy::even_behaviour(choice.decisions.devices, devices, log_q);
    policy::Actions actions = policy::PlacetoPlacer::encode_actions(choice);
    const auto placements = ours.expand(actions);
    std::optional<Error> refusal;
    if (!placements) {
      refusal = placements.error();
    } else {
      Bytes again;
      for (const Placement& one : *placements) {
        const auto bytes = std::as_bytes(std::span{one});
        again.insert(again.end(), bytes.begin(), bytes.end());
      }
      if (again != episode.placements) refusal = invalid("placements", "have other groups");
    }
    if (first) {
      report_.placements += episode.count;
      refusal ? note_refusal(episode.count, *refusal) : void(report_.learned += episode.count);
    }
    if (refusal) return Unit{};
    consumed_.push_back(episode.episode);
    record::LogRow scored = row;
    return take_scored(std::move(actions), scored, log_q);
  }

  /// Makes an episode of the new policy of the pending placements.
  Result<Unit> take_pending() {
    if (pending_.empty()) return Unit{};
    std::vector<Placement> placements;
    std::vector<double> log_q;
    record::LogRow row;
    row.episode.graph_sha256 = pending_graph_;
    for (Drawn& drawn : pending_) {
      placements.push_back(std::move(drawn.placement));
      log_q.push_back(drawn.log_q);
      row.measurements.push_back(std::move(drawn.measured));
    }
    pending_.clear();
    EMPLACE_TRY_ASSIGN(auto actions,
                       policy::actions_of(trainer_->placer(), graph_of(row.episode), placements, log_q));
    return take_scored(std::move(actions), row, log_q);
  }

  Result<Unit> take_scored(policy::Actions actions, record::LogRow& row, std::vector<double> log_q) {
    row.episode.controller = 0;
    row.episode.policy_version = trainer_->updates();
    const auto scored = scoring_->score({0, actors::measured_of(row), {}, false});
    Taken taken{{std::move(actions), {}}, std::move(log_q)};
    taken.scored.advantages.assign(scored.advantages.begin(), scored.advantages.end());
    if (is_stepwise(config_) && !stepwise_) {
      EMPLACE_TRY_ASSIGN(const auto steps, trainer_->placer().expand(taken.scored.actions));
      taken.scored.advantages.resize(steps.size(), taken.scored.advantages.front());
    }
    batch_.push_back(std::move(taken));
    return batch_.size() < config_.pipeline.batch_episodes ? Result{Unit{}} : update();
  }

  Result<Unit> update() {
    if (batch_.empty()) return Unit{};
    const Nanos started = clock_.now();
    record::UpdateRow row;
    std::vector<policy::ScoredEpisode> batch;
    for (Taken& taken : batch_) {
      EMPLACE_TRY_ASSIGN(const auto log_p, trainer_->placer().log_probabilities(taken.scored.actions));
      for (std::size_t i = 0; i < log_p.size(); ++i)
        weights_.add(std::min(std::exp(log_p[i] - taken.log_q[i]),
                              static_cast<double>(config_.policy.loss.max_weight)));
      row.advantages.insert(row.advantages.end(), taken.scored.advantages.begin(),
                            taken.scored.advantages.end());
      batch.push_back(std::move(taken.scored));
    }
    batch_.clear();
    const policy::UpdateMade made = trainer_->update(batch);
    if (!made.error.empty()) return invalid(where(), made.error);
    if (!made.diverged.empty()) return Error{Errc::kRunFailed, where() + ": " + made.diverged};
    row.update = row.policy_version = trainer_->updates();
    row.episodes = std::exchange(consumed_, {});
    row.gradient_norm = made.gradient_norm;
    row.learning_rate = made.learning_rate;
    row.loss = made.parts.loss;
    row.entropy = made.parts.entropy;
    row.log_probability = made.parts.log_probability;
    row.divergence = made.parts.divergence;
    row.wall_s = std::chrono::duration<double>(clock_.now() - started).count();
    row.wall_ns = clock_.wall().count();
    row.parameters_sha256 = trainer_->parameters().sha256();
    updates_.push_back(std::move(row));
    return Unit{};
  }

  std::size_t graph_of(const record::EpisodeRow& episode) const {
    std::size_t graph = 0;
    while (graph + 1 < run_.task->graphs.size() && run_.task->graphs[graph].sha256 != episode.graph_sha256)
      ++graph;
    return graph;
  }

  void note_refusal(std::uint64_t placements, const Error& why) {
    report_.refused += placements;
    if (report_.first_refusal.empty()) report_.first_refusal = why.context;
  }

  Error refuse() const {
    return invalid(where(),
                   fmt::format("{} can represent only {} of its {} placements: {}", request_.method,
                               report_.learned, report_.placements, report_.first_refusal),
                   "use the grouping of the log (--set policy.grouping=…, policy.groups=…), or --learn "
                   "simple-planner, which places every op separately");
  }

  /// The error for a log whose placements the policy can represent, but with negligible probability.
  Error improbable() const {
    return invalid(where(),
                   "its placements have a negligible probability under " + request_.method +
                       ": all importance weights are 0",
                   "learn a policy with the same groups");
  }

  void warn_of_saturation() const {
    std::vector<record::PolicySample> samples;
    for (const record::UpdateRow& row : updates_)
      samples.push_back({row.update, row.entropy, row.gradient_norm, row.learning_rate});
    const auto learning = record::summarise_learning(samples, saturation_cure(config_));
    if (learning.saturation && request_.warn) request_.warn(learning.warning);
  }

  Result<Unit> measure_likeliest() {
    const actors::TaskGraph& first = run_.task->graphs.front();
    likeliest_ = trainer_->placer().greedy();
    EMPLACE_TRY(model_of(config_, first)->measure(likeliest_, measured_));
    report_.likeliest_valid = measured_.valid;
    report_.likeliest_step_time_s = measured_.step_time_s;
    report_.likeliest_bytes_over = measured_.bytes_over;
    return Unit{};
  }

  void checkpoint() {
    const auto bytes = trainer_->parameters().bytes();
    checkpoints_.push_back({trainer_->updates(), trainer_->updates(), trainer_->parameters().sha256(),
                            Bytes(bytes.begin(), bytes.end()), trainer_->optimizer()});
  }

  record::RunFacts facts() const {
    record::RunFacts facts = run_.facts;
    facts.software_version = build_info().version;
    facts.host = host_name();
    facts.host_facts = host_facts();
    facts.config_toml = to_toml(config_, false);
    facts.method = request_.method + " from a log";
    facts.seed = config_.run.seed;
    facts.started_wall_ns = clock_.wall().count();
    facts.run_id = new_run_id(report_.directory, facts.started_wall_ns);
    const Json parent{{"kind", "learned"},
                      {"run_id", run_.facts.run_id},
                      {"run_dir", run_.directory.string()},
                      {"from", first_seq_},
                      {"to", last_seq_}};
    facts.parent = json_text(parent);
    return facts;
  }

  /// Writes everything, after all checks have passed.
  Result<Unit> keep() {
    checkpoint();
    EMPLACE_TRY_ASSIGN(const auto graphs, run_.db->header().graphs());
    EMPLACE_TRY_ASSIGN(const auto heuristics, run_.db->header().heuristics());
    EMPLACE_TRY_ASSIGN(auto db, record::RunWriter::create(report_.directory, facts(), graphs, heuristics));
    for (const record::UpdateRow& row : updates_) EMPLACE_TRY(db->add_update(row));
    for (const record::CheckpointRow& row : checkpoints_) EMPLACE_TRY(db->add_checkpoint(row));
    EMPLACE_TRY(db->commit());
    if (!report_.likeliest_valid) return Unit{};
    const actors::TaskGraph& first = run_.task->graphs.front();
    return keep_placement(kept_path(report_.directory, kBestPlacement, *run_.task, first), config_, first,
                          likeliest_, request_.method, clock_);
  }

  std::string where() const { return printable_path(run_.directory); }

  RecordedRun& run_;
  const LearnFromLogRequest& request_;
  const Clock& clock_;
  const LearnWatcher& watcher_;
  RunConfig config_;
  bool stepwise_ = false;        // Whether logged episodes of steps are used unchanged.
  std::size_t per_episode_ = 1;  // Placements per episode of the new policy.
  std::optional<policy::Trainer> trainer_;
  std::optional<actors::Scoring> scoring_;
  std::optional<Behaviour> behaviour_;
  std::uint64_t first_seq_ = 0, last_seq_ = 0;
  std::vector<std::vector<double>> log_q_;  // [episodes of the range] Of the first pass; empty: refused.
  std::vector<Drawn> pending_;
  std::string pending_graph_;
  std::vector<Taken> batch_;
  std::vector<std::uint64_t> consumed_;  // Episodes of the log since the last update.
  std::vector<record::UpdateRow> updates_;
  std::vector<record::CheckpointRow> checkpoints_;
  Weights weights_;
  Placement likeliest_;
  Measurement measured_;
  LearnReport report_;
};

}  // namespace

Result<LearnReport> learn_from_log(RecordedRun& run, const LearnFromLogRequest& request, const Clock& clock,
                                   const LearnWatcher& watcher) {
  return Learning{run, request, clock, watcher}.make();
}

}  // namespace emplace::launcher
