#include <fmt/core.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/lab_words.h"
#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "graph/models/catalogue.h"
#include "graph/models/families.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/laboratory.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/json_text.h"
#include "launcher/terminal/setting_options.h"
#include "launcher/terminal/stop_signal.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;
using models::Family;

constexpr std::uint32_t kMaxIndex = 999'999, kMaxCount = 1000;

class Generate final : public Command {
 public:
  explicit Generate(const Laboratory& laboratory)
      : Command{"generate",
                "Generate a model of the papers, random graphs of a family (cifar10, ptb, nmt), or worlds",
                "emplace generate rnnlm --layers 1 --steps 10 --training -o rnnlm.json.gz"},
        laboratory_{laboratory} {}
  void declare(Options& options) override {
    options
        .operand(
            "MODEL", name_,
            "Model: inception-v3, resnet-152, rnnlm, nmt, nasnet or cifar10-cnn; with --index or --count a "
            "family: cifar10, ptb or nmt, or worlds: random graphs, each with a machine")
        .required("-o,--output", output_, "Graph file to write, or with --count the folder");
    options
        .option("--layers", layers_,
                "rnnlm, nmt: LSTM layers; nasnet: normal cells per stack (default: depends on the model)")
        .option("--batch", batch_, "Batch size in samples (default: depends on the model)")
        .option("--steps", steps_, "rnnlm, nmt: unrolled time steps (default: depends on the model)")
        .option("--hidden", hidden_, "rnnlm, nmt: units of an LSTM cell (default: 2048, 1024)")
        .option("--split", split_,
                "cifar10-cnn: parts of the convolutions, each with its share of the channels and not "
                "connected to the others (default: 1)")
        .option("--optimizer", optimizer_,
                "Optimizer of the update: sgd, momentum, rmsprop or adam (default: depends on the model)")
        .flag("--training", training_, "Add the backward pass and the update to the forward pass")
        .option(
            "--granularity", granularity_,
            "Granularity of the ops: aten (as torch traces a step) or tensorflow (as TensorFlow 1 builds a "
            "graph) (default: aten)");
    options
        .option("--index", index_,
                "Family, worlds: write the graph of this index, from 0; --seed selects the random family")
        .option(
            "--count", count_,
            "Family: write N graphs, three quarters as train-NN, the others as test-NN (paper: 32); worlds: "
            "write N worlds that the folder lacks");
    options.option("--first", first_, "Worlds: index of the first with --count (default: 0)")
        .flag("--held-out", held_out_,
              "Worlds: draw only families and devices that are never drawn otherwise")
        .option("--traced", traced_, "Worlds: folder of traced graphs to draw a tenth of the graphs from")
        .option("--most-ops", most_ops_, "Worlds: size of the largest graph in ops (default: 25000)");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Result<ExitStatus> model(Console& console) const;
  Result<ExitStatus> worlds(Console& console) const;
  /// Errors (kInvalid): an option that is for models only, given for something else.
  Result<Unit> no_option_of_models(const std::string& reason) const;
  /// Errors (kInvalid): an option that is for worlds only, given for something else.
  Result<Unit> no_option_of_worlds() const;
  Result<ExitStatus> family(Console& console) const;
  Result<ExitStatus> one(Console& console, Family family, std::uint32_t index) const;
  Result<ExitStatus> many(Console& console, Family family, std::uint32_t count) const;

  const Laboratory laboratory_;
  std::string name_, output_, index_, count_, layers_, batch_, steps_, hidden_, split_, optimizer_,
      granularity_, first_, traced_, most_ops_;
  bool training_ = false, held_out_ = false;
};

/// Returns the JSON facts of a graph that every form of the command prints.
Json facts_of(const OpGraph& graph, const std::string& path) {
  std::int64_t flops = 0, state_bytes = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    flops += graph.flops(OpId{i});
    state_bytes += graph.param_bytes(OpId{i});
  }
  Json json{{"graph", graph.name()},
            {"output", path},
            {"graph_sha256", graph_sha256(graph)},
            {"ops", graph.num_ops()},
            {"edges", graph.num_edges()},
            {"flops", flops},
            {"state_bytes", state_bytes},
            {"scopes", graph.num_groups() - 1}};
  return json;
}
Json facts_of(const OpGraph& graph, Family family, const std::string& path) {
  Json json = facts_of(graph, path);
  json["groups"] = models::facts(family).groups;
  return json;
}

std::string summary_of(const OpGraph& graph, const std::string& path) {
  return fmt::format("{}: {}, {} ops, {} edges", printable(path), graph.name(), graph.num_ops(),
                     graph.num_edges());
}

Result<ExitStatus> Generate::run(Console& console) {
  if (name_ == "worlds") return worlds(console);
  EMPLACE_TRY(no_option_of_worlds());
  if (!index_.empty() || !count_.empty()) return family(console);
  if (models::find_model(name_) != nullptr) return model(console);
  if (models::find_family(name_).ok()) {
    return invalid("emplace generate", "neither --index nor --count is given",
                   "--index 0 writes one graph of the family, --count 32 a whole family");
  }
  std::vector<std::string_view> names;
  std::string list;
  for (const models::ModelFacts& known : models::all_models()) {
    names.push_back(known.name);
    list.append(list.empty() ? "models: " : ", ").append(known.name);
  }
  for (const models::FamilyFacts& known : models::all_families()) names.push_back(known.name);
  names.push_back("worlds");
  const std::string_view near = nearest_word(name_, names);
  return invalid("model '" + printable(name_, 60) + "'", "is unknown",
                 near.empty() ? list : "did you mean '" + std::string{near} + "'?");
}

Result<ExitStatus> Generate::model(Console& console) const {
  const models::ModelFacts& model = *models::find_model(name_);
  models::ModelSizes sizes;
  struct Asked {
    const char* option;
    const std::string& text;
    std::optional<std::int64_t>& value;
    std::int64_t high;
  };
  for (const Asked& asked : {Asked{"--layers", layers_, sizes.layers, models::kMaxLayers},
                             Asked{"--batch", batch_, sizes.batch, models::kMaxBatch},
                             Asked{"--steps", steps_, sizes.steps, models::kMaxSteps},
                             Asked{"--hidden", hidden_, sizes.hidden, models::kMaxHidden},
                             Asked{"--split", split_, sizes.split, models::kMaxSplit}}) {
    if (asked.text.empty()) continue;
    EMPLACE_TRY_ASSIGN(asked.value,
                       parse_whole(asked.option, asked.text, 1, static_cast<std::uint32_t>(asked.high)));
  }
  if (!optimizer_.empty()) {
    const auto optimizer = parse_word<models::Optimizer>(optimizer_);
    if (!optimizer) {
      return invalid("--optimizer '" + printable(optimizer_, 60) + "'", "is unknown",
                     "use sgd, momentum, rmsprop or adam");
    }
    sizes.optimizer = *optimizer;
  }
  models::Recording recording{.granularity = models::Granularity::kAten, .training = training_};
  if (granularity_ == "tensorflow") {
    recording.granularity = models::Granularity::kTensorFlow;
  } else if (!granularity_.empty() && granularity_ != "aten") {
    return invalid("--granularity '" + printable(granularity_, 60) + "'", "is unknown",
                   "use aten or tensorflow");
  }
  EMPLACE_TRY_ASSIGN(const auto graph, models::model_graph(model, sizes, recording));
  EMPLACE_TRY(save_graph(graph, output_));
  console.print(console.json() ? json_text(facts_of(graph, output_)) : summary_of(graph, output_));
  return ExitStatus::kDone;
}

/// Errors (kInvalid): an option that is given, and is not for what is generated.
Result<Unit> none_given(std::initializer_list<std::pair<const char*, bool>> options, const std::string& why,
                        std::string_view cure) {
  for (const auto& [option, given] : options)
    if (given) return invalid(option, why, cure);
  return Unit{};
}

Result<Unit> Generate::no_option_of_models(const std::string& reason) const {
  return none_given({{"--layers", !layers_.empty()},
                     {"--batch", !batch_.empty()},
                     {"--steps", !steps_.empty()},
                     {"--hidden", !hidden_.empty()},
                     {"--split", !split_.empty()},
                     {"--optimizer", !optimizer_.empty()},
                     {"--training", training_},
                     {"--granularity", !granularity_.empty()}},
                    "is for models; " + reason, "remove it, or remove --index and --count");
}

Result<Unit> Generate::no_option_of_worlds() const {
  return none_given({{"--first", !first_.empty()},
                     {"--held-out", held_out_},
                     {"--traced", !traced_.empty()},
                     {"--most-ops", !most_ops_.empty()}},
                    "is for worlds", "remove it, or generate worlds");
}

Result<ExitStatus> Generate::worlds(Console& console) const {
  EMPLACE_TRY(no_option_of_models("the sizes of a world are random"));
  if (laboratory_.generate_worlds == nullptr)
    return *not_in_this_build(LabWord::kModel, "model 'worlds'", "worlds");
  return laboratory_.generate_worlds(console, {.output = output_,
                                               .index = index_,
                                               .count = count_,
                                               .first = first_,
                                               .traced = traced_,
                                               .most_ops = most_ops_,
                                               .held_out = held_out_});
}

Result<ExitStatus> Generate::family(Console& console) const {
  const auto family = models::find_family(name_);
  if (!family) {
    if (models::find_model(name_) == nullptr) return family.error();
    return invalid(index_.empty() ? "--count" : "--index",
                   "is for families, and " + printable(name_) + " is a model", "remove it");
  }
  if (!index_.empty() && !count_.empty()) {
    return invalid("emplace generate", "--index conflicts with --count",
                   "--index 0 writes one graph, --count 32 a whole family");
  }
  EMPLACE_TRY(no_option_of_models("the sizes of a family are random, and its graphs are training steps"));
  if (!index_.empty()) {
    EMPLACE_TRY_ASSIGN(const auto index, parse_whole("--index", index_, 0, kMaxIndex));
    return one(console, *family, index);
  }
  EMPLACE_TRY_ASSIGN(const auto count, parse_whole("--count", count_, 2, kMaxCount));
  return many(console, *family, count);
}

Result<ExitStatus> Generate::one(Console& console, Family family, std::uint32_t index) const {
  EMPLACE_TRY_ASSIGN(const auto graph, models::family_graph(family, console.seed(), index));
  EMPLACE_TRY(save_graph(graph, output_));
  console.print(console.json() ? json_text(facts_of(graph, family, output_)) : summary_of(graph, output_));
  return ExitStatus::kDone;
}

/// A folder that is filled atomically: graphs are written to a staging folder beside it and moved at the end.
class Folder {
 public:
  /// Errors: kInvalid if the folder already has graphs of a family; kIo if it cannot be created.
  static Result<Folder> open(const std::string& path) {
    fs::path target = fs::path{path}.lexically_normal();
    if (!target.has_filename()) target = target.parent_path();
    std::error_code error;
    if (fs::exists(target, error) && !fs::is_directory(target, error))
      return invalid(printable(path), "is a file", "give a folder, or use --index for one graph");
    for (fs::directory_iterator it{target, error}, end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (!name.starts_with("train-") && !name.starts_with("test-")) continue;
      return invalid(printable(path), "already contains graphs (" + printable(name, 60) + ")",
                     "give another folder or remove them");
    }
    // The staging folder is hidden and its name has the pid, so that it collides with nothing else.
    fs::path staged =
        target.parent_path() / fmt::format(".{}.partial-{}", target.filename().string(), ::getpid());
    if (!fs::create_directory(staged, error) || error)
      return Error{Errc::kIo, printable(path) + ": cannot be created; check that its parent folder exists"};
    return Folder{std::move(target), std::move(staged)};
  }
  Folder(Folder&& other) noexcept
      : target_{std::move(other.target_)}, staged_{std::exchange(other.staged_, {})} {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!staged_.empty()) fs::remove_all(staged_, ignored);
  }

  fs::path staged(const std::string& name) const { return staged_ / name; }
  std::string final_path(const std::string& name) const { return (target_ / name).string(); }

  /// Moves all graphs into the target folder. Errors: kIo; then none stays there.
  Result<Unit> commit(const std::vector<std::string>& names) {
    std::error_code error;
    if (!fs::exists(target_, error)) {
      fs::rename(staged_, target_, error);
      if (!error) staged_.clear();
    } else {
      for (std::size_t k = 0; k < names.size() && !error; ++k) {
        fs::rename(staged_ / names[k], target_ / names[k], error);
        if (!error) continue;
        std::error_code ignored;
        for (std::size_t j = 0; j < k; ++j) fs::remove(target_ / names[j], ignored);
      }
    }
    if (error) return Error{Errc::kIo, printable_path(target_) + ": cannot be written: " + error.message()};
    return Unit{};
  }

 private:
  Folder(fs::path target, fs::path staged) : target_{std::move(target)}, staged_{std::move(staged)} {}
  fs::path target_, staged_;
};

/// "train-07.json.gz"
std::string member_name(std::string_view part, std::size_t number) {
  return fmt::format("{}-{:02}.json.gz", part, number);
}

Result<ExitStatus> Generate::many(Console& console, Family family, std::uint32_t count) const {
  EMPLACE_TRY_ASSIGN(auto folder, Folder::open(output_));
  const models::FamilySplit split = models::split_family(family, console.seed(), count);
  const SystemClock clock;
  const StopSignal stop;
  LiveView view = console.live_view(clock);
  std::vector<std::string> names;
  auto members = Json::array();
  std::size_t smallest = SIZE_MAX, largest = 0;
  const std::array<std::pair<std::string_view, const std::vector<std::uint32_t>*>, 2> parts{
      {{"train", &split.train}, {"test", &split.test}}};
  for (const auto& [part, indices] : parts) {
    for (std::size_t k = 0; k < indices->size(); ++k) {
      if (stop.received() != 0) return stopped_by(stop.received());
      const std::string name = member_name(part, k);
      const std::string line = fmt::format("generate: {}, {} of {} written", name, names.size(), count);
      if (view.due()) view.show(std::array{line}, line);
      EMPLACE_TRY_ASSIGN(const auto graph, models::family_graph(family, console.seed(), (*indices)[k]));
      EMPLACE_TRY(save_graph(graph, folder.staged(name)));
      names.push_back(name);
      console.debug(name + " is written");
      smallest = std::min(smallest, graph.num_ops());
      largest = std::max(largest, graph.num_ops());
      if (!console.json()) continue;
      members.push_back(facts_of(graph, family, folder.final_path(name)));
      members.back()["part"] = part;
      members.back()["index"] = (*indices)[k];
    }
  }
  view.clear();
  EMPLACE_TRY(folder.commit(names));
  if (console.json()) {
    const Json json{{"family", name_},           {"seed", console.seed()},
                    {"output", output_},         {"train", split.train.size()},
                    {"test", split.test.size()}, {"graphs", members}};
    console.print(json_text(json));
  } else {
    console.print(fmt::format("{}: {} graphs for training, {} for testing, {} to {} ops", printable(output_),
                              split.train.size(), split.test.size(), smallest, largest));
  }
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_generate(const Laboratory& laboratory) {
  return std::make_unique<Generate>(laboratory);
}

}  // namespace emplace::launcher
