//! Key ranges that conditions on key columns allow, computed when a scan starts.

use cairn_txn::KeyRange;
use cairn_types::key::{ColumnOrder, encode_key_column, prefix_successor};
use cairn_types::{Datum, Result};

use crate::context::{ExecContext, Frame};
use crate::expr::Code;

/// What is known of one key column.
#[derive(Clone, Debug)]
pub enum ColumnBound {
    Equal(Code),
    /// `= any (array)`.
    Any(Code),
    IsNull,
    /// Only for the last bound column. Nulls are outside.
    Range {
        low: Option<(Code, bool)>,
        high: Option<(Code, bool)>,
    },
}

/// Conditions on the first columns of a key; none: everything.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    pub columns: Vec<(ColumnBound, ColumnOrder)>,
}

/// The byte between null (first or last) and every value of a column.
const NOT_NULL_LOW: u8 = 0x01;
const NOT_NULL_HIGH: u8 = 0x02;

impl Bounds {
    /// Whether every column is bound to one value.
    pub fn all_equal(&self) -> bool {
        self.columns.iter().all(|(bound, _)| matches!(bound, ColumnBound::Equal(_)))
    }

    /// Appends the key of the only row that can match; false if none can (a null). Only if [`Bounds::all_equal`].
    pub fn point(&self, cx: &ExecContext<'_>, frame: &mut Frame, key: &mut Vec<u8>) -> Result<bool> {
        for (bound, order) in &self.columns {
            let ColumnBound::Equal(code) = bound else { return Ok(false) };
            let value = code.eval(cx, frame)?;
            if value.is_null() {
                return Ok(false);
            }
            encode_key_column(&value, *order, key)?;
        }
        Ok(true)
    }

    /// The ranges of keys behind `prefix`, ascending and without overlap.
    pub fn ranges(&self, prefix: &[u8], cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Vec<KeyRange>> {
        let mut prefixes = vec![prefix.to_vec()];
        let mut ranges = None;
        for (bound, order) in &self.columns {
            match bound {
                ColumnBound::Equal(code) => {
                    let value = code.eval(cx, frame)?;
                    if value.is_null() {
                        return Ok(Vec::new());
                    }
                    for prefix in &mut prefixes {
                        encode_key_column(&value, *order, prefix)?;
                    }
                }
                ColumnBound::IsNull => {
                    for prefix in &mut prefixes {
                        encode_key_column(&Datum::Null, *order, prefix)?;
                    }
                }
                ColumnBound::Any(code) => {
                    let Datum::Array(array) = code.eval(cx, frame)? else { return Ok(Vec::new()) };
                    let mut next = Vec::with_capacity(prefixes.len() * array.elements.len());
                    for prefix in &prefixes {
                        for value in array.elements.iter().filter(|value| !value.is_null()) {
                            let mut key = prefix.clone();
                            encode_key_column(value, *order, &mut key)?;
                            next.push(key);
                        }
                    }
                    prefixes = next;
                }
                ColumnBound::Range { low, high } => {
                    // In a descending column the larger values come first.
                    let (first, last) = if order.desc { (high, low) } else { (low, high) };
                    let mut edge = |bound: &Option<(Code, bool)>| -> Result<Option<(Datum, bool)>> {
                        bound
                            .as_ref()
                            .map(|(code, inclusive)| Ok((code.eval(cx, frame)?, *inclusive)))
                            .transpose()
                    };
                    let (first, last) = (edge(first)?, edge(last)?);
                    if [&first, &last]
                        .iter()
                        .any(|edge| edge.as_ref().is_some_and(|(value, _)| value.is_null()))
                    {
                        return Ok(Vec::new());
                    }
                    let mut list = Vec::with_capacity(prefixes.len());
                    for prefix in &prefixes {
                        let low = match &first {
                            Some((value, inclusive)) => {
                                let mut key = prefix.clone();
                                encode_key_column(value, *order, &mut key)?;
                                if *inclusive { Some(key) } else { prefix_successor(&key) }
                            }
                            None => Some(with_byte(prefix, NOT_NULL_LOW)),
                        };
                        let high = match &last {
                            Some((value, inclusive)) => {
                                let mut key = prefix.clone();
                                encode_key_column(value, *order, &mut key)?;
                                if *inclusive { prefix_successor(&key) } else { Some(key) }
                            }
                            None => Some(with_byte(prefix, NOT_NULL_HIGH)),
                        };
                        if let (Some(low), Some(high)) = (low, high)
                            && low < high
                        {
                            list.push(KeyRange { low, high });
                        }
                    }
                    ranges = Some(list);
                    break;
                }
            }
        }
        let mut ranges = ranges.unwrap_or_else(|| {
            prefixes
                .into_iter()
                .map(|low| {
                    let high = prefix_successor(&low).unwrap_or_else(|| vec![0xFF; low.len() + 1]);
                    KeyRange { low, high }
                })
                .collect()
        });
        if ranges.len() > 1 {
            ranges.sort_by(|a, b| a.low.cmp(&b.low));
            ranges.dedup_by(|next, kept| next.low == kept.low);
        }
        Ok(ranges)
    }
}

fn with_byte(prefix: &[u8], byte: u8) -> Vec<u8> {
    let mut key = Vec::with_capacity(prefix.len() + 1);
    key.extend_from_slice(prefix);
    key.push(byte);
    key
}
