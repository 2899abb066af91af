//! Readers that pin times and a collector that removes what is not pinned, under many interleavings. Run with
//! `cargo test -p cairn-storage --features shuttle --test pin_interleavings`.
#![cfg(feature = "shuttle")]

use cairn_storage::pins::model::collector_looks;
use cairn_storage::{PinKind, Pins, Timestamp};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

const ITERATIONS: usize = 10_000;
const COMMITS: u64 = 4;

#[test]
fn what_is_pinned_is_not_removed() {
    shuttle::check_random(
        || {
            let pins = Arc::new(Pins::default());
            let visible = Arc::new(AtomicU64::new(1));
            // Everything that only times below this one see is gone.
            let removed = Arc::new(AtomicU64::new(0));
            let readers: Vec<_> = (1..3)
                .map(|pid| {
                    let (pins, visible, removed) = (pins.clone(), visible.clone(), removed.clone());
                    thread::spawn(move || {
                        let newest = || Timestamp(visible.load(Ordering::SeqCst));
                        let pin = pins.acquire(pid, PinKind::Statement, newest);
                        let check = |time: Timestamp| {
                            let removed = removed.load(Ordering::SeqCst);
                            assert!(
                                removed <= time.0,
                                "{time:?} was pinned, times below {removed} were removed"
                            );
                        };
                        check(pin.time());
                        let later = pins.open(&pin, newest);
                        check(pin.time());
                        check(later);
                        pins.release(pin);
                    })
                })
                .collect();
            for time in 2..2 + COMMITS {
                visible.store(time, Ordering::SeqCst);
                let horizon = Timestamp(time);
                let view = collector_looks(&pins, horizon);
                thread::yield_now();
                if !view.pinned_between(Timestamp::MIN, horizon) {
                    removed.store(time, Ordering::SeqCst);
                }
            }
            for reader in readers {
                reader.join().expect("the reader checks");
            }
        },
        ITERATIONS,
    );
}
