// The page of `usher report`: a template of HTML, which is watch/page bundled, and the data of files as JSON in it.
//
// The attacker wrote a file, or named a function, thread or file in the recorded program. The data are in an element of
// type application/json, in ASCII and without '<', '>' and '&', so that no text can end the element; the page's policy
// names the only script by its hash. Data are cut, not refused, where the page would grow too large.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace usher::reader {

inline constexpr std::size_t largest_page = 1'500'000;  ///< bytes

/// What stands in the template for the data, once.
inline constexpr std::string_view data_mark = "@DATA@";

struct page_file {
  std::string name;
  std::string text;  ///< JSON of `usher stat`, `top` or `try`
};

/// The file as an object in the page's data: {"name", "kind", "frames", "report"}. Lists and texts are cut until it has
/// `room` bytes at most; a list's neighbour KEY_left_out counts what it lost. Throws support::bad_input if the text is
/// of none of these formats or does not fit.
std::string page_entry(const page_file& file, std::size_t room);

/// The template with entries in the place of its mark. Throws std::runtime_error if it has not exactly one mark.
std::string filled_page(const std::string& page_template, const std::vector<std::string>& entries);

}  // namespace usher::reader
