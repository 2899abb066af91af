//! Reading a table: by key order, by ranges of the primary key, through a secondary index, or one row by its key.

use std::sync::Arc;

use cairn_txn::{Activity, Cursor, Direction, Event, KeyRange};
use cairn_types::{Datum, Error, Result};

use crate::activity::Counted;
use crate::context::{ExecContext, Frame};
use crate::error::TxnResultExt;
use crate::explain::{Properties, Value};
use crate::expr::Code;
use crate::instrument::count;
use crate::node::{Node, Operator};
use crate::table::bounds::Bounds;
use crate::table::{IndexLayout, TableLayout, storage_prefix};

#[derive(Debug)]
pub struct TableScan {
    pub layout: Arc<TableLayout>,
    /// A secondary index; `None`: the table's own keys.
    pub index: Option<IndexLayout>,
    pub bounds: Bounds,
    /// The bounds name one primary key: read by get.
    pub point: bool,
    pub direction: Direction,
    /// Register of column 1.
    pub first: usize,
    /// Column indexes to decode, ascending.
    pub wanted: Vec<usize>,
    pub key: Option<usize>,
    pub tid: Option<usize>,
    pub filter: Option<Code>,
    pub alias: String,
    /// The key is used for its order or its bounds: shown as an index scan.
    pub by_index: bool,
    /// The index that is scanned, or the table.
    pub counted: Counted,
    /// Texts for EXPLAIN.
    pub index_condition: String,
    pub filter_text: String,
}

impl TableScan {
    /// Puts a stored row into the registers. True if the filter accepts it.
    #[inline]
    fn accept(
        &self,
        number: usize,
        key: &[u8],
        row: &[u8],
        cx: &ExecContext<'_>,
        frame: &mut Frame,
    ) -> Result<bool> {
        let columns = self.layout.kinds.len();
        self.layout.decode(row, &self.wanted, &mut frame.registers[self.first..self.first + columns])?;
        if let Some(register) = self.key {
            frame.registers[register] = Datum::Bytea(key.into());
        }
        if let Some(register) = self.tid {
            frame.registers[register] = Datum::Tid(crate::dml::row_identifier(&self.layout, key)?);
        }
        let Some(filter) = &self.filter else { return Ok(true) };
        let accepted = filter.holds(cx, frame)?;
        if !accepted {
            count(frame, number, |counters| counters.removed_by_filter += 1);
        }
        Ok(accepted)
    }
}

impl Operator for TableScan {
    fn start(self: Arc<Self>, number: usize, _: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        if self.point {
            Box::new(PointState { plan: self, number, key: Vec::with_capacity(32), done: false })
        } else {
            Box::new(ScanState {
                plan: self,
                number,
                cursor: None,
                ranges: Vec::new(),
                state: Progress::Fresh,
                key: Vec::new(),
                rows: 0,
                activity: None,
            })
        }
    }

    fn explain(&self, properties: &mut Properties) {
        let relation = &self.layout.relation;
        let index = match &self.index {
            Some(index) => Some(index.index.name.to_string()),
            None if !self.by_index => None,
            None => relation.primary_key.as_ref().map(|key| key.name.to_string()),
        };
        let name = if *self.alias == *relation.name {
            relation.name.to_string()
        } else {
            format!("{} {}", relation.name, self.alias)
        };
        let backward = self.direction == Direction::Backward;
        match index {
            Some(index) => {
                properties.node_type = "Index Scan".into();
                let direction = if backward { " Backward" } else { "" };
                properties.target = format!("{direction} using {index} on {name}");
                properties.line(
                    "Scan Direction",
                    Value::Hidden(if backward { "Backward" } else { "Forward" }.into()),
                );
                properties.line("Index Name", Value::Hidden(index));
            }
            None => {
                properties.node_type = "Seq Scan".into();
                properties.target = format!(" on {name}");
            }
        }
        properties.line("Relation Name", Value::Hidden(relation.name.to_string()));
        properties.line("Alias", Value::Hidden(self.alias.clone()));
        properties.condition("Index Cond", &self.index_condition);
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

/// One row by its whole key.
struct PointState {
    plan: Arc<TableScan>,
    number: usize,
    key: Vec<u8>,
    done: bool,
}

impl Node for PointState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        self.done = true;
        self.key.clear();
        self.key.extend_from_slice(&self.plan.layout.relation.storage.to_be_bytes());
        if !self.plan.bounds.point(cx, frame, &mut self.key)? {
            return Ok(false);
        }
        let activity = self.plan.counted.activity(cx);
        activity.count(Event::Scan, 1);
        match cx.txn.get(&frame.snapshot, &self.key).sql()? {
            Some(row) => {
                activity.count(Event::Read, 1);
                activity.count(Event::Fetch, 1);
                self.plan.accept(self.number, &self.key, &row, cx, frame)
            }
            None => Ok(false),
        }
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        self.done = false;
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Fresh,
    Running,
    Done,
}

struct ScanState {
    plan: Arc<TableScan>,
    number: usize,
    cursor: Option<Box<dyn Cursor>>,
    /// Still to come, the next one last.
    ranges: Vec<KeyRange>,
    state: Progress,
    key: Vec<u8>,
    /// Read and not counted yet.
    rows: u64,
    activity: Option<Arc<Activity>>,
}

impl ScanState {
    /// Adds the rows read to the statistics: doing that for each row would cost more than reading it.
    fn note_rows(&mut self) {
        if let Some(activity) = &self.activity {
            activity.count(Event::Read, self.rows);
            if self.plan.by_index || self.plan.index.is_some() {
                activity.count(Event::Fetch, self.rows);
            }
            self.rows = 0;
        }
    }
}

impl Drop for ScanState {
    fn drop(&mut self) {
        self.note_rows();
    }
}

impl ScanState {
    /// Finds out what is to be read.
    fn begin(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        let plan = &self.plan;
        let storage = plan.index.as_ref().map_or(plan.layout.relation.storage, |index| index.index.storage);
        self.ranges = plan.bounds.ranges(&storage_prefix(storage), cx, frame)?;
        if plan.direction == Direction::Forward {
            self.ranges.reverse();
        }
        self.state = Progress::Running;
        let activity = plan.counted.activity(cx);
        activity.count(Event::Scan, 1);
        self.activity = Some(Arc::clone(activity));
        Ok(())
    }

    fn open_next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let Some(range) = self.ranges.pop() else { return Ok(false) };
        match &mut self.cursor {
            Some(cursor) => cursor.reset(range).sql()?,
            None => {
                self.check_index(cx, frame)?;
                self.cursor = Some(cx.txn.scan(&frame.snapshot, range, self.plan.direction).sql()?);
            }
        }
        Ok(true)
    }

    /// The planner has left out indexes that are younger than the snapshot: one that it has not would give too few rows.
    fn check_index(&self, cx: &ExecContext<'_>, frame: &Frame) -> Result<()> {
        let Some(IndexLayout { index, .. }) = &self.plan.index else { return Ok(()) };
        let table = self.plan.layout.relation.storage;
        if cx.txn.index_serves(frame.snapshot.read_time, table, index.storage) {
            return Ok(());
        }
        Err(Error::internal(format!(
            "index \"{}\" is younger than the snapshot that it is read at",
            index.name
        )))
    }
}

impl Node for ScanState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if self.state == Progress::Done {
            return Ok(false);
        }
        let plan = Arc::clone(&self.plan);
        if self.state == Progress::Fresh {
            self.begin(cx, frame)?;
            if !self.open_next(cx, frame)? {
                self.state = Progress::Done;
                return Ok(false);
            }
        }
        loop {
            frame.tick(cx)?;
            let Some(cursor) = &mut self.cursor else { return Ok(false) };
            let accepted = match cursor.next().sql()? {
                None => {
                    if self.open_next(cx, frame)? {
                        continue;
                    }
                    self.state = Progress::Done;
                    self.note_rows();
                    return Ok(false);
                }
                Some((key, value)) => match &plan.index {
                    None => plan.accept(self.number, key, value, cx, frame)?,
                    Some(_) => {
                        plan.layout.key_from_suffix(IndexLayout::suffix(key, value)?, &mut self.key);
                        match cx.txn.get(&frame.snapshot, &self.key).sql()? {
                            Some(row) => plan.accept(self.number, &self.key, &row, cx, frame)?,
                            None => false,
                        }
                    }
                },
            };
            self.rows += 1;
            if accepted {
                return Ok(true);
            }
        }
    }

    fn count_rows(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Option<u64>> {
        if self.plan.index.is_some() || self.plan.filter.is_some() || self.state != Progress::Fresh {
            return Ok(None);
        }
        self.begin(cx, frame)?;
        let mut interrupted = Ok(());
        while let Some(range) = self.ranges.pop() {
            let mut go_on = || {
                interrupted = cx.env.check_interrupts();
                interrupted.is_ok()
            };
            self.rows += cx.txn.count(&frame.snapshot, range, &mut go_on).sql()?;
            interrupted?;
            interrupted = Ok(());
        }
        self.state = Progress::Done;
        let rows = self.rows;
        self.note_rows();
        Ok(Some(rows))
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        self.state = Progress::Fresh;
        self.note_rows();
        Ok(())
    }
}
