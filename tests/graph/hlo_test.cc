// Goal: XLA modules as text have XLA's work, and a broken one is refused by its line. Method: modules that
// jax wrote, against XLA's own cost analysis; small modules by hand.
#include "graph/formats/hlo/hlo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/formats/graph_file.h"
#include "tests/graph/graph_text.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path kHloFiles = std::filesystem::path{EMPLACE_FIXTURES} / "formats";

Result<OpGraph> read_hlo(std::string_view text, const ReadOptions& options = {}) {
  return read_text("module.hlo", text, options);
}

std::string hlo_error(std::string_view text) { return refusal_of("module.hlo", text); }

std::string entry(std::string_view lines) {
  return "HloModule m\n\nENTRY %main (x: f32[2,3]) -> f32[2,3] {\n  %x = f32[2,3]{1,0} parameter(0)\n" +
         std::string{lines} + "}\n";
}

std::int64_t flops(const OpGraph& graph) {
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) sum += graph.flops(OpId{i});
  return sum;
}

TEST(HloText, ModulesOfJaxHaveTheWorkThatXlaCounts) {
  std::ifstream in{kHloFiles / "jax.json"};
  const auto expected = nlohmann::json::parse(in);
  for (const char* file : {"mlp_compiled.hlo", "mlp_lowered.hlo", "block_compiled.hlo", "block_lowered.hlo",
                           "conv_compiled.hlo", "conv_lowered.hlo"}) {
    SCOPED_TRACE(file);
    const auto graph = load_graph(kHloFiles / file);
    ASSERT_TRUE(graph.ok()) << graph.error().context;
    // The rest is arithmetic that XLA counts differently: transcendental functions and integers.
    EXPECT_NEAR(static_cast<double>(flops(*graph)) / expected[file]["flops"].get<double>(), 1, 0.01);
    EXPECT_THAT(uncounted_ops(*graph), ::testing::IsEmpty());
    std::int64_t arguments = 0;
    for (std::uint32_t i = 0; i < graph->num_ops(); ++i)
      if (graph->is_state(OpId{i}) && graph->type_name(OpId{i}) != "Constant")
        arguments += graph->bytes(graph->first_output(OpId{i}));
    EXPECT_EQ(arguments, expected[file]["argument_bytes"].get<std::int64_t>());
  }
}

TEST(HloText, LoopHasItsBodysWorkTimesItsLength) {
  const OpGraph known = load_graph(kHloFiles / "loop_compiled.hlo").value(),
                once = load_graph(kHloFiles / "loop_lowered.hlo").value();
  EXPECT_NEAR(static_cast<double>(flops(known)), 5.0 * static_cast<double>(flops(once)), 16);
  EXPECT_THAT(graph_notes(known), ::testing::IsEmpty());
  EXPECT_THAT(graph_notes(once), ::testing::ElementsAre(HasSubstr("1 loops of unknown length")));
}

TEST(HloText, ConvolutionsWithoutPaddingAndWithGroupsAreExact) {
  const OpGraph graph = load_graph(kHloFiles / "conv_lowered.hlo").value();
  std::ifstream in{kHloFiles / "jax.json"};
  EXPECT_EQ(flops(graph), nlohmann::json::parse(in)["conv_lowered.hlo"]["flops"].get<std::int64_t>());
}

TEST(HloText, FusionsAreOneOpScopesAreGroupsAndTuplesVanish) {
  const OpGraph graph = read_hlo(R"(HloModule m, input_output_alias={ {0}: (2, {}, may-alias) }

fused (a: f32[2,3], b: f32[3,4]) -> f32[2,4] {
  a = f32[2,3]{1,0} parameter(0)
  b = f32[3,4]{1,0} parameter(1)
  ROOT d = f32[2,4]{1,0} dot(f32[2,3]{1,0} a, f32[3,4]{1,0} b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY main {
  x = f32[2,3]{1,0} parameter(0), metadata={op_name="x"}
  w = f32[3,4]{1,0:T(8,128)} parameter(1), metadata={op_name="params[\'w\']"}
  s = f32[2,4] parameter(2)
  f = f32[2,4]{1,0} fusion(x, w), kind=kOutput, calls=fused, metadata={op_name="jit(f)/jit(main)/transpose(jvp(Layer))/sub/dot_general" source_file="a \"b\".py"}
  both = (f32[2,4], (f32[2,4], f32[3,4])) tuple(f, /*index=1*/s)
  t = (f32[2,4], f32[2,4]) tuple(f, s)
  one = f32[2,4] get-tuple-element((f32[2,4], f32[2,4]) t), index=1
  ROOT r = f32[8]{0} reshape(one)
}
)")
                            .value();
  ASSERT_EQ(graph.num_ops(), 5u);
  const OpId fusion{3};
  EXPECT_EQ(graph.type_name(fusion), "hlo::fusion_dot");
  EXPECT_EQ(graph.flops(fusion), 2 * 2 * 4 * 3);
  EXPECT_EQ(graph.group_name(fusion), "Layer/sub");
  EXPECT_EQ(graph.phase(fusion), Phase::kBackward);
  EXPECT_EQ(graph.type_name(OpId{0}), "Input");
  EXPECT_EQ(graph.type_name(OpId{1}), "Parameter");
  EXPECT_EQ(graph.param_bytes(OpId{1}), 48);
  EXPECT_EQ(graph.type_name(OpId{2}), "Buffer");
  EXPECT_TRUE(graph.is_view(OpId{4}));
  EXPECT_EQ(graph.producer(graph.inputs(OpId{4})[0]), OpId{2});
}

TEST(HloText, ListsUnknownOps) {
  const OpGraph graph =
      read_hlo(entry("  ROOT %c = f32[2,3] custom-call(%x), custom_call_target=\"Mine\"\n")).value();
  ASSERT_EQ(uncounted_ops(graph).size(), 1u);
  EXPECT_EQ(uncounted_ops(graph)[0].type, "hlo::custom-call:Mine");
}

TEST(HloText, ErrorsNameTheLine) {
  EXPECT_THAT(hlo_error("HloModule m\n"), HasSubstr("has no ENTRY"));
  EXPECT_THAT(hlo_error(entry("  %y = f32[2,3] add(%x, %ghost)\n")),
              AllOf(HasSubstr("line 5"), HasSubstr("'ghost'")));
  EXPECT_THAT(hlo_error(entry("  %y = f32[2,3] add(%x, %z)\n  %z = f32[2,3] copy(%x)\n")),
              HasSubstr("'z', which is not defined before"));
  EXPECT_THAT(hlo_error(entry("  %x = f32[2,3] copy(%x)\n")), HasSubstr("line 5: defines 'x' twice"));
  EXPECT_THAT(hlo_error(entry("  %y = q9[2,3] copy(%x)\n")), HasSubstr("unknown type 'q9'"));
  EXPECT_THAT(hlo_error(entry("  %y = f32[2,?] copy(%x)\n")), HasSubstr("unknown size '?'"));
  EXPECT_THAT(hlo_error(entry("  %y = f32[2,3] copy(%x\n")), HasSubstr("is not closed"));
  EXPECT_THAT(hlo_error(entry("  hello\n")), HasSubstr("line 5: is not an instruction"));
  EXPECT_THAT(hlo_error(entry("  %y = f32[2,3] call(%x), to_apply=%ghost\n")),
              HasSubstr("runs 'ghost', which does not exist"));
  EXPECT_THAT(
      hlo_error(
          entry("  %y = f32[2,3] call(%x), to_apply=%main\n")
              .replace(
                  0, 11,
                  "HloModule m\nENTRY e {\n a = f32[] parameter(0)\n b = f32[] call(a), to_apply=main\n}")),
      HasSubstr("calls itself"));
  EXPECT_THAT(hlo_error(entry("  %y = f32[2,3] get-tuple-element(%x), index=0\n")),
              HasSubstr("is out of range"));
  EXPECT_THAT(hlo_error(entry("  %y = " + std::string(3000, '(') + " copy(%x)\n")), HasSubstr("line 5"));
  EXPECT_THAT(hlo_error(entry("") + entry("")), HasSubstr("second module"));
}

TEST(HloText, ReadsOrRefusesEveryTruncationInOneLine) {
  std::ifstream in{kHloFiles / "block_lowered.hlo"};
  const std::string whole{std::istreambuf_iterator<char>{in}, {}};
  ASSERT_GT(whole.size(), 1000u);
  for (std::size_t size = 1; size < whole.size(); size += 3) {
    const auto graph = read_hlo(whole.substr(0, size), {.format = GraphFormat::kHlo});
    if (graph) continue;
    EXPECT_EQ(graph.error().context.find('\n'), std::string::npos) << size;
  }
}

}  // namespace
}  // namespace emplace
