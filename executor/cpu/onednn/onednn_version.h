#pragma once
#include <string>

namespace emplace::cpu::onednn {

std::string version();  ///< Version of the loaded library: "oneDNN 2.6.3".

}  // namespace emplace::cpu::onednn
