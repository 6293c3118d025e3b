// The meaning of op types. To add a type, write its name into the row with its class and work, or add a row;
// tests/fixtures/ops shows the effect.
#include "graph/op_kind.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "base/text/word_list.h"

namespace emplace {
namespace {

using enum OpClass;
using enum Formula;

constexpr bool kIsView = true;

constexpr WorkRule unknown() { return {}; }
constexpr WorkRule none() { return {kNone}; }
constexpr WorkRule each_output(std::uint8_t amount) { return {kEachOutput, amount}; }
constexpr WorkRule each_input(std::uint8_t amount, std::uint8_t input = 0) {
  return {kEachInput, amount, input};
}
constexpr WorkRule by(Formula formula, std::uint8_t input = 0) { return {formula, 1, input}; }
/// A rule that counts integer work too.
constexpr WorkRule product(Formula formula, std::uint8_t amount = 1, std::uint8_t input = 0) {
  return {formula, amount, input, true};
}
/// The factorisation of a matrix in units of that of Cholesky, n³ / 3.
constexpr WorkRule factorisation(std::uint8_t amount) { return {kFactorisation, amount}; }
constexpr WorkRule each_larger(std::uint8_t amount) { return product(kEachLarger, amount); }
constexpr WorkRule on_any(WorkRule rule) {
  rule.whole_numbers = true;
  return rule;
}

/// Types with the same meaning, separated by spaces. A '*' matches any text; such a row has no class. Rows of
/// a vocabulary are in matching order; patterns come last.
struct OpKindRow {
  OpClass op_class;
  WorkRule work;
  std::string_view types;
  bool view = false;
  StateKind state = StateKind::kNone;
};

constexpr OpKindRow kGraph[] = {
    {OpClass::kState, none(), "Parameter", !kIsView, StateKind::kParameter},
    {OpClass::kState, none(), "Buffer", !kIsView, StateKind::kBuffer},
    {OpClass::kState, none(), "OptimizerState", !kIsView, StateKind::kOptimizerState},
    {OpClass::kState, none(), "Input", !kIsView, StateKind::kInput},
    {OpClass::kState, none(), "Constant", !kIsView, StateKind::kConstant},
};

constexpr OpKindRow kAten[] = {
    {kMatmul, product(kMatrixProduct), "mm"},
    {kElementwise, product(kMatrixProduct), "_int_mm"},
    {kMatmul, product(kMatrixProduct), "_scaled_mm _scaled_mm_v2"},
    {kMatmul, product(kMatrixProductPlus), "addmm"},
    {kElementwise, product(kMatrixProductPlus), "_addmm_activation"},
    {kMatmul, product(kBatchProduct), "bmm"},
    {kMatmul, product(kBatchProductPlus), "baddbmm addbmm"},
    {kMatmul, product(kContraction),
     "matmul linalg_matmul _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int8pack_mm "
     "_weight_int4pack_mm_with_scales_and_zeros _dyn_quant_matmul_4bit"},
    {kElementwise, product(kContraction), "mv dot vdot inner linalg_vecdot vecdot"},
    {kElementwise, product(kMatrixVectorPlus), "addmv"},
    {kMatmul, product(kLinear), "linear mkldnn_linear"},
    {kMatmul, product(kProductGradients, 1, 0), "matmul_backward"},
    {kMatmul, product(kProductGradients, 1, 1), "linear_backward"},
    {kMatmul, product(kGroupedProduct),
     "_grouped_mm grouped_mm grouped_mm_fallback _scaled_grouped_mm _scaled_grouped_mm_v2"},
    {kMatmul, product(kGroupedProduct, 2), "grouped_mm_fallback_backward"},
    {kMatmul, product(kEinsum), "einsum"},
    {kMatmul, product(kTensordot), "tensordot"},
    {kMatmul, product(kBilinear), "bilinear"},
    {kMatmul, product(kTrilinear), "_trilinear"},
    {kElementwise, product(kDistances, 3), "cdist _cdist_forward _pdist_forward _euclidean_dist"},
    {kElementwise, product(kDistances, 4, 1), "_cdist_backward"},
    {kConv, product(kConvolution), "convolution"},
    {kConv, product(kConvolution),
     "_convolution convolution_overrideable mkldnn_convolution cudnn_convolution miopen_convolution "
     "cudnn_convolution_relu cudnn_convolution_add_relu _conv_depthwise2d conv_depthwise3d slow_conv3d "
     "thnn_conv2d _slow_conv2d_forward slow_conv_dilated2d slow_conv_dilated3d deform_conv2d"},
    {kElementwise, product(kTransposedConvolution), "conv_transpose"},
    {kConv, product(kTransposedConvolution),
     "cudnn_convolution_transpose miopen_convolution_transpose slow_conv_transpose2d slow_conv_transpose3d"},
    {kConv, product(kConvolutionGradients),
     "convolution_backward convolution_backward_overrideable _deform_conv2d_backward"},
    {kConv, product(kTimeConvolution, 1, 1), "conv_tbc"},
    {kConv, product(kTimeConvolutionGradients, 1, 2), "conv_tbc_backward"},
    // The amount is that of an LSTM where the attribute `mode` decides.
    {kMatmul, product(kRecurrent, kLstmUnit, 1), "lstm mkldnn_rnn_layer _cudnn_rnn miopen_rnn"},
    {kMatmul, product(kRecurrent, kGruUnit, 1), "gru"},
    {kMatmul, product(kRecurrent, kRnnUnit, 1), "rnn_tanh rnn_relu"},
    {kMatmul, product(kRecurrent, kLstmUnit, 3), "lstm_cell"},
    {kMatmul, product(kRecurrent, kGruUnit, 2), "gru_cell"},
    {kMatmul, product(kRecurrent, kRnnUnit, 2), "rnn_tanh_cell rnn_relu_cell"},
    {kMatmul, product(kRecurrentGradients, kLstmUnit, 1),
     "mkldnn_rnn_layer_backward _cudnn_rnn_backward miopen_rnn_backward"},
    {kElementwise, each_output(kLstmUnit), "_thnn_fused_lstm_cell"},
    {kElementwise, each_output(kGruUnit), "_thnn_fused_gru_cell"},
    {kElementwise, each_output(10), "_thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell_backward"},
    {kMatmul, product(kAttention),
     "scaled_dot_product_attention _scaled_dot_product_efficient_attention "
     "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu"},
    {kMatmul, product(kAttention), "flex_attention _cudnn_attention_forward"},
    {kMatmul, product(kAttention, 2), "_flash_attention_forward _efficient_attention_forward"},
    {kMatmul, product(kAttentionGradient, 1, 0), "flex_attention_backward"},
    {kMatmul, product(kAttentionGradient, 1, 1), "_cudnn_attention_backward"},
    {kMatmul, product(kAttentionGradient, 2, 1), "_flash_attention_backward _efficient_attention_backward"},
    // The input is the axis of the length.
    {kMatmul, product(kEncoderLayer, 1, 1), "_native_multi_head_attention _transformer_encoder_layer_fwd"},
    {kMatmul, product(kEncoderLayer, 1, 0), "multi_head_attention_forward"},
    {kGather, by(kGatheredSum),
     "embedding_bag _embedding_bag _embedding_bag_forward_only _embedding_bag_backward "
     "_embedding_bag_dense_backward _embedding_bag_sparse_backward"},
    {kElementwise, by(kScaledSum), "add"},
    {kElementwise, by(kWindow),
     "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices avg_pool1d avg_pool2d avg_pool3d "
     "_low_memory_max_pool2d_with_offsets _low_memory_max_pool_with_offsets"},
    {kElementwise, by(kWindowOfInput, 0), "avg_pool2d_backward avg_pool3d_backward"},
    {kElementwise, each_output(1),
     "threshold_backward relu hardtanh_backward reciprocal div mul sub rsub neg abs maximum "
     "minimum clamp_min clamp_max floor ceil round fmod remainder square upsample_nearest2d rand "
     "inductor_random uniform sub_ iadd isub imul _adaptive_avg_pool2d_backward "
     "_adaptive_avg_pool3d_backward rand_like true_divide trunc frac heaviside copysign threshold "
     "nan_to_num rad2deg deg2rad diff subtract multiply divide absolute negative ger outer kron sgn "
     "_masked_scale upsample_nearest1d upsample_nearest3d "
     "quantize_per_tensor quantize_per_channel"},
    {kElementwise, each_output(2),
     "hardsigmoid_backward relu6 leaky_relu leaky_relu_backward hardtanh sqrt rsqrt clamp prelu "
     "native_dropout_backward hardshrink softshrink clip _prelu_kernel softsign mse_loss_backward addr "
     "dequantize_per_tensor dequantize_per_channel smooth_l1_loss_backward huber_loss_backward hypot"},
    {kElementwise, each_output(3),
     "hardsigmoid sigmoid_backward tanh_backward addcmul addcdiv lerp bernoulli "
     "_prelu_kernel_backward rrelu_with_noise linalg_cross cross"},
    {kElementwise, each_output(4),
     "sigmoid exp exp2 expm1 log log2 log1p hardswish pow sin cos native_dropout randn "
     "log10 float_power special_expit normal normal_functional randn_like exponential xlogy"},
    {kReduce, each_output(4), "_softmax_backward_data"},
    {kElementwise, each_output(5),
     "tanh silu hardswish_backward _safe_softmax softmax log_softmax "
     "tan sinh cosh selu celu glu softplus_backward logit logit_backward"},
    {kReduce, each_output(5), "_softmax _log_softmax _log_softmax_backward_data"},
    {kElementwise, each_output(6),
     "elu elu_backward softplus glu_backward binary_cross_entropy_backward "
     "logaddexp polar"},
    {kElementwise, each_output(8),
     "silu_backward log_sigmoid log_sigmoid_forward log_sigmoid_backward erf "
     "upsample_bilinear2d _upsample_bilinear2d_aa upsample_linear1d atan atan2 asin acos erfinv"},
    {kElementwise, each_output(12), "gelu mish grid_sampler_2d optimizer_step"},
    {kElementwise, each_output(20), "gelu_backward mish_backward upsample_trilinear3d"},
    {kElementwise, each_output(32), "upsample_bicubic2d"},
    {kElementwise, each_input(1),
     "_adaptive_avg_pool2d adaptive_avg_pool2d adaptive_avg_pool1d _adaptive_avg_pool3d "
     "adaptive_avg_pool3d adaptive_max_pool2d prod amin max min argmax argmin cumsum any all norm "
     "linalg_vector_norm max_pool2d_with_indices_backward all_reduce reduce_scatter_tensor "
     "embedding_dense_backward adaptive_max_pool2d_backward adaptive_max_pool3d cummax cummin cumprod "
     "cumsum_backward aminmax count_nonzero max_pool3d_with_indices_backward max_pool2d_backward "
     "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward col2im "
     "median histc dist nansum nanmean"},
    {kReduce, each_input(1), "mean sum amax"},
    {kReduce, each_input(1, 1), "nll_loss_forward nll_loss2d_forward"},
    {kElementwise, each_input(1, 1), "nll_loss"},
    {kElementwise, each_input(1, kLastInput),
     "index_put _index_put_impl _unsafe_index_put scatter_add index_add scatter scatter_reduce "
     "mse_loss"},
    {kReduce, each_input(3), "var"},
    {kElementwise, each_input(3), "std var_mean std_mean l1_loss smooth_l1_loss huber_loss renorm"},
    {kElementwise, each_input(5),
     "logsumexp logcumsumexp cosine_similarity pairwise_distance _weight_norm _weight_norm_interface "
     "_fused_rms_norm native_norm kl_div soft_margin_loss"},
    {kNorm, each_input(5), "rms_norm"},
    {kElementwise, each_input(6), "cross_entropy_loss cross_entropy"},
    {kElementwise, each_input(8),
     "binary_cross_entropy binary_cross_entropy_with_logits upsample_bilinear2d_backward "
     "upsample_linear1d_backward"},
    {kNorm, each_input(8),
     "native_batch_norm batch_norm native_layer_norm layer_norm native_group_norm group_norm"},
    {kElementwise, each_input(8),
     "_native_batch_norm_legit _native_batch_norm_legit_no_training "
     "_native_batch_norm_legit_functional _batch_norm_with_update "
     "_batch_norm_with_update_functional _batch_norm_no_update cudnn_batch_norm instance_norm"},
    {kNorm, each_input(12), "native_batch_norm_backward"},
    {kElementwise, each_input(12),
     "cudnn_batch_norm_backward batch_norm_backward _weight_norm_interface_backward _fused_rms_norm_backward "
     "grid_sampler_2d_backward"},
    {kNorm, each_input(14), "native_layer_norm_backward native_group_norm_backward"},
    {kElementwise, none(),
     "view _reshape_alias _unsafe_view reshape t transpose permute expand expand_as select slice "
     "split split_with_sizes chunk unbind squeeze unsqueeze alias detach flatten unflatten "
     "as_strided lift_fresh diagonal unfold broadcast_in_dim wait_tensor movedim narrow view_as "
     "swapaxes swapdims view_of T mT numpy_T broadcast_to view_as_complex view_as_real resolve_conj "
     "resolve_neg",
     kIsView},
    {kElementwise, none(),
     "_sparse_coo_tensor_with_dims_and_tensors _sparse_coo_tensor_unsafe _indices _values unsafe_split "
     "clone copy _to_copy to type_as contiguous cat stack _unsafe_index zeros zeros_like ones ones_like "
     "full full_like empty empty_like empty_permuted new_zeros new_empty new_full new_ones fill zero "
     "arange linspace eq ne lt le gt ge lift_fresh_copy scalar_tensor unsafe_chunk roll flip "
     "nll_loss_backward nll_loss2d_backward new_empty_strided empty_strided tril triu logical_and "
     "logical_not logical_or bitwise_not bitwise_and bitwise_or bitwise_xor repeat repeat_interleave "
     "dropout feature_dropout constant_pad_nd pad reflection_pad2d replication_pad2d isnan isinf "
     "floor_divide resize slice_scatter select_scatter pixel_shuffle pixel_unshuffle channel_shuffle "
     "masked_fill where convert_element_type device_put iota all_gather_into_tensor all_to_all_single "
     "all_reduce_coalesced all_gather_into_tensor_coalesced reduce_scatter_tensor_coalesced one_hot sign "
     "nonzero sort argsort topk randint inductor_seeds inductor_lookup_seed getitem alias_copy meshgrid "
     "tile hstack vstack concat __and__ __or__ type float half bool int long item __lshift__ __rshift__ "
     "bitwise_left_shift bitwise_right_shift _local_scalar_dense as_strided_scatter bucketize "
     "constant_pad_nd_backward copy_ diag_embed diagonal_scatter expand_copy eye im2col im2col_backward "
     "index_copy index_fill isfinite isin kthvalue logical_xor logspace masked_scatter "
     "masked_scatter_backward mode native_channel_shuffle permute_copy randint_like random randperm "
     "reflection_pad1d reflection_pad1d_backward reflection_pad2d_backward replication_pad1d "
     "replication_pad2d_backward searchsorted select_copy slice_copy transpose_copy tril_indices "
     "triu_indices unfold_backward unsafe_split_with_sizes view_copy _fused_sdp_choice greater less "
     "greater_equal less_equal not_equal broadcast_tensors column_stack dstack block_diag rot90 fliplr "
     "flipud take take_along_dim masked_select argwhere bincount msort unique_consecutive _unique2 "
     "alpha_dropout feature_alpha_dropout tensor_split hsplit vsplit dsplit ravel atleast_1d atleast_2d "
     "atleast_3d"},
    {kGather, none(), "embedding gather index index_select slice_backward select_backward"},
    // Patterns for types without a row of their own.
    {kElementwise, product(kAttentionGradient, 1, 1), "*scaled_dot_product*backward"},
    {kElementwise, product(kAttention), "*scaled_dot_product*"},
    {kElementwise, by(kWindow), "max_pool* avg_pool*"},
};

constexpr OpKindRow kOnnx[] = {
    {kConv, product(kConvolution), "Conv"},
    {kConv, product(kConvolution),
     "DeformConv CausalConvWithState com.microsoft::CausalConvWithState "
     "com.microsoft::VarlenCausalConvWithState com.microsoft::NhwcConv com.microsoft::NhwcFusedConv "
     "com.microsoft.nchwc::Conv"},
    {kConv, product(kBareConvolution), "ConvInteger com.microsoft::FusedConv"},
    {kConv, product(kQuantisedConvolution), "QLinearConv com.microsoft::QLinearConv"},
    {kConv, product(kTransposedConvolution), "ConvTranspose com.microsoft::ConvTransposeWithDynamicPads"},
    {kMatmul, product(kContraction),
     "MatMul MatMulInteger QLinearMatMul com.microsoft::MatMulNBits com.microsoft::MatMulBnb4 "
     "com.microsoft::DynamicQuantizeMatMul com.microsoft::MatMulIntegerToFloat "
     "com.microsoft::GemmFastGelu com.microsoft::MatMulFpQ4 com.microsoft::MatMulInteger16 "
     "com.microsoft::MatMulPacked com.microsoft::MatMulBlockQuantizedFp4Weight "
     "com.microsoft::MatMulBlockQuantizedFp8Weight com.microsoft::QOrderedMatMul "
     "com.microsoft::CDist"},
    {kMatmul, product(kTransposableContraction),
     "com.microsoft::FusedMatMul com.microsoft::TransposeMatMul com.microsoft::FusedGemm "
     "com.microsoft::QGemm com.microsoft::FusedMatMulActivation com.microsoft::GemmFloat8 "
     "com.microsoft::SparseToDenseMatMul"},
    {kMatmul, product(kSharedProducts),
     "com.microsoft::MatMulNBitsMlp com.microsoft::MatMulNBitsQkv com.microsoft::MatMulNBitsQLoRA "
     "com.microsoft::RouterGateUpProj"},
    {kMatmul, product(kMixture, 2), "com.microsoft::MoE"},
    {kMatmul, product(kMixture, 3), "com.microsoft::QMoE"},
    {kMatmul, product(kMixture, 1), "com.microsoft::MoEPacked"},
    {kMatmul, product(kMatrixProductPlus), "Gemm"},
    {kMatmul, product(kRecurrent, kLstmUnit), "LSTM com.microsoft::DynamicQuantizeLSTM"},
    {kMatmul, product(kRecurrent, kGruUnit), "GRU"},
    {kMatmul, product(kRecurrent, kRnnUnit), "RNN"},
    {kMatmul, product(kEinsum), "Einsum"},
    {kMatmul, product(kAttention), "Attention ai.onnx.preview::FlexAttention"},
    {kMatmul, product(kProjectedAttention),
     "com.microsoft::Attention com.microsoft::QAttention com.microsoft::DecoderMaskedSelfAttention "
     "com.microsoft::PackedAttention com.microsoft::QOrderedAttention"},
    {kMatmul, product(kMultiHeadAttention),
     "com.microsoft::MultiHeadAttention com.microsoft::DecoderMaskedMultiHeadAttention "
     "com.microsoft::PackedMultiHeadAttention"},
    {kMatmul, product(kGroupedAttention), "com.microsoft::GroupQueryAttention"},
    {kMatmul, product(kPagedAttention), "com.microsoft::PagedAttention"},
    {kMatmul, product(kLinearAttention),
     "LinearAttention com.microsoft::LinearAttention com.microsoft::GatedDeltaNet"},
    {kElementwise, product(kFactorisation, 2), "Det"},
    {kElementwise, product(kFactorisation, 6), "com.microsoft::Inverse"},
    {kElementwise, by(kFourier), "DFT STFT"},
    {kMatmul, product(kBody), "If Loop Scan"},
    {kElementwise, by(kWindow), "MaxPool AveragePool LpPool com.microsoft::QLinearAveragePool"},
    {kNorm, by(kLocalResponse), "LRN"},
    {kElementwise, by(kResize), "Resize Upsample"},
    {kElementwise, by(kTerms), "Sum Mean Max Min"},
    {kElementwise, each_output(1),
     "Add Sub Mul Div Neg Abs Relu PRelu LeakyRelu ThresholdedRelu Mod Reciprocal Ceil Floor Round "
     "Sign CumSum CumProd Range"},
    {kElementwise, each_output(2),
     "Clip Sqrt Softsign Hardmax Shrink DequantizeLinear com.microsoft::BiasAdd "
     "com.microsoft::DequantizeLinear"},
    {kElementwise, each_output(3),
     "HardSigmoid Bernoulli RandomNormal RandomUniform RandomNormalLike RandomUniformLike "
     "RotaryEmbedding com.microsoft::RotaryEmbedding"},
    {kElementwise, each_output(4), "Sigmoid Exp Log Pow Sin Cos Tan Asin Acos Atan Elu Selu HardSwish"},
    {kElementwise, each_output(5), "Tanh Sinh Cosh Celu Softplus Swish"},
    {kReduce, each_output(5), "Softmax LogSoftmax"},
    {kElementwise, each_output(6),
     "Asinh Acosh Atanh SwiGLU com.microsoft::SwiGLU com.microsoft::QuickGelu com.microsoft::BiasSoftmax"},
    {kElementwise, each_output(8), "Erf AffineGrid HannWindow HammingWindow"},
    {kElementwise, each_output(9), "Mish"},
    {kNorm, each_output(10), "com.microsoft::EmbedLayerNormalization"},
    {kElementwise, each_output(12),
     "Gelu GridSample BlackmanWindow com.microsoft::FastGelu com.microsoft::Gelu"},
    {kElementwise, each_output(13), "com.microsoft::BiasGelu"},
    {kElementwise, each_larger(1), "com.microsoft::QLinearGlobalAveragePool"},
    {kElementwise, each_larger(3), "QuantizeLinear com.microsoft::QuantizeLinear"},
    {kElementwise, each_larger(4), "com.microsoft::QLinearMul com.microsoft::QLinearLeakyRelu"},
    {kElementwise, each_larger(5), "DynamicQuantizeLinear com.microsoft::QLinearAdd"},
    {kElementwise, each_larger(7), "com.microsoft::QLinearSigmoid"},
    {kElementwise, each_larger(8), "com.microsoft::QLinearSoftmax"},
    {kReduce, each_input(1),
     "GlobalAveragePool NegativeLogLikelihoodLoss ReduceMean ReduceSum ReduceMax ReduceL1 ReduceL2 "
     "ReduceLogSum ReduceLogSumExp ReduceMin ReduceProd ReduceSumSquare"},
    {kElementwise, each_input(1), "GlobalMaxPool TopK"},
    {kReduce, on_any(each_input(1)), "ArgMax ArgMin"},
    {kGather, each_input(1, 2), "ScatterND ScatterElements"},
    {kElementwise, each_input(1, 2), "Scatter"},
    {kElementwise, each_input(4), "LpNormalization GlobalLpPool"},
    {kNorm, each_input(5),
     "RMSNormalization SimplifiedLayerNormalization com.microsoft::SimplifiedLayerNormalization"},
    {kElementwise, each_input(6), "MeanVarianceNormalization"},
    {kNorm, each_input(6), "com.microsoft::SkipSimplifiedLayerNormalization"},
    {kReduce, each_input(7), "SoftmaxCrossEntropyLoss"},
    {kNorm, each_input(8),
     "BatchNormalization LayerNormalization InstanceNormalization GroupNormalization "
     "com.microsoft::GroupNorm"},
    {kNorm, each_input(9), "com.microsoft::SkipLayerNormalization"},
    {kElementwise, none(),
     "And BitShift BitCast BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike CenterCropPad Col2Im "
     "Compress Concat ConcatFromSequence ConstantOfShape DepthToSpace Equal EyeLike Greater "
     "GreaterOrEqual IsInf IsNaN Less LessOrEqual MaxUnpool NonZero Not OneHot Optional "
     "OptionalGetElement OptionalHasElement Or Pad ReverseSequence SequenceAt SequenceConstruct "
     "SequenceEmpty SequenceErase SequenceInsert SequenceLength SpaceToDepth SplitToSequence StringConcat "
     "StringNormalizer StringSplit Tile Transpose Trilu Unique Where Xor com.microsoft::AllReduce "
     "com.microsoft::AllGather com.microsoft::AllToAll com.microsoft::NcclAllReduce "
     "com.microsoft::NcclAllGather com.microsoft::NcclReduceScatter"},
    {kElementwise, none(), "Constant", !kIsView, StateKind::kConstant},
    {kElementwise, none(), "Dropout Expand Flatten Identity Reshape Split Squeeze Unsqueeze", kIsView},
    {kGather, none(), "Gather GatherElements GatherND Shape Size TensorScatter"},
    {kGather, none(), "Slice", kIsView},
    // Patterns for types without a row of their own.
    {kElementwise, each_input(1), "Reduce*"},
};

constexpr OpKindRow kTensorFlow[] = {
    {kMatmul, product(kMatrixProduct), "MatMul SparseMatMul"},
    {kMatmul, product(kBatchProduct), "BatchMatMul BatchMatMulV2 BatchMatMulV3"},
    {kMatmul, product(kEinsum), "Einsum"},
    {kConv, product(kConvolution), "Conv2D Conv3D"},
    {kConv, product(kConvolutionInputGradient), "Conv2DBackpropInput Conv3DBackpropInputV2"},
    {kConv, product(kConvolutionFilterGradient), "Conv2DBackpropFilter Conv3DBackpropFilterV2"},
    {kConvGrouped, product(kDepthwise), "DepthwiseConv2dNative"},
    {kConvGrouped, product(kDepthwiseFilterGradient), "DepthwiseConv2dNativeBackpropFilter"},
    {kConvGrouped, product(kDepthwiseInputGradient), "DepthwiseConv2dNativeBackpropInput"},
    {kMatmul, product(kLstmCell), "LSTMBlockCell"},
    {kMatmul, product(kGruCell), "GRUBlockCell"},
    {kElementwise, by(kTerms), "AddN AccumulateNV2"},
    {kElementwise, by(kWindow), "MaxPool AvgPool"},
    {kElementwise, by(kWindowOfInput, 2), "MaxPoolGrad"},
    {kElementwise, by(kWindowOfInput, 1), "AvgPoolGrad"},
    {kElementwise, each_output(1),
     "Add AddV2 Sub Mul RealDiv Div Neg Abs Sign Square Maximum Minimum Relu LeakyRelu ReluGrad "
     "BiasAdd BiasAddV1 Floor Ceil Round Reciprocal Inv Cumsum Cumprod MulNoNan TruncateDiv "
     "FloorDiv FloorMod Mod Rint LeakyReluGrad"},
    {kElementwise, each_output(2),
     "DivNoNan SquaredDifference Relu6 Relu6Grad Sqrt Rsqrt SqrtGrad Softsign Xdivy ClipByValue"},
    {kElementwise, each_output(3),
     "SigmoidGrad TanhGrad RsqrtGrad EluGrad SeluGrad SoftsignGrad RandomUniform TruncatedNormal "
     "RandomStandardNormal InvGrad ReciprocalGrad StatelessRandomUniform StatelessRandomUniformV2 "
     "StatelessRandomNormal StatelessRandomNormalV2 StatelessTruncatedNormal StatelessTruncatedNormalV2"},
    {kElementwise, each_output(4), "Exp Log Log1p Pow Sin Cos Sigmoid Elu Selu Expm1"},
    {kElementwise, each_output(5), "Tanh Softplus SoftplusGrad Xlogy Xlog1py Tan Sinh Cosh"},
    {kReduce, each_output(5), "Softmax LogSoftmax"},
    {kElementwise, each_output(7), "ResizeBilinear"},
    {kElementwise, each_output(8), "Erf Atan2 Asin Acos Atan Erfc Erfinv Lgamma"},
    {kNorm, each_output(10), "LRN LRNGrad"},
    {kElementwise, on_any(each_output(40)), "LSTMBlockCellGrad GRUBlockCellGrad"},
    {kElementwise, each_input(1),
     "Sum Mean Max Min SegmentSum AssignAdd AssignSub AssignAddVariableOp AssignSubVariableOp"},
    {kReduce, each_input(1), "Prod BiasAddGrad"},
    {kGather, each_input(1), "UnsortedSegmentSum"},
    {kGather, each_input(1, 2), "ScatterAdd ScatterSub ResourceScatterAdd"},
    {kReduce, each_input(2), "L2Loss"},
    {kElementwise, each_input(2), "ApplyGradientDescent ResourceApplyGradientDescent"},
    {kElementwise, each_input(4), "ApplyMomentum ResourceApplyMomentum ResourceApplyKerasMomentum"},
    {kElementwise, each_input(5), "ApplyAdagrad ResourceApplyAdagrad"},
    {kElementwise, each_input(7), "ResizeBilinearGrad"},
    {kNorm, each_input(8), "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"},
    {kReduce, each_input(8), "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"},
    {kGather, on_any(each_input(8)), "SparseApplyMomentum SparseApplyRMSProp"},
    {kElementwise, each_input(10), "ApplyRMSProp ResourceApplyRMSProp"},
    {kElementwise, each_input(12), "ApplyAdam ResourceApplyAdam"},
    {kElementwise, each_input(14), "ApplyCenteredRMSProp ResourceApplyCenteredRMSProp"},
    {kNorm, each_input(16), "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3"},
    {kElementwise, none(),
     "Pack Unpack Concat ConcatV2 ConcatOffset Split SplitV StridedSliceGrad ResourceGatherNd ScatterNd "
     "ResourceScatterUpdate TensorScatterUpdate Transpose Tile Fill OnesLike Pad PadV2 MirrorPad "
     "MirrorPadGrad Reverse ReverseV2 ReverseSequence Roll Select SelectV2 Where OneHot Range LinSpace "
     "BroadcastTo Cast Assign AssignVariableOp Snapshot CheckNumerics ParallelDynamicStitch "
     "DynamicPartition MatrixBandPart MatrixDiagV3 MatrixDiagPartV3 Diag DiagPart MatrixSetDiagV3 "
     "SpaceToDepth DepthToSpace SpaceToBatchND BatchToSpaceND ExtractImagePatches TopK TopKV2 Unique "
     "UniqueV2 UniqueWithCounts InvertPermutation Print PrintV2 Assert FakeParam TemporaryVariable "
     "DestroyTemporaryVariable FakeQuantWithMinMaxVars FakeQuantWithMinMaxArgs ResizeNearestNeighbor "
     "ResizeNearestNeighborGrad MaxPoolGradGrad NonMaxSuppressionV3 DecodeJpeg _Arg _Retval _Send _Recv "
     "_HostSend _HostRecv DeepCopy Copy CopyHost ShuffleDataset"},
    {kGather, none(),
     "Slice StridedSlice Gather GatherV2 GatherNd ResourceGather ScatterUpdate ZerosLike "
     "DynamicStitch"},
    {kReduce, none(), "ArgMax ArgMin"},
    {kElementwise, none(),
     "Identity RefIdentity Reshape Squeeze ExpandDims StopGradient Bitcast PreventGradient Enter "
     "RefEnter Exit RefExit NextIteration RefNextIteration Switch RefSwitch _SwitchN Merge "
     "RefMerge LoopCond NoOp IdentityN ReadVariableOp ControlTrigger PlaceholderWithDefault "
     "EnsureShape",
     kIsView},
    {kElementwise, none(), "Variable VariableV2 VarHandleOp AutoReloadVariable", !kIsView,
     StateKind::kParameter},
    {kElementwise, none(), "Const HostConst", !kIsView, StateKind::kConstant},
    {kElementwise, none(), "Placeholder PlaceholderV2", !kIsView, StateKind::kInput},
    {kReduce, unknown(), "All Any"},
    {kElementwise, unknown(), "GreaterEqual LessEqual LogicalAnd NotEqual"},
    {kMatmul, unknown(),
     "CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3 CudnnRNNV2 CudnnRNNV3"},
    {kGather, unknown(), "ShapeN Shape Size"},
    // Patterns for types without a row of their own.
    {kElementwise, product(kBatchProduct), "BatchMatMul*"},
    {kElementwise, product(kConvolutionInputGradient), "Conv2DBackpropInput* Conv3DBackpropInput*"},
    {kElementwise, product(kConvolutionFilterGradient), "Conv2DBackpropFilter* Conv3DBackpropFilter*"},
    {kElementwise, product(kDepthwiseFilterGradient), "DepthwiseConv2dNative*BackpropFilter"},
    {kElementwise, product(kDepthwiseInputGradient), "DepthwiseConv2dNative*"},
    {kElementwise, on_any(each_input(8)), "Apply* SparseApply* ResourceApply* ResourceSparseApply*"},
    {kElementwise, each_input(1, 2),
     "ScatterAdd* ScatterSub* ResourceScatterAdd* ResourceScatterSub* TensorScatterAdd*"},
    {kElementwise, unknown(), "SparseTensorDense* SparseSegment*"},
    {kElementwise, none(),
     "TensorList* EmptyTensorList* TensorArray* Stack* Queue* Iterator* OneShotIterator* Lookup* "
     "Save* Restore* Read* Parse* String* Decode* Encode* Print* Barrier* Stage* Unstage* "
     "Collective* Nccl* Sparse* Ragged* *Dataset *DatasetV2 *Summary *SummaryV2"},
    {kElementwise, none(),
     "MatMul* SparseMatMul* Einsum* Conv2D* Conv3D* LSTMBlockCell* GRUBlockCell* AddN* "
     "AccumulateNV2* MaxPool* AvgPool* LRN* ResourceScatter* TensorScatter*"},
};

constexpr OpKindRow kHlo[] = {
    {kMatmul, product(kContraction), "dot scaled-dot"},
    {kMatmul, product(kRaggedContraction), "ragged-dot"},
    {kMatmul, product(kContractionInConfig),
     "custom-call:__cublas$gemm custom-call:__cublas$lt$matmul custom-call:__cublas$lt$matmul$f8 "
     "custom-call:__cublas$lt$matmul$mx custom-call:__cublas$lt$groupedMatmul "
     "custom-call:__cudnn$blockScaledDot custom-call:__onednn$matmul"},
    {kConv, product(kConvolution),
     "convolution custom-call:__cudnn$convForward custom-call:__cudnn$convForwardGraph "
     "custom-call:__cudnn$convBiasActivationForward custom-call:__onednn$convolution"},
    {kConv, product(kConvolutionInputGradient), "custom-call:__cudnn$convBackwardInput"},
    {kConv, product(kConvolutionFilterGradient), "custom-call:__cudnn$convBackwardFilter"},
    {kMatmul, product(kFusedAttention),
     "custom-call:__cudnn$fmhaBmmBmm custom-call:__cudnn$fmhaSoftmax custom-call:__cudnn$fmhaSoftmaxDropout "
     "custom-call:__cudnn$fmhaScaleBiasSoftmax custom-call:__cudnn$fmhaScaleBiasSoftmaxDropout "
     "custom-call:__cudnn$fmhaSoftmaxF8"},
    {kMatmul, product(kFusedAttentionGradient),
     "custom-call:__cudnn$fmhaSoftmaxBackward custom-call:__cudnn$fmhaSoftmaxDropoutBackward "
     "custom-call:__cudnn$fmhaScaleBiasSoftmaxBackward "
     "custom-call:__cudnn$fmhaScaleBiasSoftmaxDropoutBackward custom-call:__cudnn$fmhaSoftmaxBackwardF8"},
    {kReduce, each_output(5), "custom-call:__onednn$softmax"},
    {kNorm, each_input(8), "custom-call:__cudnn$norm custom-call:__onednn$layernorm"},
    {kElementwise, factorisation(1), "cholesky custom-call:__cusolver$cholesky"},
    {kElementwise, by(kTriangularSolve), "triangular-solve custom-call:__cublas$triangularSolve"},
    {kElementwise, by(kFourier), "fft"},
    {kElementwise, product(kBody), "fusion call conditional async-start"},
    {kElementwise, product(kBodyPerTrip), "while"},
    {kReduce, product(kBodyPerReduced), "reduce"},
    {kElementwise, product(kBodyPerWindow), "reduce-window"},
    {kElementwise, product(kBodyPerWindowOfInput), "select-and-scatter"},
    {kElementwise, product(kBodyPerUpdate), "scatter"},
    {kElementwise, product(kBodyPerOutput), "map"},
    {kMatmul, product(kBody), "fusion_dot call_dot conditional_dot async-start_dot"},
    {kMatmul, product(kBodyPerTrip), "while_dot"},
    {kConv, product(kBody),
     "fusion_convolution call_convolution conditional_convolution async-start_convolution"},
    {kConv, product(kBodyPerTrip), "while_convolution"},
    {kElementwise, each_output(1),
     "add subtract multiply divide negate abs maximum minimum remainder floor ceil "
     "round-nearest-afz round-nearest-even rng all-reduce all-reduce-start reduce-scatter"},
    {kElementwise, each_output(2), "clamp sqrt rsqrt"},
    {kElementwise, each_output(4),
     "cbrt exponential exponential-minus-one log log-plus-one logistic power sine cosine tan"},
    {kElementwise, each_output(5), "tanh"},
    {kElementwise, each_output(8), "erf atan2"},
    {kElementwise, none(), "parameter", !kIsView, StateKind::kInput},
    {kElementwise, none(), "constant", !kIsView, StateKind::kConstant},
    {kElementwise, none(),
     "tuple get-tuple-element transpose broadcast copy convert slice dynamic-slice dynamic-update-slice "
     "concatenate pad reverse gather iota select compare and or not xor sign shift-left "
     "shift-right-logical shift-right-arithmetic popcnt count-leading-zeros sort after-all token "
     "all-gather all-to-all collective-permute collective-broadcast partition-id replica-id send recv "
     "send-done recv-done infeed outfeed domain copy-start copy-done all-gather-start all-gather-done "
     "all-reduce-done reduce-scatter-start reduce-scatter-done all-to-all-start all-to-all-done "
     "collective-permute-start collective-permute-done async-update async-done rng-bit-generator "
     "rng-get-and-update-state is-finite real imag complex dynamic-reshape set-dimension-size "
     "get-dimension-size reduce-precision stochastic-convert topk ragged-all-to-all custom-call:Sharding "
     "custom-call:SPMDFullToShardShape custom-call:SPMDShardToFullShape "
     "custom-call:AwsNeuronTransferWithStaticRing custom-call:TopK custom-call:__gpu$TopK "
     "custom-call:__cub$DeviceRadixSort custom-call:__cudnn$convReorderFilter "
     "custom-call:__cudnn$convReorderFilterAndBias custom-call:__onednn$matmul_reorder "
     "custom-call:AllocateBuffer custom-call:LayoutConstraint custom-call:MoveToDevice "
     "custom-call:MoveToHost custom-call:PadToStatic custom-call:PinToDevice custom-call:SliceToDynamic "
     "custom-call:annotate_device_placement custom-call:cu_threefry2x32 custom-call:cu_threefry2x32_ffi"},
    {kElementwise, none(), "bitcast bitcast-convert reshape add-dependency optimization-barrier opt-barrier",
     kIsView},
    // Patterns for types without a row of their own: LAPACK and its twins on GPUs.
    {kElementwise, factorisation(1), "custom-call:*potrf*"},
    {kElementwise, factorisation(2), "custom-call:*getrf*"},
    {kElementwise, factorisation(4), "custom-call:*geqrf* custom-call:*orgqr* custom-call:*ungqr*"},
    {kElementwise, by(kTriangularSolve), "custom-call:*trsm*"},
    {kElementwise, none(), "custom-call:xla.sdy.*"},
};

/// Returns whether the text matches the pattern; every '*' matches any text.
bool matches(std::string_view text, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  text.remove_prefix(star);
  if (pattern.find('*') == std::string_view::npos) return text.ends_with(pattern);
  for (; !text.empty(); text.remove_prefix(1))
    if (matches(text, pattern)) return true;
  return matches(text, pattern);
}

/// The rows of a vocabulary, indexed by name.
class Index {
 public:
  explicit Index(std::span<const OpKindRow> rows) {
    for (const OpKindRow& row : rows) {
      for (const std::string_view type : words_in(row.types))
        kinds_.push_back({type, row.op_class, row.work, row.view, row.state});
    }
    const auto is_pattern = [](const OpKind& kind) { return kind.name.find('*') != std::string_view::npos; };
    first_pattern_ =
        static_cast<std::size_t>(std::find_if(kinds_.begin(), kinds_.end(), is_pattern) - kinds_.begin());
    by_name_.reserve(first_pattern_);
    for (std::size_t k = 0; k < first_pattern_; ++k) by_name_.emplace(kinds_[k].name, k);
  }

  const OpKind* exact(std::string_view name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : &kinds_[it->second];
  }
  const OpKind* find(std::string_view name) const {
    if (const OpKind* kind = exact(name)) return kind;
    for (std::size_t k = first_pattern_; k < kinds_.size(); ++k)
      if (matches(name, kinds_[k].name)) return &kinds_[k];
    return nullptr;
  }
  std::span<const OpKind> kinds() const { return kinds_; }

 private:
  std::vector<OpKind> kinds_;
  std::size_t first_pattern_ = 0;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

const Index& index_of(Vocabulary vocabulary) {
  static const std::array<Index, 5> kIndex{Index{kGraph}, Index{kAten}, Index{kOnnx}, Index{kTensorFlow},
                                           Index{kHlo}};
  return kIndex[static_cast<std::size_t>(vocabulary)];
}

}  // namespace

std::string_view op_class_name(OpClass op_class) {
  static constexpr std::array<std::string_view, kNumOpClasses> kNames{
      "state", "view", "matmul", "conv", "conv_grouped", "norm", "reduce", "gather", "elementwise"};
  return kNames[static_cast<std::size_t>(op_class)];
}

const OpKind* find_kind(Vocabulary vocabulary, std::string_view name) {
  return index_of(vocabulary).find(name);
}

std::span<const OpKind> kinds_of(Vocabulary vocabulary) { return index_of(vocabulary).kinds(); }

OpClass class_of_type(std::string_view type) {
  const auto without = [&](std::string_view space) { return type.substr(space.size()); };
  const OpKind* kind = nullptr;
  if (type.starts_with("aten::")) {
    kind = index_of(Vocabulary::kAten).exact(without("aten::"));
  } else if (type.starts_with("hlo::")) {
    kind = index_of(Vocabulary::kHlo).exact(without("hlo::"));
  } else {
    // A name that is in several vocabularies has the same class in all of them.
    for (const Vocabulary vocabulary : {Vocabulary::kGraph, Vocabulary::kOnnx, Vocabulary::kTensorFlow})
      if (kind == nullptr) kind = index_of(vocabulary).exact(type);
    // A product of another library of torch, such as the experts of transformers.
    if (const std::size_t colon = type.rfind("::"); kind == nullptr && colon != std::string_view::npos) {
      const OpKind* base = index_of(Vocabulary::kAten).exact(type.substr(colon + 2));
      if (base != nullptr && base->op_class == kMatmul) kind = base;
    }
  }
  return kind == nullptr ? OpClass::kElementwise : kind->op_class;
}

}  // namespace emplace
