#pragma once
/// What a command takes from its command line, declared without the library that reads it (CLI11 costs
/// seconds per file).

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace emplace::launcher {

/// References must outlive the parse. Names are as CLI11 has them: "GRAPH" for an operand, "-o,--output" for
/// an option. Thread: one.
class Options {
 public:
  explicit Options(CLI::App& app) : app_{app} {}

  /// A word without dashes that must be given.
  Options& operand(const char* name, std::string& value, const char* help);
  /// One that may be left out.
  Options& optional_operand(const char* name, std::string& value, const char* help);
  /// One or more words without dashes.
  Options& operands(const char* name, std::vector<std::string>& values, const char* help);
  /// An option that must be given.
  Options& required(const char* names, std::string& value, const char* help);
  /// An option with a default, which the help shows if it is not empty.
  Options& option(const char* names, std::string& value, const char* help);
  Options& option(const char* names, std::uint64_t& value, const char* help);
  /// "a,b,c", or given several times.
  Options& option(const char* names, std::vector<std::string>& values, const char* help);
  /// Given several times, commas kept: --set key=a,b --set other=c.
  Options& repeated(const char* names, std::vector<std::string>& values, const char* help);
  Options& flag(const char* names, bool& value, const char* help);

 private:
  CLI::App& app_;
};

}  // namespace emplace::launcher
