//! Lock modes of both kinds as bits of one set, and which conflict (manual, tables 13.2 and 13.3).

use crate::{RowLockMode, TableLockMode};

/// A row lock mode (0 to 5) or a table lock mode (6 to 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mode(u8);

/// A set of [`Mode`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ModeSet(u16);

const FIRST_TABLE_MODE: u8 = 6;
const ROW_MODES: u16 = (1 << FIRST_TABLE_MODE) - 1;
const MODES: usize = 14;

const fn bits(modes: &[u8]) -> u16 {
    let mut set = 0;
    let mut at = 0;
    while at < modes.len() {
        set |= 1 << modes[at];
        at += 1;
    }
    set
}

/// What each mode conflicts with. Symmetric.
const CONFLICTS: [u16; MODES] = [
    // WITNESS, KEY SHARE, SHARE, NO KEY UPDATE, UPDATE, REMOVE
    bits(&[5]),
    bits(&[4, 5]),
    bits(&[3, 4, 5]),
    bits(&[2, 3, 4, 5]),
    bits(&[1, 2, 3, 4, 5]),
    bits(&[0, 1, 2, 3, 4, 5]),
    // ACCESS SHARE, ROW SHARE, ROW EXCLUSIVE, SHARE UPDATE EXCLUSIVE
    bits(&[13]),
    bits(&[12, 13]),
    bits(&[10, 11, 12, 13]),
    bits(&[9, 10, 11, 12, 13]),
    // SHARE, SHARE ROW EXCLUSIVE, EXCLUSIVE, ACCESS EXCLUSIVE
    bits(&[8, 9, 11, 12, 13]),
    bits(&[8, 9, 10, 11, 12, 13]),
    bits(&[7, 8, 9, 10, 11, 12, 13]),
    bits(&[6, 7, 8, 9, 10, 11, 12, 13]),
];

const NAMES: [&str; MODES] = [
    "RowWitnessLock",
    "RowKeyShareLock",
    "RowShareLock",
    "RowNoKeyUpdateLock",
    "RowUpdateLock",
    "RowRemoveLock",
    "AccessShareLock",
    "RowShareLock",
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
];

impl Mode {
    pub(super) fn of_row(mode: RowLockMode) -> Self {
        Mode(mode as u8)
    }

    /// `None` for a table's.
    pub(super) fn row_mode(self) -> Option<RowLockMode> {
        RowLockMode::ALL.get(usize::from(self.0)).copied()
    }

    pub(super) fn of_table(mode: TableLockMode) -> Self {
        Mode(FIRST_TABLE_MODE + mode as u8)
    }

    pub(super) fn is_row(self) -> bool {
        self.0 < FIRST_TABLE_MODE
    }

    pub(super) fn conflicts(self) -> ModeSet {
        ModeSet(CONFLICTS[usize::from(self.0)])
    }

    /// As PostgreSQL's `pg_locks.mode` names table locks.
    pub(super) fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }
}

impl ModeSet {
    pub(super) fn of(mode: Mode) -> Self {
        ModeSet(1 << mode.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn intersects(self, other: ModeSet) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn add(&mut self, other: ModeSet) {
        self.0 |= other.0;
    }

    pub(super) fn remove(&mut self, mode: Mode) {
        self.0 &= !(1 << mode.0);
    }

    /// Whether holding these makes asking for `mode` superfluous. Row modes are ordered by strength; table modes are
    /// not (SHARE and ROW EXCLUSIVE), and each is listed by its own name.
    pub(super) fn cover(self, mode: Mode) -> bool {
        if mode.is_row() { (self.0 & ROW_MODES) >> mode.0 != 0 } else { self.0 & (1 << mode.0) != 0 }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Mode> {
        (0..MODES as u8).map(Mode).filter(move |mode| self.0 & (1 << mode.0) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: [RowLockMode; 6] = [
        RowLockMode::Witness,
        RowLockMode::KeyShare,
        RowLockMode::Share,
        RowLockMode::NoKeyUpdate,
        RowLockMode::Update,
        RowLockMode::Remove,
    ];
    const TABLE: [TableLockMode; 8] = [
        TableLockMode::AccessShare,
        TableLockMode::RowShare,
        TableLockMode::RowExclusive,
        TableLockMode::ShareUpdateExclusive,
        TableLockMode::Share,
        TableLockMode::ShareRowExclusive,
        TableLockMode::Exclusive,
        TableLockMode::AccessExclusive,
    ];

    fn table(modes: &[Mode]) -> Vec<String> {
        modes
            .iter()
            .map(|a| {
                modes
                    .iter()
                    .map(|b| if a.conflicts().intersects(ModeSet::of(*b)) { 'x' } else { '.' })
                    .collect()
            })
            .collect()
    }

    /// The manual's tables, as printed there, with our two around the four of rows.
    #[test]
    fn conflict_tables() {
        assert_eq!(
            table(&ROW.map(Mode::of_row)),
            [".....x", "....xx", "...xxx", "..xxxx", ".xxxxx", "xxxxxx"]
        );
        let expected =
            [".......x", "......xx", "....xxxx", "...xxxxx", "..xx.xxx", "..xxxxxx", ".xxxxxxx", "xxxxxxxx"];
        assert_eq!(table(&TABLE.map(Mode::of_table)), expected);
    }

    #[test]
    fn a_stronger_row_lock_covers_weaker_ones() {
        for (i, held) in ROW.into_iter().enumerate() {
            for (j, wanted) in ROW.into_iter().enumerate() {
                assert_eq!(ModeSet::of(Mode::of_row(held)).cover(Mode::of_row(wanted)), i >= j);
            }
        }
        let share = ModeSet::of(Mode::of_table(TableLockMode::Share));
        assert!(!share.cover(Mode::of_table(TableLockMode::RowExclusive)));
        assert!(!share.cover(Mode::of_row(RowLockMode::KeyShare)));
    }
}
