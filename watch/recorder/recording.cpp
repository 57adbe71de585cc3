// Starts and ends recordings. recorder.hpp describes the course of a recording, attach_point.hpp the protocol of `usher
// stat -p`.
//
// Each size of the tables has one recorder and one address range. The next recording of that size maps its file over
// the previous file, so the number of recordings does not increase the use of address space. A thread that is still in
// a recorded call of an earlier recording finds tables of the same capacities. Such a thread may add to the counters of
// an unrelated object, or write into an unused entry; the reader tolerates both.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "library/preload/selection.hpp"
#include "watch/contract/attach_point.hpp"
#include "watch/recorder/inherited_file.hpp"
#include "watch/recorder/mapped_modules.hpp"
#include "watch/recorder/others.hpp"
#include "watch/recorder/recorder.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

namespace usher::recorder {
namespace {

using contract::capacities;

constexpr unsigned sizes =
    std::countr_zero(capacities::most_objects) - std::countr_zero(capacities::fewest_objects) + 1;

/// The recorders, one for each size of the tables, without and with a table of waits.
constinit recorder recorders[2 * sizes]{};
constinit std::atomic<std::uint64_t> last_recording{0};
/// The number of the last request that a thread is answering or has answered.
constinit std::atomic<std::uint32_t> answering{0};

/// The identity of the file whose descriptor is in the attach point.
struct identity_of_file {
  std::uint64_t device, inode;
};
constinit identity_of_file file_identity{};

recorder& recorder_for(const capacities& room) {
  const int size = std::countr_zero(room.objects) - std::countr_zero(capacities::fewest_objects);
  return recorders[2 * size + (room.waits != 0 ? 1 : 0)];
}

/// Maps the file at the recorder's addresses. The file is at least as large as the tables.
///
/// The first mapping has no access rights: after mlockall(MCL_FUTURE) an accessible mapping would allocate all pages at
/// once. The header is written before the file replaces the previous one, since a thread may read the header to check
/// whether the recording has ended.
template <class F>
bool map_file(recorder& r, int descriptor, const capacities& room, F write_header) {
  const std::size_t size = contract::view::size_for(room);
  void* memory = mmap(nullptr, size, PROT_NONE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return false;
  bool mapped = mprotect(memory, size, PROT_READ | PROT_WRITE) == 0;
  if (mapped) write_header(*static_cast<contract::header*>(memory));
  if (mapped && r.head != nullptr) {
    void* const moved = mremap(memory, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, static_cast<void*>(r.head));
    mapped = moved != MAP_FAILED;
    if (mapped) memory = moved;
  }
  if (!mapped) {
    const int saved = errno;
    munmap(memory, size);
    errno = saved;
    return false;
  }
  if (r.head != nullptr) return true;
  r.file = contract::view(memory, room);
  r.objects = &r.file.object(0);
  r.details = &r.file.detail(0);
  r.most_objects = room.objects;
  r.head = static_cast<contract::header*>(memory);
  return true;
}

/// Makes the next calls record into the file, which is already mapped and has its header.
void begin(recorder& r, bool attached) {
  contract::header& head = *r.head;
  if (&usher_companion_v3 == nullptr) head.partial.store(1, std::memory_order_relaxed);
  r.hold_times.store(head.hold_times, std::memory_order_relaxed);
  r.ticks_a_ms.store(head.ticks_a_ms, std::memory_order_relaxed);
  r.tsc.store(head.ticks_are_tsc != 0, std::memory_order_relaxed);
  r.attached.store(attached, std::memory_order_relaxed);
  const std::uint64_t recording = last_recording.fetch_add(1, std::memory_order_relaxed) + 1;
  r.process.store(process_word(0, std::uint32_t(recording), 0), std::memory_order_relaxed);
  std::memset(r.command, 0, sizeof r.command);
  r.program_path = {};
  if (!attached) describe_program(r);  // else the observer knows it, and a filter may kill the process for open()
  usher_attach.file.store(reinterpret_cast<std::uintptr_t>(r.head), std::memory_order_relaxed);
  current_recording.store(recording << recorder_bits | std::uint64_t(&r - recorders + 1), std::memory_order_release);
}

/// Whether the launcher's file belongs to this process's user or to root: an outdated USHER_STAT may name any file.
bool is_trusted(int descriptor, std::uint64_t& size) {
  struct stat s {};
  if (syscall(SYS_fstat, descriptor, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size < off_t{sizeof(contract::header)})
    return false;
  size = std::uint64_t(s.st_size);
  // A file that is not sealed against truncation is refused: an access beyond its end would raise SIGBUS.
  const long seals = syscall(SYS_fcntl, descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return false;
  return s.st_uid == 0 || s.st_uid == uid_t(syscall(SYS_geteuid));
}

/// Starts to record into the file that a launcher passes on. False if the file is not a record.
bool open_file(int descriptor) {
  std::uint64_t size = 0;
  if (!is_trusted(descriptor, size)) return false;
  void* const first = mmap(nullptr, sizeof(contract::header), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (first == MAP_FAILED) return false;
  auto& head = *static_cast<contract::header*>(first);
  const capacities room = head.room;
  const bool is_record = head.magic == contract::magic && head.version == contract::version && head.size == size &&
                         room == capacities::for_objects(room.objects, room.waits != 0) &&
                         contract::view::size_for(room) == size;
  if (is_record) head.opened.fetch_add(1, std::memory_order_relaxed);
  if (head.magic == contract::magic && head.version != contract::version) head.refused.store(contract::version);
  munmap(first, sizeof(contract::header));
  if (!is_record) return false;
  recorder& r = recorder_for(room);
  if (!map_file(r, descriptor, room, [](contract::header&) {})) return false;
  begin(r, false);
  return true;
}

// ---- usher stat -p -----------------------------------------------------------------------------------------

capacities room_of(const contract::attach_request& wanted) {
  return capacities::for_objects(wanted.objects, wanted.with_waits != 0);
}

/// Makes a sealed memory file with the size of a record. Returns its descriptor, or −1 with `failed` set.
int make_file(const contract::attach_request& wanted, contract::attach_failure& failed) {
  const capacities room = room_of(wanted);
  failed = contract::attach_failure::make;
  long descriptor = syscall(SYS_memfd_create, contract::file_name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (descriptor < 0 && errno == EINVAL)  // Linux before 6.3
    descriptor = syscall(SYS_memfd_create, contract::file_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return -1;
  const auto file = static_cast<int>(descriptor);
  failed = contract::attach_failure::resize;
  bool made = syscall(SYS_ftruncate, file, contract::view::size_for(room)) == 0;
  if (made) {
    failed = contract::attach_failure::seal;
    made = syscall(SYS_fcntl, file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  }
  if (made) return file;
  const int saved = errno;
  syscall(SYS_close, file);
  errno = saved;
  return -1;
}

void write_header(contract::header& head, const contract::attach_request& wanted) {
  const capacities room = room_of(wanted);
  head.version = contract::version;
  head.hold_times = wanted.hold_times;
  head.size = contract::view::size_for(room);
  head.room = room;
  head.ticks_are_tsc = wanted.ticks_are_tsc;
  head.ticks_a_ms = wanted.ticks_a_ms;
  head.heartbeat.store(ticks_of(wanted.ticks_are_tsc != 0), std::memory_order_relaxed);
  head.enabled.store(1, std::memory_order_relaxed);
  head.opened.store(1, std::memory_order_relaxed);
  head.magic = contract::magic;
}

/// Closes the descriptor in the attach point, unless its number now belongs to another file: the program may have
/// closed the descriptor, which it did not open itself. The number can still change between fstat and close.
void close_descriptor() {
  const int mine = usher_attach.descriptor.exchange(-1, std::memory_order_relaxed);
  if (mine < 0) return;
  struct stat s {};
  const int saved = errno;
  if (syscall(SYS_fstat, mine, &s) == 0 && std::uint64_t(s.st_ino) == file_identity.inode &&
      std::uint64_t(s.st_dev) == file_identity.device)
    syscall(SYS_close, mine);
  errno = saved;
}

/// Makes a file for the request, and starts to record into it. False with `failed` set.
bool answer(const contract::attach_request& wanted, contract::attach_failure& failed) {
  close_descriptor();  // left by an observer that died before it duplicated the descriptor
  const int descriptor = make_file(wanted, failed);
  if (descriptor < 0) return false;
  // The previous observer's heartbeat is overdue. If it was only stopped, this flag tells it that another observer has
  // replaced it.
  if (recorder* const before = recorder_in_use())
    before->head->given_up.store(std::uint32_t(contract::given_up::for_another));
  const capacities room = room_of(wanted);
  recorder& r = recorder_for(room);
  failed = contract::attach_failure::map;
  struct stat s {};
  const auto header = [&wanted](contract::header& head) { write_header(head, wanted); };
  if (syscall(SYS_fstat, descriptor, &s) != 0 || !map_file(r, descriptor, room, header)) {
    const int saved = errno;
    syscall(SYS_close, descriptor);
    errno = saved;
    return false;
  }
  file_identity = {std::uint64_t(s.st_dev), std::uint64_t(s.st_ino)};
  usher_attach.descriptor.store(descriptor, std::memory_order_relaxed);
  begin(r, true);
  return true;
}

}  // namespace

recorder* recorder_in_use() {
  const std::uint64_t recording = current_recording.load(std::memory_order_acquire);
  return recording != 0 ? &recorder_of(recording) : nullptr;
}

recorder& recorder_of(std::uint64_t recording) {
  return recorders[(recording & ((1u << recorder_bits) - 1)) - 1];
}

void record_in(const char* path) {
  const int saved = errno;
  // A system call, since open() is a cancellation point. It must not block: if the launcher has ended, or has another
  // process id in this namespace, the path may name any file, such as a terminal or a pipe.
  bool is_open = false;
  const long descriptor = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor >= 0) {
    is_open = open_file(static_cast<int>(descriptor));
    syscall(SYS_close, descriptor);
  }
  if (!is_open)
    if (const int own = inherited_file(path, contract::file_name); own >= 0)
      open_file(own);  // the descriptor stays open, for programs that this process starts
  errno = saved;
}

bool has_request() {
  return usher_attach.request.number != answering.load(std::memory_order_acquire);
}

void record_as_requested() {
  // Repeats the copy if the request's number has changed: a later observer may have stopped this thread within the
  // copy, and written its own request.
  contract::attach_request wanted;
  do {
    wanted = usher_attach.request;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } while (std::atomic_ref(usher_attach.request.number).load(std::memory_order_acquire) != wanted.number);
  // One thread answers the request. Other threads that see it meanwhile continue unrecorded.
  std::uint32_t last = answering.load(std::memory_order_relaxed);
  if (last == wanted.number || !answering.compare_exchange_strong(last, wanted.number, std::memory_order_acq_rel))
    return;
  const int saved = errno;
  contract::attach_failure failed = contract::attach_failure::none;
  const std::int64_t age = std::int64_t(native::now() - usher_attach.heartbeat);
  if (age > std::int64_t(contract::heartbeat_limit_ms) * 1'000'000)
    failed = contract::attach_failure::not_usable, errno = ETIMEDOUT;  // the observer has died
  else if (answer(wanted, failed))
    failed = contract::attach_failure::none;
  usher_attach.error.store(failed != contract::attach_failure::none ? errno : 0, std::memory_order_relaxed);
  usher_attach.failed_call.store(std::uint32_t(failed), std::memory_order_relaxed);
  usher_attach.answered.store(wanted.number, std::memory_order_release);
  errno = saved;
}

namespace {

/// Whether the observer, if it sends heartbeats, has sent none for longer than the limit.
bool is_silent(const recorder& r) {
  const std::uint64_t beat = r.head->heartbeat.load(std::memory_order_relaxed);
  if (beat == 0) return false;  // the observer sends no heartbeats
  return std::int64_t(r.ticks() - beat) > std::int64_t(contract::heartbeat_limit_ms * r.ticks_a_ms);
}

}  // namespace

bool has_ended(const recorder& r) {
  const contract::header& head = *r.head;
  // `enabled` is read before `taken`. The observer sets `taken` before it clears `enabled`, so the thread that sees the
  // end also closes the descriptor, even if it did not run during the recording. Acquire: pairs with
  // record_file::disable().
  const bool is_over = head.enabled.load(std::memory_order_acquire) == 0;
  if (head.taken.load(std::memory_order_relaxed) != 0 && usher_attach.descriptor.load(std::memory_order_relaxed) >= 0)
    close_descriptor();
  return is_over || is_silent(r);
}

bool leave_recording(recorder& r) {
  std::uint64_t recording = current_recording.load(std::memory_order_relaxed);
  if (recording == 0 || &recorder_of(recording) != &r ||
      !current_recording.compare_exchange_strong(recording, 0, std::memory_order_acq_rel))
    return false;
  contract::header& head = *r.head;
  // The check is repeated, because another recording's file may be mapped at these addresses by now.
  if (head.enabled.load(std::memory_order_relaxed) != 0 && is_silent(r)) {
    // The observer was killed or is stopped, so it does not free the file's pages. The library frees all pages except
    // the header, which states the reason.
    head.given_up.store(std::uint32_t(contract::given_up::for_silence));
    const int saved = errno;
    if (r.attached)
      madvise(reinterpret_cast<char*>(r.head) + sizeof head, contract::view::size_for(r.file.room()) - sizeof head,
              MADV_REMOVE);
    errno = saved;
  }
  return true;
}

}  // namespace usher::recorder
