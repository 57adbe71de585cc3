// Tests the reading of CPUs and caches from folders like /sys/devices/system/cpu, which the tests create.
#include "lab/calibrate/native_machine.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

namespace usher::calibrate {
namespace {

class native_machine_of : public testing::Test {
 protected:
  struct place {
    unsigned package, complex, core;  ///< numbers as the kernel assigns them
  };

  void TearDown() override { std::filesystem::remove_all(root_); }

  static void write(const std::string& file, const std::string& line) {
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file) << line << '\n';
  }
  std::string of_cpu(unsigned cpu) const {
    std::string folder = root_ + "/cpu";
    return folder += std::to_string(cpu);
  }
  void cache(unsigned cpu, unsigned index, unsigned level, const char* type, const char* size, unsigned ways,
             const std::string& shared) {
    const std::string folder = of_cpu(cpu) + "/cache/index" + std::to_string(index);
    write(folder + "/level", std::to_string(level));
    write(folder + "/type", type);
    write(folder + "/size", size);
    write(folder + "/ways_of_associativity", std::to_string(ways));
    write(folder + "/coherency_line_size", "64");
    write(folder + "/shared_cpu_list", shared);
  }
  native_machine machine(unsigned cpus, const std::function<place(unsigned)>& where) {
    std::vector<unsigned> allowed;
    for (unsigned c = 0; c < cpus; c++) {
      allowed.push_back(c);
      const place p = where(c);
      const std::string folder = of_cpu(c) + "/topology";
      std::string siblings, neighbours;
      for (unsigned o = 0; o < cpus; o++) {
        const place q = where(o);
        if (q.package != p.package || q.complex != p.complex) continue;
        neighbours.append(1, ',').append(std::to_string(o));
        if (q.core == p.core) siblings.append(1, ',').append(std::to_string(o));
      }
      write(folder + "/physical_package_id", std::to_string(p.package));
      write(folder + "/core_id", std::to_string(p.core));
      cache(c, 0, 1, "Data", "32K", 8, siblings);
      cache(c, 1, 1, "Instruction", "32K", 8, siblings);
      cache(c, 2, 2, "Unified", "512K", 8, siblings);
      cache(c, 3, 3, "Unified", "32768K", 16, neighbours);
    }
    return look_around(root_, allowed);
  }

  const std::string root_ = testing::TempDir() + "usher-native-machine-test";
};

TEST_F(native_machine_of, two_sockets_with_hardware_threads) {
  // CPUs are numbered as by Linux: first the first hardware threads of all cores, then the second ones.
  const native_machine m = machine(12, [](unsigned c) { return place{c % 6 / 3, 0, c % 3}; });
  EXPECT_EQ(m.sockets, 2u);
  EXPECT_EQ(m.cores, 3u);
  EXPECT_EQ(m.hardware_threads, 2u);
  EXPECT_EQ(m.packages, 2u);
  EXPECT_TRUE(m.even);
  EXPECT_EQ(m.last.bytes, 32u << 20);
  EXPECT_EQ(m.last.ways, 16u);
  EXPECT_EQ(m.own.bytes, 512u << 10);
  const auto near = m.pair_at(0), far = m.pair_at(1);
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(near[0].socket, near[1].socket);
  EXPECT_NE(near[0].core, near[1].core);
  ASSERT_EQ(far.size(), 2u);
  EXPECT_NE(far[0].package, far[1].package);
  EXPECT_TRUE(m.pair_at(2).empty());
  const auto hardware_threads = m.siblings();
  ASSERT_EQ(hardware_threads.size(), 2u);
  EXPECT_EQ(hardware_threads[1].number, hardware_threads[0].number + 6);
}

TEST_F(native_machine_of, packages_of_complexes) {
  const native_machine m = machine(8, [](unsigned c) { return place{c / 4, c / 2, c}; });
  EXPECT_EQ(m.sockets, 4u) << "a complex stands for a socket";
  EXPECT_EQ(m.packages, 2u);
  EXPECT_EQ(m.cores, 2u);
  EXPECT_EQ(m.hardware_threads, 1u);
  EXPECT_TRUE(m.siblings().empty());
  for (const unsigned d : {0u, 1u, 2u}) {
    const auto pair = m.pair_at(d);
    ASSERT_EQ(pair.size(), 2u) << d;
    EXPECT_EQ(m.distance(pair[0], pair[1]), d);
  }
}

TEST_F(native_machine_of, uneven_ones) {
  const native_machine m = machine(5, [](unsigned c) { return place{c / 3, 0, c}; });
  EXPECT_EQ(m.sockets, 2u);
  EXPECT_EQ(m.cores, 3u);
  EXPECT_FALSE(m.even);
}

TEST_F(native_machine_of, which_nothing_is_said) {
  const native_machine m = look_around(root_, {0, 1});
  EXPECT_EQ(m.cpus.size(), 2u);
  EXPECT_EQ(m.sockets, 1u);
  EXPECT_EQ(m.cores, 2u);
  EXPECT_EQ(m.last.bytes, 0u);
}

TEST(native_machine_here, has_the_cpus_of_this_process) {
  const native_machine m = look_around();
  EXPECT_GE(m.cpus.size(), 1u);
  EXPECT_TRUE(pin_to(m.cpus.back().number));
  unpin(m);
}

}  // namespace
}  // namespace usher::calibrate
