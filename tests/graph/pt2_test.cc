// Goal: exported programs have torch's ops, bytes and work, and a file that is no archive, is damaged or has
// another schema is refused. Method: programs that torch 2.15 saved (without their weights), against its own
// counts; archives written by hand.
#include "graph/formats/torch/pt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/crc.hpp>

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

/// An archive with one stored entry whose directory declares `claimed` bytes.
std::string archive(std::string_view name, std::string_view data, std::uint16_t method = 0,
                    std::uint64_t claimed = ~0ull) {
  const std::uint64_t bytes = claimed == ~0ull ? data.size() : claimed;
  boost::crc_32_type sum;
  sum.process_bytes(data.data(), data.size());
  const std::string sizes = number(sum.checksum(), 4) + number(data.size(), 4) + number(bytes, 4);
  std::string out = "PK\3\4" + number(20, 2) + number(0, 2) + number(method, 2) + number(0, 4) + sizes +
                    number(name.size(), 2) + number(0, 2) + std::string{name} + std::string{data};
  const std::size_t at = out.size();
  out += "PK\1\2" + number(20, 2) + number(20, 2) + number(0, 2) + number(method, 2) + number(0, 4) + sizes +
         number(name.size(), 2) + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
         number(0, 4) + std::string{name};
  const std::size_t size = out.size() - at;
  return out + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) + number(size, 4) + number(at, 4) +
         number(0, 2);
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
