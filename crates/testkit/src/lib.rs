//! Starts servers for tests and benchmarks: Cairn, and the PostgreSQL that it is compared with.
//!
//! Each server lives in a temporary directory on a free loopback port and dies with its [`Server`] value.
//! Both are driven through stock `psql` and `pgbench`, as users do.
//!
//! Also what tests of several crates share: [`SmallDisk`], the quiet parts of an environment ([`mod@env`]), and answers of
//! PostgreSQL's that files keep ([`recorded`]).

pub mod env;
pub mod recorded;
mod small_disk;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub use small_disk::SmallDisk;
use tempfile::TempDir;

/// The major version of PostgreSQL that Cairn follows.
const MAJOR: u32 = 15;

/// How long a server may take to accept its first connection.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server, Cairn or PostgreSQL.
pub struct Server {
    name: String,
    port: u16,
    /// Kept for its `Drop`; `None` where the caller owns the directory.
    _directory: Option<TempDir>,
    data_directory: PathBuf,
    child: Child,
    /// For starting it again.
    command: Command,
}

impl Server {
    /// Starts the `cairn` binary on a new, empty data directory.
    pub fn cairn(binary: &Path) -> io::Result<Server> {
        let directory = temporary_directory()?;
        let data = directory.path().join("data");
        let mut server = Server::cairn_at(binary, &data)?;
        server._directory = Some(directory);
        Ok(server)
    }

    /// Starts the `cairn` binary on a data directory of the caller's.
    pub fn cairn_at(binary: &Path, data_directory: &Path) -> io::Result<Server> {
        Server::cairn_with(binary, data_directory, |_| {})
    }

    /// The same with further arguments or variables.
    pub fn cairn_with(
        binary: &Path,
        data_directory: &Path,
        adjust: impl FnOnce(&mut Command),
    ) -> io::Result<Server> {
        let port = free_port()?;
        let log = fs::File::create(log_path(data_directory))?;
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .arg("--data-dir")
            .arg(data_directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        adjust(&mut command);
        Server::start("Cairn".into(), port, data_directory.to_path_buf(), command)
    }

    /// Starts the PostgreSQL whose answers are the right ones; `None`, with a word about it, where that major version is
    /// not installed.
    pub fn reference(settings: &[(&str, &str)]) -> io::Result<Option<Server>> {
        let installed = postgres_bin().map(|bin| version_name(&bin));
        match installed {
            Some(name) if major(name.trim_start_matches("PostgreSQL ")) == Some(MAJOR) => {
                Server::postgres(settings)
            }
            Some(name) => {
                eprintln!("skipped: comparing with PostgreSQL {MAJOR} itself ({name} is installed)");
                Ok(None)
            }
            None => {
                eprintln!("skipped: comparing with PostgreSQL {MAJOR} itself (no PostgreSQL is installed)");
                Ok(None)
            }
        }
    }

    /// Starts a PostgreSQL with the C.UTF-8 locale and durable commits; `None` where no server is installed.
    pub fn postgres(settings: &[(&str, &str)]) -> io::Result<Option<Server>> {
        let Some(bin) = postgres_bin() else { return Ok(None) };
        let directory = temporary_directory()?;
        let data = directory.path().join("data");
        make_accessible(directory.path())?;
        let output = as_unprivileged(&bin.join("initdb"))
            .arg("-D")
            .arg(&data)
            .args(["--locale=C.UTF-8", "--encoding=UTF8", "--auth=trust", "--username=postgres", "--no-sync"])
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("initdb: {}", String::from_utf8_lossy(&output.stderr))));
        }
        let port = free_port()?;
        let log = fs::File::create(log_path(&data))?;
        let mut command = as_unprivileged(&bin.join("postgres"));
        command.arg("-D").arg(&data).args([
            "-p",
            &port.to_string(),
            "-k",
            "",
            "-c",
            "listen_addresses=127.0.0.1",
        ]);
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let name = version_name(&bin);
        let mut server = Server::start(name, port, data, command)?;
        server._directory = Some(directory);
        Ok(Some(server))
    }

    fn start(name: String, port: u16, data_directory: PathBuf, mut command: Command) -> io::Result<Server> {
        let child = command.spawn()?;
        let mut server = Server { name, port, _directory: None, data_directory, child, command };
        server.wait_ready()?;
        Ok(server)
    }

    fn wait_ready(&mut self) -> io::Result<()> {
        let server = self;
        let port = server.port;
        let begin = Instant::now();
        loop {
            if accepts_startup(port) {
                return Ok(());
            }
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!(
                    "{} ended at start ({status}): {}",
                    server.name,
                    server.log()
                )));
            }
            if begin.elapsed() > START_TIMEOUT {
                return Err(io::Error::other(format!("{} does not answer: {}", server.name, server.log())));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// "Cairn", or "PostgreSQL 15.18".
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn data_directory(&self) -> &Path {
        &self.data_directory
    }

    /// What the server printed so far.
    pub fn log(&self) -> String {
        fs::read_to_string(log_path(&self.data_directory)).unwrap_or_default()
    }

    /// A client program with the PG* variables of this server, and nothing of the user's own.
    pub fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars() {
            if name.starts_with("PG") {
                command.env_remove(name);
            }
        }
        // With several major versions, Debian's wrappers run the newest one's clients.
        if let Some(bin) = postgres_bin() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let folders = std::iter::once(bin).chain(std::env::split_paths(&path));
            if let Ok(path) = std::env::join_paths(folders) {
                command.env("PATH", path);
            }
        }
        command
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres")
            .env("PGTZ", "UTC")
            .env("PGDATESTYLE", "ISO, MDY")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// Runs statements through psql; the unaligned rows, or all that psql said as an error.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        let output =
            self.client("psql").args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statements]).output()?;
        succeed("psql", output)
    }

    /// Runs a file through psql.
    pub fn sql_file(&self, path: &Path) -> io::Result<String> {
        let output = self.client("psql").args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-f"]).arg(path).output()?;
        succeed("psql", output)
    }

    /// CPU time (user and system) that the server's processes have used so far.
    pub fn cpu_time(&self) -> Duration {
        let ticks: u64 = process_tree(self.child.id()).into_iter().filter_map(cpu_ticks).sum();
        Duration::from_millis(ticks * 10)
    }

    /// kill -9, as a crash; the data directory stays.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it as an administrator does and starts it again on the same directory and port; returns how long that took.
    pub fn restart(&mut self) -> io::Result<Duration> {
        let begin = Instant::now();
        // Cairn ends at once, PostgreSQL does a fast shutdown.
        // SAFETY: a signal to a child of ours that has not been waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
        self.child.wait()?;
        self.child = self.command.spawn()?;
        self.wait_ready()?;
        Ok(begin.elapsed())
    }

    /// How it ended by itself; `None` while it runs.
    pub fn ended(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        self.child.try_wait()
    }

    /// SIGTERM, and how long the server took to end.
    pub fn stop(mut self) -> io::Result<(Duration, std::process::ExitStatus)> {
        let begin = Instant::now();
        terminate(&self.child);
        let status = self.child.wait()?;
        Ok((begin.elapsed(), status))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        // PostgreSQL's children outlive a killed parent for a while: SIGINT asks for a fast shutdown.
        // SAFETY: a signal to a child of ours that has not been waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn terminate(child: &Child) {
    // SAFETY: a signal to a child of ours that has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

/// Standard output of a successful program; otherwise an error with all that it said.
pub fn succeed(program: &str, output: Output) -> io::Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let message =
        format!("{program} ended with {}:\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    Err(io::Error::other(message))
}

/// The directory of the programs of PostgreSQL 15, or of the newest one that is installed; `CAIRN_POSTGRES_BIN` names
/// another.
pub fn postgres_bin() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CAIRN_POSTGRES_BIN") {
        return Some(PathBuf::from(named));
    }
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            let bin = path.join("bin");
            bin.join("postgres").exists().then_some((version, bin))
        })
        .collect();
    found.sort_by_key(|(version, _)| (*version == MAJOR, *version));
    found.pop().map(|(_, bin)| bin)
}

/// The version of the psql that [`Server::client`] runs, such as "15.18"; `None` where there is none.
pub fn psql_version() -> Option<String> {
    let named = postgres_bin().map(|bin| bin.join("psql")).filter(|program| program.exists());
    let output = Command::new(named.unwrap_or_else(|| "psql".into())).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().nth(2).map(str::to_owned)
}

/// Why what psql shows cannot be compared with what the psql of PostgreSQL 15 showed; `None` where it can.
pub fn psql_is_another() -> Option<String> {
    match psql_version() {
        Some(version) if major(&version) == Some(MAJOR) => None,
        Some(version) => {
            Some(format!("the recorded answers are those of psql {MAJOR}, psql {version} is installed"))
        }
        None => Some("no psql is installed".into()),
    }
}

/// Of "15.18" or "17beta1".
fn major(version: &str) -> Option<u32> {
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

fn version_name(bin: &Path) -> String {
    let output = Command::new(bin.join("postgres")).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = text.split_whitespace().nth(2).unwrap_or("?");
    format!("PostgreSQL {version}")
}

/// PostgreSQL refuses to run as root: there it runs as the user `postgres`, or `nobody`.
fn as_unprivileged(program: &Path) -> Command {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let user = if user_exists("postgres") { "postgres" } else { "nobody" };
    command.args([&format!("--reuid={user}"), "--clear-groups", "--"]).arg(program);
    command
}

fn user_exists(name: &str) -> bool {
    let prefix = format!("{name}:");
    fs::read_to_string("/etc/passwd").is_ok_and(|text| text.lines().any(|line| line.starts_with(&prefix)))
}

/// Lets the unprivileged user write into a directory of ours.
fn make_accessible(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

/// In `CAIRN_TEST_DIR`, or the system's temporary directory.
fn temporary_directory() -> io::Result<TempDir> {
    let builder = |base: Option<PathBuf>| match base {
        Some(base) => tempfile::Builder::new().prefix("cairn-").tempdir_in(base),
        None => tempfile::Builder::new().prefix("cairn-").tempdir(),
    };
    builder(std::env::var_os("CAIRN_TEST_DIR").map(PathBuf::from))
}

fn log_path(data_directory: &Path) -> PathBuf {
    data_directory.with_extension("log")
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Whether a server answers an SSLRequest, the cheapest question of the protocol.
fn accepts_startup(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let request = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let mut answer = [0];
    stream.write_all(&request).is_ok() && stream.read_exact(&mut answer).is_ok()
}

/// A process and all its descendants.
fn process_tree(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .map(|entries| {
            entries
                .filter_map(|entry| {
                    let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
                    Some((pid, stat_fields(pid)?.get(1)?.parse().ok()?))
                })
                .collect()
        })
        .unwrap_or_default();
    while let Some(&parent) = tree.get(next) {
        tree.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

/// Memory of a process and all its descendants: pages that several share count once (PSS). 0 if it is gone.
pub fn memory_bytes(pid: u32) -> u64 {
    let of_process = |pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    process_tree(pid).into_iter().filter_map(of_process).sum::<u64>() * 1024
}

/// User and system time of this process, without its children's.
pub fn own_cpu_time() -> Duration {
    Duration::from_millis(cpu_fields(std::process::id(), 11..13).unwrap_or(0) * 10)
}

/// User and system time of a process, and of its ended children, in hundredths of a second.
fn cpu_ticks(pid: u32) -> Option<u64> {
    cpu_fields(pid, 11..15)
}

/// The sum of some of utime, stime, cutime and cstime (proc(5): fields 14 to 17).
fn cpu_fields(pid: u32, which: std::ops::Range<usize>) -> Option<u64> {
    let fields = stat_fields(pid)?;
    which.map(|index| fields.get(index)?.parse::<u64>().ok()).sum()
}

/// The fields of /proc/pid/stat behind the command name: index 0 is the state.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = text.rsplit_once(')')?;
    Some(behind_name.split_whitespace().map(str::to_owned).collect())
}
