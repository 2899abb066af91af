//! What the MANIFEST of a directory had at least, and its newest log.
//!
//! RocksDB reads its MANIFEST up to the first record that is not whole, and takes what it names for all there is: files that it does not
//! name are deleted. So a MANIFEST that was cut off, or whose last records are damaged, opens as an older and emptier
//! store, without an error. Nor does it miss its newest log. A file beside them says how much of which MANIFEST there was:
//!
//! ```text
//! cairn.manifest      MANIFEST-000005 1234 89abcdef 12 01234567\n
//! ```
//!
//! its name, bytes, the checksum of these bytes, the number of the newest log (0 after a clean end: it is empty), and the checksum of this text up to here (both CRC-32C).
//!
//! Invariants and recovery: the bytes and the log's name were durable before the file was written. A MANIFEST is only appended to, or
//! replaced by one with a higher number, and the newest log is deleted only when there is a newer one. So at any time there is
//! what the file says, or more, or a higher number; the file may be older, and a directory without one is of an older Cairn, or
//! a copy. It is written when the directory is opened and closed, by the collector when the MANIFEST has changed, and with each
//! change of the system store. What was appended after that can be cut off without being noticed here; RocksDB notices
//! if files that it then names are gone.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use crc32c::crc32c;
use parking_lot::Mutex;

use crate::log_files::logs;
use crate::{Error, Result};

const FILE: &str = "cairn.manifest";
const NEW_FILE: &str = "cairn.manifest.new";

/// A MANIFEST, or the part of it that was there at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    name: String,
    bytes: u64,
    checksum: u32,
}

fn encode(manifest: &State, newest_log: u64) -> String {
    let State { name, bytes, checksum } = manifest;
    let text = format!("{name} {bytes} {checksum:08x} {newest_log}");
    format!("{text} {:08x}\n", crc32c(text.as_bytes()))
}

fn decode(line: &str) -> Option<(State, u64)> {
    let (text, checksum) = line.strip_suffix('\n')?.rsplit_once(' ')?;
    if format!("{:08x}", crc32c(text.as_bytes())) != checksum {
        return None;
    }
    let mut fields = text.split(' ');
    let (name, bytes, checksum, log) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let checksum = u32::from_str_radix(checksum, 16).ok()?;
    Some((State { name: name.to_owned(), bytes: bytes.parse().ok()?, checksum }, log.parse().ok()?))
}

/// The number of the newest log; 0 without one.
fn newest_log(directory: &Path) -> io::Result<u64> {
    Ok(logs(directory)?.last().map_or(0, |log| log.number))
}

impl State {
    /// The MANIFEST as it is now, or its first bytes.
    fn read(directory: &Path, name: &str, bytes: Option<u64>) -> io::Result<(State, File)> {
        let file = File::open(directory.join(name))?;
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => file.metadata()?.len(),
        };
        let mut content = Vec::new();
        (&file).take(bytes).read_to_end(&mut content)?;
        let state = State { name: name.to_owned(), bytes: content.len() as u64, checksum: crc32c(&content) };
        Ok((state, file))
    }
}

/// The name of the MANIFEST that counts; `None` without a CURRENT.
fn current(directory: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(directory.join("CURRENT")) {
        Ok(text) => Ok(Some(text.trim_end().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn number(manifest: &str) -> Option<u64> {
    manifest.strip_prefix("MANIFEST-")?.parse().ok()
}

/// To be called before RocksDB opens the directory: refuses one whose MANIFEST lacks what it had.
pub(crate) fn check(directory: &Path) -> Result<()> {
    let in_directory = |source| Error::File { path: directory.to_owned(), source };
    let line = match std::fs::read(directory.join(FILE)) {
        Ok(line) => line,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(in_directory(error)),
    };
    let refuse = |what: &str| {
        let detail = format!(
            "\"{}\": {what}; what was written since may be lost, if it is opened (remove \"{FILE}\" to open it)",
            directory.display()
        );
        Err(Error::Corruption { what: "database directory", detail })
    };
    let Some((known, known_log)) = std::str::from_utf8(&line).ok().and_then(decode) else {
        return refuse(&format!("{FILE} is damaged"));
    };
    if newest_log(directory).map_err(in_directory)? < known_log {
        return refuse(&format!("{known_log:06}.log is missing"));
    }
    let Some(name) = current(directory).map_err(in_directory)? else {
        return refuse("CURRENT is missing");
    };
    if name != known.name {
        return match (number(&name), number(&known.name)) {
            (Some(found), Some(known)) if found > known => Ok(()),
            _ => refuse(&format!("CURRENT names \"{name}\", which is older than {}", known.name)),
        };
    }
    match State::read(directory, &name, Some(known.bytes)) {
        Ok((found, _)) if found == known => Ok(()),
        Ok((found, _)) if found.bytes < known.bytes => {
            refuse(&format!("{name} has {} bytes, and had {}", found.bytes, known.bytes))
        }
        Ok(_) => refuse(&format!("{name} is damaged")),
        Err(error) => refuse(&format!("{name}: {error}")),
    }
}

/// Keeps the file.
#[derive(Debug, Default)]
pub(crate) struct Saver {
    /// Name and size of the MANIFEST, and the newest log, when it was last written.
    saved: Mutex<Option<(String, u64, u64)>>,
}

impl Saver {
    /// Writes down what the open directory has, if that is news; logs only if there is anything in them. Without room the file stays as
    /// it was.
    pub(crate) fn save(&self, directory: &Path, log_matters: bool) -> Result<()> {
        match self.try_save(directory, log_matters) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                tracing::warn!(path = %directory.display(), "no room to write down what the MANIFEST has");
                Ok(())
            }
            Err(error) => Err(Error::Io(format!("{}: {error}", directory.join(FILE).display()))),
        }
    }

    fn try_save(&self, directory: &Path, log_matters: bool) -> io::Result<()> {
        let mut saved = self.saved.lock();
        let Some(name) = current(directory)? else { return Ok(()) };
        let length = match std::fs::metadata(directory.join(&name)) {
            Ok(metadata) => metadata.len(),
            // RocksDB has begun another one meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let log = if log_matters { newest_log(directory)? } else { 0 };
        if *saved == Some((name.clone(), length, log)) {
            return Ok(());
        }
        let (state, manifest) = match State::read(directory, &name, Some(length)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            read => read?,
        };
        manifest.sync_data()?;
        File::open(directory)?.sync_all()?;
        let mut file = File::create(directory.join(NEW_FILE))?;
        file.write_all(encode(&state, log).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(directory.join(NEW_FILE), directory.join(FILE))?;
        *saved = Some((name, state.bytes, log));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn directory(manifest: &[u8]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("CURRENT"), "MANIFEST-000005\n").unwrap();
        std::fs::write(directory.path().join("MANIFEST-000005"), manifest).unwrap();
        directory
    }

    #[test]
    fn a_manifest_only_grows() {
        let directory = directory(b"one two");
        let path = directory.path();
        check(path).unwrap();
        std::fs::write(path.join("000004.log"), "").unwrap();
        std::fs::write(path.join("000011.log"), "").unwrap();
        let saver = Saver::default();
        saver.save(path, true).unwrap();
        let line = std::fs::read_to_string(path.join(FILE)).unwrap();
        assert_eq!(line, "MANIFEST-000005 7 3ca16b0a 11 8c2ee9b8\n");
        check(path).unwrap();
        std::fs::remove_file(path.join("000004.log")).unwrap();
        check(path).unwrap();
        std::fs::rename(path.join("000011.log"), path.join("000009.log")).unwrap();
        check(path).unwrap_err();
        saver.save(path, false).unwrap();
        check(path).unwrap();
        std::fs::write(path.join("MANIFEST-000005"), "one two three").unwrap();
        check(path).unwrap();
        for damaged in ["one tw", "", "one twp three"] {
            std::fs::write(path.join("MANIFEST-000005"), damaged).unwrap();
            assert!(matches!(check(path), Err(Error::Corruption { .. })), "{damaged}");
        }
        std::fs::remove_file(path.join("MANIFEST-000005")).unwrap();
        check(path).unwrap_err();
        std::fs::write(path.join("MANIFEST-000012"), "").unwrap();
        std::fs::write(path.join("CURRENT"), "MANIFEST-000012\n").unwrap();
        check(path).unwrap();
        std::fs::write(path.join("CURRENT"), "MANIFEST-000004\n").unwrap();
        check(path).unwrap_err();
        std::fs::remove_file(path.join("CURRENT")).unwrap();
        check(path).unwrap_err();
        std::fs::remove_file(path.join(FILE)).unwrap();
        check(path).unwrap();
    }

    #[test]
    fn every_damage_to_the_file_is_noticed() {
        let directory = directory(b"content");
        let saver = Saver::default();
        saver.save(directory.path(), true).unwrap();
        let line = std::fs::read(directory.path().join(FILE)).unwrap();
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut damaged = line.clone();
                damaged[at] ^= 1 << bit;
                std::fs::write(directory.path().join(FILE), &damaged).unwrap();
                check(directory.path()).unwrap_err();
            }
            std::fs::write(directory.path().join(FILE), &line[..at]).unwrap();
            check(directory.path()).unwrap_err();
        }
    }

    proptest! {
        #[test]
        fn decoder_never_panics(line in ".*") {
            let _ = decode(&line);
        }
    }
}
