// Traps of read-write locks that other libraries make and use: the C++ library with deadlines on two clocks, OpenSSL,
// GLib, and the type tables of GObject. The program loads the C libraries by dlopen(), so that their calls are bound to
// the preloaded library. A case is skipped if its library is not installed.
#include "cases.h"
#include "in_threads.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

/// Returns the result of a call in another thread.
template <class Call>
bool elsewhere(Call call) {
  bool result = false;
  std::thread([&] { result = call(); }).join();
  return result;
}

void* load(const char* library) {
  void* const loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) skip_case("%s", dlerror());
  return loaded;
}

template <class Function>
void find(void* library, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(dlsym(library, name));
  if (to == nullptr) fail_case(__FILE__, __LINE__, "%s is missing", name);
}

/// Fails unless the lock that a library has made is of the implementation that USHER_RWLOCK selects. libusher.so stores
/// in this member that it has used the lock; the C library leaves the member 0.
void check_owner(const void* used_lock) {
#if defined(__GLIBC__)
  const char* const selected = getenv("USHER_RWLOCK");
  const bool is_ours = selected != nullptr && strcmp(selected, "pthread") != 0;
  CHECK((static_cast<const pthread_rwlock_t*>(used_lock)->__data.__pad4 != 0) == is_ours);
#endif
}

/// `Lock` has read(), end_read(), write() and end_write().
template <class Lock>
void exclude_and_share(Lock& lock) {
  lock.write();  // before there is a second thread
  lock.end_write();
  lock.read();
  lock.end_read();

  int inside = 0;
  in_threads(3, [&](int) {
    lock.read();
    flag_add(&inside, 1);
    CHECK(flag_comes(&inside, 3));  // all read at once
    lock.end_read();
  });

  int readers = 0, writers = 0;
  long written = 0, copy = 0;
  in_threads(4, [&](int thread) {
    for (int i = 0; i < 400; ++i) {
      if ((i + thread) % 4 == 0) {
        lock.write();
        CHECK(flag_add(&writers, 1) == 1 && flag_get(&readers) == 0);
        linger(++written);
        copy = written;
        flag_add(&writers, -1);
        lock.end_write();
      } else {
        lock.read();
        flag_add(&readers, 1);
        CHECK(flag_get(&writers) == 0 && copy == written);
        linger(i);
        flag_add(&readers, -1);
        lock.end_read();
      }
    }
  });
  CHECK_NUMBER(written, 400);
}

// -- the C++ library ------------------------------------------------------------------------------------------------

// check_owner() reads the mutex, which has no native_handle(), as a pthread_rwlock_t.
static_assert(sizeof(std::shared_timed_mutex) == sizeof(pthread_rwlock_t));

template <class Clock>
struct timed {
  std::shared_timed_mutex mutex;
  void read() {
    while (!mutex.try_lock_shared_until(Clock::now() + 1ms)) {
    }
  }
  void end_read() { mutex.unlock_shared(); }
  void write() {
    while (!mutex.try_lock_until(Clock::now() + 1ms)) {
    }
  }
  void end_write() { mutex.unlock(); }
};

template <class Clock>
void deadlines(typename Clock::time_point past) {
  std::shared_timed_mutex mutex;
  const auto write_until = [&](typename Clock::time_point end) {
    const bool locked = mutex.try_lock_until(end);
    if (locked) mutex.unlock();
    CHECK(locked || Clock::now() >= end);
    return locked;
  };
  const auto read_until = [&](typename Clock::time_point end) {
    const bool locked = mutex.try_lock_shared_until(end);
    if (locked) mutex.unlock_shared();
    CHECK(locked || Clock::now() >= end);
    return locked;
  };
  CHECK(write_until(past) && read_until(past));  // a free lock needs no time
  mutex.lock_shared();
  CHECK(elsewhere([&] { return read_until(past); }));
  CHECK(!elsewhere([&] { return write_until(past); }));
  CHECK(!elsewhere([&] { return write_until(Clock::now() + 20ms); }));
  // the writer that gave up no longer keeps readers out
  CHECK(elsewhere([&] { return read_until(Clock::now() + 10s); }));
  mutex.unlock_shared();
  mutex.lock();
  CHECK(!elsewhere([&] { return read_until(past) || write_until(past); }));
  CHECK(!elsewhere([&] { return read_until(Clock::now() + 20ms); }));
  CHECK(!elsewhere([&] { return write_until(Clock::now() + 20ms); }));
  bool has_read = false, has_written = false;
  std::thread reader([&] { has_read = read_until(Clock::now() + 10s); });
  std::thread writer([&] { has_written = write_until(Clock::now() + 10s); });
  await_sleepers(2);
  mutex.unlock();
  reader.join();
  writer.join();
  CHECK(has_read && has_written);
  CHECK(mutex.try_lock());
  mutex.unlock();
}

// A deadline of the past, but not an hour ago: in the first hour after boot that time would be before the steady
// clock's epoch. libstdc++ then computes negative nanoseconds, and takes the C library's EINVAL for success. Usher
// treats such a time as past.
template <class Clock>
void in_the_past() {
  deadlines<Clock>(typename Clock::time_point(1ms));
  if (under_usher()) deadlines<Clock>(typename Clock::time_point(-1h - 500ms));
}

CASE(shared_timed_mutex_by_steady_clock) {
  in_the_past<std::chrono::steady_clock>();
  timed<std::chrono::steady_clock> lock;
  exclude_and_share(lock);
  check_owner(&lock.mutex);
}
CASE(shared_timed_mutex_by_system_clock) {
  in_the_past<std::chrono::system_clock>();
  timed<std::chrono::system_clock> lock;
  exclude_and_share(lock);
  check_owner(&lock.mutex);
}

// -- OpenSSL --------------------------------------------------------------------------------------------------------

struct openssl {
  void* (*lock_new)();
  int (*read_lock)(void*);
  int (*write_lock)(void*);
  int (*unlock)(void*);
  void (*lock_free)(void*);
  void* lock = nullptr;
  openssl() {
    void* const library = load("libcrypto.so.3");
    find(library, "CRYPTO_THREAD_lock_new", lock_new);
    find(library, "CRYPTO_THREAD_read_lock", read_lock);
    find(library, "CRYPTO_THREAD_write_lock", write_lock);
    find(library, "CRYPTO_THREAD_unlock", unlock);
    find(library, "CRYPTO_THREAD_lock_free", lock_free);
  }
  void read() { CHECK_NUMBER(read_lock(lock), 1); }
  void end_read() { CHECK_NUMBER(unlock(lock), 1); }
  void write() { CHECK_NUMBER(write_lock(lock), 1); }
  void end_write() { CHECK_NUMBER(unlock(lock), 1); }
};

CASE(openssl_locks) {
  openssl library;
  for (int i = 0; i < 3; ++i) {  // usually at the same address
    library.lock = library.lock_new();
    CHECK(library.lock != nullptr);
    exclude_and_share(library);
    check_owner(library.lock);
    library.lock_free(library.lock);
  }
}

// -- GLib -----------------------------------------------------------------------------------------------------------

struct glib {
  struct rw_lock {  // GRWLock
    void* made = nullptr;
    unsigned unused[2] = {};
  };
  void (*init)(rw_lock*);
  void (*clear)(rw_lock*);
  void (*reader_lock)(rw_lock*);
  int (*reader_trylock)(rw_lock*);
  void (*reader_unlock)(rw_lock*);
  void (*writer_lock)(rw_lock*);
  int (*writer_trylock)(rw_lock*);
  void (*writer_unlock)(rw_lock*);
  rw_lock lock;
  glib() {
    void* const library = load("libglib-2.0.so.0");
    find(library, "g_rw_lock_init", init);
    find(library, "g_rw_lock_clear", clear);
    find(library, "g_rw_lock_reader_lock", reader_lock);
    find(library, "g_rw_lock_reader_trylock", reader_trylock);
    find(library, "g_rw_lock_reader_unlock", reader_unlock);
    find(library, "g_rw_lock_writer_lock", writer_lock);
    find(library, "g_rw_lock_writer_trylock", writer_trylock);
    find(library, "g_rw_lock_writer_unlock", writer_unlock);
  }
  void read() { reader_lock(&lock); }
  void end_read() { reader_unlock(&lock); }
  void write() { writer_lock(&lock); }
  void end_write() { writer_unlock(&lock); }
  bool can_read() {
    const bool locked = reader_trylock(&lock) != 0;
    if (locked) reader_unlock(&lock);
    return locked;
  }
  bool can_write() {
    const bool locked = writer_trylock(&lock) != 0;
    if (locked) writer_unlock(&lock);
    return locked;
  }
};

CASE(glib_locks) {
  glib library;
  for (int i = 0; i < 3; ++i) {  // the first time without a call of g_rw_lock_init(), as in static variables
    if (i > 0) library.init(&library.lock);
    exclude_and_share(library);
    library.read();
    CHECK(elsewhere([&] { return library.can_read(); }));
    CHECK(!elsewhere([&] { return library.can_write(); }));
    library.end_read();
    library.write();
    CHECK(!elsewhere([&] { return library.can_read() || library.can_write(); }));
    library.end_write();
    CHECK(elsewhere([&] { return library.can_write(); }));
    check_owner(library.lock.made);
    library.clear(&library.lock);
  }
}

// -- GObject --------------------------------------------------------------------------------------------------------

struct gobject {
  using type = std::size_t;                     // GType
  static constexpr type object_type = 20 << 2;  // G_TYPE_OBJECT
  struct type_info {                            // GTypeInfo
    std::uint16_t class_size = 0;
    void* class_functions[4] = {};
    const void* class_data = nullptr;
    std::uint16_t instance_size = 0, unused = 0;
    void* instance_init = nullptr;
    const void* value_table = nullptr;
  };
  struct type_query {  // GTypeQuery
    type of;
    const char* name;
    unsigned class_size, instance_size;
  };
  type (*register_static)(type parent, const char* name, const type_info*, unsigned flags);
  type (*from_name)(const char*);
  type (*parent)(type);
  const char* (*name)(type);
  void (*query)(type, type_query*);
  gobject() {
    void* const library = load("libgobject-2.0.so.0");
    find(library, "g_type_register_static", register_static);
    find(library, "g_type_from_name", from_name);
    find(library, "g_type_parent", parent);
    find(library, "g_type_name", name);
    find(library, "g_type_query", query);
  }
};

// Threads register types in GObject's tables, and look up types of their own and of other threads.
CASE(gobject_types) {
  constexpr int threads = 4, each = 80;
  const gobject library;
  gobject::type_query object;
  library.query(gobject::object_type, &object);
  CHECK(object.of == gobject::object_type);
  gobject::type_info info;
  info.class_size = std::uint16_t(object.class_size);
  info.instance_size = std::uint16_t(object.instance_size);
  const auto name_of = [](int thread, int i) { return "UsherTrap" + std::to_string(thread) + "x" + std::to_string(i); };
  std::vector<gobject::type> made(std::size_t{threads} * each);
  in_threads(threads, [&](int thread) {
    for (int i = 0; i < each; ++i) {
      const std::string own = name_of(thread, i);
      CHECK(library.from_name(own.c_str()) == 0);
      const gobject::type type = library.register_static(gobject::object_type, own.c_str(), &info, 0);
      CHECK(type != 0 && library.from_name(own.c_str()) == type);
      made[std::size_t(thread) * each + std::size_t(i)] = type;
      for (int other = 0; other < threads; ++other) {
        const std::string name = name_of(other, i);
        const gobject::type found = library.from_name(name.c_str());
        CHECK(found == 0 || (library.name(found) == name && library.parent(found) == gobject::object_type));
      }
    }
  });
  for (int thread = 0; thread < threads; ++thread)
    for (int i = 0; i < each; ++i)
      CHECK(library.from_name(name_of(thread, i).c_str()) == made[std::size_t(thread) * each + std::size_t(i)]);
}

}  // namespace
