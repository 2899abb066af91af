//! What can go wrong on disk. Typed by what a caller can do about it; RocksDB's own error is kept as the source.

use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Stored bytes are not what was written, or not what this version writes. `what` names the structure.
    #[error("corrupt {what}: {detail}")]
    Corruption { what: &'static str, detail: String },
    /// The device has no room left; nothing that was acknowledged is affected.
    #[error("no space left on device: {0}")]
    DiskFull(String),
    #[error("input/output error: {0}")]
    Io(String),
    /// Files and directories outside RocksDB.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// Another process, or another store of this one, has the directory open.
    #[error("directory \"{}\" is in use by another server{}", path.display(), match .holder { Some(pid) => format!(" (PID {pid})"), None => String::new() })]
    Locked { path: PathBuf, holder: Option<u32> },
    /// A newer Cairn wrote the directory.
    #[error("directory \"{}\" has format {found}; this version of Cairn reads formats up to {supported}", path.display())]
    NewerFormat { path: PathBuf, found: u32, supported: u32 },
    /// An older Cairn wrote the directory, and a large transaction's writes are in it in a way that this one does not read.
    #[error("directory \"{}\" has format {found} and records of a large transaction, which this version of Cairn does not read; start the version that wrote it once more, and stop it when it is idle", path.display())]
    OldRecords { path: PathBuf, found: u32 },
    /// A record of a log is broken that was durable once.
    #[error("write-ahead log \"{}\" is damaged at byte {offset}: {batches} writes that are whole ({bytes} bytes) lie behind", path.display())]
    DamagedLog { path: PathBuf, offset: u64, batches: u64, bytes: u64 },
    /// RocksDB refuses further writes, or another error of it that has no class above.
    #[error("storage engine: {0}")]
    Engine(#[source] rocksdb::Error),
}

impl From<rocksdb::Error> for Error {
    fn from(error: rocksdb::Error) -> Self {
        use rocksdb::ErrorKind;
        let text = error.as_ref();
        // RocksDB keeps ENOSPC as a sub-code that its C interface passes on in the text only.
        if text.contains("No space left on device") || text.contains("NoSpace") {
            return Error::DiskFull(text.to_owned());
        }
        match error.kind() {
            ErrorKind::Corruption => Error::Corruption { what: "database file", detail: text.to_owned() },
            ErrorKind::IOError => Error::Io(text.to_owned()),
            _ => Error::Engine(error),
        }
    }
}
