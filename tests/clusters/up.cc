#include "tests/clusters/up.h"

#include <gtest/gtest.h>

namespace emplace::testing {

using nlohmann::json;

Up::Up(const TemporaryFolder& folder, const std::string& name, Options options)
    : options_{std::move(options)}, directory_{folder.at(name)} {
  const std::string cluster =
      folder.file(name + ".cluster.toml", "[run]\nconfig = \"" + shipped("configs/quickstart.toml") +
                                              "\"\ndir = \"" + directory_ + "\"\n" + options_.cluster);
  std::vector<std::string> arguments{"up", cluster, "--json", "--budget", "300s"};
  for (const std::string& setting : {"input.graph=" + shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"),
                                     std::string{"run.starts=[\"scratch\"]"}, std::string{"policy.groups=16"},
                                     std::string{"executor.count=1"}})
    arguments.insert(arguments.end(), {"--set", setting});
  for (const std::string& setting : options_.settings) arguments.insert(arguments.end(), {"--set", setting});
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  process_ = std::make_unique<Process>(arguments, options_.where);
}

std::string Up::address() {
  constexpr std::string_view kPrefix = "the head listens at ";
  if (!address_.empty() || !process_->wait_for_error_text(kPrefix)) return address_;
  const std::string& output = process_->err();
  const std::size_t from = output.rfind(kPrefix) + kPrefix.size();
  address_ = output.substr(from, output.find_first_of(" \n", from) - from);
  return address_;
}

json Up::ps() const {
  std::vector<std::string> arguments{"ps", address_, "--json"};
  arguments.insert(arguments.end(), options_.access.begin(), options_.access.end());
  const Finished asked = run(arguments);
  return asked.status == 0 ? json::parse(asked.out, nullptr, false) : json{};
}

bool Up::wait_until_ps(const std::function<bool(const json&)>& so, Seconds deadline) const {
  return wait_until(
      [&] {
        const json status = ps();
        return status.is_object() && so(status);
      },
      deadline);
}

bool Up::wait_for_a_placement() {
  (void)address();
  return wait_until_ps([](const json& status) { return status["best_step_time_s"].is_number(); });
}

json Up::down() {
  EXPECT_TRUE(wait_for_a_placement());
  std::vector<std::string> arguments{"down", address()};
  arguments.insert(arguments.end(), options_.access.begin(), options_.access.end());
  const Finished asked = run(arguments);
  const Finished ended = finish();
  json summary = json::parse(ended.out, nullptr, false);
  if (!summary.is_object()) summary = {{"up_error", ended.err}};
  summary["up_status"] = ended.status;
  summary["down_status"] = asked.status;
  return summary;
}

json node_of(const json& status, const std::string& name) {
  for (const json& node : status.value("nodes", json::array()))
    if (node.value("node", "") == name) return node;
  return json::object();
}

std::uint64_t number(const json& object, const char* key) {
  return object.is_object() ? object.value(key, std::uint64_t{0}) : 0;
}

std::string error_line(const Finished& finished) {
  const std::string text = "\n" + finished.err;
  const std::size_t at = text.find("\nerror: ");
  if (at == std::string::npos || text.find('\n', at + 1) != text.size() - 1)
    return "not one line: " + finished.err;
  return text.substr(at + 1);
}

}  // namespace emplace::testing
