// Export as sub-models: a folder with one ONNX model per part of the placement, and a manifest in the order
// in which they run.

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "graph/formats/onnx/onnx_parts.h"
#include "placement/export/placement_formats.h"
#include "placement/export/submodels/model_division.h"
#include "placement/export/submodels/part_writer.h"

namespace emplace::interop {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kManifest = "manifest.json", kFormatName = "emplace-submodels";

/// Makes the folder, and empties it if it holds an earlier export. Errors: kIo; kInvalid if it holds anything
/// else.
Result<Unit> prepare_folder(const fs::path& folder) {
  const auto cannot = [&](const std::error_code& why) {
    return Error{Errc::kIo, printable_path(folder) + ": " + why.message()};
  };
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return cannot(failed);
  bool ours = false, empty = true;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator{folder, failed}) {
    empty = false;
    const std::string name = entry.path().filename().string();
    if (name == kManifest) {
      const auto text = read_file(entry.path());
      const json manifest = text ? json::parse(text_of(*text), nullptr, /*allow_exceptions=*/false) : json{};
      ours = manifest.is_object() && manifest.contains("format") && manifest["format"] == kFormatName;
    }
    if (name == kManifest || is_part_file(name)) old.push_back(entry.path());
  }
  if (failed) return cannot(failed);
  if (!empty && !ours)
    return invalid(printable_path(folder), "is a folder with other files", "give a new folder with -o");
  // Without its manifest an export is not complete, so the manifest goes first.
  std::sort(old.begin(), old.end());
  for (const fs::path& path : old) {
    fs::remove(path, failed);
    if (failed) return cannot(failed);
  }
  return Unit{};
}

/// The numbers of the parts whose outputs each part reads.
std::vector<std::set<std::size_t>> earlier_parts(const std::vector<Piece>& pieces) {
  std::map<std::string_view, std::size_t> source;
  std::vector<std::set<std::size_t>> after(pieces.size());
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    for (const std::string& input : pieces[p].inputs)
      if (const auto it = source.find(input); it != source.end()) after[p].insert(it->second);
    for (const std::string& output : pieces[p].outputs) source[output] = p;
  }
  return after;
}

}  // namespace

Result<ExportedPlacement> placement_submodels(const PlacementExport& what) {
  if (what.graph_file.empty() || recognise_format(what.graph_file, "") != GraphFormat::kOnnx)
    return invalid(kSubmodels, "needs an ONNX model, and the given graph is not one",
                   "pass the placed .onnx file as --graph");
  EMPLACE_TRY_ASSIGN(const auto file, onnx_io::model_in_file(what.graph_file, "--graph"));
  if (static_cast<std::size_t>(file.model.graph().node_size()) > what.graph.num_ops())
    return invalid(kSubmodels, "the graph does not match the ONNX file");
  EMPLACE_TRY_ASSIGN(const auto types, onnx_io::value_types(what.graph_file, "--graph", what.dims));
  EMPLACE_TRY_ASSIGN(auto pieces, divide(what, file));
  // A part that nothing reads computes nothing that the model returns.
  std::erase_if(pieces, [](const Piece& piece) { return piece.outputs.empty(); });

  const fs::path folder{what.output};
  EMPLACE_TRY(prepare_folder(folder));
  EMPLACE_TRY_ASSIGN(json parts, write_parts(what, file, types, folder, pieces));
  const auto after = earlier_parts(pieces);
  for (std::size_t p = 0; p < pieces.size(); ++p) parts[p]["after"] = after[p];
  json inputs = json::array(), outputs = json::array();
  for (const auto& input : file.model.graph().input())
    if (!file.initializers.contains(input.name())) inputs.push_back(input.name());
  for (const auto& output : file.model.graph().output()) outputs.push_back(output.name());
  const json manifest{{"format", kFormatName},       {"version", 1},
                      {"graph", what.graph.name()},  {"graph_sha256", graph_sha256(what.graph)},
                      {"inputs", std::move(inputs)}, {"outputs", std::move(outputs)},
                      {"parts", std::move(parts)}};
  auto made = exported(what, file_text(manifest), placement_of_parts(what));
  made.file = kManifest;
  made.parts = pieces.size();
  return made;
}

}  // namespace emplace::interop
