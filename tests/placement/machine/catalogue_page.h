#pragma once
/// The page about the catalogue and about how `--devices` names a machine.

#include <string>

namespace emplace {

/// The text of docs/reference/machines.md.
std::string catalogue_page();

}  // namespace emplace
