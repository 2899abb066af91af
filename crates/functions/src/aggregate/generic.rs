//! Aggregates whose transition and final functions are ordinary bodies and whose state is an ordinary value.

use cairn_types::{Datum, Result};
use smallvec::SmallVec;

use super::{Accumulator, Aggregate, AggregateRow};
use crate::{Call, ScalarFn, scalar};

#[derive(Clone, Debug)]
struct Generic {
    transition: ScalarFn,
    transition_strict: bool,
    final_function: Option<ScalarFn>,
    final_strict: bool,
    initial: Datum,
}

pub fn aggregate(row: &AggregateRow<'_>) -> Option<Box<dyn Aggregate>> {
    let final_function = match row.final_function {
        Some(name) => Some(scalar(name)?),
        None => None,
    };
    Some(Box::new(Generic {
        transition: scalar(row.transition)?,
        transition_strict: row.transition_strict,
        final_function,
        final_strict: row.final_strict,
        initial: row.initial.clone(),
    }))
}

impl Aggregate for Generic {
    fn new_state(&self) -> Box<dyn Accumulator> {
        Box::new(State {
            aggregate: self.clone(),
            value: self.initial.clone(),
            started: !self.initial.is_null(),
        })
    }
}

struct State {
    aggregate: Generic,
    value: Datum,
    /// False while a strict transition function without initial value waits for its first input.
    started: bool,
}

impl Accumulator for State {
    fn accumulate(&mut self, call: &Call<'_>, args: &[Datum]) -> Result<()> {
        if self.aggregate.transition_strict {
            if args.iter().any(Datum::is_null) {
                return Ok(());
            }
            if !self.started {
                // The first input becomes the state, as the manual says under CREATE AGGREGATE.
                self.started = true;
                self.value = args.first().cloned().unwrap_or_default();
                return Ok(());
            }
            // A strict function that once returned null keeps the state null.
            if self.value.is_null() {
                return Ok(());
            }
        }
        let mut all: SmallVec<[Datum; 4]> = SmallVec::with_capacity(args.len() + 1);
        all.push(std::mem::take(&mut self.value));
        all.extend(args.iter().cloned());
        self.value = (self.aggregate.transition)(call, &all)?;
        Ok(())
    }

    fn finish(&mut self, call: &Call<'_>, direct: &[Datum]) -> Result<Datum> {
        let Some(function) = self.aggregate.final_function else { return Ok(self.value.clone()) };
        if self.aggregate.final_strict && (self.value.is_null() || direct.iter().any(Datum::is_null)) {
            return Ok(Datum::Null);
        }
        let mut all: SmallVec<[Datum; 4]> = SmallVec::with_capacity(direct.len() + 1);
        all.push(self.value.clone());
        all.extend(direct.iter().cloned());
        function(call, &all)
    }
}
