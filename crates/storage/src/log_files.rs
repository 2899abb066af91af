//! What the write-ahead log needs beyond what RocksDB does with it, while it is written.
//!
//! **Room ahead.** RocksDB allocates a log's blocks in advance, but leaves its size to grow with every write. Then each
//! `fdatasync` has to make the new size durable too, which on ext4 is a commit of the journal: 204 µs instead of 159 µs on the machine where
//! it was measured. [`LogFiles::make_room`] lets the size reach over the blocks that are there. It never shrinks a file and never writes
//! into one, so that it may run at any moment beside the writer.
//!
//! The price: what was not written yet reads as zeros, and a power failure may leave holes ([`crate::log_check`]).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};

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
        let newest = logs(directory)?.pop().map(|log| log.path);
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

/// A log of RocksDB.
pub(crate) struct Log {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
}

impl Log {
    /// `None` if it is gone: RocksDB deletes logs that nobody needs.
    pub(crate) fn open(&self) -> io::Result<Option<File>> {
        match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => file.map(Some),
        }
    }
}

/// The logs of a directory, oldest first.
pub(crate) fn logs(directory: &Path) -> io::Result<Vec<Log>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".log")?.parse().ok());
        if let Some(number) = number {
            found.push(Log { number, path });
        }
    }
    found.sort_by_key(|log| log.number);
    Ok(found)
}

/// Bytes of a log up to the first page that was never written: its size without the room ahead.
pub fn written_bytes(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    seek(&file, SeekFrom::Hole(0)).or_else(|_| file.metadata().map(|metadata| metadata.len()))
}

/// As much of the buffer as the file has.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
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
