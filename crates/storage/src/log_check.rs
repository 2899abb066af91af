//! What a log may look like before RocksDB opens it.
//!
//! RocksDB replays a log up to the first record that is not whole, and says nothing of what lies behind. After a crash that is
//! right: what was not synced may be there in part, in any order. If a record breaks later (a bit of the disk, somebody's
//! hand), it is not: acknowledged commits lie behind it. [`check`] tells the two apart.
//!
//! **Which records were durable.** Every batch of the engine begins with a [`Note`]: the sequence number up to which
//! everything was synced when the batch was made. Sequence numbers ascend through the logs. So if the first whole record behind a
//! broken one has sequence number F, and it or one behind it notes that everything before F was synced, then the broken record was
//! durable once, and no crash has broken it: the directory is refused. If none does, the broken record may be one that a power loss
//! has torn, and so may be all behind it: they are dropped, as RocksDB does. What cannot be told apart, then: damage
//! to the last records of a log, those with nothing behind them that was written after their fsync.
//!
//! After recovery, sequence numbers go on where the whole records ended, in a new log. A crash may leave the old log, with its torn
//! end, beside the new one; nobody reads it again. So a note tells the first log of its process, too, and says nothing of
//! logs before that.
//!
//! **Holes.** A log's size reaches over blocks that are not written yet ([`crate::log_files`]), and those read as zeros. RocksDB takes
//! a record header of zeros for padding and reads on in the next block, over a hole, if the hole begins right where a
//! record does. Such a log is cut off there.
//!
//! What is known here of a log's format (RocksDB, `db/log_format.h`, `db/write_batch.cc`): blocks of 32 KB, filled with
//!
//! ```text
//! checksum u32 | length u16 | type u8 | [log number u32: types 5 to 8, 11, 131] | payload (length bytes)
//! ```
//!
//! The checksum is over all behind the length. Types 1 and 2 begin a batch (2: it goes on in records of type 3, up to one of
//! type 4). No record crosses the end of a block; fewer than 7 bytes at its end are padding. A batch:
//!
//! ```text
//! sequence number u64 | count u32 | 03 (not for the memtable) | 0D (length) | 01 | synced u64 | first log u32 | ...
//! ```
//!
//! Numbers are little endian.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

use crate::log_files::{Log, logs, read_at};
use crate::{Error, Result};

/// As RocksDB stores a CRC-32C: the checksum of bytes that contain checksums would be weak.
fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
const NUMBERED_HEADER_BYTES: usize = 11;

/// Types of records that begin a batch.
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;

const NOTE_BYTES: usize = 13;
const NOTE_VERSION: u8 = 1;
/// Sequence number, count, the note with its type and length.
const BATCH_START_BYTES: usize = 12 + 2 + NOTE_BYTES;

/// What a batch begins with: in logs from `first_log` on, everything up to the sequence number `synced` is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) synced: u64,
    pub(crate) first_log: u32,
}

impl Note {
    pub(crate) fn encode(self) -> [u8; NOTE_BYTES] {
        let mut bytes = [NOTE_VERSION; NOTE_BYTES];
        bytes[1..9].copy_from_slice(&self.synced.to_le_bytes());
        bytes[9..].copy_from_slice(&self.first_log.to_le_bytes());
        bytes
    }

    /// From the entries of a batch.
    fn read(entries: &[u8]) -> Option<Note> {
        let [3, length, NOTE_VERSION, rest @ ..] = entries else { return None };
        let (synced, rest) = rest.split_first_chunk::<8>()?;
        let first_log = rest.first_chunk::<4>().filter(|_| usize::from(*length) == NOTE_BYTES)?;
        Some(Note { synced: u64::from_le_bytes(*synced), first_log: u32::from_le_bytes(*first_log) })
    }
}

/// What is known of a batch from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BatchStart {
    sequence: u64,
    note: Option<Note>,
}

impl BatchStart {
    fn read(payload: &[u8]) -> Option<BatchStart> {
        let (sequence, rest) = payload.split_first_chunk::<8>()?;
        let (_count, entries) = rest.split_first_chunk::<4>()?;
        // RocksDB has 56 bits for it.
        let sequence = u64::from_le_bytes(*sequence);
        (sequence < 1 << 56).then(|| BatchStart { sequence, note: Note::read(entries) })
    }
}

/// One physical record.
#[derive(Debug, PartialEq, Eq)]
enum Found<'block> {
    Whole {
        kind: u8,
        payload: &'block [u8],
        bytes: usize,
    },
    /// A header of zeros, as RocksDB sees it.
    Zeros,
    Broken,
    /// The rest of the block is too small for a header.
    Padding,
}

fn record_at(block: &[u8], at: usize) -> Found<'_> {
    if at + HEADER_BYTES > BLOCK_BYTES {
        return Found::Padding;
    }
    let Some(header) = block.get(at..at + HEADER_BYTES) else { return Found::Broken };
    if header[4..] == [0; 3] {
        return Found::Zeros;
    }
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let kind = header[6];
    let header_bytes = match kind {
        5..=8 | 11 | 131 => NUMBERED_HEADER_BYTES,
        _ => HEADER_BYTES,
    };
    let bytes = header_bytes + length;
    let Some(checked) = block.get(at + 6..at + bytes) else { return Found::Broken };
    if masked_crc32c(checked).to_le_bytes() != header[..4] {
        return Found::Broken;
    }
    Found::Whole { kind, payload: &checked[header_bytes - 6..], bytes }
}

/// Where the records of a log end before the log does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Break {
    offset: u64,
    is_hole: bool,
}

/// Reads a log from its beginning.
fn first_break(file: &File) -> io::Result<Option<Break>> {
    let length = file.metadata()?.len();
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    // Where the batch began whose records have not ended.
    let mut open_batch = None;
    while at < length {
        let filled = read_at(file, &mut block, at)?;
        let mut within = 0;
        loop {
            let offset = at + within as u64;
            match record_at(&block[..filled], within) {
                Found::Whole { kind, bytes, .. } => {
                    match kind {
                        FIRST => open_batch = Some(offset),
                        MIDDLE => {}
                        _ => open_batch = None,
                    }
                    within += bytes;
                }
                Found::Padding => break,
                // The last one may have ended right here.
                Found::Broken if within == filled && offset == length => break,
                Found::Broken => return Ok(Some(Break { offset, is_hole: false })),
                // A header that was torn has its checksum at most.
                Found::Zeros if has_data(file, offset + HEADER_BYTES as u64, length)? => {
                    return Ok(Some(Break { offset, is_hole: true }));
                }
                Found::Zeros => {
                    return Ok(open_batch.map(|offset| Break { offset, is_hole: false }));
                }
            }
        }
        at += BLOCK_BYTES as u64;
    }
    Ok(open_batch.map(|offset| Break { offset, is_hole: false }))
}

/// What lies behind a break.
#[derive(Debug, Default)]
struct Behind {
    /// Number of the log with the break.
    log: u64,
    /// Sequence number of the first whole batch.
    first: Option<u64>,
    /// The largest number that was noted as durable in that log.
    synced: u64,
    batches: u64,
    bytes: u64,
}

impl Behind {
    /// Looks at the log from a place on at which a record need not begin.
    fn look(&mut self, file: &File, from: u64) -> io::Result<()> {
        let length = file.metadata()?.len();
        let mut block = vec![0; BLOCK_BYTES];
        let mut at = from / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let mut within = (from - at) as usize;
        let mut end = from;
        while at < length && has_data(file, at, length)? {
            let filled = read_at(file, &mut block, at)?;
            while within + HEADER_BYTES < filled {
                match batch_at(&block[..filled], within, self.first.unwrap_or(0)) {
                    Some((batch, bytes)) => {
                        self.first.get_or_insert(batch.sequence);
                        let note = batch.note.filter(|note| u64::from(note.first_log) <= self.log);
                        self.synced = self.synced.max(note.map_or(0, |note| note.synced));
                        self.batches += 1;
                        within += bytes;
                        end = at + within as u64;
                    }
                    None => within += 1,
                }
            }
            at += BLOCK_BYTES as u64;
            within = 0;
        }
        self.bytes += end - from;
        Ok(())
    }

    /// Whether all that lies before was durable.
    fn follows_what_was_durable(&self) -> bool {
        self.first.is_some_and(|first| first > 0 && self.synced >= first - 1)
    }
}

/// A record that begins a batch, if there is one at this place, and its size. Cheap where there is none.
fn batch_at(block: &[u8], at: usize, lowest: u64) -> Option<(BatchStart, usize)> {
    let kind = *block.get(at + 6)?;
    if kind != FULL && kind != FIRST {
        return None;
    }
    let payload = block.get(at + HEADER_BYTES..)?;
    let batch = BatchStart::read(&payload[..payload.len().min(BATCH_START_BYTES)])?;
    if batch.sequence < lowest {
        return None;
    }
    match record_at(block, at) {
        Found::Whole { payload, bytes, .. } => Some((BatchStart::read(payload)?, bytes)),
        _ => None,
    }
}

/// To be called before RocksDB opens the directory: ends logs at holes, and refuses logs of which durable records are broken
/// ([`Error::DamagedLog`]), unless `gives_up` says that what lies behind may be given up. Safe beside a server that has the
/// directory open: there, what comes first is written first.
pub(crate) fn check(directory: &Path, gives_up: bool) -> Result<()> {
    let logs = logs(directory).map_err(|source| Error::File { path: directory.to_owned(), source })?;
    for (index, log) in logs.iter().enumerate() {
        check_log(log, &logs[index + 1..], gives_up)
            .map_err(|source| Error::File { path: log.path.clone(), source })??;
    }
    Ok(())
}

fn check_log(log: &Log, later: &[Log], gives_up: bool) -> io::Result<Result<()>> {
    let Some(file) = log.open()? else { return Ok(Ok(())) };
    let Some(end) = first_break(&file)? else { return Ok(Ok(())) };
    let mut behind = Behind { log: log.number, ..Behind::default() };
    behind.look(&file, end.offset + 1)?;
    for log in later {
        if let Some(file) = log.open()? {
            behind.look(&file, 0)?;
        }
    }
    // Somebody may be writing: then what lies before the data that was seen is there by now.
    if first_break(&file)? != Some(end) {
        return Ok(Ok(()));
    }
    let Behind { batches, bytes, .. } = behind;
    let (path, offset) = (log.path.display(), end.offset);
    if behind.follows_what_was_durable() {
        if !gives_up {
            return Ok(Err(Error::DamagedLog { path: log.path.clone(), offset, batches, bytes }));
        }
        tracing::warn!(%path, offset, batches, bytes, "the log is damaged; what lies behind is given up");
    } else if end.is_hole || batches > 0 {
        tracing::warn!(%path, offset, batches, bytes, "what lies behind a torn write was never durable: dropped");
    }
    if end.is_hole {
        // A byte of a header tells RocksDB that the log has no proper end, and that no other log goes on from there.
        let length = if later.is_empty() { offset } else { offset + 1 };
        let file = OpenOptions::new().write(true).open(&log.path)?;
        file.set_len(length)?;
        file.sync_all()?;
    }
    Ok(Ok(()))
}

/// Whether a byte from `from` on is not zero.
fn has_data(file: &File, from: u64, length: u64) -> io::Result<bool> {
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut at = from;
    while at < length {
        // Over what was never written; a file system that does not know says that everything was.
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.max(at),
            Err(rustix::io::Errno::NXIO) => return Ok(false),
            Err(_) => at,
        };
        let filled = read_at(file, &mut buffer, at)?;
        if filled == 0 {
            return Ok(false);
        }
        if buffer[..filled].iter().any(|&byte| byte != 0) {
            return Ok(true);
        }
        at += filled as u64;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Engine, EngineOptions, Resources};

    /// A log as RocksDB writes it.
    #[derive(Default)]
    struct Writer {
        bytes: Vec<u8>,
        /// Where the records begin.
        records: Vec<usize>,
        next: u64,
    }

    impl Writer {
        fn at(next: u64) -> Self {
            Writer { next, ..Writer::default() }
        }

        fn record(&mut self, kind: u8, payload: &[u8]) {
            self.records.push(self.bytes.len());
            let checked = [&[kind], payload].concat();
            self.bytes.extend(masked_crc32c(&checked).to_le_bytes());
            self.bytes.extend((payload.len() as u16).to_le_bytes());
            self.bytes.extend(checked);
        }

        /// A batch of one change, of about so many bytes.
        fn batch(&mut self, synced: u64, first_log: u32, bytes: usize) -> &mut Self {
            let note = Note { synced, first_log }.encode();
            let mut batch =
                [&self.next.to_le_bytes()[..], &[1, 0, 0, 0, 3, NOTE_BYTES as u8], &note].concat();
            batch.resize(batch.len() + bytes, 0x55);
            self.next += 1;
            let mut rest = &batch[..];
            let mut begun = false;
            loop {
                let mut left = BLOCK_BYTES - self.bytes.len() % BLOCK_BYTES;
                if left < HEADER_BYTES {
                    self.bytes.resize(self.bytes.len() + left, 0);
                    left = BLOCK_BYTES;
                }
                let (part, behind) = rest.split_at(rest.len().min(left - HEADER_BYTES));
                let kind = match (begun, behind.is_empty()) {
                    (false, true) => FULL,
                    (false, false) => FIRST,
                    (true, false) => MIDDLE,
                    (true, true) => 4,
                };
                self.record(kind, part);
                (begun, rest) = (true, behind);
                if rest.is_empty() {
                    return self;
                }
            }
        }
    }

    /// Checks the logs of a directory, the first of which has number 4, and gives them back.
    fn check_all(logs: &[&[u8]], gives_up: bool) -> Result<Vec<Vec<u8>>> {
        let directory = tempfile::tempdir().unwrap();
        let path = |index| directory.path().join(format!("{:06}.log", index + 4));
        for (index, log) in logs.iter().enumerate() {
            std::fs::write(path(index), log).unwrap();
        }
        check(directory.path(), gives_up)?;
        Ok((0..logs.len()).map(|index| std::fs::read(path(index)).unwrap()).collect())
    }

    fn cut(log: &[u8]) -> usize {
        check_all(&[log], false).unwrap()[0].len()
    }

    fn damaged_at(logs: &[&[u8]]) -> Option<u64> {
        match check_all(logs, false) {
            Ok(_) => None,
            Err(Error::DamagedLog { offset, .. }) => Some(offset),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn what_lies_behind_a_hole_is_cut_off() {
        let mut log = Writer::at(10);
        log.batch(0, 4, 100).batch(0, 4, 200);
        let end = log.bytes.len();
        log.bytes.resize(BLOCK_BYTES, 0);
        log.batch(9, 4, 50);
        assert_eq!(cut(&log.bytes), end);
        // In the same block, too.
        let mut log = Writer::at(10);
        log.batch(0, 4, 100);
        let end = log.bytes.len();
        log.bytes.resize(4096, 0);
        log.batch(9, 4, 50);
        assert_eq!(cut(&log.bytes), end);
        // RocksDB looks at neither checksum.
        log.bytes[end] = 1;
        assert_eq!(cut(&log.bytes), end);
        // From the very beginning.
        let mut log = Writer { bytes: vec![0; BLOCK_BYTES], ..Writer::at(10) };
        log.batch(0, 4, 50);
        assert_eq!(cut(&log.bytes), 0);
        // In a log that another one follows, RocksDB must notice.
        let next = Writer::at(12).batch(0, 4, 10).bytes.clone();
        let after = check_all(&[&log.bytes, &next], false).unwrap();
        assert_eq!((&after[0][..], &after[1]), (&[0][..], &next));
    }

    #[test]
    fn a_whole_log_stays_as_it_is() {
        let mut log = Writer::at(10);
        log.batch(0, 4, BLOCK_BYTES - 7 - BATCH_START_BYTES - 5).batch(10, 4, 300).batch(
            11,
            4,
            3 * BLOCK_BYTES,
        );
        log.batch(12, 4, 1);
        let whole = log.bytes;
        assert_eq!(log.records[1], BLOCK_BYTES, "the second block begins after five bytes of padding");
        assert_eq!(cut(&whole), whole.len());
        // With room ahead.
        let mut roomy = whole.clone();
        roomy.resize(10 * BLOCK_BYTES, 0);
        assert_eq!(cut(&roomy), roomy.len());
        // A torn end is RocksDB's matter.
        for torn in (0..400).step_by(3) {
            let mut torn = whole[..whole.len() - torn].to_vec();
            assert_eq!(cut(&torn), torn.len());
            torn.resize(10 * BLOCK_BYTES, 0);
            assert_eq!(cut(&torn), torn.len());
        }
        assert_eq!(cut(&[]), 0);
    }

    /// Whatever byte of a record that was synced is changed: it is found out, unless nothing behind was written later.
    #[test]
    fn damage_to_what_was_durable_is_refused() {
        let mut log = Writer::at(10);
        for number in 0..40 {
            log.batch(9 + number, 4, 2_000);
        }
        log.bytes.resize(log.bytes.len() + BLOCK_BYTES, 0);
        let last = *log.records.last().unwrap();
        for at in (0..log.bytes.len()).step_by(397).chain(0..60).chain(last - 30..last + 30) {
            let mut bytes = log.bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            // Of a batch in two records, the first.
            let broken = log.records.iter().rposition(|&record| record <= at).unwrap();
            let found = damaged_at(&[&bytes]);
            let expected = (at < last).then_some(log.records[broken] as u64);
            if at < last || at >= last + 2_000 + HEADER_BYTES + BATCH_START_BYTES {
                let is_padding = expected.is_some_and(|record| record / 32768 != at as u64 / 32768);
                assert!(
                    found == expected || is_padding && found.is_none(),
                    "byte {at}: {found:?}, {expected:?}"
                );
            }
            if found.is_some() {
                assert_eq!(check_all(&[&bytes], true).unwrap()[0], bytes, "RocksDB stops there by itself");
            }
        }
        // Zeros are no excuse: a block, a record's head.
        for (from, to) in
            [(4096, 8192), (log.records[3], log.records[3] + 7), (log.records[3], log.records[9])]
        {
            let mut bytes = log.bytes.clone();
            bytes[from..to].fill(0);
            assert!(damaged_at(&[&bytes]).is_some(), "{from}..{to}");
            let given_up = check_all(&[&bytes], true).unwrap().remove(0);
            assert!(given_up.len() == bytes.len() || given_up.len() == from);
        }
        // What a newer log notes counts, too, and what is missing at the end of the older one.
        let next = Writer::at(log.next).batch(log.next - 1, 4, 10).bytes.clone();
        let mut bytes = log.bytes[..last + 1_000].to_vec();
        assert_eq!(damaged_at(&[&bytes, &next]), Some(last as u64));
        bytes[last + 50] ^= 1;
        assert_eq!(damaged_at(&[&bytes, &next]), Some(last as u64));
    }

    /// A power loss leaves any part of what was not synced.
    #[test]
    fn a_torn_end_is_not_damage() {
        let mut log = Writer::at(10);
        log.batch(9, 4, 300).batch(10, 4, 300);
        let synced = log.bytes.len();
        // Several that one fsync was to cover, and those that came meanwhile.
        for _ in 0..40 {
            log.batch(11, 4, 500);
        }
        for sector in synced / 512 + 1..log.bytes.len() / 512 {
            let mut bytes = log.bytes.clone();
            bytes[sector * 512..(sector + 1) * 512].fill(0);
            assert_eq!(damaged_at(&[&bytes]), None, "sector {sector}");
        }
        // An older process's log, beside the one that went on where it ended.
        let mut bytes = log.bytes.clone();
        bytes[synced + 100] ^= 1;
        let mut next = Writer::at(12);
        for number in 0..9 {
            next.batch(11 + number, 5, 100);
        }
        assert_eq!(damaged_at(&[&bytes, &next.bytes]), None);
        // Damage to that one is.
        next.bytes[20] ^= 1;
        assert_eq!(damaged_at(&[&bytes, &next.bytes]), Some(0));
    }

    #[test]
    fn the_engine_writes_notes() {
        let directory = tempfile::tempdir().unwrap();
        let resources = Resources::new(256 << 20, 64 << 20);
        let clock = Clock::system();
        let open = || Engine::open(directory.path(), &EngineOptions::default(), &resources, &clock);
        open().unwrap().close(crate::Timestamp(1)).unwrap();
        let engine = open().unwrap();
        for number in 0..50u32 {
            let mut batch = engine.batch();
            batch.put_record(&number.to_be_bytes(), &[0; 900]);
            engine.write(batch).unwrap();
            engine.sync().unwrap();
        }
        let log = logs(directory.path()).unwrap().pop().unwrap();
        let file = log.open().unwrap().unwrap();
        assert_eq!(first_break(&file).unwrap(), None, "the checksums are RocksDB's");
        let mut behind = Behind { log: log.number, ..Behind::default() };
        behind.look(&file, 0).unwrap();
        assert!(behind.batches >= 50, "{behind:?}");
        assert_eq!(behind.synced, engine.db.latest_sequence_number() - 1);
        // It is at the end of the other log that a process begins.
        behind = Behind { log: log.number - 1, ..Behind::default() };
        behind.look(&file, 0).unwrap();
        assert_eq!(behind.synced, 0);
    }
}
