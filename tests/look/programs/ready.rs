// What the waiting programs in Rust share; the output is that of ready.h.
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

extern "C" {
    fn gettid() -> i32;
    fn pause() -> i32;
    fn alarm(seconds: u32) -> u32;
}

static HOLDS: AtomicBool = AtomicBool::new(false);

pub struct Part {
    role: &'static str,
    function: &'static str,
    tid: i32,
}

/// A program whose test has died ends after a minute.
pub fn limit_time() {
    unsafe { alarm(600) };
}

pub fn sleep_for_ever() {
    loop {
        unsafe { pause() };
    }
}

pub fn now_holds() {
    HOLDS.store(true, Ordering::SeqCst);
}

fn start(role: &'static str, function: &'static str, run: fn()) -> Part {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        send.send(unsafe { gettid() }).unwrap();
        run()
    });
    Part { role, function, tid: receive.recv().unwrap() }
}

pub fn waiter(function: &'static str, run: fn()) -> Part {
    start("waiter", function, run)
}

/// Returns when the thread has called now_holds().
pub fn holder(function: &'static str, run: fn()) -> Part {
    let part = start("holder", function, run);
    while !HOLDS.load(Ordering::SeqCst) {
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

pub fn is_ready(name: &str, parts: Vec<Part>, object: usize) {
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
