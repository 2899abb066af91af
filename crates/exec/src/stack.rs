//! Bounded recursion: deep nesting ends as 54001, never as a stack overflow.
//!
//! Everything that recurses over user input (compiling and planning expressions, SQL functions that call each other)
//! asks [`check`] on its way down. The depth is measured as the distance of a local variable from the first call
//! on the thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_types::{Error, Result, sqlstate};

/// Bytes of stack below the thread's first [`check`] that may be used.
static LIMIT: AtomicUsize = AtomicUsize::new(1 << 20);

thread_local! {
    static BASE: Cell<usize> = const { Cell::new(0) };
}

/// Sets how deep the stack may grow below a thread's first check; a server with larger thread stacks raises it.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// 54001 if the stack is nearly used up.
#[inline]
pub fn check() -> Result<()> {
    let marker = 0u8;
    let here = std::ptr::from_ref(&marker).addr();
    BASE.with(|base| {
        let top = base.get();
        // A caller that is higher up than the first one becomes the new base.
        if top < here {
            base.set(here);
            return Ok(());
        }
        if top - here > LIMIT.load(Ordering::Relaxed) { Err(too_deep()) } else { Ok(()) }
    })
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

    #[test]
    fn endless_recursion_is_an_error() {
        let result =
            std::thread::Builder::new().stack_size(4 << 20).spawn(|| recurse(0)).unwrap().join().unwrap();
        assert_eq!(result.unwrap_err().sqlstate(), cairn_types::sqlstate::STATEMENT_TOO_COMPLEX);
    }
}
