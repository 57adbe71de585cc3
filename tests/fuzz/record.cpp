// Makes a report from a record that its program has forged. The record is a copy, as the class record_copy makes it.
#include "record_patches.hpp"
#include "watch/access/census.hpp"
#include "watch/access/shared_record.hpp"
#include "watch/reader/judge/rules.hpp"
#include "watch/reader/print/profile.hpp"
#include "watch/reader/print/stat_json.hpp"
#include "watch/reader/print/text.hpp"
#include "watch/reader/read/reading.hpp"
#include "watch/reader/read/waits.hpp"

USHER_FUZZ_TARGET(record) {
  using namespace reader;
  planted_record r;
  source from(input);
  r.patch(from, 64);
  usher::access::make_safe(r.made.view);
  usher::access::add_thread_counts(r.made.view);
  const time_scale time{0, 10'000'000'000, 1e-9};
  report all = read_report(r.made.view, time, r.names, 3);
  for (const auto& circle : circles(r.made.view)) all.deadlocks.push_back(describe(r.made.view, circle, time, r.names));
  all.command = {"./server"};
  judge(all);
  use(as_text(all, {10, true}));
  for (const deadlock& d : all.deadlocks) use(as_line(d));
  use(as_json(all).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  use(as_pprof(all));
  use(as_folded(all));
  use(as_otlp(all, 0));
  const auto ns = [](std::uint64_t ticks) { return ticks; };
  use(usher::access::as_perfetto(read_waits(r.made.view, time, ns, r.names).all));
  use(std::to_string(usher::access::sum_of(r.made.view).all()));
}
