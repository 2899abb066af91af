//! What the shim journals.
//!
//! ```text
//! record:  length of what follows the header, 4 | operation, 4 | inode, 8 | first, 8 | second, 8 | bytes
//! ```
//!
//! Little-endian. Names are relative to the root; two names are separated by a zero byte. The last record may be cut
//! short (the program was killed): it did not happen.

const HEADER: usize = 32;

/// A change, or what tells of durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'journal> {
    Create {
        inode: u64,
        name: &'journal str,
    },
    Write {
        inode: u64,
        offset: u64,
        bytes: &'journal [u8],
    },
    Truncate {
        inode: u64,
        size: u64,
    },
    /// The file is at least so long from now on.
    Allocate {
        inode: u64,
        end: u64,
    },
    /// `call` tells apart the calls of all processes.
    SyncBegin {
        inode: u64,
        call: u64,
    },
    /// `error` is 0 for success.
    SyncEnd {
        inode: u64,
        call: u64,
        error: i32,
    },
    Rename {
        old: &'journal str,
        new: &'journal str,
    },
    Link {
        inode: u64,
        name: &'journal str,
    },
    Unlink {
        name: &'journal str,
    },
    MakeDirectory {
        inode: u64,
        name: &'journal str,
    },
    RemoveDirectory {
        name: &'journal str,
    },
    /// Something that is not modelled, or a record that cannot be read.
    Violation {
        what: &'journal str,
    },
    /// A call that was made to fail, with the path of its file.
    Fault {
        error: i32,
        path: &'journal str,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Record<'journal> {
    /// Position behind it.
    pub end: u64,
    pub operation: Operation<'journal>,
}

pub struct Journal {
    bytes: Vec<u8>,
}

impl Journal {
    pub fn new(bytes: Vec<u8>) -> Self {
        Journal { bytes }
    }

    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = self.bytes.get(at..)?;
            let (header, rest) = rest.split_at_checked(HEADER)?;
            let length = number(header, 0, 4) as usize;
            let body = rest.get(..length)?;
            at += HEADER + length;
            Some(Record { end: at as u64, operation: operation(header, body) })
        })
    }

    /// The calls that were made to fail.
    pub fn faults(&self) -> Vec<String> {
        let faults = self.records().filter_map(|record| match record.operation {
            Operation::Fault { path, .. } => Some(path.to_owned()),
            _ => None,
        });
        faults.collect()
    }

    pub fn end(&self) -> u64 {
        self.bytes.len() as u64
    }
}

fn number(header: &[u8], from: usize, length: usize) -> u64 {
    let bytes = header.iter().skip(from).take(length).rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn operation<'journal>(header: &[u8], body: &'journal [u8]) -> Operation<'journal> {
    let (inode, first, second) = (number(header, 8, 8), number(header, 16, 8), number(header, 24, 8));
    let text = |bytes: &'journal [u8]| std::str::from_utf8(bytes).unwrap_or("a name that is not UTF-8");
    let name = if number(header, 4, 4) == 2 { "" } else { text(body) };
    let (old, new) = name.split_once('\0').unwrap_or((name, ""));
    match number(header, 4, 4) {
        1 => Operation::Create { inode, name },
        2 => Operation::Write { inode, offset: first, bytes: body },
        3 => Operation::Truncate { inode, size: first },
        4 => Operation::Allocate { inode, end: first },
        5 => Operation::SyncBegin { inode, call: first },
        6 => Operation::SyncEnd { inode, call: first, error: second as i32 },
        7 => Operation::Rename { old, new },
        8 => Operation::Link { inode, name: new },
        9 => Operation::Unlink { name },
        10 => Operation::MakeDirectory { inode, name },
        11 => Operation::RemoveDirectory { name },
        12 => Operation::Violation { what: name },
        13 => Operation::Fault { error: first as i32, path: name },
        _ => Operation::Violation { what: "a record of an unknown kind" },
    }
}
