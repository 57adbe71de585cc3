// Writes files for tests: for test_profile.py a report with all features of stacks, as PPROF-FILE and
// FOLDED-FILE; for test_schema.py the JSON of a report with the kinds that only libusher-stat.so records. With --traces, for
// test_trace.py: the same report for OpenTelemetry, a timeline, one whose program is hostile, and one of a record.
#include <fstream>

#include "other_kinds.hpp"
#include "synthetic.hpp"
#include "watch/access/timeline.hpp"
#include "watch/reader/judge/rules.hpp"
#include "watch/reader/print/profile.hpp"
#include "watch/reader/print/stat_json.hpp"
#include "watch/reader/read/waits.hpp"

using namespace usher::reader;

namespace {

frame named(std::uint64_t address, const char* function, const char* file, unsigned line, bool is_inlined = false) {
  frame f;
  f.address = address;
  f.function = function;
  f.file = file;
  f.line = line;
  f.module = "/opt/server";
  f.offset = address - 0x400000;
  f.is_inlined = is_inlined;
  return f;
}

report sample() {
  const frame locks = named(0x401100, "std::mutex::lock()", "/usr/include/mutex", 100, true);
  const frame worker = named(0x401100, "worker(int, char)", "/src/server.cpp", 42);
  const frame main = named(0x401200, "main", "/src/server.cpp", 7);
  frame stripped;  // code in a library without names
  stripped.address = 0x7f0000001234;
  stripped.module = "/opt/libcache.so";
  stripped.offset = 0x1234;
  frame generated;  // code in no file
  generated.address = 0x7e0000000010;

  report r;
  r.command = {"server", "--port", "80"};
  r.seconds = 2;
  row& hot = r.rows.emplace_back();
  hot.what = kind::mutex;
  hot.name = "cache_lock";
  hot.waiters = {{{{stripped, generated, main}, true}, 2, 0.25}, {{{locks, worker, main}, false}, 7, 1.5}};
  hot.holders = {{{{main}, false}, 9, 9}};  // holders are not among the samples
  row& other_process = r.rows.emplace_back(r.rows.front());
  other_process.waiters.erase(other_process.waiters.begin());
  row& filled = r.rows.emplace_back();
  filled.what = kind::condition;
  filled.name = "server.cpp:9 a;b\nc \xff";
  filled.waiters = {{{{named(0x401300, "a;b\nc", "", 0), main}, false}, 1, 2e-6}};
  row& credits = r.rows.emplace_back();
  credits.what = kind::semaphore;
  credits.name = "credits";
  credits.waiters = {{{}, 3, 0.001}};
  row& table = r.rows.emplace_back();
  table.what = kind::rwlock;
  table.name = "table_lock";
  table.waiters = {{{{worker, main}, false}, 4, 0.5}};
  return r;
}

using usher::access::timeline;

/// The main thread holds the mutex, for which the other one waits 3 times; the last wait has not ended. Its wait for a condition
/// contains the second wait for the mutex.
timeline planted() {
  timeline t;
  t.at = {9000, 19000, 1'000'000'009'000};
  t.processes = {{100, "server"}};
  t.threads = {{0, 100, "server"}, {0, 101, "worker"}};
  t.objects = {{0, kind::mutex, "cache_lock"}, {0, kind::condition, "filled"}, {0, kind::mutex, "unused"}};
  t.waits = {{1, 0, 1000, 2000, 100, false, 0, 1990, "f server.cpp:7"},
             {1, 1, 3000, 6000, 0, false, timeline::nobody, 0, ""},
             {1, 0, 5000, 6000, 100, false, timeline::nobody, 0, ""},
             {0, 0, 6500, 6600, 101, true, timeline::nobody, 0, ""},
             {1, 0, 7000, 0, 100, false, timeline::nobody, 0, ""}};
  t.recorded = {{500, 8000}};
  return t;
}

/// Invalid indices, times and names; waits that cross each other.
timeline forged() {
  timeline t = planted();
  t.threads.push_back({7, 102, "in no process"});
  t.threads[1].name = "\x1b]0;title\a (owner tid: 1)";
  t.objects[0].name = std::string(100'000, 'x');
  t.objects[1].name = "a (owner tid: 7)\nb \xff\xe2\x80\xae";
  t.objects[1].kind = kind::mutex;
  t.objects.push_back({9, kind::mutex, "in no process"});
  t.waits.insert(t.waits.end(), {{9, 0, 1, 2, 0, false, 0, 1, ""},
                                 {0, 9, 1, 2, 0, false, 0, 1, ""},
                                 {2, 0, 1, 2, 0, false, 0, 1, ""},
                                 {0, 3, 1, 2, 0, false, 0, 1, ""},
                                 {0, 0, 2000, 1000, 0, false, 0, 1500, ""},
                                 {1, 0, 1500, 2500, -5, false, 77, 1600, ""},
                                 {1, 0, 1500, ~std::uint64_t{0}, 1, false, 0, 0, ""},
                                 {1, 0, ~std::uint64_t{0}, ~std::uint64_t{0}, 1, false, 0, 1, ""}});
  t.recorded.push_back({9, 1});
  return t;
}

/// A record whose table of waits is full: two of its four chunks were used again. The waits of the oldest chunk are not all
/// there, and some entries contradict the record.
timeline of_record(double& seconds) {
  usher::contract::capacities room = synthetic::small();
  room.waits = 4;
  synthetic made(room);
  made_up_names names(made.view);
  names.variable(0x1000, "log_mutex", 40);
  const std::uint32_t holder = made.thread(100), waiter = made.thread(101);
  const std::uint32_t mutex = made.object(kind::mutex, 0x1000);
  made.view.head().wait_chunks = 6;
  const auto add = [&](std::uint32_t chunk, std::uint32_t at, std::uint64_t begin, std::uint64_t end) -> auto& {
    usher::contract::noted_wait& w = made.view.waits(chunk % 4).waits[at];
    w.begin = begin;
    w.end = end;
    w.key = usher::contract::key_of(0, 0x1000);
    w.object = mutex + 1;
    w.kind_result = std::uint32_t(kind::mutex) | usher::contract::is_static << 8;
    w.thread = waiter + 1;
    w.tid = 101;
    w.owner = 100;
    w.chunk = chunk + 1;
    return w;
  };
  for (std::uint32_t chunk = 2; chunk < 6; chunk++) {
    made.view.waits(chunk % 4).number = chunk + 1;
    made.view.waits(chunk % 4).taken = 1000 * chunk;
  }
  add(3, 0, 3100, 3200);  // before the time of which all are there
  add(3, 1, 3300, 4100).released = usher::contract::released_word(4050, holder + 1);  // its end is after it
  add(5, 0, 5000, 5500).released = usher::contract::released_word(4900, holder + 1);  // released before it began
  add(4, 0, 4200, 4300).chunk = 1;                                                    // of the chunk's last use
  add(4, 1, 4300, 4200);
  add(4, 2, 4300, 99999);
  add(4, 3, 4300, 4400).key = usher::contract::key_of(77, 0x1000);
  add(4, 4, 4300, 4400).tid = 0;
  add(4, 5, 4300, 4400).kind_result = 0xff;
  made.waits(waiter, mutex, 6000);
  made.at(mutex).owner = holder + 1;
  const kept_waits kept = read_waits(
      made.view, {0, 8000, 1e-9}, [](std::uint64_t t) { return t; }, names);
  seconds = kept.seconds;
  return kept.all;
}

void write_traces(char** files) {
  std::ofstream(files[0], std::ios::binary) << as_otlp(sample(), 1'700'000'000'000'000'000);
  std::ofstream(files[1], std::ios::binary) << as_perfetto(planted());
  std::ofstream(files[2], std::ios::binary) << as_perfetto(forged());
  double seconds = 0;
  std::ofstream(files[3], std::ios::binary) << as_perfetto(of_record(seconds));
  std::ofstream(files[4]) << seconds;
}

}  // namespace

int main(int count, char** arguments) {
  if (std::string_view(arguments[1]) == "--traces") {
    write_traces(arguments + 2);
    return 0;
  }
  std::ofstream(arguments[1], std::ios::binary) << as_pprof(sample());
  std::ofstream(arguments[2], std::ios::binary) << as_folded(sample());
  if (count > 3) {
    report r = other_kinds();
    judge(r);
    std::ofstream(arguments[3]) << as_json(r);
  }
  return 0;
}
