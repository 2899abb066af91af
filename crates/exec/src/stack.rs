//! Bounded recursion: deep nesting ends as 54001, never as a stack overflow.
//!
//! What recurses over user input (planning queries, functions that call each other) asks [`check`] on its way down.
//! The analyzer has bounded the depth of expressions (1000 levels); compiling one may need more stack than a thread
//! has, so it runs in [`deep`], which moves to a larger stack where needed. Evaluating one takes less than what
//! [`check`] keeps free.

use std::cell::Cell;

use cairn_types::{Error, Result, sqlstate};

/// Bytes that must be left for what does not ask.
const RESERVE_BYTES: usize = 1 << 20;

/// Bytes of stack that [`deep`] moves to, and how often it may do so before a thread comes back.
const SEGMENT_BYTES: usize = 8 << 20;
const SEGMENTS_MAX: u32 = 8;

thread_local! {
    static SEGMENTS: Cell<u32> = const { Cell::new(0) };
}

/// 54001 if the stack is nearly used up.
#[inline]
pub fn check() -> Result<()> {
    match stacker::remaining_stack() {
        Some(left) if left < RESERVE_BYTES => Err(too_deep()),
        _ => Ok(()),
    }
}

/// Does a level of bounded recursion, on another stack if this one is nearly used up. 54001 if that has been done too
/// often: constants may be folded by functions whose own constants are folded, without end.
#[inline]
pub fn deep<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    match stacker::remaining_stack() {
        Some(left) if left < RESERVE_BYTES + (RESERVE_BYTES >> 2) => on_new_segment(work),
        _ => work(),
    }
}

#[cold]
fn on_new_segment<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    /// Counts back even if the work panics.
    struct Segment;
    impl Drop for Segment {
        fn drop(&mut self) {
            SEGMENTS.with(|segments| segments.set(segments.get() - 1));
        }
    }
    if SEGMENTS.with(Cell::get) >= SEGMENTS_MAX {
        return Err(too_deep());
    }
    SEGMENTS.with(|segments| segments.set(segments.get() + 1));
    let _segment = Segment;
    stacker::grow(SEGMENT_BYTES, work)
}

#[cold]
fn too_deep() -> Error {
    Error::new(sqlstate::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").hint(
        "Increase the configuration parameter \"max_stack_depth\" (currently 2048kB), after ensuring the \
         platform's stack depth limit is adequate.",
    )
}

#[cfg(test)]
mod tests {
    fn recurse(depth: u64) -> cairn_types::Result<u64> {
        super::check()?;
        if depth == u64::MAX { Ok(0) } else { Ok(recurse(depth + 1)? + 1) }
    }

    fn recurse_deeply(depth: u64) -> cairn_types::Result<u64> {
        super::deep(|| if depth == u64::MAX { Ok(0) } else { Ok(recurse_deeply(depth + 1)? + 1) })
    }

    #[test]
    fn segments_are_bounded_and_given_back() {
        let work = || {
            for _ in 0..3 {
                let error = recurse_deeply(0).unwrap_err();
                assert_eq!(error.sqlstate(), cairn_types::sqlstate::STATEMENT_TOO_COMPLEX);
                assert_eq!(super::SEGMENTS.with(super::Cell::get), 0);
            }
        };
        std::thread::Builder::new().stack_size(4 << 20).spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn endless_recursion_is_an_error() {
        let result =
            std::thread::Builder::new().stack_size(4 << 20).spawn(|| recurse(0)).unwrap().join().unwrap();
        assert_eq!(result.unwrap_err().sqlstate(), cairn_types::sqlstate::STATEMENT_TOO_COMPLEX);
    }
}
