#pragma once
// The fuzz targets: everything that reads bytes of others. A target takes any bytes and returns; a crash, a
// report of a sanitizer, a broken property (EMPLACE_CHECK) or a hang is a finding. Seeds are in corpus/NAME.

#include <cstddef>
#include <span>
#include <string_view>

#include "graph/formats/graph_file.h"

namespace emplace::fuzz {

using Input = std::span<const std::byte>;

void frame(Input);         ///< An envelope, and a frame of records.
void message(Input);       ///< The first byte is the type (0xf0 on: between nodes), the rest the body.
void router_input(Input);  ///< Frames of a peer with a key to a running node, while another peer is answered.
void graph_json(Input);    ///< emplace-graph v1, as text.
void graph_msgpack(Input);  ///< emplace-graph v1 in MessagePack.
void foreign_graph(Input);  ///< A graph of any format, recognised by its content.
void onnx(Input);           ///< Each format read as such, with sizes for open dimensions.
void tf_graphdef(Input);
void fx(Input);
void hlo(Input);
void pt2(Input);
#if EMPLACE_LAB
void doppler(Input);
void piper(Input);
#endif
void devices(Input);    ///< A device file, or the text of a machine.
void config(Input);     ///< A run's config; an allow-list; a key file.
void placement(Input);  ///< A placement file.
void run_db(Input);     ///< run.db, read as replay and results read it.
void meaning(Input);  ///< Valid frames with impossible contents, to the actors of a run, whose record is then
///< verified.

/// Reads a graph with a size for the batch, and without one where the format has no open dimension.
void check_format(Input bytes, GraphFormat format);

struct Target {
  std::string_view name;
  void (*run)(Input);
  int mutations;  ///< Changes of each seed, in the test without a fuzzer.
};

inline constexpr Target kTargets[] = {{"frame", &frame, 2'000},
                                      {"message", &message, 500},
                                      {"router_input", &router_input, 50},
                                      {"graph_json", &graph_json, 500},
                                      {"graph_msgpack", &graph_msgpack, 500},
                                      {"foreign_graph", &foreign_graph, 2'000},
                                      {"onnx", &onnx, 300},
                                      {"tf_graphdef", &tf_graphdef, 300},
                                      {"fx", &fx, 500},
                                      {"hlo", &hlo, 200},
                                      {"pt2", &pt2, 300},
#if EMPLACE_LAB
                                      {"doppler", &doppler, 500},
                                      {"piper", &piper, 500},
#endif
                                      {"devices", &devices, 300},
                                      {"config", &config, 200},
                                      {"placement", &placement, 200},
                                      {"run_db", &run_db, 50},
                                      {"meaning", &meaning, 20}};

}  // namespace emplace::fuzz
