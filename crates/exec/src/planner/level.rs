//! One query level while it is being planned: where the columns of its range table live.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cairn_analyze::query::{Distinct, Expr, Query, RangeTableKind, RowMark, SubLink, system_columns};
use cairn_catalog::Relation;
use cairn_types::{Oid, RecordField, Result, Text, types};

use super::Planner;
use super::prepare::{FromItem, FromTree};
use crate::plan::Position;
use cairn_analyze::walk;

/// A range table entry's place in the registers.
#[derive(Clone, Debug)]
pub struct Rel {
    /// Column `n` (from 1) is in register `first + n - 1`.
    pub first: usize,
    pub columns: usize,
    /// Attribute numbers of the columns that somebody reads.
    pub used: BTreeSet<i16>,
    pub relation: Option<Arc<Relation>>,
    /// Register of the row's key (bytea), where rows are locked or changed.
    pub key: Option<usize>,
    /// Register of `ctid`.
    pub tid: Option<usize>,
    /// Row type and fields of a whole-row reference.
    pub row_type: Oid,
    pub shape: Arc<[RecordField]>,
    /// Whether the entry is scanned at all.
    pub scanned: bool,
}

impl Rel {
    /// All registers that a scan of the entry writes.
    pub fn registers(&self) -> Vec<usize> {
        let columns = self.used.iter().map(|attno| self.first + (*attno as usize) - 1);
        columns.chain(self.key).chain(self.tid).collect()
    }

    pub fn register(&self, attno: i16) -> usize {
        self.first + (attno as usize) - 1
    }
}

/// How a WITH query is reached.
#[derive(Clone, Debug)]
pub enum CteBinding {
    /// Computed once; number in the plan.
    Shared(usize),
    /// Inside its own recursive term: the registers' rows come from the working table in this slot.
    Working { slot: usize },
}

/// Expressions that a node has computed already, and in which register.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    pub computed: Vec<(Expr, usize)>,
    /// After grouping the table's registers mean nothing: a Var that is not among `computed` is a bug.
    pub closed: bool,
    /// Register with the number of the grouping set, and for each set the references that it groups by.
    pub grouping: Option<(usize, Vec<Vec<u32>>)>,
}

#[derive(Clone, Debug)]
pub struct Level {
    pub query: Arc<Query>,
    pub rels: Vec<Rel>,
    pub stage: Stage,
    pub ctes: HashMap<Text, CteBinding>,
    /// Numbers of its own WITH queries in the plan.
    pub own_ctes: Vec<usize>,
    /// Names of the entries in EXPLAIN: none occurs twice in a plan.
    pub aliases: Vec<String>,
    /// Subqueries in its expressions that are planned already, with their numbers.
    pub sublinks: Vec<(SubLink, usize)>,
    /// FROM and WHERE, rewritten.
    pub from: Arc<FromTree>,
    /// The query looks at levels outside: it runs anew for each of their rows.
    pub correlated: bool,
}

impl Planner<'_> {
    /// Rewrites a query, gives its columns registers and plans its WITH queries. What comes back is the query that the
    /// planner works on from here.
    pub fn enter(&mut self, query: &Query) -> Result<Arc<Query>> {
        let (mut prepared, from) = self.prepare(query)?;
        // The FROM tree says it all; what became a join is no subquery any more.
        prepared.filter = None;
        let prepared = self.enter_level(Arc::new(prepared), from)?;
        self.bind_ctes(&prepared)?;
        Ok(prepared)
    }

    /// Enters a query as it is, for its range table only.
    pub fn enter_as_is(&mut self, query: Arc<Query>) -> Result<Arc<Query>> {
        self.enter_level(query, FromTree::default())
    }

    fn enter_level(&mut self, query: Arc<Query>, from: FromTree) -> Result<Arc<Query>> {
        let mut rels = Vec::with_capacity(query.range_table.len());
        for entry in &query.range_table {
            let columns = entry.columns.len();
            let first = match entry.kind {
                RangeTableKind::Join { .. } => self.registers,
                _ => self.register_block(columns),
            };
            let relation = match &entry.kind {
                RangeTableKind::Relation { relation, .. } => Some(Arc::clone(relation)),
                _ => None,
            };
            let shape = entry
                .columns
                .iter()
                .filter(|column| !column.name.is_empty())
                .map(|column| RecordField {
                    name: Arc::clone(&column.name),
                    type_oid: column.ty.oid,
                    typmod: column.ty.typmod,
                })
                .collect();
            rels.push(Rel {
                first,
                columns,
                used: BTreeSet::new(),
                row_type: relation.as_ref().map_or(types::RECORD, |relation| relation.row_type),
                relation,
                key: None,
                tid: None,
                shape,
                scanned: entry.in_from,
            });
        }
        let aliases =
            query.range_table.iter().map(|entry| self.unique_alias(&entry.alias, entry.in_from)).collect();
        let level = Level {
            rels,
            stage: Stage::default(),
            ctes: HashMap::new(),
            own_ctes: Vec::new(),
            sublinks: Vec::new(),
            aliases,
            correlated: super::conditions::is_correlated(&query) || from_looks_outside(&from),
            from: Arc::new(from),
            query: Arc::clone(&query),
        };
        self.levels.push(level);
        self.note_used_columns(&query);
        for RowMark { range, .. } in &query.row_marks {
            self.need_key(*range);
        }
        if let Some(target) = query.result_relation {
            self.use_all_columns(target);
            self.need_key(target);
        }
        if self.is_cursor && self.levels.len() == 1 {
            self.note_positions(&query);
        }
        if let Some(update) = query.on_conflict.as_ref().and_then(|clause| clause.update.as_ref()) {
            self.use_all_columns(update.excluded);
        }
        Ok(query)
    }

    /// Keeps the row keys of a cursor's tables: of those that it locks, or of its only one if the rows come as they are stored.
    fn note_positions(&mut self, query: &Query) {
        let is_plain = !query.has_aggregates
            && query.group.is_empty()
            && query.grouping_sets.is_empty()
            && query.having.is_none()
            && !query.has_window_functions
            && !query.has_target_srfs
            && matches!(query.distinct, Distinct::None)
            && query.set_operation.is_none();
        if !is_plain {
            return;
        }
        let rels = &self.level().rels;
        let candidates: Vec<usize> = if query.row_marks.is_empty() {
            let scanned: Vec<usize> = (0..rels.len()).filter(|range| rels[*range].scanned).collect();
            if scanned.len() == 1 && query.sort.is_empty() { scanned } else { Vec::new() }
        } else {
            query.row_marks.iter().map(|mark| mark.range).collect()
        };
        for range in candidates {
            let table = self.rel(range).relation.as_ref().filter(|table| table.storage != 0);
            if let Some(relation) = table.map(|table| table.oid) {
                let key = self.need_key(range);
                self.positions.push(Position { relation, key });
            }
        }
    }

    /// The alias, with a number where the plan has it already.
    fn unique_alias(&mut self, alias: &str, shown: bool) -> String {
        if !self.cx.explain || !shown {
            return alias.to_owned();
        }
        let mut name = alias.to_owned();
        let mut number = 0;
        while self.used_aliases.contains(&name) {
            number += 1;
            name = format!("{alias}_{number}");
        }
        self.used_aliases.insert(name.clone());
        name
    }

    pub fn level(&self) -> &Level {
        self.levels.last().expect("a query is being planned")
    }

    pub fn level_mut(&mut self) -> &mut Level {
        self.levels.last_mut().expect("a query is being planned")
    }

    pub fn rel(&self, range: usize) -> &Rel {
        &self.level().rels[range]
    }

    /// The register of the entry's row key; the scan fills it.
    pub fn need_key(&mut self, range: usize) -> usize {
        if let Some(key) = self.level().rels[range].key {
            return key;
        }
        let register = self.register();
        self.level_mut().rels[range].key = Some(register);
        register
    }

    /// All columns that the table has are decoded.
    pub fn use_all_columns(&mut self, range: usize) {
        let entry = &mut self.level_mut().rels[range];
        let all = match &entry.relation {
            Some(relation) => {
                relation.columns.iter().filter(|column| !column.dropped).map(|column| column.attnum).collect()
            }
            None => (1..=entry.columns as i16).collect::<BTreeSet<_>>(),
        };
        entry.used.extend(all);
    }

    fn note_used_columns(&mut self, query: &Query) {
        let mut used = Vec::new();
        let mut cursors = false;
        walk::deep_query(query, 0, &mut |expr, level| match expr {
            Expr::Var(var) if var.levels_up == level => used.push((var.varno, var.attno)),
            _ => {}
        });
        let from = Arc::clone(&self.level().from);
        for_each_condition(&from, &mut |condition| {
            walk::deep(condition, 0, &mut |expr, level| match expr {
                Expr::Var(var) if var.levels_up == level => used.push((var.varno, var.attno)),
                Expr::CurrentOf { .. } if level == 0 => cursors = true,
                _ => {}
            });
        });
        for (range, attno) in used {
            if range >= self.level().rels.len() {
                continue;
            }
            if attno == 0 {
                self.use_all_columns(range);
            } else if attno > 0 {
                self.level_mut().rels[range].used.insert(attno);
            } else if attno == system_columns::CTID && self.level().rels[range].tid.is_none() {
                let register = self.register();
                self.level_mut().rels[range].tid = Some(register);
            }
        }
        if cursors && let Some(target) = query.result_relation {
            self.need_key(target);
        }
    }
}

fn for_each_condition(tree: &FromTree, f: &mut dyn FnMut(&Expr)) {
    tree.conditions.iter().for_each(&mut *f);
    for item in &tree.items {
        match item {
            FromItem::Range(_) => {}
            FromItem::Outer { left, right, conditions, .. } => {
                conditions.iter().for_each(&mut *f);
                for_each_condition(left, f);
                for_each_condition(right, f);
            }
            FromItem::Semi { right, conditions, .. } => {
                conditions.iter().for_each(&mut *f);
                for_each_condition(right, f);
            }
        }
    }
}

fn from_looks_outside(tree: &FromTree) -> bool {
    let mut found = false;
    for_each_condition(tree, &mut |condition| {
        walk::deep(condition, 0, &mut |expr, level| {
            if let Expr::Var(var) = expr {
                found |= var.levels_up > level;
            }
        });
    });
    found
}
