// Compares the input, a file of `usher stat --json`, with itself and with a fixed recording, as `usher diff` does, and
// makes the text and the JSON of both comparisons.
#include "fuzz.hpp"
#include "support/text/input_file.hpp"
#include "watch/reader/compare/comparison_text.hpp"

namespace {

constexpr const char* other = R"({"version": 1, "command": ["a"], "lock": "steady", "seconds": 2, "thread_seconds": 4,
  "windows": {"ends": [1, 2], "thread_seconds": [2, 2]}, "rows": [
  {"kind": "mutex", "name": "f a.c:1", "module": null, "acquisitions": 9, "contended": 1, "waiting": {"total": 1},
   "windows": [0.5, 0.5], "held_share": 0.1}]})";

}  // namespace

USHER_FUZZ_TARGET(diff) {
  using namespace usher::reader;
  const compared_run theirs = run_of(usher::support::parsed_json(as_text(input)));
  const compared_run ours = run_of(usher::support::parsed_json(other));
  const diff_options options{.fail_above = 0.1};
  for (const comparison& c :
       {compare({theirs}, {theirs}), compare({ours}, {theirs}), compare({theirs, ours}, {ours})}) {
    use(usher::reader::as_text(c, options));
    use(usher::reader::as_json(c, options).dump());
  }
}
