#include "launcher/cluster/hosts/remote_host.h"

#include "base/text/words.h"

namespace emplace::launcher {

std::vector<std::string> join_words(const NodePlan& node, const std::string& head) {
  std::vector<std::string> words{node.program, "join", node.dial.empty() ? head : node.dial};
  if (node.max_processes > 0) words.insert(words.end(), {"--executors", std::to_string(node.executors_each)});
  if (node.max_processes == 0) words.insert(words.end(), {"--as", node.name});
  if (!node.keys.own.empty()) words.insert(words.end(), {"--key", node.keys.own});
  if (node.keys.own.empty()) words.push_back("--insecure");
  if (!node.cache.empty()) words.insert(words.end(), {"--cache", node.cache});
  // A person started the launcher, and may run anything there.
  if (!node.model.empty()) words.insert(words.end(), {"--model", node.model});
  words.push_back("--quiet");
  return words;
}

std::string export_lines(const std::vector<std::string>& environment) {
  std::string lines;
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    lines += "export " + variable.substr(0, equals) + "=" + shell_word(variable.substr(equals + 1)) + "\n";
  }
  return lines;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

}  // namespace emplace::launcher
