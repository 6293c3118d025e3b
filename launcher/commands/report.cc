#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/text/words.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/status_options.h"
#include "launcher/session/report.h"
#include "launcher/terminal/json_text.h"
#include "record/report/verdict.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

class Report final : public Command {
 public:
  Report() : Command{"report", "Write an HTML page that explains a run", "emplace report runs/nmt"} {}
  void declare(Options& options) override {
    options.operand("RUN", run_, "Run directory; the run may still be in progress");
    options.option("-o,--output", output_, "HTML file to write (default: RUN/report.html)")
        .flag("--live", live_,
              "Serve the page until interrupted, and follow the run while it is in progress");
    status_.declare(options, "--status",
                    "Address of the page with --live (default: 127.0.0.1:0, any free port)");
  }
  Result<ExitStatus> run(Console& console) override {
    if (live_) return serve(console);
    if (!status_.address.empty()) return invalid("--status", "is only for --live", "add --live");
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
  /// Serves the page of the run until a signal.
  Result<ExitStatus> serve(Console& console) {
    if (!output_.empty()) return invalid("--output", "conflicts with --live", "remove one of them");
    const SystemClock clock;
    // A directory without a run is an error now, not an empty page.
    EMPLACE_TRY_ASSIGN(const RunReport report, read_report(run_, clock));
    if (status_.address.empty()) status_.address = "127.0.0.1:0";
    const process::EndSignals signals;
    EMPLACE_TRY_ASSIGN(const auto port, status_.open(console));
    if (port == nullptr) return Error{Errc::kIo, status_.address + ": the page cannot be served there"};
    port->show_directory(run_, report.data);
    if (console.json()) {
      const Json json{{"url", port->url()}};
      console.print(json_text(json));
    } else {
      console.print(port->url() + "\n");
    }
    console.flush();
    return static_cast<ExitStatus>(128 + signals.wait());
  }

  static Json as_json(const record::ReportData& data, const std::filesystem::path& page) {
    Json json{{"report", page.string()},
              {"bytes", std::filesystem::file_size(page)},
              {"in_progress", data.in_progress}};
    auto graphs = Json::array();
    for (const record::ReportGraph& graph : data.graphs) {
      const record::ReportVerdict verdict = record::verdict_of(graph, data.in_progress);
      graphs.push_back({{"graph", graph.name},
                        {"graph_sha256", graph.sha256},
                        {"verdict", verdict.sentence},
                        {"best_method", text_or_null(verdict.best_method)},
                        {"best_step_time_s", verdict.best_method.empty() ? kJsonNull : verdict.best_s},
                        {"lower_bound_s", graph.lower_bound_s > 0 ? graph.lower_bound_s : kJsonNull}});
    }
    json["graphs"] = std::move(graphs);
    return json;
  }

  std::string run_, output_;
  StatusOptions status_;
  bool live_ = false;
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace emplace::launcher
