// Waits for Rust's own locks: `waits CASE`, with the output of ready.h. No word of these locks names a holder.
use std::fs;
use std::hint::black_box;
use std::process::exit;
use std::sync::{mpsc, Condvar, Mutex, RwLock};
use std::thread;
use std::time::Duration;

extern "C" {
    fn gettid() -> i32;
    fn pause() -> i32;
    fn alarm(seconds: u32) -> u32;
}

static MUTEX: Mutex<u64> = Mutex::new(0);
static CONDVAR: Condvar = Condvar::new();
static RWLOCK: RwLock<u64> = RwLock::new(0);

struct Part {
    role: &'static str,
    function: &'static str,
    tid: i32,
}

fn sleep_for_ever() {
    loop {
        unsafe { pause() };
    }
}

#[inline(never)]
fn holds_mutex(ready: fn()) {
    let guard = MUTEX.lock().unwrap();
    ready();
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
fn holds_as_writer(ready: fn()) {
    let guard = RWLOCK.write().unwrap();
    ready();
    sleep_for_ever();
    black_box(&guard);
}

#[inline(never)]
fn locks_as_reader() {
    black_box(*black_box(RWLOCK.read().unwrap()));
}

static HOLDS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

fn now_holds() {
    HOLDS.store(true, std::sync::atomic::Ordering::SeqCst);
}

fn start(role: &'static str, function: &'static str, run: impl FnOnce() + Send + 'static) -> Part {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        send.send(unsafe { gettid() }).unwrap();
        run()
    });
    Part { role, function, tid: receive.recv().unwrap() }
}

fn hold(function: &'static str, run: fn(fn())) -> Part {
    let part = start("holder", function, move || run(now_holds));
    while !HOLDS.load(std::sync::atomic::Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
    part
}

fn is_asleep(part: &Part) -> bool {
    match fs::read_to_string(format!("/proc/self/task/{}/syscall", part.tid)) {
        Ok(text) => text.starts_with(|c: char| c.is_ascii_digit()),
        Err(_) => true,
    }
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    unsafe { alarm(60) };
    let waiter = |function, run: fn()| start("waiter", function, run);
    let (parts, object) = match name.as_str() {
        "rust-mutex" => (vec![hold("holds_mutex", holds_mutex), waiter("locks_mutex", locks_mutex)], &raw const MUTEX as usize),
        "rust-condvar" => (vec![waiter("awaits_condvar", awaits_condvar)], &raw const CONDVAR as usize),
        "rust-rwlock" => (vec![hold("holds_as_writer", holds_as_writer), waiter("locks_as_reader", locks_as_reader)], &raw const RWLOCK as usize),
        _ => exit(2),
    };
    while !parts.iter().all(is_asleep) {
        thread::sleep(Duration::from_millis(1));
    }
    let pid = std::process::id();
    let threads: Vec<_> = parts
        .iter()
        .map(|p| format!("{{\"role\": \"{}\", \"tid\": {}, \"pid\": {pid}, \"function\": \"{}\"}}", p.role, p.tid, p.function))
        .collect();
    println!("{{\"case\": \"{name}\", \"pid\": {pid}, \"object\": \"{object:#x}\", \"threads\": [{}]}}", threads.join(", "));
    sleep_for_ever();
}
