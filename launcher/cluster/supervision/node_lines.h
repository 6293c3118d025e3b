#pragma once
/// Lines between a node process and its launcher, on the node's standard output and input.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "messages/run_control.h"

namespace emplace::launcher {

struct NodeLine {
  enum class Kind : std::uint8_t {
    kReady,   ///< The node takes part in the run. `text`: the endpoint that it has bound, if any.
    kEnding,  ///< An actor requests the end of the run. `text`: why it failed; empty: it is done.
    kNote,    ///< A line for the user, in `text`.
    kOther,   ///< Any other line, in `text`.
  };
  Kind kind = Kind::kOther;
  std::string text;
};

/// Line from the launcher, before SIGTERM: the run is over; no other start follows.
inline constexpr std::string_view kOverLine = "over\n";

std::string ready_line(const std::string& endpoint);
std::string ending_line(const std::string& failure);
NodeLine parse_node_line(const std::string& line);

/// Returns the head's progress as a message in base64, without a newline.
std::string line_of(const messages::RunProgress& progress);
/// Parses a line of line_of(); returns nothing for other lines.
std::optional<messages::RunProgress> parse_progress(std::string_view line);

}  // namespace emplace::launcher
