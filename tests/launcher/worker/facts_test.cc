// Goal: messages between a parent and its executor process arrive as they were sent, also in pieces, and
// incomplete ones are refused. Method: round trips of filled values; a socket pair whose other end writes
// byte by byte, or nonsense.
#include "launcher/worker/facts.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cmath>

#include "launcher/worker/channel.h"
#include "placement/machine/device_file.h"
#include "placement/machine/machine_text.h"
#include "tests/support/sample_graphs.h"

namespace emplace::launcher {
namespace {

OpGraph some_graph() {
  Rng rng{3, Purpose::kTest};
  return emplace::testing::random_graph(rng, 20);
}

TEST(Facts, MachineOfEachCostVersionRoundTrips) {
  const std::string own =
      "[[profile]]\nname = \"mine\"\nbase = \"h100\"\npeak = \"50TFLOP/s\"\n"
      "dispatch = \"20us\"\nunaligned_rate = 0.25\nefficiency = { conv = 0.5 }\n"
      "[[device]]\nprofile = \"mine\"\n[[device]]\nprofile = \"l40s\"\n[[device]]\nprofile = \"k40\"\n";
  const DeviceSet islands = parse_machine("h100 x 2 by nvlink4, h100").value();
  const auto sent_islands = devices_of(prepare_facts(islands, RealOptions{}));
  ASSERT_TRUE(sent_islands.ok());
  EXPECT_EQ(sent_islands->link(DeviceId{0}, DeviceId{1}).name, "nvlink4") << "its collectives take as long";
  EXPECT_EQ(sent_islands->link(DeviceId{0}, DeviceId{2}).name, "pcie5_x16");
  for (const CostVersion costs : {CostVersion::k1, CostVersion::k2}) {
    const std::string file = "costs = " + std::string{word_of(costs)} + "\n" + own;
    for (const DeviceSet& sent : {parse_machine("h100 x 2, mi300x, epyc9654", {}, costs).value(),
                                  parse_devices(file, "own.toml").value()}) {
      const auto prepare = messages::decode_body<messages::PrepareExecutor>(
          messages::encode_body(prepare_facts(sent, RealOptions{})));
      ASSERT_TRUE(prepare.ok());
      const auto got = devices_of(*prepare);
      ASSERT_TRUE(got.ok()) << got.error().context;
      EXPECT_EQ(got->sha256(), sent.sha256()) << "everything that determines a time";
      for (std::size_t d = 0; d < sent.size(); ++d)
        EXPECT_EQ((*got)[static_cast<DeviceId>(d)].profile, sent[static_cast<DeviceId>(d)].profile);
      auto newer = *prepare;
      newer.devices[0].costs = 3;
      EXPECT_FALSE(devices_of(newer).ok()) << "of a newer program";
      newer = *prepare;
      newer.devices[0].peaks_gflops.pop_back();
      EXPECT_FALSE(devices_of(newer).ok());
      newer = *prepare;
      newer.link_names.pop_back();
      EXPECT_FALSE(devices_of(newer).ok());
      newer = *prepare;
      newer.link_names[1] = "nvlink99";
      EXPECT_FALSE(devices_of(newer).ok()) << "a link of a newer program";
    }
  }
}

TEST(Facts, MachineRoundTrips) {
  const auto devices = parse_devices(R"(
corun = 1.5
[[profile]]
name = "measured"
base = "haswell18"
costs_us = ["00f3a1c27b9d4e58=12.625", "0000000000000007=0.5"]
[[device]]
name = "cpu:0"
profile = "measured"
memory = "3GiB"
host = "rack7"
[[device]]
name = "gpu:0"
profile = "h200"
[[link]]
between = ["cpu:0", "gpu:0"]
bandwidth = "7.6GB/s"
latency = "25us"
shaped = true
)",
                                     "test");
  ASSERT_TRUE(devices.ok()) << devices.error().context;
  RealOptions options;
  options.timing = {1, 2, 6, TimingOptions::Statistic::kMean};
  options.seed = 11;
  options.allow_synthetic = false;
  for (const CopyEngine copies : {CopyEngine::kSource, CopyEngine::kTarget}) {
    const DeviceSet sent = devices->with_copies(copies);
    const auto prepare =
        messages::decode_body<messages::PrepareExecutor>(messages::encode_body(prepare_facts(sent, options)));
    ASSERT_TRUE(prepare.ok());
    const auto got = devices_of(*prepare);
    ASSERT_TRUE(got.ok()) << got.error().context;
    EXPECT_EQ(got->sha256(), sent.sha256()) << "everything that determines a time";
    EXPECT_EQ((*got)[DeviceId{0}].host, "rack7");
    EXPECT_EQ(got->corun(), 1.5);
    EXPECT_TRUE(got->link(DeviceId{0}, DeviceId{1}).shaped);
    ASSERT_NE((*got)[DeviceId{0}].profile.costs, nullptr);
    EXPECT_EQ((*got)[DeviceId{0}].profile.costs->us(7), 0.5);
    EXPECT_EQ(options_of(*prepare).timing, options.timing);
    EXPECT_EQ(options_of(*prepare).seed, 11u);
    EXPECT_FALSE(options_of(*prepare).allow_synthetic);
    auto cut = *prepare;
    cut.link_latency_s.pop_back();
    EXPECT_FALSE(devices_of(cut).ok());
    cut = *prepare;
    cut.devices[0].efficiency.pop_back();
    EXPECT_FALSE(devices_of(cut).ok());
    cut = *prepare;
    cut.devices[0].signature_us.pop_back();
    EXPECT_FALSE(devices_of(cut).ok());
    cut = *prepare;
    cut.link_shaped.clear();
    EXPECT_FALSE(devices_of(cut).ok());
  }
}

TEST(Facts, MeasurementsSchedulesAndProfilesRoundTripOrAreRefused) {
  const OpGraph graph = some_graph();
  Schedule schedule;
  schedule.ops = {{OpId{1}, DeviceId{1}, 0.5, 0.75}};
  schedule.transfers = {{TensorId{0}, DeviceId{0}, DeviceId{1}, 64, 0.25, 0.5}};
  schedule.memory = {{DeviceId{1}, 0.5, 640}};
  const auto back = schedule_of(facts_of(schedule), graph, 2);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->ops[0].end_s, 0.75);
  EXPECT_EQ(back->transfers[0].bytes, 64);
  EXPECT_EQ(back->memory[0].bytes, 640);
  EXPECT_FALSE(schedule_of(facts_of(schedule), graph, 1).ok()) << "a device that does not exist";
  auto damaged = facts_of(schedule);
  damaged.ops[0] = static_cast<std::uint32_t>(graph.num_ops());
  EXPECT_FALSE(schedule_of(damaged, graph, 2).ok());
  damaged = facts_of(schedule);
  damaged.transfer_bytes.clear();
  EXPECT_FALSE(schedule_of(damaged, graph, 2).ok());

  ExecutorProfile profile;
  profile.ops = {{{OpId{0}, 1.5, 0.1, 20, false}, {OpId{2}, 2.5, 0.2, 21, true}},
                 {{OpId{0}, 3.5, 0.3, 22, false}, {OpId{2}, 4.5, 0.4, 23, false}}};
  profile.links = {{DeviceId{0}, DeviceId{1}, 1e-6, 1e9}};
  profile.task_overhead_us = {0.5, 0.75};
  profile.step_time_s = 0.125;
  profile.ops[1][0].hot_us = 3.25, profile.ops[1][0].cold_us = 3.75;
  profile.task_host_us = {2.5, 2.25};
  profile.corun = {1.125, 0};
  const auto read = profile_of(facts_of(profile), graph, 2);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->ops[0][1].us, 2.5);
  EXPECT_TRUE(read->ops[0][1].synthetic);
  EXPECT_EQ(read->ops[1][0].samples, 22u);
  EXPECT_EQ(read->links[0].bytes_per_s, 1e9);
  EXPECT_EQ(read->task_overhead_us, profile.task_overhead_us);
  EXPECT_EQ(read->task_host_us, profile.task_host_us);
  EXPECT_EQ(read->corun, profile.corun);
  EXPECT_EQ(read->ops[1][0].hot_us, 3.25);
  EXPECT_EQ(read->ops[1][0].cold_us, 3.75);
  EXPECT_EQ(read->ops[0][1].cold_us, 0);
  auto older = facts_of(profile);  // An older executor does not send these columns.
  older.hot_us.clear(), older.cold_us.clear(), older.task_host_us.clear();
  EXPECT_TRUE(profile_of(older, graph, 2).ok());
  older.cold_us.resize(2);
  EXPECT_FALSE(profile_of(older, graph, 2).ok());
  EXPECT_FALSE(profile_of(facts_of(profile), graph, 3).ok());
  const Verification verified{false, 40, 2, "fc/bias"};
  EXPECT_EQ(verification_of(facts_of(verified)).first_difference, "fc/bias");
}

TEST(Facts, LabelDependsOnSyntheticShareAndShapedLinks) {
  EXPECT_EQ(measured_label(0, false), MeasurementLabel::kMeasured);
  EXPECT_EQ(measured_label(0.0099, false), MeasurementLabel::kMeasured);
  EXPECT_EQ(measured_label(0.01, false), MeasurementLabel::kPartlySynthetic);
  EXPECT_EQ(measured_label(0.1999, false), MeasurementLabel::kPartlySynthetic);
  EXPECT_EQ(measured_label(0.2, false), MeasurementLabel::kEmulated);
  EXPECT_EQ(measured_label(0, true), MeasurementLabel::kEmulated);
  EXPECT_EQ(measured_label(std::nan(""), false), MeasurementLabel::kEmulated) << "not a number";
}

struct SocketPair {
  SocketPair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0); }
  std::array<int, 2> fds{};
};

TEST(Channel, ReassemblesMessagesFromSingleBytes) {
  SocketPair pair;
  Channel channel{pair.fds[0]};
  messages::Bytes bytes;
  {
    SocketPair copy;
    Channel writer{copy.fds[0]};
    writer.send(messages::RunPlacement{7, messages::PlacementTask::kVerify, {0, 3}},
                messages::Bytes{std::byte{1}, std::byte{2}, std::byte{3}});
    writer.send(messages::ExecutorBeat{9});
    ASSERT_TRUE(writer.flush());
    bytes.resize(1000);
    bytes.resize(static_cast<std::size_t>(::read(copy.fds[1], bytes.data(), bytes.size())));
    ::close(copy.fds[1]);
  }
  std::vector<std::uint16_t> types;
  for (const std::byte byte : bytes) {
    ASSERT_EQ(::write(pair.fds[1], &byte, 1), 1);
    const auto got = channel.take();
    ASSERT_TRUE(got.ok());
    if (!*got) continue;
    types.push_back((*got)->type);
    if (types.size() == 1) {
      EXPECT_EQ((*got)->as<messages::RunPlacement>()->id, 7u);
      EXPECT_EQ((*got)->bulk.size(), 3u);
      EXPECT_FALSE((*got)->as<messages::ExecutorBeat>().ok()) << "of another type";
    }
  }
  EXPECT_EQ(types, (std::vector{messages::RunPlacement::kType, messages::ExecutorBeat::kType}));
  ::close(pair.fds[1]);
  EXPECT_EQ(channel.take().error().code, Errc::kPeerLost);
}

TEST(Channel, RefusesImplausibleSizes) {
  for (const std::uint32_t size : {0xffffffffu, 1u << 20}) {
    SocketPair pair;
    Channel channel{pair.fds[0]};
    const std::array<std::uint32_t, 3> head{size, size, size};
    ASSERT_EQ(::write(pair.fds[1], head.data(), sizeof head), static_cast<ssize_t>(sizeof head));
    EXPECT_EQ(channel.take().error().code, Errc::kInvalid);
    ::close(pair.fds[1]);
  }
}

}  // namespace
}  // namespace emplace::launcher
