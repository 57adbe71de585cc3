// Locks between processes, for C++ programs: a region of shared memory, and mutexes in it.
//
//     struct account { usher::shared_mutex_in<usher::mcsg> lock; long balance; };        // zero bytes: a free lock
//
//     int fd = shm_open("/bank", O_RDWR | O_CREAT | O_EXCL, 0600);                       // or memfd_create(), or a file
//     auto region = usher::shared_region<>::create(fd, sizeof(account));                 // one process
//     auto region = usher::shared_region<>::join(shm_open("/bank", O_RDWR, 0));          // all others
//     auto& a = region.at<account>(0);
//     { const std::lock_guard guard(a.lock); a.balance += 10; }
//
// The region may be mapped at another address in each process: it contains no pointers. The program's data begins as
// zero bytes, which are free locks. `create` takes a function that prepares the data before other processes may join.
//
// A region can hold the locks whose waiters wait only on words of the lock and of queue nodes, with every way of
// waiting: mcs, mcsg, mcsg+, mcsg++, clh, k42 and their -tls forms, the cohorts; tas, ttas, ticket, futex and others. A
// lock that uses an array of the process (the TWA family) does not compile.
//
// create() and join() throw std::system_error; the codes (std::errc):
//     file_exists                      create: the file is not empty
//     resource_unavailable_try_again   join: the region is still being created
//     invalid_argument                 join: the file is no region, or one of another layout or version of Usher
//     no_buffer_space                  join: 255 living processes have joined
//     device_or_resource_busy          this process has joined a region of this `Name` already
//     file_too_large                   create: no file can be so large
//     not_enough_memory                create: the file is in memory (memfd, tmpfs), and not enough memory is available
//     and the errors of ftruncate, posix_fallocate, fstat, pread and mmap. create() reserves all memory, so that
//     no access fails later. If create() or its `prepare` throws, the file is emptied: create() may be called again.
// The file descriptor may be closed after create() or join().
//
// The destructor of shared_region leaves the region. At that time no thread of the process may hold a lock of the
// region, wait for one or try to lock one. Other threads that have used a -tls lock should have ended: the region loses
// the node that each of them has cached. The region itself is removed with its file.
//
// fork: the child has joined, too, at the same address. It takes nodes of its own when it first locks. It does not hold
// the locks that its parent holds. exec: the new program must join again.
//
// If a process dies, or ends by _exit or exec without leaving, its free nodes are given to processes that join later.
// If one of its threads held a lock or waited for one, that lock stays locked for ever, like any mutex that is not
// robust; no error is reported. lost() counts such processes. After such an end the only safe way is a new region. The
// nodes that the process had in use stay in use: one for each lock that a thread held or waited for, or, with a -tls
// lock, had used. A process that can write to the region can break every lock in it.
//
// A process has at most 1088 nodes at a time. If no node is free, a thread locks without a node (as a *guest*) if the
// lock allows it; otherwise it tries again every millisecond.
//
// Processes that share a region must be in one PID namespace and should have a /proc; without /proc the nodes of dead
// processes may stay taken.
#pragma once

#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstddef>
#include <limits>
#include <new>
#include <system_error>

#include "usher/core/lockable.hpp"
#include "usher/core/waiting.hpp"
#include "usher/platform/shared_memory.hpp"

namespace usher::inline v2 {

namespace shared_memory_detail {

inline bool is_in_memory(int fd) {
  struct statfs s;
  constexpr auto tmpfs = 0x01021994u, ramfs = 0x858458f6u;
  return fstatfs(fd, &s) == 0 && (std::uint32_t(s.f_type) == tmpfs || std::uint32_t(s.f_type) == ramfs);
}

/// The available memory and free swap space, in bytes; the largest number if they are not known.
inline std::uint64_t available_memory() {
  char text[4096];
  if (read_proc("/proc/meminfo", text, sizeof text) <= 0) return ~std::uint64_t{0};
  const auto kib = [&text](const char* field) {
    const char* const at = std::strstr(text, field);
    return at != nullptr ? strtoull(at + std::strlen(field), nullptr, 10) : 0;
  };
  const std::uint64_t memory = kib("\nMemAvailable:");
  return memory != 0 ? (memory + kib("\nSwapFree:")) * 1024 : ~std::uint64_t{0};
}

}  // namespace shared_memory_detail

template <class Name = void>
class shared_region {
  using memory = shared_memory<Name>;
  using layout = shared_memory_detail::layout;

 public:
  /// Creates a region in an empty file, and joins it. `bytes`: the size of the program's data. `prepare(address)` is
  /// called before other processes may join.
  template <class Prepare>
  static shared_region create(int fd, std::size_t bytes, Prepare prepare) {
    struct stat s;
    if (fstat(fd, &s) != 0) fail(errno, "fstat");
    if (s.st_size != 0) fail(EEXIST, "usher::shared_region: create");
    if (bytes > std::size_t(std::numeric_limits<off_t>::max()) - sizeof(layout) - 4095)
      fail(EFBIG, "usher::shared_region: create");
    const std::size_t size = sizeof(layout) + (bytes + 4095) / 4096 * 4096;
    // Checked before posix_fallocate(), which would take all memory until it fails or the process dies.
    if (shared_memory_detail::is_in_memory(fd) && size > shared_memory_detail::available_memory())
      fail(ENOMEM, "usher::shared_region: create");
    emptied_unless_ready file{fd};  // constructed before `r`, so emptied after `r` has left and unmapped the file
    if (ftruncate(fd, off_t(size)) != 0) fail(errno, "ftruncate");
    if (const int error = posix_fallocate(fd, 0, off_t(size))) fail(error, "posix_fallocate");
    shared_region r(map(fd, size), size);
    auto* l = static_cast<layout*>(r.at_);
    l->bytes = size;
    l->data = sizeof(layout);
    l->nodes_each = shared_memory_detail::nodes_a_share;
    l->shares_in_all = shared_memory_detail::most_shares;
    r.enter();
    prepare(r.data());
    l->ready.store(layout::ready_mark, std::memory_order_release);  // release: pairs with the acquire load in join()
    file.ready = true;
    return r;
  }
  static shared_region create(int fd, std::size_t bytes) {
    return create(fd, bytes, [](void*) {});
  }

  static shared_region join(int fd) {
    struct stat s;
    if (fstat(fd, &s) != 0) fail(errno, "fstat");
    if (s.st_size == 0) fail(EAGAIN, "usher::shared_region: join");
    const auto size = std::size_t(s.st_size);
    if (size < sizeof(layout)) fail(EINVAL, "usher::shared_region: join");
    // The word is read, not mapped: a create() that fails truncates the file, and then access to a mapping raises
    // SIGBUS. A region that is ready is never truncated.
    std::uint64_t ready = 0;
    if (const ssize_t n = pread(fd, &ready, sizeof ready, offsetof(layout, ready)); n < 0) fail(errno, "pread");
    if (ready == 0) fail(EAGAIN, "usher::shared_region: join");
    if (ready != layout::ready_mark) fail(EINVAL, "usher::shared_region: join");
    shared_region r(map(fd, size), size);
    const auto* l = static_cast<const layout*>(r.at_);
    if (l->ready.load(std::memory_order_acquire) != layout::ready_mark || l->bytes != size ||
        l->data != sizeof(layout) || l->nodes_each != shared_memory_detail::nodes_a_share ||
        l->shares_in_all != shared_memory_detail::most_shares)
      fail(EINVAL, "usher::shared_region: join");
    r.enter();
    return r;
  }

  shared_region(shared_region&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), size_(other.size_), joined_(std::exchange(other.joined_, false)) {}
  shared_region& operator=(shared_region&&) = delete;
  ~shared_region() {
    if (joined_) memory::detach();
    if (at_ != nullptr) munmap(at_, size_);
  }

  void* data() const { return static_cast<char*>(at_) + sizeof(layout); }
  std::size_t size() const { return size_ - sizeof(layout); }

  /// An object in the program's data. Zero bytes must be a valid T, unless `prepare` has constructed the object.
  template <class T>
  T& at(std::size_t offset) const {
    return *std::launder(reinterpret_cast<T*>(static_cast<char*>(data()) + offset));
  }

  /// The number of processes that ended without leaving and whose places are still taken. A process is not counted if
  /// no free file descriptor is left to find out whether it has ended.
  unsigned lost() const {
    const int saved = errno;
    unsigned n = 0;
    for (const auto& s : static_cast<const layout*>(at_)->shares) {
      const std::uint64_t owner = s.owner.load(std::memory_order_relaxed);
      if (owner != 0 && !shared_memory_detail::is_alive(owner)) n++;
    }
    errno = saved;
    return n;
  }

  unsigned nodes_in_use() const {
    unsigned n = 0;
    for (const auto& slot : static_cast<const layout*>(at_)->nodes)
      n += slot.used.load(std::memory_order_relaxed) != 0 ? 1 : 0;
    return n;
  }

 private:
  /// Empties the file if create() fails.
  struct emptied_unless_ready {
    int fd;
    bool ready = false;
    ~emptied_unless_ready() {
      if (ready) return;
      [[maybe_unused]] const int result = ftruncate(fd, 0);
    }
  };

  shared_region(void* at, std::size_t size) : at_(at), size_(size) {}

  [[noreturn]] static void fail(int error, const char* what) {
    throw std::system_error(error, std::generic_category(), what);
  }
  static void* map(int fd, std::size_t size) {
    void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) fail(errno, "mmap");
    return at;
  }
  void enter() {
    if (!memory::attach(static_cast<layout*>(at_))) fail(EBUSY, "usher::shared_region");
    joined_ = true;
    if (!memory::add_first_share()) fail(ENOBUFS, "usher::shared_region: join");
  }

  void* at_;
  std::size_t size_;
  bool joined_ = false;
};

/// A mutex in a region. Zero bytes are a free mutex; any thread of any process that has joined may unlock it.
template <template <class, class> class Lock, class Name = void, waiting_kind Kind = waiting_kind::spin_then_park>
class shared_mutex_in {
 public:
  using lock_type = Lock<shared_memory<Name>, waiting<shared_memory<Name>, Kind>>;
  static_assert(lockable<lock_type>);
  static constexpr lock_traits traits = lock_type::traits;
  static_assert(has(traits.kinds, Kind), "this lock is not made for this way of waiting");

  constexpr shared_mutex_in() noexcept : lock_{} {}
  shared_mutex_in(const shared_mutex_in&) = delete;
  shared_mutex_in& operator=(const shared_mutex_in&) = delete;

  void lock() { lock_.lock(); }
  [[nodiscard]] bool try_lock() { return lock_.try_lock(); }
  void unlock() { lock_.unlock(); }

  /// Locks without a queue node.
  void lock_as_guest()
    requires requires(lock_type& l) { l.lock_as_guest(); }
  {
    lock_.lock_as_guest();
  }

 private:
  lock_type lock_;
};

/// A node that the caller passes to each lock(), as in the papers. For the lock types mcs_with_node, mcsg_with_node and
/// mcsg_plus_with_node. The node serves one lock at a time.
template <class Name = void>
class shared_node {
 public:
  shared_node() : handle_(shared_memory<Name>::take_node()) {
    if (handle_ == no_node) throw std::system_error(ENOBUFS, std::generic_category(), "usher::shared_node");
  }
  shared_node(const shared_node&) = delete;
  shared_node& operator=(const shared_node&) = delete;
  ~shared_node() { shared_memory<Name>::give_node(handle_); }

  operator node_handle() const { return handle_; }

 private:
  node_handle handle_;
};

}  // namespace usher::inline v2
