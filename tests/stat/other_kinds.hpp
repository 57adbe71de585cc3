// A report with a row of each kind that libusher-stat.so records, for the tests of its text and JSON.
#pragma once

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

inline report other_kinds() {
  report r;
  r.command = {"./server"};
  r.pid = 100;
  r.lock = "pthread";
  r.usher = "0.1.0";
  r.seconds = 10;
  r.processes = 1;
  r.threads = 4;
  r.thread_seconds = 40;
  const auto add = [&r](kind what, const char* name, double waited) -> row& {
    row& one = r.rows.emplace_back();
    one.what = what;
    one.name = name;
    one.seen.acquisitions = 1050;
    one.seen.contended = one.seen.waiting.count = 50;
    one.seen.waiting.total = waited;
    one.seen.waiting.longest = 0.5;
    one.seen.most_waiting = 3;
    one.seen.threads = {{12, 40, waited / 2}, {13, 10, waited / 2}};
    r.waited[contract::index_of(what)] += waited;
    object_row object;
    object.address = 0x1000;
    object.pid = 100;
    object.name = name;
    object.seen = one.seen;
    one.each = {object, object};
    one.objects = 2;
    return one;
  };
  row& table = add(kind::rwlock, "table_lock", 16.1);
  table.seen.sides = lock_sides{{1000, 31, 3.1, 0.2, 3.1, 0}, {50, 19, 13, 0.5, 1, 12}, 7};
  table.seen.holding = {50, 2, 0.1, 0.04, 0.09};
  table.seen.holding_is_exact = true;
  table.seen.holds_timed = 50;
  table.seen.held_share = 0.2;
  table.seen.failed_tries = 3;
  for (object_row& o : table.each) o.seen = table.seen;
  row& spin = add(kind::spin, "spin_lock", 0.4);
  spin.seen.holding = {1050, 0.5, 0.001, {}, {}};
  spin.seen.held_share = 0.05;
  spin.seen.holds_timed = 35;
  spin.seen.failed_tries = 90;
  spin.seen.tries = {12, 3.4, 1.1};
  row& rounds = add(kind::barrier, "rounds", 9);
  rounds.seen.last = {12, 40, 4.5};
  row& unknown = add(kind::barrier, "unknown_rounds", 1);
  unknown.each[0].seen.last = {{0, 3}, 40, 4.5};
  frame f;
  f.function = "main";
  f.file = "/src/server.cpp";
  f.line = 7;
  f.module = "/bin/server";
  add(kind::join, "main server.cpp:7", 0.2).waiters = {{{{f}, false}, 50, 0.2}};
  row& tried = add(kind::mutex, "tried", 0.1);
  tried.seen.failed_tries = 36;
  tried.seen.tries = {12, 3.4, 1.1};
  return r;
}

}  // namespace usher::reader
