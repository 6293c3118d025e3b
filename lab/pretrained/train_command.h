#pragma once
/// `emplace train`: makes the weights of a pretrained policy.

#include <memory>

#include "launcher/terminal/command.h"

namespace emplace::lab {

std::unique_ptr<launcher::Command> make_train();

}  // namespace emplace::lab
