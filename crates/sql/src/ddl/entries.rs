//! Keys and values on their way into a new storage, which takes them in key order.
//!
//! What does not fit into memory is sorted in runs, each in a temporary file of its own, and merged. A run is
//! `key length (4, little-endian), value length (4), key, value` for each entry; the files have no names and go with
//! the process.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};

use cairn_exec::TxnResultExt;
use cairn_types::{Error, Result, err};

use super::context::DdlContext;

/// Bytes of entries that are sorted in memory at a time (PostgreSQL's maintenance_work_mem).
const RUN_BYTES: usize = 64 << 20;
/// What an entry takes besides its key and value.
const ENTRY_OVERHEAD: usize = 2 * std::mem::size_of::<Vec<u8>>();

type Entry = (Vec<u8>, Vec<u8>);

#[derive(Default)]
pub struct Entries {
    entries: Vec<Entry>,
    bytes: usize,
    runs: Vec<File>,
}

fn file_error(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull => err!(DISK_FULL, "could not write to a temporary file: {error}"),
        _ => err!(IO_ERROR, "temporary file: {error}"),
    }
}

impl Entries {
    pub fn add(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.bytes += key.len() + value.len() + ENTRY_OVERHEAD;
        self.entries.push((key, value));
        if self.bytes >= RUN_BYTES { self.end_run() } else { Ok(()) }
    }

    fn end_run(&mut self) -> Result<()> {
        self.entries.sort_unstable();
        let mut file = tempfile::tempfile().map_err(file_error)?;
        let mut writer = BufWriter::with_capacity(1 << 20, &mut file);
        for (key, value) in self.entries.drain(..) {
            writer.write_all(&(key.len() as u32).to_le_bytes()).map_err(file_error)?;
            writer.write_all(&(value.len() as u32).to_le_bytes()).map_err(file_error)?;
            writer.write_all(&key).map_err(file_error)?;
            writer.write_all(&value).map_err(file_error)?;
        }
        writer.flush().map_err(file_error)?;
        drop(writer);
        file.rewind().map_err(file_error)?;
        self.bytes = 0;
        self.runs.push(file);
        Ok(())
    }

    /// Writes all in key order; `duplicate` makes the error where a key is there twice.
    pub fn write(mut self, cx: &DdlContext<'_>, duplicate: impl Fn() -> Result<Error>) -> Result<()> {
        let mut previous: Option<Vec<u8>> = None;
        let mut count = 0u32;
        self.merge(&mut |key, value| {
            if previous.as_deref() == Some(&*key) {
                return Err(duplicate()?);
            }
            count = count.wrapping_add(1);
            if count & 0xFFF == 0 {
                cx.env.check_interrupts()?;
            }
            cx.txn.bulk_put(&key, &value).sql()?;
            previous = Some(key);
            Ok(())
        })
    }

    /// Hands out all entries in key order.
    fn merge(&mut self, sink: &mut dyn FnMut(Vec<u8>, Vec<u8>) -> Result<()>) -> Result<()> {
        self.entries.sort_unstable();
        if self.runs.is_empty() {
            for (key, value) in self.entries.drain(..) {
                sink(key, value)?;
            }
            return Ok(());
        }
        if !self.entries.is_empty() {
            self.end_run()?;
        }
        let mut readers: Vec<BufReader<File>> =
            self.runs.drain(..).map(|run| BufReader::with_capacity(1 << 20, run)).collect();
        let mut heads: BinaryHeap<Reverse<(Entry, usize)>> = BinaryHeap::new();
        for (at, reader) in readers.iter_mut().enumerate() {
            if let Some(entry) = next(reader)? {
                heads.push(Reverse((entry, at)));
            }
        }
        while let Some(Reverse(((key, value), at))) = heads.pop() {
            sink(key, value)?;
            if let Some(entry) = readers.get_mut(at).map(next).transpose()?.flatten() {
                heads.push(Reverse((entry, at)));
            }
        }
        Ok(())
    }
}

fn next(reader: &mut BufReader<File>) -> Result<Option<Entry>> {
    let mut lengths = [0; 8];
    match reader.read_exact(&mut lengths) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(file_error(error)),
    }
    let length = |at: usize| {
        u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]) as usize
    };
    let mut key = vec![0; length(0)];
    let mut value = vec![0; length(4)];
    reader.read_exact(&mut key).map_err(file_error)?;
    reader.read_exact(&mut value).map_err(file_error)?;
    Ok(Some((key, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_merged_in_order() {
        let mut entries = Entries::default();
        for number in 0..1000u32 {
            let scrambled = number.wrapping_mul(2_654_435_761) % 1000;
            entries.add(scrambled.to_be_bytes().to_vec(), number.to_be_bytes().to_vec()).unwrap();
            if number % 300 == 299 {
                entries.end_run().unwrap();
            }
        }
        let mut keys = Vec::new();
        entries
            .merge(&mut |key, _| {
                keys.push(key);
                Ok(())
            })
            .unwrap();
        assert_eq!(keys.len(), 1000);
        assert!(keys.is_sorted());
    }
}
