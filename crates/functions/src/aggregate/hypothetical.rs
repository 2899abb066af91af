//! rank, dense_rank, percent_rank, cume_dist of a hypothetical row (manual, table 9.62): where the direct
//! arguments would stand among the group's rows.

use std::cmp::Ordering;

use cairn_types::compare::compare_ordered;
use cairn_types::key::ColumnOrder;
use cairn_types::{Datum, Result, Row};

use super::collect::heap_bytes;
use super::{Accumulator, Aggregate, AggregateRow};
use crate::Call;

#[derive(Clone, Copy, Debug)]
enum What {
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
}

#[derive(Clone, Debug)]
struct Hypothetical {
    what: What,
    order: Vec<ColumnOrder>,
}

pub fn aggregate(row: &AggregateRow<'_>) -> Option<Box<dyn Aggregate>> {
    if row.transition != "ordered_set_transition_multi" {
        return None;
    }
    let what = match row.final_function? {
        "hypothetical_rank_final" => What::Rank,
        "hypothetical_dense_rank_final" => What::DenseRank,
        "hypothetical_percent_rank_final" => What::PercentRank,
        "hypothetical_cume_dist_final" => What::CumeDist,
        _ => return None,
    };
    Some(Box::new(Hypothetical { what, order: row.order.to_vec() }))
}

impl Aggregate for Hypothetical {
    fn new_state(&self) -> Box<dyn Accumulator> {
        Box::new(State { aggregate: self.clone(), rows: Vec::new(), bytes: 0 })
    }
}

/// The group's rows, in the order of WITHIN GROUP.
struct State {
    aggregate: Hypothetical,
    rows: Vec<Row>,
    bytes: usize,
}

impl State {
    fn order(&self, row: &[Datum], other: &[Datum]) -> Ordering {
        let columns = row.iter().zip(other).enumerate();
        columns
            .map(|(i, (a, b))| {
                let order = self.aggregate.order.get(i).copied().unwrap_or(ColumnOrder::ASC);
                compare_ordered(a, b, order)
            })
            .find(|order| *order != Ordering::Equal)
            .unwrap_or(Ordering::Equal)
    }
}

impl Accumulator for State {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        self.bytes += 32 * args.len() + args.iter().map(heap_bytes).sum::<usize>();
        self.rows.push(args.to_vec());
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, direct: &[Datum]) -> Result<Datum> {
        let before = self.rows.partition_point(|row| self.order(row, direct) == Ordering::Less);
        let count = self.rows.len();
        Ok(match self.aggregate.what {
            What::Rank => Datum::Int8(before as i64 + 1),
            What::DenseRank => {
                let before = self.rows.get(..before).unwrap_or_default();
                let steps =
                    before.windows(2).filter(|pair| self.order(&pair[0], &pair[1]) != Ordering::Equal);
                Datum::Int8(steps.count() as i64 + i64::from(!before.is_empty()) + 1)
            }
            What::PercentRank if count == 0 => Datum::Float8(0.0),
            What::PercentRank => Datum::Float8(before as f64 / count as f64),
            What::CumeDist => {
                let up_to = self.rows.partition_point(|row| self.order(row, direct) != Ordering::Greater);
                Datum::Float8((up_to + 1) as f64 / (count + 1) as f64)
            }
        })
    }

    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}
