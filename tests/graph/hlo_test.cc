// Goal: XLA modules as text have XLA's work, and a broken one is refused by its line. Method: modules that
// jax wrote, against XLA's own cost analysis; small modules by hand.
#include "graph/formats/hlo/hlo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/formats/graph_file.h"
#include "graph/lowering.h"
#include "graph/op_kind.h"
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
  EXPECT_THAT(graph_notes(known), ::testing::ElementsAre(HasSubstr("loops: 1; each is placed as one op")));
  EXPECT_THAT(graph_notes(once),
              ::testing::ElementsAre(HasSubstr("1 loops of unknown length"), HasSubstr("loops: 1")));
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

/// One custom call of a library: operands by shape, result, attributes, and the work of its formula.
struct LibraryCall {
  std::string_view target, operands, result, attributes;
  std::int64_t flops = 0;
};

OpGraph graph_of_call(const LibraryCall& call) {
  std::string text = "HloModule m\n\nENTRY %main {\n", names;
  std::istringstream shapes{std::string{call.operands}};
  int number = 0;
  for (std::string shape; shapes >> shape; ++number) {
    text += "  %p" + std::to_string(number) + " = " + shape + " parameter(" + std::to_string(number) + ")\n";
    names += (number == 0 ? "%p" : ", %p") + std::to_string(number);
  }
  text += "  %c = " + std::string{call.result} + " custom-call(" + names + "), custom_call_target=\"" +
          std::string{call.target} + "\"" + std::string{call.attributes} + "\n";
  if (call.result.starts_with('('))
    text += "  ROOT %r = " + std::string{call.result.substr(1, call.result.find(']'))} +
            " get-tuple-element(%c), index=0\n";
  return read_hlo(text + "}\n").value();
}

TEST(HloText, CustomCallsOfLibrariesHaveTheWorkOfWhatTheyReplace) {
  constexpr std::string_view kGemm =
      R"(, backend_config={"gemm_backend_config":{"alpha_real":1,"beta":0,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[]},"epilogue":"DEFAULT"}})";
  constexpr std::string_view kBatched =
      R"(, backend_config={"gemm_backend_config":{"beta":1,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1","3"],"lhs_batch_dimensions":["0"]},"epilogue":"BIAS_GELU"}})";
  constexpr std::string_view kEscaped =
      R"(, backend_config="{\"beta\":0,\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"0\"]},\"epilogue\":\"BIAS_RELU\"}")";
  constexpr std::string_view kForward =
      ", window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01, feature_group_count=4";
  constexpr std::string_view kActive =
      R"(, window={size=1x1}, dim_labels=b01f_o01i->b01f, backend_config={"cudnn_conv_backend_config":{"activation_mode":"kRelu","conv_result_scale":1}})";
  constexpr std::string_view kScores =
      R"(, backend_config={"cudnn_fmha_backend_config":{"fmha_scale":0.1,"intermediate_tensor_shape":{"element_type":"BF16","dimensions":["2","4","16","32"],"tuple_shapes":[]},"mask_type":"NO_MASK"}})";
  // Positions of a 3 x 3 window with padding 1 over 8 x 8 that meet an element: 22 · 22.
  constexpr std::int64_t kMet = 22 * 22;
  const LibraryCall calls[]{
      {"__cublas$gemm", "f32[512,1024]{1,0} f32[1024,2048]{1,0}", "(f32[512,2048]{1,0}, s8[4194304]{0})",
       kGemm, std::int64_t{2} * 512 * 1024 * 2048},
      {"__cublas$gemm", "f32[512,1024] f32[1024,2048]", "f32[512,2048]", kGemm,
       std::int64_t{2} * 512 * 1024 * 2048},
      {"__cublas$lt$matmul", "bf16[6,5,7,8] bf16[6,5,8,3] bf16[6,7,3]", "bf16[6,7,3]", kBatched,
       6 * 7 * 3 * (2 * 5 * 8 + 13 + 1)},
      {"__cublas$lt$matmul$f8", "f8e4m3fn[64,16] f8e4m3fn[64,32] f32[] f32[]", "(f32[16,32], s8[1024])",
       kEscaped, 16 * 32 * (2 * 64 + 2)},
      {"__cublas$lt$groupedMatmul", "f32[64,32] f32[4,32,48] s32[4]", "f32[64,48]",
       R"(, backend_config={"grouped_gemm_backend_config":{"ragged_dot_dimension_numbers":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["1"]},"lhs_ragged_dimensions":["0"]}}})",
       2 * 64 * 48 * 32},
      {"__cublas$lt$groupedMatmul", "f32[64,32] f32[64,48] s32[4]", "f32[4,32,48]",
       R"(, backend_config={"dot_dimension_numbers":{"lhs_contracting_dimensions":["0"]},"lhs_ragged_dimensions":["0"]})",
       2 * 64 * 48 * 32},
      {"__cudnn$convForward", "f32[2,16,8,8] f32[32,4,3,3]", "(f32[2,32,8,8], u8[0])", kForward,
       2 * 2 * 32 * 4 * kMet},
      {"__cudnn$convBackwardInput", "f32[2,32,8,8] f32[32,4,3,3]", "(f32[2,16,8,8], u8[128])", kForward,
       2 * 2 * 32 * 4 * kMet},
      {"__cudnn$convBackwardFilter", "f32[2,16,8,8] f32[2,32,8,8]", "(f32[32,4,3,3], u8[128])", kForward,
       2 * 2 * 32 * 4 * kMet},
      {"__cudnn$convBiasActivationForward", "f16[2,8,8,16] f16[32,1,1,16] f32[32]", "(f16[2,8,8,32], u8[0])",
       kActive, 2 * 8 * 8 * 32 * (2 * 16 + 2)},
      {"__cudnn$convForward", "s8[2,1,8,8,4] s8[8,1,3,3,4]", "(s8[2,2,8,8,4], u8[0])",
       ", window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01", 2 * 2 * 8 * 4 * kMet},
      {"__cudnn$convForward", "s8[2,1,4,8,8] s8[8,1,4,3,3]", "(s8[2,2,4,8,8], u8[0])",
       ", window={size=3x3 pad=1_1x1_1}, dim_labels=bf?01_oi?01->bf?01", 2 * 2 * 8 * 4 * kMet},
      {"__cublas$gemm", "f32[64] f32[16]", "f32[64,16]",
       R"(, backend_config={"dot_dimension_numbers":{"lhs_contracting_dimensions":[]}})", 2 * 64 * 16},
      {"__cudnn$blockScaledDot", "f8e4m3fn[2,64,32] f8e4m3fn[2,16,32] f8e8m0fnu[2,64,1] f8e8m0fnu[2,16,1]",
       "(bf16[2,64,16], s8[4])", R"(, backend_config={"block_scaled_dot_backend_config":{"block_size":32}})",
       2 * 2 * 64 * 16 * 32},
      {"__cudnn$fmhaSoftmax", "bf16[2,16,4,64] bf16[2,32,4,64] bf16[2,32,4,64]", "(bf16[2,4,16,64], u8[0])",
       kScores, 2 * 4 * 16 * 32 * (2 * (64 + 64) + 5)},
      {"__cudnn$fmhaScaleBiasSoftmaxDropoutBackward",
       "bf16[2,16,4,64] bf16[2,32,4,64] bf16[2,32,4,64] f32[2,4,16] bf16[2,16,4,64]",
       "(bf16[2,4,16,64], bf16[2,4,32,64], bf16[2,4,32,64], u8[0])", kScores,
       2 * 4 * 16 * 32 * (2 * (3 * 64 + 2 * 64) + 4)},
      {"__onednn$matmul", "f32[4,64,16] f32[4,64,32] f32[32]", "f32[4,16,32]",
       R"(, backend_config={"outer_dimension_partitions":[],"onednn_matmul_config":{"transpose_a":true,"transpose_b":false,"fusions":{"ops":["BIAS"]}}})",
       2 * 4 * 16 * 32 * 64},
      {"__onednn$convolution", "f32[2,8,8,16] f32[3,3,16,32]", "f32[2,6,6,32]", "",
       2 * 2 * 6 * 6 * 32 * 3 * 3 * 16},
      {"__onednn$softmax", "f32[8,32]", "f32[8,32]", "", 5 * 8 * 32},
      {"__cusolver$cholesky", "f32[3,12,12]", "(f32[3,12,12], f32[64], s32[3])", "", 3 * 12 * 12 * 12 / 3},
      {"lapack_spotrf_ffi", "f32[3,12,12]", "(f32[3,12,12], s32[3])", "", 3 * 12 * 12 * 12 / 3},
      {"cusolver_getrf_ffi", "f32[3,12,12]", "(f32[3,12,12], s32[3,12], s32[3])", "",
       2 * 3 * 12 * 12 * 12 / 3},
      {"lapack_sgeqrf_ffi", "f32[30,12]", "(f32[30,12], f32[12])", "", 4 * 12 * 12 * (3 * 30 - 12) / 6},
      {"lapack_strsm_ffi", "f32[12,12] f32[12,5]", "f32[12,5]", "", 12 * 12 * 5},
      {"blas_strsm", "s32[] s32[] f32[] f32[12,12] f32[12,5]", "f32[12,5]", "", 12 * 12 * 5},
  };
  for (const LibraryCall& call : calls) {
    SCOPED_TRACE(call.target);
    const OpGraph graph = graph_of_call(call);
    EXPECT_EQ(flops(graph), call.flops);
    EXPECT_THAT(uncounted_ops(graph), ::testing::IsEmpty());
    const auto last = OpId{static_cast<std::uint32_t>(graph.num_ops() - 1)};
    EXPECT_EQ(graph.type_name(last), "hlo::custom-call:" + std::string{call.target});
  }
  EXPECT_EQ(class_of_type("hlo::custom-call:__cublas$lt$matmul$f8"), OpClass::kMatmul);
  EXPECT_EQ(class_of_type("hlo::custom-call:__cudnn$convBackwardFilter"), OpClass::kConv);
  EXPECT_EQ(class_of_type("hlo::async-start_dot"), OpClass::kMatmul);
}

TEST(HloText, CustomCallsThatLackTheirDimensionsAreUnknown) {
  for (const char* target : {"__cublas$gemm", "__cudnn$fmhaSoftmax", "__cudnn$somethingNew"}) {
    const OpGraph graph = graph_of_call({target, "f32[4,8] f32[8,4] f32[8,4]", "f32[4,4]", ""});
    ASSERT_EQ(uncounted_ops(graph).size(), 1u) << target;
    EXPECT_EQ(uncounted_ops(graph)[0].type, "hlo::custom-call:" + std::string{target});
  }
  EXPECT_THAT(hlo_error(entry("  %y = f32[2,2] custom-call(%x), custom_call_target=\"__cublas$gemm\"\n")),
              HasSubstr("line 5: has too few operands"));
}

// The result for the scratch of a library is never read: it is free again when the op ends.
TEST(HloText, WorkspacesOfLibrariesAreScratch) {
  std::string text = "HloModule m\n\nENTRY %main {\n  %x0 = f32[64,64]{1,0} parameter(0)\n";
  for (int k = 0; k < 8; ++k) {
    const std::string from = "%x" + std::to_string(k), to = std::to_string(k + 1);
    text += "  %g" + to + " = (f32[64,64]{1,0}, s8[4194304]{0}) custom-call(" + from + ", " + from +
            R"(), custom_call_target="__cublas$gemm", backend_config={"lhs_contracting_dimensions":["1"]})" +
            "\n  %x" + to + " = f32[64,64]{1,0} get-tuple-element(%g" + to + "), index=0\n";
  }
  const OpGraph graph = read_hlo(text + "}\n").value();
  const LoweredGraph lowered{graph};
  for (const OpId op : lowered.kernels()) EXPECT_GE(lowered.unread_bytes(op), 4194304);
}

TEST(HloText, ProductsInFusionsOfAnyKindCount) {
  for (const char* kind : {"__triton_gemm", "__cudnn$fusion", "__ynn_fusion", "__cutlass$gemm"}) {
    const OpGraph graph = read_hlo(R"(HloModule m

%inner (a: f32[2,3], b: f32[3,4]) -> f32[2,4] {
  %a = f32[2,3]{1,0} parameter(0)
  %b = f32[3,4]{1,0} parameter(1)
  ROOT %d = f32[2,4]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main {
  %x = f32[2,3]{1,0} parameter(0)
  %w = f32[3,4]{1,0} parameter(1)
  ROOT %f = f32[2,4]{1,0} fusion(%x, %w), kind=kCustom, calls=%inner, backend_config={"fusion_backend_config":{"kind":")" +
                                   std::string{kind} + "\"}}\n}\n")
                              .value();
    EXPECT_EQ(flops(graph), 2 * 2 * 4 * 3) << kind;
  }
}

// A gradient of the kernel of a grouped convolution has the work of the forward pass: its labels exchange
// batch and features, and the groups are in the batch.
TEST(HloText, GroupsOfAConvolutionDivideItsWorkForwardAndBackward) {
  const auto work = [](std::string_view line) {
    return flops(
        read_hlo("HloModule m\n\nENTRY %main {\n  %x = f32[2,8,8,16] parameter(0)\n  %w = f32[3,3,4,32] "
                 "parameter(1)\n  %dy = f32[2,8,8,32] parameter(2)\n  %t = f32[3,3,16,8] parameter(3)\n  "
                 "ROOT %y = " +
                 std::string{line} + "\n}\n")
            .value());
  };
  const std::int64_t forward = 2 * 2 * 4 * 32 * 22 * 22;
  EXPECT_EQ(work("f32[2,8,8,32] convolution(%x, %w), window={size=3x3 pad=1_1x1_1}, "
                 "dim_labels=b01f_01io->b01f, feature_group_count=4"),
            forward);
  EXPECT_EQ(work("f32[2,8,8,16] convolution(%dy, %t), window={size=3x3 pad=1_1x1_1}, "
                 "dim_labels=b01f_01oi->b01f, feature_group_count=4"),
            forward);
  EXPECT_EQ(work("f32[3,3,4,32] convolution(%x, %dy), window={size=8x8 pad=1_1x1_1}, "
                 "dim_labels=f01b_i01o->01bf, batch_group_count=4"),
            forward);
}

TEST(HloText, RaggedProductsFactorisationsAndTransformsCount) {
  const auto work = [](std::string_view parameters, std::string_view line) {
    std::string text = "HloModule m\n\nENTRY %main {\n";
    std::istringstream shapes{std::string{parameters}};
    int number = 0;
    for (std::string shape; shapes >> shape; ++number)
      text +=
          "  %p" + std::to_string(number) + " = " + shape + " parameter(" + std::to_string(number) + ")\n";
    return flops(read_hlo(text + "  ROOT %y = " + std::string{line} + "\n}\n").value());
  };
  EXPECT_EQ(work("f32[64,32] f32[4,32,48] s32[4]",
                 "f32[64,48] ragged-dot(%p0, %p1, %p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
                 "lhs_ragged_dims={0}, rhs_group_dims={0}"),
            2 * 64 * 48 * 32);
  EXPECT_EQ(
      work("f32[64,32] f32[64,48] s32[4]",
           "f32[4,32,48] ragged-dot(%p0, %p1, %p2), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
           "lhs_ragged_dims={0}"),
      2 * 64 * 48 * 32);
  EXPECT_EQ(
      work("f32[7,32] f32[7,48] s32[3]",  // Groups of unlike sizes.
           "f32[3,32,48] ragged-dot(%p0, %p1, %p2), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
           "lhs_ragged_dims={0}"),
      2 * 7 * 48 * 32);
  EXPECT_EQ(work("f32[3,12,12]", "f32[3,12,12] cholesky(%p0), lower=true"), 3 * 12 * 12 * 12 / 3);
  EXPECT_EQ(work("f32[12,12] f32[12,5]", "f32[12,5] triangular-solve(%p0, %p1), lower=true"), 12 * 12 * 5);
  EXPECT_EQ(work("c64[3,16]", "c64[3,16] fft(%p0), fft_type=FFT, fft_length={16}"), 5 * 3 * 16 * 4);
  EXPECT_EQ(work("f32[3,16]", "c64[3,9] fft(%p0), fft_type=RFFT, fft_length={16}"), 5 * 3 * 16 * 4 / 2);
}

TEST(HloText, ListsUnknownOps) {
  const OpGraph graph =
      read_hlo(entry("  ROOT %c = f32[2,3] custom-call(%x), custom_call_target=\"Mine\"\n")).value();
  ASSERT_EQ(uncounted_ops(graph).size(), 1u);
  EXPECT_EQ(uncounted_ops(graph)[0].type, "hlo::custom-call:Mine");
}

TEST(HloText, OpsThatHideUnknownOnesAreListed) {
  const OpGraph graph = read_hlo(R"(HloModule m

%inner (a: f32[2,3]) -> f32[2,3] {
  %a = f32[2,3]{1,0} parameter(0)
  ROOT %c = f32[2,3]{1,0} custom-call(%a), custom_call_target="Mine"
}

ENTRY %main {
  %x = f32[2,3]{1,0} parameter(0)
  ROOT %y = f32[2,3]{1,0} call(%x), to_apply=%inner
}
)")
                            .value();
  ASSERT_EQ(uncounted_ops(graph).size(), 1u);
  EXPECT_EQ(uncounted_ops(graph)[0].type, "hlo::call");
  EXPECT_EQ(uncounted_ops(graph)[0].share, 1);
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

TEST(HloText, ALoopDoesNotReturnWhatItCarries) {
  constexpr std::string_view kLoop = R"(HloModule net
%body (a: (s32[], f32[2,4], f32[9,4,4])) -> (s32[], f32[2,4], f32[9,4,4]) {
  %a = (s32[], f32[2,4], f32[9,4,4]) parameter(0)
  %k = s32[] get-tuple-element(%a), index=0
  %h = f32[2,4] get-tuple-element(%a), index=1
  %w = f32[9,4,4] get-tuple-element(%a), index=2
  %n = f32[2,4] tanh(%h)
  ROOT %r = (s32[], f32[2,4], f32[9,4,4]) tuple(%k, %n, %w)
}
%cond (c: (s32[], f32[2,4], f32[9,4,4])) -> pred[] {
  %c = (s32[], f32[2,4], f32[9,4,4]) parameter(0)
  ROOT %t = pred[] constant(true)
}
ENTRY %main (x: f32[2,4], params: f32[9,4,4]) -> f32[9,4,4] {
  %x = f32[2,4] parameter(0)
  %params = f32[9,4,4] parameter(1), metadata={op_name="params"}
  %zero = s32[] constant(0)
  %t = (s32[], f32[2,4], f32[9,4,4]) tuple(%zero, %x, %params)
  %loop = (s32[], f32[2,4], f32[9,4,4]) while(%t), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"9"}}
  %same = f32[9,4,4] get-tuple-element(%loop), index=2
  %h = f32[2,4] get-tuple-element(%loop), index=1
  %end = f32[2,4] negate(%h)
  ROOT %neg = f32[9,4,4] negate(%same)
}
)";
  const OpGraph graph = read_text("net.hlo", kLoop).value();
  const OpId loop = op_named(graph, "loop"), end = op_named(graph, "end"), neg = op_named(graph, "neg");
  ASSERT_EQ(graph.num_outputs(loop), 1u);
  EXPECT_EQ(graph.bytes(graph.output(loop, 0)), 2 * 4 * 4);
  EXPECT_EQ(graph.producer(graph.inputs(end)[0]), loop);
  EXPECT_EQ(graph.name(graph.producer(graph.inputs(neg)[0])), "params");
  EXPECT_THAT(graph_notes(graph), ::testing::Contains(::testing::HasSubstr("unroll=True")));
}

TEST(HloText, NotesWhatLooksLikeWeightsWithoutNames) {
  constexpr std::string_view kNet = R"(HloModule step
ENTRY %main (x: f16[8,64], w: f16[64,64], keys: f16[4,64,16], q: f16[4,2,16], both: f16[64,32]) -> f16[8,64] {
  %x = f16[8,64] parameter(0)
  %w = f16[64,64] parameter(1)
  %keys = f16[4,64,16] parameter(2)
  %q = f16[4,2,16] parameter(3)
  %both = f16[64,32] parameter(4)
  %d = f16[8,64] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %s = f16[4,2,64] dot(%q, %keys), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  %m = f16[8,32] dot(%x, %both), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %o = f16[64,32] negate(%both)
  ROOT %t = (f16[8,64], f16[4,2,64], f16[8,32], f16[64,32]) tuple(%d, %s, %m, %o)
}
)";
  const OpGraph graph = read_text("net.hlo", kNet).value();
  EXPECT_THAT(graph_notes(graph), ::testing::Contains(HasSubstr(": 1 parameters that only products read")));
  std::string named{kNet};
  named.replace(named.find("parameter(1)"), 12, "parameter(1), metadata={op_name=\"params\"}");
  EXPECT_THAT(graph_notes(read_text("net.hlo", named).value()), ::testing::IsEmpty());
}

}  // namespace
}  // namespace emplace
