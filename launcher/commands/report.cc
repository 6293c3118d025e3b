#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/text/words.h"
#include "launcher/commands/commands.h"
#include "launcher/session/report.h"
#include "launcher/settings/json_object.h"
#include "record/report/verdict.h"

namespace emplace::launcher {
namespace {

class Report final : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view summary() const override { return "One page that explains a run: any browser opens it"; }
  void declare(Options& options) override {
    options.operand("RUN", run_, "Run directory, finished or not");
    options.option("-o,--output", output_, "Page to write (default: RUN/report.html)");
  }
  Result<ExitStatus> run(Console& console) override {
    const SystemClock clock;
    const std::filesystem::path page =
        output_.empty() ? std::filesystem::path{run_} / "report.html" : std::filesystem::path{output_};
    EMPLACE_TRY_ASSIGN(const auto written, write_report(run_, page, clock));
    if (console.json()) {
      console.print(as_json(written.data, page).text());
    } else {
      for (const record::ReportGraph& graph : written.data.graphs)
        console.print((written.data.graphs.size() > 1 ? printable(graph.name) + ": " : std::string{}) +
                      record::verdict_of(graph, written.data.going_on).sentence);
      console.print("written    " + printable(page.string()));
    }
    return ExitStatus::kDone;
  }

 private:
  static JsonObject as_json(const record::ReportData& data, const std::filesystem::path& page) {
    JsonObject json;
    json.add("report", page.string()).add("bytes", std::uint64_t{std::filesystem::file_size(page)});
    json.add("going_on", data.going_on);
    std::vector<JsonObject> graphs;
    for (const record::ReportGraph& graph : data.graphs) {
      const record::ReportVerdict verdict = record::verdict_of(graph, data.going_on);
      JsonObject& one = graphs.emplace_back();
      one.add("graph", graph.name).add("graph_sha256", graph.sha256).add("verdict", verdict.sentence);
      if (verdict.best_method.empty()) {
        one.add_null("best_method").add_null("best_step_time_s");
      } else {
        one.add("best_method", verdict.best_method).add("best_step_time_s", verdict.best_s);
      }
      if (graph.lower_bound_s > 0) {
        one.add("lower_bound_s", graph.lower_bound_s);
      } else {
        one.add_null("lower_bound_s");
      }
    }
    json.add("graphs", std::move(graphs));
    return json;
  }

  std::string run_, output_;
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace emplace::launcher
