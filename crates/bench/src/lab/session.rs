//! A psql that stays open: holds a snapshot, times statements.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use cairn_testkit::Server;

pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// What a statement said.
pub struct Answer {
    pub lines: Vec<String>,
    /// As psql measured it.
    pub time: Duration,
}

const END: &str = "-- end of answer --";

impl Session {
    pub fn open(server: &Server) -> io::Result<Session> {
        let mut child = server
            .client("psql")
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("psql has no output"))?;
        let mut session = Session { child, input, output: BufReader::new(output) };
        session.send("\\timing on\n")?;
        Ok(session)
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        let input = self.input.as_mut().ok_or_else(|| io::Error::other("psql is gone"))?;
        input.write_all(text.as_bytes())?;
        input.flush()
    }

    /// Runs one statement (without its semicolon).
    pub fn run(&mut self, statement: &str) -> io::Result<Answer> {
        self.send(&format!("{statement};\n\\echo {END}\n"))?;
        let mut answer = Answer { lines: Vec::new(), time: Duration::ZERO };
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(io::Error::other(format!("psql ended at {statement:?}")));
            }
            let line = line.trim_end();
            if line == END {
                return Ok(answer);
            }
            match line.strip_prefix("Time: ").and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok()) {
                Some(ms) => answer.time += Duration::from_secs_f64(ms / 1e3),
                None if line.starts_with("Timing is") => {}
                None => answer.lines.push(line.to_owned()),
            }
        }
    }

    /// Milliseconds of each of several runs.
    pub fn times(&mut self, statement: &str, runs: usize) -> io::Result<Vec<f64>> {
        (0..runs).map(|_| Ok(self.run(statement)?.time.as_secs_f64() * 1e3)).collect()
    }

    /// Begins a repeatable read transaction and takes its snapshot.
    pub fn hold_snapshot(&mut self) -> io::Result<()> {
        self.run("begin isolation level repeatable read")?;
        self.run("select 1 from pg_class limit 1").map(drop)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // End of input ends psql.
        self.input = None;
        let _ = self.child.wait();
    }
}
