// Goal: exported programs have torch's ops, bytes and work, and a file that is no archive, is damaged or has
// another schema is refused. Method: programs that torch 2.15 saved (without their weights), against its own
// counts; archives written by hand.
#include "graph/formats/torch/pt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/crc.hpp>
#include <tuple>

#include "graph/formats/graph_file.h"
#include "tests/graph/graph_text.h"
#include "tests/graph/torch_counts.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path kPt2Files = std::filesystem::path{EMPLACE_FIXTURES} / "formats";

ReadOptions sizes(std::string text) {
  return {.dims = parse_open_dims(std::vector<std::string>{std::move(text)}).value()};
}

std::string pt2_error(std::string_view bytes, const ReadOptions& options = {.format = GraphFormat::kPt2}) {
  return refusal_of("a.pt2", bytes, options);
}

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int k = 0; k < bytes; ++k) out += static_cast<char>(value >> (8 * k));
  return out;
}

/// An archive of stored entries whose directory declares `claimed` bytes for each.
std::string archive(const std::vector<std::pair<std::string, std::string>>& entries, std::uint16_t method = 0,
                    std::uint64_t claimed = ~0ull) {
  std::string out, directory;
  for (const auto& [name, data] : entries) {
    boost::crc_32_type sum;
    sum.process_bytes(data.data(), data.size());
    const std::string sizes = number(sum.checksum(), 4) + number(data.size(), 4) +
                              number(claimed == ~0ull ? data.size() : claimed, 4);
    const std::string head =
        number(20, 2) + number(0, 2) + number(method, 2) + number(0, 4) + sizes + number(name.size(), 2);
    directory += "PK\1\2" + number(20, 2) + head + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 2) +
                 number(0, 4) + number(out.size(), 4) + name;
    out += "PK\3\4" + head + number(0, 2) + name + data;
  }
  return out + directory + "PK\5\6" + number(0, 4) + number(entries.size(), 2) + number(entries.size(), 2) +
         number(directory.size(), 4) + number(out.size(), 4) + number(0, 2);
}
std::string archive(std::string_view name, std::string_view data, std::uint16_t method = 0,
                    std::uint64_t claimed = ~0ull) {
  return archive({{std::string{name}, std::string{data}}}, method, claimed);
}

std::string program(std::string_view nodes, std::string_view major = "8") {
  const std::string tensors =
      R"j("x":{"dtype":7,"sizes":[{"as_int":2},{"as_expr":{"expr_str":"Mul(Integer(2), Symbol('s0', positive=True))"}}]},)j"
      R"j("y":{"dtype":7,"sizes":[{"as_int":2}]},"z":{"dtype":99,"sizes":[]})j";
  return R"j({"schema_version":{"major":)j" + std::string{major} +
         R"j(,"minor":1},"graph_module":{"graph":{"nodes":[)j" + std::string{nodes} +
         R"j(],"tensor_values":{)j" + tensors +
         R"j(}},"signature":{"input_specs":[{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}]}}})j";
}
std::string node(std::string_view reads, std::string_view makes) {
  return R"({"target":"torch.ops.aten.sum.dim_IntList","name":"sum_1","inputs":[{"name":"self","arg":{"as_tensor":{"name":")" +
         std::string{reads} +
         R"("}}},{"name":"dim","arg":{"as_ints":[1]}}],"outputs":[{"as_tensor":{"name":")" +
         std::string{makes} + R"("}}]})";
}

TEST(Pt2, ExportedProgramsHaveTorchsOpsBytesAndWork) {
  for (const auto& [file, open] : {std::pair{"cnn.pt2", "s77=4"}, std::pair{"llama.pt2", "s46=2,s4=8"}}) {
    SCOPED_TRACE(file);
    const auto graph = load_graph(kPt2Files / file, sizes(open));
    ASSERT_TRUE(graph.ok()) << graph.error().context;
    const auto expected = torch_counts(file);
    EXPECT_EQ(num_calls(*graph), expected["ops"].get<std::int64_t>());
    EXPECT_EQ(matrix_flops(*graph), expected["flops"].get<std::int64_t>());
    EXPECT_EQ(state_bytes(*graph, "Parameter"), expected["parameter_bytes"].get<std::int64_t>());
    EXPECT_EQ(state_bytes(*graph, "Buffer"), expected["buffer_bytes"].get<std::int64_t>());
    EXPECT_THAT(uncounted_ops(*graph), ::testing::IsEmpty());
  }
}

TEST(Pt2, NamesAndScopesAreThoseOfTheModules) {
  const OpGraph graph = load_graph(kPt2Files / "cnn.pt2", sizes("s77=4")).value();
  EXPECT_EQ(graph.name(OpId{0}), "stem.weight");
  EXPECT_EQ(graph.group_name(OpId{0}), "stem");
  bool found = false;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    found = found ||
            (graph.type_name(OpId{i}) == "aten::convolution" && graph.group_name(OpId{i}) == "block/conv1");
  EXPECT_TRUE(found);
}

TEST(Pt2, RequestsOpenSizesByName) {
  const std::string file = archive("m/models/model.json", program(node("x", "y")));
  EXPECT_THAT(pt2_error(file), AllOf(HasSubstr("symbolic sizes"), HasSubstr("--shape s0=…")));
  const auto graph = parse_graph(std::as_bytes(std::span{file.data(), file.size()}), "a.pt2", sizes("s0=3"));
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_EQ(graph->flops(OpId{1}), 12);
  EXPECT_EQ(graph->attrs_json(OpId{1}), R"({"dim":[1]})");
}

/// A program of two embeddings' weights, of which the archive's list of weights is `weights`.
std::string two_weights(const std::string& weights) {
  const auto input = [](const std::string& name) {
    return R"({"parameter":{"arg":{"name":"p_)" + name + R"("},"parameter_name":")" + name + R"("}})";
  };
  const std::string tensor = R"({"dtype":7,"sizes":[{"as_int":6},{"as_int":4}]})";
  const auto read = [](const std::string& name) {
    return R"({"target":"torch.ops.aten.relu.default","name":"y_)" + name +
           R"(","inputs":[{"name":"self","arg":{"as_tensor":{"name":"p_)" + name +
           R"("}}}],"outputs":[{"as_tensor":{"name":"y_)" + name + R"("}}]})";
  };
  const std::string program =
      R"({"schema_version":{"major":8,"minor":1},"graph_module":{"graph":{"nodes":[)" + read("a") + "," +
      read("b") + R"(],"tensor_values":{"p_a":)" + tensor + R"(,"p_b":)" + tensor + R"(,"y_a":)" + tensor +
      R"(,"y_b":)" + tensor + R"(}},"signature":{"input_specs":[)" + input("a") + "," + input("b") + "]}}}";
  return archive({{"m/models/model.json", program}, {"m/data/weights/model_weights_config.json", weights}});
}
std::string weight(std::string_view file, int offset, int row, int column) {
  return R"({"path_name":")" + std::string{file} +
         R"(","tensor_meta":{"dtype":7,"sizes":[{"as_int":6},{"as_int":4}],)" + R"("strides":[{"as_int":)" +
         std::to_string(row) + R"(},{"as_int":)" + std::to_string(column) +
         R"(}],"storage_offset":{"as_int":)" + std::to_string(offset) + "}}}";
}

TEST(Pt2, CountsATiedWeightOnce) {
  const auto graph_of = [](const std::string& b) {
    return read_text("a.pt2",
                     two_weights(R"({"config":{"a":)" + weight("weight_0", 0, 4, 1) + R"(,"b":)" + b + "}}"))
        .value();
  };
  const OpGraph same = graph_of(weight("weight_0", 0, 4, 1));
  EXPECT_EQ(same.num_ops(), 3u);
  EXPECT_EQ(state_bytes(same, "Parameter"), 6 * 4 * 4);
  EXPECT_EQ(same.inputs(OpId{1})[0], same.inputs(OpId{2})[0]);
  const OpGraph view = graph_of(weight("weight_0", 0, 1, 6));  // Transposed.
  EXPECT_EQ(view.num_ops(), 4u);
  EXPECT_EQ(state_bytes(view, "Parameter"), 6 * 4 * 4);
  EXPECT_TRUE(view.is_view(op_named(view, "b")));
  // Parts of one file that do not meet, and another file, are weights of their own.
  for (const std::string& other :
       {weight("weight_0", 24, 4, 1), weight("weight_1", 0, 4, 1), std::string{"7"}}) {
    const OpGraph apart = graph_of(other);
    EXPECT_EQ(apart.num_ops(), 4u);
    EXPECT_EQ(state_bytes(apart, "Parameter"), 2 * 6 * 4 * 4);
  }
  EXPECT_EQ(read_text("a.pt2", two_weights("[")).value().num_ops(), 4u);
}

/// A program with an input x [8, 4], a call of `target` with a graph of one product [8, 4] x [4, 4], and a
/// relu.
std::string with_graph(const std::string& target, const std::string& before, const std::string& after,
                       int graphs = 1) {
  const auto tensor = [](int rows, int columns) {
    return R"({"dtype":7,"sizes":[{"as_int":)" + std::to_string(rows) + R"(},{"as_int":)" +
           std::to_string(columns) + "}]}";
  };
  const auto named = [](const std::string& name) { return R"({"as_tensor":{"name":")" + name + R"("}})"; };
  const std::string product =
      R"({"target":"torch.ops.aten.mm.default","name":"mm","inputs":[{"name":"self","arg":)" + named("a") +
      R"(},{"name":"mat2","arg":)" + named("b") + R"(}],"outputs":[)" + named("mm") + "]}";
  std::string arguments = before;
  for (int k = 0; k < graphs; ++k)
    arguments += R"({"name":"","arg":{"as_graph":{"name":"g","graph":{"inputs":[)" + named("a") + "," +
                 named("b") + R"(],"outputs":[)" + named("mm") + R"(],"nodes":[)" + product +
                 R"(],"tensor_values":{"a":)" + tensor(8, 4) + R"(,"b":)" + tensor(4, 4) + R"(,"mm":)" +
                 tensor(8, 4) + "}}}}},";
  const std::string call = R"({"target":"torch.ops.higher_order.)" + target +
                           R"(","name":"call","inputs":[)" + arguments + after + R"(],"outputs":[)" +
                           named("y") + "]}";
  const std::string relu =
      R"({"target":"torch.ops.aten.relu.default","name":"relu","inputs":[{"name":"self","arg":)" +
      named("y") + R"(}],"outputs":[)" + named("relu") + "]}";
  const auto input = [&](const std::string& name) { return R"({"user_input":{"arg":)" + named(name) + "}}"; };
  return archive("models/model.json",
                 R"({"schema_version":{"major":8,"minor":1},"graph_module":{"graph":{"nodes":[)" + call +
                     "," + relu + R"(],"tensor_values":{"x":)" + tensor(8, 4) + R"(,"w":)" + tensor(4, 4) +
                     R"(,"y":)" + tensor(8, 4) + R"(,"relu":)" + tensor(8, 4) +
                     R"(}},"signature":{"input_specs":[)" + input("x") + "," + input("w") + "]}}}");
}

TEST(Pt2, BlocksAreOpenedAndOtherGraphsCount) {
  const std::string x = R"({"name":"","arg":{"as_tensor":{"name":"x"}}})",
                    w = R"({"name":"","arg":{"as_tensor":{"name":"w"}}})";
  const std::string lists =
      R"({"name":"","arg":{"as_tensors":[{"name":"x"}]}},{"name":"","arg":{"as_tensors":[{"name":"w"}]}})";
  const std::string flag = R"({"name":"","arg":{"as_bool":false}},)";
  for (const auto& [target, before, after] :
       {std::tuple<std::string, std::string, std::string>{"wrap_with_set_grad_enabled", flag, x + "," + w},
        {"wrap_with_autocast", flag, x + "," + w},
        {"invoke_subgraph", "", R"({"name":"","arg":{"as_string":"id"}},)" + x + "," + w}}) {
    SCOPED_TRACE(target);
    const OpGraph graph = read_text("a.pt2", with_graph(target, before, after)).value();
    ASSERT_EQ(graph.num_ops(), 4u);
    const OpId product = op_named(graph, "call/mm"), relu = op_named(graph, "relu");
    EXPECT_EQ(graph.flops(product), 2 * 8 * 4 * 4);
    EXPECT_EQ(graph.name(graph.producer(graph.inputs(product)[0])), "x");
    EXPECT_EQ(graph.producer(graph.inputs(relu)[0]), product);
    EXPECT_THAT(uncounted_ops(graph), ::testing::IsEmpty());
  }
  const auto work = [&](const std::string& target, const std::string& before, int graphs, bool known) {
    const OpGraph graph = read_text("a.pt2", with_graph(target, before, lists, graphs)).value();
    EXPECT_EQ(graph.num_ops(), 4u);
    EXPECT_EQ(uncounted_ops(graph).empty(), known) << target;
    return graph.flops(op_named(graph, "call"));
  };
  EXPECT_EQ(work("cond", x + ",", 2, true), 2 * 8 * 4 * 4);        // The costlier branch.
  EXPECT_EQ(work("map_impl", "", 1, true), 8 * 2 * 8 * 4 * 4);     // One for each row of x.
  EXPECT_EQ(work("scan", "", 1, true), 4 * 2 * 8 * 4 * 4);         // One for each row of w.
  EXPECT_EQ(work("while_loop", "", 2, false), 2 * 2 * 8 * 4 * 4);  // One iteration.
  EXPECT_THAT(pt2_error(with_graph("wrap_with_autocast", "", x)), HasSubstr("reads 'b'"));
}

TEST(Pt2, RefusesAnotherSchema) {
  for (const char* major : {"7", "9", "-1", "8000000000"})
    EXPECT_THAT(pt2_error(archive("models/model.json", program("", major))),
                HasSubstr("but only 8 is supported"))
        << major;
  EXPECT_THAT(pt2_error(archive("models/model.json", program("", "\"8\""))),
              HasSubstr("has no schema version"));
  EXPECT_THAT(pt2_error(archive("models/model.json", "{}")), HasSubstr("has no schema version"));
}

TEST(Pt2, ErrorsNameTheNode) {
  const auto of = [](const std::string& nodes) {
    return pt2_error(archive("models/m.json", program(nodes)));
  };
  EXPECT_THAT(of(node("ghost", "y")), AllOf(HasSubstr("node 0 'sum_1'"), HasSubstr("reads 'ghost'")));
  EXPECT_THAT(of(node("x", "ghost")), HasSubstr("tensor 'ghost' has no type"));
  EXPECT_THAT(of(node("x", "z")), HasSubstr("element type 99, which is unknown"));
  EXPECT_THAT(of("7"), HasSubstr("node 0: has no target"));
  EXPECT_THAT(pt2_error(archive("models/m.json", "[")), HasSubstr("is not JSON"));
  EXPECT_THAT(pt2_error(archive("models/weights", "")), HasSubstr("no exported program"));
}

TEST(Pt2, RefusesADamagedArchive) {
  const std::string good = archive("models/m.json", program(node("x", "y")));
  EXPECT_THAT(pt2_error("PK\3\4"), HasSubstr("is not a ZIP archive"));
  EXPECT_THAT(pt2_error(archive("models/m.json", "{}", 9)), HasSubstr("uses an unknown compression method"));
  EXPECT_THAT(pt2_error(archive("models/m.json", "{}", 8)), HasSubstr("is damaged"));
  EXPECT_THAT(pt2_error(archive("models/m.json", "{}", 0, 3)), HasSubstr("has contradictory sizes"));
  EXPECT_THAT(pt2_error(archive("models/m.json", "{}", 8, 0xfffffff0)),
              HasSubstr("unpacks to more than 64 MiB"));
  for (std::size_t size = 1; size < good.size(); ++size) pt2_error(good.substr(0, size));
  for (std::size_t at = 0; at < good.size(); ++at)
    for (const char with : {'\0', '\xff'}) {
      std::string changed = good;
      changed[at] = with;
      pt2_error(changed);
    }
}

}  // namespace
}  // namespace emplace
