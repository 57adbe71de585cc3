// The options of all subcommands as JSON: the manual page and the completions are made from it, by tools/manual.py.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace usher::support {

/// The word in place of a subcommand that prints it. It is in no help text.
inline constexpr const char* describe_word = "--describe-options";

std::string described_options(const CLI::App& app);

}  // namespace usher::support
