// Goal: learned placers as users see them: every method runs, one policy learns on many graphs, places an
// unseen one and continues to learn on it, and an unsuitable policy is refused in one line. Method: real
// processes on small real graphs; their JSON results are checked.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

const std::string kLargeMachine = shipped("configs/devices/placeto-4gpu.toml");

const std::string kSmallNetworks =
    "[policy.hierarchical]\nhidden = 8\n[policy.sequence]\nhidden = 8\n[policy.placeto]\nhidden = 8\n"
    "[policy.sweep]\nhidden = 8\n";

/// Small networks, few episodes: the tests are about the workflow, not the quality.
std::string config_of(const TemporaryFolder& folder, const std::string& method, const std::string& graphs) {
  // Many graphs have sizes for larger devices.
  const std::string& machine = graphs.starts_with("graphs") ? kLargeMachine : kDevices;
  return folder.file(method + ".toml", "[input]\n" + graphs + "\ndevices = \"" + machine +
                                           "\"\n[policy]\nmethod = \"" + method +
                                           "\"\npreset = \"tuned\"\ngroups = 8\n" + kSmallNetworks);
}
std::string one_graph(const std::string& path) { return "graph = \"" + path + "\""; }

Finished train(const TemporaryFolder& folder, const std::string& method, const std::string& graphs,
               std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"run",        config_of(folder, method, graphs),
                                     "--run-dir",  folder.at(method),
                                     "--episodes", "12",
                                     "--json",     "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(arguments);
}

void expect_refused(const Finished& done, const std::string& what) {
  EXPECT_EQ(done.status, 2) << done.err;
  EXPECT_NE(done.err.find(what), std::string::npos) << done.err;
  EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
}

TEST(Learned, EveryMethodRunsAndLearns) {
  for (const std::string method :
       {"hierarchical", "colocrl", "spotlight", "placeto", "simple-planner", "random-grouping",
        "placeto-simple-aggregator", "placeto-simple-partitioner", "sweep", "scheduler"}) {
    const TemporaryFolder folder;
    const Finished done = train(folder, method, one_graph(kGraph));
    ASSERT_EQ(done.status, 0) << method << ": " << done.err;
    const json summary = json::parse(done.out);
    EXPECT_GE(summary["episodes"].get<int>(), 12) << method;
    EXPECT_GE(summary["updates"].get<int>(), 5) << method;
    EXPECT_TRUE(summary["best_step_time_s"].is_number()) << method;
  }
}

// Half of the placements do not fit into what is left of the memory.
TEST(Learned, PenaltyByShareOfMemoryTeachesOtherwiseAndReplays) {
  std::set<std::string> parameters;
  for (const std::string penalty : {"per-gb", "share"}) {
    const TemporaryFolder folder;
    const Finished done =
        train(folder, "hierarchical", one_graph(shipped("tests/fixtures/graphs/cifar10_cnn-bs4.json.gz")),
              {"--set", "input.devices=h100 x 2, epyc9654", "--set", "input.reserve=0.9999", "--set",
               "run.deterministic=true", "--set", "reward.memory_penalty=" + penalty});
    ASSERT_EQ(done.status, 0) << done.err;
    parameters.insert(json::parse(done.out)["parameters_sha256"].get<std::string>());
    const Finished replayed = run({"replay", folder.at("hierarchical"), "--verify", "--json"});
    ASSERT_EQ(replayed.status, 0) << replayed.err;
    EXPECT_TRUE(json::parse(replayed.out)["identical"].get<bool>()) << penalty;
  }
  EXPECT_EQ(parameters.size(), 2u);
}

TEST(Learned, PlacetoMeasuresEveryStepByAnyExecutor) {
  for (const std::string source : {"executors", "local"}) {
    const TemporaryFolder folder;
    const Finished done = train(folder, "placeto", one_graph(kGraph), {"--set", "reward.source=" + source});
    ASSERT_EQ(done.status, 0) << done.err;
    const json summary = json::parse(done.out);
    EXPECT_EQ(summary["measurements"].get<int>(), 8 * summary["episodes"].get<int>()) << source;
  }
}

// The learner repeats the updates since its checkpoint from the record.
TEST(Learned, RunWithAPlacementPerEpisodeThatIsNotDrawnIsResumed) {
  for (const auto& [method, setting] : {std::pair{"placeto", "policy.placeto.measure_start=true"},
                                        {"colocrl", "reward.baseline=self-critic"}}) {
    const TemporaryFolder folder;
    ASSERT_EQ(train(folder, method, one_graph(kGraph), {"--set", setting}).status, 0) << setting;
    const Finished resumed =
        run({"run", "--resume", "--run-dir", folder.at(method), "--episodes", "24", "--json", "--quiet"});
    ASSERT_EQ(resumed.status, 0) << setting << ": " << resumed.err;
    EXPECT_GE(json::parse(resumed.out)["episodes"].get<int>(), 24) << setting;
    const Finished replayed = run({"replay", folder.at(method), "--verify", "--json"});
    ASSERT_EQ(replayed.status, 0) << replayed.err;
    EXPECT_TRUE(json::parse(replayed.out)["identical"].get<bool>()) << setting;
  }
}

/// g3 and g4 of a family, as a config names them; g5 is in the same folder.
std::string two_to_learn_from(const TemporaryFolder& folder) {
  for (const char* index : {"3", "4", "5"}) {
    const Finished made = run({"generate", "cifar10", "--index", index, "-o",
                               folder.at("g" + std::string{index} + ".json.gz"), "--quiet"});
    EXPECT_EQ(made.status, 0) << made.err;
  }
  return "graphs = [\"" + folder.at("g[34]*") + "\"]";
}

TEST(Learned, PolicyOfManyGraphsPlacesAnUnseenOne) {
  const TemporaryFolder folder;
  const std::string graphs = two_to_learn_from(folder);
  const Finished trained = train(folder, "placeto", graphs);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json summary = json::parse(trained.out);
  ASSERT_EQ(summary["graphs"].size(), 2u);
  for (const json& graph : summary["graphs"]) {
    EXPECT_GE(graph["best_step_time_s"][0].get<double>(), graph["lower_bound_s"].get<double>());
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder.at("placeto") + "/best"}, {}), 2);
  EXPECT_FALSE(std::filesystem::exists(folder.at("placeto") + "/baseline")) << "it started at no heuristic";

  const std::vector<std::string> place{"place",    folder.at("g5.json.gz"), "-d",     kLargeMachine,
                                       "--policy", folder.at("placeto"),    "--json", "--quiet"};
  const Finished at_once = run(place);
  ASSERT_EQ(at_once.status, 0) << at_once.err;
  const json zero_shot = json::parse(at_once.out);
  EXPECT_EQ(zero_shot["method"], "placeto (zero-shot)");
  EXPECT_EQ(zero_shot["evaluations"], 1);
  std::vector<std::string> sampled = place;
  sampled.insert(sampled.end(), {"--samples", "3"});
  const Finished drawn = run(sampled);
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_EQ(json::parse(drawn.out)["method"], "placeto (sampled)") << "a search is not zero-shot";
  EXPECT_EQ(json::parse(drawn.out)["evaluations"], 1 + 3 * 8);
  EXPECT_LE(json::parse(drawn.out)["measured"]["step_time_s"].get<double>(),
            zero_shot["measured"]["step_time_s"].get<double>());
  sampled.back() = "-3";
  EXPECT_EQ(run(sampled).status, 2);
  std::vector<std::string> longer = place;
  longer.insert(longer.end(), {"--budget", "1s"});
  const Finished tuned = run(longer);
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  const json fine_tuned = json::parse(tuned.out);
  EXPECT_GT(fine_tuned["evaluations"].get<int>(), 8);
  EXPECT_LE(fine_tuned["measured"]["step_time_s"].get<double>(),
            1.5 * zero_shot["measured"]["step_time_s"].get<double>());
}

/// The parent of a run, from its record.
json parent_of(const std::string& run_dir) {
  SQLite::Database db{run_dir + "/run.db"};
  return json::parse(db.execAndGet("SELECT parent FROM runs").getString());
}

TEST(Learned, PretrainedSchedulerContinuesLearning) {
  const TemporaryFolder folder;
  const std::string graphs = two_to_learn_from(folder), run_dir = folder.at("scheduler");
  const std::string config = config_of(folder, "scheduler", graphs);
  const auto answer_of = [&](const std::vector<std::string>& command) {
    const Finished done = run(command);
    EXPECT_EQ(done.status, 0) << done.err;
    return json::parse(done.out);
  };
  // Small steps, so that a few updates do not spoil the pretrained policy.
  const json trained = answer_of({"run", config, "--run-dir", run_dir, "--episodes", "12", "--set",
                                  "policy.learning_rate=0.0003", "--json", "--quiet"});
  EXPECT_GE(trained["updates"].get<int>(), 5);
  EXPECT_EQ(parent_of(run_dir)["weights"], "pretrained");
  EXPECT_TRUE(answer_of({"replay", run_dir, "--verify", "--json"})["identical"].get<bool>());
  EXPECT_EQ(answer_of({"run", "--resume", "--run-dir", run_dir, "--episodes", "16", "--json",
                       "--quiet"})["episodes"],
            16);

  // It places an unseen graph on a machine with another number of devices, zero-shot and as `pretrained`.
  const std::vector<std::string> unseen{
      "place", folder.at("g5.json.gz"), "-d", "h100 x 3, epyc9654", "--json", "--quiet"};
  const auto place = [&](std::vector<std::string> more) {
    more.insert(more.begin(), unseen.begin(), unseen.end());
    return answer_of(more);
  };
  EXPECT_EQ(place({"--policy", run_dir})["method"], "scheduler (zero-shot)");
  EXPECT_EQ(place({"--policy", "pretrained"})["method"], "scheduler (zero-shot)");
  const json planned = place({"-m", "pretrained", "--weights", run_dir}),
             shipped_plan = place({"-m", "pretrained"});
  EXPECT_NE(planned["note"], shipped_plan["note"]) << "the weights have learned";
  EXPECT_EQ(place({"-m", "pretrained", "--weights", "pretrained"})["measured"], shipped_plan["measured"]);

  // A file of weights works like the weights in the program.
  const std::string weights = shipped("configs/pretrained/scheduler.weights");
  answer_of({"run", config, "--run-dir", folder.at("from-file"), "--episodes", "4", "--set",
             "run.policy=" + weights, "--json", "--quiet"});
  EXPECT_EQ(parent_of(folder.at("from-file"))["parameters_sha256"], parent_of(run_dir)["parameters_sha256"]);
  const auto refused = [&](const std::vector<std::string>& more, const char* what) {
    std::vector<std::string> command{"run",        config, "--run-dir", folder.at("refused"),
                                     "--episodes", "4",    "--quiet"};
    command.insert(command.end(), more.begin(), more.end());
    expect_refused(run(command), what);
  };
  refused({"--set", "policy.scheduler.embedding=8"}, "other sizes");
  refused({"--set", "policy.method=placeto", "--set", "run.policy=pretrained"}, "a policy of scheduler");
  refused({"--set", "run.policy=" + kGraph}, "no weights of a scheduler");
  refused({"--set", "objective.kind=max-load"}, "learns only step times");
  ASSERT_EQ(train(folder, "sweep", one_graph(kGraph)).status, 0);
  expect_refused(
      run({"place", kGraph, "-d", kDevices, "-m", "pretrained", "--weights", folder.at("sweep"), "--quiet"}),
      "a policy of sweep, not of scheduler");
}

TEST(Learned, PoliciesWithAVocabularyPlaceOtherGraphs) {
  const TemporaryFolder folder;
  const std::string graphs = two_to_learn_from(folder);
  for (const std::string method :
       {"hierarchical", "colocrl", "spotlight", "random-grouping", "simple-planner"}) {
    const std::string run_dir = folder.at(method);
    const Finished trained =
        train(folder, method, graphs,
              {"--set", "policy.sequence.table_scale=0", "--set", "policy.hierarchical.table_scale=0"});
    ASSERT_EQ(trained.status, 0) << method << ": " << trained.err;
    const json summary = json::parse(trained.out);
    ASSERT_EQ(summary["graphs"].size(), 2u) << method;
    for (const json& graph : summary["graphs"])
      EXPECT_GE(graph["best_step_time_s"][0].get<double>(), graph["lower_bound_s"].get<double>()) << method;

    // A restart and a replay read the words of the training from the record.
    const Finished resumed =
        run({"run", "--resume", "--run-dir", run_dir, "--episodes", "16", "--json", "--quiet"});
    ASSERT_EQ(resumed.status, 0) << method << ": " << resumed.err;
    EXPECT_EQ(json::parse(resumed.out)["episodes"], 16) << method;
    const Finished replayed = run({"replay", run_dir, "--verify", "--json"});
    EXPECT_EQ(replayed.status, 0) << method << ": " << replayed.err;
    EXPECT_TRUE(json::parse(replayed.out)["identical"].get<bool>()) << method;

    const auto place = [&](const std::string& graph, std::vector<std::string> more) {
      std::vector<std::string> arguments{"place",    graph,   "-d",     kLargeMachine,
                                         "--policy", run_dir, "--json", "--quiet"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const Finished done = run(arguments);
      EXPECT_EQ(done.status, 0) << method << ": " << done.err;
      return json::parse(done.out);
    };
    const std::string unseen = folder.at("g5.json.gz");
    const json zero_shot = place(unseen, {});
    EXPECT_EQ(zero_shot["method"], method + " (zero-shot)");
    EXPECT_EQ(zero_shot["evaluations"], 1) << method;
    const json sampled = place(unseen, {"--samples", "3"});
    EXPECT_EQ(sampled["evaluations"], 1 + 3 * (method == "spotlight" ? 5 : 4)) << method;
    EXPECT_LE(sampled["measured"]["step_time_s"].get<double>(),
              zero_shot["measured"]["step_time_s"].get<double>())
        << method;
    EXPECT_EQ(place(unseen, {})["measured"], zero_shot["measured"]) << method;
    // A network of another family has unseen ops and scopes.
    place(kGraph, {});
    expect_refused(run({"place", unseen, "-d", kDevices, "--policy", run_dir, "--quiet"}),
                   "a policy for 5 devices");
    if (method == "colocrl") {
      // Another run starts from it, with its words, and another policy learns from its log, though with
      // another number of placements per episode.
      const Finished next =
          run({"run", config_of(folder, method, one_graph(unseen)), "--run-dir", folder.at("next"),
               "--episodes", "4", "--json", "--quiet", "--set", "input.devices=" + kLargeMachine, "--set",
               "policy.sequence.table_scale=0", "--set", "run.policy=" + run_dir});
      EXPECT_EQ(next.status, 0) << next.err;
      const Finished other =
          run({"replay", run_dir, "--learn", "spotlight", "--set", "policy.sequence.table_scale=0",
               "--run-dir", folder.at("other"), "--json"});
      EXPECT_EQ(other.status, 0) << other.err;
      // It continues to learn on the new graph.
      EXPECT_GT(place(unseen, {"-m", method, "--budget", "1s"})["evaluations"].get<int>(), 4);
    }
  }
}

TEST(Learned, PolicyOfFixedOrdersPlacesInAnUnseenOrder) {
  const TemporaryFolder folder;
  for (const std::string method : {"placeto", "colocrl"}) {
    const std::string run_dir = folder.at(method);
    const Finished trained =
        train(folder, method, one_graph(kGraph),
              {"--set", "policy.orders=4", "--set", "policy.placeto.traversal=random", "--set",
               "policy.order=shuffled", "--set", "policy.sequence.table_scale=0", "--seed", "3"});
    ASSERT_EQ(trained.status, 0) << method << ": " << trained.err;
    const Finished replayed = run({"replay", run_dir, "--verify", "--json"});
    EXPECT_TRUE(json::parse(replayed.out)["identical"].get<bool>()) << method;
    const auto place = [&](std::vector<std::string> more) {
      std::vector<std::string> arguments{"place",    kGraph,  "-d",     kDevices,
                                         "--policy", run_dir, "--json", "--quiet"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      return run(arguments);
    };
    for (const std::string order : {"0", "1", "1000000000"}) {
      const Finished placed = place({"--unseen-order", order});
      ASSERT_EQ(placed.status, 0) << method << ": " << placed.err;
      EXPECT_EQ(json::parse(placed.out)["method"], method + " (zero-shot)");
      EXPECT_EQ(json::parse(place({"--unseen-order", order, "--seed", "9"}).out)["measured"],
                json::parse(placed.out)["measured"])
          << method << ": an order is the same whatever the seed";
    }
    expect_refused(place({"--unseen-order", "-1"}), "--unseen-order");
    expect_refused(place({"--unseen-order", "1", "--samples", "2"}), "--unseen-order");
    expect_refused(place({"--unseen-order", "1", "--budget", "1s"}), "--unseen-order");
  }
  expect_refused(run({"place", kGraph, "-d", kDevices, "--unseen-order", "1", "--quiet"}), "--unseen-order");
  ASSERT_EQ(train(folder, "hierarchical", one_graph(kGraph)).status, 0);
  expect_refused(run({"place", kGraph, "-d", kDevices, "--policy", folder.at("hierarchical"),
                      "--unseen-order", "1", "--quiet"}),
                 "a policy of hierarchical");
  const auto refused = [&](const std::string& method, std::vector<std::string> more, const char* what) {
    more.insert(more.end(), {"--set", "policy.orders=4"});
    expect_refused(train(folder, method, one_graph(kGraph), more), what);
  };
  refused("placeto", {"--set", "policy.placeto.traversal=topological"}, "policy.orders");
  refused("colocrl", {"--set", "policy.order=index"}, "policy.orders");
  refused("colocrl", {"--set", "policy.order=shuffled"}, "policy.sequence.table_scale");
  refused("hierarchical", {}, "policy.orders");
}

TEST(Learned, PassOfAPolicyIsMeasuredFromTheRandomStartOfTheGraphAndTheSeed) {
  const TemporaryFolder folder;
  const Finished trained =
      train(folder, "placeto", two_to_learn_from(folder),
            {"--set", "policy.initial=fixed-random", "--set", "run.deterministic=true", "--seed", "3"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Finished replayed = run({"replay", folder.at("placeto"), "--verify", "--json"});
  EXPECT_TRUE(json::parse(replayed.out)["identical"].get<bool>()) << replayed.err;
  const auto place = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"place",    folder.at("g5.json.gz"), "-d",     kLargeMachine,
                                       "--policy", folder.at("placeto"),    "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 0) << done.err;
    return done.out;
  };
  const json last = json::parse(place({"--json"})), passed = json::parse(place({"--pass", "--json"}));
  EXPECT_EQ(last["method"], "placeto (zero-shot)");
  EXPECT_FALSE(last.contains("pass_s"));
  EXPECT_EQ(last["evaluations"], 1);
  EXPECT_EQ(passed["method"], "placeto (best of the pass)");
  const json& times = passed["pass_s"];
  ASSERT_EQ(times.size(), 9u) << "the start, and a step for each of 8 groups";
  EXPECT_EQ(passed["evaluations"], 9);
  EXPECT_EQ(times.back(), last["measured"]["step_time_s"]);
  EXPECT_EQ(*std::min_element(times.begin(), times.end()), passed["measured"]["step_time_s"]);
  EXPECT_NE(place({"--pass"}).find("\npass       start "), std::string::npos);
  EXPECT_EQ(place({}).find("\npass "), std::string::npos);

  // Another seed, another start.
  const json other = json::parse(place({"--pass", "--json", "--seed", "2"}));
  EXPECT_NE(other["pass_s"].front(), times.front());
  expect_refused(run({"place", kGraph, "-d", kDevices, "--policy", "pretrained", "--pass", "--quiet"}),
                 "--pass: does not work with a policy of scheduler");
}

TEST(Learned, PolicyStartsAtTheBestHeuristicOfAnUnseenGraph) {
  const TemporaryFolder folder;
  const std::string graphs = two_to_learn_from(folder);
  const std::vector<std::string> heuristics{"--set", "compare.methods=[\"expert\", \"heft\"]"};
  std::vector<std::string> from_heuristics = heuristics;
  from_heuristics.insert(from_heuristics.end(), {"--set", "run.starts=[\"best-heuristic\"]"});
  const Finished trained = train(folder, "placeto", graphs, from_heuristics);
  ASSERT_EQ(trained.status, 0) << trained.err;
  // The start of each graph is recorded, and is that graph's own best.
  std::size_t kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator{folder.at("placeto") + "/baseline"}) {
    const std::string graph = folder.at(
        entry.path().filename().string().starts_with("cifar10-s1-03") ? "g3.json.gz" : "g4.json.gz");
    const auto answer_of = [&](const std::vector<std::string>& command) {
      const Finished done = run(command);
      EXPECT_EQ(done.status, 0) << done.err;
      return json::parse(done.out);
    };
    const json start =
        answer_of({"evaluate", graph, "-d", kLargeMachine, entry.path().string(), "--json", "--quiet"});
    const json table =
        answer_of({"compare", graph, "-d", kLargeMachine, "-m", "expert,heft", "--json", "--quiet"});
    EXPECT_EQ(start["step_time_s"].get<double>(), std::min(table["methods"][0]["step_time_s"].get<double>(),
                                                           table["methods"][1]["step_time_s"].get<double>()));
    ++kept;
  }
  EXPECT_EQ(kept, 2u);
  const Finished resumed =
      run({"run", "--resume", "--run-dir", folder.at("placeto"), "--episodes", "16", "--json", "--quiet"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(json::parse(resumed.out)["episodes"], 16);
  const Finished replayed = run({"replay", folder.at("placeto"), "--verify", "--json"});
  EXPECT_EQ(replayed.status, 0) << replayed.err;
  EXPECT_TRUE(json::parse(replayed.out)["identical"].get<bool>());

  const Finished at_once = run({"place", folder.at("g5.json.gz"), "-d", kLargeMachine, "--policy",
                                folder.at("placeto"), "--json", "--quiet"});
  ASSERT_EQ(at_once.status, 0) << at_once.err;
  const json zero_shot = json::parse(at_once.out);
  EXPECT_EQ(zero_shot["method"], "placeto (zero-shot)");
  EXPECT_EQ(zero_shot["evaluations"], 2) << "its start, and the policy's likeliest placement";
  const Finished compared = run(
      {"compare", folder.at("g5.json.gz"), "-d", kLargeMachine, "-m", "expert,heft", "--json", "--quiet"});
  for (const json& method : json::parse(compared.out)["methods"])
    EXPECT_LE(zero_shot["measured"]["step_time_s"].get<double>(), method["step_time_s"].get<double>());

  // A policy that never moves shows its start: the worst placement, if that is the only heuristic.
  const TemporaryFolder still;
  const Finished stays =
      train(still, "placeto", graphs,
            {"--set", "compare.methods=[\"round-robin\"]", "--set", "run.starts=[\"best-heuristic\"]",
             "--set", "policy.placeto.stay=1000", "--set", "policy.placeto.logit_bound=0"});
  ASSERT_EQ(stays.status, 0) << stays.err;
  const Finished stayed = run({"place", folder.at("g5.json.gz"), "-d", kLargeMachine, "--policy",
                               still.at("placeto"), "--samples", "2", "--json", "--quiet"});
  ASSERT_EQ(stayed.status, 0) << stayed.err;
  const Finished single =
      run({"compare", folder.at("g5.json.gz"), "-d", kLargeMachine, "-m", "single-gpu", "--json", "--quiet"});
  EXPECT_GT(json::parse(stayed.out)["measured"]["step_time_s"].get<double>(),
            json::parse(single.out)["methods"][0]["step_time_s"].get<double>());

  // Where nothing fits there is nothing to start from, and the graph is named.
  const std::string small =
      folder.file("small.toml", "[[device]]\nname = \"cpu:0\"\nprofile = \"haswell18\"\nmemory = \"1MB\"\n");
  std::vector<std::string> nowhere = from_heuristics;
  nowhere.insert(nowhere.end(), {"--set", "input.devices=" + small});
  const TemporaryFolder other;
  const Finished failed = train(other, "placeto", graphs, nowhere);
  EXPECT_EQ(failed.status, 3) << failed.err;
  EXPECT_NE(failed.err.find("no heuristic of cifar10"), std::string::npos) << failed.err;
  EXPECT_FALSE(std::filesystem::exists(other.at("placeto"))) << "no run was started";
  nowhere.insert(nowhere.end(), {"--set", "run.starts=[\"best-heuristic\", \"scratch\"]"});
  EXPECT_EQ(train(other, "placeto", graphs, nowhere).status, 3) << "whichever start it is";
  const Finished again = train(other, "placeto", graphs, from_heuristics);
  EXPECT_EQ(again.status, 0) << "a better machine is not excluded: " << again.err;
}

TEST(Learned, PlaceLearnsWithinItsBudgetAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  const Finished done = run({"place", kGraph, "-d", kDevices, "-m", "colocrl", "--budget", "1s", "-o",
                             folder.at("p.json"), "--json", "--quiet"},
                            {.environment = {"TMPDIR=" + folder.path().string()}});
  ASSERT_EQ(done.status, 0) << done.err;
  const json answer = json::parse(done.out);
  EXPECT_EQ(answer["method"], "colocrl");
  const Finished compared =
      run({"compare", kGraph, "-d", kDevices, "-m", "single-gpu,expert", "--json", "--quiet"});
  for (const json& simple : json::parse(compared.out)["methods"])
    EXPECT_LE(answer["measured"]["step_time_s"].get<double>(), simple["step_time_s"].get<double>())
        << "it started with the best of these";
  EXPECT_GT(answer["evaluations"].get<int>(), 1);
  const Finished checked = run({"evaluate", kGraph, folder.at("p.json"), "-d", kDevices, "--json"});
  ASSERT_EQ(checked.status, 0) << checked.err;
  EXPECT_DOUBLE_EQ(json::parse(checked.out)["step_time_s"].get<double>(),
                   answer["measured"]["step_time_s"].get<double>());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder.path()}, {}), 1)
      << "only p.json is left";
}

TEST(Learned, UnsuitablePoliciesAreRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(train(folder, "placeto", one_graph(kGraph)).status, 0);
  const auto place = [&](const std::string& machine, const std::string& policy,
                         std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"place", kGraph, "-d", machine, "--policy", policy, "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const std::string policy = folder.at("placeto");
  expect_refused(place(kLargeMachine, policy), "a policy for 3 devices");
  expect_refused(place(kDevices, policy, {"-m", "spotlight"}), "is a policy of placeto, not of spotlight");
  expect_refused(place(kDevices, folder.at("nowhere")), "holds no run");
  {
    SQLite::Database db{policy + "/run.db", SQLite::OPEN_READWRITE};
    db.exec("UPDATE checkpoints SET sha256 = 'x'");
  }
  expect_refused(place(kDevices, policy), "does not match its seal");
  {
    SQLite::Database db{policy + "/run.db", SQLite::OPEN_READWRITE};
    db.exec("UPDATE checkpoints SET parameters = substr(parameters, 1, 20)");
  }
  expect_refused(place(kDevices, policy), "is damaged");
}

TEST(Learned, IncompatibleOptionsAreRefused) {
  const TemporaryFolder folder;
  expect_refused(train(folder, "colocrl", one_graph(kGraph), {"--set", "reward.returns=final"}),
                 "reward.returns");
  const std::string graphs = "graphs = [\"" + kGraph + "\"]";
  expect_refused(train(folder, "hierarchical", graphs), "policy.hierarchical.table_scale");
  expect_refused(train(folder, "colocrl", graphs), "policy.sequence.table_scale");
  const std::vector<std::string> no_table{"--set", "policy.sequence.table_scale=0"};
  const auto without_table = [&](const std::string& method, const std::string& setting) {
    std::vector<std::string> more = no_table;
    more.insert(more.end(), {"--set", setting});
    return train(folder, method, graphs, more);
  };
  expect_refused(without_table("colocrl", "run.starts=[\"best-heuristic\"]"), "run.starts");
  expect_refused(without_table("colocrl", "reward.baseline=self-critic"), "reward.baseline");
  expect_refused(without_table("spotlight", "policy.grouping=colocation"), "policy.grouping");
  expect_refused(train(folder, "random", graphs), "input.graphs");
  expect_refused(train(folder, "placeto", "graphs = [\"" + folder.at("none-*") + "\"]"),
                 "matches no graph file");
}

}  // namespace
}  // namespace emplace::testing
