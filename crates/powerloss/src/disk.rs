//! The state of a disk while a journal is replayed: what is durable, and which changes are not yet.
//!
//! Each file and directory counts its changes. A sync covers those made before it began, and makes them durable when it
//! ends; so two of them may overlap, and what was written between begin and end of one is not covered by it.
//! A failed one spoils what it should have covered: no later sync makes that durable.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::chance::Chance;
use crate::image::{Image, is_info_log, join};
use crate::journal::{Operation, Record};
use crate::survive;

/// Index into [`Disk::nodes`]. A node stays when its last name is gone; an inode number that comes again is a new node.
type NodeId = usize;

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { size: usize },
    Allocate { end: usize },
}

/// Names that change together; `None`: the name goes.
type NameChange = Vec<(String, Option<NodeId>)>;

/// Changes in order, the older ones durable.
#[derive(Clone, Debug)]
pub(crate) struct Pending<T> {
    /// How many were made durable, or dropped, so far.
    done: usize,
    changes: Vec<T>,
    /// Changes before this number were to be covered by a sync that failed.
    spoiled_before: usize,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Pending { done: 0, changes: Vec::new(), spoiled_before: 0 }
    }
}

impl<T> Pending<T> {
    fn made(&self) -> usize {
        self.done + self.changes.len()
    }

    /// Takes the changes before `number` out; those that are to be durable.
    fn settle_before(&mut self, number: usize) -> Vec<T> {
        let count = number.saturating_sub(self.done).min(self.changes.len());
        let spoiled = self.spoiled_before.saturating_sub(self.done).min(count);
        self.done += count;
        self.changes.drain(..count).skip(spoiled).collect()
    }
}

#[derive(Clone, Debug)]
enum Node {
    File {
        durable: Vec<u8>,
        pending: Pending<Change>,
    },
    Directory {
        durable: BTreeMap<String, NodeId>,
        now: BTreeMap<String, NodeId>,
        pending: Pending<NameChange>,
    },
}

impl Node {
    fn empty_file() -> Node {
        Node::File { durable: Vec::new(), pending: Pending::default() }
    }

    fn empty_directory() -> Node {
        Node::Directory { durable: BTreeMap::new(), now: BTreeMap::new(), pending: Pending::default() }
    }

    fn made(&self) -> usize {
        match self {
            Node::File { pending, .. } => pending.made(),
            Node::Directory { pending, .. } => pending.made(),
        }
    }
}

const ROOT: NodeId = 0;

#[derive(Clone, Debug)]
pub struct Disk {
    nodes: Vec<Node>,
    by_inode: HashMap<u64, NodeId>,
    /// Call -> node, and the number of its changes when the call began.
    syncs: HashMap<u64, (NodeId, usize)>,
}

impl Disk {
    /// What is there, all of it durable.
    pub fn of_directory(root: &Path) -> io::Result<Disk> {
        let mut disk =
            Disk { nodes: vec![Node::empty_directory()], by_inode: HashMap::new(), syncs: HashMap::new() };
        disk.by_inode.insert(std::fs::metadata(root)?.ino(), ROOT);
        disk.add(root, ROOT)?;
        Ok(disk)
    }

    fn add(&mut self, path: &Path, directory: NodeId) -> io::Result<()> {
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let inode = entry.metadata()?.ino();
            let known = self.by_inode.get(&inode).copied();
            let id = match known {
                Some(id) => id,
                None if entry.file_type()?.is_dir() => {
                    let id = self.add_node(inode, Node::empty_directory());
                    self.add(&entry.path(), id)?;
                    id
                }
                None => {
                    let durable = if is_info_log(&name) { Vec::new() } else { std::fs::read(entry.path())? };
                    self.add_node(inode, Node::File { durable, pending: Pending::default() })
                }
            };
            if let Some(Node::Directory { durable, now, .. }) = self.nodes.get_mut(directory) {
                durable.insert(name.clone(), id);
                now.insert(name, id);
            }
        }
        Ok(())
    }

    fn add_node(&mut self, inode: u64, node: Node) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(node);
        self.by_inode.insert(inode, id);
        id
    }

    /// # Errors
    ///
    /// The journal has something that is not modelled.
    pub fn replay<'journal>(
        &mut self,
        records: impl Iterator<Item = Record<'journal>>,
    ) -> Result<(), String> {
        for record in records {
            self.apply(&record.operation).map_err(|problem| format!("{problem}, at {}", record.end))?;
        }
        Ok(())
    }

    fn apply(&mut self, operation: &Operation<'_>) -> Result<(), String> {
        match *operation {
            Operation::Create { inode, name } => {
                let id = self.add_node(inode, Node::empty_file());
                self.rename_all(name, |names, leaf| names.push((leaf, Some(id))))
            }
            Operation::MakeDirectory { inode, name } => {
                let id = self.add_node(inode, Node::empty_directory());
                self.rename_all(name, |names, leaf| names.push((leaf, Some(id))))
            }
            Operation::Link { inode, name } => {
                let id = self.node_of(inode)?;
                self.rename_all(name, |names, leaf| names.push((leaf, Some(id))))
            }
            Operation::Unlink { name } | Operation::RemoveDirectory { name } => {
                self.rename_all(name, |names, leaf| names.push((leaf, None)))
            }
            Operation::Rename { old, new } => self.rename(old, new),
            Operation::Write { inode, offset, bytes } => {
                self.change(inode, Change::Write { offset: offset as usize, bytes: bytes.to_vec() })
            }
            Operation::Truncate { inode, size } => {
                self.change(inode, Change::Truncate { size: size as usize })
            }
            Operation::Allocate { inode, end } => self.change(inode, Change::Allocate { end: end as usize }),
            Operation::SyncBegin { inode, call } => {
                let id = self.node_of(inode)?;
                let made = self.nodes.get(id).map_or(0, Node::made);
                self.syncs.insert(call, (id, made));
                Ok(())
            }
            Operation::SyncEnd { call, error, .. } => {
                let begun = self.syncs.remove(&call);
                let (id, made) = begun.ok_or("a sync ended that never began")?;
                self.settle(id, made, error != 0);
                Ok(())
            }
            Operation::Violation { what } => Err(format!("not modelled: {what}")),
            Operation::Fault { .. } => Ok(()),
        }
    }

    fn node_of(&self, inode: u64) -> Result<NodeId, String> {
        self.by_inode.get(&inode).copied().ok_or_else(|| format!("inode {inode} is unknown"))
    }

    fn change(&mut self, inode: u64, change: Change) -> Result<(), String> {
        let id = self.node_of(inode)?;
        match self.nodes.get_mut(id) {
            Some(Node::File { pending, .. }) => {
                pending.changes.push(change);
                Ok(())
            }
            _ => Err("a directory was written to".to_owned()),
        }
    }

    fn settle(&mut self, id: NodeId, made: usize, failed: bool) {
        match self.nodes.get_mut(id) {
            Some(Node::File { pending, .. }) if failed => pending.spoiled_before = made,
            Some(Node::Directory { pending, .. }) if failed => pending.spoiled_before = made,
            Some(Node::File { durable, pending }) => {
                for change in pending.settle_before(made) {
                    survive::apply(durable, &change);
                }
            }
            Some(Node::Directory { durable, pending, .. }) => {
                for names in pending.settle_before(made) {
                    apply_names(durable, &names);
                }
            }
            None => {}
        }
    }

    /// The directory that a name is in, and its last part.
    fn parent<'name>(&self, name: &'name str) -> Result<(NodeId, &'name str), String> {
        let (directory, leaf) = name.rsplit_once('/').unwrap_or(("", name));
        Ok((self.find(directory)?, leaf))
    }

    fn find(&self, name: &str) -> Result<NodeId, String> {
        let parts = name.split('/').filter(|part| !part.is_empty());
        let step = |id: Option<NodeId>, part: &str| match self.nodes.get(id?)? {
            Node::Directory { now, .. } => now.get(part).copied(),
            Node::File { .. } => None,
        };
        parts.fold(Some(ROOT), step).ok_or_else(|| format!("{name} is unknown"))
    }

    fn rename_all(&mut self, name: &str, fill: impl FnOnce(&mut NameChange, String)) -> Result<(), String> {
        let (directory, leaf) = self.parent(name)?;
        let mut names = NameChange::new();
        fill(&mut names, leaf.to_owned());
        self.change_names(directory, names);
        Ok(())
    }

    fn rename(&mut self, old: &str, new: &str) -> Result<(), String> {
        let id = self.find(old)?;
        let (from, old_leaf) = self.parent(old)?;
        let (to, new_leaf) = self.parent(new)?;
        if from != to {
            return Err(format!("not modelled: {old} was renamed to {new}, in another directory"));
        }
        self.change_names(from, vec![(old_leaf.to_owned(), None), (new_leaf.to_owned(), Some(id))]);
        Ok(())
    }

    fn change_names(&mut self, directory: NodeId, names: NameChange) {
        if let Some(Node::Directory { now, pending, .. }) = self.nodes.get_mut(directory) {
            apply_names(now, &names);
            pending.changes.push(names);
        }
    }

    /// All that was written, synced or not: what a killed program leaves.
    pub fn as_written(&self) -> Image {
        self.image(&mut |_| None)
    }

    /// What may be there when the power comes back.
    pub fn after_power_loss(&self, chance: &mut Chance) -> Image {
        // Each file and directory draws for itself, so that what one does leaves the others as they are.
        let seed = chance.number();
        self.image(&mut |id| Some(Chance::new(seed ^ (id as u64).wrapping_mul(0x2545_f491_4f6c_dd1d))))
    }

    /// `None`: nothing is lost.
    fn image(&self, chance_of: &mut dyn FnMut(NodeId) -> Option<Chance>) -> Image {
        let mut image = Image::default();
        self.add_to(&mut image, ROOT, "", chance_of);
        image
    }

    fn add_to(
        &self,
        image: &mut Image,
        directory: NodeId,
        prefix: &str,
        chance_of: &mut dyn FnMut(NodeId) -> Option<Chance>,
    ) {
        let Some(Node::Directory { durable, pending, .. }) = self.nodes.get(directory) else { return };
        let mut names = durable.clone();
        let kept = match chance_of(directory) {
            // Often at the ends: nothing, everything.
            Some(mut chance) => match chance.below(4) {
                0 => 0,
                1 => pending.changes.len(),
                _ => chance.up_to(pending.changes.len()),
            },
            None => pending.changes.len(),
        };
        for change in pending.changes.iter().take(kept) {
            apply_names(&mut names, change);
        }
        for (name, id) in names {
            let path = join(prefix, &name);
            match self.nodes.get(id) {
                Some(Node::Directory { .. }) => {
                    image.entries.insert(path.clone(), None);
                    self.add_to(image, id, &path, chance_of);
                }
                Some(Node::File { durable, pending }) if !is_info_log(&name) => {
                    let contents = match chance_of(id) {
                        Some(mut chance) => survive::after_power_loss(durable, &pending.changes, &mut chance),
                        None => survive::all(durable, &pending.changes),
                    };
                    image.entries.insert(path, Some(contents));
                }
                _ => {}
            }
        }
    }
}

fn apply_names(names: &mut BTreeMap<String, NodeId>, changes: &NameChange) {
    for (name, id) in changes {
        match id {
            Some(id) => names.insert(name.clone(), *id),
            None => names.remove(name),
        };
    }
}
