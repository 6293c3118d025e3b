#pragma once
/// What a node process tells its launcher: lines of JSON on its standard output.

#include <cstdint>
#include <string>

namespace emplace::launcher {

struct NodeLine {
  enum class Kind : std::uint8_t {
    kReady,     ///< It takes part. `text`: the endpoint that it has bound, if any.
    kEnding,    ///< An actor asks to end the run. `text`: why it failed; empty: it is done.
    kProgress,  ///< Anything else: `text` is the line.
  };
  Kind kind = Kind::kProgress;
  std::string text;
};

std::string ready_line(const std::string& endpoint);
std::string ending_line(const std::string& failure);
NodeLine parse_node_line(const std::string& line);

}  // namespace emplace::launcher
