// A memory order that is weakened, as the checker and --weaken-at name it: FILE:LINE:COLUMN:ORDER.
#pragma once

#include <string>

namespace usher::check::command {

struct order_site {
  std::string text, file;  ///< no file: the text is none
  unsigned line = 0, column = 0;
  std::string made;  ///< the order that it becomes; empty: every operation there becomes relaxed
};

order_site order_site_from(const std::string& text);

/// "usher/locks/twa.hpp:17".
std::string name_of(const order_site& s);

/// The values that ORDER may have, as a text: "relaxed, acquire, …".
std::string order_names();

}  // namespace usher::check::command
