//! Answers that PostgreSQL gave once and a file keeps: what they say of Cairn's answer, beside whatever PostgreSQL is
//! installed here.
//!
//! A recording names the minor version that gave it (the file `RECORDED_BY` beside it). Another minor version may answer
//! otherwise, and that is no fault of Cairn's: where it does, Cairn passes with either answer, and no verdict is given
//! where it gives neither.

use std::fs;
use std::io;
use std::path::Path;

/// Who gave the recorded answers of a folder, and who is asked beside them.
pub struct Versions {
    recorded_by: String,
    present: String,
}

/// What an answer of Cairn's is worth.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// It is the recorded one, which the PostgreSQL that is installed gives too.
    Right,
    /// It is right or cannot be judged, because another minor version answers otherwise: what is to be said of that.
    Noted(String),
    /// The version that gave the recorded answer gives another one now: the recording is stale.
    Stale(String),
    /// Cairn answers otherwise than PostgreSQL.
    Wrong(String),
}

impl Versions {
    /// Those of a folder; `present` is what is installed, such as "PostgreSQL 15.18, psql 15.18".
    pub fn of(folder: &Path, present: &str) -> io::Result<Versions> {
        let recorded_by = fs::read_to_string(folder.join("RECORDED_BY"))?;
        Ok(Versions { recorded_by: recorded_by.trim().to_owned(), present: present.to_owned() })
    }

    /// The folder's answers are given anew, all by what is installed.
    pub fn record(folder: &Path, present: &str) -> io::Result<()> {
        fs::write(folder.join("RECORDED_BY"), format!("{present}\n"))
    }

    /// Judges Cairn's answer; `postgres` is that of the PostgreSQL which is installed, if any.
    pub fn judge(&self, recorded: &str, postgres: Option<&str>, cairn: &str) -> Verdict {
        let Versions { recorded_by, present } = self;
        let otherwise =
            format!("{present} answers otherwise than {recorded_by}, which gave the recorded answer");
        match postgres {
            Some(answer) if answer != recorded && present == recorded_by => {
                Verdict::Stale(format!("{present} no longer answers as recorded"))
            }
            Some(answer) if answer != recorded && (cairn == answer || cairn == recorded) => {
                Verdict::Noted(format!("{otherwise}; Cairn answers as one of them"))
            }
            Some(answer) if answer != recorded => {
                Verdict::Noted(format!("skipped: {otherwise}, and Cairn as neither; no verdict"))
            }
            _ if cairn == recorded => Verdict::Right,
            _ => Verdict::Wrong(format!("Cairn differs from what {recorded_by} answered; here is {present}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(present: &str) -> Versions {
        Versions { recorded_by: "PostgreSQL 15.18".into(), present: present.into() }
    }

    #[test]
    fn the_recording_version_decides() {
        let same = versions("PostgreSQL 15.18");
        assert_eq!(same.judge("a", Some("a"), "a"), Verdict::Right);
        assert_eq!(same.judge("a", None, "a"), Verdict::Right);
        assert!(matches!(same.judge("a", Some("a"), "b"), Verdict::Wrong(_)));
        assert!(matches!(same.judge("a", None, "b"), Verdict::Wrong(_)));
        assert!(matches!(same.judge("a", Some("b"), "a"), Verdict::Stale(_)));
        assert!(matches!(same.judge("a", Some("b"), "b"), Verdict::Stale(_)));
    }

    #[test]
    fn another_minor_version_is_no_fault_of_cairns() {
        let newer = versions("PostgreSQL 15.20");
        assert_eq!(newer.judge("a", Some("a"), "a"), Verdict::Right);
        for cairn in ["a", "b", "c"] {
            let Verdict::Noted(note) = newer.judge("a", Some("b"), cairn) else { panic!("{cairn}") };
            assert!(note.contains("15.18") && note.contains("15.20"), "{note}");
        }
        // Both versions agree: then it is Cairn that differs.
        let Verdict::Wrong(message) = newer.judge("a", Some("a"), "c") else { panic!() };
        assert!(message.contains("15.18") && message.contains("15.20"), "{message}");
    }
}
