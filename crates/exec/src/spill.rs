//! Rows on disk: what sorts, hash tables and materialized results do when they outgrow `work_mem`.
//!
//! Files have no name and are gone with their handle, also after a crash. A row is written as its length (4 bytes,
//! little-endian) and its values as self-describing datums.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use cairn_types::row::{decode_datum, encode_datum};
use cairn_types::{Datum, Error, Result, Row, err};

use crate::hash::row_bytes;

fn io_error(error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::StorageFull {
        err!(DISK_FULL, "could not write to temporary file: {error}")
    } else {
        err!(IO_ERROR, "could not use temporary file: {error}")
    }
}

/// Rows on disk: each with its length in front, as self-describing datums.
pub struct RunFile {
    reader: BufReader<File>,
    columns: usize,
    left: u64,
}

/// Writes rows to a file that is gone when it is closed; number of bytes and the file.
pub struct RunWriter {
    writer: BufWriter<File>,
    rows: u64,
    bytes: u64,
    buffer: Vec<u8>,
}

impl RunWriter {
    pub fn new() -> Result<Self> {
        let file = tempfile::tempfile().map_err(io_error)?;
        Ok(RunWriter { writer: BufWriter::new(file), rows: 0, bytes: 0, buffer: Vec::new() })
    }

    pub fn write(&mut self, row: &[Datum]) -> Result<()> {
        self.buffer.clear();
        for value in row {
            encode_datum(value, &mut self.buffer);
        }
        self.writer.write_all(&(self.buffer.len() as u32).to_le_bytes()).map_err(io_error)?;
        self.writer.write_all(&self.buffer).map_err(io_error)?;
        self.bytes += 4 + self.buffer.len() as u64;
        self.rows += 1;
        Ok(())
    }

    /// Turns to reading from the start.
    pub fn finish(mut self, columns: usize) -> Result<(RunFile, u64)> {
        self.writer.flush().map_err(io_error)?;
        let mut file = self.writer.into_inner().map_err(|error| io_error(error.into_error()))?;
        file.seek(SeekFrom::Start(0)).map_err(io_error)?;
        Ok((RunFile { reader: BufReader::new(file), columns, left: self.rows }, self.bytes))
    }
}

impl RunFile {
    pub fn next(&mut self) -> Result<Option<Row>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut length = [0; 4];
        self.reader.read_exact(&mut length).map_err(io_error)?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        self.reader.read_exact(&mut bytes).map_err(io_error)?;
        let mut rest = bytes.as_slice();
        let mut row = Row::with_capacity(self.columns);
        for _ in 0..self.columns {
            row.push(decode_datum(&mut rest)?);
        }
        Ok(Some(row))
    }
}

/// Rows set aside by their hash, to be worked on one part at a time.
pub struct Partitions {
    writers: Vec<Option<RunWriter>>,
    /// Hash bits that earlier rounds have used up.
    shift: u32,
    columns: usize,
}

const PARTITION_BITS: u32 = 4;

impl Partitions {
    /// `depth`: how often the rows have been divided before.
    pub fn new(depth: u32, columns: usize) -> Self {
        let writers = (0..1 << PARTITION_BITS).map(|_| None).collect();
        // The low bits choose the slot of a hash table: take others.
        Partitions { writers, shift: 20 + (depth % 10) * PARTITION_BITS, columns }
    }

    pub fn write(&mut self, hash: u64, row: &[Datum]) -> Result<()> {
        let part = (hash >> self.shift) as usize & ((1 << PARTITION_BITS) - 1);
        let slot = &mut self.writers[part];
        match slot {
            Some(writer) => writer.write(row),
            None => slot.insert(RunWriter::new()?).write(row),
        }
    }

    /// The parts that have rows, by number, and their size in bytes.
    pub fn finish(self) -> Result<Vec<Option<(RunFile, u64)>>> {
        let columns = self.columns;
        self.writers
            .into_iter()
            .map(|writer| writer.map(|writer| writer.finish(columns)).transpose())
            .collect()
    }
}

/// A growing list of rows that can be read from anywhere: in memory at first, the later ones in a file.
#[derive(Default)]
pub struct RowStore {
    memory: Vec<Row>,
    bytes: usize,
    file: Option<StoreFile>,
}

struct StoreFile {
    file: File,
    /// Where each row begins; the last one's end behind them.
    offsets: Vec<u64>,
    columns: usize,
    buffer: Vec<u8>,
    /// Written but still in memory: the bytes behind the file's end.
    pending: Vec<u8>,
    flushed: u64,
}

impl RowStore {
    pub fn len(&self) -> usize {
        self.memory.len() + self.file.as_ref().map_or(0, |file| file.offsets.len() - 1)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row; it stays in memory while those there take less than `limit` bytes.
    pub fn push(&mut self, row: Row, limit: usize) -> Result<()> {
        if self.file.is_none() && self.bytes < limit {
            self.bytes += row_bytes(&row);
            self.memory.push(row);
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(StoreFile {
                file: tempfile::tempfile().map_err(io_error)?,
                offsets: vec![0],
                columns: row.len(),
                buffer: Vec::new(),
                pending: Vec::new(),
                flushed: 0,
            });
        }
        match &mut self.file {
            Some(file) => file.push(&row),
            None => Ok(()),
        }
    }

    /// The row at a position.
    pub fn get(&mut self, index: usize) -> Result<Option<Row>> {
        if let Some(row) = self.memory.get(index) {
            return Ok(Some(row.clone()));
        }
        match &mut self.file {
            Some(file) => file.get(index - self.memory.len()),
            None => Ok(None),
        }
    }
}

impl StoreFile {
    fn push(&mut self, row: &[Datum]) -> Result<()> {
        let before = self.pending.len();
        for value in row {
            encode_datum(value, &mut self.pending);
        }
        let end = self.offsets.last().copied().unwrap_or(0) + (self.pending.len() - before) as u64;
        self.offsets.push(end);
        if self.pending.len() > 1 << 16 {
            self.file.write_all_at(&self.pending, self.flushed).map_err(io_error)?;
            self.flushed += self.pending.len() as u64;
            self.pending.clear();
        }
        Ok(())
    }

    fn get(&mut self, index: usize) -> Result<Option<Row>> {
        let (Some(start), Some(end)) =
            (self.offsets.get(index).copied(), self.offsets.get(index + 1).copied())
        else {
            return Ok(None);
        };
        let mut bytes = if start >= self.flushed {
            let start = (start - self.flushed) as usize;
            &self.pending[start..start + (end - self.offsets[index]) as usize]
        } else {
            self.buffer.resize((end - start) as usize, 0);
            self.file.read_exact_at(&mut self.buffer, start).map_err(io_error)?;
            &self.buffer[..]
        };
        let mut row = Row::with_capacity(self.columns);
        for _ in 0..self.columns {
            row.push(decode_datum(&mut bytes)?);
        }
        Ok(Some(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_memory_and_file() {
        let mut store = RowStore::default();
        for number in 0..20_000 {
            store
                .push(vec![Datum::Int4(number), Datum::text(format!("row {number}")), Datum::Null], 10_000)
                .unwrap();
        }
        assert_eq!(store.len(), 20_000);
        for number in [0, 19_999, 5, 12_345, 70] {
            let row = store.get(number as usize).unwrap().unwrap();
            assert!(matches!(row[0], Datum::Int4(found) if found == number));
            assert!(row[2].is_null());
        }
        assert!(store.get(20_000).unwrap().is_none());
    }
}
