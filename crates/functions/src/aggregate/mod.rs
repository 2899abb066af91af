//! Aggregates.
//!
//! As in PostgreSQL an aggregate is a transition function, a final function and an initial state
//! (pg_aggregate). Those whose state has an SQL type run on the ordinary bodies ([`generic`]): `max(date)` is
//! `date_larger`. The others, and the few that every query uses, have an accumulator of their own, found by
//! the pair of transition and final function, which between them say what is computed.
//!
//! The caller handles FILTER, DISTINCT and ORDER BY before [`Accumulator::accumulate`]; the accumulator handles
//! nulls as the transition function's strictness demands. An ordered-set aggregate (`percentile_cont(0.5)
//! within group (order by x)`) gets its aggregated arguments in that order, and its direct arguments at the
//! end.

mod collect;
mod generic;
mod hypothetical;
mod interval;
mod json;
mod numbers;
mod ordered_set;
mod regression;

use std::fmt::Debug;
use std::marker::PhantomData;

use cairn_types::key::ColumnOrder;
use cairn_types::{Datum, Result};

use crate::Call;

/// What pg_aggregate and the rows that it refers to say of an aggregate.
#[derive(Clone, Debug, Default)]
pub struct AggregateRow<'a> {
    /// `prosrc` of aggtransfn, and whether it is strict.
    pub transition: &'a str,
    pub transition_strict: bool,
    /// `prosrc` of aggfinalfn, and whether it is strict.
    pub final_function: Option<&'a str>,
    pub final_strict: bool,
    /// agginitval, read as a value of the transition type; null if there is none.
    pub initial: Datum,
    /// The columns of WITHIN GROUP (ORDER BY ...); hypothetical-set aggregates compare by it.
    pub order: &'a [ColumnOrder],
}

/// An aggregate that is ready to run; kept in the plan.
pub trait Aggregate: Send + Sync + Debug {
    /// The state of one group.
    fn new_state(&self) -> Box<dyn Accumulator>;
}

/// The running state of one group.
pub trait Accumulator: Send {
    /// Takes one input row's arguments (none for `count(*)`).
    fn accumulate(&mut self, call: &Call<'_>, args: &[Datum]) -> Result<()>;
    /// Takes so many rows at once, if it does nothing but count rows; `false` otherwise, and then it has taken none.
    fn accumulate_rows(&mut self, _rows: u64) -> bool {
        false
    }
    /// The result so far; `direct` are the direct arguments of an ordered-set aggregate. It may be called again
    /// after more rows (window frames).
    fn finish(&mut self, call: &Call<'_>, direct: &[Datum]) -> Result<Datum>;
    /// About how many bytes the state holds on the heap, so that the executor can bound its memory.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// The aggregate of this row; `None` if Cairn has no body for it.
pub fn aggregate(row: &AggregateRow<'_>) -> Option<Box<dyn Aggregate>> {
    numbers::aggregate(row.transition, row.final_function)
        .or_else(|| regression::aggregate(row.transition, row.final_function))
        .or_else(|| collect::aggregate(row.transition))
        .or_else(|| json::aggregate(row.transition))
        .or_else(|| interval::aggregate(row.transition, row.final_function))
        .or_else(|| ordered_set::aggregate(row.transition, row.final_function))
        .or_else(|| hypothetical::aggregate(row))
        .or_else(|| generic::aggregate(row))
}

/// An aggregate whose state begins as the accumulator's default.
#[derive(Debug)]
struct Fresh<A>(PhantomData<fn() -> A>);

impl<A: Accumulator + Default + Debug + 'static> Aggregate for Fresh<A> {
    fn new_state(&self) -> Box<dyn Accumulator> {
        Box::new(A::default())
    }
}

fn fresh<A: Accumulator + Default + Debug + 'static>() -> Box<dyn Aggregate> {
    Box::new(Fresh::<A>(PhantomData))
}
