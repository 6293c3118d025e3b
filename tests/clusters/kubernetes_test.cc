// Goal: manifests are what Kubernetes, JobSet and KEDA accept, of kinds that end with the run, with the least
// that pods need.
// Method: `up --manifests`, then the checks of check_manifests.py (schemas of the APIs, references, Pod
// Security Standard). The scripts of the pods run here, with a program in place of emplace that notes what it
// is told.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/clusters/world.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

std::string content_of(const std::string& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// Words of an `up --manifests` for the shipped cluster file.
std::vector<std::string> up_words(const std::string& file, const std::vector<std::string>& settings) {
  std::vector<std::string> words{"up", shipped("configs/clusters/kubernetes.toml"), "--manifests", file};
  for (std::string setting : settings) words.insert(words.end(), {"--set", std::move(setting)});
  words.insert(words.end(), {"--set", "input.graph=" + kGraph, "--set", "run.starts=[\"scratch\"]"});
  return words;
}

/// Writes manifests and checks them. Skips nothing: without a validator only the status is another.
json checked_manifests(const std::string& file, const std::vector<std::string>& settings) {
  const Finished written = run(up_words(file, settings));
  EXPECT_EQ(written.status, 0) << written.err;
  const Output checked = shell("python3 " + shipped("tests/clusters/check_manifests.py") +
                               " --restricted --external Secret/emplace-keys " + file);
  EXPECT_TRUE(checked.status == 0 || checked.status == 77) << checked.text;
  return json::parse(content_of(file));
}

std::map<std::string, int> kinds_of(const json& list) {
  std::map<std::string, int> kinds;
  for (const json& item : list["items"]) ++kinds[item["kind"].get<std::string>()];
  return kinds;
}
json named(const json& list, const std::string& kind, const std::string& name) {
  for (const json& item : list["items"])
    if (item["kind"] == kind && item["metadata"]["name"] == name) return item;
  ADD_FAILURE() << "no " << kind << "/" << name;
  return {};
}

using Kinds = std::map<std::string, int>;

TEST(Kubernetes, ManifestsAreWhatTheSchemasSay) {
  const TemporaryFolder folder;
  const Kinds common{{"ConfigMap", 1}, {"PersistentVolumeClaim", 1}, {"Service", 1}, {"NetworkPolicy", 2}};
  const std::vector<std::tuple<std::string, std::string, Kinds>> cases{
      {"job", "fixed", {{"Job", 3}}},
      {"job", "keda", {{"Job", 2}, {"Deployment", 1}, {"ScaledObject", 1}, {"TriggerAuthentication", 1}}},
      {"jobset", "fixed", {{"JobSet", 1}}},
      {"jobset",
       "keda",
       {{"JobSet", 1}, {"Deployment", 1}, {"ScaledObject", 1}, {"TriggerAuthentication", 1}}},
  };
  for (const auto& [kind, scale, more] : cases) {
    const json list = checked_manifests(folder.at("manifests.json"),
                                        {"kubernetes.kind=" + kind, "kubernetes.scale=" + scale});
    Kinds wanted = common;
    wanted.insert(more.begin(), more.end());
    EXPECT_EQ(kinds_of(list), wanted) << kind << " " << scale;
  }
}

// The head reads what the ConfigMap holds: it must be a cluster that can be planned.
TEST(Kubernetes, TheHeadUnderstandsItsConfigMap) {
  const TemporaryFolder folder;
  const json list = checked_manifests(folder.at("manifests.json"), {"kubernetes.scale=keda"});
  const json& data = list["items"][0]["data"];
  std::filesystem::create_directories(folder.path() / "pod" / "files");
  folder.file("pod/config.toml", data["config.toml"].get<std::string>());
  std::string inside = data["cluster.toml"].get<std::string>();
  for (std::size_t at = 0; (at = inside.find("/etc/emplace/run", at)) != std::string::npos;)
    inside.replace(at, 16, folder.at("pod"));
  const Finished head =
      run({"up", folder.file("pod/cluster.toml", inside), "--run-dir", folder.at("pod-run"), "--set",
           "head.endpoint=tcp://127.0.0.1:*", "--set", "head.key=" + folder.at("none.key")});
  EXPECT_EQ(head.status, 2) << head.err;  // It gets as far as its keys, or its graph, which are not here.
  EXPECT_EQ(head.err.find("cannot reach the head"), std::string::npos) << head.err;
}

// Without a fallback KEDA leaves pods as they are when the head is gone.
TEST(Kubernetes, KedaFollowsTheDemandToNothing) {
  const TemporaryFolder folder;
  const json list = checked_manifests(
      folder.at("manifests.json"),
      {"kubernetes.scale=keda", "node.executors.count=6", "executor.count=6", "node.executors.processes=3"});
  const json spec = named(list, "ScaledObject", "emplace-quickstart-executors")["spec"];
  EXPECT_EQ(spec["minReplicaCount"], 0);
  EXPECT_EQ(spec["maxReplicaCount"], 3);
  EXPECT_EQ(spec["fallback"]["replicas"], 0);
  const json trigger = spec["triggers"][0]["metadata"];
  EXPECT_EQ(trigger["url"], "http://emplace-quickstart-head.default.svc:9090/status.json");
  EXPECT_EQ(trigger["valueLocation"], "executors_wanted");
  EXPECT_EQ(trigger["targetValue"], "2") << "a pod has two executors";
  const json deployment = named(list, "Deployment", "emplace-quickstart-executors")["spec"];
  EXPECT_FALSE(deployment.contains("replicas")) << "kubectl apply would undo what KEDA does";
  const json policy = named(list, "NetworkPolicy", "emplace-quickstart-head")["spec"]["ingress"];
  EXPECT_NE(policy.dump().find("\"kubernetes.io/metadata.name\":\"keda\""), std::string::npos);
  const json open =
      named(checked_manifests(folder.at("open.json"), {"kubernetes.status_from=[\"monitors\"]"}),
            "NetworkPolicy", "emplace-quickstart-head")["spec"]["ingress"];
  EXPECT_NE(open.dump().find("\"kubernetes.io/metadata.name\":\"monitors\""), std::string::npos);
}

TEST(Kubernetes, ASetIsDoneWhenItsHeadIsDone) {
  const TemporaryFolder folder;
  const json list = checked_manifests(folder.at("manifests.json"), {"kubernetes.kind=jobset"});
  const json spec = named(list, "JobSet", "emplace-quickstart")["spec"];
  EXPECT_EQ(spec["successPolicy"]["targetReplicatedJobs"], json::array({"head"}));
  for (const json& job : spec["replicatedJobs"]) {
    const json& own = job["template"]["spec"];
    EXPECT_EQ(own.contains("podFailurePolicy"), job["name"] != "executors") << "a lost pod would end the set";
    EXPECT_EQ(own["template"]["spec"]["restartPolicy"], "Never") << job["name"];
  }
}

// Encrypted unless people say otherwise, as everywhere (G13).
TEST(Kubernetes, ManifestsWithoutKeysAreRefusedUnlessInsecureIsSaid) {
  const TemporaryFolder folder;
  const std::string manifests = folder.at("manifests.json");
  const std::vector<std::string> without =
      up_words(manifests, {"kubernetes.key_secret=", "kubernetes.status_secret="});
  const Finished refused = run(without);
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(refused.err.starts_with("error: kubernetes.key_secret: is missing")) << refused.err;
  EXPECT_NE(refused.err.find("--insecure"), std::string::npos) << "the cure: " << refused.err;
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(manifests));
  for (const std::vector<std::string>& said :
       {std::vector<std::string>{"--insecure"}, std::vector<std::string>{"--set", "head.insecure=true"}}) {
    std::vector<std::string> words = without;
    words.insert(words.end(), said.begin(), said.end());
    const Finished written = run(words);
    EXPECT_EQ(written.status, 0) << written.err;
    EXPECT_NE(written.err.find("warning: "), std::string::npos) << written.err;
    const Output checked =
        shell("python3 " + shipped("tests/clusters/check_manifests.py") + " --restricted " + manifests);
    EXPECT_TRUE(checked.status == 0 || checked.status == 77) << checked.text;
    const std::string text = content_of(manifests);
    EXPECT_NE(text.find("join tcp://emplace-quickstart-head:5555 --insecure"), std::string::npos);
    EXPECT_EQ(text.find("Secret"), std::string::npos);
    EXPECT_EQ(text.find("--status"), std::string::npos) << "a port that others reach needs a token";
  }
}

TEST(Kubernetes, WhatCannotBeIsRefusedInOneLine) {
  const TemporaryFolder folder;
  const std::string manifests = folder.at("manifests.json");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"kubernetes.kind=jobs"}, "did you mean 'job"},
      {{"kubernetes.kind=cron"}, "expected job or jobset"},
      {{"kubernetes.scale=hpa"}, "expected fixed or keda"},
      {{"kubernetes.scale=keda", "kubernetes.status_secret="}, "kubernetes.status_secret"},
  };
  for (const auto& [settings, words] : cases) {
    const Finished refused = run(up_words(manifests, settings));
    EXPECT_EQ(refused.status, 2) << settings[0];
    EXPECT_NE(refused.err.find(words), std::string::npos) << refused.err;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(manifests));
  }
  const std::string cluster = folder.file(
      "long.toml", "[run]\nconfig = \"" + shipped("configs/quickstart.toml") +
                       "\"\n[head]\ninsecure = true\n[kubernetes]\nimage = \"e:1\"\n[[node]]\nname = \"" +
                       std::string(40, 'n') + "\"\nstart = \"kubernetes\"\nroles = [\"learner\"]\n");
  const Finished refused = run({"up", cluster, "--manifests", manifests});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("shorten the name"), std::string::npos) << refused.err;
}

// A pod has the keys and the environment that it needs, and no other pod's.
TEST(Kubernetes, ManifestsGiveEachPodItsOwnSecretsOnly) {
  const TemporaryFolder folder;
  const std::string manifests = folder.at("manifests.json");
  const std::string graph = folder.at("gr\xff\naph.json");
  std::filesystem::copy_file(kGraph, graph);
  const std::string config = folder.file(
      "run.toml", "[input]\ngraphs = [\"" + folder.path().string() + "/gr*.json\"]\n" + "devices = \"" +
                      kDevices + "\"\n" + "[run]\nstarts = [\"scratch\"]\n[policy]\nmethod = \"placeto\"\n");
  const std::string cluster =
      folder.file("cluster.toml",
                  "[run]\nconfig = \"" + config +
                      "\"\n[kubernetes]\nimage = \"e:1\"\nkey_secret = \"k\"\nstatus_secret = \"s\"\n[head]\n"
                      "environment = [\"HEAD=in-head\"]\n[[node]]\nname = \"learner\"\nstart "
                      "= \"kubernetes\"\nroles = [\"learner\"]\n"
                      "environment = [\"TOKEN=in-learner\"]\n[[node]]\nname = "
                      "\"executors\"\nstart = \"kubernetes\"\nroles = "
                      "[\"executor\"]\nprocesses = 0\n");
  const Finished written = run({"up", cluster, "--manifests", manifests});
  ASSERT_EQ(written.status, 0) << written.err;
  const Output checked = shell("python3 " + shipped("tests/clusters/check_manifests.py") +
                               " --restricted --external Secret/k --external Secret/s " + manifests);
  EXPECT_TRUE(checked.status == 0 || checked.status == 77) << checked.text;
  const json list = json::parse(content_of(manifests));
  std::map<std::string, std::pair<std::string, std::string>> pods;  // Keys and environment by name.
  for (const json& item : list["items"]) {
    if (!item.contains("spec") || !item["spec"].contains("template")) {
      EXPECT_EQ(item.dump().find("in-"), std::string::npos) << item.dump();
      continue;
    }
    const json& pod = item["spec"]["template"]["spec"];
    auto& [keys, environment] = pods[item["metadata"]["name"]];
    for (const json& volume : pod["volumes"]) {
      if (!volume.contains("projected")) continue;
      for (const json& source : volume["projected"]["sources"])
        for (const json& key : source["secret"]["items"])
          keys += source["secret"]["name"].get<std::string>() + ":" + key["path"].get<std::string>() + " ";
    }
    for (const json& variable : pod["containers"][0].value("env", json::array()))
      environment += variable["value"].get<std::string>();
  }
  EXPECT_EQ(pods, (std::map<std::string, std::pair<std::string, std::string>>{
                      {"emplace-run-head", {"k:head.key k:allowed.toml s:status.token ", "in-head"}},
                      {"emplace-run-learner", {"k:node.key ", "in-learner"}},
                      {"emplace-run-executors", {"k:node.key ", ""}}}));
}

/// Runs a pod's script in `folder` instead of the root, with this script in place of emplace.
Output run_script(const TemporaryFolder& folder, std::string script, const std::string& program) {
  std::filesystem::create_directories(folder.path() / "bin");
  for (const char* path : {"run/emplace", "etc/emplace/keys", "var/lib/emplace"})
    std::filesystem::create_directories(folder.path() / path);
  folder.file("bin/emplace", "#!/bin/sh\n" + program);
  std::filesystem::permissions(folder.path() / "bin/emplace", std::filesystem::perms::owner_all);
  for (const std::string root : {"/etc/emplace", "/run/emplace", "/var/lib/emplace"})
    for (std::size_t at = 0; (at = script.find(root, at)) != std::string::npos;
         at += folder.at(root.substr(1)).size())
      script.replace(at, root.size(), folder.at(root.substr(1)));
  return shell("PATH=" + folder.at("bin") + ":$PATH sh " + folder.file("script", script));
}

// A pod that replaces the head resumes the run; its exit status is that of the run.
TEST(Kubernetes, TheHeadResumesTheRunThatIsOnItsVolume) {
  const TemporaryFolder folder;
  const json list = checked_manifests(folder.at("manifests.json"), {});
  const json pod = named(list, "Job", "emplace-quickstart-head")["spec"]["template"]["spec"];
  const std::string script = pod["containers"][0]["command"][2];
  const std::string told = "for word in \"$@\"; do echo \"$word\"; done\n";
  std::filesystem::create_directories(folder.path() / "etc/emplace/keys");
  EXPECT_EQ(run_script(folder, script, told).status, 2) << "no keys yet";
  folder.file("etc/emplace/keys/head.key", "key");
  folder.file("etc/emplace/keys/status.token", "token");
  const Output first = run_script(folder, script, told + "exit 143\n");
  EXPECT_EQ(first.status, 143) << first.text;
  EXPECT_EQ(first.text.find("--resume"), std::string::npos) << first.text;
  EXPECT_NE(first.text.find("--status\n0.0.0.0:9090\n"), std::string::npos) << first.text;
  EXPECT_NE(first.text.find("--status-host\nemplace-quickstart-head.default.svc\n"), std::string::npos);
  struct stat facts {};
  for (const char* file : {"run/emplace/head.key", "run/emplace/status.token"}) {
    ASSERT_EQ(::stat(folder.at(file).c_str(), &facts), 0) << file;
    EXPECT_EQ(facts.st_mode & 0777, 0600u) << file;
  }
  std::filesystem::create_directories(folder.path() / "var/lib/emplace/run");
  folder.file("var/lib/emplace/run/config.toml", "");
  const Output second = run_script(folder, script, told);
  EXPECT_EQ(second.status, 0) << second.text;
  EXPECT_NE(second.text.find("--resume"), std::string::npos) << second.text;
}

}  // namespace
}  // namespace emplace::testing
