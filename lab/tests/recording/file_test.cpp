// Tests the file of recordings: a written recording is read back unchanged, and each defect of a file gives an error
// message of its own.
#include "lab/recordings/file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace usher::recording {
namespace {

using contract::kind;
using contract::verb;

recording sample() {
  recording r;
  r.machine = {2, "A processor", "glibc 2.36", "pthread", 21.5, 12.5, 60, 5000};
  r.objects = {{kind::mutex, 0, "server+0x12"}, {kind::condition, 1, ""},      {kind::semaphore, 2, ""},
               {kind::rwlock, 3, ""},           {kind::barrier, 4, ""},        {kind::thread, 5, "", 7},
               {kind::thread, 5, ""},           {kind::recursive_mutex, 0, ""}};
  r.roles = {{7, "worker"}, {8, "1"}};
  stream a, b;
  a.thread = 7;
  a.begins = 12;
  a.events = {{verb::lock, 0, 0, 1000, 0, 0},
              {verb::unlock, 0, 0, 300, 0, 0},
              {verb::lock, 0, 0, 70'000, 12'000'000, 5'000, 600},
              {verb::wait, 1, 0, 200, 0, 4'000'000},
              {verb::wait_timed_out, 1, 7, 200, 0, 4'000'000},
              {verb::broadcast, 1, 0, 1, 0, 0},
              {verb::start, 5, 0, 1, 0, 0},
              {verb::end, 0, 0, 17, 0, 0}};
  b.thread = 8;
  b.begins_in_call = true;
  b.events = {{verb::semaphore_wait, 2, 0, 0, 0, 800},
              {verb::semaphore_post, 2, 0, 3, 0, 0},
              {verb::read_lock, 3, 0, 3, 0, 0},
              {verb::read_write_unlock, 3, 0, 3, 0, 0},
              {verb::write_lock, 3, 0, 3, 0, 0},
              {verb::read_write_unlock, 3, 0, 3, 0, 0},
              {verb::barrier_wait, 4, 0, 3, 0, 90},
              {verb::try_lock_failed, 7, 0, 3, 0, 0},
              {verb::signal, 1, 0, 3, 0, 0},
              {verb::join, 6, 0, 3, 0, 9},
              {verb::end, 0, 0, 0, 50'000'000, 0, 1'000}};
  b.unfinished = {{verb::wait, 1, 7, 40, 0, 10'000'000}};
  r.windows = {{1'000, 50'000'000, 0, {a, b}}, {300'000'000, 1'000'000, 3, {}}};
  return r;
}

bool is_same(const event& x, const event& y) {
  return x.what == y.what && x.object == y.object && x.other == y.other && x.work == y.work && x.away == y.away &&
         x.wait == y.wait && x.aside == y.aside;
}

TEST(file, round_trip) {
  const recording r = sample(), again = decoded(encoded(r));
  EXPECT_EQ(again.machine.processor, "A processor");
  EXPECT_EQ(again.machine.call_ns, 21.5);
  EXPECT_EQ(again.machine.between_ns, 12.5);
  ASSERT_EQ(again.objects.size(), r.objects.size());
  for (std::size_t i = 0; i < r.objects.size(); i++) {
    EXPECT_EQ(again.objects[i].kind, r.objects[i].kind);
    EXPECT_EQ(again.objects[i].site, r.objects[i].site);
    EXPECT_EQ(again.objects[i].name, r.objects[i].name);
    EXPECT_EQ(again.objects[i].thread, r.objects[i].thread);
  }
  ASSERT_EQ(again.roles.size(), 2u);
  EXPECT_EQ(again.roles[0].role, "worker");
  ASSERT_EQ(again.windows.size(), 2u);
  EXPECT_EQ(again.windows[1].lost, 3u);
  ASSERT_EQ(again.windows[0].streams.size(), 2u);
  for (std::size_t i = 0; i < 2; i++) {
    const stream &x = r.windows[0].streams[i], &y = again.windows[0].streams[i];
    EXPECT_EQ(x.thread, y.thread);
    EXPECT_EQ(x.begins, y.begins);
    EXPECT_EQ(x.begins_in_call, y.begins_in_call);
    ASSERT_EQ(x.events.size(), y.events.size());
    for (std::size_t k = 0; k < x.events.size(); k++) EXPECT_TRUE(is_same(x.events[k], y.events[k])) << k;
    ASSERT_EQ(x.unfinished.size(), y.unfinished.size());
    for (std::size_t k = 0; k < x.unfinished.size(); k++) EXPECT_TRUE(is_same(x.unfinished[k], y.unfinished[k]));
  }
}

TEST(file, compact) {
  recording r = sample();
  auto& events = r.windows[0].streams[0].events;
  events.clear();
  for (int i = 0; i < 100'000; i++)
    events.push_back({i % 2 == 0 ? verb::lock : verb::unlock, 0, 0, std::uint64_t(100 + i % 1000), 0, 20});
  EXPECT_LE(encoded(r).size(), 4u * 100'000 + 1'000);
}

/// Returns the reader's error message for this content.
std::string refusal(const std::string& content) {
  try {
    decoded(content);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(file, each_truncation_is_refused) {
  const std::string whole = encoded(sample());
  for (std::size_t n = 0; n < whole.size(); n++) {
    const std::string said = refusal(whole.substr(0, n));
    EXPECT_FALSE(said.empty()) << n;
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
  EXPECT_NE(refusal(whole + "x").find("1 bytes follow"), std::string::npos);
}

TEST(file, no_changed_byte_is_taken_for_more_than_there_is) {
  const std::string whole = encoded(sample());
  for (std::size_t n = 0; n < whole.size(); n++)
    for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
      std::string changed = whole;
      changed[n] = static_cast<char>(value);
      refusal(changed);  // may be valid; must neither crash nor take much memory
    }
}

TEST(file, defects) {
  EXPECT_NE(refusal("").find("no recording"), std::string::npos);
  EXPECT_NE(refusal("usherrec\x01").find("its version is 1"), std::string::npos);
  EXPECT_NE(refusal("usherrec\x03").find("its version is 3"), std::string::npos);
  recording r = sample();
  const auto of_first = [&r](const event& e) {
    recording changed = r;
    changed.windows[0].streams[0].events[0] = e;
    return refusal(encoded(changed));
  };
  EXPECT_NE(of_first({verb::lock, 8, 0, 0, 0, 0}).find("object 8 of 8"), std::string::npos);
  EXPECT_NE(of_first({verb::lock, 1, 0, 0, 0, 0}).find("does not fit the kind"), std::string::npos);
  EXPECT_NE(of_first({verb::wait, 1, 2, 0, 0, 0}).find("wait's mutex is object 2"), std::string::npos);
  EXPECT_NE(of_first({verb::wait, 1, 99, 0, 0, 0}).find("mutex 99 of 8"), std::string::npos);
  EXPECT_NE(of_first({verb::lock, 0, 0, ~std::uint64_t{0}, 0, 0}).find("work"), std::string::npos);
  EXPECT_NE(of_first({verb::lock, 0, 0, 0, 0, ~std::uint64_t{0}}).find("wait"), std::string::npos);
  EXPECT_NE(of_first({verb::lock, 0, 0, 0, 0, 0, std::uint64_t{1} << 39}).find("time aside"), std::string::npos);
  r.windows[0].streams[1].thread = 7;
  EXPECT_NE(refusal(encoded(r)).find("two streams of thread 7"), std::string::npos);
  r = sample();
  r.machine.call_ns = -1;
  EXPECT_NE(refusal(encoded(r)).find("cost of a call"), std::string::npos);
  r.machine.call_ns = 0;
  r.machine.between_ns = 2e9;
  EXPECT_NE(refusal(encoded(r)).find("cost between calls"), std::string::npos);
  // A huge count is refused before memory is reserved for it.
  EXPECT_NE(refusal(std::string("usherrec\x02\x02") + std::string(3, '\0') + std::string(32, '\0') + "\xff\xff\xff\x01")
                .find("number of objects"),
            std::string::npos);
}

TEST(file, on_disk) {
  char folder[] = "/tmp/usher-recording-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::filesystem::path name = std::filesystem::path(folder) / "recording",
                              other = std::filesystem::path(folder) / "other";
  std::ofstream(other) << "mine";
  write_recording(sample(), name);
  EXPECT_EQ(encoded(read_recording(name)), encoded(sample()));
  try {
    read_recording(other);
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find(other.string() + ": it is no recording"), std::string::npos);
  }
  EXPECT_THROW(read_recording(std::filesystem::path(folder) / "none"), std::runtime_error);
  EXPECT_THROW(read_recording(folder), std::runtime_error);
  EXPECT_THROW(read_recording("/dev/zero"), std::runtime_error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace usher::recording
