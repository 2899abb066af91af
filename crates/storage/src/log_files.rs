//! What the write-ahead log needs beyond what RocksDB does with it.
//!
//! **Room ahead.** RocksDB allocates a log's blocks in advance, but leaves its size to grow with every write. Then each
//! `fdatasync` has to make the new size durable too, which on ext4 is a commit of the journal: 204 µs instead of 159 µs on the machine where
//! it was measured. [`LogFiles::make_room`] lets the size reach over the blocks that are there. It never shrinks a file and never writes
//! into one, so that it may run at any moment beside the writer.
//!
//! **Holes.** The price: while the size was growing, a power failure left a log whose end was torn, with nothing behind. Now its
//! unwritten part reads as zeros, and pages of the last, unsynced writes may be there behind others that are not. RocksDB takes a
//! record header of zeros for padding and reads on in the next block, over a hole, if the hole begins right where a
//! record does. [`cut_at_holes`] ends a log at such a place before RocksDB opens it.
//!
//! What is known here of a log's format (RocksDB, `db/log_format.h`): blocks of 32 KB, filled with
//!
//! ```text
//! checksum u32 | length u16 little endian | type u8 | [log number u32: types 5 to 8, 11, 131] | payload (length bytes)
//! ```
//!
//! No record crosses the end of a block; fewer than 7 bytes at its end are padding.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
const NUMBERED_HEADER_BYTES: usize = 11;

/// The logs of a directory that is open.
#[derive(Debug, Default)]
pub(crate) struct LogFiles {
    /// The newest log that has been given room.
    roomy: Option<PathBuf>,
}

impl LogFiles {
    /// To be called now and then: makes the size of a log that is new reach over all of its blocks. Only speed depends on it.
    pub(crate) fn make_room(&mut self, directory: &Path) {
        match self.try_make_room(directory) {
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, path = %directory.display(), "the log grows as it goes"),
        }
    }

    fn try_make_room(&mut self, directory: &Path) -> io::Result<()> {
        // Numbers are padded to the same width, and one that outgrows it is longer.
        let newest = logs(directory)?.into_iter().max_by_key(|path| (path.as_os_str().len(), path.clone()));
        if newest == self.roomy {
            return Ok(());
        }
        let Some(path) = newest else { return Ok(()) };
        let metadata = path.metadata()?;
        let allocated = metadata.blocks() * 512;
        // With its first write, a log gets its blocks.
        if allocated > metadata.len() {
            let file = OpenOptions::new().write(true).open(&path)?;
            fallocate(&file, FallocateFlags::empty(), 0, allocated)?;
            self.roomy = Some(path);
        }
        Ok(())
    }
}

fn logs(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Bytes of a log up to the first page that was never written: its size without the room ahead.
pub fn written_bytes(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    seek(&file, SeekFrom::Hole(0)).or_else(|_| file.metadata().map(|metadata| metadata.len()))
}

/// Ends every log of the directory at its first hole. Safe beside a server that has the directory open: there, what comes
/// first is written first.
pub(crate) fn cut_at_holes(directory: &Path) -> io::Result<()> {
    for path in logs(directory)? {
        let file = File::open(&path)?;
        if let Some(at) = first_hole(&file)? {
            tracing::warn!(path = %path.display(), at, "writes behind a hole in the log were never durable: dropped");
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(at)?;
            file.sync_all()?;
        }
    }
    Ok(())
}

/// Where records end, if something follows after a gap.
fn first_hole(file: &File) -> io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    while at < length {
        let filled = read_at(file, &mut block, at)?;
        match end_of_records(&block[..filled]) {
            End::Full => at += BLOCK_BYTES as u64,
            // RocksDB ends here, too.
            End::Torn => return Ok(None),
            End::Zeros(offset) => {
                let end = at + offset as u64;
                if !has_data(file, end, length)? {
                    return Ok(None);
                }
                // Somebody may be writing: then what lies before the data that was seen is there by now.
                let mut header = [0; HEADER_BYTES];
                read_at(file, &mut header, end)?;
                return Ok((header == [0; HEADER_BYTES]).then_some(end));
            }
        }
    }
    Ok(None)
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Records to the block's end.
    Full,
    /// A header that cannot be right, or a record that is not all there.
    Torn,
    /// A header of zeros at this offset.
    Zeros(usize),
}

/// Follows the records of one block, the last one of which may be short.
fn end_of_records(block: &[u8]) -> End {
    let mut at = 0;
    while at + HEADER_BYTES <= BLOCK_BYTES {
        let Some(header) = block.get(at..at + HEADER_BYTES) else { return End::Torn };
        if header.iter().all(|&byte| byte == 0) {
            return End::Zeros(at);
        }
        let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let header_bytes = match header[6] {
            5..=8 | 11 | 131 => NUMBERED_HEADER_BYTES,
            _ => HEADER_BYTES,
        };
        at += header_bytes + length;
        if at > block.len() {
            return End::Torn;
        }
    }
    End::Full
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

/// As much of the buffer as the file has.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records as RocksDB lays them out, checksums left out.
    fn log(payloads: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &length in payloads {
            let left = BLOCK_BYTES - bytes.len() % BLOCK_BYTES;
            if left < HEADER_BYTES {
                bytes.resize(bytes.len() + left, 0);
            }
            assert!(HEADER_BYTES + length <= BLOCK_BYTES - bytes.len() % BLOCK_BYTES, "fits its block");
            bytes.extend_from_slice(&[0xAA; 4]);
            bytes.extend_from_slice(&(length as u16).to_le_bytes());
            bytes.push(1);
            bytes.resize(bytes.len() + length, 0x55);
        }
        bytes
    }

    fn cut(bytes: &[u8]) -> u64 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("000004.log");
        std::fs::write(&path, bytes).unwrap();
        cut_at_holes(directory.path()).unwrap();
        std::fs::metadata(&path).unwrap().len()
    }

    #[test]
    fn what_lies_behind_a_hole_is_cut_off() {
        let mut bytes = log(&[100, 200]);
        let end = bytes.len();
        bytes.resize(BLOCK_BYTES, 0);
        bytes.extend(log(&[50]));
        assert_eq!(cut(&bytes), end as u64);
        // In the same block, too.
        let mut bytes = log(&[100]);
        bytes.resize(4096, 0);
        bytes.extend(log(&[50]));
        assert_eq!(cut(&bytes), 107);
        // From the very beginning.
        let mut bytes = vec![0; BLOCK_BYTES];
        bytes.extend(log(&[50]));
        assert_eq!(cut(&bytes), 0);
    }

    #[test]
    fn a_whole_log_stays_as_it_is() {
        // The second block begins after five bytes of padding.
        let whole = log(&[BLOCK_BYTES - 7 - 5, 300, 20]);
        assert!(whole.len() > BLOCK_BYTES);
        assert_eq!(cut(&whole), whole.len() as u64);
        // With room ahead.
        let mut roomy = whole.clone();
        roomy.resize(10 * BLOCK_BYTES, 0);
        assert_eq!(cut(&roomy), roomy.len() as u64);
        // A torn record is RocksDB's matter.
        let torn = &whole[..whole.len() - 3];
        assert_eq!(cut(torn), torn.len() as u64);
        assert_eq!(cut(&[]), 0);
    }

    #[test]
    fn room_ahead_changes_the_size_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("000007.log");
        let file = File::create(&path).unwrap();
        // Nothing is allocated before the first write.
        let mut logs = LogFiles::default();
        logs.make_room(directory.path());
        assert_eq!(file.metadata().unwrap().len(), 0);
        file.write_all_at(b"record", 0).unwrap();
        fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
        logs.make_room(directory.path());
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        assert!(written_bytes(&path).unwrap() <= 4096);
        // The writer goes on where it was; asking again changes nothing.
        file.write_all_at(b"another", 6).unwrap();
        logs.make_room(directory.path());
        assert!(std::fs::read(&path).unwrap().starts_with(b"recordanother\0"));
    }
}
