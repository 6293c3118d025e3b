// fmt's functions for a program that may take along no shared library: Debian has fmt as nothing else. With
// FMT_HEADER_ONLY they are inline, and are emitted here because their addresses are taken.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <string>

extern std::string (*const emplace_static_vformat)(fmt::string_view, fmt::format_args);
std::string (*const emplace_static_vformat)(fmt::string_view, fmt::format_args) = &fmt::vformat;
