//! Names and contents of a directory tree.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Path below the root -> contents; `None`: a directory. Without RocksDB's info logs, which are not journaled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub entries: BTreeMap<String, Option<Vec<u8>>>,
}

impl Image {
    pub fn of_directory(root: &Path) -> io::Result<Image> {
        let mut image = Image::default();
        image.add(root, "")?;
        Ok(image)
    }

    fn add(&mut self, directory: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let file_name = entry.file_name();
            let name = file_name.to_str().ok_or_else(|| io::Error::other("a name that is not UTF-8"))?;
            let path = join(prefix, name);
            if entry.file_type()?.is_dir() {
                self.entries.insert(path.clone(), None);
                self.add(&entry.path(), &path)?;
            } else if !is_info_log(name) {
                self.entries.insert(path, Some(std::fs::read(entry.path())?));
            }
        }
        Ok(())
    }

    /// Makes the directory anew.
    pub fn write_to(&self, root: &Path) -> io::Result<()> {
        if root.exists() {
            std::fs::remove_dir_all(root)?;
        }
        std::fs::create_dir_all(root)?;
        for (name, contents) in &self.entries {
            // Parents sort before what is in them.
            match contents {
                None => std::fs::create_dir(root.join(name))?,
                Some(contents) => std::fs::write(root.join(name), contents)?,
            }
        }
        Ok(())
    }

    /// What differs, in words; empty if nothing does.
    pub fn differences(&self, other: &Image) -> Vec<String> {
        let mut differences = Vec::new();
        for (name, contents) in &self.entries {
            match (contents, other.entries.get(name)) {
                (_, None) => differences.push(format!("{name} is missing on the right")),
                (Some(left), Some(Some(right))) if left != right => {
                    let at = left.iter().zip(right).take_while(|(a, b)| a == b).count();
                    differences.push(format!(
                        "{name}: {} and {} bytes, differ at {at}",
                        left.len(),
                        right.len()
                    ));
                }
                (left, Some(right)) if left.is_some() != right.is_some() => {
                    differences.push(format!("{name}: a file and a directory"));
                }
                _ => {}
            }
        }
        for name in other.entries.keys().filter(|name| !self.entries.contains_key(*name)) {
            differences.push(format!("{name} is missing on the left"));
        }
        differences
    }
}

pub(crate) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") }
}

/// RocksDB's `LOG` and `LOG.old.*`: written through stdio.
pub(crate) fn is_info_log(name: &str) -> bool {
    name == "LOG" || name.starts_with("LOG.old.")
}
