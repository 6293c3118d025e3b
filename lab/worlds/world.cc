#include "lab/worlds/world.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/rng.h"
#include "base/text/words.h"
#include "executor/split/judge.h"
#include "graph/copied_op.h"
#include "graph/formats/graph_file.h"
#include "graph/models/drawing.h"
#include "lab/worlds/held_out.h"
#include "lab/worlds/world_families.h"
#include "lab/worlds/world_machine.h"
#include "placement/machine/device_file.h"
#include "solver/methods.h"

namespace emplace::lab {
namespace {

namespace fs = std::filesystem;
using models::drawn_log;
using models::happens;
using models::WorldFamily;

/// What a stream of random numbers decides.
enum class Part : std::uint32_t { kGraph, kNetwork, kMachine, kMemory };

/// Streams of families of graphs/models/families.h use the steps below 2^34.
Rng stream(const WorldOptions& options, std::uint32_t number, Part part, std::uint32_t attempt) {
  const std::uint64_t kind =
      64 + (options.held_out ? 512 : 0) + 64 * static_cast<std::uint64_t>(part) + attempt;
  return Rng{options.seed, Purpose::kGraphs, kind << 32 | number};
}

constexpr std::uint32_t kAttempts = 32;
constexpr double kTraceShare = 0.1, kLargeShare = 0.06, kTrainingShare = 0.7;

std::string trace_name(const fs::path& file) {
  std::string name = file.filename().string();
  for (const std::string_view ending : {".gz", ".zst", ".json", ".epg", ".msgpack"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

/// A graph of the world, and where it is from.
struct DrawnGraph {
  OpGraph graph;
  std::string family;
};

std::vector<const WorldFamily*> families_for(bool held_out) {
  std::vector<const WorldFamily*> found;
  for (const WorldFamily& family : models::world_families())
    if (is_held_out_family(family.name) == held_out) found.push_back(&family);
  return found;
}

bool is_training(const OpGraph& graph) {
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.phase(OpId{i}) != Phase::kForward) return true;
  return false;
}

Result<DrawnGraph> drawn_graph(const WorldOptions& options, std::uint32_t number) {
  std::optional<Error> failed;
  for (std::uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    Rng rng = stream(options, number, Part::kGraph, attempt);
    std::optional<DrawnGraph> made;
    if (!options.traces.empty() && happens(rng, kTraceShare)) {
      const fs::path& file = options.traces[rng.below(static_cast<std::uint32_t>(options.traces.size()))];
      EMPLACE_TRY_ASSIGN(auto graph, load_graph(file));
      made = DrawnGraph{std::move(graph), "trace"};
    } else {
      const auto families = families_for(options.held_out);
      const WorldFamily& family = *families[rng.below(static_cast<std::uint32_t>(families.size()))];
      const double most = static_cast<double>(options.most_ops), middle = std::min(most, 3000.0);
      const bool large = happens(rng, kLargeShare);
      const double ops = large ? drawn_log(rng, middle, most) : drawn_log(rng, 80, middle);
      const bool training = happens(rng, kTrainingShare);
      auto graph =
          models::world_graph(family, stream(options, number, Part::kNetwork, attempt),
                              {static_cast<std::int64_t>(ops), training}, {.name = std::string{family.name}});
      if (!graph) return graph.error();
      made = DrawnGraph{*std::move(graph), std::string{family.name}};
    }
    const auto ops = static_cast<std::int64_t>(made->graph.num_ops());
    if (ops >= kLeastWorldOps && ops <= options.most_ops) return *std::move(made);
  }
  return invalid(fmt::format("world {}", number), "has no graph of a permitted size", "permit larger graphs");
}

/// The graph with the number in the names of its ops, and with this meta.
Result<OpGraph> numbered(const OpGraph& graph, std::uint32_t number, std::string name,
                         const nlohmann::json& meta) {
  OpGraphBuilder builder;
  builder.set_name(std::move(name)).set_source("emplace generate worlds").set_meta_json(meta.dump());
  builder.reserve(graph.num_ops());
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    OpSpec op = copied_op(graph, OpId{i});
    op.name = fmt::format("w{}:{}", number, op.name);
    op.allowed_devices.clear();  // A trace may name devices of another machine.
    op.has_allowed_devices = false;
    builder.add(std::move(op));
  }
  return std::move(builder).build();
}

/// The peak memory of the graph on one device [B].
Result<std::int64_t> need_of(const OpGraph& graph) {
  const CatalogueDevice& any = catalogue_devices().front();
  EMPLACE_TRY_ASSIGN(const auto one,
                     DeviceSet::make({{"gpu:0", any.profile, std::int64_t{1} << 60, {}}}, Link{1e9, 0}));
  Simulator simulator{graph, one};
  Measurement measured;
  const Placement placement(graph.num_ops(), DeviceId{0});
  EMPLACE_TRY(simulator.measure(placement, measured));
  return std::max<std::int64_t>(1, measured.peak_bytes.front());
}

/// The name of a method that finds a placement which fits; empty if none of the fast ones does.
Result<std::string> fitting_method(const OpGraph& graph, const DeviceSet& devices) {
  EMPLACE_TRY_ASSIGN(const auto constraints, Constraints::make(graph, devices));
  const CostTable costs{graph, devices};
  const auto model = make_model(graph, devices, {});
  const Problem problem{graph, devices, constraints, costs};
  for (const char* name : {"single-gpu", "single-cpu", "contiguous", "m-topo", "round-robin", "mincut"}) {
    EMPLACE_TRY_ASSIGN(const Method* const method, find_method(name));
    const auto found = method->find(problem, *model);
    if (found && found->measurement.valid) return std::string{name};
  }
  return std::string{};
}

}  // namespace

Result<std::vector<fs::path>> traces_of(const fs::path& folder, bool held_out) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it{folder, error}, end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool graph = name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".json.zst") ||
                       name.ends_with(".epg") || name.ends_with(".msgpack");
    if (graph && is_held_out_trace(trace_name(it->path())) == held_out) files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty())
    return invalid(printable_path(folder), held_out ? "has no held-out graph" : "has no graph to learn from",
                   "give a folder of graphs in our format, or leave --traced out");
  return files;
}

Result<World> make_world(const WorldOptions& options, std::uint32_t number) {
  EMPLACE_TRY_ASSIGN(const auto from, drawn_graph(options, number));
  EMPLACE_TRY_ASSIGN(const auto need, need_of(from.graph));
  Rng rng = stream(options, number, Part::kMachine, 0);
  const DrawnMachine machine = drawn_machine(rng, options.held_out);
  constexpr std::array kMemory{MemoryClass::kLoose, MemoryClass::kLoose, MemoryClass::kUneven,
                               MemoryClass::kTight, MemoryClass::kTight};
  const MemoryClass memory = kMemory[rng.below(static_cast<std::uint32_t>(kMemory.size()))];
  Rng of_memory = stream(options, number, Part::kMemory, 0);
  std::vector<std::int64_t> caps = drawn_memory(of_memory, machine, memory, need);
  const std::string name = fmt::format("{}{}-{:06}-{}", options.held_out ? "held-out" : "world", options.seed,
                                       number, from.family);
  for (;;) {  // Ends: each round adds memory, until one device holds the graph.
    const std::string text = device_file(machine, caps);
    EMPLACE_TRY_ASSIGN(auto devices, parse_devices(text, name));
    EMPLACE_TRY_ASSIGN(const std::string fits, fitting_method(from.graph, devices));
    if (!fits.empty()) {
      const bool training = is_training(from.graph);
      const nlohmann::json meta{{"kind", training ? "training" : "forward"},
                                {"machine", text},
                                {"world",
                                 {{"devices", devices.size()},
                                  {"family", from.family},
                                  {"fits", fits},
                                  {"graph", from.graph.name()},
                                  {"held_out", options.held_out},
                                  {"kinds", machine.kinds()},
                                  {"memory", memory_class_name(memory)},
                                  {"number", number},
                                  {"seed", options.seed}}}};
      EMPLACE_TRY_ASSIGN(auto graph, numbered(from.graph, number, name, meta));
      return World{std::move(graph), std::move(devices), from.family, std::string{memory_class_name(memory)},
                   machine.kinds(),  training,           fits};
    }
    for (std::int64_t& bytes : caps) bytes += bytes / 5;
  }
}

}  // namespace emplace::lab
