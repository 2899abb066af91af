//! A power loss, and a failing disk, under an unchanged program.
//!
//! A kill -9 loses nothing that a program wrote: the kernel has it. Only a power loss tells whether the program asked for
//! durability where it needed it. Here a shared library, preloaded into the program ([`shim`](../src/shim.c)), journals
//! each change below one directory; afterwards [`Disk`] replays the journal up to any moment and gives back what a disk may
//! have at that moment:
//!
//! - what a completed `fsync` or `fdatasync` of the file covers: the changes that were made before the call began;
//! - names (created, renamed, linked, unlinked) that a completed `fsync` of their *directory* covers;
//! - of everything else, whatever chance leaves (`survive.rs`): nothing, all, some sectors of 512 bytes in any order, or
//!   zeros at full size. Names of one directory survive in order, as on a file system with a journal; what
//!   happened in different directories or files has no order.
//!
//! This is stricter than ext4, XFS or btrfs, where an `fsync` of a file takes its name along. `sync_file_range` promises nothing.
//! Shared writable mappings and the like are not modelled: they are journaled as violations, and a replay that meets one
//! fails.
//!
//! The same library makes the n-th matching call fail ([`Fault`]). As on Linux, a failed fsync is reported once, and
//! what it should have written is lost even if the next one succeeds.
//!
//! Not journaled: what goes through stdio. RocksDB writes its info log (`LOG*`) so; images leave these files out.

mod chance;
mod disk;
mod image;
mod journal;
mod survive;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use chance::Chance;
pub use disk::Disk;
pub use image::Image;
pub use journal::{Journal, Operation, Record};

/// The compiled shim.
const LIBRARY: &str = env!("POWERLOSS_LIBRARY");

/// Which calls fail: the `first`-th whose file's path has `part` in it (1: the first), and those after it.
#[derive(Clone, Debug)]
pub struct Fault {
    pub call: FaultyCall,
    /// An errno.
    pub error: i32,
    /// Part of the path below the root, without colons.
    pub part: String,
    pub first: u64,
    /// How many calls in a row.
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyCall {
    /// `fsync` and `fdatasync`, of files and directories.
    Sync,
    /// The `write` family.
    Write,
}

/// One directory from a known state on: what programs that run under it do is journaled.
pub struct Recorder {
    root: PathBuf,
    journal: PathBuf,
    base: Disk,
}

impl Recorder {
    /// What `root` has now counts as durable. `journal`, outside of it, is made anew.
    pub fn start(root: &Path, journal: &Path) -> io::Result<Recorder> {
        std::fs::create_dir_all(root)?;
        // The shim compares with absolute paths.
        let root = root.canonicalize()?;
        std::fs::File::create(journal)?;
        let base = Disk::of_directory(&root)?;
        Ok(Recorder { root, journal: journal.canonicalize()?, base })
    }

    /// Makes a program run on the recorded directory. Its fsyncs take up to `sync_micros`, which are simulated
    /// by sleeping.
    pub fn watch(&self, command: &mut Command, sync_micros: u64, fault: Option<&Fault>) {
        command
            .env("LD_PRELOAD", LIBRARY)
            .env("POWERLOSS_ROOT", &self.root)
            .env("POWERLOSS_JOURNAL", &self.journal)
            .env("POWERLOSS_SYNC_MICROS", sync_micros.to_string());
        match fault {
            Some(Fault { call, error, part, first, count }) => {
                let call = match call {
                    FaultyCall::Sync => "sync",
                    FaultyCall::Write => "write",
                };
                command.env("POWERLOSS_FAULT", format!("{call}:{error}:{part}:{first}:{count}"))
            }
            None => command.env_remove("POWERLOSS_FAULT"),
        };
    }

    /// How long the journal is: all that has happened so far lies before it. What somebody was told before this call was
    /// caused by what lies before it.
    pub fn position(&self) -> u64 {
        std::fs::metadata(&self.journal).map_or(0, |metadata| metadata.len())
    }

    /// What was journaled so far.
    pub fn journal(&self) -> io::Result<Journal> {
        Ok(Journal::new(std::fs::read(&self.journal)?))
    }

    /// The disk at a position of the journal.
    ///
    /// # Errors
    ///
    /// The program did something that is not modelled.
    pub fn disk_at(&self, journal: &Journal, position: u64) -> Result<Disk, String> {
        let mut disk = self.base.clone();
        disk.replay(journal.records().take_while(|record| record.end <= position))?;
        Ok(disk)
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
