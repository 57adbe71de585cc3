// Waits for locks of the crate parking_lot: `waits_parking_lot CASE`. Its threads sleep on a futex of the waiting thread, not
// on the lock.
use parking_lot::{Condvar, Mutex, RwLock};
use std::hint::black_box;
use std::process::exit;

#[path = "../ready.rs"]
mod ready;
use ready::{holder, is_ready, limit_time, now_holds, sleep_for_ever, waiter};

static MUTEX: Mutex<u64> = Mutex::new(0);
static CONDVAR: Condvar = Condvar::new();
static RWLOCK: RwLock<u64> = RwLock::new(0);

#[inline(never)]
fn holds_mutex() {
    let guard = MUTEX.lock();
    now_holds();
    sleep_for_ever();
    black_box(&guard);
}

#[inline(never)]
fn locks_mutex() {
    *black_box(MUTEX.lock()) += 1;
}

#[inline(never)]
fn awaits_condvar() {
    let mut guard = MUTEX.lock();
    loop {
        CONDVAR.wait(&mut guard);
        black_box(&guard);
    }
}

#[inline(never)]
fn holds_as_writer() {
    let guard = RWLOCK.write();
    now_holds();
    sleep_for_ever();
    black_box(&guard);
}

#[inline(never)]
fn locks_as_reader() {
    black_box(*black_box(RWLOCK.read()));
}

fn main() {
    limit_time();
    let name = std::env::args().nth(1).unwrap_or_default();
    let parts = match name.as_str() {
        "parking-lot-mutex" => vec![holder("holds_mutex", holds_mutex), waiter("locks_mutex", locks_mutex)],
        "parking-lot-condvar" => vec![waiter("awaits_condvar", awaits_condvar)],
        "parking-lot-rwlock" => vec![holder("holds_as_writer", holds_as_writer), waiter("locks_as_reader", locks_as_reader)],
        _ => exit(2),
    };
    is_ready(&name, parts, 0);
}
