#include "launcher/terminal/build_info.h"

#include <sstream>

namespace emplace::launcher {
namespace {

std::vector<std::string> words(const char* text) {
  std::istringstream in{text};
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::string joined(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& word : list) out.append(out.empty() ? "" : " ").append(word);
  return out.empty() ? "none" : out;
}

}  // namespace

const BuildInfo& build_info() {
  static const BuildInfo info{EMPLACE_VERSION, EMPLACE_BUILD_TYPE, "g++ " __VERSION__, words(EMPLACE_PARTS),
                              words(EMPLACE_WITHOUT)};
  return info;
}

std::string describe(const BuildInfo& info) {
  return "emplace " + info.version + "\nbuild type: " + info.build_type + " (" + info.compiler +
         ")\noptional parts: " + joined(info.parts) + "\nnot built in: " + joined(info.without);
}

}  // namespace emplace::launcher
