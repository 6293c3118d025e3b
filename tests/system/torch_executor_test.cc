// Goal: executors of kind torch as a user sees them: which program is started, with which arguments; the
// error if it or its model is missing; and that only this machine's own command line or config names the code
// that it imports. Method: the built program as a process, with a substitute for emplace-exec-torch that
// records its arguments and then executes emplace-exec-fake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::json;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kDevices;
using testing::kGraph;
using ::testing::Not;
using testing::Process;
using testing::run;
using testing::shipped;
using ::testing::StartsWith;
using testing::TemporaryFolder;

std::filesystem::path folder_of_program() { return std::filesystem::path{EMPLACE_PROGRAM}.parent_path(); }

std::string text_of(const std::string& path) {
  std::ifstream in{path};
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream in{text_of(path)};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Waits until the file exists, for half a minute at most. Returns whether it does.
bool appears(const std::string& path) {
  for (int i = 0; i < 6'000 && !std::filesystem::exists(path); ++i) ::poll(nullptr, 0, 5);
  return std::filesystem::exists(path);
}

void expect_one_line(const Finished& done, int status, const std::string& text) {
  EXPECT_EQ(done.status, status) << done.err;
  EXPECT_THAT(done.err, StartsWith("error: "));
  EXPECT_EQ(done.err.find('\n'), done.err.size() - 1) << done.err;
  EXPECT_THAT(done.err, HasSubstr(text));
}

constexpr const char* kCure =
    "pip install 'PATH/emplace_placement-….whl[torch]' (scripts/wheel.sh makes the wheel)";

class TorchExecutor : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::filesystem::exists(folder_of_program() / "emplace-exec-torch"))
      GTEST_SKIP() << "emplace-exec-torch lies beside the program, where the stand-in should not";
    std::filesystem::create_directory(at("bin"));
    std::filesystem::create_directory(at("empty"));
    const Finished placed =
        run({"place", kGraph, "-d", kDevices, "--method", "round-robin", "-o", at("p.json")});
    ASSERT_EQ(placed.status, 0) << placed.err;
  }
  std::string at(const std::string& name) const { return folder_.at(name); }

  std::string program(const std::string& name, const std::string& script) const {
    const std::string path = at(name);
    std::ofstream{path} << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  /// A substitute that writes `mark` and its arguments to the file `words`.
  std::string stand_in(const std::string& name, const std::string& mark) const {
    return program(name, "mark='" + mark + "'; words='" + at("words") + "'\n" + "fake='" +
                             (folder_of_program() / "emplace-exec-fake").string() + "'\n" + R"(
case " $* " in *" --version "*)
  echo "emplace-exec-torch 0.1.0, torch 9.9"
  exit 0;;
esac
echo "$mark $*" >> "$words"
echo "$(cut -d' ' -f5 /proc/$$/stat) $$" >> "$words.group"
for word; do
  shift
  case "$word" in --model=*|--threads=*|-m|emplace.torch_executor) ;; *) set -- "$@" "$word";; esac
done
exec "$fake" "$@"
)");
  }
  /// A PATH in which only files of the tests can be found.
  Process::Where only(std::vector<std::string> environment = {}) const {
    Process::Where where;
    where.environment = {"PATH=" + at("bin") + ":/usr/bin:/bin", "EMPLACE_PYTHON="};
    where.environment.insert(where.environment.end(), environment.begin(), environment.end());
    return where;
  }
  std::vector<std::string> evaluate(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"evaluate", kGraph,       at("p.json"), "-d",
                                       kDevices,   "--executor", "torch"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  const TemporaryFolder folder_;
};

TEST_F(TorchExecutor, ProgramInPathGetsTheModelAndTheThreads) {
  stand_in("bin/emplace-exec-torch", "PATH");
  const Finished done = run(evaluate({"--model", "my_module:make_step", "--threads", "3", "--json"}), only());
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(json::parse(done.out)["executor"], "torch");
  const auto words = lines_of(at("words"));
  ASSERT_EQ(words.size(), 1u) << text_of(at("words"));
  EXPECT_THAT(words[0], StartsWith("PATH --parent="));
  EXPECT_THAT(words[0], ::testing::EndsWith(" --model=my_module:make_step --threads=3"));
  const std::string group =
      text_of(at("words.group"));  // Signals typed at a terminal go to the parent alone.
  EXPECT_EQ(group.substr(0, group.find(' ')) + "\n", group.substr(group.find(' ') + 1));
  ASSERT_EQ(
      run(evaluate({"--model", "dir with a space/step.py:make", "--chaos", "oom-every=9"}), only()).status,
      0);
  EXPECT_THAT(lines_of(at("words")).back(),
              ::testing::EndsWith(" --model=dir with a space/step.py:make --threads=1 --oom-every=9"));
}

TEST_F(TorchExecutor, ProgramIsSearchedInThisOrder) {
  // A copy of the program, so that a file can be put beside it.
  std::filesystem::create_directory(at("here"));
  std::filesystem::copy_file(EMPLACE_PROGRAM, at("here/emplace"));
  const auto started_by = [&](const std::vector<std::string>& environment) -> std::string {
    Process::Where where = only(environment);
    where.prefix = {"sh", "-c", "shift; exec '" + at("here/emplace") + "' \"$@\"", "sh"};
    std::filesystem::remove(at("words"));
    const Finished done = run(evaluate({"--model", "m:f"}), where);
    if (done.status != 0) return done.err;
    const std::string words = text_of(at("words"));
    return words.substr(0, words.find("--parent"));
  };
  const std::string path = "PATH=" + at("bin") + ":/bin";
  stand_in("bin/python3", "python3");
  EXPECT_EQ(started_by({path}), "python3 -m emplace.torch_executor ");
  stand_in("bin/emplace-exec-torch", "PATH");
  EXPECT_EQ(started_by({path}), "PATH ");
  stand_in("here/emplace-exec-torch", "beside");
  EXPECT_EQ(started_by({path}), "beside ");
  const std::string python = stand_in("my-python", "chosen");
  EXPECT_EQ(started_by({path, "EMPLACE_PYTHON=" + python}), "chosen -m emplace.torch_executor ");
}

TEST_F(TorchExecutor, MissingProgramIsOneLineWithTheCure) {
  const auto refused = [&](const std::vector<std::string>& environment, const std::string& what) {
    const Finished done = run(evaluate({"--model", "m:f"}), only(environment));
    expect_one_line(done, 2, what);
    EXPECT_THAT(done.err, HasSubstr("executor 'torch': "));
    EXPECT_THAT(done.err, ::testing::EndsWith(std::string{kCure} + "\n"));
    EXPECT_THAT(done.out, IsEmpty());
  };
  refused({"PATH=" + at("empty")}, "nor in PATH, and there is no python3");
  program("bin/python3",
          "echo \"$0: Error while finding module specification for 'emplace.torch_executor' "
          "(ModuleNotFoundError: No module named 'emplace')\" >&2\nexit 1\n");
  refused({"PATH=" + at("bin")}, "bin/python3 lacks the package emplace");
  refused({"EMPLACE_PYTHON=" + at("bin/python3")}, "bin/python3 (EMPLACE_PYTHON) lacks the package emplace");
  refused({"EMPLACE_PYTHON=" + at("empty")}, "cannot be started");
  // PyPI's emplace, which has no such module.
  program("bin/python3", "echo \"$0: No module named emplace.torch_executor\" >&2\nexit 1\n");
  const std::string stranger = "has a stranger's package emplace; pip uninstall emplace, then ";
  refused({"PATH=" + at("bin")}, "bin/python3 " + stranger);
  refused({"EMPLACE_PYTHON=" + at("bin/python3")}, "bin/python3 (EMPLACE_PYTHON) " + stranger);
  refused({"EMPLACE_PYTHON=" + program("silent", "kill -9 $$\n")}, "silent ended with status 137");
  program("bin/emplace-exec-torch",
          "echo 'emplace-exec-torch: there is no torch in /usr/bin/python3' >&2\nexit 2\n");
  refused({}, "there is no torch in /usr/bin/python3");
  // The package found a stranger's in its folder: its line has the cure.
  program("bin/emplace-exec-torch",
          "echo 'error: emplace: a stranger is here; pip uninstall emplace, then install the wheel again' "
          ">&2\nexit 2\n");
  const Finished mixed = run(evaluate({"--model", "m:f"}), only({}));
  expect_one_line(mixed, 2, "executor 'torch': emplace: a stranger is here; pip uninstall emplace, then ");
  EXPECT_THAT(mixed.err, ::testing::EndsWith("the wheel again\n"));
  // Another program of that name is not started as an executor.
  program("bin/emplace-exec-torch", "echo hello\n");
  refused({}, "executor 'torch': hello");
}

TEST_F(TorchExecutor, DoctorNamesTheVersionOrTheCure) {
  const auto finding = [&](const Process::Where& where) {
    const Finished done = run({"doctor", "--json"}, where);
    EXPECT_EQ(done.status, 0) << done.err;
    const json all = json::parse(done.out);
    for (const json& one : all["findings"])
      if (one["what"] == "executor torch") return one;
    return json{};
  };
  json missing = finding(only({"PATH=" + at("empty")}));
  EXPECT_EQ(missing["value"], "not installed");
  EXPECT_EQ(missing["cure"], kCure);
  stand_in("bin/emplace-exec-torch", "PATH");
  EXPECT_EQ(finding(only())["value"], "emplace-exec-torch 0.1.0, torch 9.9");
}

TEST_F(TorchExecutor, ModelIsNamedInFullAndOnlyWhereItIsUsed) {
  stand_in("bin/emplace-exec-torch", "PATH");
  const std::string placement = at("p.json");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {evaluate({}),
       "needs the function that makes the model whose step it executes; use --model my_module:make_step"},
      {evaluate({"--model", ""}), "needs the function"},
      {evaluate({"--model", "my_module"}),
       "--model 'my_module': is not MODULE:NAME; use --model my_module:make_step"},
      {evaluate({"--model", ":make"}), "is not MODULE:NAME"},
      {evaluate({"--model", "module:"}), "is not MODULE:NAME"},
      {evaluate({"--model", "module\n:make"}), "is not MODULE:NAME"},
      {evaluate({"--model", "m:f", "--threads", "5000"}), "--threads: is out of range; use 1 to 1024"},
      {{"evaluate", kGraph, placement, "-d", kDevices, "--model", "m:f"},
       "--model: is only for the executor torch, not for sim; remove it, or use --executor torch"},
      {{"evaluate", kGraph, placement, "-d", kDevices, "--executor", "fake", "--threads", "2"},
       "--threads: is only for the executor torch, not for fake"},
      {{"calibrate", kGraph, "-o", at("no.toml"), "--executor", "torch"}, "needs the function"},
      {{"calibrate", kGraph, "-o", at("no.toml"), "--model", "m:f"},
       "is only for the executor torch, not for cpu"},
      {{"calibrate", kGraph, kGraph, "-o", at("no.toml"), "--executor", "torch", "--model", "m:f"},
       "GRAPH: is given more than once, but --model makes one graph"},
      {{"join", "ipc:///nowhere", "--executor", "torch"}, "needs the function"},
      {{"join", "ipc:///nowhere", "--executor", "cpu", "--model", "m:f"}, "is only for the executor torch"},
      {{"replay", at("none"), "--model", "m:f"}, "--model: needs --re-measure torch"},
  };
  for (const auto& [arguments, text] : cases) expect_one_line(run(arguments, only()), 2, text);
  EXPECT_FALSE(std::filesystem::exists(at("words"))) << "nothing was started";
  EXPECT_FALSE(std::filesystem::exists(at("no.toml")));
}

TEST_F(TorchExecutor, LinksThatItCannotSlowDownAreRefused) {
  stand_in("bin/emplace-exec-torch", "PATH");
  std::ofstream{at("shaped.toml")} << "[[device]]\nname = \"cpu:0\"\nprofile = \"haswell18\"\n"
                                      "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\n"
                                      "[[link]]\nbetween = [\"*\", \"*\"]\nbandwidth = \"10GB/s\"\n"
                                      "latency = \"1us\"\nshaped = true\n";
  ASSERT_EQ(run({"place", kGraph, "-d", at("shaped.toml"), "-m", "single-gpu", "-o", at("q.json")}).status,
            0);
  expect_one_line(run({"evaluate", kGraph, at("q.json"), "-d", at("shaped.toml"), "--executor", "torch",
                       "--model", "m:f"},
                      only()),
                  2, "executor 'torch': does not slow copies down to a shaped link");
}

/// Settings of a short run whose executors are of kind torch.
std::vector<std::string> torch_run(const std::string& directory, const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings{"--set", "executor.kind=torch", "--set", "run.starts=[\"scratch\"]",
                                    "--json"};
  settings.insert(settings.end(), more.begin(), more.end());
  return testing::small_run(directory, settings);
}

/// Processes that have these words on their command line.
std::vector<pid_t> processes_with(const std::vector<std::string>& words) {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc", gone}) {
    const std::string pid = entry.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string line = text_of("/proc/" + pid + "/cmdline");
    if (std::ranges::all_of(words,
                            [&](const std::string& word) { return line.find(word) != std::string::npos; }))
      found.push_back(std::stoi(pid));
  }
  return found;
}

TEST_F(TorchExecutor, RunTakesTheModelOfItsConfigAndRecordsNoCode) {
  stand_in("bin/emplace-exec-torch", "PATH");
  expect_one_line(run(torch_run(at("none"), {"--episodes", "3"}), only()), 2, "executor.model");
  EXPECT_FALSE(std::filesystem::exists(at("none/run.db")));
  const Finished done =
      run(torch_run(at("run"), {"--set", "executor.model=my_module:make_step", "--set", "executor.threads=2",
                                "--set", "executor.count=2", "--episodes", "6"}),
          only());
  ASSERT_EQ(done.status, 0) << done.err;
  const json summary = json::parse(done.out);
  EXPECT_EQ(summary["lost"], 0);
  EXPECT_EQ(summary["duplicated"], 0);
  EXPECT_THAT(done.err, HasSubstr("2 torch executors on this machine disturb each other's timing"));
  const auto words = lines_of(at("words"));
  EXPECT_EQ(words.size(), 2u);
  for (const std::string& line : words)
    EXPECT_THAT(line, HasSubstr(" --model=my_module:make_step --threads=2"));
  EXPECT_THAT(text_of(at("run/config.toml")), HasSubstr("model = \"my_module:make_step\""));
  EXPECT_THAT(text_of(at("run/run.db")), Not(HasSubstr("make_step")));
  // So that a branch of a record from another machine imports nothing unless requested.
  expect_one_line(
      run({"run", "--branch", at("run"), "--run-dir", at("branch"), "--episodes", "3", "--json"}, only()), 2,
      "executor.model");
  EXPECT_EQ(run({"replay", at("run"), "--verify"}).status, 0);
  const Finished again =
      run({"replay", at("run"), "--re-measure", "torch", "--model", "other:step", "--count", "3"}, only());
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(lines_of(at("words")).back(), HasSubstr(" --model=other:step"));
}

TEST_F(TorchExecutor, JoinedMachineImportsOnlyTheModelOfItsCommandLine) {
  stand_in("bin/emplace-exec-torch", "PATH");
  const std::string directory = at("run");
  Process head{torch_run(directory, {"--set", "executor.model=code_of_the_head:make", "--episodes", "0",
                                     "--set", "run.budget=\"300s\""}),
               only()};
  ASSERT_TRUE(appears(at("words"))) << "the head measures";
  const auto join = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"join",       directory, "--executors", "1",
                                       "--patience", "30s",     "--cache",     at("cache")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  // Without its own option it imports nothing, whatever the run's config names.
  expect_one_line(run(join({}), only()), 2, "needs the function that makes the model");
  for (const std::string& line : lines_of(at("words")))
    EXPECT_THAT(line, HasSubstr("--model=code_of_the_head:make"));
  std::filesystem::remove(at("words"));
  Process guest{join({"--model", "my_module:make_step"}), only()};
  ASSERT_TRUE(guest.wait_for_error_text("joined")) << guest.err();
  ASSERT_TRUE(appears(at("words")));
  guest.send(SIGTERM);
  EXPECT_EQ(guest.finish().status, 143);
  head.send(SIGTERM);
  EXPECT_EQ(head.finish().status, 143);
  const auto words = lines_of(at("words"));
  ASSERT_EQ(words.size(), 1u);
  EXPECT_THAT(words[0], HasSubstr(" --model=my_module:make_step --threads=1"));
}

TEST_F(TorchExecutor, KilledProcessLosesNothing) {
  stand_in("bin/emplace-exec-torch", "PATH");
  const std::string mark = at("words");  // Unique: a folder of this test.
  std::vector<std::string> arguments = torch_run(
      at("run"), {"--set", "executor.model=" + mark + ".py:make", "--set", "executor.count=2", "--set",
                  "executor.restarts=1000", "--set", "executor.chaos=oom-every=1000000", "--episodes", "40"});
  Process running{arguments, only()};
  int killed = 0;
  for (int i = 0; i < 4000 && killed < 3; ++i) {
    ::poll(nullptr, 0, 5);
    // The substitute has become emplace-exec-fake, whose arguments do not contain the model.
    for (const pid_t pid : processes_with({"emplace-exec-fake", "--oom-every=1000000"})) {
      const std::string parent = text_of("/proc/" + std::to_string(pid) + "/environ");
      if (parent.find(at("bin")) == std::string::npos) continue;
      if (::kill(pid, SIGKILL) == 0) ++killed;
      break;
    }
  }
  const Finished done = running.finish();
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(killed, 3);
  const json summary = json::parse(done.out);
  EXPECT_EQ(summary["lost"], 0);
  EXPECT_EQ(summary["duplicated"], 0);
  EXPECT_EQ(summary["episodes"], 40);
}

}  // namespace
}  // namespace emplace
