#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "graph/training/training_graph.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/terminal/json_text.h"

namespace emplace::launcher {
namespace {

class Import final : public Command {
 public:
  Import()
      : Command{"import", "Read a graph in any known format and write it as emplace-graph",
                "emplace import tests/fixtures/graphs/resnet50.onnx --train adam -o resnet50.json.gz"} {}
  void declare(Options& options) override {
    options.operand("FILE", file_, ("Graph file; formats: " + format_names()).c_str());
    options.required("-o,--output", output_, "Graph to write: .json, .json.gz, .json.zst, .epg or .msgpack");
    options.option("--train", train_,
                   "Extend a forward graph to a training step with this optimizer: sgd, momentum, rmsprop or "
                   "adam (default: none)");
    declare_reading(options, reading_);
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto graph, train_.empty() ? open_graph(file_, reading_) : open_trained());
    report_assumptions(graph, file_, console);
    EMPLACE_TRY(save_graph(graph, output_));
    if (console.json()) {
      const Json json{
          {"graph", graph.name()},  {"output", output_},          {"graph_sha256", graph_sha256(graph)},
          {"ops", graph.num_ops()}, {"edges", graph.num_edges()}, {"notes", graph_notes(graph)}};
      console.print(json_text(json));
    } else {
      console.print(fmt::format("{}: {}, {} ops, {} edges", printable(output_), printable(graph.name()),
                                graph.num_ops(), graph.num_edges()));
    }
    return ExitStatus::kDone;
  }

 private:
  /// Returns the training step of the file's forward graph.
  Result<OpGraph> open_trained() const {
    EMPLACE_TRY_ASSIGN(const auto optimizer, parse_word<models::Optimizer>(train_));
    EMPLACE_TRY_ASSIGN(const auto forward, open_graph(file_, reading_));
    auto step = training_graph(forward, optimizer);
    if (!step) return invalid(printable(file_), step.error().context);
    return step;
  }

  std::string file_, output_, train_;
  GraphReading reading_;
};

}  // namespace

std::unique_ptr<Command> make_import() { return std::make_unique<Import>(); }

}  // namespace emplace::launcher
