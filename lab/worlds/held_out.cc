#include "lab/worlds/held_out.h"

#include <algorithm>
#include <array>

namespace emplace::lab {
namespace {

constexpr std::array<std::string_view, 7> kFamilies{
    "inception", "nasnet", "dense", "diffusion", "translator", "graph-attention", "recommender"};

constexpr std::array<std::string_view, 16> kTraces{"bert_base-bs32-seq128",
                                                   "densenet121-bs32",
                                                   "googlenet-bs64",
                                                   "inception_v3-bs1",
                                                   "inception_v3-bs32",
                                                   "nasnet_a_cifar-bs32",
                                                   "nmt-2layer-bs64",
                                                   "nmt-4layer-bs64",
                                                   "resnet50-bs2",
                                                   "resnet50-bs32",
                                                   "rnnlm-bs4",
                                                   "rnnlm-bs4-hidden512-steps10",
                                                   "rnnlm-bs64",
                                                   "transformer_base-bs2-seq40",
                                                   "transformer_base-bs64-seq40",
                                                   "unet-bs4"};

constexpr std::array<std::string_view, 16> kDevices{"k40",
                                                    "k40-calibrated",
                                                    "k80_gk210",
                                                    "k80_gk210-calibrated",
                                                    "a30",
                                                    "l40s",
                                                    "h100",
                                                    "mi300x",
                                                    "rtx2080ti",
                                                    "rtx4090",
                                                    "rtx5080",
                                                    "haswell18",
                                                    "haswell18-calibrated",
                                                    "epyc9654",
                                                    "xeon8380",
                                                    "ryzen7950x"};

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool is_held_out_family(std::string_view name) { return contains(kFamilies, name); }
bool is_held_out_trace(std::string_view name) { return contains(kTraces, name); }
bool is_held_out_device(std::string_view name) { return contains(kDevices, name); }

}  // namespace emplace::lab
