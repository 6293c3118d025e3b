// Goal: fused attention has the batch, heads, keys and sizes that its table is indexed with, whichever op
// computes it; masked scores are no work. Method: ops of all vocabularies against sizes by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/placement/costs/one_op.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using enum KernelKind;

OneOp torch_attention(std::int64_t queries, std::int64_t keys, std::string attrs,
                      std::int64_t kv_heads = 12) {
  return {.type = "aten::_scaled_dot_product_flash_attention",
          .inputs = {{4, 12, queries, 64}, {4, kv_heads, keys, 64}, {4, kv_heads, keys, 64}},
          .outputs = {{4, 12, queries, 64}, {4, 12, queries}},
          .attrs = std::move(attrs),
          .dtype = DType::kBF16};
}

TEST(AttentionShape, CausalAttentionIsHalfTheProducts) {
  const KernelShape all = kernel_of(torch_attention(512, 512, "{}"));
  EXPECT_EQ(all.kind, kEncoder);
  EXPECT_THAT(all.at, ElementsAre(48, 512, 64, 1));
  EXPECT_EQ(all.arithmetic, Arithmetic::kBf16);
  EXPECT_EQ(all.flops, 4.0 * 48 * 64 * 512 * 512);
  EXPECT_EQ(all.bytes, 2.0 * 4 * 48 * 512 * 64);
  const KernelShape causal = kernel_of(torch_attention(512, 512, R"({"is_causal":true})"));
  EXPECT_EQ(causal.kind, kPrefill);
  EXPECT_EQ(causal.flops, 4.0 * 48 * 64 * 512 * 513 / 2);
}

TEST(AttentionShape, OneQueryDecodes) {
  const KernelShape one = kernel_of(torch_attention(1, 4096, R"({"is_causal":true})", 3));
  EXPECT_EQ(one.kind, kDecode);
  EXPECT_THAT(one.at, ElementsAre(4 * 3, 4.0 * 3 * 4096 * 64, 4, 1));
  EXPECT_EQ(one.flops, 4.0 * 48 * 4096 * 64);
  EXPECT_EQ(kernel_of(torch_attention(16, 4096, "{}")).kind, kDecode);
  EXPECT_EQ(kernel_of(torch_attention(16, 128, "{}")).kind, kEncoder);
}

/// A decoding step of 4 sequences: one bf16 query each with 8 heads, which share 2 heads of 4,096 keys of
/// `cache`.
KernelShape decoding(DType cache) {
  OpGraphBuilder builder;
  builder.set_name("decode");
  const auto tensor = [&](const char* name, DType dtype, std::int64_t heads, std::int64_t length) {
    builder.add({.name = name, .type = "Input", .outputs = {{dtype, {4, heads, length, 64}}}});
  };
  tensor("query", DType::kBF16, 8, 1), tensor("key", cache, 2, 4096), tensor("value", cache, 2, 4096);
  builder.add({.name = "op",
               .type = "aten::scaled_dot_product_attention",
               .inputs = {{0, 0}, {1, 0}, {2, 0}},
               .outputs = {{DType::kBF16, {4, 8, 1, 64}}},
               .flops = std::int64_t{4} * 8 * 4096 * (2 * 64 + 2 * 64 + 5)});
  const OpGraph graph = std::move(builder).build().value();
  const auto kernels = kernels_of(graph, OpId{3});
  return kernels.size() == 1 ? kernels[0] : KernelShape{};
}

TEST(AttentionShape, ACacheOfEightBitsDecidesTheArithmeticOfDecoding) {
  EXPECT_EQ(decoding(DType::kF8).kind, kDecode);
  EXPECT_EQ(decoding(DType::kF8).arithmetic, Arithmetic::kFp8);
  EXPECT_EQ(decoding(DType::kBF16).kind, kDecode);
  EXPECT_EQ(decoding(DType::kBF16).arithmetic, Arithmetic::kBf16);
}

// As decode_rows() of scripts/costs/attention.py, which the tables are fitted with: keys and values in the
// bytes of the cache, queries and results in those of the queries.
TEST(AttentionShape, QueriesAndCacheCountInTheirOwnBytes) {
  const double cached = 2.0 * 4 * 2 * 4096 * 64, queries = 2.0 * 4 * 8 * 64;
  EXPECT_EQ(decoding(DType::kF8).bytes, 1 * cached + 2 * queries);
  EXPECT_EQ(decoding(DType::kBF16).bytes, 2 * cached + 2 * queries);
}

TEST(AttentionShape, CrossAttentionHasItsOwnKeys) {
  const KernelShape one = kernel_of(torch_attention(100, 300, "{}"));
  EXPECT_THAT(one.at, ElementsAre(48, 300, 64, 1));
  EXPECT_EQ(one.flops, 4.0 * 48 * 64 * 100 * 300);
}

TEST(AttentionShape, LengthBeforeHeadsIsTheSameAttention) {
  const KernelShape one = kernel_of({.type = "aten::_flash_attention_forward",
                                     .inputs = {{4, 512, 12, 64}, {4, 512, 12, 64}, {4, 512, 12, 64}},
                                     .outputs = {{4, 512, 12, 64}},
                                     .dtype = DType::kF16});
  EXPECT_THAT(one.at, ElementsAre(48, 512, 64, 1));
}

TEST(AttentionShape, AGradientIsFiveProducts) {
  const OneOp gradient{.type = "aten::_scaled_dot_product_flash_attention_backward",
                       .inputs = {{4, 12, 512, 64}, {4, 12, 512, 64}, {4, 12, 512, 64}, {4, 12, 512, 64}},
                       .outputs = {{4, 12, 512, 64}, {4, 12, 512, 64}, {4, 12, 512, 64}},
                       .dtype = DType::kBF16};
  const KernelShape one = kernel_of(gradient);
  EXPECT_EQ(one.kind, kEncoder);
  EXPECT_EQ(one.flops, 2.5 * kernel_of(torch_attention(512, 512, "{}")).flops);
  EXPECT_EQ(one.launches, 3);
}

TEST(AttentionShape, OnnxAndItsContribOps) {
  const std::int64_t scores = 4 * 12 * 512 * 512;
  const KernelShape plain = kernel_of({.type = "Attention",
                                       .inputs = {{4, 512, 768}, {4, 512, 768}, {4, 512, 768}},
                                       .outputs = {{4, 512, 768}},
                                       .attrs = R"({"kv_num_heads":12,"q_num_heads":12})",
                                       .flops = scores * (4 * 64 + 5),
                                       .source = "onnx"});
  EXPECT_EQ(plain.kind, kEncoder);
  EXPECT_THAT(plain.at, ElementsAre(48, 512, 64, 1));
  EXPECT_EQ(plain.arithmetic, Arithmetic::kTf32);
  const KernelShape grouped = kernel_of({.type = "com.microsoft::GroupQueryAttention",
                                         .inputs = {{4, 512, 768}, {4, 512, 256}, {4, 512, 256}},
                                         .outputs = {{4, 512, 768}},
                                         .attrs = R"({"kv_num_heads":4,"num_heads":12})",
                                         .flops = scores * (4 * 64 + 5),
                                         .dtype = DType::kF16,
                                         .source = "onnx"});
  EXPECT_EQ(grouped.kind, kPrefill);
  EXPECT_THAT(grouped.at, ElementsAre(48, 512, 64, 1));
  EXPECT_EQ(grouped.bytes, 2.0 * 2 * 64 * 4 * 512 * (12 + 4));
}

TEST(AttentionShape, AProjectionIsAProductBeforeIt) {
  const std::int64_t scores = 4 * 12 * 512 * 512, projection = std::int64_t{2} * 4 * 512 * 768 * 2304;
  const auto kernels = kernels_of({.type = "com.microsoft::Attention",
                                   .inputs = {{4, 512, 768}, {768, 2304}, {2304}},
                                   .outputs = {{4, 512, 768}},
                                   .attrs = R"({"num_heads":12})",
                                   .flops = projection + scores * (4 * 64 + 5),
                                   .source = "onnx"});
  ASSERT_THAT(kernels, SizeIs(2));
  EXPECT_THAT(kernels[0].at, ElementsAre(4 * 512, 2304, 768, 1));
  EXPECT_EQ(kernels[1].kind, kEncoder);
  EXPECT_THAT(kernels[1].at, ElementsAre(48, 512, 64, 1));
}

TEST(AttentionShape, CudnnInXla) {
  const std::int64_t scores = 4 * 12 * 512 * 512;
  const KernelShape one = kernel_of({.type = "hlo::custom-call:__cudnn$fmhaSoftmax",
                                     .inputs = {{4, 512, 12, 64}, {4, 512, 12, 64}, {4, 512, 12, 64}},
                                     .outputs = {{4, 12, 512, 64}},
                                     .flops = scores * (4 * 64 + 5),
                                     .dtype = DType::kBF16,
                                     .source = "hlo"});
  EXPECT_EQ(one.kind, kEncoder);
  EXPECT_THAT(one.at, ElementsAre(48, 512, 64, 1));
}

}  // namespace
}  // namespace emplace
