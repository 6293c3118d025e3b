// Goal: FX graphs as torch prints them have torch's ops, bytes and work; an incomplete text is refused by its
// line. Method: graphs that torch 2.15 printed, against its own counts; small texts by hand.
#include "graph/formats/torch/fx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "graph/formats/graph_file.h"
#include "tests/graph/graph_text.h"
#include "tests/graph/torch_counts.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kFxFiles = std::filesystem::path{EMPLACE_FIXTURES} / "formats";

Result<OpGraph> read_fx(std::string_view text, const ReadOptions& options = {}) {
  return read_text("graph.py", text, options);
}

std::string fx_error(std::string_view text, const ReadOptions& options = {}) {
  return refusal_of("graph.py", text, options);
}

ReadOptions fx_sizes(std::string text) {
  return {.dims = parse_open_dims(std::vector<std::string>{std::move(text)}).value()};
}

/// A module with these inputs and lines.
std::string module(std::string_view inputs, std::string_view lines) {
  return "class GraphModule(torch.nn.Module):\n    def forward(self, " + std::string{inputs} + "):\n" +
         std::string{lines};
}

TEST(FxText, PrintedGraphsHaveTorchsOpsAndWork) {
  const std::map<std::string, std::string> open{{"cnn_dynamic_forward.txt", "s77=4,s53=16"},
                                                {"cnn_dynamic_backward.txt", "s77=4,s53=16"},
                                                {"cnn_dynamic_dynamo.txt", "s77=4,s53=16"},
                                                {"cnn_export.txt", "s77=4"},
                                                {"llama_export.txt", "s46=2,s4=8"}};
  for (const char* file :
       {"cnn_forward.txt", "cnn_backward.txt", "cnn_dynamo.txt", "cnn_dynamic_forward.txt",
        "cnn_dynamic_backward.txt", "cnn_dynamic_dynamo.txt", "cnn_export.txt", "llama_export.txt"}) {
    SCOPED_TRACE(file);
    const auto graph =
        load_graph(kFxFiles / file, open.contains(file) ? fx_sizes(open.at(file)) : ReadOptions{});
    ASSERT_TRUE(graph.ok()) << graph.error().context;
    const auto expected = torch_counts(file);
    EXPECT_EQ(num_calls(*graph), expected["ops"].get<std::int64_t>());
    EXPECT_EQ(matrix_flops(*graph), expected["flops"].get<std::int64_t>());
    EXPECT_THAT(uncounted_ops(*graph), ::testing::IsEmpty());
    if (std::string_view{file}.find("backward") != std::string_view::npos) continue;
    EXPECT_EQ(state_bytes(*graph, "Parameter"), expected["parameter_bytes"].get<std::int64_t>());
  }
}

TEST(FxText, BackwardGraphHasTheBackwardPhase) {
  const OpGraph graph = load_graph(kFxFiles / "cnn_backward.txt").value();
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.type_name(OpId{i}) == "aten::convolution_backward") {
      EXPECT_EQ(graph.phase(OpId{i}), Phase::kBackward);
    }
}

TEST(FxText, ReadersDetermineWhichInputsAreParameters) {
  const OpGraph graph =
      read_fx(
          module(
              R"(primals_1: "f32[8, 4]", primals_2: "f32[16, 4]", primals_3: "f32[16]", primals_4: "f32[8, 16]", primals_5: "i64[8]", primals_6: "f32[16]")",
              R"(
        t: "f32[4, 16]" = torch.ops.aten.t.default(primals_2);  primals_2 = None
        addmm: "f32[8, 16]" = torch.ops.aten.addmm.default(primals_3, primals_1, t)
        mul: "f32[8, 16]" = torch.ops.aten.mul.Tensor(addmm, primals_4)
        add: "f32[16]" = torch.ops.aten.add.Tensor(primals_6, 1e-05)
        div: "f32[8, 16]" = torch.ops.aten.div.Tensor(mul, add)
        index: "f32[8, 16]" = torch.ops.aten.index.Tensor(div, [primals_5])
        return (index,)
)"))
          .value();
  std::map<std::string, std::string> types;
  for (std::uint32_t i = 0; i < 6; ++i) types[std::string{graph.name(OpId{i})}] = graph.type_name(OpId{i});
  EXPECT_THAT(types, ElementsAre(std::pair{"primals_1", "Input"}, std::pair{"primals_2", "Parameter"},
                                 std::pair{"primals_3", "Parameter"}, std::pair{"primals_4", "Parameter"},
                                 std::pair{"primals_5", "Input"}, std::pair{"primals_6", "Parameter"}));
  EXPECT_EQ(graph.param_bytes(OpId{1}), 256);
  EXPECT_EQ(graph.flops(op_named(graph, "addmm")), 2 * 8 * 4 * 16 + 8 * 16);
  EXPECT_TRUE(graph.is_view(op_named(graph, "t")));
}

TEST(FxText, TuplesAreOneOpAndLaterOpsReadInPlaceResults) {
  const OpGraph graph = read_fx(module(R"(arg0_1: "f32[8, 6][6, 1]cuda:0")", R"(
        split = torch.ops.aten.split.Tensor(arg0_1, 2, -1);  arg0_1 = None
        getitem: "f32[8, 2][6, 1]cuda:0" = split[0]
        getitem_2: "f32[8, 2][6, 1]cuda:0" = split[2];  split = None
        relu_: "f32[8, 2]" = torch.ops.aten.relu_.default(getitem)
        cat: "f32[8, 4]" = torch.ops.aten.cat.default([getitem, getitem_2], 1)
        _assert_scalar = torch.ops.aten._assert_scalar.default(1, 'no (bracket')
        return [cat]
)"))
                            .value();
  const OpId split = op_named(graph, "split");
  EXPECT_EQ(graph.num_outputs(split), 2u);
  EXPECT_EQ(graph.attrs_json(split), R"({"dim":-1,"view":true})");
  const OpId cat = op_named(graph, "cat");
  ASSERT_EQ(graph.inputs(cat).size(), 2u);
  EXPECT_EQ(graph.name(graph.producer(graph.inputs(cat)[0])), "relu_");
  EXPECT_EQ(graph.inputs(cat)[1], graph.output(split, 1));
  EXPECT_EQ(graph.type_name(op_named(graph, "relu_")), "aten::relu");
  EXPECT_EQ(graph.num_ops(), 4u);
}

TEST(FxText, ReadsLinesOfALog) {
  std::string log =
      "V1122 16:00:00.000000 123 torch/a.py:1] [0/0] [__aot_graphs] TRACED GRAPH (of a module\n";
  for (const char* line :
       {"class GraphModule(torch.nn.Module):", "    def forward(self, x: \"f32[2, 3]\"):",
        "        # File: it's here, code: f(", "        relu: \"f32[2, 3]\" = torch.relu(x);  x = None",
        "        y: \"f32[2, 3]\" = relu + 1", "        return (y,)",
        "class GraphModule(torch.nn.Module):", "    def forward(self):", "        return ()"})
    log += "V1122 16:00:00.000000 123 torch/a.py:1] [0/0] [__aot_graphs] " + std::string{line} + "\n";
  const OpGraph graph = read_fx(log).value();
  EXPECT_EQ(graph.num_ops(), 3u);
  EXPECT_EQ(graph.type_name(OpId{2}), "aten::add");
  EXPECT_THAT(graph_notes(graph), ::testing::Contains(HasSubstr("has 2 graphs")));
}

TEST(FxText, ReadsGraphsThatTheLogNames) {
  // Torch's logger writes the name of the code before the class. Parts of the graph are indented below it.
  const std::string_view body = R"(
            def forward(self, x: "f32[2, 3]"):
                relu: "f32[2, 3]" = torch.relu(x);  x = None
                return (relu,)
                class body_0(torch.nn.Module):
                    def forward(self, z: "f32[2, 3]"):
                        return (z,)
)";
  const std::string title = "TRACED GRAPH\n ===== Forward graph 0 =====\n";
  for (const std::string name :
       {" <eval_with_key>.1", " /usr/lib/torch/fx/_lazy_graph_module.py", " Compiled0"})
    for (const std::string module : {"GraphModule", "<lambda>"}) {
      SCOPED_TRACE(name + " " + module);
      std::string one = title;
      one.append(name).append(" class ").append(module).append("(torch.nn.Module):").append(body);
      const auto graph = read_fx(one + one);
      ASSERT_TRUE(graph.ok()) << graph.error().context;
      EXPECT_EQ(graph->num_ops(), 2u);
      EXPECT_THAT(graph_notes(*graph), ::testing::Contains(HasSubstr("has 2 graphs")));
    }
}

TEST(FxText, ReadsExportedModulesWithTypesBelowTheSignature) {
  const std::string_view rest = R"(
        fc_weight: "f32[5, 3]" = self.fc.weight
        linear: "f32[2, 5]" = torch.ops.aten.linear.default(x, fc_weight);  x = fc_weight = None
        add: "f32[2, 5]" = torch.ops.aten.add.Tensor(linear, y);  y = None
        return pytree.tree_unflatten((add,), self._out_spec)
)";
  const auto signature = read_fx(module(R"(x: "f32[2, 3]", y: "f32[2, 5]")", rest));
  const auto below = read_fx(module("x, y", R"(
        x: "f32[2, 3]"; y: "f32[2, 5]";

        x, y, = fx_pytree.tree_flatten_spec(([x, y], {}), self._in_spec)
        _guards_fn = self._guards_fn(x, y);  _guards_fn = None
)" + std::string{rest}));
  ASSERT_TRUE(below.ok()) << below.error().context;
  EXPECT_EQ(below->num_ops(), 5u);
  EXPECT_EQ(graph_sha256(*below), graph_sha256(signature.value()));
}

TEST(FxText, CountsGroupedConvolutionsAndListsUnknownOps) {
  const OpGraph graph = read_fx(module(R"(arg0_1: "f32[1, 4, 6, 6]", arg1_1: "f32[8, 2, 3, 3]")", R"(
        conv: "f32[1, 8, 4, 4]" = torch.ops.aten.convolution.default(arg0_1, arg1_1, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 2)
        far: "f32[1, 8, 4, 4]" = torch.ops.mine.far.default(conv)
        return (far,)
)"))
                            .value();
  EXPECT_EQ(graph.flops(OpId{2}), 2 * 128 * 2 * 9);
  EXPECT_EQ(graph.conv_groups(OpId{2}), 2);
  EXPECT_EQ(graph.type_name(OpId{3}), "mine::far");
  ASSERT_EQ(uncounted_ops(graph).size(), 1u);
  EXPECT_EQ(uncounted_ops(graph)[0].type, "mine::far");
}

TEST(FxText, CountsATiedWeightOnce) {
  // As torch.export prints it: an input for each name, and all calls read the last one.
  const OpGraph tied =
      read_fx(module(R"(p_words: "f32[9, 4]", p_head: "f32[9, 4]", p_spare: "f32[3, 3]", ids: "i64[2]")", R"(
        words: "f32[2, 4]" = torch.ops.aten.embedding.default(p_head, ids)
        y: "f32[2, 9]" = torch.ops.aten.linear.default(words, p_head)
        return (y,)
)"))
          .value();
  EXPECT_EQ(tied.num_ops(), 5u);
  EXPECT_EQ(tied.param_bytes(OpId{0}), 9 * 4 * 4);
  EXPECT_EQ(tied.param_bytes(OpId{1}), 3 * 3 * 4);  // Nothing reads it, and it is like no other.
  EXPECT_THAT(graph_notes(tied), ::testing::Contains(HasSubstr("other names of that one")));
  // The text of a module: an attribute may be fetched twice.
  const OpGraph again = read_fx(module(R"(x: "f32[2, 4]")", R"(
        w: "f32[4, 4]" = self.lin.weight
        a: "f32[2, 4]" = torch.ops.aten.linear.default(x, w)
        w_1: "f32[4, 4]" = self.lin.weight
        b: "f32[2, 4]" = torch.ops.aten.linear.default(a, w_1)
        return (b,)
)"))
                            .value();
  EXPECT_EQ(again.num_ops(), 4u);
  // Two weights that one call each reads are two.
  const OpGraph apart = read_fx(module(R"(p_a: "f32[4, 4]", p_b: "f32[4, 4]", x: "f32[2, 4]")", R"(
        a: "f32[2, 4]" = torch.ops.aten.linear.default(x, p_b)
        return (a,)
)"))
                            .value();
  EXPECT_EQ(apart.num_ops(), 4u);
}

TEST(FxText, ReadsAWriteToAPart) {
  // As Dynamo prints it, also for the masks of flex_attention.
  const OpGraph graph = read_fx(module(R"(x: "f32[4, 3]", i: "i64[2]")", R"(
        one: "f32[]" = x.new_ones(())
        x[(i, slice(None, 1, None))] = one;  setitem = x;  i = None
        y: "f32[4, 3]" = x.relu();  x = None
        return (y,)
)"))
                            .value();
  const OpId write = op_named(graph, "x[(i, slice(None, 1, None))]"), read = op_named(graph, "y");
  EXPECT_EQ(graph.type_name(write), "aten::index_put");
  EXPECT_EQ(graph.producer(graph.inputs(read)[0]), write);
}

TEST(FxText, CountsAnEinsumByItsEquation) {
  const OpGraph graph = read_fx(module(R"(x: "f32[5, 3, 2]", y: "f32[5, 2, 4]")", R"(
        z: "f32[5, 3, 4]" = torch.functional.einsum('bij,bjk->bik', x, y)
        w: "f32[5, 3, 4]" = torch.ops.aten.einsum.default('bij,bjk->bik', [x, y])
        return (z, w)
)"))
                            .value();
  for (const OpId op : {OpId{2}, OpId{3}}) EXPECT_EQ(graph.flops(op), 2 * 5 * 3 * 2 * 4);
  EXPECT_THAT(uncounted_ops(graph), ::testing::IsEmpty());
}

TEST(FxText, RequestsOpenSizesByName) {
  const std::string text = module(R"x(arg0_1: "Sym(s0)", arg1_1: "f32[s0, 2*s1 + 1]")x",
                                  "        add: \"f32[s0, 2*s1 + 1]\" = torch.ops.aten.add.Tensor(arg1_1, "
                                  "arg0_1)\n        return (add,)\n");
  EXPECT_THAT(fx_error(text), AllOf(HasSubstr("symbolic sizes"), HasSubstr("--shape s0=…,s1=…")));
  const auto graph = read_fx(text, fx_sizes("s0=3,s1=4"));
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_THAT(graph->shape(TensorId{0}), ElementsAre(3, 9));
  EXPECT_THAT(fx_error(text, fx_sizes("s0=3,s1=4,ghost=5")), HasSubstr("no dimension called 'ghost'"));
}

TEST(FxText, ErrorsNameTheLine) {
  const std::string x = R"(x: "f32[2]")";
  EXPECT_THAT(fx_error(module(x, "        y = torch.relu(x)\n        z: \"f32[2]\" = torch.relu(y)\n")),
              AllOf(HasSubstr("line 3: 'y' has no type"), HasSubstr("print_readable")));
  EXPECT_THAT(fx_error(module("x", "        z: \"f32[2]\" = torch.relu(x)\n")),
              HasSubstr("line 3: input 'x' has no type"));
  EXPECT_THAT(fx_error(module(x, "        z: \"f32[2]\" = torch.relu(ghost)\n")),
              HasSubstr("line 3: 'ghost' is not defined before"));
  EXPECT_THAT(fx_error(module(x, "        z: \"q7[2]\" = torch.relu(x)\n")),
              HasSubstr("line 3: 'q7' is not a known element type"));
  EXPECT_THAT(fx_error(module(x, "        z: \"f32[2+]\" = torch.relu(x)\n")),
              HasSubstr("line 3: size '2+' is not a size"));
  EXPECT_THAT(fx_error(module(x, "        z: \"f32[1//0]\" = torch.relu(x)\n")),
              HasSubstr("divides by zero"));
  EXPECT_THAT(fx_error(module(x, "        z: \"f32[2]\" = torch.relu(x\n")), HasSubstr("unclosed bracket"));
  EXPECT_THAT(fx_error(module(x, "        for x in y\n")), HasSubstr("line 3: is not a statement"));
  EXPECT_THAT(fx_error(module(
                  x, "        z: \"f32[2]\" = " + std::string(5000, '(') + std::string(5000, ')') + "\n")),
              HasSubstr("cannot be parsed"));
  EXPECT_THAT(fx_error(module(x, "        x: \"f32[2]\" = torch.relu(x)\n")), HasSubstr("'x'"));
  EXPECT_THAT(fx_error(module(x, "        z: \"f32[4611686018427387904, 8]\" = torch.relu(x)\n")),
              HasSubstr("z"));
}

TEST(FxText, ReadsOrRefusesEveryTruncationInOneLine) {
  std::ifstream in{kFxFiles / "cnn_forward.txt"};
  const std::string whole{std::istreambuf_iterator<char>{in}, {}};
  ASSERT_GT(whole.size(), 1000u);
  for (std::size_t size = 1; size < whole.size(); size += 3) {
    const auto graph = read_fx(whole.substr(0, size), {.format = GraphFormat::kFx});
    if (!graph) {
      EXPECT_EQ(graph.error().context.find('\n'), std::string::npos) << size;
    }
  }
}

}  // namespace
}  // namespace emplace
