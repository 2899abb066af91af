//! Which unsynced bytes of a file survive a power loss.
//!
//! The kernel writes pages back when it likes, in any order, and a page that was written several times goes out as it is then.
//! Sectors of 512 bytes reach the disk whole or not at all. The size of a file and its blocks are recorded apart
//! from each other: a file may have its size and zeros for contents.

use crate::chance::Chance;
use crate::disk::Change;

const SECTOR: usize = 512;

/// One change, whole.
pub(crate) fn apply(contents: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if contents.len() < end {
                contents.resize(end, 0);
            }
            if let Some(place) = contents.get_mut(*offset..end) {
                place.copy_from_slice(bytes);
            }
        }
        Change::Truncate { size } => contents.resize(*size, 0),
        Change::Allocate { end } => {
            if contents.len() < *end {
                contents.resize(*end, 0);
            }
        }
    }
}

pub(crate) fn all(durable: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut contents = durable.to_vec();
    for change in changes {
        apply(&mut contents, change);
    }
    contents
}

pub(crate) fn after_power_loss(durable: &[u8], changes: &[Change], chance: &mut Chance) -> Vec<u8> {
    match chance.below(8) {
        _ if changes.is_empty() => durable.to_vec(),
        0 | 1 => durable.to_vec(),
        2 => all(durable, changes),
        3 | 4 => torn(durable, changes, chance),
        5 => zeros(durable, changes, chance),
        _ => scattered(durable, changes, chance),
    }
}

/// The first changes, the next one in part.
fn torn(durable: &[u8], changes: &[Change], chance: &mut Chance) -> Vec<u8> {
    let whole = chance.up_to(changes.len());
    let mut contents = all(durable, &changes[..whole]);
    if let Some(Change::Write { offset, bytes }) = changes.get(whole) {
        // Up to a border between sectors.
        let sectors = (offset % SECTOR + bytes.len()).div_ceil(SECTOR) as u64;
        let end = (offset / SECTOR + chance.below(sectors) as usize) * SECTOR;
        let bytes = bytes[..end.saturating_sub(*offset).min(bytes.len())].to_vec();
        if !bytes.is_empty() {
            apply(&mut contents, &Change::Write { offset: *offset, bytes });
        }
    }
    contents
}

/// The size of a later moment, and nothing else.
fn zeros(durable: &[u8], changes: &[Change], chance: &mut Chance) -> Vec<u8> {
    let mut contents = durable.to_vec();
    contents.resize(size_after(durable, &changes[..chance.up_to(changes.len())]), 0);
    contents
}

/// Each sector as of a moment of its own, and the size of yet another.
fn scattered(durable: &[u8], changes: &[Change], chance: &mut Chance) -> Vec<u8> {
    let size = size_after(durable, &changes[..chance.up_to(changes.len())]);
    let seed = chance.number();
    let lives = |sector: usize, change: usize| {
        let mut own = Chance::new(seed ^ (sector as u64).wrapping_mul(0x9e37_79b9));
        change < own.up_to(changes.len())
    };
    let mut contents = durable.to_vec();
    for (number, change) in changes.iter().enumerate() {
        match change {
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if contents.len() < end {
                    contents.resize(end, 0);
                }
                for sector in offset / SECTOR..end.div_ceil(SECTOR) {
                    let from = (sector * SECTOR).max(*offset);
                    let to = ((sector + 1) * SECTOR).min(end);
                    if from < to && lives(sector, number) {
                        contents[from..to].copy_from_slice(&bytes[from - offset..to - offset]);
                    }
                }
            }
            Change::Truncate { size } => {
                for sector in size / SECTOR..contents.len().div_ceil(SECTOR) {
                    let from = (sector * SECTOR).max(*size);
                    let to = ((sector + 1) * SECTOR).min(contents.len());
                    if from < to && lives(sector, number) {
                        contents[from..to].fill(0);
                    }
                }
            }
            Change::Allocate { .. } => {}
        }
    }
    contents.resize(size, 0);
    contents
}

fn size_after(durable: &[u8], changes: &[Change]) -> usize {
    changes.iter().fold(durable.len(), |size, change| match change {
        Change::Write { offset, bytes } => size.max(offset + bytes.len()),
        Change::Truncate { size } => *size,
        Change::Allocate { end } => size.max(*end),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: usize, byte: u8, length: usize) -> Change {
        Change::Write { offset, bytes: vec![byte; length] }
    }

    #[test]
    fn every_sector_is_of_some_moment() {
        let durable = vec![1; 3 * SECTOR];
        let changes =
            [write(100, 2, 2 * SECTOR), write(SECTOR, 3, 4 * SECTOR), Change::Truncate { size: 700 }];
        let mut seen = std::collections::HashSet::new();
        for seed in 0..4000 {
            let contents = after_power_loss(&durable, &changes, &mut Chance::new(seed));
            assert!(contents.len() <= 5 * SECTOR);
            let first = contents.iter().take(SECTOR).copied().collect::<Vec<_>>();
            let old = vec![1; SECTOR];
            let new = [vec![1; 100], vec![2; SECTOR - 100]].concat();
            assert!(first == old || first == new, "{first:?}");
            seen.insert(contents);
        }
        for expected in [durable.clone(), all(&durable, &changes), all(&durable, &changes[..1])] {
            assert!(seen.contains(&expected));
        }
        assert!(seen.iter().any(|contents| contents.len() == 5 * SECTOR && contents.ends_with(&[0; SECTOR])));
    }

    #[test]
    fn what_is_durable_stays() {
        let durable = vec![7; 2000];
        for seed in 0..100 {
            assert_eq!(after_power_loss(&durable, &[], &mut Chance::new(seed)), durable);
            // An append never touches what lies before it.
            let contents = after_power_loss(&durable, &[write(2000, 9, 5000)], &mut Chance::new(seed));
            assert!(contents.starts_with(&durable));
        }
    }
}
