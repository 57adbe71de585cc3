// Tests that an error in a machine file is reported in one line with the file and the key.
#include "lab/sim/machine.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "lab/sim/sha256.hpp"

namespace usher::sim {
namespace {

const std::string folder = USHER_MACHINES;

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class machine_file : public testing::Test {
 protected:
  /// Returns the error message for the file of the machine x5-2, in which `text` is replaced by `instead`.
  std::string complaint(const std::string& text, const std::string& instead) {
    std::string all = text_of(folder + "/x5-2.toml");
    const std::size_t at = all.find(text);
    EXPECT_NE(at, std::string::npos) << text;
    all.replace(at, text.size(), instead);
    const std::string file = testing::TempDir() + "usher-machine-test.toml";
    std::ofstream(file) << all;
    std::string said;
    try {
      read_machine(file);
    } catch (const bad_machine& e) {
      said = e.what();
    }
    std::filesystem::remove(file);
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    if (!said.empty()) {
      EXPECT_NE(said.find("usher-machine-test.toml"), std::string::npos) << said;
    }
    return said;
  }
};

TEST_F(machine_file, all_that_come_with_the_tree_can_be_read) {
  unsigned n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const machine m = read_machine(entry.path());
    EXPECT_FALSE(m.title.empty());
    EXPECT_GT(m.cpus(), 0u);
    n++;
  }
  EXPECT_GE(n, 6u);
}

TEST_F(machine_file, has_what_it_says) {
  const machine m = read_machine(folder + "/x5-2.toml");
  EXPECT_EQ(m.name, "x5-2");
  EXPECT_EQ(m.cpus(), 72u);
  EXPECT_EQ(m.dirty[0], 103u);
  EXPECT_EQ(m.dirty[1], 310u);
  EXPECT_EQ(m.dirty[2], 310u) << "the last entry holds for all greater distances";
  EXPECT_EQ(m.jitter, 307u);
  ASSERT_TRUE(m.os.has_value());
  EXPECT_EQ(m.os->slice, m.from_ns(3000000));
  EXPECT_FALSE(m.caches.has_value());
  EXPECT_EQ(m.step, 9u * 1024) << "the default of a missing key";
  EXPECT_EQ(m.os->wake_queued, 0u);
  EXPECT_EQ(m.os->yields_after, 0u);
  EXPECT_FALSE(m.os->time_sharing);
  EXPECT_EQ(m.os->least_sleep, 0u);
  EXPECT_EQ(m.fitted, (std::vector<std::string>{"coherence.per_sharer", "coherence.per_read"}));
}

TEST_F(machine_file, distances) {
  const machine m = read_machine(folder + "/e7-4890.toml");
  EXPECT_EQ(m.distance(3, 3), 0u);
  EXPECT_EQ(m.distance(2, 3), 1u);
  EXPECT_EQ(m.distance(3, 4), 2u);
}

TEST_F(machine_file, complaints_name_the_key) {
  EXPECT_NE(complaint("hit = { value = 4,", "hit = { value = -4,").find("coherence.hit is negative"),
            std::string::npos);
  EXPECT_NE(complaint("hit = { value = 4,", "hit = { value = 4.5,").find("coherence.hit is not a whole number"),
            std::string::npos);
  EXPECT_NE(complaint("poll_period = {", "glance = {").find("poll_period is missing"), std::string::npos);
  EXPECT_NE(complaint("[hardware_threads]", "[threads]").find("[threads] is not known"), std::string::npos);
  EXPECT_NE(complaint("\"MESIF\"", "\"MESIG\"").find("coherence.protocol"), std::string::npos);
  EXPECT_NE(
      complaint("jitter = { value = 0.3,", "jitter = { value = 11.0,").find("coherence.jitter is not between 0 and 1"),
      std::string::npos);
  EXPECT_NE(complaint("sockets = { value = 2, source = \"TWA (extended) §4\" }", "sockets = { value = 2 }")
                .find("machine.sockets has no source"),
            std::string::npos);
  EXPECT_NE(complaint("sockets = { value = 2, source = \"TWA (extended) §4\" }", "sockets = 2")
                .find("machine.sockets has no source: write {"),
            std::string::npos);
  EXPECT_NE(complaint("dirty = { value = [103, 310],", "dirty = { value = [120],")
                .find("coherence.dirty must list 2 numbers"),
            std::string::npos);
  EXPECT_NE(complaint("sockets = { value = 2,", "sockets = { value = 17,").find("machine.sockets is more than 16"),
            std::string::npos);
  EXPECT_NE(complaint("sockets = { value = 2,", "sockets = { value = 3,").find("machine.hops is missing"),
            std::string::npos)
      << "two latencies say nothing about which sockets are next to each other";
  EXPECT_EQ(complaint("sockets = { value = 2,", "group = { value = 3, source = \"a test\" }\nsockets = { value = 3,"),
            "");
  EXPECT_NE(complaint("[coherence]", "[coherence").find("line"), std::string::npos);
  EXPECT_NE(complaint("jitter = {", "twitter = { value = 1, source = \"none\" }\njitter = {")
                .find("coherence.twitter is not known: did you mean 'jitter'?"),
            std::string::npos);
  EXPECT_NE(complaint("jitter = { value = 0.3,", "jitter = { fited = true, value = 0.3,")
                .find("coherence.jitter has 'fited': only value, source and fitted are known"),
            std::string::npos);
}

/// A machine file may come from an attacker. Each of these texts overflowed the stack or broke an assumption of toml++
/// before such texts were refused.
TEST_F(machine_file, files_that_are_not_parsed) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      read_machine_text(text, "hostile");
    } catch (const bad_machine& e) {
      return e.what();
    }
    return "";
  };
  std::string key = "a";
  for (int i = 0; i < 300'000; i++) key += ".a";
  for (const std::string& text : {key + " = 1\n", "[" + key + "]\n", "a = { " + key + " = 1 }\n"})
    EXPECT_EQ(refusal(text), "hostile: it has more than 4000 dots");
  EXPECT_EQ(refusal(std::string(1 << 20, '#') + "\n"), "hostile: it has more than 1 MiB");
  EXPECT_NE(refusal("a = " + std::string(100'000, '[')).find("hostile: line 1: "), std::string::npos);
  EXPECT_NE(refusal("\n§ = 1\n").find("hostile: line 2: only texts and comments"), std::string::npos);
  EXPECT_NE(refusal("a = \"\"\"x\n§\"\"\"\n").find("texts of several lines"), std::string::npos);
  EXPECT_NE(refusal("[!").find("hostile: "), std::string::npos);
  EXPECT_THROW(read_machine("/dev/zero"), bad_machine);
  EXPECT_THROW(read_machine("/nowhere"), bad_machine);
  // In strings and comments, dots are not counted, and letters beyond ASCII are allowed.
  const std::string dots = "# " + std::string(5000, '.') + "§\n";
  EXPECT_EQ(refusal(dots).find("dots"), std::string::npos);
}

TEST_F(machine_file, numbers_other_than_it_says) {
  const std::string file = folder + "/x5-2.toml";
  const machine m = read_machine(file, {{"coherence.per_read", "0"},
                                        {"coherence.dirty", "[100, 300]"},
                                        {"coherence.jitter", "0.5"},
                                        {"coherence.protocol", "MOESI"},
                                        {"coherence.home", "1"},  // the file does not define it
                                        {"scheduler.migrate", "false"}});
  EXPECT_EQ(m.per_read, 0u);
  EXPECT_EQ(m.dirty[0], 100u);
  EXPECT_EQ(m.dirty[1], 300u);
  EXPECT_EQ(m.jitter, 512u);
  EXPECT_EQ(m.coherence, protocol::moesi);
  EXPECT_EQ(m.home, 1u);
  EXPECT_FALSE(m.os->migrate);
  EXPECT_EQ(m.fitted, std::vector<std::string>{"coherence.per_sharer"}) << "keys that were set by hand are not fitted";
  EXPECT_EQ(read_machine(file, {{"coherence.protocol", "\"MESI\""}}).coherence, protocol::mesi);
}

TEST_F(machine_file, what_is_not_modelled) {
  const std::string file = folder + "/t5.toml";
  EXPECT_EQ(read_machine(file, {{"cache.private_bytes", "0"}}).caches->private_bytes, 0u);
  EXPECT_EQ(read_machine(file, {{"cache.tlb_entries", "0"}}).caches->tlb_entries, 0u);
  const machine one = read_machine(file, {{"hardware_threads.pipelines", "1"},
                                          {"hardware_threads.slowed_by_work", "2.0"},
                                          {"hardware_threads.slowed_by_spin", "1.5"}});
  EXPECT_EQ(one.pipelines, 1u);
  EXPECT_EQ(one.slowed_by_work, 2048u);
}

TEST_F(machine_file, complaints_about_changes) {
  const auto complaint = [](const char* machine, const char* key, const char* value) {
    try {
      read_machine(folder + "/" + machine + ".toml", {{key, value}});
    } catch (const bad_machine& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto expect = [&](const char* machine, const char* key, const char* value, const char* part) {
    const std::string said = complaint(machine, key, value);
    EXPECT_NE(said.find(part), std::string::npos) << key << " = " << value << ": " << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  };
  expect("e7-4890", "coherence.through_homes_socket", "true",
         "coherence.through_homes_socket and through_home exclude each other");
  expect("x5-2", "coherence.per_raed", "0", "coherence.per_raed is not known: did you mean 'per_read'?");
  expect("x5-2", "coherance.per_read", "0", "did you mean 'coherence.per_read'?");
  expect("x5-2", "per_read", "0", "write section.key");
  expect("x5-2", "coherence.per_read", "much", "coherence.per_read is not a whole number");
  expect("x5-2", "coherence.per_read", "-1", "coherence.per_read is negative");
  expect("x5-2", "coherence.per_read", "1 2", "cannot be '1 2': write a number");
  expect("x5-2", "coherence.per_read", "1\nhit = 3", "cannot be of several lines");
  expect("x5-2", "coherence.clean", "50", "must list 2 numbers: same socket, one hop");
  expect("x5-2", "coherence.clean", "[1, 2, 3, 4, 5, 6]", "lists 6 numbers: at most 5");
  expect("x5-2", "coherence.poll_period", "4294967295", "coherence.poll_period is more than 1048576");
  expect("t5", "cache.bytes", "1099511627776", "cache.bytes is more than 8589934592");
  expect("t5", "cache.tlb_entries", "4294967295", "cache.tlb_entries is more than 1048576");
  expect("t5", "hardware_threads.slowed_by_work", "2.0",
         "hardware_threads.slowed_by_work has no effect: hardware_threads.pipelines is 2");
  expect("t5", "hardware_threads.pipelines", "1", "hardware_threads.slowed_by_work is missing");
  expect("t5", "scheduler.first_priority", "60", "scheduler.first_priority is more than 59");
  expect("t5", "scheduler.clock_tick", "0", "scheduler.clock_tick is less than 10000");
  expect("x5-2", "scheduler.time_sharing", "true", "scheduler.clock_tick is missing");
  expect("numa-q", "hardware_threads.alone", "1.5",
         "hardware_threads.alone has no effect: a core has one hardware thread");
}

TEST_F(machine_file, that_is_not_there) {
  EXPECT_THROW(read_machine(folder + "/nothing.toml"), bad_machine);
}

TEST(sha256, of_texts_that_fill_blocks_or_nearly) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(std::string(55, 'x')), "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(sha256(std::string(56, 'x')), "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(sha256(std::string(63, 'x')), "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(sha256(std::string(64, 'x')), "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  EXPECT_EQ(sha256(std::string(120, 'x')), "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98");
}

TEST_F(machine_file, has_values_without_sources) {
  const auto values = machine_values(folder + "/x5-2.toml");
  EXPECT_EQ(values.at("coherence.clean"), "[50, 240]");
  EXPECT_EQ(values.at("coherence.protocol"), "\"MESIF\"");
  EXPECT_EQ(values.at("coherence.jitter"), "0.3");
  EXPECT_EQ(values.count("coherence.home"), 0u);
}

}  // namespace
}  // namespace usher::sim
