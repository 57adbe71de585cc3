// Tests the reader of /proc/PID/stat, also with a process whose name is chosen to mislead the reader.
#include "support/process/stat_line.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "support/process/process_ids.hpp"

namespace usher::support {
namespace {

const std::string fields = " S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 15 16 17 18 99 20\n";

TEST(stat_line, counts_the_fields_as_proc_does) {
  const stat_line line("12 (name)" + fields);
  EXPECT_EQ(line.name(), "name");
  EXPECT_EQ(line.state(), 'S');
  EXPECT_EQ(line.number(4), 1u);
  EXPECT_EQ(line.number(14), 100u);
  EXPECT_EQ(line.number(22), 99u);
  EXPECT_EQ(line.number(23), 20u);
  EXPECT_EQ(line.number(24), std::nullopt);
  EXPECT_EQ(line.number(3), std::nullopt) << "a letter";
}

TEST(stat_line, a_name_may_have_any_bytes) {
  for (const std::string name : {"a) Z (b", ") Z 1 2", "(((", "a\nb) X\n", " ", ""}) {
    const stat_line line("12 (" + name + ")" + fields);
    EXPECT_EQ(line.name(), name);
    EXPECT_EQ(line.state(), 'S') << name;
    EXPECT_EQ(line.number(22), 99u) << name;
  }
}

TEST(stat_line, a_broken_line_has_no_fields) {
  for (const std::string text : {"", "12", "12 (name", "12 name) S 1", ")(", "12 (name)", "12 (name)\n"}) {
    const stat_line line(text);
    EXPECT_EQ(line.state(), '?') << text;
    EXPECT_EQ(line.number(4), std::nullopt) << text;
  }
  EXPECT_EQ(stat_line("12 (a) S -1 18446744073709551616 1x").number(4), std::nullopt);
  EXPECT_EQ(stat_line("12 (a) S -1 18446744073709551616 1x").number(5), std::nullopt);
  EXPECT_EQ(stat_line("12 (a) S -1 18446744073709551616 1x").number(6), std::nullopt);
}

// The attacker is a live process whose name looks like the fields of a process that has ended.
TEST(stat_line, a_living_process_cannot_look_ended) {
  for (const char* const name : {"x) Z 0 0 0 0", "a\nb", "\n"}) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      prctl(PR_SET_NAME, name);
      const char byte = 'x';
      if (write(ready[1], &byte, 1) != 1) _exit(1);
      for (;;) pause();
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(stat_line::of_process(child).name(), name);
    EXPECT_NE(std::string("RS").find(stat_line::of_thread(child, child).state()), std::string::npos) << name;
    EXPECT_EQ(stat_line::of_process(child).number(4), std::uint64_t(getpid())) << name;
    const auto process = read_process(child);
    ASSERT_TRUE(process) << name;
    EXPECT_FALSE(process->has_ended());
    EXPECT_EQ(process->threads, 1);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(stat_line::of_process(child).state(), '?') << "it has ended";
    close(ready[0]);
    close(ready[1]);
  }
}

}  // namespace
}  // namespace usher::support
