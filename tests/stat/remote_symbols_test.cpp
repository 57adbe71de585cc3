// Tests the lookup of names in a confined child process. The test plays the attackers: a child that an attacker has
// taken over, files that crash or block their reader, and a recorded program with another root directory or other user
// ids.
#include "watch/reader/name/remote_symbols.hpp"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <link.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "symbols_library.hpp"
#include "synthetic.hpp"
#include "watch/reader/name/confinement.hpp"
#include "watch/reader/name/name_messages.hpp"

using namespace usher::reader;
namespace contract = usher::contract;
namespace fs = std::filesystem;

extern "C" void* hostile_call(void* (*f)());

namespace {

constexpr unsigned stranger = 12345;  // a user without an account, files or rights

[[gnu::noinline]] void* who_calls() {
  return __builtin_return_address(0);
}
std::uint64_t address(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}
std::uint64_t call_in_library() {
  return address(planted::exported(who_calls).return_address);
}
constexpr const char* name_in_library = "planted::exported(void* (*)())";

/// A record that contains the executable mappings of this process. `change` may replace the paths of the mapped files.
class own_modules {
 public:
  explicit own_modules(const std::function<void(std::string& path)>& change = [](std::string&) {}) : own_(room()) {
    auto each = [&](const dl_phdr_info& m) {
      std::string path = m.dlpi_name;
      if (path.empty() && m.dlpi_addr != 0) path = fs::read_symlink("/proc/self/exe");
      if (!path.starts_with('/')) return;
      std::uint64_t begin = ~std::uint64_t{0}, end = 0;
      for (int i = 0; i < m.dlpi_phnum; i++) {
        const auto& p = m.dlpi_phdr[i];
        if (p.p_type != PT_LOAD) continue;
        begin = std::min(begin, m.dlpi_addr + p.p_vaddr / 4096 * 4096);
        end = std::max(end, m.dlpi_addr + p.p_vaddr + p.p_memsz);
      }
      change(path);
      add(begin, end, m.dlpi_addr, path);
    };
    dl_iterate_phdr(
        [](dl_phdr_info* m, std::size_t, void* f) {
          (*static_cast<decltype(each)*>(f))(*m);
          return 0;
        },
        &each);
  }
  void add(std::uint64_t begin, std::uint64_t end, std::uint64_t bias, const std::string& path) {
    usher::contract::module_slot& slot = view().module(view().head().modules.fetch_add(1));
    slot.process = 0;
    slot.begin = begin;
    slot.end = end;
    slot.bias = bias;
    slot.identity = 0;  // unknown: any file of that path is accepted
    slot.path_length = static_cast<std::uint32_t>(path.size());
    slot.path = view().head().text.fetch_add(slot.path_length);
    std::memcpy(view().text() + slot.path, path.data(), path.size());
    slot.ready = 1;
  }
  usher::contract::view view() const { return own_.view; }

 private:
  static usher::contract::capacities room() {
    usher::contract::capacities c = synthetic::small();
    c.modules = 256;
    c.text = 1 << 16;
    return c;
  }
  synthetic own_;
};

/// Returns a function that replaces the path of the test's library with `path`.
std::function<void(std::string&)> as_file(std::string path) {
  return [path](std::string& p) {
    if (p == STAT_TEST_LIBRARY) p = path;
  };
}

/// A folder that all users may enter.
class folder {
 public:
  folder() {
    char name[] = "/tmp/usher-names-XXXXXX";
    path = mkdtemp(name);
    chmod(name, 0755);
  }
  ~folder() {
    std::error_code none;
    fs::remove_all(path, none);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  fs::path path;
};

std::shared_ptr<name_budget> short_budget() {
  auto b = std::make_shared<name_budget>();
  b->seconds_a_file = 0.05;
  return b;
}

std::string all_of(const std::vector<std::string>& remarks) {
  std::string all;
  for (const std::string& one : remarks) all += one + "\n";
  return all;
}

std::string content(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the fields of /proc/PID/status.
std::map<std::string, std::string> status_of(pid_t pid) {
  std::map<std::string, std::string> fields;
  std::istringstream in(content("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    const auto value = line.find_first_not_of(" \t", colon + 1);
    fields[line.substr(0, colon)] = value == std::string::npos ? "" : line.substr(value);
  }
  return fields;
}

/// A child process that runs `prepare` and then sleeps until it is killed, by end() or the destructor.
class target {
 public:
  explicit target(const std::function<bool()>& prepare) {
    int ready[2];
    if (pipe(ready) != 0) return;
    pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char good = prepare() ? 'y' : 'n';
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      prctl(PR_SET_DUMPABLE, 1);
      if (write(ready[1], &good, 1) == 1)
        for (;;) pause();
      _exit(1);
    }
    close(ready[1]);
    char good = 'n';
    is_ready = read(ready[0], &good, 1) == 1 && good == 'y';
    close(ready[0]);
  }
  ~target() { end(); }
  void end() {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = -1;
  }
  target(const target&) = delete;
  target& operator=(const target&) = delete;
  pid_t pid = -1;
  bool is_ready = false;
};

bool become_stranger() {
  return setgroups(0, nullptr) == 0 && setresgid(stranger, stranger, stranger) == 0 &&
         setresuid(stranger, stranger, stranger) == 0;
}

bool is_root() {
  return geteuid() == 0 && status_of(getpid())["CapEff"].find("1f") != std::string::npos;
}
#define ONLY_AS_ROOT() \
  if (!is_root()) GTEST_SKIP() << "this test needs root"

/// Runs the body in a child process, which may become another user, and reports its failures.
void in_child(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

stack names_in(const own_modules& r, const process_place& place, std::uint64_t call, std::string* remarks = nullptr,
               std::shared_ptr<name_budget> budget = std::make_shared<name_budget>()) {
  remote_symbols names(r.view(), {}, place, std::move(budget));
  stack s = names.resolve(0, call);
  if (remarks != nullptr) *remarks = all_of(names.remarks());
  return s;
}
std::string function_in(const own_modules& r, const process_place& place) {
  return names_in(r, place, call_in_library()).frames.at(0).function;
}

// ---- messages -------------------------------------------------------------------------------------------------------

answer a_full_answer() {
  answer a;
  for (int i = 0; i < 3; i++) a.frames.push_back(frame_of("f" + std::to_string(i), "dir/file.cpp", 7u + unsigned(i)));
  a.frames[0].is_inlined = true;
  a.frames[2].offset = 0x1234;
  return a;
}
std::string payload_of(std::string message) {
  return message.substr(sizeof(message_head));
}

TEST(name_messages, are_the_same_after_the_way) {
  const answer a = a_full_answer();
  const auto b = decode(query::what::code, payload_of(encode(query::what::code, a)));
  ASSERT_TRUE(b);
  ASSERT_EQ(b->frames.size(), 3u);
  EXPECT_EQ(b->frames[1].function, "f1");
  EXPECT_EQ(b->frames[1].file, "dir/file.cpp");
  EXPECT_EQ(b->frames[1].line, 8u);
  EXPECT_TRUE(b->frames[0].is_inlined);
  EXPECT_EQ(b->frames[2].offset, 0x1234u);
  answer data;
  data.object = symbols::static_object{"object", 8, 40, "/lib/x.so", 0x999};
  const auto o = decode(query::what::data, payload_of(encode(query::what::data, data)));
  ASSERT_TRUE(o && o->object);
  EXPECT_EQ(o->object->symbol + o->object->module, "object/lib/x.so");
  EXPECT_EQ(o->object->offset + o->object->size + o->object->module_offset, 48u + 0x999);
  const auto none = decode(query::what::data, payload_of(encode(query::what::data, {})));
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->object);
  EXPECT_EQ(decode_text(payload_of(encode_text(message_kind::entered, "/x"))), "/x");
}

TEST(name_messages, are_whole_or_rejected) {
  const std::string good = payload_of(encode(query::what::code, a_full_answer()));
  for (std::size_t n = 0; n < good.size(); n++) EXPECT_FALSE(decode(query::what::code, good.substr(0, n))) << n;
  EXPECT_FALSE(decode(query::what::code, good + "x"));
  // If any one byte is replaced, decoding must not crash, and a message that is accepted must be within the limits.
  for (std::size_t i = 0; i < good.size(); i++) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string changed = good;
      changed[i] = static_cast<char>(value);
      for (const auto kind : {query::what::code, query::what::data})
        EXPECT_LE(decode(kind, changed).value_or(answer{}).frames.size(), most_frames);
      EXPECT_LE(decode_text(changed).value_or("").size(), longest_text);
    }
  }
}

TEST(name_messages, long_names_are_cut) {
  answer a;
  for (int i = 0; i < 1000; i++) a.frames.push_back(frame_of(std::string(100000, 'x'), std::string(100000, 'y'), 1));
  const std::string message = encode(query::what::code, a);
  EXPECT_LE(message.size(), sizeof(message_head) + longest_message);
  const auto b = decode(query::what::code, payload_of(message));
  ASSERT_TRUE(b);
  EXPECT_EQ(b->frames[0].function.size(), longest_text);
}

// ---- a child that was taken over ------------------------------------------------------------------------------------

void say(int channel, std::string_view bytes) {
  if (write(channel, bytes.data(), bytes.size()) < 0) _exit(1);
}
void hear(int channel) {
  char some[4096];
  if (read(channel, some, sizeof some) < 0) _exit(1);
}
std::string head_of(std::uint32_t length, message_kind kind) {
  const message_head h{length, kind};
  return {reinterpret_cast<const char*>(&h), sizeof h};
}

/// Expects that an observer shows only modules and offsets, a remark, and no names if `child`, which an attacker
/// controls, replaces the reader of names. The observer must not wait long.
void expect_only_offsets(const char* what, const std::function<void(int)>& child) {
  SCOPED_TRACE(what);
  const own_modules r;
  const auto begin = std::chrono::steady_clock::now();
  remote_symbols names(r.view(), {}, process_place::own(), short_budget(), child);
  const stack s = names.resolve(0, call_in_library());
  EXPECT_FALSE(names.object_at(0, address(&planted::exported_data)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(300));
  ASSERT_EQ(s.frames.size(), 1u);
  EXPECT_EQ(s.frames[0].function, "");
  EXPECT_EQ(s.frames[0].module, STAT_TEST_LIBRARY);
  EXPECT_NE(s.frames[0].offset, 0u);
  EXPECT_EQ(s.frames[0].address, call_in_library() - 1);
  EXPECT_NE(all_of(names.remarks()), "");
}

TEST(remote_symbols, a_child_that_sends_nonsense_or_nothing) {
  const std::string ready = encode_text(message_kind::ready, ""), code = encode(query::what::code, a_full_answer());
  const auto answering = [&](std::string bytes) {
    return [=](int channel) {
      say(channel, ready);
      hear(channel);
      say(channel, bytes);
      for (;;) pause();
    };
  };
  expect_only_offsets("ends at once", [](int) {});
  expect_only_offsets("is killed", [](int) { raise(SIGKILL); });
  expect_only_offsets("is silent", [](int) {
    for (;;) pause();
  });
  expect_only_offsets("garbage", [](int channel) { say(channel, std::string(100000, '\xa5')); });
  expect_only_offsets("ends after the question", [&](int channel) {
    say(channel, ready);
    hear(channel);
  });
  expect_only_offsets("silent after the question", answering(""));
  expect_only_offsets("huge length", answering(head_of(~0u, message_kind::code)));
  expect_only_offsets("too long", answering(head_of(longest_message + 1, message_kind::code)));
  answer one;
  one.frames.push_back(frame_of(std::string(longest_text, 'x'), std::string(longest_text, 'y'), 1));
  const std::string one_frame = payload_of(encode(query::what::code, one)).substr(sizeof(std::uint32_t));
  const std::uint32_t count = most_frames;
  std::string frames(reinterpret_cast<const char*>(&count), sizeof count);
  while (frames.size() <= longest_message) frames += one_frame;
  for (std::uint32_t n = 1; n <= most_frames; n++) {
    if (sizeof n + n * one_frame.size() == frames.size()) std::memcpy(frames.data(), &n, sizeof n);
  }
  ASSERT_TRUE(decode(query::what::code, frames));
  expect_only_offsets("too long, but correct",
                      answering(head_of(std::uint32_t(frames.size()), message_kind::code) + frames));
  expect_only_offsets("longer than its content", answering(head_of(longest_message, message_kind::code) + "x"));
  expect_only_offsets("cut", answering(head_of(10, message_kind::code) + payload_of(code).substr(0, 10)));
  expect_only_offsets("another answer", answering(encode(query::what::data, {})));
  expect_only_offsets("unknown kind", answering(head_of(0, message_kind(77))));
  expect_only_offsets("no end of announcements", [&](int channel) {
    say(channel, ready);
    hear(channel);
    for (int i = 0;; i++) say(channel, encode_text(message_kind::entered, std::to_string(i % 3)));
  });
  expect_only_offsets("always another file", [&](int channel) {
    say(channel, ready);
    hear(channel);
    say(channel, encode_text(message_kind::entered, std::to_string(getpid())));
    _exit(1);
  });
  expect_only_offsets("refuses", [](int channel) { say(channel, encode_text(message_kind::ready, "no right")); });
}

// The child may send a very long name for one address. The name is copied into many stacks; without a limit the copies
// would fill the observer's memory.
TEST(remote_symbols, what_is_handed_out_is_limited) {
  const own_modules r;
  auto budget = std::make_shared<name_budget>();
  budget->bytes_handed_out = 10000;
  remote_symbols names(r.view(), {}, process_place::own(), budget);
  stack s;
  for (int i = 0; i < 1000; i++) s = names.resolve(0, call_in_library());
  ASSERT_EQ(s.frames.size(), 1u);
  EXPECT_EQ(s.frames[0].function + s.frames[0].module, "");
  EXPECT_EQ(s.frames[0].address, call_in_library() - 1);
  EXPECT_NE(all_of(names.remarks()).find("too long"), std::string::npos);
}

// ---- crafted files --------------------------------------------------------------------------------------------------

TEST(remote_symbols, are_those_of_symbols) {
  const own_modules r;
  remote_symbols names(r.view(), {}, process_place::own(), std::make_shared<name_budget>());
  symbols here(r.view());
  std::vector<std::uint64_t> code = {call_in_library(), address(planted::by_hidden(who_calls).return_address), 1};
  for (std::uint64_t pc = code[0] - 200; pc < code[0] + 200; pc += 7) code.push_back(pc);
  usher::contract::chain& c = r.view().chain(0);
  c.length = 29;
  c.cut = 1;
  for (std::uint32_t i = 0; i < c.length; i++) c.pc[i] = code[i];
  const stack chain = names.resolve(c), chain_here = here.resolve(c);
  EXPECT_TRUE(chain.is_cut);
  EXPECT_EQ(chain.frames.size(), chain_here.frames.size());
  for (const std::uint64_t pc : code) {
    const stack a = names.resolve(0, pc), b = here.resolve(0, pc);
    ASSERT_EQ(a.frames.size(), b.frames.size());
    for (std::size_t i = 0; i < a.frames.size(); i++) {
      EXPECT_EQ(a.frames[i].function, b.frames[i].function);
      EXPECT_EQ(a.frames[i].file, b.frames[i].file);
      EXPECT_EQ(a.frames[i].module, b.frames[i].module);
      EXPECT_EQ(std::tie(a.frames[i].line, a.frames[i].offset, a.frames[i].address, a.frames[i].is_inlined),
                std::tie(b.frames[i].line, b.frames[i].offset, b.frames[i].address, b.frames[i].is_inlined));
    }
  }
  for (const void* p :
       {static_cast<const void*>(&planted::exported_data[1]), static_cast<const void*>(planted::hidden_data())}) {
    const auto a = names.object_at(0, address(p)), b = here.object_at(0, address(p));
    ASSERT_TRUE(a && b);
    EXPECT_EQ(std::tie(a->symbol, a->module, a->offset, a->size, a->module_offset),
              std::tie(b->symbol, b->module, b->offset, b->size, b->module_offset));
  }
  EXPECT_FALSE(names.object_at(0, 1));
  EXPECT_EQ(all_of(names.remarks()), "");
}

TEST(remote_symbols, a_file_that_crashes_its_reader_costs_its_own_names_only) {
  const own_modules r;
  remote_symbols names(r.view(), {}, process_place::own(), std::make_shared<name_budget>());
  const std::uint64_t hostile = address(hostile_call(who_calls));
  const query both[] = {{query::what::code, 0, hostile}, {query::what::code, 0, call_in_library()}};
  names.prepare(both);
  const frame f = names.resolve(0, hostile).frames.at(0);
  EXPECT_EQ(f.function, "");
  EXPECT_EQ(f.module, STAT_TEST_HOSTILE);
  EXPECT_NE(f.offset, 0u);
  EXPECT_EQ(names.resolve(0, call_in_library()).frames.at(0).function, name_in_library);
  EXPECT_NE(all_of(names.remarks()).find(STAT_TEST_HOSTILE " are missing"), std::string::npos);
}

// A file of debug information may be a pipe. elfutils, the library that reads it, opens the pipe and waits for ever.
TEST(remote_symbols, a_file_that_blocks_its_reader_costs_its_own_names_only) {
  const folder f;
  const std::string library = f.path / "liblinked.so";
  fs::copy_file(STAT_TEST_LINKED, library);
  ASSERT_EQ(mkfifo((f.path / "liblinked.debug").c_str(), 0644), 0);
  const own_modules r(as_file(library));
  const auto budget = short_budget();
  remote_symbols names(r.view(), {}, process_place::own(), budget);
  const frame blocked = names.resolve(0, call_in_library()).frames.at(0);
  budget->seconds_a_file = 20;
  EXPECT_EQ(blocked.function, "");
  EXPECT_EQ(blocked.module, library);
  EXPECT_NE(all_of(names.remarks()).find(library), std::string::npos);
  EXPECT_EQ(all_of(names.remarks()).find("repeatedly"), std::string::npos);
  EXPECT_NE(names.resolve(0, reinterpret_cast<std::uintptr_t>(&say) + 1).frames.at(0).function, "");
}

TEST(remote_symbols, pipes_and_devices_are_no_modules) {
  const folder f;
  const std::string pipe = f.path / "pipe.so";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0644), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), std::string("/dev/tty"), f.path.string()}) {
    const own_modules r(as_file(path));
    std::string remarks;
    const stack s = names_in(r, process_place::own(), call_in_library(), &remarks);
    EXPECT_EQ(s.frames.at(0).module, path);
    EXPECT_EQ(s.frames.at(0).function + remarks, "");
  }
}

// ---- what the child may do ------------------------------------------------------------------------------------------

void expect_no_rights(pid_t child, unsigned id) {
  auto status = status_of(child);
  const std::string one = std::to_string(id), four = one + "\t" + one + "\t" + one + "\t" + one;
  EXPECT_EQ(status["Uid"], four);
  EXPECT_EQ(status["Gid"], four);
  EXPECT_EQ(status["Groups"], "");
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    EXPECT_EQ(status[set], "0000000000000000") << set;
  EXPECT_EQ(status["NoNewPrivs"], "1");
  EXPECT_EQ(status["Seccomp"], "2");
  const std::string files = "/proc/" + std::to_string(child);
  struct ::stat owner {};
  EXPECT_EQ(stat((files + "/environ").c_str(), &owner), 0);
  EXPECT_EQ(owner.st_uid, 0u);  // not dumpable: processes of the target's user must not be able to read it
  EXPECT_EQ(content(files + "/environ").find('='), std::string::npos);
  EXPECT_NE(content(files + "/limits").find("Max file size             0                    0"), std::string::npos);
  const std::string program = fs::read_symlink("/proc/self/exe");
  for (const auto& fd : fs::directory_iterator(files + "/fd")) {
    const std::string to = fs::read_symlink(fd).string();
    EXPECT_TRUE(to == "/dev/null" || to == program || to.starts_with("socket:") || to.ends_with("/maps") ||
                to.ends_with(".so") || to.find(".so.") != std::string::npos || to.ends_with(".debug"))
        << to;
  }
}

TEST(remote_symbols, the_child_has_no_rights) {
  ONLY_AS_ROOT();
  in_child([] {
    const gid_t groups[] = {0, stranger + 7};
    ASSERT_EQ(setgroups(2, groups), 0);
    const int left_open = open("/etc/passwd", O_RDONLY);  // opened without O_CLOEXEC
    ASSERT_GE(left_open, 0);
    const own_modules r;
    process_place place = process_place::own();
    place.reads_all = false;
    for (const unsigned id : {0u, stranger}) {
      place.uid = place.gid = place.uid_inside = place.gid_inside = id;
      remote_symbols names(r.view(), {}, place, std::make_shared<name_budget>());
      names.resolve(0, call_in_library());
      ASSERT_EQ(names.children().size(), 1u);
      expect_no_rights(names.children()[0], id);
    }
  });
}

// A crafted file may take over the child. With root's user id, the child could change root's files even without
// capabilities.
TEST(remote_symbols, the_child_can_do_nothing_but_read) {
  const folder f;
  const std::string file = f.path / "file";
  std::ofstream(file) << "content";
  target other([] { return true; });
  const std::vector<std::function<bool()>> attempts = {
      [&] { return open(file.c_str(), O_RDONLY) < 0; },  // this is permitted
      [&] { return open(file.c_str(), O_WRONLY) >= 0; },
      [&] { return open(file.c_str(), O_RDONLY | O_TRUNC) >= 0; },
      [&] { return open((file + ".new").c_str(), O_RDONLY | O_CREAT, 0600) >= 0; },
      [&] { return unlink(file.c_str()) == 0 || rename(file.c_str(), "/tmp/x") == 0 || chmod(file.c_str(), 0) == 0; },
      [&] { return kill(other.pid, SIGTERM) == 0; },
      [&] { return ptrace(PTRACE_SEIZE, other.pid, nullptr, nullptr) == 0; },
      [] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; },
      [] { return fork() >= 0; },
      [] { return execl("/bin/true", "true", nullptr) == 0; },
      [] { return mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED; },
      [] { return setresuid(0, 0, 0) == 0 || prctl(PR_SET_DUMPABLE, 1) == 0; },
      [] { return write(STDERR_FILENO, "x", 1) == 1; },
  };
  for (std::size_t i = 0; i < attempts.size(); i++) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
      process_place place = process_place::own();
      place.reads_all = false;
      if (!confine(place, ends[1], {}, parent).empty()) _exit(2);
      _exit(attempts[i]() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "attempt " << i;
    close(ends[0]);
    close(ends[1]);
  }
  EXPECT_EQ(content(file), "content");
}

// A file may be unreadable for other users. The child process may read it if the recorded program runs as the file's
// owner, or may read all files.
TEST(remote_symbols, the_child_may_read_what_the_program_may) {
  ONLY_AS_ROOT();
  const folder f;
  const fs::path closed = f.path / "closed";
  fs::create_directory(closed);
  fs::copy_file(STAT_TEST_LIBRARY, closed / "lib.so");
  for (const fs::path& p : {closed, closed / "lib.so"}) ASSERT_EQ(lchown(p.c_str(), stranger, stranger), 0);
  chmod(closed.c_str(), 0700);
  const own_modules r(as_file(closed / "lib.so"));
  EXPECT_EQ(function_in(r, process_place::own()), name_in_library);
  process_place as_stranger = process_place::own();
  as_stranger.uid = as_stranger.gid = stranger;
  as_stranger.reads_all = false;
  EXPECT_EQ(function_in(r, as_stranger), name_in_library);
  as_stranger.uid = as_stranger.gid = stranger + 1;
  std::string remarks;
  EXPECT_EQ(names_in(r, as_stranger, call_in_library(), &remarks).frames.at(0).function, "");
  EXPECT_NE(remarks.find("may not read it"), std::string::npos) << remarks;
}

// ---- places ---------------------------------------------------------------------------------------------------------

TEST(process_place, of_this_process_is_its_own) {
  const process_place here = place_of(getpid());
  EXPECT_EQ(here.refusal, "");
  EXPECT_EQ(here.key(), process_place::own().key());
  EXPECT_NE(place_of(1 << 30).refusal, "");
}

/// A root directory with the library at /inside/libplanted.so. /inside/secret.so is a symbolic link to a path at which
/// only the outer root has a file. The link must not lead to that file.
class other_root {
 public:
  other_root() {
    fs::create_directories(root() / "inside");
    fs::copy_file(STAT_TEST_LIBRARY, root() / "inside/libplanted.so");
    fs::copy_file(STAT_TEST_LIBRARY, secret());
    chmod(secret().c_str(), 0600);
    fs::create_symlink(secret(), root() / "inside/secret.so");
    fs::create_symlink("../../../../../../" + secret().string(), root() / "inside/secret_upwards.so");
    fs::create_symlink("/inside/libplanted.so", root() / "inside/linked.so");
  }
  fs::path root() const { return folder_.path / "root"; }
  fs::path secret() const { return folder_.path / "secret.so"; }

 private:
  folder folder_;
};

void expect_names_from_inside(const process_place& place, const other_root& o) {
  EXPECT_EQ(place.refusal, "");
  for (const char* path : {"/inside/libplanted.so", "/inside/linked.so"})
    EXPECT_EQ(function_in(own_modules(as_file(path)), place), name_in_library) << path;
  for (const std::string& path : {std::string("/inside/secret.so"), std::string("/inside/secret_upwards.so"),
                                  "/../../.." + o.secret().string(), o.secret().string()})
    EXPECT_EQ(function_in(own_modules(as_file(path)), place), "") << path;
}

TEST(process_place, of_a_program_in_a_chroot) {
  ONLY_AS_ROOT();
  const other_root o;
  for (const bool is_stranger : {true, false}) {
    target t([&] { return chroot(o.root().c_str()) == 0 && chdir("/") == 0 && (!is_stranger || become_stranger()); });
    ASSERT_TRUE(t.is_ready);
    const process_place place = place_of(t.pid);
    EXPECT_EQ(place.uid, is_stranger ? stranger : 0u);
    EXPECT_EQ(place.reads_all, !is_stranger);
    expect_names_from_inside(place, o);
    t.end();
    expect_names_from_inside(place, o);
  }
}

bool mount_over(const fs::path& from, const fs::path& to) {
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

// A process_place gives access to the files in a process's mount namespace, also after the process has ended.
TEST(process_place, of_a_program_in_a_mount_namespace) {
  ONLY_AS_ROOT();
  const other_root o;
  const folder place_to_mount;
  const std::string path = place_to_mount.path / "inside/libplanted.so";
  target t([&] { return unshare(CLONE_NEWNS) == 0 && mount_over(o.root(), place_to_mount.path) && become_stranger(); });
  ASSERT_TRUE(t.is_ready);
  const process_place place = place_of(t.pid);
  EXPECT_TRUE(place.root && place.mount_namespace && !place.user_namespace);
  const own_modules r(as_file(path));
  EXPECT_EQ(function_in(r, process_place::own()), "");
  EXPECT_EQ(function_in(r, place), name_in_library);
  t.end();
  EXPECT_EQ(function_in(r, place), name_in_library);
  EXPECT_EQ(function_in(own_modules(as_file(o.secret())), place), "");
}

/// Enters new user and mount namespaces in which this process is root, like `unshare --user --map-root-user --mount`.
bool become_root_of_a_namespace() {
  if (!become_stranger() || prctl(PR_SET_DUMPABLE, 1) != 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << stranger << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << stranger << " 1";
  return setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0;
}

TEST(process_place, of_a_program_in_a_user_namespace) {
  ONLY_AS_ROOT();
  const other_root o;
  target t([&] {
    return become_root_of_a_namespace() && mount_over(o.root(), o.root()) && chroot(o.root().c_str()) == 0 &&
           chdir("/") == 0;
  });
  if (!t.is_ready) GTEST_SKIP() << "no user namespaces here";
  const process_place place = place_of(t.pid);
  EXPECT_EQ(place.uid, stranger);
  EXPECT_EQ(place.uid_inside, 0u);
  EXPECT_TRUE(place.root && place.user_namespace);
  EXPECT_FALSE(place.reads_all);  // root in its own namespace only
  expect_names_from_inside(place, o);
  // An observer that runs as the program's user, not as root, gets the same names.
  in_child([&] {
    ASSERT_TRUE(become_stranger());
    prctl(PR_SET_DUMPABLE, 1);
    expect_names_from_inside(place_of(t.pid), o);
  });
}

// The program runs as in a sidecar container: the same user, no capabilities, another root directory.
TEST(process_place, of_a_program_of_the_same_user_in_another_root) {
  ONLY_AS_ROOT();
  const other_root o;
  target t([&] { return chroot(o.root().c_str()) == 0 && chdir("/") == 0 && become_stranger(); });
  ASSERT_TRUE(t.is_ready);
  in_child([&] {
    ASSERT_TRUE(become_stranger());
    prctl(PR_SET_DUMPABLE, 1);
    const process_place place = place_of(t.pid);
    std::string remarks;
    names_in(own_modules(as_file("/inside/libplanted.so")), place, call_in_library(), &remarks);
    if (remarks.empty())
      expect_names_from_inside(place, o);
    else
      EXPECT_NE(remarks.find("user namespace"), std::string::npos) << remarks;
  });
}

/// Serves a file system with an empty root. Once `is_silent` is set, the server reads requests and does not answer
/// them. The calls of its clients then block, and no signal ends them.
void serve_files(int fuse, const volatile bool& is_silent) {
  static char request[1 << 18];
  for (;;) {
    if (read(fuse, request, sizeof request) < 0) continue;
    fuse_in_header in;
    std::memcpy(&in, request, sizeof in);
    if (is_silent) continue;
    struct {
      fuse_out_header head;
      union {
        fuse_init_out init;
        fuse_attr_out attributes;
      };
    } out{};
    out.head = {sizeof out.head, 0, in.unique};
    if (in.opcode == FUSE_INIT) {
      out.init.major = FUSE_KERNEL_VERSION;
      out.init.minor = FUSE_KERNEL_MINOR_VERSION;
      out.init.max_write = 4096;
      out.head.len += sizeof out.init;
    } else if (in.opcode == FUSE_GETATTR) {
      out.attributes.attr.ino = 1;
      out.attributes.attr.mode = S_IFDIR | 0755;
      out.attributes.attr.nlink = 2;
      out.head.len += sizeof out.attributes;
    } else {
      out.head.error = -ENOSYS;
    }
    if (write(fuse, &out, out.head.len) < 0) _exit(1);
  }
}

/// Changes this process's root to a file system in user space (FUSE), which then stops answering.
bool enter_silent_root(const fs::path& at) {
  const int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (fuse < 0 || shared == MAP_FAILED || unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return false;
  const std::string options = "fd=" + std::to_string(fuse) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
  if (mount("none", at.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) return false;
  volatile bool& is_silent = *static_cast<volatile bool*>(shared);
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve_files(fuse, is_silent);
  }
  close(fuse);
  if (chroot(at.c_str()) != 0 || chdir("/") != 0) return false;
  is_silent = true;
  return true;
}

TEST(process_place, with_files_that_never_answer) {
  ONLY_AS_ROOT();
  const folder f;
  target t([&] { return enter_silent_root(f.path); });
  if (!t.is_ready) GTEST_SKIP() << "no file systems in user space here";
  const auto begin = std::chrono::steady_clock::now();
  const process_place place = place_of(t.pid);
  std::string remarks;
  const auto budget = short_budget();
  budget->seconds = 0.1;  // for all files together
  const stack s = names_in(own_modules(), place, call_in_library(), &remarks, budget);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(300));
  EXPECT_EQ(s.frames.at(0).module, STAT_TEST_LIBRARY);
  EXPECT_EQ(s.frames.at(0).function, "");
  EXPECT_NE(remarks, "");
}

// An observer without the necessary rights gets a remark. It gets no names: it must not read them from files of a root
// directory other than the program's.
TEST(process_place, without_the_rights_there_are_no_names) {
  ONLY_AS_ROOT();
  const other_root o;
  target t([&] { return chroot(o.root().c_str()) == 0 && chdir("/") == 0 && become_stranger(); });
  ASSERT_TRUE(t.is_ready);
  const process_place place = place_of(t.pid);
  in_child([&] {
    ASSERT_TRUE(setgroups(0, nullptr) == 0 && setresgid(stranger + 1, stranger + 1, stranger + 1) == 0 &&
                setresuid(stranger + 1, stranger + 1, stranger + 1) == 0);
    prctl(PR_SET_DUMPABLE, 1);
    for (const process_place& p : {place, place_of(t.pid)}) {
      std::string remarks;
      const frame f = names_in(own_modules(), p, call_in_library(), &remarks).frames.at(0);
      EXPECT_EQ(f.function, "");
      EXPECT_EQ(f.module, STAT_TEST_LIBRARY);
      EXPECT_NE(remarks.find("usher stat as root"), std::string::npos) << remarks;
    }
  });
}

}  // namespace
