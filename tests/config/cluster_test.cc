// Goal: a cluster file becomes the processes that it describes, with every actor in exactly one of them;
// wrong ones are refused in one line. Method: plans of small clusters, and of every shipped one.
#include "launcher/cluster/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launcher/cluster/hosts/remote_host.h"

namespace emplace::launcher {
namespace {

RunConfig config_of(std::uint32_t samplers, std::uint32_t executors) {
  RunConfig config;
  config.pipeline.controllers = samplers;
  config.executor.count = executors;
  return config;
}

/// Processes as "name: actor actor".
std::vector<std::string> planned(std::string_view toml, const RunConfig& config) {
  const auto cluster = parse_cluster(toml, "c.toml");
  if (!cluster) return {cluster.error().context};
  const auto plan = plan_nodes(*cluster, config);
  if (!plan) return {plan.error().context};
  std::vector<std::string> lines;
  for (const NodePlan& node : *plan) {
    std::string line = node.name + ":";
    for (const std::string& actor : node.actors) line += " " + actor;
    lines.push_back(line);
  }
  return lines;
}
using Lines = std::vector<std::string>;

TEST(Cluster, HeadHasAllActorsWithoutAFile) {
  EXPECT_EQ(planned("", config_of(2, 1)),
            Lines{"head: sampler/0 sampler/1 executor/0 learner/0 tracker/0 recorder/0 dispatcher/0"});
}

TEST(Cluster, OneProcessPerActor) {
  EXPECT_EQ(planned("[[node]]\nname = 'recorder'\nroles = ['recorder']\n"
                    "[[node]]\nname = 'sampler'\nroles = ['sampler']\nprocesses = 0\n",
                    config_of(2, 1)),
            (Lines{"head: executor/0 learner/0 tracker/0 dispatcher/0", "recorder: recorder/0",
                   "sampler/0: sampler/0", "sampler/1: sampler/1"}));
}

TEST(Cluster, AssignsCountsFirstAndSharesTheRest) {
  EXPECT_EQ(
      planned("[[node]]\nname = 'a'\nroles = ['executor']\ncount = 3\nprocesses = 2\n"
              "[[node]]\nname = 'b'\nroles = ['executor']\n[[node]]\nname = 'c'\nroles = ['executor']\n",
              config_of(1, 6)),
      (Lines{"head: sampler/0 learner/0 tracker/0 recorder/0 dispatcher/0", "a/0: executor/0",
             "a/1: executor/1 executor/2", "b: executor/3", "c: executor/4 executor/5"}));
}

TEST(Cluster, RoleThatARunLacksMakesNoProcess) {
  RunConfig config = config_of(1, 1);
  config.policy.method = "random";
  EXPECT_EQ(planned("[[node]]\nname = 'learner'\nroles = ['learner', 'tracker']\n", config),
            Lines{"head: sampler/0 executor/0 recorder/0 dispatcher/0"});
}

TEST(Cluster, RemoteLearnerStartsFromShippedWeightsButNoLocalFile) {
  const auto cluster = parse_cluster(
      "[head]\nendpoint = 'tcp://10.0.0.1:5555'\n"
      "[[node]]\nname = 'far'\nroles = ['learner']\nstart = 'ssh'\nhost = 'b'\n",
      "c.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.error().context;
  RunConfig config = config_of(1, 1);
  config.run.policy = "pretrained";
  EXPECT_TRUE(plan_nodes(*cluster, config).ok());
  config.run.policy = "/runs/a";
  const auto refused = plan_nodes(*cluster, config);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("needs run.policy on the launcher's host"), std::string::npos);
}

TEST(Cluster, ClientsEndBeforeTheirServers) {
  const auto cluster = load_cluster(EMPLACE_SOURCE_DIR "/configs/clusters/process-per-actor.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.error().context;
  const auto plan = plan_nodes(*cluster, config_of(1, 1));
  ASSERT_TRUE(plan.ok());
  std::map<std::string, int> step;
  for (const NodePlan& node : *plan) step[node.name] = node.end_step;
  EXPECT_LT(step["sampler/0"], step["executor/0"]);
  EXPECT_LT(step["executor/0"], step["learner"]);
  EXPECT_LT(step["learner"], step["recorder"]);
  EXPECT_LT(step["recorder"], step["head"]);
}

TEST(Cluster, ShippedClustersFitTheQuickstart) {
  const auto config = load_config(EMPLACE_SOURCE_DIR "/configs/quickstart.toml");
  ASSERT_TRUE(config.ok());
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator{EMPLACE_SOURCE_DIR "/configs/clusters"}) {
    if (file.path().extension() != ".toml") continue;
    ++files;
    const auto cluster = load_cluster(file.path());
    ASSERT_TRUE(cluster.ok()) << cluster.error().context;
    const auto plan = plan_nodes(*cluster, *config);
    ASSERT_TRUE(plan.ok()) << plan.error().context;
    std::size_t actors = 0;
    bool elastic = false;
    for (const NodePlan& node : *plan) {
      actors += node.actors.size();
      elastic = elastic || node.max_processes > 0 || node.start == StartBy::kRay;
    }
    EXPECT_EQ(actors, 4 + config->pipeline.controllers + (elastic ? 0 : config->executor.count))
        << file.path();
  }
  EXPECT_GE(files, 2);
}

constexpr const char* kRay =
    "[head]\nendpoint = 'tcp://10.0.0.1:5555'\n"
    "[[node]]\nname = 'far'\nstart = 'ray'\nroles = ['executor']\n";

TEST(Cluster, ExecutorsOnRayAreNoActorsOfThePlan) {
  EXPECT_EQ(planned(kRay, config_of(1, 6)),
            (Lines{"head: sampler/0 learner/0 tracker/0 recorder/0 dispatcher/0", "far:"}));
  const std::string beside = std::string{kRay} + "[[node]]\nname = 'here'\nroles = ['executor']\ncount = 2\n";
  EXPECT_EQ(planned(beside, config_of(1, 6)),
            (Lines{"head: sampler/0 learner/0 tracker/0 recorder/0 dispatcher/0",
                   "far:", "here: executor/0 executor/1"}));
  const std::string open = std::string{kRay} + "[[node]]\nname = 'here'\nroles = ['executor']\n";
  EXPECT_EQ(planned(open, config_of(1, 2)).back(), "here: executor/0 executor/1");
  const std::string anywhere =
      "[head]\nendpoint = 'tcp://*:5555'\n" + std::string{kRay}.substr(std::string{kRay}.find("[[node]]"));
  EXPECT_EQ(planned(anywhere, config_of(1, 6)).back(), "far:") << "Ray has an address for this machine";
  const auto plan = plan_nodes(*parse_cluster(beside, "c.toml"), config_of(1, 6));
  EXPECT_EQ(roles_of_keys(*plan).at("far"), Role::kExecutor);
  EXPECT_EQ((*plan)[1].end_step, (*plan)[2].end_step) << "they end with the other executors";
}

TEST(Cluster, KeysOfRayRoundTrip) {
  const std::string toml =
      std::string{kRay} +
      "ray_address = 'ray://head:10001'\nmax = 8\nexecutors_per_actor = 2\ngpus = 0.5\n"
      "resources = ['TPU=4', 'odd=name=1.5']\nruntime_env = '{\"pip\": []}'\nidle = '20s'\n"
      "cpus = 3\nmemory = '1GiB'\n";
  const auto cluster = parse_cluster(toml, "c.toml", std::vector<std::string>{"node.far.max=9"});
  ASSERT_TRUE(cluster.ok()) << cluster.error().context;
  const Cluster::Ray& ray = cluster->nodes.at(0).ray;
  EXPECT_EQ(ray.address, "ray://head:10001");
  EXPECT_EQ(ray.max, 9u);
  EXPECT_EQ(ray.per_actor, 2u);
  EXPECT_EQ(resource_of(ray.resources.at(1)), (std::pair<std::string, double>{"odd=name", 1.5}));
  EXPECT_EQ(ray.idle, std::chrono::seconds{20});
  const std::string written = to_toml(*cluster);
  const auto again = parse_cluster(written, "written.toml");
  ASSERT_TRUE(again.ok()) << again.error().context << "\n" << written;
  EXPECT_EQ(to_toml(*again), written);
  EXPECT_EQ(again->nodes.at(0).ray.runtime_env, ray.runtime_env);
}

TEST(Cluster, RefusesWhatRayCannotDo) {
  const auto refused = [](const std::string& more, const char* why) {
    const auto cluster = parse_cluster(std::string{kRay} + more, "c.toml");
    ASSERT_FALSE(cluster.ok()) << more;
    EXPECT_NE(cluster.error().context.find(why), std::string::npos) << cluster.error().context;
    EXPECT_EQ(cluster.error().context.find('\n'), std::string::npos);
  };
  refused("count = 3\n", "follows the demand; use max");
  refused("processes = 0\n", "follows the demand; use max");
  refused("host = 'rack1'\n", "is only for start = \"ssh\"");
  refused("open_files = 9\n", "open_files");
  refused("max = 1\nexecutors_per_actor = 2\n", "no actor may be started");
  refused("executors_per_actor = 0\n", "must be at least 1");
  refused("resources = ['TPU']\n", "is not NAME=AMOUNT");
  refused("resources = ['TPU=-1']\n", "is not NAME=AMOUNT");
  refused("[[node]]\nname = 'other'\nstart = 'ray'\nroles = ['executor']\n",
          "several nodes with start = \"ray\"");
  refused("[[node]]\nname = 'other'\nroles = ['executor']\nmax = 3\n", "is only for start = \"ray\"");
  const auto mixed =
      parse_cluster("[[node]]\nname = 'a'\nstart = 'ray'\nroles = ['executor', 'sampler']\n", "c.toml");
  ASSERT_FALSE(mixed.ok());
  EXPECT_NE(mixed.error().context.find("must be [\"executor\"]"), std::string::npos) << mixed.error().context;
  EXPECT_NE(planned("[[node]]\nname = 'a'\nstart = 'ray'\nroles = ['executor']\n", config_of(1, 1))
                .at(0)
                .find("cannot reach the head at ipc"),
            std::string::npos);
}

/// The nodes of a cluster moved to Ray, as "name:start".
Lines on_ray(const std::string& toml, std::span<const std::string> settings = {}) {
  const auto cluster = parse_cluster(toml, "c.toml", settings, Engine::kRay);
  if (!cluster) return {cluster.error().context};
  Lines nodes;
  for (const Cluster::Node& node : cluster->nodes)
    nodes.push_back(node.name + ":" + std::string{word_of(node.start)});
  return nodes;
}

TEST(Cluster, AnyClusterCanMoveToRay) {
  const std::string ssh =
      "[head]\nendpoint = 'tcp://10.0.0.1:5555'\n[[node]]\nname = 'learner'\nroles = ['learner']\n"
      "[[node]]\nname = 'rack1'\nstart = 'ssh'\nhost = 'rack1'\noptions = ['-v']\nroles = "
      "['executor']\ncount = 2\n"
      "[[node]]\nname = 'rack2'\nstart = 'slurm'\nroles = ['executor']\n";
  EXPECT_EQ(on_ray(ssh), (Lines{"learner:local", "rack1:ray"}));
  const std::vector<std::string> setting{"node.rack1.ray_address=local"};
  const auto cluster = parse_cluster(ssh, "c.toml", setting, Engine::kRay);
  ASSERT_TRUE(cluster.ok()) << cluster.error().context;
  EXPECT_EQ(cluster->nodes.back().ray.address, "local") << "settings apply after the change of engine";
  EXPECT_TRUE(cluster->nodes.back().options.empty());
  const std::string batch =
      "[head]\nendpoint = 'tcp://10.0.0.1:5555'\n[[node]]\nname = 'batch'\nstart = 'slurm'\nroles = "
      "['executor']\n"
      "max_processes = 9\ncount = 2\ncache = '/c'\nmemory = '1GiB'\n";
  const auto moved = parse_cluster(batch, "c.toml", {}, Engine::kRay);
  ASSERT_TRUE(moved.ok()) << moved.error().context;
  const auto again = parse_cluster(to_toml(*moved), "written.toml");
  ASSERT_TRUE(again.ok()) << again.error().context << "\n" << to_toml(*moved);
  EXPECT_EQ(again->nodes.at(0).cache, "/c");
  EXPECT_EQ(again->nodes.at(0).memory, std::int64_t{1} << 30);
  EXPECT_EQ(on_ray("[head]\nendpoint = 'tcp://10.0.0.1:5555'\n"), Lines{"ray:ray"});
  EXPECT_EQ(on_ray(kRay), Lines{"far:ray"});
  EXPECT_NE(
      on_ray("[[node]]\nname = 'all'\nroles = ['executor', 'sampler']\n").at(0).find("a node of their own"),
      std::string::npos);
}

TEST(Cluster, SettingsChangeItAndItRoundTrips) {
  const std::string toml =
      "[run]\nconfig = 'a b.toml'\n[head]\nendpoint = 'tcp://10.0.0.1:5555'\nmemory = '1GiB'\n"
      "[supervision]\npatience = '3s'\nrestarts_per_minute = 7\n"
      "[[node]]\nname = 'far'\nstart = 'ssh'\nhost = 'ada@rack7'\nroles = ['executor']\nprocesses = 2\n"
      "options = ['-p', '2222']\nenvironment = ['A=\"b c\"']\nprogram = '/opt/emplace'\ncpus = 1.5\n"
      "[[node]]\nname = 'batch'\nstart = 'slurm'\nroles = ['sampler']\noptions = ['--partition=gpu']\n";
  const std::vector<std::string> settings{"head.endpoint=tcp://10.0.0.2:7",
                                          "run.dir=runs/x",
                                          "head.insecure=true",
                                          "node.far.count=4",
                                          "node.far.memory=512MiB",
                                          "supervision.first_delay=1ms"};
  const auto cluster = parse_cluster(toml, "c.toml", settings);
  ASSERT_TRUE(cluster.ok()) << cluster.error().context;
  EXPECT_EQ(cluster->head.endpoint, "tcp://10.0.0.2:7");
  EXPECT_EQ(cluster->run.dir, "runs/x");
  EXPECT_TRUE(cluster->head.insecure);
  EXPECT_EQ(cluster->nodes[0].count, 4u);
  EXPECT_EQ(cluster->nodes[0].memory, std::int64_t{512} << 20);
  EXPECT_EQ(cluster->nodes[0].environment, Lines{"A=\"b c\""});
  EXPECT_EQ(cluster->supervision.first_delay, std::chrono::milliseconds{1});

  const std::string written = to_toml(*cluster);
  const auto again = parse_cluster(written, "written.toml");
  ASSERT_TRUE(again.ok()) << again.error().context << "\n" << written;
  EXPECT_EQ(to_toml(*again), written);
  EXPECT_EQ(again->nodes[0].options, cluster->nodes[0].options);
  EXPECT_EQ(again->nodes[1].start, StartBy::kSlurm);
  EXPECT_EQ(again->nodes[0].cpus, 1.5);
  EXPECT_EQ(again->supervision.patience, std::chrono::seconds{3});
  EXPECT_EQ(again->head.memory, std::int64_t{1} << 30);
}

TEST(Cluster, AnyTextRoundTrips) {
  const std::string hostile = "a\nb\tc\x1b[31m\x7f\"\\'#]\r\xe2\x80\xae";
  Cluster cluster;
  cluster.paths_from = "/tmp/" + hostile;
  cluster.head.environment = {"A=" + hostile};
  cluster.nodes.push_back(
      {.name = "far", .cache = hostile, .roles = {"executor"}, .environment = {"B=" + hostile}});
  const auto again = parse_cluster(to_toml(cluster), "written.toml");
  ASSERT_TRUE(again.ok()) << again.error().context << "\n" << to_toml(cluster);
  EXPECT_EQ(again->paths_from, cluster.paths_from);
  EXPECT_EQ(again->head.environment, cluster.head.environment);
  EXPECT_EQ(again->nodes.at(0).environment, cluster.nodes[0].environment);
  EXPECT_EQ(again->nodes.at(0).cache, hostile);
}

TEST(Cluster, RolesOfKeysNameTheNodesOfEachKey) {
  const auto cluster = parse_cluster(
      "[[node]]\nname = 'learner'\nroles = ['learner']\n"
      "[[node]]\nname = 'mixed'\nroles = ['executor', 'tracker']\ncount = 1\n"
      "[[node]]\nname = 'racks'\nroles = ['executor']\nprocesses = 2\n",
      "c.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.error().context;
  const auto plans = plan_nodes(*cluster, config_of(1, 3));
  ASSERT_TRUE(plans.ok()) << plans.error().context;
  using Names = std::map<std::string, Role, std::less<>>;
  EXPECT_EQ(roles_of_keys(*plans), (Names{{"learner", Role::kActor},
                                          {"mixed", Role::kActor},
                                          {"racks/0", Role::kExecutor},
                                          {"racks/1", Role::kExecutor}}))
      << "the head is not in it: no node joins as the head";
}

TEST(Cluster, LauncherPassesTheModelToItsExecutors) {
  const auto cluster = parse_cluster(
      "head.endpoint = 'tcp://127.0.0.1:5555'\nhead.insecure = true\n"
      "[[node]]\nname = 'far'\nstart = 'ssh'\nhost = 'rack7'\nroles = ['executor']\ncount = 1\n"
      "[[node]]\nname = 'draws'\nstart = 'ssh'\nhost = 'rack7'\nroles = ['sampler']\n",
      "c.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.error().context;
  RunConfig config = config_of(1, 1);
  config.executor.model = "my_module:make_step";
  const auto models = [&] {
    std::map<std::string, std::string> found;
    const auto plans = plan_nodes(*cluster, config);
    EXPECT_TRUE(plans.ok()) << plans.error().context;
    for (const NodePlan& plan : *plans) {
      const std::vector<std::string> words = join_words(plan, "tcp://head:1");
      const auto option = std::find(words.begin(), words.end(), "--model");
      found[plan.name] = option == words.end() ? "" : option[1];
    }
    return found;
  };
  config.executor.kind = "torch";
  EXPECT_EQ(models(), (std::map<std::string, std::string>{
                          {"head", ""}, {"far", "my_module:make_step"}, {"draws", ""}}));
  config.executor.kind = "cpu";
  EXPECT_EQ(models()["far"], "") << "only torch has a model";
}

TEST(Cluster, ElasticNodeHasOnePlanAndNoActorsInAdvance) {
  const std::string head = "[head]\nendpoint = 'tcp://10.0.0.1:5555'\ninsecure = true\n";
  const std::string batch =
      "[[node]]\nname = 'batch'\nstart = 'slurm'\nroles = ['executor']\nmax_processes = 64\n";
  EXPECT_EQ(planned(head + batch, config_of(1, 3)),
            (Lines{"head: sampler/0 learner/0 tracker/0 recorder/0 dispatcher/0", "batch:"}));
  RunConfig local = config_of(1, 3);
  local.reward.source = RewardSource::kLocal;
  EXPECT_EQ(planned(head + batch, local),
            Lines{"head: sampler/0 learner/0 tracker/0 recorder/0 dispatcher/0"});
  const std::string fixed = "[[node]]\nname = 'a'\nroles = ['executor']\ncount = 2\n";
  EXPECT_EQ(planned(head + batch + fixed, config_of(1, 3)),
            (Lines{"head: sampler/0 learner/0 tracker/0 recorder/0 dispatcher/0",
                   "batch:", "a: executor/0 executor/1"}));
  const auto cluster = parse_cluster(head + batch + "count = 4\n", "c.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.error().context;
  const auto plans = plan_nodes(*cluster, config_of(1, 3));
  ASSERT_TRUE(plans.ok()) << plans.error().context;
  EXPECT_EQ(join_words(plans->at(1), "tcp://head:1"),
            (Lines{"emplace", "join", "tcp://head:1", "--executors", "4", "--insecure", "--quiet"}));
  EXPECT_EQ(roles_of_keys(*plans).at("batch"), Role::kExecutor);
  EXPECT_EQ(parse_cluster(to_toml(*cluster), "written.toml")->nodes.at(0).max_processes, 64u);
}

TEST(Cluster, RefusesUnknownSettings) {
  const std::string toml = "[[node]]\nname = 'a'\nroles = ['executor']\n";
  const auto refused = [&](const std::string& setting, std::string_view with) {
    const auto cluster = parse_cluster(toml, "c.toml", std::vector{setting});
    ASSERT_FALSE(cluster.ok()) << setting;
    EXPECT_NE(cluster.error().context.find(with), std::string::npos) << cluster.error().context;
  };
  refused("node.b.count=1", "no node 'b'");
  refused("head.endpont=ipc", "endpoint");
  refused("node.a.count=many", "count");
  EXPECT_TRUE(is_cluster_setting("run.dir=x"));
  EXPECT_FALSE(is_cluster_setting("run.seed=3"));
  EXPECT_FALSE(is_cluster_setting("policy.groups=3"));
}

TEST(Cluster, RefusesInOneLine) {
  const auto refused = [](std::string_view toml, std::string_view with) {
    const Lines lines = planned(toml, config_of(2, 2));
    ASSERT_EQ(lines.size(), 1u) << toml;
    EXPECT_NE(lines[0].find(with), std::string::npos) << lines[0];
    EXPECT_EQ(lines[0].find('\n'), std::string::npos) << lines[0];
  };
  const std::string learner = "[[node]]\nname = 'l'\nroles = ['learner']\n";
  refused(learner + "[[node]]\nname = 'l2'\nroles = ['learner']\n", "c.toml:6");
  refused(learner + learner, "is used twice");
  refused("[[node]]\nroles = ['learner']\n", "is missing");
  refused("[[node]]\nname = 'a'\n", "are missing");
  refused("[[node]]\nname = 'a'\nroles = ['lerner']\n", "did you mean 'learner'");
  refused("[[node]]\nname = 'a'\nroles = ['dispatcher']\n", "must be in the head");
  const std::string away =
      "[head]\nendpoint = 'tcp://10.0.0.1:5555'\ninsecure = true\n[[node]]\nname = 'a'\n";
  refused(away + "roles = ['learner']\nstart = 'ssh'\n", "'host' is missing");
  refused(away + "roles = ['learner']\nstart = 'ssh'\nhost = '-oProxyCommand=x'\n", "is not a host name");
  refused(away + "roles = ['learner']\nhost = 'b'\n", "only for start");
  refused(away + "roles = ['learner']\nstart = 'sshh'\n", "did you mean 'ssh'");
  refused(away + "roles = ['recorder']\nstart = 'ssh'\nhost = 'b'\n", "move it to the head");
  refused(away + "roles = ['learner']\noptions = ['-v']\n", "only for ssh and slurm");
  refused(away + "roles = ['learner']\nstart = 'kubernetes'\n", "kubernetes.image");
  refused("[[node]]\nname = 'a'\nroles = ['learner']\nstart = 'slurm'\n", "set head.endpoint to a tcp://");
  refused("[head]\nendpoint = 'tcp://*:5555'\n[[node]]\nname = 'a'\nroles = ['learner']\nstart = 'slurm'\n",
          "dial =");
  refused("[[node]]\nname = 'a'\nroles = ['executor']\ncount = 3\n", "executor.count = 2");
  refused("[[node]]\nname = 'a'\nroles = ['sampler']\ncount = 1\n", "pipeline.controllers = 2");
  refused("[[node]]\nname = 'a'\nroles = ['sampler', 'executor']\nprocesses = 2\n", "processes");
  refused("[[node]]\nname = 'a'\nroles = ['learner']\ncount = 2\n", "count");
  refused("[[node]]\nname = 'a'\nroles = ['learner']\nenvironment = ['X']\n", "NAME=value");
  refused("[[node]]\nname = 'a'\nroles = ['learner']\nenvironment = ['A B=1']\n", "NAME=value");
  refused("[[node]]\nname = 'a'\nroles = ['learner']\nenvironment = ['1=1']\n", "NAME=value");
  refused(std::string{"[[node]]\nname = 'a'\nroles = ['learner']\nenvironment = ['A="} +
              std::string(40'000, 'x') + "']\n",
          "32 KiB");
  const std::string batch = away + "start = 'slurm'\nmax_processes = 4\n";
  refused(away + "roles = ['executor']\nmax_processes = 4\n", "is only for start = \"slurm\"");
  refused(
      "[kubernetes]\nimage = 'e:1'\n[[node]]\nname = 'a'\nstart = 'kubernetes'\nroles = ['executor']\n"
      "max_processes = 4\n",
      "kubernetes.status_secret");
  refused("[kubernetes]\nkind = 'cron'\n", "expected one of: job, jobset");
  refused(batch + "roles = ['executor', 'tracker']\n", "needs a node with only executors");
  refused(batch + "roles = ['executor']\nprocesses = 2\n", "conflicts with processes");
  refused(batch + "roles = ['executor']\ncount = 4001\n", "4000 executors");
  refused(batch + "roles = ['executor']\nopen_files = 64\n", "open_files");
  refused(away + "start = 'slurm'\nroles = ['executor']\nmax_processes = -1\n", "is out of range");
  refused(away + "start = 'slurm'\nroles = ['executor']\nmax_processes = 'many'\n", "max_processes");
  refused("[head]\nendpoint = 'udp://x'\n", "tcp://HOST:PORT");
  refused("[head]\nendpont = 'ipc'\n", "endpoint");
}

}  // namespace
}  // namespace emplace::launcher
