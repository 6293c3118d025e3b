// Goal: Kubernetes, JobSet and KEDA accept the manifests, their kinds end with the run, and pods get only
// what they need. Method: `up --manifests`, then the checks of check_manifests.py (schemas of the APIs,
// references, Pod Security Standard). The scripts of the pods run here, with a program in place of emplace
// that prints its arguments.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "tests/chaos/cluster_run.h"
#include "tests/chaos/fault_proxy.h"
#include "tests/clusters/up.h"
#include "tests/clusters/world.h"
#include "tests/launcher/status/http_client.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

std::string content_of(const std::string& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// Arguments of `up --manifests` for a shipped cluster file.
std::vector<std::string> up_words(const std::string& file, const std::vector<std::string>& settings,
                                  const std::string& cluster = "kubernetes") {
  std::vector<std::string> words{"up", shipped("configs/clusters/" + cluster + ".toml"), "--manifests", file};
  for (std::string setting : settings) words.insert(words.end(), {"--set", std::move(setting)});
  words.insert(words.end(), {"--set", "input.graph=" + kGraph, "--set", "run.starts=[\"scratch\"]"});
  return words;
}

/// Writes manifests and checks them. Without a validator only the status of the check differs.
json checked_manifests(const std::string& file, const std::vector<std::string>& settings,
                       const std::string& cluster = "kubernetes") {
  const Finished written = run(up_words(file, settings, cluster));
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

TEST(Kubernetes, ManifestsMatchTheSchemas) {
  const TemporaryFolder folder;
  const Kinds common{{"ConfigMap", 1}, {"PersistentVolumeClaim", 1}, {"Service", 1}, {"NetworkPolicy", 2}};
  const std::vector<std::tuple<std::string, std::string, Kinds>> cases{
      {"job", "kubernetes", {{"Job", 3}}},
      {"job",
       "kubernetes-elastic",
       {{"Job", 1}, {"Deployment", 1}, {"ScaledObject", 1}, {"TriggerAuthentication", 1}}},
      {"jobset", "kubernetes", {{"JobSet", 1}}},
      {"jobset",
       "kubernetes-elastic",
       {{"JobSet", 1}, {"Deployment", 1}, {"ScaledObject", 1}, {"TriggerAuthentication", 1}}},
  };
  for (const auto& [kind, cluster, more] : cases) {
    const json list = checked_manifests(folder.at("manifests.json"), {"kubernetes.kind=" + kind}, cluster);
    Kinds wanted = common;
    wanted.insert(more.begin(), more.end());
    EXPECT_EQ(kinds_of(list), wanted) << kind << " " << cluster;
  }
}

// The head reads the contents of the ConfigMap, which must be a valid cluster.
TEST(Kubernetes, HeadReadsItsConfigMap) {
  const TemporaryFolder folder;
  const json list = checked_manifests(folder.at("manifests.json"), {}, "kubernetes-elastic");
  const json& data = list["items"][0]["data"];
  std::filesystem::create_directories(folder.path() / "pod" / "files");
  folder.file("pod/config.toml", data["config.toml"].get<std::string>());
  std::string inside = data["cluster.toml"].get<std::string>();
  for (std::size_t at = 0; (at = inside.find("/etc/emplace/run", at)) != std::string::npos;)
    inside.replace(at, 16, folder.at("pod"));
  const Finished head =
      run({"up", folder.file("pod/cluster.toml", inside), "--run-dir", folder.at("pod-run"), "--set",
           "head.endpoint=tcp://127.0.0.1:*", "--set", "head.key=" + folder.at("none.key")});
  EXPECT_EQ(head.status, 2) << head.err;  // It fails at its keys or its graph, which do not exist here.
  EXPECT_EQ(head.err.find("cannot reach the head"), std::string::npos) << head.err;
}

// Without a fallback KEDA keeps the pods when the head is gone.
TEST(Kubernetes, KedaFollowsTheDemandToZero) {
  const TemporaryFolder folder;
  const json list =
      checked_manifests(folder.at("manifests.json"),
                        {"node.executors.count=2", "node.executors.max_processes=3"}, "kubernetes-elastic");
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

TEST(Kubernetes, JobSetEndsWithItsHead) {
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

// Encrypted unless --insecure is given, as everywhere (G13).
TEST(Kubernetes, ManifestsWithoutKeysRequireInsecure) {
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
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"--insecure"}, std::vector<std::string>{"--set", "head.insecure=true"}}) {
    std::vector<std::string> words = without;
    words.insert(words.end(), option.begin(), option.end());
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

TEST(Kubernetes, ImpossibleOptionsAreRefusedInOneLine) {
  const TemporaryFolder folder;
  const std::string manifests = folder.at("manifests.json");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"kubernetes.kind=jobs"}, "did you mean 'job"},
      {{"kubernetes.kind=cron"}, "expected one of: job, jobset"},
      {{"node.executors.processes=1", "node.executors.max_processes=4", "kubernetes.status_secret="},
       "kubernetes.status_secret"},
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

// A pod has the keys and the environment that it needs, and none of other pods.
TEST(Kubernetes, ManifestsGiveEachPodOnlyItsOwnSecrets) {
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
  std::map<std::string, std::pair<std::string, std::string>>
      pods;  // Keys and environment by name of the pod.
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

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// Pods of a run as processes of this machine.
class Pods {
 public:
  Pods(const TemporaryFolder& folder, const std::vector<std::string>& settings)
      : folder_{folder}, list_(checked_manifests(folder.at("manifests.json"), settings)) {
    for (const char* path : {"etc/emplace/keys", "var/lib/emplace"})
      std::filesystem::create_directories(folder.path() / path);
    const json settings_of_head = named(list_, "ConfigMap", "emplace-quickstart-run");
    const json head = pod("head");
    for (const json& item : head["volumes"][1]["configMap"]["items"]) {
      const std::string key = item["key"], path = "etc/emplace/run/" + item["path"].get<std::string>();
      std::filesystem::create_directories((folder.path() / path).parent_path());
      if (settings_of_head["data"].contains(key)) {
        folder.file(path, here(settings_of_head["data"][key], "head"));
      } else {
        const auto bytes = from_base64(settings_of_head["binaryData"][key].get<std::string>());
        folder.file(path, std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()});
      }
    }
  }

  json pod(const std::string& part) const {
    return named(list_, "Job", "emplace-quickstart-" + part)["spec"]["template"]["spec"];
  }
  /// Returns the file of a pod's script.
  std::string script(const std::string& part) const {
    std::filesystem::create_directories(folder_.path() / "run" / part);
    return folder_.file(part + ".sh", here(pod(part)["containers"][0]["command"][2], part));
  }
  std::string directory() const { return folder_.at("var/lib/emplace/run"); }
  std::string status_endpoint() const { return "127.0.0.1:" + status_; }

 private:
  /// Returns text of a pod with the folders and addresses of this machine.
  std::string here(std::string text, const std::string& part) const {
    // First, because the folder of the test can contain such a name too.
    text = replaced(std::move(text), "/tmp/emplace", folder_.at("cache-" + part));
    text = replaced(std::move(text), "/etc/emplace", folder_.at("etc/emplace"));
    text = replaced(std::move(text), "/run/emplace", folder_.at("run/" + part));
    text = replaced(std::move(text), "/var/lib/emplace", folder_.at("var/lib/emplace"));
    text = replaced(std::move(text), "0.0.0.0:5555", "127.0.0.1:" + port_);
    text = replaced(std::move(text), "emplace-quickstart-head:5555", "127.0.0.1:" + port_);
    return replaced(std::move(text), "0.0.0.0:9090", status_endpoint());
  }

  const TemporaryFolder& folder_;
  const json list_;
  const std::string port_ = std::to_string(free_port()), status_ = std::to_string(free_port());
};

// A pod that replaces the head resumes the run; its exit status is that of the run.
TEST(Kubernetes, HeadResumesTheRunOnItsVolume) {
  const TemporaryFolder folder;
  const Pods pods{folder, {}};
  std::filesystem::create_directories(folder.path() / "bin");
  const auto run_with = [&](const std::string& program) {  // Replaces emplace by `program`.
    folder.file("bin/emplace", "#!/bin/sh\n" + program);
    std::filesystem::permissions(folder.path() / "bin/emplace", std::filesystem::perms::owner_all);
    return shell("PATH=" + folder.at("bin") + ":$PATH sh " + pods.script("head"));
  };
  const std::string print_arguments = "for word in \"$@\"; do echo \"$word\"; done\n";
  EXPECT_EQ(run_with(print_arguments).status, 2) << "no keys yet";
  folder.file("etc/emplace/keys/head.key", "key");
  folder.file("etc/emplace/keys/status.token", "token");
  const Output first = run_with(print_arguments + "exit 4\n");
  EXPECT_EQ(first.status, 4) << first.text;
  EXPECT_EQ(first.text.find("--resume"), std::string::npos) << first.text;
  EXPECT_NE(first.text.find("--status-host\nemplace-quickstart-head.default.svc\n"), std::string::npos);
  struct stat facts {};
  for (const char* file : {"run/head/head.key", "run/head/status.token"}) {
    ASSERT_EQ(::stat(folder.at(file).c_str(), &facts), 0) << file;
    EXPECT_EQ(facts.st_mode & 0777, 0600u) << file;
  }
  std::filesystem::create_directories(pods.directory());
  folder.file("var/lib/emplace/run/config.toml", "");
  const Output second = run_with(print_arguments);
  EXPECT_EQ(second.status, 0) << second.text;
  EXPECT_NE(second.text.find("--resume"), std::string::npos) << second.text;
}

/// Returns the reply of the status port to a request with these header lines.
std::string ask(const std::string& endpoint, const std::string& path, const std::string& headers) {
  launcher::HttpClient client{endpoint};
  client.send("GET " + path + " HTTP/1.1\r\nHost: emplace-quickstart-head.default.svc:9090\r\n" + headers +
              "Connection: close\r\n\r\n");
  return client.read_to_end();
}

// The cluster evicts the head (a node is drained): SIGTERM to the first process of its pod. The nodes must
// not treat it as the end of the run; the next pod continues the run, and all pods end with it.
TEST(Kubernetes, RunOutlivesThePodOfItsHeadAndEndsWithAllPods) {
  if (shell("unshare -pf --kill-child --mount-proc true").status != 0)
    GTEST_SKIP() << "no process namespaces here";
  const TemporaryFolder folder;
  const Pods pods{folder, {"run.budget=300s", "compare.methods=[\"expert\"]", "policy.groups=16"}};
  const std::string keys = folder.at("etc/emplace/keys"), token = "a-token-of-this-test";
  ASSERT_EQ(run({"keygen", keys}).status, 0);
  ASSERT_EQ(run({"keygen", keys, "--role", "executor", "--role", "actor", "--name", "node"}).status, 0);
  folder.file("etc/emplace/keys/status.token", token);
  const auto where = [&](std::vector<std::string> prefix) {
    const std::string bin = std::filesystem::path{EMPLACE_PROGRAM}.parent_path().string();
    return Process::Where{.environment = {"PATH=" + bin + ":" + std::getenv("PATH")},
                          .prefix = std::move(prefix)};
  };
  const std::vector<std::string> container{"unshare", "-pf", "--kill-child", "--mount-proc", "sh"};
  const auto head_pod = [&] {
    std::vector<std::string> prefix = container;
    prefix.push_back(pods.script("head"));
    return std::make_unique<Process>(std::vector<std::string>{}, where(std::move(prefix)));
  };
  Process learner{{}, where({"sh", pods.script("learner")})};
  Process executors{{}, where({"sh", pods.script("executors")})};
  const auto status = [&] {
    const Finished asked = run({"ps", pods.directory(), "--json"});
    return asked.status == 0 ? json::parse(asked.out, nullptr, false) : json{};
  };
  const auto learns = [&] {
    return wait_until(
        [&] {
          const json now = status();
          return number(now, "measurements") >= 40 && number(now, "updates") >= 2;
        },
        Seconds{60});
  };
  auto head = head_pod();
  // Ends the pods and returns their errors.
  const auto end_and_report = [&](Process& first) {
    std::string all;
    for (Process* pod : {&first, &learner, &executors}) {
      pod->send(SIGKILL);
      all += pod->finish().err + "\n";
    }
    return all;
  };
  ASSERT_TRUE(learns()) << end_and_report(*head);
  const std::uint64_t updates = number(status(), "updates");
  const std::string bearer = "Authorization: Bearer " + token + "\r\n";
  EXPECT_EQ(ask(pods.status_endpoint(), "/healthz", "").find("HTTP/1.1 200"), 0u);
  EXPECT_EQ(ask(pods.status_endpoint(), "/readyz", "").find("HTTP/1.1 200"), 0u);
  EXPECT_EQ(ask(pods.status_endpoint(), "/status.json", "").find("HTTP/1.1 401"), 0u);
  const std::string demand = ask(pods.status_endpoint(), "/status.json", bearer);
  EXPECT_EQ(demand.find("HTTP/1.1 200"), 0u) << demand;
  EXPECT_NE(demand.find("\"executors_wanted\":"), std::string::npos) << demand;

  const std::string of = "/proc/" + std::to_string(head->pid());
  const std::string first = content_of(of + "/task/" + std::to_string(head->pid()) + "/children");
  ASSERT_FALSE(first.empty());
  ASSERT_EQ(::kill(static_cast<pid_t>(std::stol(first)), SIGTERM), 0);
  EXPECT_EQ(head->finish().status, 143);
  head = head_pod();
  ASSERT_TRUE(learns()) << end_and_report(*head);
  EXPECT_GE(number(status(), "updates"), updates) << "it started again";
  EXPECT_EQ(number(status(), "duplicated"), 0u);

  ASSERT_EQ(run({"down", pods.directory()}).status, 0);
  EXPECT_EQ(head->finish().status, 0);
  EXPECT_EQ(learner.finish().status, 0);
  EXPECT_EQ(executors.finish().status, 0);
}

}  // namespace
}  // namespace emplace::testing
