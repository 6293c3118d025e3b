// Goal: a config is read strictly, shown whole, and documented correctly. Method: round trips through the one
// table; every shipped file read; wrong files refused in one helpful line.
#include "launcher/settings/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/units.h"
#include "graph/models/catalogue.h"
#include "graph/models/families.h"
#include "launcher/cluster/files/manifest.h"
#include "placement/machine/device_file.h"
#include "tests/config/config_texts.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/settings_markdown.h"

namespace emplace::launcher {
namespace {

const std::string kPage =
    "# Every key of a run config\n"
    "A config file has these sections; `emplace run CONFIG --set section.key=value` sets one key over it.\n"
    "A section of a method has no effect on the others. An unknown key is refused, and the nearest known one "
    "named.\n"
    "Defaults in these tables are those of `policy.method = \"hierarchical\"`, `policy.preset = \"tuned\"`; "
    "other methods "
    "and presets\n"
    "have their own, and `config.toml` in the run directory has them all filled in.\n"
    "`configs/reference.toml` is the same as a file. Both are made from the options' own lists by "
    "`tests/config`.\n\n"
    "Before each method had a section, its keys were in `[policy]`: `policy.hidden` was the hidden size of "
    "every method. "
    "Such\n"
    "configs, `--set` and records are read as before; `run` and `replay --learn` name the new keys in one "
    "line of warning.\n";
const std::filesystem::path kConfigs = std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs";

TEST(Config, ReferenceIsTheTableOfOptions) {
  RunConfig plain = *parse_config("", "x");
  const std::vector<std::pair<std::filesystem::path, std::string>> files{
      {kConfigs / "reference.toml",
       "# Every key of a run config, with its default, its meaning and its range (docs/reference/config.md "
       "has them as "
       "tables).\n"
       "# Made from the options' own lists; tests/config holds it to that.\n\n" +
           to_toml(plain, true)},
      {kConfigs.parent_path() / "docs/reference/config.md",
       kPage + testing::settings_markdown(plain.settings())}};
  for (const auto& [path, text] : files) {
    if (std::getenv("EMPLACE_WRITE_REFERENCE") != nullptr) {
      ASSERT_TRUE(write_file(path, text).ok());
    }
    EXPECT_EQ(file_text(path), text) << "EMPLACE_WRITE_REFERENCE=1 config_test writes it again";
  }
}

TEST(Config, TunedIsTheDefaultAndConfigsOfPapersNameTheirPreset) {
  EXPECT_EQ(parse_config("[policy]\nmethod = \"colocrl\"\n", "x")->policy.preset, "tuned");
  std::size_t papers = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{kConfigs / "papers"}) {
    if (entry.path().extension() != ".toml") continue;
    const std::string text = file_text(entry.path());
    if (text.find("[policy]") == std::string::npos) continue;
    EXPECT_NE(text.find("\npreset = \""), std::string::npos) << entry.path();
    ++papers;
  }
  EXPECT_GT(papers, 15u);
}

TEST(Config, EveryDescriptionIsASentence) {
  RunConfig plain;
  for (const Setting& setting : plain.settings().all()) {
    EXPECT_TRUE(setting.meaning.ends_with(".")) << setting.name() << ": " << setting.meaning;
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(setting.meaning.front()))) << setting.name();
    EXPECT_EQ(setting.meaning.find_first_of("|\n"), std::string_view::npos) << setting.name();
  }
}

TEST(Config, FloatsRoundTripAsShortestDecimals) {
  for (const float value : {0.1f, 1e-3f, 0.0025f, 1.0f / 3, 16777217.0f, 3.4e38f, 1e-45f, 5.877472e-39f}) {
    RunConfig config;
    config.policy.noise = value;
    const auto again = parse_config(to_toml(config, false), "x");
    ASSERT_TRUE(again.ok()) << again.error().context;
    EXPECT_EQ(again->policy.noise, value);
  }
  RunConfig config;
  config.policy.noise = 0.1f;
  EXPECT_NE(to_toml(config, false).find("noise = 0.1\n"), std::string::npos);
}

TEST(Config, CostsAreCurrentForAPersonAndTheFirstForARecordWithoutThem) {
  EXPECT_EQ(parse_config("", "x")->input.cost_version(), CostVersion::k2);
  EXPECT_EQ(recorded_config("", "x")->input.cost_version(), CostVersion::k1);
  for (const CostVersion costs : {CostVersion::k1, CostVersion::k2}) {
    const std::string toml = "[input]\ncosts = " + std::string{word_of(costs)} + "\n";
    EXPECT_EQ(parse_config(toml, "x")->input.cost_version(), costs);
    EXPECT_EQ(recorded_config(to_toml(*parse_config(toml, "x"), false), "x")->input.cost_version(), costs);
  }
}

// A record may come from anybody: it decides nothing that a branch, a replay or a learner would import.
TEST(Config, RecordNamesNoCode) {
  const std::string toml = "[executor]\nkind = \"torch\"\nmodel = \"theirs/evil.py:step\"\n";
  EXPECT_EQ(recorded_config(toml, "x")->executor.model, "");
  const std::vector<std::string> own{"executor.model=mine.py:step"};
  EXPECT_EQ(recorded_config(toml, "x", own)->executor.model, "mine.py:step");
  EXPECT_EQ(parse_config(toml, "x", {}, ConfigFrom::kRunFile)->executor.model, "theirs/evil.py:step")
      << "a run that is resumed is this user's own";
}

TEST(Config, WrittenConfigRoundTrips) {
  RunConfig config;
  ASSERT_TRUE(set_option(config, "run.budget=1500ms").ok());
  ASSERT_TRUE(set_option(config, "run.starts=[\"scratch\", \"best-heuristic\"]").ok());
  ASSERT_TRUE(set_option(config, "policy.learning_rate=0.0125").ok());
  ASSERT_TRUE(set_option(config, "input.graph=a \"quoted\" name").ok());
  ASSERT_TRUE(set_option(config, "run.seed=18").ok());
  const std::string text = to_toml(config, true);
  const auto again = parse_config(text, "again");
  ASSERT_TRUE(again.ok()) << again.error().context;
  EXPECT_EQ(to_toml(*again, true), text);
  EXPECT_DOUBLE_EQ(again->run.budget.seconds, 1.5);
  EXPECT_EQ(again->input.graph, "a \"quoted\" name");
  EXPECT_EQ(again->run.seed, 18u);
}

/// A graph that is not in the repository has its place in configs/graphs, and the file's head explains it.
void expect_graphs_are_there_or_explained(const RunConfig& config, const std::filesystem::path& file) {
  std::vector<std::string> graphs = config.input.graphs;
  if (!config.input.graph.empty()) graphs.push_back(config.input.graph);
  EXPECT_FALSE(graphs.empty()) << file;
  const std::string text = file_text(file);
  for (const std::filesystem::path graph : graphs) {
    if (std::filesystem::exists(graph)) continue;
    const auto place = (file.parent_path() / graph).lexically_normal().lexically_relative(kConfigs);
    EXPECT_EQ(place.begin()->string(), "graphs") << graph << " of " << file;
    const bool explained =
        text.find("--set input.graph=DIR/" + graph.filename().string()) != std::string::npos ||
        text.find("emplace generate ") != std::string::npos || text.find("bench/") != std::string::npos;
    EXPECT_TRUE(explained) << file;
  }
}

TEST(Config, ReadsEveryDeviceFile) {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator{kConfigs / "devices"}) {
    const auto devices = load_devices(entry.path());
    ASSERT_TRUE(devices.ok()) << devices.error().context;
    const std::string name = entry.path().stem().string();
    EXPECT_EQ((*devices)[DeviceId{0}].profile.kind,
              name == "gpus-only" || name.ends_with("-k80") ? "gpu" : "cpu")
        << entry.path();
    ++read;
  }
  EXPECT_GE(read, 22u);
}

/// True for the plan of bench/papers.py, the recipe of `emplace train` and presets, which are no configs.
bool is_plan(const std::filesystem::path& file) {
  return file.parent_path() == kConfigs / "papers" || file.parent_path() == kConfigs / "pretrained" ||
         file.parent_path() == kConfigs / "presets";
}

TEST(Config, ReadsAndChecksEveryShippedConfig) {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{kConfigs}) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".toml" || path.find("/devices/") != std::string::npos ||
        path.find("/clusters/") != std::string::npos || entry.path().filename() == "reference.toml" ||
        is_plan(entry.path()))
      continue;
    const auto config = load_config(entry.path());
    ASSERT_TRUE(config.ok()) << config.error().context;
    const auto checked = check_config(*config);
    EXPECT_TRUE(checked.ok()) << path << ": " << checked.error().context;
    expect_graphs_are_there_or_explained(*config, entry.path());
    // Workloads measured by latency bring their machine.
    EXPECT_TRUE(config->input.devices.empty() ? config->objective.kind == Objective::kLatency
                                              : std::filesystem::exists(config->input.devices))
        << path;
    ++read;
  }
  EXPECT_GE(read, 20u);
}

/// [commands] Words of each `emplace generate` in the head of a config; "\\" at the end of a line joins
/// lines.
std::vector<std::vector<std::string>> generate_lines(const std::filesystem::path& file) {
  std::vector<std::vector<std::string>> commands;
  std::istringstream text{file_text(file)};
  bool joins = false;
  for (std::string line; std::getline(text, line) && line.starts_with('#');) {
    const std::size_t at = line.find("emplace generate ");
    if (at == std::string::npos && !joins) continue;
    if (!joins) commands.emplace_back();
    std::istringstream words{line.substr(joins ? 1 : at)};
    joins = false;
    for (std::string word; words >> word;) {
      if (word == "\\")
        joins = true;
      else
        commands.back().push_back(word);
    }
  }
  return commands;
}

// The generate line in the head of a config makes its graph: its options are those of the model, and its
// output is the file or folder that the config reads.
TEST(Config, GenerateLinesOfPapersMakeTheGraphOfTheConfig) {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{kConfigs / "papers"}) {
    if (entry.path().extension() != ".toml" || is_plan(entry.path())) continue;
    const auto config = load_config(entry.path());
    ASSERT_TRUE(config.ok()) << config.error().context;
    const std::string graph = config->input.graph.empty() ? config->input.graphs.at(0) : config->input.graph;
    for (const std::vector<std::string>& words : generate_lines(entry.path())) {
      ASSERT_GT(words.size(), 3u) << entry.path();
      const std::string output = words.back();
      EXPECT_EQ(words[words.size() - 2], "-o") << entry.path();
      EXPECT_NE(graph.find(output.substr(std::string{"configs/"}.size())), std::string::npos)
          << entry.path() << ": " << output << " is not " << graph;
      ++read;
      const auto option = [&](std::string_view name) -> std::optional<std::string> {
        const auto found = std::find(words.begin(), words.end(), name);
        return found == words.end() ? std::nullopt : std::optional{*(found + 1)};
      };
      if (option("--count")) {
        EXPECT_TRUE(models::find_family(words[2]).ok()) << words[2];
        continue;
      }
      const models::ModelFacts* model = models::find_model(words[2]);
      ASSERT_NE(model, nullptr) << entry.path() << ": " << words[2];
      models::ModelSizes sizes{.steps = model->steps ? std::optional<std::int64_t>{2} : std::nullopt};
      const auto number = [&](std::string_view name) -> std::optional<std::int64_t> {
        const auto text = option(name);
        return text ? std::optional<std::int64_t>{std::stoll(*text)} : std::nullopt;
      };
      sizes.batch = number("--batch"), sizes.layers = number("--layers"), sizes.hidden = number("--hidden");
      sizes.split = number("--split");
      if (const auto optimizer = option("--optimizer"))
        sizes.optimizer = *parse_word<models::Optimizer>(*optimizer);
      const bool tensorflow = option("--granularity") == "tensorflow";
      const auto made = models::model_graph(
          *model, sizes,
          {.granularity = tensorflow ? models::Granularity::kTensorFlow : models::Granularity::kAten});
      EXPECT_TRUE(made.ok()) << entry.path() << ": " << made.error().context;
      const auto has = [&](std::string_view part) { return output.find(part) != std::string::npos; };
      EXPECT_EQ(has("tensorflow"), tensorflow) << output;
      EXPECT_TRUE(!sizes.layers || has(std::to_string(*sizes.layers) + "layer")) << output;
      EXPECT_TRUE(!sizes.hidden || has("hidden" + std::to_string(*sizes.hidden))) << output;
      EXPECT_TRUE(!sizes.split || has("split" + std::to_string(*sizes.split))) << output;
      EXPECT_TRUE(!sizes.batch || has("bs" + std::to_string(*sizes.batch))) << output;
    }
  }
  EXPECT_GE(read, 20u);
}

// Paper: Hierarchical 2018, table 1; Spotlight 2018, section 5.3, table 1; Placeto 2019, section 4.2.
TEST(Config, ExperimentsOfPapersHaveTheirNumbers) {
  const auto config = [](const std::string& name) {
    const auto read = load_config(kConfigs / "papers" / name);
    EXPECT_TRUE(read.ok()) << name << ": " << read.error().context;
    EXPECT_EQ(read->policy.preset, "paper") << name;
    return *read;
  };
  const auto gpus = [](const RunConfig& of) {
    const auto devices = load_devices(of.input.devices);
    EXPECT_TRUE(devices.ok()) << devices.error().context;
    return devices->size() - 1;
  };
  const RunConfig planner = config("hierarchical/nmt-8layer.toml");
  EXPECT_EQ(gpus(planner), 8u);
  EXPECT_EQ(planner.run.episodes, 1000u);
  EXPECT_EQ(planner.policy.groups, 256u);
  const RunConfig cnn = config("spotlight/cifar10_cnn.toml");
  EXPECT_EQ(cnn.run.episodes * cnn.policy.placements, 20'000u);
  EXPECT_EQ(cnn.policy.grouping, GroupingRule::kPrefix);
  for (const char* name :
       {"spotlight/cifar10_cnn.toml", "spotlight/nmt-8layer.toml", "spotlight/rnnlm-4layer.toml"}) {
    EXPECT_EQ(gpus(config(name)), 4u);
    EXPECT_EQ(config(name).policy.training.steps_per_update, 10u);
  }
  for (const char* name : {"colocrl/rnnlm.toml", "colocrl/nmt-2layer.toml", "colocrl/inception_v3.toml",
                           "colocrl/rnnlm-large.toml", "colocrl/nmt-2layer-large.toml"}) {
    EXPECT_EQ(config(name).policy.grouping, GroupingRule::kCell) << name;
    EXPECT_EQ(gpus(config(name)), 4u);
  }
  for (const auto& [family, groups] :
       {std::pair{"cifar10", 128u}, std::pair{"ptb", 128u}, std::pair{"nmt", 160u}}) {
    const RunConfig one = config("placeto/family-" + std::string{family} + "-paper.toml");
    EXPECT_EQ(one.policy.groups, groups);
    EXPECT_EQ(one.policy.initial, policy::InitialPlacement::kFixedRandom);
    EXPECT_EQ(one.run.starts, std::vector<std::string>{"scratch"});
    EXPECT_EQ(one.executor.kind, "sim") << "the simulator that judges";
    const auto devices = load_devices(one.input.devices);
    ASSERT_TRUE(devices.ok()) << devices.error().context;
    EXPECT_EQ(devices->size(), groups == 160 ? 4u : 2u) << "GPUs only";
    EXPECT_EQ((*devices)[DeviceId{1}].memory_bytes, 8'000'000'000);
  }
  for (const char* name : {"placeto/inception_v3.toml", "placeto/nmt-2layer.toml", "placeto/nmt-4layer.toml",
                           "placeto/nasnet_a.toml"}) {
    EXPECT_EQ(config(name).policy.initial, policy::InitialPlacement::kFixedRandom) << name;
    EXPECT_EQ(gpus(config(name)), config(name).input.devices.find("4gpu") != std::string::npos ? 3u : 1u)
        << "no CPU beside them";
  }
}

TEST(Config, ReserveIsAShareOrASize) {
  EXPECT_EQ(parse_config("[input]\nreserve = 0.1\n", "x")->input.reserve, *parse_reserve("10%"));
  EXPECT_EQ(parse_config("[input]\nreserve = \"10%\"\n", "x")->input.reserve, *parse_reserve("10%"));
  EXPECT_EQ(parse_config("[input]\nreserve = 0\n", "x")->input.reserve, Reserve{});
  const auto size = parse_config("[input]\nreserve = \"2GiB\"\n", "x");
  ASSERT_TRUE(size.ok()) << size.error().context;
  EXPECT_EQ(size->input.reserve.bytes, std::int64_t{2} << 30);
  EXPECT_EQ(parse_config(to_toml(*size, false), "x")->input.reserve, size->input.reserve);
  EXPECT_NE(to_toml(RunConfig{}, false).find("\nreserve = 0.0\n"), std::string::npos) << "as in old records";
  for (const char* wrong : {"-0.5", "1.5", "\"much\"", "true", "\"-1GiB\""})
    EXPECT_FALSE(parse_config(std::string{"[input]\nreserve = "} + wrong + "\n", "x").ok()) << wrong;
}

TEST(Config, FindsAModelFileBesideTheConfigAndKeepsModuleNames) {
  const emplace::testing::ScratchFolder folder{"model-config"};
  const auto file = folder.path() / "run.toml";
  const auto model_of = [&](const std::string& model) {
    std::ofstream{file} << "[input]\ngraph = \"g\"\n[executor]\nkind = \"torch\"\nmodel = \"" << model
                        << "\"\n";
    return load_config(file)->executor.model;
  };
  std::filesystem::create_directory(folder.path() / "models");
  std::ofstream{folder.path() / "models/step.py"} << "";
  EXPECT_EQ(model_of("models/step.py:make"), (folder.path() / "models/step.py:make").string());
  EXPECT_EQ(model_of("models/other.py:make"), "models/other.py:make") << "not there";
  EXPECT_EQ(model_of("models.step:make"), "models.step:make");
  EXPECT_EQ(absolute_model("models/other.py:make"),
            (std::filesystem::current_path() / "models/other.py:make").string());
  EXPECT_EQ(absolute_model("models.step:make"), "models.step:make");
  EXPECT_EQ(absolute_model(""), "");
}

TEST(Config, MachineOfAConfigMayBeAFileAndThatOfARecordIsKept) {
  const emplace::testing::ScratchFolder folder{"machine-config"};
  const auto file = folder.path() / "run.toml";
  std::ofstream{file} << "[input]\ngraph = \"g\"\ndevices = \"h100\"\n";
  EXPECT_EQ(load_config(file)->input.devices, "h100") << "no such file";
  std::filesystem::create_directory(folder.path() / "h100");
  EXPECT_EQ(load_config(file)->input.devices, "h100") << "a folder";
  std::filesystem::remove(folder.path() / "h100");
  std::ofstream{folder.path() / "h100"} << "";
  EXPECT_EQ(load_config(file)->input.devices, (folder.path() / "h100").string());
  EXPECT_EQ(load_config(file, {}, ConfigFrom::kRecord)->input.devices, "h100");
}

TEST(Config, SendsAMachineTextUnchanged) {
  RunConfig config;
  config.input.graph = std::string{EMPLACE_FIXTURES} + "/graphs/cifar10_cnn-bs4.json.gz";
  config.input.devices = "2 x (h100 x 8 by nvlink4) by ib-ndr";
  const auto manifest = make_manifest(config, {}, {}, {"scratch", {}});
  ASSERT_TRUE(manifest.ok()) << manifest.error().context;
  EXPECT_EQ(manifest->facts.files.size(), 1u) << "the graph";
  EXPECT_NE(manifest->facts.config.find("devices = \"2 x (h100 x 8 by nvlink4) by ib-ndr\""),
            std::string::npos);
  config.input.devices = "here";
  const auto here = make_manifest(config, {}, {}, {"scratch", {}});
  ASSERT_FALSE(here.ok());
  EXPECT_NE(here.error().context.find("input.devices: = \"here\" is this machine"), std::string::npos);
}

TEST(Config, DefaultsOfThePolicyAreThoseOfThePapers) {
  const PolicySection p;
  EXPECT_EQ(p.groups, 256u);
  EXPECT_EQ(p.hierarchical.hidden, 256);
  EXPECT_EQ(p.hierarchical.grouper_hidden, 64);
  EXPECT_EQ(p.placements, 4u);
  EXPECT_EQ(p.training.learning_rate.start, 0.1f);
  EXPECT_EQ(p.training.adam.clip_norm, 1.0f);
  EXPECT_EQ(p.hierarchical.tanh_constant, 5.0f);
  EXPECT_EQ(p.hierarchical.temperature, 10.0f);
  const RewardSection r;
  EXPECT_EQ(r.reward.transform, policy::Transform::kSqrt);
  EXPECT_DOUBLE_EQ(r.reward.failing_signal, 10.0);
  EXPECT_EQ(r.valid_only_after, 500u);
}

TEST(Config, DefaultsDependOnMethodAndPreset) {
  const auto spotlight = parse_config(
      "[policy]\nmethod = \"spotlight\"\npreset = \"paper\"\n[policy.sequence]\nhidden = 32\n", "x");
  ASSERT_TRUE(spotlight.ok()) << spotlight.error().context;
  EXPECT_EQ(spotlight->policy.loss.kind, policy::LossKind::kKlPenalised);
  EXPECT_EQ(spotlight->policy.training.steps_per_update, 10u);
  EXPECT_EQ(spotlight->policy.sequence.network.layers, 2u);
  EXPECT_EQ(spotlight->reward.baseline.kind, policy::BaselineKind::kMean);
  EXPECT_EQ(spotlight->policy.sequence.network.hidden, 32) << "the file overrides the defaults";
  const std::vector<std::string> settings{"policy.placeto.rounds=2", "policy.method=placeto"};
  const auto placeto = parse_config("[policy]\nmethod = \"spotlight\"\npreset = \"paper\"\n", "x", settings);
  ASSERT_TRUE(placeto.ok()) << placeto.error().context;
  EXPECT_EQ(placeto->policy.placeto.network.rounds, 2u);
  EXPECT_EQ(placeto->reward.baseline.returns, policy::Returns::kIntermediate);
  EXPECT_EQ(placeto->pipeline.max_outstanding, 8u);
  for (const std::string_view method : policy::methods()) {
    for (const std::string_view preset : {"paper", "tuned"}) {
      auto config = method_defaults(method, preset);
      ASSERT_TRUE(config.ok());
      config->input.graph = "g";
      config->input.devices = "d";
      EXPECT_TRUE(check_config(*config).ok())
          << method << " " << preset << ": " << check_config(*config).error().context;
      const auto again = parse_config(to_toml(*config, false), "again");
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(to_toml(*again, false), to_toml(*config, false)) << "the written config is complete";
    }
  }
  EXPECT_FALSE(parse_config("[policy]\npreset = \"best\"\n", "x").ok());
  EXPECT_FALSE(recorded_config("[policy]\npreset = \"best\"\n", "x").ok());
  for (const std::string_view method : {"hierarchical", "colocrl", "spotlight"}) {
    const RunConfig tuned = *method_defaults(method, "tuned");
    const float bound = method == "hierarchical" ? tuned.policy.hierarchical.tanh_constant
                                                 : tuned.policy.sequence.network.tanh_constant;
    EXPECT_GT(bound, 0) << method << ": unbounded logits settle on one device";
    EXPECT_GT(tuned.pipeline.redraws, 0u) << method;
    EXPECT_EQ(word_of(tuned.policy.loss.kind), method == "spotlight" ? "kl" : "reinforce")
        << "the paper's own";
  }
}

// A record of an older program lacks the keys that came later: they must not change what it learned.
TEST(Config, KeyThatARecordLacksIsOffWhateverItsPreset) {
  const std::string written = to_toml(*method_defaults("colocrl", "tuned"), false);
  const std::string line = "fits_first = true\n";
  ASSERT_NE(written.find(line), std::string::npos);
  std::string older = written;
  older.erase(older.find(line), line.size());
  const auto by_a_person = parse_config(older, "x");
  const auto by_a_run = recorded_config(older, "x");
  ASSERT_TRUE(by_a_person.ok() && by_a_run.ok());
  EXPECT_TRUE(by_a_person->reward.fits_first);
  EXPECT_FALSE(by_a_run->reward.fits_first);
  EXPECT_EQ(differing_keys(*by_a_person, *by_a_run), std::vector<std::string>{"reward.fits_first"});
  EXPECT_EQ(to_toml(*recorded_config(written, "x"), false), written);
}

TEST(Config, GroupsOfColocRlAreThePapersOnlyInThePaperPreset) {
  const auto grouping = [](const Result<RunConfig>& config) { return config->policy.grouping; };
  EXPECT_EQ(grouping(method_defaults("colocrl", "paper")), GroupingRule::kCell);
  EXPECT_EQ(grouping(method_defaults("colocrl", "tuned")), GroupingRule::kScope);
  EXPECT_EQ(grouping(recorded_config("[policy]\nmethod = \"colocrl\"\n", "x")), GroupingRule::kScope);
  const std::string of_a_run = "[policy]\nmethod = \"colocrl\"\ngrouping = \"colocation\"\n";
  EXPECT_EQ(grouping(recorded_config(of_a_run, "x")), GroupingRule::kColocation);
}

TEST(Config, StartOfTheDecoderIsThePapersOnlyInThePaperPreset) {
  const auto of = [](const Result<RunConfig>& config) {
    const auto& policy = config->policy;
    return policy::section_of(policy.method) == "sequence" ? policy.sequence.network.start_from_encoder
                                                           : policy.hierarchical.start_from_encoder;
  };
  for (const auto& [method, paper, before] :
       {std::tuple{"hierarchical", true, false}, std::tuple{"random-grouping", true, false},
        std::tuple{"colocrl", true, true}, std::tuple{"spotlight", true, true}}) {
    EXPECT_EQ(of(method_defaults(method, "paper")), paper) << method;
    EXPECT_EQ(of(method_defaults(method, "tuned")), before) << method;
    EXPECT_EQ(of(recorded_config("[policy]\nmethod = \"" + std::string{method} + "\"\n", "x")), before);
  }
}

TEST(Config, ErrorsNamePlaceAndCure) {
  expect_refused("[run]\nseeed = 3\n", "bad.toml:2: unknown key 'seeed'; did you mean 'seed'?");
  expect_refused("[runs]\nseed = 3\n", "did you mean 'run'?");
  expect_refused("[run]\nbudget = \"60 parsecs\"\n", "unknown unit");
  expect_refused("[run]\nbudget = 60\n", "bad.toml:2: 'budget' must be a text with a unit");
  expect_refused("[run]\nseed = -1\n", "out of range");
  expect_refused("[run]\nseed = \"x\"\n", "must be a whole number");
  expect_refused("[pipeline]\ncontrollers = 5000000000\n", "out of range");
  expect_refused("[run\nseed = 1\n", "bad.toml:1: is not TOML");
  expect_refused("run = 3\n", "must be a table");
  expect_refused("[policy]\ngroups = 3\ngroups = 4\n", "is not TOML");
  expect_refused("[policy.placeto]\nround = 3\n", "bad.toml:2: unknown key 'round'; did you mean 'rounds'?");
  expect_refused("[policy.plaeto]\nrounds = 3\n", "did you mean 'placeto'?");
  expect_refused(
      "[policy]\nloss = \"kll\"\n",
      "bad.toml:2: unknown loss 'kll'; expected one of: reinforce, kl, clipped (did you mean 'kl'?)");
}

TEST(Config, NumberOfExecutorsMayBeAWord) {
  const auto config = parse_config("[executor]\nkind = \"cuda\"\ncount = \"auto\"\n", "config.toml");
  ASSERT_TRUE(config.ok()) << config.error().context;
  EXPECT_EQ(config->executor.count, 0u) << "until the run is planned";
  const std::string written = to_toml(*config, false);
  EXPECT_NE(written.find("\ncount = \"auto\"\n"), std::string::npos) << written;
  EXPECT_EQ(recorded_config(written, "x").value().executor.count, 0u);
}

TEST(Config, RefusesImpossibleValuesByName) {
  const auto refused = [](std::string_view setting, std::string_view key) {
    RunConfig config;
    config.input.graph = "g";
    config.input.devices = "d";
    auto checked = set_option(config, setting);
    if (checked) checked = check_config(config);
    ASSERT_FALSE(checked.ok()) << setting;
    EXPECT_NE(checked.error().context.find(key), std::string::npos) << checked.error().context;
  };
  refused("policy.method=hierarchicall", "did you mean 'hierarchical'");
  refused("input.costs=3", "input.costs = 3: expected 1 to 2");
  refused("reward.returns=final", "reward.returns");
  refused("reward.baseline=step-mean", "step-mean");
  refused("reward.baseline_per=hosts", "did you mean 'host'?");
  refused("reward.outlier=-1", "reward.outlier");
  refused("reward.valid_target=-0.1", "reward.valid_target");
  refused("reward.valid_target=1", "reward.valid_target = 1.0: expected at least 0 and below 1");
  refused("reward.valid_target=0.5", "reward.graded_memory");
  refused("reward.memory_penalty=share", "reward.graded_memory");
  refused("policy.loss=ppo",
          "--set policy.loss: unknown loss 'ppo'; expected one of: reinforce, kl, clipped");
  refused("input.graphs=[\"a\"]", "input.graphs");
  refused("executor.kind=quantum", "executor.kind");
  refused("pipeline.controllers=0", "pipeline.controllers = 0: expected at least 1");
  refused("policy.placeto.hidden=0", "policy.placeto.hidden = 0: expected 1 to 4096");
  refused("policy.clip=1.5", "policy.clip = 1.5: expected 0.001 to 0.999");
  refused("executor.counts=[\"quantum\"]", "executor.counts");
  refused("executor.count=0", "executor.count: 'count' is 0; expected at least 1, or \"auto\"");
  refused("executor.count=all", "executor.count: 'count' is 'all'; expected at least 1, or \"auto\"");
  refused("executor.count=auto", "executor.count: = 'auto' counts GPUs, but executor.kind is 'sim'");
  refused("pipeline.speculate=2", "pipeline.speculate");
  refused("pipeline.batch_episodes=9", "no batch would ever be full");
  refused("run.deterministic=true", "run.episodes");
  refused("run.budget=0s", "run.budget");
  refused("run.starts=[]", "run.starts");
  refused("executor.window=1", "executor.window");
  refused("executor.stop_ratio=0.5", "executor.stop_ratio: is below 1");
  refused("executor.allow=recompute,offlaod", "executor.allow: unknown kind of decision 'offlaod'");
  refused("executor.allow=all", "executor.allow: has 'order', but a run searches for none; use");
  RunConfig config;
  EXPECT_FALSE(set_option(config, "nonsense").ok());
  EXPECT_EQ(set_option(config, "policy.grups=3").error().context,
            "--set policy.grups: unknown key 'grups'; did you mean 'groups'?");
  EXPECT_EQ(set_option(config, "policy.groups=many").error().context,
            "--set policy.groups: 'groups' must be a whole number");
}

TEST(Config, OnlySimulatedStepsHaveDecisionsAboutMemory) {
  RunConfig config = *parse_config("[input]\ngraph = 'g.json'\n[executor]\nallow = 'recompute'\n", "x");
  EXPECT_TRUE(check_config(config).ok());
  const auto refused = [&](auto&& change, const std::string& part) {
    RunConfig changed = config;
    change(changed);
    const auto done = check_config(changed);
    ASSERT_FALSE(done.ok()) << part;
    EXPECT_EQ(done.error().code, Errc::kInvalid);
    EXPECT_TRUE(done.error().context.starts_with("executor.allow: = 'recompute' needs " + part))
        << done.error().context;
    changed.executor.allow = "none";
    EXPECT_TRUE(check_config(changed).ok()) << check_config(changed).error().context;
  };
  refused([](RunConfig& c) { c.executor.kind = "cpu"; }, "executor.kind = 'sim', not 'cpu'");
  refused([](RunConfig& c) { c.executor.kind = "placeto"; }, "executor.kind = 'sim', not 'placeto'");
  refused([](RunConfig& c) { c.executor.counts = {"sim", "cpu"}; }, "executor.counts");
  refused([](RunConfig& c) { c.executor.dispatch = Dispatch::kFifo; }, "objective.kind = 'step-time' and");
  refused([](RunConfig& c) { c.objective.kind = Objective::kThroughput; }, "objective.kind = 'step-time'");
}

}  // namespace
}  // namespace emplace::launcher
