//! A small file system of a test's own, for filling it.

use std::io;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Lives in memory, until it is dropped.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Of so many megabytes; `None` without the right to mount, which the test's output says.
    pub fn mount(megabytes: u32) -> io::Result<Option<Self>> {
        let directory = tempfile::tempdir()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(directory.path())
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Ok(Some(SmallDisk(directory)));
        }
        eprintln!("skipped: no right to mount a small file system");
        Ok(None)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}
