#include <tf_graphdef.pb.h>

#include <algorithm>

#include "base/text/word_list.h"
#include "graph/formats/reading/rule_rows.h"
#include "graph/formats/tensorflow/tf_ops.h"

namespace emplace::tf {
namespace {

struct Row {
  /// Output names; "name:attribute" is a list, whose length the attribute contains.
  std::string_view outputs;
  std::string_view types;
};

/// The ops with several outputs in TensorFlow's registry, by the names of their outputs.
constexpr Row kRows[]{
    {"sampled_candidates true_expected_count sampled_expected_count",
     "AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler  "
     "LogUniformCandidateSampler ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler"},
    {"values indices", "ApproxTopK TopK TopKV2"},
    {"indices keys values:component_types", "BarrierTakeMany"},
    {"batched_tensors:T batch_index id", "Batch"},
    {"dx dm dv db dg", "BatchNormWithGlobalNormalizationGrad"},
    {"e v", "BatchSelfAdjointEigV2 Eig SelfAdjointEigV2"},
    {"s u v", "BatchSvd Svd"},
    {"i cs f o ci co h", "BlockLSTM BlockLSTMV2 LSTMBlockCell"},
    {"x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad",
     "BlockLSTMGrad BlockLSTMGradV2"},
    {"r0 r1", "BroadcastGradientArgs"},
    {"row_ptrs col_inds values", "CSRSparseMatrixComponents"},
    {"indices values dense_shape", "CSRSparseMatrixToSparseTensor"},
    {"decoded_indices:top_paths decoded_values:top_paths decoded_shape:top_paths log_probability",
     "CTCBeamSearchDecoder"},
    {"decoded_indices decoded_values decoded_shape log_probability", "CTCGreedyDecoder"},
    {"loss gradient", "CTCLoss CTCLossV2"},
    {"nmsed_boxes nmsed_scores nmsed_classes valid_detections", "CombinedNonMaxSuppression"},
    {"output output_h output_c reserve_space", "CudnnRNN"},
    {"input_backprop input_h_backprop input_c_backprop params_backprop",
     "CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3"},
    {"weights:num_params biases:num_params", "CudnnRNNParamsToCanonical"},
    {"weights:num_params_weights biases:num_params_biases", "CudnnRNNParamsToCanonicalV2"},
    {"output output_h output_c reserve_space host_reserved", "CudnnRNNV2 CudnnRNNV3"},
    {"sizes values:output_types", "DecodeProtoV2"},
    {"audio sample_rate", "DecodeWav"},
    {"output_indices output_values output_dense_shape",
     "DenseCountSparseOutput RaggedCountSparseOutput SparseCountSparseOutput"},
    {"result_indices result_values result_shape",
     "DenseToDenseSetOperation DenseToSparseSetOperation SparseToSparseSetOperation"},
    {"sparse_indices sparse_values sparse_shape",
     "DeserializeManySparse DeserializeSparse TakeManySparseFromTensorsMap"},
    {"backprops_wrt_input backprop_wrt_min backprop_wrt_max",
     "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient"},
    {"output row_pooling_sequence col_pooling_sequence", "FractionalAvgPool FractionalMaxPool"},
    {"y batch_mean batch_variance reserve_space_1 reserve_space_2", "FusedBatchNorm FusedBatchNormV2"},
    {"x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4",
     "FusedBatchNormGrad FusedBatchNormGradV2"},
    {"x_backprop scale_backprop offset_backprop reserve_space_4 reserve_space_5", "FusedBatchNormGradV3"},
    {"y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3", "FusedBatchNormV3"},
    {"r u c h", "GRUBlockCell"},
    {"d_x d_h_prev d_c_bar d_r_bar_u_bar", "GRUBlockCellGrad"},
    {"rois roi_probabilities", "GenerateBoundingBoxProposals"},
    {"remapping num_present", "GenerateVocabRemapping"},
    {"output segments", "IsotonicRegression"},
    {"cs_prev_grad dicfo wci_grad wcf_grad wco_grad", "LSTMBlockCellGrad"},
    {"out idx", "ListDiff"},
    {"sign log_abs_determinant", "LogMatrixDeterminant"},
    {"keys values", "LookupTableExport LookupTableExportV2 ReaderReadUpTo ReaderReadUpToV2"},
    {"lu p", "Lu"},
    {"key values:dtypes", "MapUnstageNoKey OrderedMapUnstageNoKey"},
    {"output argmax", "MaxPoolWithArgmax"},
    {"output value_index", "Merge RefMerge"},
    {"nearest_center_indices nearest_center_distances", "NearestNeighbors"},
    {"selected_indices valid_outputs", "NonMaxSuppressionV4"},
    {"selected_indices selected_scores valid_outputs", "NonMaxSuppressionV5"},
    {"sparse_indices:Nsparse sparse_values:sparse_types sparse_shapes:Nsparse dense_values:Tdense",
     "ParseExample"},
    {"sparse_indices:num_sparse sparse_values:sparse_types sparse_shapes:num_sparse  "
     "dense_values:Tdense ragged_values:ragged_value_types ragged_row_splits:ragged_split_types",
     "ParseExampleV2"},
    {"context_sparse_indices:Ncontext_sparse context_sparse_values:context_sparse_types  "
     "context_sparse_shapes:Ncontext_sparse context_dense_values:Tcontext_dense  "
     "feature_list_sparse_indices:Nfeature_list_sparse  "
     "feature_list_sparse_values:feature_list_sparse_types  "
     "feature_list_sparse_shapes:Nfeature_list_sparse  "
     "feature_list_dense_values:feature_list_dense_types  "
     "feature_list_dense_lengths:Nfeature_list_dense",
     "ParseSequenceExample"},
    {"context_sparse_indices:Ncontext_sparse context_sparse_values:context_sparse_types  "
     "context_sparse_shapes:Ncontext_sparse context_dense_values:Tcontext_dense  "
     "context_ragged_values:context_ragged_value_types  "
     "context_ragged_row_splits:context_ragged_split_types  "
     "feature_list_sparse_indices:Nfeature_list_sparse  "
     "feature_list_sparse_values:feature_list_sparse_types  "
     "feature_list_sparse_shapes:Nfeature_list_sparse  "
     "feature_list_dense_values:feature_list_dense_types  "
     "feature_list_dense_lengths:Nfeature_list_dense  "
     "feature_list_ragged_values:feature_list_ragged_value_types  "
     "feature_list_ragged_outer_splits:feature_list_ragged_split_types  "
     "feature_list_ragged_inner_splits:feature_list_ragged_split_types",
     "ParseSequenceExampleV2"},
    {"sparse_indices:num_sparse sparse_values:sparse_types sparse_shapes:num_sparse  "
     "dense_values:Tdense",
     "ParseSingleExample"},
    {"context_sparse_indices:Ncontext_sparse context_sparse_values:context_sparse_types  "
     "context_sparse_shapes:Ncontext_sparse context_dense_values:Tcontext_dense  "
     "feature_list_sparse_indices:Nfeature_list_sparse  "
     "feature_list_sparse_values:feature_list_sparse_types  "
     "feature_list_sparse_shapes:Nfeature_list_sparse  "
     "feature_list_dense_values:feature_list_dense_types",
     "ParseSingleSequenceExample"},
    {"q r", "Qr"},
    {"input_backprop input_min_backprop input_max_backprop", "QuantizeAndDequantizeV4Grad"},
    {"output output_min output_max",
     "QuantizeDownAndShrinkRange QuantizeV2 QuantizedConcat QuantizedConcatV2 QuantizedReshape  "
     "Requantize RequantizePerChannel"},
    {"z min_z max_z", "QuantizedAdd QuantizedMul"},
    {"output min_output max_output",
     "QuantizedAvgPool QuantizedConv2D QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize  "
     "QuantizedConv2DAndRequantize QuantizedConv2DPerChannel QuantizedConv2DWithBias  "
     "QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize  "
     "QuantizedConv2DWithBiasAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize  "
     "QuantizedConv2DWithBiasSumAndRelu QuantizedConv2DWithBiasSumAndReluAndRequantize  "
     "QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias  "
     "QuantizedDepthwiseConv2DWithBiasAndRelu  "
     "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize QuantizedMaxPool"},
    {"result result_min result_max", "QuantizedBatchNormWithGlobalNormalization"},
    {"output min_out max_out", "QuantizedBiasAdd"},
    {"y y_min y_max", "QuantizedInstanceNorm"},
    {"out min_out max_out",
     "QuantizedMatMul QuantizedMatMulWithBias QuantizedMatMulWithBiasAndRelu  "
     "QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize"},
    {"activations min_activations max_activations", "QuantizedRelu QuantizedRelu6 QuantizedReluX"},
    {"resized_images out_min out_max", "QuantizedResizeBilinear"},
    {"output_values output_row_splits", "RaggedCross"},
    {"output_nested_splits:OUTPUT_RAGGED_RANK output_dense_values", "RaggedGather"},
    {"rt_nested_splits rt_dense_values", "RaggedRange"},
    {"output_nested_splits:output_ragged_rank output_dense_values", "RaggedTensorFromVariant"},
    {"sparse_indices sparse_values sparse_dense_shape", "RaggedTensorToSparse"},
    {"key value", "ReaderRead ReaderReadV2"},
    {"output_false output_true", "RefSwitch Switch"},
    {"output_min output_max", "RequantizationRange RequantizationRangePerChannel"},
    {"begin size bboxes",
     "SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 StatelessSampleDistortedBoundingBox"},
    {"vocab_word vocab_freq words_per_epoch current_epoch total_words_processed examples labels", "Skipgram"},
    {"loss backprop", "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"},
    {"indices values shape", "SparseAccumulatorTakeGradient StringSplit StringSplitV2"},
    {"sum_indices sum_values sum_shape", "SparseAdd"},
    {"a_val_grad b_val_grad", "SparseAddGrad"},
    {"output_indices output_values output_shape",
     "SparseConcat SparseCross SparseCrossHashed SparseCrossV2 SparseReduceMaxSparse  "
     "SparseReduceSumSparse SparseSlice"},
    {"output_indices output_values empty_row_indicator reverse_index_map", "SparseFillEmptyRows"},
    {"output_indices output_values", "SparseReorder SparseSparseMaximum SparseSparseMinimum"},
    {"output_indices output_shape", "SparseReshape"},
    {"output sorted_unique_indices",
     "SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2"},
    {"output_indices:num_split output_values:num_split output_shape:num_split", "SparseSplit"},
    {"key counter", "StatelessRandomGetKeyCounter"},
    {"key counter alg", "StatelessRandomGetKeyCounterAlg"},
    {"ngrams ngrams_splits", "StringNGrams"},
    {"value lengths", "TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3"},
    {"grad_handle flow_out", "TensorArrayGradV3 TensorArrayGradWithShape"},
    {"handle flow", "TensorArrayV3"},
    {"tensor lengths", "TensorListConcat TensorListConcatV2"},
    {"output_handle tensor", "TensorListPopBack"},
    {"topk topk_indices", "TopKUnique TopKWithUnique"},
    {"row_splits char_values", "UnicodeDecode"},
    {"row_splits char_values char_to_byte_starts", "UnicodeDecodeWithOffsets"},
    {"y idx", "Unique UniqueV2"},
    {"y idx count", "UniqueWithCounts UniqueWithCountsV2"},
};

}  // namespace

std::uint32_t list_length(const NodeDef& node, std::string_view attribute) {
  constexpr std::int64_t kMax = 1 << 20;
  const AttrValue* value = find(node, attribute);
  if (value == nullptr) return 0;
  const std::int64_t length =
      value->value_case() == AttrValue::kI ? value->i() : std::int64_t{value->list().type_size()};
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(length, 0, kMax));
}

std::uint32_t first_output(const NodeDef& node, std::string_view output_name) {
  static const RowsByType<Row> kByType{kRows};
  const Row* row = kByType.find(node.op());
  if (row == nullptr) return 0;
  std::uint32_t at = 0;
  for (const std::string_view output : words_in(row->outputs)) {
    const std::size_t colon = output.find(':');
    if (output.substr(0, colon) == output_name) return at;
    at += colon == std::string_view::npos ? 1 : list_length(node, output.substr(colon + 1));
  }
  return 0;
}

}  // namespace emplace::tf
