//! The instrument itself: small programs that sync, or do not, and what a power loss leaves of their files.
//!
//! The test runs itself as the program (`program` below), on a directory that is watched.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

use cairn_powerloss::{Chance, Disk, Fault, FaultyCall, Image, Operation, Recorder};

const PROGRAM: &str = "CAIRN_POWERLOSS_TEST_PROGRAM";
const DIRECTORY: &str = "CAIRN_POWERLOSS_TEST_DIRECTORY";

fn sync_directory(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// The programs; run by the tests below, does nothing by itself.
#[test]
fn program() {
    let Some(program) = std::env::var_os(PROGRAM) else { return };
    let root = std::path::PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    match program.to_str().unwrap() {
        "unsynced" => {
            File::create(root.join("a")).unwrap().write_all(&[1; 3000]).unwrap();
            sync_directory(&root);
        }
        "synced" => {
            let mut file = File::create(root.join("a")).unwrap();
            file.write_all(&[1; 3000]).unwrap();
            file.sync_data().unwrap();
            file.write_all(&[2; 3000]).unwrap();
            sync_directory(&root);
        }
        "no name" => {
            let mut file = File::create(root.join("a")).unwrap();
            file.write_all(&[1; 3000]).unwrap();
            file.sync_all().unwrap();
        }
        "rename" => {
            let mut file = File::create(root.join("old")).unwrap();
            file.write_all(b"old").unwrap();
            file.sync_all().unwrap();
            sync_directory(&root);
            fs::rename(root.join("old"), root.join("new")).unwrap();
        }
        // Everything that changes a file or a name, for the journal to see.
        "everything" => {
            fs::create_dir_all(root.join("one/two")).unwrap();
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(root.join("one/a"))
                .unwrap();
            file.write_all(&[1; 1000]).unwrap();
            file.write_at(&[2; 100], 5000).unwrap();
            file.seek(SeekFrom::Start(300)).unwrap();
            let mut copy = file.try_clone().unwrap();
            copy.write_all(&[3; 10]).unwrap();
            let parts = [std::io::IoSlice::new(b"four"), std::io::IoSlice::new(b"five")];
            assert_eq!(file.write_vectored(&parts).unwrap(), 8);
            file.set_len(4000).unwrap();
            drop(file);
            let mut append = OpenOptions::new().append(true).open(root.join("one/a")).unwrap();
            append.write_all(&[6; 20]).unwrap();
            fs::hard_link(root.join("one/a"), root.join("one/two/b")).unwrap();
            fs::rename(root.join("one/two"), root.join("one/three")).unwrap();
            fs::write(root.join("kept"), b"new and shorter").unwrap();
            fs::write(root.join("gone"), b"gone").unwrap();
            fs::remove_file(root.join("gone")).unwrap();
            fs::create_dir_all(root.join("tree/of/names")).unwrap();
            fs::write(root.join("tree/of/names/c"), b"c").unwrap();
            fs::remove_dir_all(root.join("tree")).unwrap();
            std::env::set_current_dir(&root).unwrap();
            fs::write("relative", b"relative").unwrap();
            // SAFETY: a descriptor that is open.
            let allocated = File::create("allocated").unwrap();
            assert_eq!(
                unsafe { libc::posix_fallocate(std::os::fd::AsRawFd::as_raw_fd(&allocated), 0, 6000) },
                0
            );
        }
        "mapped" => {
            let file = OpenOptions::new().read(true).write(true).open(root.join("kept")).unwrap();
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
            // SAFETY: a new mapping that nobody touches.
            unsafe {
                libc::mmap(std::ptr::null_mut(), 10, libc::PROT_WRITE, libc::MAP_SHARED, descriptor, 0);
            }
        }
        "faulty sync" => {
            let mut file = File::create(root.join("a")).unwrap();
            sync_directory(&root);
            file.write_all(&[1; 600]).unwrap();
            assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::EIO));
            // The second one says that all is well.
            file.sync_all().unwrap();
            file.write_all(&[2; 600]).unwrap();
            file.sync_all().unwrap();
        }
        "full disk" => {
            let mut file = File::create(root.join("a")).unwrap();
            for _ in 0..2 {
                file.write_all(b"there").unwrap();
            }
            assert_eq!(file.write_all(b"no room").unwrap_err().raw_os_error(), Some(libc::ENOSPC));
            file.write_all(b"there").unwrap();
        }
        other => panic!("no program {other}"),
    }
}

struct Run {
    recorder: Recorder,
    directory: tempfile::TempDir,
}

fn run_with(program: &str, fault: Option<&Fault>) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("kept"), b"from before, and durable").unwrap();
    let recorder = Recorder::start(&root, &directory.path().join("journal")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program", "--exact", "--nocapture"]).env(PROGRAM, program).env(DIRECTORY, &root);
    recorder.watch(&mut command, 0, fault);
    let Output { status, stderr, .. } = command.output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    Run { recorder, directory }
}

fn run(program: &str) -> Run {
    run_with(program, None)
}

impl Run {
    fn disk(&self) -> Disk {
        let journal = self.recorder.journal().unwrap();
        self.recorder.disk_at(&journal, journal.end()).unwrap()
    }

    /// What a file had after each of many power losses; `None`: it was not there.
    fn outcomes(&self, name: &str) -> BTreeSet<Option<Vec<u8>>> {
        let disk = self.disk();
        let images = (0..300).map(|seed| disk.after_power_loss(&mut Chance::new(seed)));
        images
            .map(|image| {
                assert_eq!(image.entries["kept"].as_deref(), Some(&b"from before, and durable"[..]));
                image.entries.get(name).map(|contents| contents.clone().unwrap())
            })
            .collect()
    }
}

#[test]
fn what_was_not_synced_may_be_lost() {
    let outcomes = run("unsynced").outcomes("a");
    assert!(!outcomes.contains(&None), "the directory was synced");
    assert!(outcomes.contains(&Some(Vec::new())));
    assert!(outcomes.contains(&Some(vec![1; 3000])));
    assert!(outcomes.contains(&Some(vec![0; 3000])));
    let torn = |contents: &Vec<u8>| contents.len() > 1000 && contents[0] == 0 && contents.contains(&1);
    assert!(outcomes.iter().flatten().any(torn), "no reordered sectors");
}

#[test]
fn what_was_synced_stays() {
    let outcomes = run("synced").outcomes("a");
    assert!(outcomes.iter().all(|contents| contents.as_ref().unwrap().starts_with(&[1; 3000])));
    assert!(outcomes.len() > 5, "what came after the sync is always the same");
}

#[test]
fn a_name_needs_a_sync_of_its_directory() {
    let outcomes = run("no name").outcomes("a");
    assert_eq!(outcomes, BTreeSet::from([None, Some(vec![1; 3000])]));
}

#[test]
fn a_rename_may_be_lost_but_not_half() {
    let run = run("rename");
    let disk = run.disk();
    let names: BTreeSet<Vec<String>> = (0..100)
        .map(|seed| disk.after_power_loss(&mut Chance::new(seed)).entries.into_keys().collect())
        .collect();
    let expected = [["kept", "old"], ["kept", "new"]].map(|names| names.map(String::from).to_vec());
    assert_eq!(names, BTreeSet::from(expected));
}

#[test]
fn the_journal_misses_nothing() {
    let run = run("everything");
    let actual = Image::of_directory(run.recorder.root()).unwrap();
    assert_eq!(run.disk().as_written().differences(&actual), Vec::<String>::new());
    assert_eq!(actual.entries["one/three/b"].as_ref().unwrap().len(), 4020);
    // An image can be written and read.
    let copy = run.directory.path().join("copy");
    actual.write_to(&copy).unwrap();
    assert_eq!(Image::of_directory(&copy).unwrap(), actual);
    // At each earlier moment, too, there is a disk.
    let journal = run.recorder.journal().unwrap();
    for record in journal.records() {
        run.recorder.disk_at(&journal, record.end).unwrap().after_power_loss(&mut Chance::new(record.end));
    }
}

#[test]
fn what_is_not_modelled_is_refused() {
    let run = run("mapped");
    let journal = run.recorder.journal().unwrap();
    let problem = run.recorder.disk_at(&journal, journal.end()).unwrap_err();
    assert!(problem.contains("writable shared mapping"), "{problem}");
}

#[test]
fn a_sync_that_failed_is_not_made_good_by_the_next() {
    let fault = Fault { call: FaultyCall::Sync, error: libc::EIO, part: "/a".to_owned(), first: 1, count: 1 };
    let run = run_with("faulty sync", Some(&fault));
    assert_eq!(run.recorder.journal().unwrap().faults().len(), 1);
    // The first 600 bytes are lost, though two syncs succeeded after the write.
    let outcomes = run.outcomes("a");
    assert_eq!(outcomes, BTreeSet::from([Some([vec![0; 600], vec![2; 600]].concat())]));
}

#[test]
fn writes_fail_on_demand() {
    let fault =
        Fault { call: FaultyCall::Write, error: libc::ENOSPC, part: "a".to_owned(), first: 3, count: 1 };
    let run = run_with("full disk", Some(&fault));
    assert_eq!(fs::read(run.recorder.root().join("a")).unwrap(), b"theretherethere");
    let journal = run.recorder.journal().unwrap();
    assert!(
        journal
            .records()
            .any(|record| matches!(record.operation, Operation::Fault { error: libc::ENOSPC, .. }))
    );
}
