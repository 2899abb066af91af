//! How far back history is kept: retention, and the horizons that follow from it.
//!
//! A time at or above a storage's horizon is readable, pinned or not. Horizons only move forward: raising the retention
//! cannot bring back what was collected. Each is the present minus the retention, and never passes what is durable:
//! a version is removed because of a newer one, which must not be lost in a crash.
//!
//! ```text
//!                      jump of the wall clock
//!                            |=======|
//!   ------o------------------+       +------o--------> time of the clock
//!      horizon                              now
//!         |<---- counted --->|       |<---->|          together: the retention
//! ```
//!
//! **Only time that passed while somebody looked counts.** If the clock is more than [`JUMP_MICROS`] ahead of the last
//! look, it jumped, or the server did not run; either way nobody had the chance to read that history at its age. So a
//! wrong clock ages nothing, and a server that was off for a week begins with its history as old as when it stopped.
//!
//! Layout of the records in `meta` (all numbers big endian):
//!
//! ```text
//! 04                        01, last look u64, horizon u64, retention i64, number of jumps u16,
//!                           and for each jump, oldest first: from u64, to u64
//! 22 [storage id, 4 bytes]  01, retention i64, horizon u64
//! retention: microseconds; -1 for ever; -2 none of its own (that of the server, or of the database)
//! ```
//!
//! Recovery: records are durable before a horizon is used for anything, so the horizon that is found is at or above
//! every one that was used. A missing record is a horizon of 0. The last look is at most the clock ceiling.

use std::collections::HashMap;

use crate::meta::{self, read_u64};
use crate::{Error, Result, StorageId, Timestamp};

/// A clock that is so much ahead of the last look has jumped.
pub const JUMP_MICROS: i64 = 10_000_000;

/// Beyond so many jumps the oldest two are taken for one: history is kept a little longer.
const JUMPS_MAX: usize = 64;

/// Horizons move in steps of this part of the retention, at most a minute: each step costs an fsync.
const STEP_PART: i64 = 64;
const STEP_MAX_MICROS: i64 = 60_000_000;

/// How long history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// So many microseconds; 0 keeps only what somebody still reads.
    Micros(i64),
    Forever,
}

/// What a server does that was told nothing.
pub const DEFAULT_RETENTION: Retention = Retention::Micros(15 * 60 * 1_000_000);

impl Retention {
    /// Any negative number means for ever.
    pub fn from_micros(micros: i64) -> Self {
        if micros < 0 { Retention::Forever } else { Retention::Micros(micros) }
    }

    fn encode(retention: Option<Self>) -> [u8; 8] {
        match retention {
            Some(Retention::Micros(micros)) => micros.max(0),
            Some(Retention::Forever) => -1,
            None => -2,
        }
        .to_be_bytes()
    }

    fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        Ok(match read_u64("retention", bytes)? as i64 {
            -1 => Some(Retention::Forever),
            -2 => None,
            micros if micros >= 0 => Some(Retention::Micros(micros)),
            other => {
                return Err(Error::Corruption { what: "retention", detail: format!("{other} microseconds") });
            }
        })
    }

    /// A horizon that would move by less stays where it is.
    fn step(self) -> i64 {
        match self {
            Retention::Micros(micros) => (micros / STEP_PART).min(STEP_MAX_MICROS),
            Retention::Forever => 0,
        }
    }
}

/// The horizons of one moment; what collectors and readers look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Horizons {
    /// Of every storage that has none of its own.
    pub default: Timestamp,
    pub own: HashMap<StorageId, Timestamp>,
}

/// Storages below belong to the catalog. It must be readable at every time at which any table is.
const FIRST_NORMAL_STORAGE: StorageId = 16384;

impl Horizons {
    /// Times at or above it are readable in this storage.
    #[inline]
    pub fn of(&self, storage: StorageId) -> Timestamp {
        if self.own.is_empty() {
            return self.default;
        }
        if storage < FIRST_NORMAL_STORAGE {
            return self.lowest();
        }
        self.own.get(&storage).copied().unwrap_or(self.default)
    }

    /// A time below it is readable nowhere.
    pub fn lowest(&self) -> Timestamp {
        self.own.values().copied().min().unwrap_or(Timestamp::MAX).min(self.default)
    }

    /// A time at or above it is readable everywhere.
    pub(crate) fn highest(&self) -> Timestamp {
        self.own.values().copied().max().unwrap_or_default().max(self.default)
    }
}

/// Retention and horizon of a storage that has, or had, a retention of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    /// `None`: it follows the others again, once their horizon has reached its own.
    retention: Option<Retention>,
    horizon: Timestamp,
}

/// Everything that decides where horizons are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History {
    last_look: Timestamp,
    /// Gaps of the clock that do not count, oldest first, as times from and to.
    jumps: Vec<(Timestamp, Timestamp)>,
    /// Of the server: not stored.
    server_retention: Retention,
    /// Of the database.
    retention: Option<Retention>,
    default: Timestamp,
    own: HashMap<StorageId, Own>,
}

impl History {
    pub(crate) fn new(server_retention: Retention) -> Self {
        History {
            last_look: Timestamp::MIN,
            jumps: Vec::new(),
            server_retention,
            retention: None,
            default: Timestamp::MIN,
            own: HashMap::new(),
        }
    }

    pub(crate) fn retention(&self) -> Retention {
        self.retention.unwrap_or(self.server_retention)
    }

    pub(crate) fn database_retention(&self) -> Option<Retention> {
        self.retention
    }

    pub(crate) fn own_retention(&self, storage: StorageId) -> Option<Retention> {
        self.own.get(&storage)?.retention
    }

    /// Storages with a retention of their own.
    pub(crate) fn own_retentions(&self) -> HashMap<StorageId, Retention> {
        self.own.iter().filter_map(|(storage, own)| Some((*storage, own.retention?))).collect()
    }

    pub(crate) fn horizons(&self) -> Horizons {
        let own = self.own.iter().map(|(storage, own)| (*storage, own.horizon)).collect();
        Horizons { default: self.default, own }
    }

    pub(crate) fn set_retention(&mut self, retention: Option<Retention>) {
        self.retention = retention;
    }

    pub(crate) fn set_server_retention(&mut self, retention: Retention) {
        self.server_retention = retention;
    }

    /// What was readable stays readable under a longer retention; what was not does not come back.
    pub(crate) fn set_own_retention(&mut self, storage: StorageId, retention: Option<Retention>) {
        match self.own.get_mut(&storage) {
            Some(own) => own.retention = retention,
            None if retention.is_none() => {}
            None => {
                self.own.insert(storage, Own { retention, horizon: self.default });
            }
        }
    }

    /// Looks at the clock: a gap is noted.
    pub(crate) fn look(&mut self, now: Timestamp) {
        if now <= self.last_look {
            return;
        }
        if now.micros() - self.last_look.micros() > JUMP_MICROS {
            self.jumps.push((self.last_look, now));
            if self.jumps.len() > JUMPS_MAX {
                let (from, _) = self.jumps.remove(0);
                if let Some(oldest) = self.jumps.first_mut() {
                    oldest.0 = from;
                }
            }
        }
        self.last_look = now;
    }

    /// The time that is so much counted time before the last look.
    fn before_last_look(&self, mut micros: i64) -> Timestamp {
        let mut end = self.last_look.micros();
        for (from, to) in self.jumps.iter().rev() {
            let counted = end - to.micros();
            if counted >= micros {
                break;
            }
            micros -= counted.max(0);
            end = from.micros();
        }
        Timestamp::from_micros(end.saturating_sub(micros))
    }

    fn target(&self, retention: Retention, settled: Timestamp) -> Timestamp {
        match retention {
            Retention::Forever => Timestamp::MIN,
            // Nothing is kept for its age alone.
            Retention::Micros(0) => settled,
            Retention::Micros(micros) => self.before_last_look(micros).min(settled),
        }
    }

    /// Moves the horizons on, as far as `settled` allows; which records have to be written (`None`: the default's).
    /// Those that would move by a small step only, stay.
    pub(crate) fn advance(&mut self, settled: Timestamp) -> Vec<Option<StorageId>> {
        let mut changed = Vec::new();
        let moved = |horizon: Timestamp, target: Timestamp, retention: Retention| {
            // Where nothing new is committed, the last step is as small as it has to be.
            target > horizon && (target.micros() - horizon.micros() >= retention.step() || target == settled)
        };
        let retention = self.retention();
        let target = self.target(retention, settled);
        if moved(self.default, target, retention) {
            self.default = target;
            changed.push(None);
        }
        let storages: Vec<StorageId> = self.own.keys().copied().collect();
        for storage in storages {
            let Some(Own { retention: own_retention, horizon }) = self.own.get(&storage).copied() else {
                continue;
            };
            if own_retention.is_none() && self.default >= horizon {
                self.own.remove(&storage);
                changed.push(Some(storage));
                continue;
            }
            let retention = own_retention.unwrap_or(retention);
            let target = self.target(retention, settled);
            if moved(horizon, target, retention) {
                self.own.insert(storage, Own { retention: own_retention, horizon: target });
                changed.push(Some(storage));
            }
        }
        self.forget_old_jumps();
        changed
    }

    /// Horizons only move forward, so what lies before all of them does not matter any more.
    fn forget_old_jumps(&mut self) {
        let lowest =
            self.own.values().map(|own| own.horizon).min().unwrap_or(Timestamp::MAX).min(self.default);
        self.jumps.retain(|(_, to)| *to > lowest);
    }

    // ---- records ----------------------------------------------------------------------------------------

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend_from_slice(&self.last_look.0.to_be_bytes());
        bytes.extend_from_slice(&self.default.0.to_be_bytes());
        bytes.extend_from_slice(&Retention::encode(self.retention));
        bytes.extend_from_slice(&u16::try_from(self.jumps.len()).unwrap_or(u16::MAX).to_be_bytes());
        for (from, to) in &self.jumps {
            bytes.extend_from_slice(&from.0.to_be_bytes());
            bytes.extend_from_slice(&to.0.to_be_bytes());
        }
        bytes
    }

    /// The record of a storage; `None`: it has none.
    pub(crate) fn encode_own(&self, storage: StorageId) -> Option<Vec<u8>> {
        let own = self.own.get(&storage)?;
        Some([&[1], &Retention::encode(own.retention)[..], &own.horizon.0.to_be_bytes()[..]].concat())
    }

    /// Takes over what the record says.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<()> {
        let corrupt = || meta::corrupt("history record", bytes);
        let [1, rest @ ..] = bytes else { return Err(corrupt()) };
        let (head, jumps) = rest.split_at_checked(26).ok_or_else(corrupt)?;
        self.last_look = Timestamp(read_u64("history record", &head[..8])?);
        self.default = Timestamp(read_u64("history record", &head[8..16])?);
        self.retention = Retention::decode(&head[16..24])?;
        let count = usize::from(u16::from_be_bytes([head[24], head[25]]));
        if jumps.len() != count * 16 {
            return Err(corrupt());
        }
        self.jumps.clear();
        for jump in jumps.chunks_exact(16) {
            let (from, to) =
                (read_u64("history record", &jump[..8])?, read_u64("history record", &jump[8..])?);
            self.jumps.push((Timestamp(from), Timestamp(to)));
        }
        Ok(())
    }

    pub(crate) fn read_own(&mut self, storage: StorageId, bytes: &[u8]) -> Result<()> {
        let [1, rest @ ..] = bytes else { return Err(meta::corrupt("retention record", bytes)) };
        let (retention, horizon) =
            rest.split_at_checked(8).ok_or_else(|| meta::corrupt("retention record", bytes))?;
        let own = Own {
            retention: Retention::decode(retention)?,
            horizon: Timestamp(read_u64("retention record", horizon)?),
        };
        self.own.insert(storage, own);
        Ok(())
    }

    /// Everything stored is at or below `ceiling`: the server ran at least until shortly before.
    pub(crate) fn seen_until(&mut self, ceiling: Timestamp) {
        self.last_look = self.last_look.max(ceiling);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn minutes(minutes: i64) -> Retention {
        Retention::Micros(minutes * 60_000_000)
    }

    /// Looks every five seconds until `to`, everything settled.
    fn run(history: &mut History, from: i64, to: i64) {
        for now in (from..=to).step_by(5) {
            history.look(seconds(now));
            history.advance(seconds(now));
        }
    }

    fn started() -> History {
        let mut history = History::new(minutes(1));
        history.seen_until(seconds(1000));
        history
    }

    #[test]
    fn the_horizon_follows_at_a_distance() {
        let mut history = started();
        run(&mut history, 1000, 1030);
        assert_eq!(history.default, seconds(970));
        run(&mut history, 1030, 1100);
        assert_eq!(history.default, seconds(1040));
    }

    #[test]
    fn a_jump_of_the_clock_ages_nothing() {
        let mut history = started();
        run(&mut history, 1000, 1100);
        run(&mut history, 500_000, 500_030);
        // 30 s since the jump, 30 s before it.
        assert_eq!(history.default, seconds(1070));
        run(&mut history, 500_030, 500_055);
        assert_eq!(history.default, seconds(1095));
        run(&mut history, 500_060, 500_070);
        assert_eq!(history.default, seconds(500_010));
        assert_eq!(history.jumps, [], "it lies behind the horizon");
        // Back: nothing moves until the clock, which never goes back, goes on.
        history.look(seconds(2000));
        assert_eq!(history.advance(seconds(500_070)), []);
    }

    #[test]
    fn raising_the_retention_brings_nothing_back() {
        let mut history = started();
        run(&mut history, 1000, 1100);
        history.set_retention(Some(minutes(10)));
        run(&mut history, 1100, 1200);
        assert_eq!(history.default, seconds(1040));
        history.set_retention(Some(Retention::Forever));
        run(&mut history, 1200, 3000);
        assert_eq!(history.default, seconds(1040));
        history.set_retention(None);
        run(&mut history, 3000, 3005);
        assert_eq!(history.default, seconds(2945));
    }

    #[test]
    fn never_past_what_is_settled() {
        let mut history = started();
        history.set_retention(Some(Retention::Micros(0)));
        history.look(seconds(1005));
        history.advance(seconds(900));
        assert_eq!(history.default, seconds(900));
    }

    #[test]
    fn storages_with_their_own() {
        let mut history = started();
        history.set_own_retention(20_007, Some(Retention::Micros(0)));
        history.set_own_retention(20_008, Some(minutes(60)));
        run(&mut history, 1000, 1100);
        let horizons = history.horizons();
        assert_eq!(horizons.of(20_007), seconds(1100));
        assert_eq!(horizons.of(20_009), seconds(1040));
        assert_eq!((horizons.highest(), horizons.lowest()), (seconds(1100), Timestamp::MIN));
        assert_eq!(horizons.of(1), Timestamp::MIN, "the catalog is readable whenever a table is");
        assert_eq!(horizons.of(20_008), Timestamp::MIN);
        // It goes back to the default only when that has caught up.
        history.set_own_retention(20_007, None);
        run(&mut history, 1105, 1150);
        assert_eq!(history.horizons().of(20_007), seconds(1100));
        run(&mut history, 1150, 1200);
        assert_eq!(history.horizons().of(20_007), seconds(1140));
        assert!(!history.own.contains_key(&20_007));
    }

    #[test]
    fn layout_is_pinned() {
        let mut history = History::new(minutes(1));
        history.last_look = Timestamp(1);
        history.default = Timestamp(2);
        history.retention = Some(Retention::Forever);
        history.jumps = vec![(Timestamp(3), Timestamp(4))];
        let expected = [
            &[1u8][..],
            &1u64.to_be_bytes(),
            &2u64.to_be_bytes(),
            &(-1i64).to_be_bytes(),
            &[0, 1],
            &3u64.to_be_bytes(),
            &4u64.to_be_bytes(),
        ]
        .concat();
        assert_eq!(history.encode(), expected);
        history.own.insert(5, Own { retention: Some(Retention::Micros(6)), horizon: Timestamp(7) });
        let own = [&[1u8][..], &6i64.to_be_bytes(), &7u64.to_be_bytes()].concat();
        assert_eq!(history.encode_own(5), Some(own.clone()));
        let mut again = History::new(minutes(1));
        again.read(&expected).unwrap();
        again.read_own(5, &own).unwrap();
        assert_eq!(again, history);
    }

    proptest! {
        #[test]
        fn decoders_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut history = History::new(minutes(1));
            let _ = history.read(&bytes);
            let _ = history.read_own(1, &bytes);
        }

        /// Whatever the clock does, history of at least the retention's counted time stays readable.
        #[test]
        fn keeps_at_least_the_retention(steps in proptest::collection::vec(1i64..40, 1..200)) {
            let mut history = started();
            let (mut now, mut looks) = (1000, vec![(0i64, 1000i64)]);
            for step in steps {
                now += step;
                let counted = looks.last().map_or(0, |last| last.0) + if step > 10 { 0 } else { step };
                looks.push((counted, now));
                history.look(seconds(now));
                history.advance(seconds(now));
                for (then, at) in &looks {
                    prop_assert!(counted - then >= 60 || history.default <= seconds(*at),
                        "{at} is only {} s old at {now}", counted - then);
                }
            }
        }
    }
}
