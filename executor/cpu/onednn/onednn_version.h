#pragma once
#include <string>

namespace emplace::cpu::onednn {

std::string version();  ///< "oneDNN 2.6.3", of the library that is loaded.

}  // namespace emplace::cpu::onednn
