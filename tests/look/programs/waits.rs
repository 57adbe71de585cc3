// Waits for Rust's own locks: `waits CASE`. No word of these locks names a holder.
use std::hint::black_box;
use std::process::exit;
use std::sync::{Condvar, Mutex, RwLock};

mod ready;
use ready::{holder, is_ready, limit_time, now_holds, sleep_for_ever, waiter};

static MUTEX: Mutex<u64> = Mutex::new(0);
static CONDVAR: Condvar = Condvar::new();
static RWLOCK: RwLock<u64> = RwLock::new(0);

#[inline(never)]
fn holds_mutex() {
    let guard = MUTEX.lock().unwrap();
    now_holds();
    sleep_for_ever();
    black_box(&guard);
}

#[inline(never)]
fn locks_mutex() {
    *black_box(MUTEX.lock().unwrap()) += 1;
}

#[inline(never)]
fn awaits_condvar() {
    let mut guard = MUTEX.lock().unwrap();
    loop {
        guard = CONDVAR.wait(guard).unwrap();
        black_box(&guard);
    }
}

#[inline(never)]
fn holds_as_writer() {
    let guard = RWLOCK.write().unwrap();
    now_holds();
    sleep_for_ever();
    black_box(&guard);
}

#[inline(never)]
fn locks_as_reader() {
    black_box(*black_box(RWLOCK.read().unwrap()));
}

fn main() {
    limit_time();
    let name = std::env::args().nth(1).unwrap_or_default();
    let (parts, object) = match name.as_str() {
        "rust-mutex" => (vec![holder("holds_mutex", holds_mutex), waiter("locks_mutex", locks_mutex)], &raw const MUTEX as usize),
        "rust-condvar" => (vec![waiter("awaits_condvar", awaits_condvar)], &raw const CONDVAR as usize),
        "rust-rwlock" => (vec![holder("holds_as_writer", holds_as_writer), waiter("locks_as_reader", locks_as_reader)], &raw const RWLOCK as usize),
        _ => exit(2),
    };
    is_ready(&name, parts, object);
}
