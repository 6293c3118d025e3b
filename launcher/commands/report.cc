#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/text/words.h"
#include "launcher/commands/commands.h"
#include "launcher/session/report.h"
#include "launcher/settings/json_text.h"
#include "record/report/verdict.h"

namespace emplace::launcher {
namespace {

class Report final : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view summary() const override { return "Write an HTML page that explains a run"; }
  std::string_view example() const override { return "emplace report runs/nmt"; }
  void declare(Options& options) override {
    options.operand("RUN", run_, "Run directory; the run may still be in progress");
    options.option("-o,--output", output_, "HTML file to write (default: RUN/report.html)");
  }
  Result<ExitStatus> run(Console& console) override {
    const SystemClock clock;
    const std::filesystem::path page =
        output_.empty() ? std::filesystem::path{run_} / "report.html" : std::filesystem::path{output_};
    EMPLACE_TRY_ASSIGN(const auto written, write_report(run_, page, clock));
    if (console.json()) {
      console.print(json_text(as_json(written.data, page)));
    } else {
      for (const record::ReportGraph& graph : written.data.graphs)
        console.print((written.data.graphs.size() > 1 ? printable(graph.name) + ": " : std::string{}) +
                      record::verdict_of(graph, written.data.in_progress).sentence);
      console.print("written    " + printable_path(page));
    }
    return ExitStatus::kDone;
  }

 private:
  static Json as_json(const record::ReportData& data, const std::filesystem::path& page) {
    Json json{{"report", page.string()},
              {"bytes", std::filesystem::file_size(page)},
              {"in_progress", data.in_progress}};
    auto graphs = Json::array();
    for (const record::ReportGraph& graph : data.graphs) {
      const record::ReportVerdict verdict = record::verdict_of(graph, data.in_progress);
      Json& one = graphs.emplace_back();
      one["graph"] = graph.name;
      one["graph_sha256"] = graph.sha256;
      one["verdict"] = verdict.sentence;
      if (verdict.best_method.empty()) {
        one["best_method"] = nullptr;
        one["best_step_time_s"] = nullptr;
      } else {
        one["best_method"] = verdict.best_method;
        one["best_step_time_s"] = verdict.best_s;
      }
      if (graph.lower_bound_s > 0) {
        one["lower_bound_s"] = graph.lower_bound_s;
      } else {
        one["lower_bound_s"] = nullptr;
      }
    }
    json["graphs"] = std::move(graphs);
    return json;
  }

  std::string run_, output_;
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace emplace::launcher
