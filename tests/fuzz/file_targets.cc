#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/keys.h"
#include "graph/formats/emplace/emplace_graph.h"
#include "graph/formats/graph_file.h"
#include "launcher/settings/config.h"
#include "placement/machine/device_file.h"
#include "placement/machine/machine_text.h"
#include "placement/placement_file.h"
#include "record/run_reader.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace emplace::fuzz {
namespace {

/// Writes the input to a file, for readers that need one.
std::filesystem::path put(const testing::ScratchFolder& folder, const char* name, Input bytes) {
  EMPLACE_CHECK(write_file(folder.path() / name, bytes).ok(), "the fuzzer's own file");
  return folder.path() / name;
}

std::string_view text_of(Input bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

constexpr std::string_view kGraph =
    R"({"format":"emplace-graph v1","name":"two","ops":[
{"id":0,"name":"a","type":"Input","inputs":[],"outputs":[{"dtype":"f32","shape":[4]}],"attrs":{},"flops":0,"param_bytes":0},
{"id":1,"name":"b","type":"Relu","inputs":[[0,0]],"outputs":[{"dtype":"f32","shape":[4]}],"attrs":{},"flops":4,"param_bytes":0}]})";
constexpr std::string_view kDevices = R"([[device]]
name = "cpu:0"
profile = "haswell18"
memory = "1GiB"
)";

}  // namespace

void devices(Input bytes) {
  const auto read = parse_devices(text_of(bytes), "input.toml");
  if (!read) EMPLACE_CHECK(read.error().context.find('\n') == std::string::npos, "an error is one line");
  const auto text = parse_machine(text_of(bytes));
  if (!text) EMPLACE_CHECK(text.error().context.find('\n') == std::string::npos, "an error is one line");
}

void config(Input bytes) {
  const auto read = launcher::parse_config(text_of(bytes), "input.toml");
  if (read) {
    const auto again = launcher::parse_config(launcher::to_toml(*read, false), "again.toml");
    EMPLACE_CHECK(again.ok(), again.error().context);
    EMPLACE_CHECK(launcher::to_toml(*again, false) == launcher::to_toml(*read, false), "a config changes");
  } else {
    EMPLACE_CHECK(read.error().context.find('\n') == std::string::npos, "an error is one line");
  }
  if (const auto list = parse_allow_list(text_of(bytes), "allowed.toml")) {
    std::string all;
    for (const AllowedKey& key : *list) all += to_toml(key);
    const auto again = parse_allow_list(all, "again.toml");
    EMPLACE_CHECK(again.ok() && again->size() == list->size(), "an allow-list changes");
  }
  static const testing::ScratchFolder folder{"fuzz"};
  const auto path = put(folder, "some.key", bytes);
  ::chmod(path.c_str(), 0600);
  (void)load_key_pair(path);
  (void)load_public_key(path);
}

void placement(Input bytes) {
  static const OpGraph graph = read_emplace_graph(std::as_bytes(std::span{kGraph}), "graph").value();
  static const DeviceSet device_set = parse_devices(kDevices, "devices").value();
  static const testing::ScratchFolder folder{"fuzz"};
  const auto path = put(folder, "placement.json", bytes);
  const auto read = load_placement(path, graph, "two", device_set);
  if (read) EMPLACE_CHECK(read->size() == graph.num_ops(), "a placement of another size");
  const auto order = load_order(path, graph, "two");
  if (order && !order->empty()) EMPLACE_CHECK(check_order(graph, *order).ok(), "an invalid order");
}

void run_db(Input bytes) {
  static const testing::ScratchFolder folder{"fuzz"};
  for (const char* name : {"run.db-wal", "run.db-shm", "run.db-journal", "head.seq"})
    std::filesystem::remove(folder.path() / name);
  put(folder, "run.db", bytes);
  const auto db = record::RunReader::open(folder.path(), record::Reading::kInProgress);
  if (!db) return;
  (void)(*db)->header().facts();
  (void)(*db)->results().counters();
  (void)(*db)->results().best();
  (void)(*db)->results().least_bytes_over();
  (void)(*db)->log().episodes(1, 100);
  (void)(*db)->log().measurements(1, 100);
  (void)(*db)->results().graphs();
  (void)(*db)->log().rows(1, 100, true);
  (void)(*db)->log().row_of(0, true);
  (void)(*db)->log().has_episode(0);
  (void)(*db)->log().episodes_of(0);
  (void)(*db)->log().updates();
  (void)(*db)->log().update(1);
  (void)(*db)->log().last_update();
  (void)(*db)->checkpoints().latest();
  (void)(*db)->verify();
}

}  // namespace emplace::fuzz
