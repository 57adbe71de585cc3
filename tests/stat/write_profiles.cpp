// Writes three files for tests: for test_profile.py a report with all features of stacks, as PPROF-FILE and
// FOLDED-FILE; for test_schema.py the JSON of a report with the kinds that only libusher-stat.so records.
#include <fstream>

#include "other_kinds.hpp"
#include "watch/reader/judge/rules.hpp"
#include "watch/reader/print/profile.hpp"
#include "watch/reader/print/stat_json.hpp"

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

}  // namespace

int main(int count, char** arguments) {
  std::ofstream(arguments[1], std::ios::binary) << as_pprof(sample());
  std::ofstream(arguments[2], std::ios::binary) << as_folded(sample());
  if (count > 3) {
    report r = other_kinds();
    judge(r);
    std::ofstream(arguments[3]) << as_json(r);
  }
  return 0;
}
