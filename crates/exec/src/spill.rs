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

/// Rows in a file, read in order while more are written, as often as wanted; the last ones can be taken back.
pub struct RowLog {
    file: File,
    columns: usize,
    /// Bytes in the file; those of `pending` come behind them.
    flushed: u64,
    pending: Vec<u8>,
}

/// How far a log has been read.
#[derive(Debug, Default)]
pub struct LogReader {
    /// Where in the log the next row begins.
    at: u64,
    /// The log's bytes from `at` on, so far as they were read; behind `start`.
    buffer: Vec<u8>,
    start: usize,
}

impl LogReader {
    pub fn new(at: u64) -> Self {
        LogReader { at, ..LogReader::default() }
    }

    /// Where the next row begins.
    pub fn at(&self) -> u64 {
        self.at
    }
}

/// So much is written, and read, at once.
const LOG_PIECE: usize = 1 << 16;

impl RowLog {
    pub fn new(columns: usize) -> Result<Self> {
        let file = tempfile::tempfile().map_err(io_error)?;
        Ok(RowLog { file, columns, flushed: 0, pending: Vec::new() })
    }

    /// Where the next row will begin, in bytes.
    pub fn end(&self) -> u64 {
        self.flushed + self.pending.len() as u64
    }

    pub fn push(&mut self, row: &[Datum]) -> Result<()> {
        let begin = self.pending.len();
        self.pending.extend_from_slice(&[0; 4]);
        for value in row {
            encode_datum(value, &mut self.pending);
        }
        let length = (self.pending.len() - begin - 4) as u32;
        self.pending[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
        if self.pending.len() >= LOG_PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all_at(&self.pending, self.flushed).map_err(io_error)?;
        self.flushed += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Takes back the rows that begin at `end` or behind it. Readers read ahead: whoever reads on then needs a new one.
    pub fn cut(&mut self, end: u64) {
        match end.checked_sub(self.flushed) {
            Some(kept) => self.pending.truncate(kept as usize),
            None => {
                // What the file has behind it is written over.
                self.flushed = end;
                self.pending.clear();
            }
        }
    }

    /// The next row for this reader; `None` where there is none yet.
    pub fn next(&mut self, reader: &mut LogReader) -> Result<Option<Row>> {
        if reader.at >= self.end() {
            return Ok(None);
        }
        let length = self.read(reader, 4)?;
        let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let bytes = self.read(reader, 4 + length)?;
        let mut rest = &bytes[4..];
        let mut row = Row::with_capacity(self.columns);
        for _ in 0..self.columns {
            row.push(decode_datum(&mut rest)?);
        }
        reader.start += 4 + length;
        reader.at += 4 + length as u64;
        Ok(Some(row))
    }

    /// So many bytes from the reader's place on, which the log must have.
    fn read<'r>(&mut self, reader: &'r mut LogReader, wanted: usize) -> Result<&'r [u8]> {
        let have = reader.buffer.len() - reader.start;
        if have < wanted {
            self.flush()?;
            reader.buffer.drain(..reader.start);
            reader.start = 0;
            let from = reader.at + have as u64;
            let more = self.flushed.saturating_sub(from).min(LOG_PIECE.max(wanted) as u64) as usize;
            reader.buffer.resize(have + more, 0);
            self.file.read_exact_at(&mut reader.buffer[have..], from).map_err(io_error)?;
        }
        reader
            .buffer
            .get(reader.start..reader.start + wanted)
            .ok_or_else(|| Error::internal("a temporary file ends in the middle of a row"))
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

    fn numbered(number: i32) -> [Datum; 2] {
        [Datum::Int4(number), Datum::text("x".repeat(number as usize % 300))]
    }

    fn next(log: &mut RowLog, reader: &mut LogReader) -> Option<i32> {
        let row = log.next(reader).unwrap()?;
        let Datum::Int4(number) = row[0] else { panic!("{row:?}") };
        assert_eq!(format!("{row:?}"), format!("{:?}", numbered(number)));
        Some(number)
    }

    #[test]
    fn a_log_is_read_while_it_grows_and_loses_its_end() {
        let mut log = RowLog::new(2).unwrap();
        let mut reader = LogReader::default();
        assert_eq!(next(&mut log, &mut reader), None);
        let mut places = Vec::new();
        for number in 0..5000 {
            places.push(log.end());
            log.push(&numbered(number)).unwrap();
            if number % 2 == 1 {
                assert_eq!(next(&mut log, &mut reader), Some(number / 2));
            }
        }
        let mut other = LogReader::new(places[4990]);
        assert_eq!(
            (0..3).map(|_| next(&mut log, &mut other)).collect::<Vec<_>>(),
            [4990, 4991, 4992].map(Some)
        );
        // In what is still in memory, then in the file.
        for kept in [4995, 3000] {
            log.cut(places[kept]);
            log.push(&numbered(7)).unwrap();
            let mut other = LogReader::new(places[kept - 1]);
            let expected = [Some(kept as i32 - 1), Some(7), None];
            assert_eq!([(); 3].map(|()| next(&mut log, &mut other)), expected);
        }
        let mut reader = LogReader::new(places[2500]);
        assert_eq!(std::iter::from_fn(|| next(&mut log, &mut reader)).count(), 501);
        log.cut(0);
        assert_eq!(next(&mut log, &mut LogReader::default()), None);
        // A row larger than a piece.
        log.push(&[Datum::Int4(1), Datum::text("y".repeat(3 * LOG_PIECE))]).unwrap();
        let row = log.next(&mut LogReader::default()).unwrap().unwrap();
        assert!(matches!(&row[1], Datum::Text(text) if text.len() == 3 * LOG_PIECE));
    }

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
