// Reads the input as a file of results, as `usher report` does, and fills a page with it, whole and cut. The entry must
// keep to its room and end no element of HTML.
#include <cstdlib>

#include "fuzz.hpp"
#include "watch/reader/print/report_page.hpp"

USHER_FUZZ_TARGET(report_page) {
  for (const std::size_t room : {std::size_t{100'000}, std::size_t{600}}) {
    const std::string entry = usher::reader::page_entry({"file.json", std::string(as_text(input))}, room);
    if (entry.size() > room || entry.find_first_of("<>&") != std::string::npos) std::abort();
    use(usher::reader::filled_page(std::string(usher::reader::data_mark), {entry}));
  }
}
