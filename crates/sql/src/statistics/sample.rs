//! Which rows of a table ANALYZE looks at.
//!
//! A table of moderate size is read from one end to the other, and every row has the same chance to be in the sample
//! (reservoir sampling; the rows that are drawn are kept as bytes, the others are not even decoded). Its row count is exact.
//!
//! Of a large table only *stretches* are read: short runs of neighbouring rows behind random places. A place is random in
//! the bytes of the table's files, so places lie denser where rows are wide: such rows have a better chance than narrow ones. Rows
//! that only memory has yet are drawn as far as they lie behind a place in the files. Neighbours are drawn together:
//! where values depend on the key (a time beside a serial number), the sample shows fewer different ones than as many
//! independent rows would. PostgreSQL's sample of blocks has the same bias, to a smaller degree. The row count is the storage's estimate.

use cairn_exec::TxnResultExt;
use cairn_txn::{Direction, KeyRange, Snapshot, StorageId, Store, Transaction};
use cairn_types::Result;

/// A table with no more rows than so many times the sample is read as a whole.
const WHOLE_FACTOR: usize = 10;
/// The same for any table with no more rows than this.
const WHOLE_ROWS: usize = 300_000;
/// Rows of a stretch, and how many stretches there are at most; a larger sample has longer ones.
const STRETCH_ROWS: usize = 32;
const STRETCHES_MAX: usize = 1000;
/// A table of which a larger part than this lies in memory is read as a whole: it is not large then.
const MEMORY_PART_MAX: f64 = 0.25;

/// The rows that were drawn.
pub struct Sample {
    /// Keys and stored rows, in the order of the keys.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Rows of the table.
    pub total_rows: f64,
    /// Every row was looked at.
    pub whole: bool,
}

/// What is sampled.
pub struct Source<'a> {
    pub store: &'a dyn Store,
    pub transaction: &'a dyn Transaction,
    pub snapshot: Snapshot,
    pub storage: StorageId,
    /// Numbers from 0 to below 1.
    pub random: &'a dyn Fn() -> f64,
    /// Asked now and then; an error ends the work.
    pub check_interrupts: &'a dyn Fn() -> Result<()>,
}

/// Draws about so many rows: exactly so many where the table has them and is read as a whole.
pub fn draw(source: &Source<'_>, wanted: usize) -> Result<Sample> {
    let census = source.store.census(source.storage).sql()?;
    let whole_max = WHOLE_ROWS.max(wanted.saturating_mul(WHOLE_FACTOR)) as u64;
    if census.estimated && census.live > whole_max {
        let space = source.store.space_usage(source.storage).sql()?;
        let in_memory = space.memtable_bytes as f64 / (space.memtable_bytes + space.sst_bytes).max(1) as f64;
        if in_memory <= MEMORY_PART_MAX {
            return stretches(source, wanted, census.live as f64);
        }
    }
    whole(source, wanted)
}

/// Algorithm L: how many rows are passed over until the next one is drawn, without a random number for each.
struct Reservoir<'a> {
    /// Numbers from 0 to below 1.
    source: &'a dyn Fn() -> f64,
    size: usize,
    /// Largest of the random numbers that the rows in the reservoir would have.
    weight: f64,
    /// Number of the row that is drawn next.
    next: u64,
}

impl<'a> Reservoir<'a> {
    fn new(source: &'a dyn Fn() -> f64, size: usize) -> Self {
        let mut reservoir = Reservoir { source, size, weight: 1.0, next: size as u64 };
        reservoir.skip();
        reservoir
    }

    fn random(&self) -> f64 {
        (self.source)().max(f64::MIN_POSITIVE)
    }

    fn skip(&mut self) {
        self.weight *= (self.random().ln() / self.size as f64).exp();
        let passed = (self.random().ln() / (-self.weight).ln_1p()).floor();
        // A float that is too large becomes the largest integer.
        self.next = self.next.saturating_add(passed as u64);
    }

    /// Where the row of this number goes, if it is drawn.
    fn place(&mut self, number: u64) -> Option<usize> {
        if number < self.size as u64 {
            return Some(number as usize);
        }
        if number != self.next {
            return None;
        }
        self.next += 1;
        self.skip();
        Some(((self.random() * self.size as f64) as usize).min(self.size - 1))
    }
}

fn whole(source: &Source<'_>, wanted: usize) -> Result<Sample> {
    let range = cairn_exec::table::storage_range(source.storage);
    let mut cursor = source.transaction.scan(&source.snapshot, range, Direction::Forward).sql()?;
    let mut reservoir = Reservoir::new(source.random, wanted.max(1));
    let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut number = 0u64;
    while let Some((key, row)) = cursor.next().sql()? {
        if number & 0xFF == 0 {
            (source.check_interrupts)()?;
        }
        if let Some(place) = reservoir.place(number) {
            let drawn = (key.to_vec(), row.to_vec());
            match rows.get_mut(place) {
                Some(old) => *old = drawn,
                None => rows.push(drawn),
            }
        }
        number += 1;
    }
    rows.sort_unstable();
    Ok(Sample { rows, total_rows: number as f64, whole: true })
}

fn stretches(source: &Source<'_>, wanted: usize, total_rows: f64) -> Result<Sample> {
    let count = wanted.div_ceil(STRETCH_ROWS).clamp(1, STRETCHES_MAX);
    let length = wanted.div_ceil(count);
    let mut places: Vec<f64> = (0..count).map(|_| (source.random)()).collect();
    places.sort_by(f64::total_cmp);
    let keys = source.store.keys_at(source.storage, &places).sql()?;
    let end = cairn_exec::table::storage_range(source.storage).high;
    let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(wanted);
    let mut cursor = None;
    for (at, low) in keys.iter().enumerate() {
        (source.check_interrupts)()?;
        // Up to the next place: no row is drawn twice, and where only dead rows are none is drawn in their stead.
        let high = keys.get(at + 1).unwrap_or(&end);
        if low >= high {
            continue;
        }
        let range = KeyRange { low: low.clone(), high: high.clone() };
        let cursor = match &mut cursor {
            Some(cursor) => {
                let cursor: &mut Box<dyn cairn_txn::Cursor> = cursor;
                cursor.reset(range).sql()?;
                cursor
            }
            None => {
                let scan = source.transaction.scan(&source.snapshot, range, Direction::Forward).sql()?;
                cursor.insert(scan)
            }
        };
        for _ in 0..length {
            let Some((key, row)) = cursor.next().sql()? else { break };
            rows.push((key.to_vec(), row.to_vec()));
        }
    }
    Ok(Sample { total_rows: total_rows.max(rows.len() as f64), rows, whole: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_txn::{
        BeginOptions, Clock, Cluster, Durability, EngineOptions, Interrupt, Isolation, Origin, Resources,
        SessionHandle,
    };
    use std::cell::Cell;
    use std::sync::Arc;

    fn random(state: &Cell<u64>) -> f64 {
        state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        (state.get() >> 11) as f64 / (1u64 << 53) as f64
    }

    #[test]
    fn every_row_has_the_same_chance() {
        let state = Cell::new(7u64);
        let random = || random(&state);
        let (rows, size, rounds) = (200u64, 20, 2000);
        let mut drawn = vec![0u32; rows as usize];
        for _ in 0..rounds {
            let mut reservoir = Reservoir::new(&random, size);
            let mut kept = vec![0; size];
            for number in 0..rows {
                if let Some(place) = reservoir.place(number) {
                    kept[place] = number;
                }
            }
            kept.iter().for_each(|number| drawn[*number as usize] += 1);
        }
        // Each is drawn 200 times on average; five standard deviations are 67.
        assert!(drawn.iter().all(|times| (133..=267).contains(times)), "{drawn:?}");
    }

    /// Stretches lie all over what is alive, and rows that are dead have none in their place.
    #[test]
    fn stretches_are_spread() {
        const ROWS: u64 = 40_000;
        let directory = tempfile::tempdir().unwrap();
        let options =
            EngineOptions { memtable_bytes: 256 << 10, file_bytes: 256 << 10, ..EngineOptions::default() };
        let cluster =
            Cluster::open_with(directory.path(), options, Resources::for_this_machine(), Clock::system())
                .unwrap();
        cluster.create_database_with_oid("postgres", 5, 10, Origin::Empty).unwrap();
        let store = cluster.database("postgres").unwrap();
        let session = Arc::new(SessionHandle { pid: 1, interrupt: Arc::new(Interrupt::new()) });
        let begin = || {
            let isolation = Isolation::ReadCommitted;
            let session = Arc::clone(&session);
            Store::begin(&store, BeginOptions { session, isolation, read_only: false, read_time: None })
                .unwrap()
        };
        let transaction = begin();
        let storage = transaction.create_storage().unwrap();
        let key = |number: u64| [&storage.to_be_bytes()[..], &number.to_be_bytes()].concat();
        for number in 0..ROWS {
            transaction.put(&key(number), &[number as u8; 100]).unwrap();
        }
        transaction.commit(Durability::Async, None).unwrap();
        let transaction = begin();
        for number in 0..ROWS / 2 {
            transaction.delete(&key(number)).unwrap();
        }
        transaction.commit(Durability::Async, None).unwrap();
        Store::vacuum(&store, &[storage], true, &|| false).unwrap();

        let transaction = begin();
        let state = Cell::new(3u64);
        let source = Source {
            store: &store,
            transaction: &*transaction,
            snapshot: transaction.snapshot().unwrap(),
            storage,
            random: &|| random(&state),
            check_interrupts: &|| Ok(()),
        };
        let sample = stretches(&source, 4000, ROWS as f64 / 2.0).unwrap();
        assert!(!sample.whole && sample.total_rows == ROWS as f64 / 2.0);
        assert!(sample.rows.is_sorted_by(|(a, _), (b, _)| a < b));
        let count = sample.rows.len();
        assert!((1000..=4000).contains(&count), "{count} rows");
        let mut quarters = [0usize; 4];
        for (key, _) in &sample.rows {
            let number = key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes)).unwrap();
            assert!(number >= ROWS / 2);
            quarters[((number - ROWS / 2) * 8 / ROWS) as usize] += 1;
        }
        assert!(quarters.iter().all(|rows| *rows > count / 8), "{quarters:?}");
        // A table of this size is read as a whole, of which every row has its chance.
        let sample = draw(&source, 1000).unwrap();
        assert!(sample.whole && sample.rows.len() == 1000 && sample.total_rows == ROWS as f64 / 2.0);
    }
}
