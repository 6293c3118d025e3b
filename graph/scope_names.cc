#include "graph/scope_names.h"

#include <algorithm>
#include <cctype>

#include "graph/grouping.h"

namespace emplace {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool is_number(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), is_digit);
}

}  // namespace

std::vector<std::string> words_of_scope(std::string_view scope) {
  std::vector<std::string> words{""};
  for (const char c : without_time_steps(scope)) {
    if (c == '/' || c == '.') {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string_view time_step_of(std::string_view scope) {
  while (!scope.empty()) {
    const std::size_t slash = std::min(scope.find('/'), scope.size());
    const std::string_view level = scope.substr(0, slash);
    if (without_time_steps(level) != level) return level;
    scope.remove_prefix(std::min(slash + 1, scope.size()));
  }
  return {};
}

std::optional<std::size_t> recurrent_layer(std::string_view scope) {
  const std::vector<std::string> words = words_of_scope(scope);
  for (const std::string& word : words) {
    if (word.size() < 2 || word[0] != 'l' || !is_digit(word[1])) continue;
    std::size_t layer = 0, at = 1;
    for (; at < word.size() && is_digit(word[at]) && layer < 1000; ++at)
      layer = layer * 10 + static_cast<std::size_t>(word[at] - '0');
    const std::string_view rest = std::string_view{word}.substr(at);
    if (layer < 1000 && (rest.empty() || rest == "fw" || rest == "bw")) return layer;
  }
  const bool in_time_step = without_time_steps(scope) != scope;
  if (in_time_step && words.size() > 1 && is_number(words.back()) && words.back().size() < 4)
    return static_cast<std::size_t>(std::stoul(words.back()));
  return std::nullopt;
}

std::string_view numbered_block(std::string_view scope) {
  for (std::size_t from = 0; from < scope.size();) {
    const std::size_t to = std::min(scope.find('/', from), scope.size());
    const std::string_view level = scope.substr(from, to - from);
    if (!level.empty() && level.find_first_not_of("0123456789") == std::string_view::npos)
      return scope.substr(0, to);
    from = to + 1;
  }
  return {};
}

ScopeBranch branch_of_scope(std::string_view scope) {
  const std::vector<std::string> words = words_of_scope(scope);
  ScopeBranch found;
  found.block = words.empty() ? std::string{} : words[0];
  std::size_t at = std::min<std::size_t>(1, words.size());
  if (words.size() > 1 && is_number(words[1])) found.block += "." + words[at++];
  if (at < words.size() && words[at].rfind("branch", 0) == 0) {
    found.branch = words[at];
    const std::size_t step = found.branch.find_last_of('_');
    if (step != std::string::npos && step + 1 < found.branch.size() && is_digit(found.branch[step + 1])) {
      if (!is_digit(found.branch.back())) found.fork = found.branch.back();
      found.branch.resize(step);
    }
  } else if (at + 1 < words.size() && words[at] == "ops" && is_number(words[at + 1])) {
    found.branch = words[at] + "." + words[at + 1];
  }
  return found;
}

}  // namespace emplace
