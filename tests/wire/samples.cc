#include "tests/wire/samples.h"

#include <array>
#include <utility>

#include "runtime/zmq/session_messages.h"

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
                          .ttl_ms = 70'000,
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

EpisodeMeasured episode() {
  return {.graph_sha256 = kGraph,
          .controller = 1,
          .episode = 9,
          .placement_id = 1'000'000'007,
          .count = 2,
          .policy_version = 4,
          .num_ops = 6,
          .num_devices = 3,
          .executors = {"executor/0", "executor/1"},
          .executor_kinds = {"sim", "sim"},
          .hosts = {"alpha", "beta"},
          .executor_of = {0, 1},
          .attempt = {1, 2},
          .synthetic_share = {0, 0.25},
          .valid = {1, 0},
          .step_time_s = {0.418, 0.6},
          .bytes_over = {0, 123'456'789},
          .bytes_moved = {42, -1},
          .peak_bytes = {1, 2, 3, 4, 5, 6},
          .busy_s = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6},
          .wall_s = 0.01};
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
                               .attempt = 1,
                               .lease_epoch = 77,
                               .deadline_ms = 30'000,
                               .host = "alpha",
                               .executor = "executor/0",
                               .synthetic_share = 0.5,
                               .placements = {0, 12},
                               .actions = {12, 20}},
             32),
      sample(PlacementMeasured{.placement_id = 1'000'000'007,
                               .count = 2,
                               .episode = 9,
                               .controller = 1,
                               .policy_version = 4,
                               .graph_sha256 = kGraph,
                               .host = "alpha",
                               .executor = "executor/0",
                               .executor_kind = "sim",
                               .attempt = 1,
                               .lease_epoch = 77,
                               .synthetic_share = 0.5,
                               .num_devices = 1,
                               .valid = {1, 0},
                               .step_time_s = {0.418, 0.6},
                               .bytes_over = {0, 9},
                               .bytes_moved = {4, 5},
                               .peak_bytes = {6, 7},
                               .busy_s = {0.4, 0.5},
                               .wall_s = 0.01,
                               .error = "none"}),
      sample(MeasurementReported{.measured = episode(), .placements = {0, 12}, .actions = {12, 4}}, 16),
      sample(MeasurementCommitted{.seq = 70'000, .measured = episode(), .actions = {0, 4}, .learned = true},
             4),
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
      sample(BestFound{.placement_id = 1'000'000'007,
                       .episode = 9,
                       .graph_sha256 = kGraph,
                       .executor = "executor/0",
                       .step_time_s = 0.418,
                       .placement = {0, 6}},
             6),
      sample(ExecutorJoined{.name = "executor/0",
                            .host = "alpha",
                            .kind = "sim",
                            .graph_sha256 = kGraph,
                            .devices = 3,
                            .speed = 120.5,
                            .epoch = 11}),
      sample(CreditGranted{.executor = "executor/0", .epoch = 11, .placements = 256, .bytes = 1'000'000}),
      sample(Heartbeat{.executor = "executor/0", .epoch = 11, .leases = {77, 78}, .busy_s = 12.5}),
      sample(ExecutorLeft{.executor = "executor/0", .epoch = 11, .reason = "asked to"}),
      sample(StopRun{.reason = "budget", .drain_ms = 5'000}),
      sample(ActorFailed{.actor = "learner", .host = "alpha", .error = "out of ideas", .restarts = 1}),
      sample(RunProgress{
          .from = "dispatcher",
          .episodes = 9,
          .measurements = 18,
          .valid = 9,
          .updates = 3,
          .policy_version = 5,
          .lost = 1,
          .duplicated = 1,
          .committed = 8,
          .in_flight = 4,
          .best_step_time_s = 0.418,
          .recent_step_time_s = 0.6,
          .elapsed_s = 1.5,
          .executors = {{.executor = "executor/0", .utilisation = 0.95, .placements = 18, .in_flight = 2}},
          .issued = 10,
          .counted = 6,
          .open = 2,
          .expired = 1,
          .refused = 1}),
      sample(LogRequested{.from_seq = 70'000, .until_seq = 70'064, .again = true, .actions = true}),
      sample(EpisodesRecorded{.episodes = {7, 8, 9}, .committed = 70'000}),
      sample(UpdatesRecorded{.update = 3}),
      sample(HistoryRequested{
          .checkpoint = true, .versions_back = 16, .offset = 1'048'576, .update = 3, .epoch = 11}),
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
                           .committed = 70'000,
                           .unlearned = 2}),
      sample(EpisodesWanted{.episodes = {11}}),
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
                             .progress = {.from = "dispatcher/0", .episodes = 9},
                             .updates = 3,
                             .evaluations_per_s = 120.5,
                             .staleness = 1.5,
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
      sample(Bye{.reason = "budget", .fenced = true}, 0, "Bye"),
      sample(ByeAck{.plane = Plane::kData}, 0, "ByeAck")};
}

}  // namespace emplace::messages
