// Comparisons of recordings, from JSON that the tests make: which objects are the same, intervals, what is shown.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "support/text/input_file.hpp"
#include "watch/reader/compare/comparison_text.hpp"
#include "watch/reader/compare/estimate.hpp"
#include "watch/reader/compare/matching.hpp"

namespace usher::reader {
namespace {

using nlohmann::json;

constexpr int windows = 40;
constexpr double window_seconds = 0.05, threads = 4;

/// The JSON of a row that waits for a share of the threads' time which varies from window to window.
json row(const std::string& name, double share, double noise = 0, unsigned seed = 1,
         const std::string& kind = "mutex") {
  std::mt19937 random(seed);
  std::normal_distribution<double> around(1, noise > 0 ? noise : 1);
  std::vector<double> waited;
  double all = 0;
  for (int i = 0; i < windows; i++) {
    const double w = share * threads * window_seconds * std::max(0.0, noise > 0 ? around(random) : 1.0);
    waited.push_back(w);
    all += w;
  }
  return {{"kind", kind},
          {"name", name},
          {"module", nullptr},
          {"acquisitions", 1000},
          {"contended", 100},
          {"waiting", {{"total", all}}},
          {"held_share", 0.5},
          {"windows", waited},
          {"waiters", json::array()},
          {"holders", json::array()}};
}

json recording_of(const json& rows) {
  const double seconds = windows * window_seconds;
  std::vector<double> ends, lives(windows, threads * window_seconds);
  for (int i = 1; i <= windows; i++) ends.push_back(i * window_seconds);
  return {{"version", 1},
          {"command", {"./server"}},
          {"lock", "pthread"},
          {"seconds", seconds},
          {"threads", 4},
          {"thread_seconds", seconds * threads},
          {"windows", {{"ends", ends}, {"thread_seconds", lives}}},
          {"rows", rows}};
}

template <class... Rows>
json recording(const Rows&... rows) {
  json all = json::array();
  (all.push_back(rows), ...);
  return recording_of(all);
}

comparison between(const json& a, const json& b) {
  return compare({run_of(a)}, {run_of(b)});
}

const change& of(const comparison& c, const std::string& name) {
  for (const change& one : c.changes)
    if (one.name() == name) return one;
  throw std::runtime_error("no " + name);
}

/// The names of A and B of each pair, "-" for none.
std::string pairs(const json& a, const json& b) {
  const std::vector<compared_run> both = {run_of(a), run_of(b)};
  std::string text;
  for (const subject& s : match(both))
    text += (s.in[0] ? s.in[0]->name : "-") + "=" + (s.in[1] ? s.in[1]->name : "-") + ";";
  return text;
}

// ---- which objects are the same ---------------------------------------------------------------------------------

TEST(Places, SurviveABuild) {
  const auto same = [](const char* a, const char* in_a, const char* b, const char* in_b) {
    return place_of(a, in_a).key == place_of(b, in_b).key;
  };
  EXPECT_TRUE(same("log_mutex", "/opt/1.2/server-1.2", "log_mutex", "/opt/1.3/server-1.3"));
  EXPECT_TRUE(same("pool+0x28", "/lib/libpool.so.1.2", "pool+0x30", "/lib/libpool.so.2"));
  EXPECT_TRUE(same("libgomp-a34b3233.so.1.0.0+0x40", "/w/libgomp-a34b3233.so.1.0.0", "libgomp-ffb3233a.so.1+0x80",
                   "/w/libgomp-ffb3233a.so.1"));
  EXPECT_TRUE(same("app::POOL::h0123456789abcdef", "/a", "app::POOL::hfedcba9876543210", "/a"));
  EXPECT_TRUE(same("pool.lto_priv.0", "/a", "pool", "/a"));
  EXPECT_TRUE(same("buckets[]", "/a", "buckets+0x28", "/a"));
  EXPECT_TRUE(same("Table::insert table.cpp:41", "", "Table::insert table.cpp:57", ""));
  EXPECT_TRUE(same("lookup libx.so.1+0x10", "", "lookup libx.so.2+0x20", ""));
  EXPECT_FALSE(same("Table::insert table.cpp:41", "", "Table::erase table.cpp:41", ""));
  EXPECT_FALSE(same("pool", "/a", "pool", "/b"));
  EXPECT_FALSE(same("pool", "/a", "pools", "/a"));
  EXPECT_EQ(place_of("0x7f0000001000", "").key, "");
  EXPECT_EQ(lasting_name("/usr/lib/libc.so.6"), "libc.so");
  EXPECT_EQ(lasting_name("42"), "42");
}

TEST(Matching, ByFunctionThenByOrder) {
  EXPECT_EQ(pairs(recording(row("f a.c:10", 0.3), row("f a.c:20", 0.2)),
                  recording(row("f a.c:20", 0.3), row("f a.c:30", 0.2))),
            "f a.c:10=f a.c:20;f a.c:20=f a.c:30;");
}

TEST(Matching, OfUnequalNumbersTheNearest) {
  EXPECT_EQ(pairs(recording(row("f a.c:10", 0.3), row("f a.c:50", 0.2)),
                  recording(row("f a.c:12", 0.3), row("f a.c:30", 0.2), row("f a.c:51", 0.1))),
            "f a.c:10=f a.c:12;f a.c:50=f a.c:51;-=f a.c:30;");
}

TEST(Matching, OfOneKindOnly) {
  EXPECT_EQ(pairs(recording(row("f a.c:1", 0.3)), recording(row("f a.c:1", 0.3, 0, 1, "rwlock"))),
            "f a.c:1=-;-=f a.c:1;");
}

TEST(Matching, ByTheCodeThatWaits) {
  const auto waits_in = [](json r, const char* function) {
    const json f = {{"function", function}, {"file", "/s/a.c"}, {"module", "/a"}};
    r["waiters"] = json::array({{{"waited", 1.0}, {"frames", json::array({f})}}});
    return r;
  };
  EXPECT_EQ(pairs(recording(waits_in(row("first a.c:1", 0.3), "worker")),
                  recording(waits_in(row("other a.c:9", 0.3), "worker"))),
            "first a.c:1=other a.c:9;");
  EXPECT_EQ(pairs(recording(waits_in(row("first a.c:1", 0.3), "worker")),
                  recording(waits_in(row("other a.c:9", 0.3), "server"))),
            "first a.c:1=-;-=other a.c:9;");
}

TEST(Matching, OfManyIsQuick) {
  json a = json::array(), b = json::array();
  for (int i = 0; i < 4000; i++) {
    a.push_back(row("f a.c:" + std::to_string(2 * i), 0.01));
    b.push_back(row("f a.c:" + std::to_string(3 * i + 1), 0.01));
  }
  b.erase(0);
  const comparison c = between(recording_of(a), recording_of(b));
  EXPECT_EQ(c.changes.size(), 4000u);
  EXPECT_EQ(c.judged, most_judged);
}

// ---- intervals --------------------------------------------------------------------------------------------------

TEST(Estimates, OfIndependentWindows) {
  std::mt19937 random(7);
  std::normal_distribution<double> around(1, 0.2);
  double squares = 0, variances = 0;
  constexpr int runs = 400, n = 64;
  for (int r = 0; r < runs; r++) {
    std::vector<double> waited, lives(n, 1.0);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += waited.emplace_back(around(random));
    const estimate e = of_windows(sum / n, waited, lives);
    EXPECT_EQ(e.freedom, 15);
    squares += std::pow(e.value - 1, 2);
    variances += e.variance;
  }
  EXPECT_NEAR(squares / variances, 1, 0.2);
}

TEST(Estimates, DependentWindowsGiveAWiderInterval) {
  std::vector<double> alternating, blocks, lives(64, 1.0);
  for (int i = 0; i < 64; i++) {
    alternating.push_back(i % 2);
    blocks.push_back(i / 8 % 2);
  }
  EXPECT_LT(of_windows(0.5, alternating, lives).variance, 1e-12);
  EXPECT_GT(of_windows(0.5, blocks, lives).variance, 0.01);
}

TEST(Estimates, StudentsQuantile) {
  const support::interval i = difference({0, 0, HUGE_VAL}, {10, 1, 3}, 0.05);  // t = 3.182
  EXPECT_NEAR(i.low, 10 - 3.182, 0.001);
  EXPECT_NEAR(i.high, 10 + 3.182, 0.001);
  const support::interval exact = difference({1, 0}, {3, 0}, 0.05);
  EXPECT_EQ(exact.low, 2);
  EXPECT_EQ(exact.high, 2);
}

// ---- what is shown ----------------------------------------------------------------------------------------------

TEST(Comparing, ALongerSectionIsShown) {
  const comparison c = between(recording(row("f a.c:1", 0.2, 0.2, 1), row("g a.c:9", 0.1, 0.2, 2)),
                               recording(row("f a.c:3", 0.4, 0.2, 3), row("g a.c:11", 0.1, 0.2, 4)));
  EXPECT_EQ(of(c, "f a.c:3").shown, shown_change::hotter);
  EXPECT_EQ(of(c, "g a.c:11").shown, shown_change::none);
  EXPECT_EQ(c.judged, 2u);
  EXPECT_NE(verdict_of(c).find("f a.c:3 became hotter: threads waited "), std::string::npos) << verdict_of(c);
  const std::string text = as_text(c, {});
  EXPECT_NE(text.find("in A     f a.c:1"), std::string::npos) << text;
  EXPECT_NE(text.find("One run of each side"), std::string::npos) << text;
}

TEST(Comparing, TheSameShowsNothing) {
  const comparison c = between(recording(row("f a.c:1", 0.3, 0.3, 1)), recording(row("f a.c:1", 0.3, 0.3, 2)));
  EXPECT_EQ(of(c, "f a.c:1").shown, shown_change::none);
  EXPECT_EQ(verdict_of(c).find("No difference that these runs can show: a change of "), 0u) << verdict_of(c);
}

TEST(Comparing, NewAndGone) {
  const comparison c = between(recording(row("f a.c:1", 0.3, 0.2)), recording(row("g a.c:1", 0.3, 0.2)));
  EXPECT_EQ(of(c, "g a.c:1").shown, shown_change::hotter);
  EXPECT_EQ(of(c, "f a.c:1").shown, shown_change::cooler);
  const std::string text = as_text(c, {});
  EXPECT_NE(text.find("new, hotter"), std::string::npos) << text;
  EXPECT_NE(text.find("gone, cooler"), std::string::npos) << text;
}

TEST(Comparing, LengthAndThreadsDoNotCount) {
  json longer = recording(row("f a.c:1", 0.3));
  longer["seconds"] = 8.0;
  longer["thread_seconds"] = 64.0;
  longer["rows"][0]["waiting"]["total"] = 0.3 * 64;
  const comparison c = between(recording(row("f a.c:1", 0.3)), longer);
  EXPECT_NEAR(of(c, "f a.c:1").difference(), 0, 1e-9);
}

TEST(Comparing, ShortRunsCannotShow) {
  json brief = recording(row("f a.c:1", 0.9));
  brief["seconds"] = 1.9;
  EXPECT_EQ(between(recording(row("f a.c:1", 0.1)), brief).judged, 0u);
  json few = recording(row("f a.c:1", 0.9));
  for (json* list : {&few["windows"]["thread_seconds"], &few["windows"]["ends"], &few["rows"][0]["windows"]})
    list->get_ref<json::array_t&>().resize(7);
  const comparison c = between(recording(row("f a.c:1", 0.1)), few);
  EXPECT_NE(verdict_of(c).find("These runs cannot show a difference: B has 7 windows"), std::string::npos);
  json none = recording(row("f a.c:1", 0.9));
  none.erase("windows");
  none["rows"][0].erase("windows");
  EXPECT_NE(between(none, few).cannot_show.find("A was recorded without windows"), std::string::npos);
  EXPECT_FALSE(fails(c, {.fail_above = 0}));
}

TEST(Comparing, TimeWithoutACpuWidensTheInterval) {
  json a = recording(row("f a.c:1", 0.2, 0.1, 1)), b = recording(row("f a.c:1", 0.3, 0.1, 2));
  a["others_cpu_share"] = b["others_cpu_share"] = 0.3;
  a["cpu"] = b["cpu"] = {{"cpus", 2}, {"busy", 1}, {"waiting", 0.4}};
  EXPECT_EQ(of(between(a, b), "f a.c:1").shown, shown_change::hotter);
  b["cpu"]["waiting"] = 1.4;  // of four threads
  const comparison c = between(a, b);
  EXPECT_EQ(of(c, "f a.c:1").shown, shown_change::none);
  EXPECT_NEAR(assumed_for_cpus(c), 0.125, 1e-9);
  EXPECT_NE(as_text(c, {}).find("Other programs took 30 % of the CPU time in A and 30 % in B"), std::string::npos);
}

TEST(Comparing, AStarvedObserverCannotShow) {
  json late = recording(row("f a.c:1", 0.9));
  double end = 0;
  for (json& one : late["windows"]["ends"]) one = end += end < 0.2 ? 0.05 : 0.1;
  const comparison c = between(recording(row("f a.c:1", 0.2)), late);
  EXPECT_EQ(c.judged, 0u);
  EXPECT_NE(c.cannot_show.find(" % of the time of B the machine had no CPU"), std::string::npos) << c.cannot_show;
}

TEST(Comparing, SeveralRunsUseTheirSpread) {
  const auto run = [](double share) { return run_of(recording(row("f a.c:1", share))); };
  // The windows of each run are equal; the runs differ more than the sides.
  EXPECT_EQ(of(compare({run(0.1), run(0.3), run(0.5)}, {run(0.2), run(0.4), run(0.6)}), "f a.c:1").shown,
            shown_change::none);
  EXPECT_EQ(of(compare({run(0.10), run(0.11), run(0.12)}, {run(0.20), run(0.21), run(0.22)}), "f a.c:1").shown,
            shown_change::hotter);
  EXPECT_EQ(of(compare({run(0.10), run(0.11), run(0.12)}, {run(0.20)}), "f a.c:1").shown, shown_change::hotter);
  EXPECT_EQ(of(compare({run(0.10), run(0.16), run(0.22)}, {run(0.25)}), "f a.c:1").shown, shown_change::none);
  EXPECT_EQ(of(compare({run(0.25)}, {run(0.10), run(0.11), run(0.12)}), "f a.c:1").shown, shown_change::cooler);
}

TEST(Comparing, QuietObjectsDoNotWidenTheIntervals) {
  json a = json::array({row("f a.c:1", 0.2, 0.2, 1)}), b = json::array({row("f a.c:1", 0.3, 0.2, 2)});
  const double alone = of(between(recording_of(a), recording_of(b)), "f a.c:1").limits.low;
  for (int i = 0; i < 100; i++) {
    a.push_back(row("quiet" + std::to_string(i) + " a.c:1", 0.0005));
    b.push_back(a.back());
  }
  const comparison c = between(recording_of(a), recording_of(b));
  EXPECT_EQ(c.judged, 1u);
  EXPECT_EQ(of(c, "f a.c:1").limits.low, alone);
}

TEST(Comparing, JoinsAreLeftOut) {
  EXPECT_TRUE(between(recording(row("main a.c:1", 0.1, 0, 1, "join")), recording()).changes.empty());
}

TEST(FailAbove, ByTheLowerEnd) {
  const comparison c = between(recording(row("f a.c:1", 0.2, 0.2, 1)), recording(row("f a.c:1", 0.4, 0.2, 3)));
  const support::interval limits = of(c, "f a.c:1").limits;
  EXPECT_TRUE(fails(c, {.fail_above = limits.low - 0.001}));
  EXPECT_FALSE(fails(c, {.fail_above = limits.low + 0.001}));
  EXPECT_LT(limits.low, of(c, "f a.c:1").difference());
  EXPECT_FALSE(fails(c, {}));
}

// ---- files of others --------------------------------------------------------------------------------------------

TEST(Files, NonsenseIsRefused) {
  const auto why = [](const json& j) -> std::string {
    try {
      run_of(j);
      return "";
    } catch (const support::bad_input& e) {
      return e.what();
    }
  };
  const json good = recording(row("f a.c:1", 0.1));
  EXPECT_EQ(why(good), "");
  EXPECT_NE(why(json::array()), "");
  EXPECT_NE(why({{"format", 4}}), "");
  const auto changed = [&](const char* pointer, const json& value) {
    json j = good;
    j[json::json_pointer(pointer)] = value;
    return why(j);
  };
  EXPECT_NE(changed("/version", 2), "");
  EXPECT_NE(changed("/seconds", -1), "");
  EXPECT_NE(changed("/seconds", 1e300), "");
  EXPECT_NE(changed("/thread_seconds", 0), "");
  EXPECT_NE(changed("/rows", 3), "");
  EXPECT_NE(changed("/rows/0/waiting/total", "much"), "");
  EXPECT_NE(changed("/rows/0/windows", json::array({1})), "");
  EXPECT_NE(changed("/rows/0/windows/0", nullptr), "");
  EXPECT_NE(changed("/rows/0/waiters", json::array({1})), "");
  EXPECT_NE(changed("/windows", 1), "");
}

TEST(Files, NamesAreMadePrintable) {
  const std::string name = "\x1b]0;title\x07\xe2\x80\xae f\n a.c:1";
  json rec = recording(row(name, 0.2));
  rec["command"] = json::array({"\x1b[2J"});
  rec["lock"] = "x\ny";
  const comparison c = between(rec, recording(row("g a.c:1", 0.4)));
  const std::string text = as_text(c, {});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_EQ(as_json(c, {}).dump().find("\\u001b"), std::string::npos);
  EXPECT_EQ(as_json(c, {}).dump().find("\xe2\x80\xae"), std::string::npos);
}

}  // namespace
}  // namespace usher::reader
