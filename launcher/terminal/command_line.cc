#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/lab_words.h"
#include "base/text/words.h"
#include "launcher/terminal/build_info.h"
#include "launcher/terminal/command.h"

namespace emplace::launcher {
namespace {

constexpr std::pair<const char*, Verbosity> kLevels[] = {{"debug", Verbosity::kDebug},
                                                         {"info", Verbosity::kInfo},
                                                         {"warning", Verbosity::kWarning},
                                                         {"error", Verbosity::kError}};

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views{known.begin(), known.end()};
  const std::string_view near = nearest_word(word, views);
  return near.empty() ? std::string{} : "did you mean '" + std::string{near} + "'?";
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// The error for an option or argument that the command does not take.
Error unexpected(const std::string& where, const std::string& word, const CLI::App& app) {
  const bool option = word.starts_with('-');
  const std::string bare = word.substr(0, word.find('='));
  const std::string near = option ? suggestion(bare, option_names(app)) : "";
  return invalid(where, (option ? "unknown option '" : "unexpected argument '") + printable(bare, 80) + "'",
                 near.empty() ? "'" + where + " --help' lists the options" : near);
}

/// CLI11's check: "" if `text` is a whole number below 2^64. CLI11 alone would accept -1 and overflows as
/// very large numbers.
std::string whole_number(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole ? std::string{} : "'" + printable(text, 40) + "' is not a whole number below 2^64";
}

void declare_common(CLI::App& app, CommonOptions& common, CLI::Option*& seed) {
  app.add_flag("--json", common.json, "Print one JSON object on standard output and nothing else there");
  app.add_flag("--quiet,-q", common.quiet, "Print no progress and no notes");
  app.add_option("--log-level", common.log_level_name, "Lowest level to print: debug, info, warning or error")
      ->capture_default_str();
  seed = app.add_option("--seed", common.seed, "Seed of the random number generators")
             ->capture_default_str()
             ->check(whole_number);
}

Result<Unit> finish_common(const std::string& where, CommonOptions& common, const CLI::Option& seed) {
  common.seed_given = seed.count() > 0;
  for (const auto& [name, level] : kLevels) {
    if (common.log_level_name != name) continue;
    common.log_level = level;
    return Unit{};
  }
  std::vector<std::string> names;
  for (const auto& [name, level] : kLevels) names.emplace_back(name);
  const std::string near = suggestion(common.log_level_name, names);
  return invalid(where, "--log-level '" + printable(common.log_level_name, 40) + "' is unknown",
                 near.empty() ? "levels: debug, info, warning, error" : near);
}

/// The command line as a CLI11 app with one subcommand per command.
class Parser {
 public:
  explicit Parser(const Commands& commands)
      : app_{"Learns on which device each operation of a neural network should run.", "emplace"} {
    app_.set_version_flag("--version", describe(build_info()));
    app_.require_subcommand(0, 1);
    app_.allow_extras();  // first_extra() reports unknown arguments in our own format.
    app_.footer(
        "Exit status: 0 done, 2 bad input, 3 no valid placement, 4 run failed, 129/130/143 stopped by "
        "SIGHUP, SIGINT, SIGTERM.");
    branches_.reserve(commands.size());
    for (const auto& command : commands) {
      CLI::App* sub = app_.add_subcommand(std::string{command->name()}, std::string{command->summary()});
      if (command->summary().empty()) sub->group("");
      if (!command->example().empty()) sub->footer("Example: " + std::string{command->example()});
      sub->allow_extras();
      branches_.push_back({command.get(), sub, {}, nullptr});
      Branch& branch = branches_.back();
      Options options{*sub};
      command->declare(options);
      declare_common(*sub, branch.common, branch.seed);
    }
  }

  struct Branch {
    Command* command;
    CLI::App* app;
    CommonOptions common;
    CLI::Option* seed;
  };

  /// Returns the command to run; null if help or version was printed. Errors: kInvalid.
  Result<Branch*> parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help or --version was given.
      app_.exit(asked);
      return static_cast<Branch*>(nullptr);
    } catch (const CLI::ParseError& error) {
      if (auto extra = first_extra()) return *extra;
      return invalid(where(), decapitalised(error.what()), "'" + where() + " --help' shows the usage");
    }
    if (auto extra = first_extra()) return *extra;
    Branch* chosen = this->chosen();
    if (chosen == nullptr)
      return invalid("emplace", "no command given", "'emplace --help' lists the commands");
    if (auto finished = finish_common(where(), chosen->common, *chosen->seed); !finished)
      return finished.error();
    return chosen;
  }

 private:
  Branch* chosen() {
    const auto found =
        std::find_if(branches_.begin(), branches_.end(), [](const Branch& b) { return b.app->parsed(); });
    return found == branches_.end() ? nullptr : &*found;
  }
  std::string where() {
    const Branch* branch = chosen();
    return branch == nullptr ? "emplace" : "emplace " + branch->app->get_name();
  }
  std::optional<Error> first_extra() {
    if (const Branch* branch = chosen()) {
      const auto extras = branch->app->remaining();
      if (!extras.empty()) return unexpected(where(), extras.front(), *branch->app);
    }
    const auto extras = app_.remaining();
    if (extras.empty()) return std::nullopt;
    if (chosen() != nullptr)
      return invalid("emplace", "'" + printable(extras.front(), 60) + "' comes before the command",
                     "put it after the command");
    const auto word =
        std::find_if(extras.begin(), extras.end(), [](const std::string& w) { return !w.starts_with('-'); });
    if (word == extras.end()) return unexpected("emplace", extras.front(), app_);
    if (auto missing = not_in_this_build(LabWord::kCommand, "command '" + printable(*word, 60) + "'", *word))
      return missing;
    std::vector<std::string> names;
    for (const Branch& branch : branches_) names.push_back(branch.app->get_name());
    const std::string near = suggestion(*word, names);
    return invalid("emplace", "unknown command '" + printable(*word, 60) + "'",
                   near.empty() ? "'emplace --help' lists the commands" : near);
  }
  static std::string decapitalised(std::string text) {
    if (text.size() > 1 && std::isupper(static_cast<unsigned char>(text[1])) == 0) {
      text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    }
    return text;
  }

  CLI::App app_;
  std::vector<Branch> branches_;
};

}  // namespace

Options& Options::operand(const char* name, std::string& value, const char* help) {
  app_.add_option(name, value, help)->required();
  return *this;
}

Options& Options::optional_operand(const char* name, std::string& value, const char* help) {
  app_.add_option(name, value, help);
  return *this;
}
Options& Options::operands(const char* name, std::vector<std::string>& values, const char* help) {
  app_.add_option(name, values, help)->required();
  return *this;
}
Options& Options::optional_operands(const char* name, std::vector<std::string>& values, const char* help) {
  app_.add_option(name, values, help);
  return *this;
}
Options& Options::required(const char* names, std::string& value, const char* help) {
  app_.add_option(names, value, help)->required();
  return *this;
}
Options& Options::option(const char* names, std::string& value, const char* help) {
  CLI::Option* option = app_.add_option(names, value, help);
  if (!value.empty()) option->capture_default_str();
  return *this;
}
Options& Options::non_empty(const char* names, std::string& value, const char* help) {
  app_.add_option(names, value, help)->check([](const std::string& text) {
    return std::string{text.empty() ? "is empty; leave the option out for the default" : ""};
  });
  return *this;
}
Options& Options::option(const char* names, std::uint64_t& value, const char* help) {
  app_.add_option(names, value, help)->capture_default_str()->check(whole_number);
  return *this;
}
Options& Options::option(const char* names, std::vector<std::string>& values, const char* help) {
  app_.add_option(names, values, help)
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}
Options& Options::repeated(const char* names, std::vector<std::string>& values, const char* help) {
  app_.add_option(names, values, help)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}
Options& Options::flag(const char* names, bool& value, const char* help) {
  app_.add_flag(names, value, help);
  return *this;
}

ExitStatus exit_status(Errc code) {
  switch (code) {
    case Errc::kInvalid:
    case Errc::kIo:
    case Errc::kUnsupported:
      return ExitStatus::kBadInput;
    case Errc::kOutOfMemory:
    case Errc::kNoPlacement:
      return ExitStatus::kNoPlacement;
    case Errc::kDeadline:
    case Errc::kPeerLost:
    case Errc::kRunFailed:
    case Errc::kDeviceLost:
      return ExitStatus::kRunFailed;
  }
  return ExitStatus::kRunFailed;
}

int run_command_line(int argc, const char* const* argv, const Commands& commands) {
  Parser parser{commands};
  auto parsed = parser.parse(argc, argv);
  if (!parsed) {
    Console{{}, stdout, stderr}.error(parsed.error().context);
    return static_cast<int>(exit_status(parsed.error().code));
  }
  if (*parsed == nullptr) return 0;
  Console console{(*parsed)->common, stdout, stderr};
  const Result<ExitStatus> done = [&]() -> Result<ExitStatus> {
    try {
      return (*parsed)->command->run(console);
    } catch (const std::exception& error) {  // Out of memory, or a folder that may not be read.
      return Error{Errc::kRunFailed,
                   std::string{(*parsed)->command->name()} + ": " + printable(error.what())};
    }
  }();
  if (!done) {
    console.error(done.error().context);
    return static_cast<int>(exit_status(done.error().code));
  }
  if (!console.flush()) {
    console.error("standard output: cannot be written; the disk is full or the pipe is closed");
    return static_cast<int>(ExitStatus::kBadInput);
  }
  return static_cast<int>(*done);
}

}  // namespace emplace::launcher
