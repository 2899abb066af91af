//! Ways to read a system catalog, whose rows come from the catalog's picture: all of them, or by the key of one of
//! the indexes that PostgreSQL has on it, with values from constants or from the outer side of a nested loop.

use std::rc::Rc;
use std::sync::Arc;

use cairn_analyze::query::Expr;
use cairn_catalog::Relation;
use cairn_catalog::system_table::{SystemTable, system_table};
use cairn_types::Result;

use super::Planner;
use super::conditions::{RelSet, rels};
use super::estimate::{OPERATOR, clamp_rows, strip};
use super::path::{Path, PathKind};
use crate::node::PlanTree;
use crate::nodes::system_scan::{SystemKey, SystemScan};

/// A row of the picture.
const SYSTEM_ROW: f64 = 0.005;
/// A lookup by key.
const LOOKUP: f64 = 0.02;
/// What a key finds that is not a whole unique one, about: the columns of a table, the dependencies of an object.
const GROUP: f64 = 8.0;

/// A chosen way to read a system catalog.
#[derive(Clone, Debug)]
pub struct SystemAccess {
    range: usize,
    key: Option<KeyAccess>,
    /// Conditions `column = value` that the key does not answer; tried before a row is copied.
    equal: Vec<Equality>,
    /// All other conditions.
    filter: Vec<Expr>,
}

#[derive(Clone, Debug)]
struct KeyAccess {
    /// Number of the index in the catalog's list.
    index: usize,
    /// For each of its first columns.
    equal: Vec<Equality>,
    unique: bool,
}

/// A condition that says which value a column has.
#[derive(Clone, Debug)]
struct Equality {
    column: usize,
    value: Expr,
    condition: Expr,
}

impl SystemAccess {
    /// Conditions that the key answers.
    pub fn key_conditions(&self) -> Vec<Expr> {
        let equal = self.key.iter().flat_map(|key| &key.equal);
        equal.map(|equality| equality.condition.clone()).collect()
    }

    /// Whether reading it again is a lookup.
    pub fn is_lookup(&self) -> bool {
        self.key.is_some()
    }
}

impl Planner<'_> {
    /// The paths of a system catalog, or of another relation whose rows the catalog knows (a sequence). `own` are conditions on
    /// it alone, `joins` those that also look at other entries.
    pub(crate) fn system_paths(
        &mut self,
        range: usize,
        relation: &Arc<Relation>,
        own: Vec<Expr>,
        joins: &[Expr],
    ) -> Result<Vec<Path>> {
        let set = RelSet::of(range);
        let keyed = system_table(relation.oid).filter(|table| !table.shared);
        let (own_equal, filter) = self.equalities(&own, range);
        let (join_equal, _) = self.equalities(joins, range);
        // Sets of other entries whose columns the join conditions compare with this catalog's.
        let mut around = vec![RelSet::EMPTY];
        let mut all = RelSet::EMPTY;
        for others in join_equal.iter().map(|equality| rels(&equality.value)) {
            all = all.union(others);
            if !around.contains(&others) {
                around.push(others);
            }
        }
        if !around.contains(&all) {
            around.push(all);
        }
        let count = match keyed {
            Some(_) => self.catalog().system_row_count(relation.oid) as f64,
            None if relation.estimated_rows > 0.0 => relation.estimated_rows,
            None => 100.0,
        };
        let mut paths = Vec::new();
        for params in around {
            let usable: Vec<&Equality> = own_equal
                .iter()
                .chain(join_equal.iter().filter(|equality| rels(&equality.value).within(params)))
                .collect();
            let key = keyed.and_then(|table| best_key(table, &usable));
            let used = key.iter().flat_map(|key| &key.equal);
            let used = used.fold(RelSet::EMPTY, |all, equality| all.union(rels(&equality.value)));
            // Without parameters there is always a way. Each other set of parameters once, with what the key uses.
            if used != params && !params.is_empty() {
                continue;
            }
            let key = key.filter(|_| used == params);
            let answered = |equality: &Equality| {
                key.iter().flat_map(|key| &key.equal).any(|used| used.column == equality.column)
            };
            let equal: Vec<Equality> =
                own_equal.iter().filter(|equality| !answered(equality)).cloned().collect();
            let left: Vec<Expr> =
                equal.iter().map(|equality| &equality.condition).chain(&filter).cloned().collect();
            let found = match &key {
                Some(key) if key.unique => 1.0,
                Some(_) => count.min(GROUP),
                None => count,
            };
            // There are no statistics of system catalogs. Conditions other than equalities (relkind in (...), not
            // attisdropped) hold for most of their rows, and too low an estimate ends in nested loops over all of them.
            let selectivity = self.selectivity_of_all(&left);
            let selectivity = if equal.is_empty() { selectivity.max(0.3) } else { selectivity };
            let each = SYSTEM_ROW + OPERATOR * left.len() as f64;
            paths.push(Path {
                rels: set,
                params,
                rows: clamp_rows(found * selectivity),
                startup_cost: 0.0,
                total_cost: found * each + if key.is_some() { LOOKUP } else { 0.0 },
                order: Vec::new(),
                kind: PathKind::System(Rc::new(SystemAccess { range, key, equal, filter: filter.clone() })),
            });
        }
        Ok(paths)
    }

    /// Equalities of one of the entry's columns with something else, and what is none.
    fn equalities(&self, conditions: &[Expr], range: usize) -> (Vec<Equality>, Vec<Expr>) {
        let (mut equal, mut others): (Vec<Equality>, _) = (Vec::new(), Vec::new());
        for condition in conditions {
            match self.system_equality(condition, range) {
                // A column has one value: another one for it is a condition as any.
                Some(found)
                    if equal
                        .iter()
                        .all(|known| known.column != found.column || !rels(&found.value).is_empty()) =>
                {
                    equal.push(found);
                }
                _ => others.push(condition.clone()),
            }
        }
        (equal, others)
    }

    /// `column = value`, by an operator that compares as keys do.
    fn system_equality(&self, condition: &Expr, range: usize) -> Option<Equality> {
        let Expr::Operator(call) = condition else { return None };
        let function = self.catalog().proc(call.function)?;
        // Integers of different widths have the same keys.
        let compares_as_keys = matches!(
            &*function.source,
            "oideq"
                | "int2eq"
                | "int4eq"
                | "int8eq"
                | "int24eq"
                | "int42eq"
                | "int28eq"
                | "int82eq"
                | "int48eq"
                | "int84eq"
                | "nameeq"
                | "texteq"
                | "nameeqtext"
                | "texteqname"
                | "chareq"
                | "booleq"
        );
        if !compares_as_keys {
            return None;
        }
        let [left, right] = call.args.as_slice() else { return None };
        for (column, value) in [(left, right), (right, left)] {
            if let Expr::Var(var) = strip(column)
                && var.levels_up == 0
                && var.varno == range
                && var.attno > 0
                && !rels(value).overlaps(RelSet::of(range))
                && !self.is_volatile(value)
            {
                return Some(Equality {
                    column: var.attno as usize - 1,
                    value: value.clone(),
                    condition: condition.clone(),
                });
            }
        }
        None
    }

    pub(crate) fn build_system_access(&mut self, access: &SystemAccess) -> Result<PlanTree> {
        let rel = self.rel(access.range).clone();
        let Some(relation) = &rel.relation else {
            return Err(cairn_types::Error::internal("catalog access to no catalog"));
        };
        let mut key = None;
        let mut shown: Vec<Expr> = Vec::new();
        if let Some(by) = &access.key {
            let mut values = Vec::new();
            for equality in &by.equal {
                values.push(self.compile(&equality.value)?);
            }
            let index = system_table(relation.oid).map_or(0, |table| table.indexes[by.index].oid);
            let name = self.catalog().relation(index).map(|index| index.name.to_string());
            let conditions = access.key_conditions();
            // What PostgreSQL has no index for is shown as a filter.
            let condition_text = match name {
                Some(_) => self.scan_text(&conditions, access.range),
                None => String::new(),
            };
            if name.is_none() {
                shown.extend(conditions);
            }
            key = Some(SystemKey { index: by.index, values, name, condition_text });
        }
        let mut equal = Vec::new();
        for equality in &access.equal {
            equal.push((equality.column, self.compile(&equality.value)?));
            shown.push(equality.condition.clone());
        }
        shown.extend(access.filter.iter().cloned());
        let filter_text = self.scan_text(&shown, access.range);
        let (filter, _) = self.compile_conditions(&access.filter)?;
        let alias = self.level().aliases[access.range].clone();
        Ok(self.node(
            SystemScan {
                relation: relation.oid,
                name: relation.name.to_string(),
                alias,
                first: rel.first,
                wanted: rel.used.iter().map(|attno| *attno as usize - 1).collect(),
                key,
                equal,
                filter,
                filter_text,
            },
            Vec::new(),
        ))
    }
}

/// The key by which these equalities find rows best.
fn best_key(table: &SystemTable, usable: &[&Equality]) -> Option<KeyAccess> {
    let columns: Vec<usize> = usable.iter().map(|equality| equality.column).collect();
    let (index, covered) = table.best_index(&columns)?;
    let columns = &table.indexes[index].columns;
    let of_column = |column: &usize| usable.iter().find(|equality| equality.column == *column);
    let equal = columns[..covered].iter().filter_map(of_column).map(|equality| (*equality).clone()).collect();
    Some(KeyAccess { index, equal, unique: table.indexes[index].unique && columns.len() == covered })
}
