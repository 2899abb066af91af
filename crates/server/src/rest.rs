//! What a thread gives back before it waits for long.

use rustix::mm::{Advice, madvise};

/// Left alone right below the caller's frame: the frames of the calls in here.
const NEAR_BYTES: usize = 4 << 10;

/// A statement seldom goes deeper; what one that did has used stays.
const DEPTH_BYTES: usize = 2 << 20;

const PAGE_BYTES: usize = 4 << 10;

/// Gives back the pages of this thread's stack that calls which have returned have used. They are zero when they are used again.
#[inline(never)]
pub fn release_stack() {
    let local = 0u8;
    let here = std::ptr::from_ref(&local).addr();
    let Some(left) = stacker::remaining_stack() else { return };
    // The other half stays: where exactly the stack ends, guard pages and all, is nobody's business here.
    let depth = DEPTH_BYTES.min(left / 2);
    let high = here.saturating_sub(NEAR_BYTES) & !(PAGE_BYTES - 1);
    let low = here.saturating_sub(depth).next_multiple_of(PAGE_BYTES);
    if low >= high {
        return;
    }
    // SAFETY: the range lies inside this thread's own stack, below the frame of this function by more than its calls need, so
    // nothing in it is in use; the kernel gives zeroed pages when the stack grows into it again.
    let released =
        unsafe { madvise(std::ptr::with_exposed_provenance_mut(low), high - low, Advice::LinuxDontNeed) };
    if let Err(error) = released {
        tracing::debug!(%error, "the stack's memory could not be given back");
    }
}

#[cfg(test)]
mod tests {
    /// Uses some stack, and says what it saw.
    #[inline(never)]
    fn deep(levels: u64) -> u64 {
        let filled = std::hint::black_box([levels; 512]);
        if levels == 0 { filled[17] } else { deep(levels - 1) + filled[300] }
    }

    #[test]
    fn the_stack_works_as_before() {
        let work = || {
            for _ in 0..3 {
                assert_eq!(deep(200), 200 * 201 / 2);
                super::release_stack();
            }
        };
        std::thread::Builder::new().stack_size(8 << 20).spawn(work).unwrap().join().unwrap();
    }
}
