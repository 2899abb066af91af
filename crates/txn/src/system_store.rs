//! The store that lists databases and roles.
//!
//! Records (`cairn_storage::meta`, kind 30), names in ASCII, numbers big endian:
//!
//! ```text
//! database/<oid u32>     01, flags u8 (1: is a template, 2: allows connections), owner oid u32, name in UTF-8
//! unfinished/<oid u32>   01, 01: the database is being created; 01, 02: it is being dropped
//! next-database          first database oid never used, u32
//! user/<name>            what the floor above keeps (roles, verifiers); opaque here
//! ```
//!
//! Invariants:
//! - A change is durable before the call returns, and it is in a file by then: the log is never the only copy of a record.
//! - A change that may have reached the disk, and may not, ends the process: memory never goes on without what the next start
//!   may read.
//! - An unfinished record is durable before the directory of its database is made, or before it is removed. It is the only
//!   reason for which a start removes a directory.

use std::collections::HashMap;
use std::path::Path;

use cairn_storage::{Batch, Clock, Engine, EngineOptions, Error as StorageError, Resources};

use crate::Result;
use crate::cluster::DatabaseInfo;

const DATABASE: &[u8] = b"database/";
const UNFINISHED: &[u8] = b"unfinished/";
const NEXT_DATABASE: &[u8] = b"next-database";
const USER: &[u8] = b"user/";

/// Why a directory below `databases/` may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    Created,
    Dropped,
}

pub(crate) struct SystemStore {
    engine: Engine,
}

/// Changes that are written together.
pub(crate) struct Changes<'store> {
    batch: Batch<'store>,
}

impl SystemStore {
    pub(crate) fn open(
        path: &Path,
        options: &EngineOptions,
        resources: &Resources,
        clock: &Clock,
    ) -> cairn_storage::Result<Self> {
        Ok(SystemStore { engine: Engine::open(path, options, resources, clock)? })
    }

    pub(crate) fn close(&self, clock: &Clock) -> Result<()> {
        Ok(self.engine.close(clock.now())?)
    }

    pub(crate) fn changes(&self) -> Changes<'_> {
        Changes { batch: self.engine.batch() }
    }

    /// Durable when it returns; nothing has changed if it fails.
    pub(crate) fn write(&self, changes: Changes<'_>) -> Result<()> {
        match self.engine.write(changes.batch) {
            Err(error @ StorageError::Io(_)) => self.end_process("writing the log", &error),
            written => written?,
        }
        if let Err(error) = self.engine.sync() {
            self.end_process("fsync", &error);
        }
        // One damaged byte of a log takes everything behind it.
        match self.engine.flush().and_then(|()| self.engine.save_manifest()) {
            Err(error @ StorageError::Io(_)) => self.end_process("writing a file", &error),
            Err(error) => {
                tracing::warn!(%error, "a change of databases or roles is in the log of the system store alone");
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// Nobody knows what the disk has. A restart finds out: it reads the state before the change, or the one after it.
    fn end_process(&self, what: &str, error: &StorageError) -> ! {
        let path = self.engine.path().display();
        tracing::error!(%error, %path, "{what} failed; the server ends");
        eprintln!("FATAL: {what} of {path} failed: {error}");
        std::process::abort();
    }

    pub(crate) fn databases(&self) -> Result<Vec<DatabaseInfo>> {
        let records = self.engine.records(DATABASE)?;
        records.iter().map(|(name, value)| decode_database(name, value)).collect()
    }

    pub(crate) fn unfinished(&self) -> Result<HashMap<u32, Unfinished>> {
        let records = self.engine.records(UNFINISHED)?;
        records.iter().map(|(name, value)| decode_unfinished(name, value)).collect()
    }

    /// The first oid that no database ever had; `None` while there was no database.
    pub(crate) fn next_database(&self) -> Result<Option<u32>> {
        let Some(bytes) = self.engine.record(NEXT_DATABASE)? else { return Ok(None) };
        let oid = bytes.as_slice().try_into().map_err(|_| corrupt("next database oid", &bytes))?;
        Ok(Some(u32::from_be_bytes(oid)))
    }

    /// A record of the floor above.
    pub(crate) fn user_record(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.engine.record(&user_record(name))?)
    }

    /// Those whose name begins with `prefix`, in order.
    pub(crate) fn user_records(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut records = self.engine.records(&user_record(prefix))?;
        for (name, _) in &mut records {
            name.drain(..USER.len());
        }
        Ok(records)
    }
}

impl Changes<'_> {
    pub(crate) fn put_database(&mut self, info: &DatabaseInfo) {
        self.batch.put_record(&oid_record(DATABASE, info.oid), &encode_database(info));
    }

    pub(crate) fn delete_database(&mut self, oid: u32) {
        self.batch.delete_record(&oid_record(DATABASE, oid));
    }

    pub(crate) fn put_unfinished(&mut self, oid: u32, what: Unfinished) {
        let kind = match what {
            Unfinished::Created => 1,
            Unfinished::Dropped => 2,
        };
        self.batch.put_record(&oid_record(UNFINISHED, oid), &[1, kind]);
    }

    pub(crate) fn delete_unfinished(&mut self, oid: u32) {
        self.batch.delete_record(&oid_record(UNFINISHED, oid));
    }

    pub(crate) fn put_next_database(&mut self, oid: u32) {
        self.batch.put_record(NEXT_DATABASE, &oid.to_be_bytes());
    }

    /// `None` deletes.
    pub(crate) fn put_user_record(&mut self, name: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.batch.put_record(&user_record(name), value),
            None => self.batch.delete_record(&user_record(name)),
        }
    }
}

fn corrupt(what: &'static str, bytes: &[u8]) -> StorageError {
    StorageError::Corruption { what, detail: format!("{bytes:02x?}") }
}

fn oid_record(kind: &[u8], oid: u32) -> Vec<u8> {
    [kind, &oid.to_be_bytes()].concat()
}

fn oid_of(kind: &[u8], name: &[u8]) -> Option<u32> {
    name.strip_prefix(kind)?.try_into().ok().map(u32::from_be_bytes)
}

fn user_record(name: &[u8]) -> Vec<u8> {
    [USER, name].concat()
}

const IS_TEMPLATE: u8 = 1;
const ALLOWS_CONNECTIONS: u8 = 2;

fn encode_database(info: &DatabaseInfo) -> Vec<u8> {
    let flags = if info.is_template { IS_TEMPLATE } else { 0 }
        | if info.allows_connections { ALLOWS_CONNECTIONS } else { 0 };
    [&[1, flags], &info.owner.to_be_bytes()[..], info.name.as_bytes()].concat()
}

fn decode_database(name: &[u8], value: &[u8]) -> Result<DatabaseInfo> {
    let fields = match value {
        [1, flags, rest @ ..] => rest.split_first_chunk::<4>().and_then(|(owner, name)| {
            Some((*flags, u32::from_be_bytes(*owner), std::str::from_utf8(name).ok()?))
        }),
        _ => None,
    };
    match (oid_of(DATABASE, name), fields) {
        (Some(oid), Some((flags, owner, name))) => Ok(DatabaseInfo {
            oid,
            name: name.to_owned(),
            owner,
            is_template: flags & IS_TEMPLATE != 0,
            allows_connections: flags & ALLOWS_CONNECTIONS != 0,
        }),
        _ => Err(corrupt("database record", value).into()),
    }
}

fn decode_unfinished(name: &[u8], value: &[u8]) -> Result<(u32, Unfinished)> {
    match (oid_of(UNFINISHED, name), value) {
        (Some(oid), [1, 1]) => Ok((oid, Unfinished::Created)),
        (Some(oid), [1, 2]) => Ok((oid, Unfinished::Dropped)),
        _ => Err(corrupt("record of an unfinished database", value).into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_are_pinned() {
        let info = DatabaseInfo {
            oid: 258,
            name: "dé".to_owned(),
            owner: 10,
            is_template: true,
            allows_connections: false,
        };
        let (name, value) = (oid_record(DATABASE, info.oid), encode_database(&info));
        assert_eq!(name, b"database/\0\0\x01\x02");
        assert_eq!(value, [1, 1, 0, 0, 0, 10, b'd', 0xc3, 0xa9]);
        assert_eq!(decode_database(&name, &value).unwrap(), info);
        let name = oid_record(UNFINISHED, 258);
        assert_eq!(name, b"unfinished/\0\0\x01\x02");
        assert_eq!(decode_unfinished(&name, &[1, 1]).unwrap(), (258, Unfinished::Created));
        assert_eq!(decode_unfinished(&name, &[1, 2]).unwrap(), (258, Unfinished::Dropped));
    }

    proptest! {
        #[test]
        fn decoders_never_panic(
            name in proptest::collection::vec(any::<u8>(), 0..16),
            value in proptest::collection::vec(any::<u8>(), 0..16),
        ) {
            let _ = decode_database(&name, &value);
            let _ = decode_unfinished(&name, &value);
        }
    }
}
