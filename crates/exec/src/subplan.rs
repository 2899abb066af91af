//! Subqueries that run inside expressions, and WITH queries that several readers share.
//!
//! A subquery that refers to nothing outside runs once and keeps its answer (EXPLAIN: InitPlan); a correlated one reads the
//! outer row in its registers and runs anew for each.

use std::sync::Arc;

use cairn_types::{Datum, Error, Oid, Record, RecordField, Result, Row, bail};

use crate::context::{ExecContext, Frame};
use crate::expr::Code;
use crate::hash::ValueSet;
use crate::node::{Node, PlanTree};
use crate::spill::RowStore;

#[derive(Debug)]
pub struct SubPlan {
    pub root: PlanTree,
    pub outputs: Vec<Code>,
    pub kind: SubPlanKind,
    /// Runs again at each evaluation.
    pub correlated: bool,
    /// Its last answer is asked for again ([`eval_again`]).
    pub read_again: bool,
    /// CTEs of the subquery that must be computed again with it.
    pub ctes: Vec<usize>,
    /// How EXPLAIN names it, for example `InitPlan 1 (returns $0)`.
    pub label: String,
}

#[derive(Debug)]
pub enum SubPlanKind {
    Exists,
    /// Value of the only column of the only row; null without a row.
    Scalar,
    /// A record of all columns of the only row.
    Row {
        shape: Arc<[RecordField]>,
    },
    Array {
        element_type: Oid,
    },
    /// `test` compares the outer values with the row in `registers`.
    Any {
        registers: Vec<usize>,
        test: Code,
    },
    All {
        registers: Vec<usize>,
        test: Code,
    },
    /// `= any` over an uncorrelated subquery: its rows in a hash table.
    HashedAny {
        left: Vec<Code>,
        blank_padded: Vec<bool>,
    },
}

#[derive(Default)]
pub struct SubPlanState {
    node: Option<Box<dyn Node>>,
    /// Answer of an uncorrelated subquery.
    memo: Option<Datum>,
    /// Last answer of one that is read again.
    last: Option<Datum>,
    hashed: Option<Box<ValueSet>>,
    /// Rows of an uncorrelated Any or All that cannot be hashed.
    rows: Option<Vec<Row>>,
}

impl SubPlanState {
    pub fn ran(&self) -> bool {
        self.node.is_some()
    }
}

/// Value of a subquery in an expression.
pub fn eval(number: usize, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Datum> {
    if let Some(memo) = frame.subplans.get(number).and_then(|state| state.memo.as_ref()) {
        return Ok(memo.clone());
    }
    crate::stack::check()?;
    let plan = Arc::clone(&frame.plan);
    let subplan = plan.subplans.get(number).ok_or_else(|| Error::internal("unknown subplan"))?;
    match &subplan.kind {
        SubPlanKind::HashedAny { left, blank_padded } => {
            if frame.subplans[number].hashed.is_none() {
                let set = run(number, subplan, cx, frame, |node, cx, frame| {
                    let mut set = ValueSet::new(blank_padded);
                    while node.next(cx, frame)? {
                        frame.tick(cx)?;
                        let row = crate::expr::eval_all(&subplan.outputs, cx, frame)?;
                        set.insert(row.into_vec());
                    }
                    Ok(set)
                })?;
                frame.subplans[number].hashed = Some(Box::new(set));
            }
            let left = crate::expr::eval_all(left, cx, frame)?;
            let Some(set) = &frame.subplans[number].hashed else { return Ok(Datum::Null) };
            return Ok(set.contains(&left).map_or(Datum::Null, Datum::Bool));
        }
        SubPlanKind::Any { registers, test } | SubPlanKind::All { registers, test }
            if !subplan.correlated =>
        {
            let any = matches!(subplan.kind, SubPlanKind::Any { .. });
            if frame.subplans[number].rows.is_none() {
                let rows = run(number, subplan, cx, frame, |node, cx, frame| {
                    let mut rows = Vec::new();
                    while node.next(cx, frame)? {
                        frame.tick(cx)?;
                        rows.push(crate::expr::eval_all(&subplan.outputs, cx, frame)?.into_vec());
                    }
                    Ok(rows)
                })?;
                frame.subplans[number].rows = Some(rows);
            }
            let rows = frame.subplans[number].rows.take().unwrap_or_default();
            let mut answer = Ok(Datum::Bool(!any));
            for row in &rows {
                frame.restore(registers, row);
                match frame.tick(cx).and_then(|()| test.eval(cx, frame)) {
                    Ok(Datum::Bool(value)) if value == any => {
                        answer = Ok(Datum::Bool(any));
                        break;
                    }
                    Ok(Datum::Bool(_)) => {}
                    Ok(_) => answer = Ok(Datum::Null),
                    Err(error) => {
                        answer = Err(error);
                        break;
                    }
                }
            }
            frame.subplans[number].rows = Some(rows);
            return answer;
        }
        _ => {}
    }
    let answer = run(number, subplan, cx, frame, |node, cx, frame| answer(subplan, node, cx, frame))?;
    if !subplan.correlated {
        frame.subplans[number].memo = Some(answer.clone());
    } else if subplan.read_again {
        frame.subplans[number].last = Some(answer.clone());
    }
    Ok(answer)
}

/// What [`eval`] answered last: another field of the same source of `set (a, b) = (select ...)`, for the same row.
pub fn eval_again(number: usize, frame: &Frame) -> Result<Datum> {
    let last = frame.subplans.get(number).and_then(|state| state.last.clone());
    last.ok_or_else(|| Error::internal("a subquery is read before it has run"))
}

/// Lends the subquery's node to `f`, started or rescanned.
fn run<T>(
    number: usize,
    subplan: &SubPlan,
    cx: &ExecContext<'_>,
    frame: &mut Frame,
    f: impl FnOnce(&mut dyn Node, &ExecContext<'_>, &mut Frame) -> Result<T>,
) -> Result<T> {
    let mut node = match frame.subplans[number].node.take() {
        Some(mut node) => {
            for cte in &subplan.ctes {
                frame.ctes[*cte] = CteState::default();
            }
            node.rescan(cx, frame)?;
            node
        }
        None => subplan.root.start(frame.instrument.is_some()),
    };
    let result = f(node.as_mut(), cx, frame);
    frame.subplans[number].node = Some(node);
    result
}

fn answer(subplan: &SubPlan, node: &mut dyn Node, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Datum> {
    let first = |frame: &mut Frame| match subplan.outputs.first() {
        Some(output) => output.eval(cx, frame),
        None => Ok(Datum::Null),
    };
    match &subplan.kind {
        SubPlanKind::Exists => Ok(Datum::Bool(node.next(cx, frame)?)),
        SubPlanKind::Scalar => {
            if !node.next(cx, frame)? {
                return Ok(Datum::Null);
            }
            let value = first(frame)?;
            single_row(node, cx, frame)?;
            Ok(value)
        }
        SubPlanKind::Row { shape } => {
            if !node.next(cx, frame)? {
                return Ok(Datum::Null);
            }
            let values = crate::expr::eval_all(&subplan.outputs, cx, frame)?.into_vec();
            single_row(node, cx, frame)?;
            Ok(Datum::Record(Arc::new(Record {
                type_oid: cairn_types::types::RECORD,
                fields: Arc::clone(shape),
                values,
            })))
        }
        SubPlanKind::Array { element_type } => {
            let mut elements = Vec::new();
            while node.next(cx, frame)? {
                frame.tick(cx)?;
                elements.push(first(frame)?);
            }
            crate::expr::collect_array(*element_type, elements)
        }
        SubPlanKind::Any { registers, test } | SubPlanKind::All { registers, test } => {
            let any = matches!(subplan.kind, SubPlanKind::Any { .. });
            let mut unknown = false;
            while node.next(cx, frame)? {
                frame.tick(cx)?;
                let row = crate::expr::eval_all(&subplan.outputs, cx, frame)?;
                frame.restore(registers, &row);
                match test.eval(cx, frame)? {
                    Datum::Bool(value) if value == any => return Ok(Datum::Bool(any)),
                    Datum::Bool(_) => {}
                    _ => unknown = true,
                }
            }
            Ok(if unknown { Datum::Null } else { Datum::Bool(!any) })
        }
        SubPlanKind::HashedAny { .. } => Err(Error::internal("hashed subplan without a hash table")),
    }
}

fn single_row(node: &mut dyn Node, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
    if node.next(cx, frame)? {
        bail!(CARDINALITY_VIOLATION, "more than one row returned by a subquery used as an expression");
    }
    Ok(())
}

/// Rows of a WITH query, computed as far as somebody has read.
#[derive(Default)]
pub struct CteState {
    node: Option<Box<dyn Node>>,
    pub rows: RowStore,
    pub complete: bool,
}

/// Row `index` of a WITH query; `None` past its end.
pub fn cte_row(number: usize, index: usize, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Option<Row>> {
    while frame.ctes[number].rows.len() <= index && !frame.ctes[number].complete {
        frame.tick(cx)?;
        advance_cte(number, cx, frame)?;
    }
    frame.ctes[number].rows.get(index)
}

fn advance_cte(number: usize, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
    let plan = Arc::clone(&frame.plan);
    let cte = plan.ctes.get(number).ok_or_else(|| Error::internal("unknown CTE"))?;
    let mut node = match frame.ctes[number].node.take() {
        Some(node) => node,
        None => cte.root.start(frame.instrument.is_some()),
    };
    let more = node.next(cx, frame)?;
    if more {
        let row = crate::expr::eval_all(&cte.outputs, cx, frame)?.into_vec();
        frame.ctes[number].rows.push(row, cx.work_mem)?;
        frame.ctes[number].node = Some(node);
    } else {
        frame.ctes[number].complete = true;
        if frame.instrument.is_some() {
            frame.ctes[number].node = Some(node);
        }
    }
    Ok(())
}

/// Runs data-modifying WITH queries to their end, whether or not their rows were read.
pub fn complete_modifying_ctes(cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
    let plan = Arc::clone(&frame.plan);
    for (number, cte) in plan.ctes.iter().enumerate() {
        while cte.modifies && !frame.ctes[number].complete {
            frame.tick(cx)?;
            advance_cte(number, cx, frame)?;
        }
    }
    Ok(())
}
