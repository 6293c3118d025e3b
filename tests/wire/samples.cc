#include "tests/wire/samples.h"

#include <array>
#include <utility>

#include "runtime/zmq/links/session_messages.h"

namespace emplace::messages {
namespace {

const std::string kGraph(64, 'a');
const std::string kParameters(64, 'b');

void append_frame(std::span<const std::byte> frame, Bytes& out) {
  const auto size = static_cast<std::uint32_t>(frame.size());
  const auto head = std::as_bytes(std::span{&size, 1});
  out.insert(out.end(), head.begin(), head.end());
  out.insert(out.end(), frame.begin(), frame.end());
}

template <class M>
Sample sample(const M& message, std::size_t bulk_bytes = 0, std::string name = type_name(M::kType)) {
  const Envelope envelope{.type = M::kType,
                          .from = ActorId{0x0123456789abcdef},
                          .to = ActorId{0xfedcba9876543210},
                          .seq = 300,
                          .trace = 5};
  std::array<std::byte, kMaxEnvelopeBytes> head;
  Bytes frames;
  append_frame({head.data(), encode_envelope(envelope, head.data())}, frames);
  append_frame(encode_body(message), frames);
  Bytes bulk(bulk_bytes);
  for (std::size_t i = 0; i < bulk.size(); ++i) bulk[i] = static_cast<std::byte>(i % 5);
  append_frame(bulk, frames);
  return {.name = std::move(name),
          .type = M::kType,
          .frames = std::move(frames),
          .round_trip = [](std::span<const std::byte> body) -> Result<Bytes> {
            const auto read = decode_body<M>(body);
            if (!read) return read.error();
            return encode_body(*read);
          }};
}

/// Two measurements on `devices` devices: one by a real executor, one crash.
MeasurementColumns measurements(std::uint32_t devices) {
  MeasurementColumns columns;
  columns.resize(2, devices);
  for (std::uint32_t row = 0; row < 2; ++row) {
    Measurement m{.valid = row == 0,
                  .step_time_s = row == 0 ? 0.418 : 0.6,
                  .bytes_moved = std::int64_t{42} - 43 * row,
                  .bytes_over = std::int64_t{123'456'789} * row,
                  .synthetic_share = 0.25 * row,
                  .failure = row == 0 ? "" : "crashed: signal 11",
                  .label = row == 0 ? MeasurementLabel::kMeasured : MeasurementLabel::kSimulated};
    if (row == 0) m.samples_s = {0.417, 0.419};
    for (std::uint32_t d = 0; d < devices; ++d) {
      m.peak_bytes.push_back(row * devices + d + 1);
      m.busy_s.push_back(static_cast<double>(row * devices + d + 1) / 10);
    }
    columns.set(row, m);
  }
  return columns;
}

EpisodeMeasured episode() {
  EpisodeMeasured e{measurements(3)};
  e.graph_sha256 = kGraph;
  e.controller = 1;
  e.episode = 9;
  e.placement_id = 1'000'000'007;
  e.policy_version = 4;
  e.num_ops = 6;
  e.executors = {"executor/0", "executor/1"};
  e.executor_kinds = {"sim", "sim"};
  e.hosts = {"alpha", "beta"};
  e.executor_of = {0, 1};
  e.attempt = {1, 2};
  e.wall_s = 0.01;
  return e;
}

PlacementMeasured lease_result() {
  PlacementMeasured m{measurements(1)};
  m.placement_id = 1'000'000'007;
  m.lease_epoch = 77;
  m.host = "alpha";
  m.executor = "executor/0";
  m.executor_kind = "sim";
  m.wall_s = 0.01;
  m.error = "none";
  return m;
}

Measurement real_measurement() {
  return {.valid = true,
          .step_time_s = 0.0125,
          .peak_bytes = {1'000, 2'000},
          .busy_s = {0.01, 0.0025},
          .bytes_moved = 4'096,
          .bytes_over = 77,
          .synthetic_share = 0.125,
          .samples_s = {0.012, 0.0125, 0.013},
          .failure = "oom: op 'conv' on gpu:0",
          .label = MeasurementLabel::kPartlySynthetic};
}

DispatchProgress dispatch_progress() {
  return {
      .episodes = 9,
      .measurements = 18,
      .valid = 9,
      .refused_results = 1,
      .in_flight = 4,
      .quarantined = 1,
      .leases = {.issued = 10, .counted = 6, .open = 2, .expired = 1, .refused = 1},
      .best_step_time_s = 0.418,
      .elapsed_s = 1.5,
      .ending = "budget",
      .executors =
          {{.executor = "executor/0", .utilisation = 0.95, .placements = 18, .in_flight = 2, .credit = 8}},
      .executors_wanted = 3};
}
RecordProgress record_progress() {
  return {.committed = 8, .updates = 3, .staleness = 1.5, .disk_waits_s = 2.5, .warning = "w"};
}
RunProgress run_progress() {
  return {.dispatch = dispatch_progress(), .record = record_progress(), .utilisation = 0.95, .duplicated = 1};
}

}  // namespace

std::vector<Sample> all_samples() {
  const NodeReported node{
      .node = "rack7-4711",
      .host = "rack7",
      .version = "0.2.0",
      .pid = 4711,
      .uptime_s = 12.5,
      .actors =
          {{.name = "executor/0", .handled = 18, .waiting = 2, .restarts = 1, .last_error = "out of memory"}},
      .sent = 40,
      .received = 30,
      .refused = 1,
      .dropped = 2,
      .peers_lost = 1,
      .restarts = 2};
  return {
      sample(PlacementProposed{.graph_sha256 = kGraph,
                               .controller = 1,
                               .episode = 9,
                               .placement_id = 1'000'000'007,
                               .count = 2,
                               .policy_version = 4,
                               .num_ops = 6,
                               .num_devices = 3,
                               .placements = {0, 12},
                               .actions = {12, 20}},
             32),
      sample(LeaseGranted{.graph_sha256 = kGraph,
                          .placement_id = 1'000'000'007,
                          .count = 2,
                          .num_ops = 6,
                          .num_devices = 3,
                          .lease_epoch = 77,
                          .attempt = 1,
                          .deadline_ms = 30'000,
                          .executor_epoch = 11,
                          .placements = {0, 12}},
             12),
      sample(lease_result()),
      sample(EpisodeReported{.measured = episode(), .placements = {0, 12}, .actions = {12, 4}}, 16),
      sample(EpisodeCommitted{.seq = 70'000, .measured = episode(), .actions = {0, 4}, .learned = true}, 4),
      sample(EpisodeScored{.episode = 9,
                           .controller = 1,
                           .policy_version = 4,
                           .graph_sha256 = kGraph,
                           .costs = {0.6, 0.7},
                           .advantages = {-0.1, 0.1},
                           .baseline = 0.65,
                           .valid = {1, 0},
                           .counted = {1, 0},
                           .seq = 70'000}),
      sample(UpdateApplied{.update = 3,
                           .policy_version = 5,
                           .episodes = {7, 8, 9},
                           .advantages = {-0.5f, 0.25f, 1.0f},
                           .staleness_mean = 0.5,
                           .staleness_max = 2,
                           .gradient_norm = 1.25,
                           .loss = -0.5,
                           .entropy = 2.0,
                           .parameters_sha256 = kParameters,
                           .learning_rate = 1e-3,
                           .wall_s = 0.2,
                           .epoch = 11}),
      sample(ParametersPublished{.version = 5, .sha256 = kParameters, .size = 4'000'000}),
      sample(ParametersRequested{.version = 5, .offset = 1'048'576, .exact = true}),
      sample(
          ParametersDelivered{
              .version = 5, .offset = 0, .total = 8, .sha256 = kParameters, .floats = {0, 8}, .checksum = 99},
          8),
      sample(CheckpointTaken{.version = 5,
                             .update = 3,
                             .sha256 = kParameters,
                             .parameters = {0, 8},
                             .optimizer = {8, 8},
                             .epoch = 11},
             16),
      sample(ExecutorJoined{.name = "executor/0",
                            .host = "alpha",
                            .kind = "sim",
                            .graph_sha256 = kGraph,
                            .devices = 3,
                            .epoch = 11}),
      sample(CreditGranted{.executor = "executor/0", .epoch = 11, .placements = 256, .bytes = 1'000'000}),
      sample(Heartbeat{.executor = "executor/0", .epoch = 11, .leases = {77, 78}, .busy_s = 12.5}),
      sample(ExecutorLeft{.executor = "executor/0", .epoch = 11, .reason = "asked to"}),
      sample(StopRun{.reason = "budget"}),
      sample(dispatch_progress()),
      sample(record_progress()),
      sample(ConsumedTwice{.placement_ids = {1'000'000'007, 1'000'000'008}}),
      sample(run_progress()),
      sample(LogRequested{.from_seq = 70'000, .until_seq = 70'064, .again = true, .actions = true}),
      sample(EpisodesRecorded{.episodes = {7, 8, 9}, .committed = 70'000}),
      sample(UpdatesRecorded{.update = 3}),
      sample(CheckpointRequested{.versions_back = 16, .offset = 1'048'576, .epoch = 11}),
      sample(UpdateRequested{.after = 3, .epoch = 11}),
      sample(CheckpointDelivered{.found = true,
                                 .update = 3,
                                 .sha256 = kParameters,
                                 .parameters = 8,
                                 .total = 16,
                                 .offset = 4,
                                 .piece = {0, 12}},
             12),
      sample(UpdateReplayed{.after = 3,
                            .update = 4,
                            .episodes = {10, 11},
                            .sizes = {4, 8},
                            .counts = {1, 2},
                            .actions = {0, 12},
                            .advantages = {-0.5f, 0.25f, 1.0f},
                            .parameters_sha256 = kParameters,
                            .unlearned_from = 12},
             12),
      sample(ScoresRequested{.from_seq = 12}),
      sample(EpisodesAsked{.controller = 1, .controllers = 2, .starting = true, .episodes = {9, 11}}),
      sample(EpisodesKnown{.starting = true,
                           .ended = {7},
                           .recorded = {9},
                           .unknown = {11},
                           .missing = {5},
                           .next_episode = 13,
                           .committed = 70'000}),
      sample(EpisodesWanted{.episodes = {11}}),
      sample(CountRequested{}),
      sample(EpisodesCounted{.committed = 70'000, .unlearned = 5}),
      sample(SamplerDrained{.sampler = "sampler/1"}),
      sample(ExecutorUnknown{.epoch = 11}),
      sample(ManifestRequested{.node = "rack7-4711", .version = "0.2.0"}),
      sample(
          ManifestDelivered{.version = "0.2.0",
                            .start = "scratch",
                            .config = "[input]\ngraph = \"files/0/graph.json\"\n",
                            .cluster = "[[node]]\nname = \"executors\"\n",
                            .files = {{.path = "files/0/graph.json", .sha256 = kGraph, .bytes = 3'000'000}},
                            .more_starts = true}),
      sample(FileRequested{.sha256 = kGraph, .offset = 1'048'576}),
      sample(FileDelivered{.sha256 = kGraph, .offset = 1'048'576, .piece = {0, 12}, .error = "changed"}, 12),
      sample(node),
      sample(StatusRequested{.request = 5}),
      sample(StatusDelivered{.request = 5,
                             .run = "runs/quickstart",
                             .start = "scratch",
                             .graph = "nmt",
                             .method = "hierarchical",
                             .progress = run_progress(),
                             .evaluations_per_s = 120.5,
                             .nodes = {{.report = node,
                                        .age_s = 0.25,
                                        .restarts = 1,
                                        .executors = 1,
                                        .placements = 18,
                                        .in_flight = 2,
                                        .credit = 8,
                                        .utilisation = 0.95,
                                        .evaluations_per_s = 120.5}},
                             .more_starts = true}),
      sample(PrepareExecutor{.graph_sha256 = kGraph,
                             .graph = {0, 12},
                             .devices = {{.name = "gpu:0",
                                          .host = "rack7",
                                          .profile = "h200",
                                          .kind = "gpu",
                                          .memory_bytes = 64'000'000'000,
                                          .profile_memory_bytes = 141'000'000'000,
                                          .peak_gflops = 66'900,
                                          .matrix_peak_gflops = 989'000,
                                          .bandwidth_gbs = 4'800,
                                          .bandwidth_efficiency = 0.85,
                                          .launch_us = 3.5,
                                          .efficiency = {0, 0, 0.5, 0.4, 0.3, 0.2, 0.1, 0.9, 0.8}}},
                             .link_bytes_per_s = {1e9},
                             .link_latency_s = {1e-5},
                             .warmups = 3,
                             .samples = 7,
                             .most_samples = 21,
                             .statistic = 1,
                             .seed = 11,
                             .allow_synthetic = false,
                             .copies = 1,
                             .stop_ratio = 2.5,
                             .capture = false,
                             .tune = false},
             12),
      sample(RunPlacement{.id = 7, .task = PlacementTask::kTrace, .placement = {0, 6}, .next = {2, 4}}, 6),
      sample(PlacementRan{.id = 7, .measurement = real_measurement(), .notes = {"devices share a GPU"}}),
      sample(PlacementTraced{.id = 8,
                             .measurement = real_measurement(),
                             .schedule = {.ops = {0, 1},
                                          .op_devices = {0, 1},
                                          .op_start_s = {0, 0.5},
                                          .op_end_s = {0.25, 0.75},
                                          .tensors = {0},
                                          .sources = {0},
                                          .targets = {1},
                                          .transfer_bytes = {4'096},
                                          .transfer_start_s = {0.25},
                                          .transfer_end_s = {0.5},
                                          .level_devices = {0, 1},
                                          .level_at_s = {0, 0.5},
                                          .level_bytes = {1'000, 2'000}}}),
      sample(PlacementVerified{
          .id = 9,
          .verification = {.identical = true, .compared = 40, .skipped = 2, .first_difference = "fc/bias"}}),
      sample(ExecutorProfiled{.id = 10,
                              .profile = {.devices = 2,
                                          .ops = {0, 1, 0, 1},
                                          .samples = {20, 20, 21, 22},
                                          .us = {1.5, 2.5, 3.5, 4.5},
                                          .mad_us = {0.1, 0.2, 0.3, 0.4},
                                          .synthetic = {0, 1, 0, 1},
                                          .sources = {0, 1},
                                          .targets = {1, 0},
                                          .latency_s = {1e-6, 2e-6},
                                          .bytes_per_s = {1e9, 2e9},
                                          .task_overhead_us = {0.5, 0.75},
                                          .step_time_s = 0.02,
                                          .hot_us = {1.25, 0, 3.25, 0},
                                          .cold_us = {1.75, 0, 3.75, 0},
                                          .task_host_us = {2.5, 2.25},
                                          .corun = {1.125, 1.25}}}),
      sample(TaskFailed{.id = 11, .code = 7, .error = "op 'x' has no kernel"}),
      sample(ExecutorReady{.kind = "cpu", .version = "oneDNN 2.6.3", .synthetic_types = {"aten::unique"}}),
      sample(ExecutorRefused{.code = 8, .error = "no driver"}),
      sample(ExecutorBeat{.progress = 70'000}),
  };
}

std::vector<Sample> session_samples() {
  using namespace runtime;
  const std::vector<std::string> actors{"executor/0", "executor/1"};
  return {
      sample(Hello{.node = "rack7", .epoch = 77, .plane = Plane::kData, .first_seq = 5, .actors = actors}, 0,
             "Hello"),
      sample(
          Welcome{
              .node = "head", .epoch = 77, .plane = Plane::kData, .first_seq = 9, .actors = {"dispatcher/0"}},
          0, "Welcome"),
      sample(Beat{.joined = actors, .left = {"executor/2"}}, 0, "Beat"),
      sample(Bye{.reason = "budget", .fenced = true, .over = true}, 0, "Bye"),
      sample(ByeAck{.plane = Plane::kData}, 0, "ByeAck")};
}

}  // namespace emplace::messages
