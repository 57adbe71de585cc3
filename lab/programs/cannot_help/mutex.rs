// Rust's std::sync::Mutex: a futex of the standard library's own since Rust 1.62.
use std::sync::{Arc, Mutex};
use std::thread;

fn main() {
    let each: u64 = std::env::args().nth(1).map_or(250000, |text| text.parse().unwrap());
    let count = Arc::new(Mutex::new(0u64));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                for _ in 0..each {
                    *count.lock().unwrap() += 1;
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{}", count.lock().unwrap());
}
