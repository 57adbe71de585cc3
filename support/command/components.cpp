#include "support/command/components.hpp"

#include <fmt/format.h>

#include "support/process/near.hpp"

namespace usher::support {

const component simulator{"usher_bench", "USHER_BUILD_SIMULATOR", USHER_WITH_SIMULATOR, "Boost.Context and toml++",
                          "libboost-context-dev libtomlplusplus-dev"};
const component recorder{"usher_stat", "USHER_BUILD_STAT", USHER_WITH_STAT, "elfutils, protozero and zlib",
                         "libdw-dev libprotozero-dev zlib1g-dev"};
const component checker{"usher_check", "USHER_BUILD_CHECKER", USHER_WITH_CHECKER,
                        "relacy",      "relacy-dev",          "usher-check"};

std::string why_missing(const component& c) {
  const std::string folder = own_path().parent_path().native();
  if (c.is_built && c.own_package != nullptr)
    return fmt::format("there is no {} near {}: install the package {} of Usher " USHER_VERSION
                       " into the same prefix, or name its {} by "
                       "USHER_CHECKER=PATH",
                       c.executable, folder, c.own_package, c.executable);
  if (c.is_built)
    return fmt::format(
        "there is no {} near {}: {} was on in this build of Usher, but the target {} has not been built, or not "
        "installed with the command",
        c.executable, folder, c.option, c.executable);
  return fmt::format(
      "this build of Usher has no {}: {} was off. Build Usher again with {}=ON, which needs {} (Debian: apt-get "
      "install {})",
      c.executable, c.option, c.option, c.needs, c.packages);
}

}  // namespace usher::support
