#pragma once
/// Declares a command's options without including CLI11, which costs seconds of compile time per file.

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace emplace::launcher {

/// The variables passed by reference must outlive the parse. Names follow CLI11: "GRAPH" for an operand,
/// "-o,--output" for an option. Thread: one.
class Options {
 public:
  explicit Options(CLI::App& app) : app_{app} {}

  /// A required positional argument.
  Options& operand(const char* name, std::string& value, const char* help);
  /// A positional argument that may be omitted.
  Options& optional_operand(const char* name, std::string& value, const char* help);
  /// One or more positional arguments.
  Options& operands(const char* name, std::vector<std::string>& values, const char* help);
  /// Any number of positional arguments.
  Options& optional_operands(const char* name, std::vector<std::string>& values, const char* help);
  /// A required option.
  Options& required(const char* names, std::string& value, const char* help);
  /// An option with a default; the help shows the default if it is not empty.
  Options& option(const char* names, std::string& value, const char* help);
  /// An option that is not empty if it is given: an empty text is an error, not the default.
  Options& non_empty(const char* names, std::string& value, const char* help);
  Options& option(const char* names, std::uint64_t& value, const char* help);
  /// A list: "a,b,c", or the option several times.
  Options& option(const char* names, std::vector<std::string>& values, const char* help);
  /// A list whose values may contain commas; the option is repeated: --set key=a,b --set other=c.
  Options& repeated(const char* names, std::vector<std::string>& values, const char* help);
  Options& flag(const char* names, bool& value, const char* help);

 private:
  CLI::App& app_;
};

}  // namespace emplace::launcher
