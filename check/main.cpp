// usher_check: every lock, and what else makes threads wait, against every client under relacy.
//
//     usher_check [--lock L|wrong] [--client C] [--threads N] [--acquisitions A] [--executions K] [--seed S]
//                 [--no-history] [--weaken]
//
// L: a lock of the catalogue, wait-queue, condition-variable, semaphore. The clients: *_clients.cpp.
#include <chrono>
#include <cstdio>
#include <map>
#include <string_view>

#include "check/explore.hpp"

namespace usher::check {
namespace {

int usage() {
  std::fputs(
      "usage: usher_check [--lock L|wrong] [--client C] [--threads 2|3|4] [--acquisitions A] [--executions "
      "K]\n"
      "                   [--seed S] [--no-history] [--weaken]\n",
      stderr);
  return 2;
}

/// Makes each ordered operation of a lock relaxed in turn. A survivor is not superfluous for it: see
/// relacy_platform.hpp for what relacy cannot show.
void weaken(const subject& s, options o) {
  const auto any_fails = [&] {
    for (unsigned threads = 2; threads <= execution::most_threads; threads++) {
      if (o.threads != 0 && o.threads != threads) continue;
      for (unsigned c = 0; c < s.clients.size(); c++)
        if ((o.client.empty() || o.client == s.clients[c]) && !s.explore(c, threads, o).passed) return true;
    }
    return false;
  };
  o.history = false;
  sites.count = 0;
  sites.only = s.header;
  recording_sites = true;
  any_fails();
  recording_sites = false;
  unsigned missed = 0;
  for (unsigned i = 0; i < sites.count; i++) {
    sites.weakened = sites.seen[i];
    const bool found = any_fails();
    missed += found ? 0 : 1;
    const char* slash = std::strrchr(sites.seen[i].file_name(), '/');
    std::printf("%-24s %s:%u:%u relaxed: %s\n", s.name.c_str(), slash + 1, unsigned(sites.seen[i].line()),
                unsigned(sites.seen[i].column()), found ? "caught" : "survives");
    std::fflush(stdout);
  }
  sites.weakened.reset();
  std::printf("%-24s %u of %u caught\n", s.name.c_str(), sites.count - missed, sites.count);
}

std::vector<subject> every_subject() {
  std::vector<subject> all;
  for (auto&& some : {lock_subjects(), queue_subjects(), condition_subjects(), semaphore_subjects()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

int run(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; i++) {
    const std::string_view key = argv[i];
    if (key == "--no-history") {
      o.history = false;
      continue;
    }
    if (key == "--weaken") {
      o.weaken = true;
      continue;
    }
    if (i + 1 == argc) return usage();
    const char* value = argv[++i];
    if (key == "--lock")
      o.lock = value;
    else if (key == "--client")
      o.client = value;
    else if (key == "--threads")
      o.threads = unsigned(std::strtoul(value, nullptr, 10));
    else if (key == "--executions")
      o.executions = std::strtoull(value, nullptr, 10);
    else if (key == "--acquisitions")
      acquisitions = unsigned(std::strtoul(value, nullptr, 10));
    else if (key == "--seed")
      o.seed = std::strtoull(value, nullptr, 10);
    else
      return usage();
  }
  if (o.threads == 1 || o.threads > execution::most_threads || o.executions == 0 || o.seed == 0) return usage();

  bool as_expected = true, any = false;
  std::map<std::string, bool> caught;  // of each wrong subject: in any of its forms
  for (const subject& s : every_subject()) {
    // A family's name stands for its forms; wrong ones only on demand.
    const bool wanted = o.lock.empty() ? s.bug.empty() : o.lock == "wrong" ? !s.bug.empty() : s.name == o.lock;
    if (!wanted) continue;
    any = true;
    if (s.size > room_for_subject) {
      std::fprintf(stderr, "usher_check: %s does not fit into the room for it\n", s.name.c_str());
      return 2;
    }
    if (o.weaken) {
      weaken(s, o);
      continue;
    }
    bool failed = false;
    for (unsigned threads = 2; threads <= execution::most_threads; threads++) {
      if (o.threads != 0 && o.threads != threads) continue;
      for (unsigned c = 0; c < s.clients.size(); c++) {
        if ((!o.client.empty() && o.client != s.clients[c]) || (failed && !s.bug.empty())) continue;
        const auto begin = std::chrono::steady_clock::now();
        const outcome r = s.explore(c, threads, o);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        std::printf("%-24s %-9s %u threads  %s%s  %llu executions, %.1f s\n", s.name.c_str(), s.clients[c], threads,
                    r.passed ? "pass" : "FAIL: ", r.why.c_str(), static_cast<unsigned long long>(r.executions),
                    seconds);
        std::fflush(stdout);
        failed = failed || !r.passed;
      }
    }
    if (s.bug.empty())
      as_expected = as_expected && !failed;
    else
      caught[s.bug] = caught[s.bug] || failed;
  }
  for (const auto& [bug, found] : caught) {
    std::printf("%-10s %s\n", found ? "caught" : "NOT CAUGHT", bug.c_str());
    as_expected = as_expected && found;
  }
  if (!any) {
    std::fprintf(stderr, "usher_check: no such lock\n");
    return 2;
  }
  return as_expected ? 0 : 1;
}

}  // namespace
}  // namespace usher::check

int main(int argc, char** argv) {
  return usher::check::run(argc, argv);
}
