//! How much memory the process may use: what the machine has, or less in a container or a service with a limit.
//!
//! Linux tells both in files: `/proc/meminfo`, and for each control group that the process is in, and for every one
//! around it, a limit (version 2: `memory.max`, version 1: `memory.limit_in_bytes`; kernel documentation, Control Group
//! v2). Inside a container the groups' paths are often those of the host, where its own root is what counts: a path
//! that is not there is passed over.

use std::fs;
use std::path::Path;

/// Bytes; `None` where the machine does not tell.
pub(crate) fn available_bytes() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| machine_bytes(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine.into_iter().chain(limit_bytes(&groups, Path::new("/sys/fs/cgroup"))).min()
}

fn machine_bytes(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The tightest limit of the groups of `/proc/self/cgroup`, lines of `number:controllers:path`, and of those around them.
fn limit_bytes(groups: &str, mounted_at: &Path) -> Option<usize> {
    let mut limits = Vec::new();
    for group in groups.lines() {
        let mut parts = group.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => (mounted_at.to_owned(), "memory.max"),
            some if some.split(',').any(|controller| controller == "memory") => {
                (mounted_at.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for around in Path::new(path.trim_start_matches('/')).ancestors() {
            // "max" is no number.
            let limit = fs::read_to_string(root.join(around).join(file)).ok();
            limits.extend(limit.and_then(|text| text.trim().parse::<usize>().ok()));
        }
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine() {
        assert_eq!(machine_bytes("MemTotal:       24 kB\nMemFree:        1 kB\n"), Some(24 << 10));
        assert_eq!(machine_bytes("MemFree: 1 kB\n"), None);
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn the_tightest_group_counts() {
        let mounted_at = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = mounted_at.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let limit = |groups: &str| limit_bytes(groups, mounted_at.path());
        assert_eq!(limit("0::/system.slice/cairn.service\n"), None);
        write("system.slice/cairn.service/memory.max", "max\n");
        assert_eq!(limit("0::/system.slice/cairn.service\n"), None);
        write("system.slice/memory.max", "2147483648\n");
        assert_eq!(limit("0::/system.slice/cairn.service\n"), Some(2 << 30));
        // A container: the path is the host's.
        write("memory.max", "1073741824\n");
        assert_eq!(limit("0::/docker/4711\n"), Some(1 << 30));
        // Version 1 beside it.
        write("memory/a/memory.limit_in_bytes", "536870912\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit("5:cpu,memory:/a/b\n1:name=systemd:/\n"), Some(1 << 29));
        assert_eq!(limit("garbage\n7:memory\n"), None);
    }
}
