#pragma once
/// What a node process writes to its launcher: lines on its standard output.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "messages/run_control.h"

namespace emplace::launcher {

struct NodeLine {
  enum class Kind : std::uint8_t {
    kReady,   ///< It takes part. `text`: the endpoint that it has bound, if any.
    kEnding,  ///< An actor asks to end the run. `text`: why it failed; empty: it is done.
    kOther,   ///< Anything else: `text` is the line.
  };
  Kind kind = Kind::kOther;
  std::string text;
};

std::string ready_line(const std::string& endpoint);
std::string ending_line(const std::string& failure);
NodeLine parse_node_line(const std::string& line);

/// The head's progress, as a message in base64. The line has no end-of-line character.
std::string line_of(const messages::RunProgress& progress);
/// Nothing if the line is not one of these.
std::optional<messages::RunProgress> parse_progress(std::string_view line);

}  // namespace emplace::launcher
