//! Cairn's extensions of the grammar.

/// The order of one key column that the grammar does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOrder {
    /// Byte offset of the order's word in the source.
    pub position: usize,
}

pub(crate) fn blank(_source: &str) -> Option<(String, Vec<KeyOrder>)> {
    None
}
