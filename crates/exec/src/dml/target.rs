//! What writing rows of a table needs, compiled once for a plan: generated columns, checks, index entries, foreign keys.
//!
//! The expressions read the table's *row block*: one register for each attribute number. Whoever writes a row puts it
//! there first. The block is the writer's own; a scan of the same table has registers elsewhere.
//!
//! [`Targets`] holds the statement's table first and behind it every table that its cascades may reach.

use std::sync::Arc;

use cairn_analyze::query::{
    CommandType, Distinct, Expr, Overriding, Query, RangeColumn, RangeTableEntry, RangeTableKind,
};
use cairn_catalog::{
    Constraint, ConstraintKind, ForeignKeyAction, Identity, Index, IndexKeyColumn, Relation,
};
use cairn_types::{Datum, Oid, Result};
use smallvec::SmallVec;

use super::foreign_key::ForeignKey;
use super::unique;
use crate::activity::Counted;
use crate::context::{ExecContext, Frame};
use crate::expr::Code;
use crate::plan::Usage;
use crate::planner::Planner;
use crate::table::{IndexLayout, TableLayout};
use cairn_analyze::walk;

/// The tables that a statement may write.
#[derive(Debug)]
pub struct Targets {
    pub tables: Vec<Target>,
}

/// A table and how to write its rows.
#[derive(Debug)]
pub struct Target {
    pub layout: Arc<TableLayout>,
    pub counted: Counted,
    /// First register of the row block.
    pub first: usize,
    /// Columns that are not dropped, ascending; as everywhere here, an index is attribute number - 1.
    pub live: Vec<usize>,
    pub not_null: Vec<usize>,
    /// In order of columns: none refers to another.
    pub generated: Vec<(usize, Code)>,
    pub checks: Vec<Check>,
    pub indexes: Vec<IndexTarget>,
    /// This table refers to others, in columns that may get other values.
    pub foreign_keys: Vec<Arc<ForeignKey>>,
    /// Others refer to this one, to values that rows may lose; with the place of the other in [`Targets::tables`] if an action may change it.
    pub referenced_by: Vec<(Arc<ForeignKey>, Option<usize>)>,
    /// Columns of unique indexes that a foreign key could refer to: changing one takes the UPDATE lock.
    pub key_columns: Vec<usize>,
    /// Columns of the primary key.
    pub primary: Vec<usize>,
    /// Defaults that ON DELETE / UPDATE SET DEFAULT needs.
    pub defaults: Vec<(usize, Code)>,
}

#[derive(Debug)]
pub struct Check {
    pub name: String,
    pub code: Code,
}

#[derive(Debug)]
pub struct IndexTarget {
    pub layout: IndexLayout,
    pub columns: Vec<IndexValue>,
    pub predicate: Option<Code>,
    /// Columns that an entry is made of or depends on.
    pub depends_on: Vec<usize>,
    /// Set for a deferrable unique constraint.
    pub deferrable: Option<Arc<Constraint>>,
    /// As an error names the key columns.
    names: Vec<String>,
    types: Vec<Oid>,
}

#[derive(Debug)]
pub enum IndexValue {
    Column(usize),
    Expression(Code),
}

/// The entry of one row in one index.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// No other row may have this key.
    pub unique: bool,
}

/// Index of an attribute number.
pub(super) fn column_index(attnum: i16) -> usize {
    (attnum as usize).saturating_sub(1)
}

/// A query over nothing but the table, in which texts of the catalog are compiled.
fn query_over(relation: &Arc<Relation>) -> Query {
    let columns = relation
        .columns
        .iter()
        .map(|column| RangeColumn {
            name: if column.dropped { "".into() } else { Arc::clone(&column.name) },
            ty: column.ty,
        })
        .collect();
    let entry = RangeTableEntry {
        kind: RangeTableKind::Relation { relation: Arc::clone(relation), sample: None },
        alias: Arc::clone(&relation.name),
        columns,
        lateral: false,
        in_from: false,
    };
    Query {
        command: CommandType::Select,
        range_table: vec![entry],
        from: Vec::new(),
        filter: None,
        targets: Vec::new(),
        result_relation: None,
        on_conflict: None,
        returning: Vec::new(),
        assigned: Vec::new(),
        overriding: Overriding::None,
        ctes: Vec::new(),
        recursive: false,
        group: Vec::new(),
        grouping_sets: Vec::new(),
        has_aggregates: false,
        has_window_functions: false,
        has_target_srfs: false,
        having: None,
        windows: Vec::new(),
        distinct: Distinct::None,
        sort: Vec::new(),
        offset: None,
        limit: None,
        limit_with_ties: false,
        row_marks: Vec::new(),
        constraints: Vec::new(),
        set_operation: None,
    }
}

/// The analyzed default of a column: its sequence, its expression, or null. `None`: a generated column.
pub fn default_expr(planner: &Planner<'_>, relation: &Arc<Relation>, column: usize) -> Result<Option<Expr>> {
    let attribute = &relation.columns[column];
    if attribute.generated {
        return Ok(None);
    }
    if attribute.identity != Identity::None {
        return Ok(Some(Expr::NextValue { sequence: attribute.identity_sequence, ty: attribute.ty }));
    }
    let own = attribute.default.clone();
    let text =
        own.or_else(|| planner.catalog().type_by_oid(attribute.ty.oid).and_then(|ty| ty.default.clone()));
    let Some(text) = text else {
        return Ok(Some(Expr::Const { value: Datum::Null, ty: attribute.ty, location: -1 }));
    };
    planner.cx.expressions.of_column(relation, column, &text).map(Some)
}

/// What becomes of a table's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub inserts: bool,
    pub deletes: bool,
    /// Columns that are assigned.
    pub columns: Vec<usize>,
}

impl Changes {
    fn is_nothing(&self) -> bool {
        *self == Changes::default()
    }

    /// Adds further changes of the same table. Whether they are new.
    fn add(&mut self, other: &Changes) -> bool {
        let before = (self.deletes, self.columns.len());
        self.inserts |= other.inserts;
        self.deletes |= other.deletes;
        self.columns.extend(&other.columns);
        self.columns.sort_unstable();
        self.columns.dedup();
        before != (self.deletes, self.columns.len())
    }

    /// Whether an assignment may change some of these columns.
    fn assign_any(&self, relation: &Relation, attnums: &[i16]) -> bool {
        let is_asked = |column: usize| attnums.iter().any(|attnum| column_index(*attnum) == column);
        let generated = |column: &usize| relation.columns[*column].generated;
        self.columns.iter().any(|column| is_asked(*column))
            || (!self.columns.is_empty() && (0..relation.columns.len()).filter(generated).any(is_asked))
    }

    /// Whether rows may lose the values that another table's foreign key refers to.
    fn concern(&self, relation: &Relation, constraint: &Constraint) -> bool {
        self.deletes || self.assign_any(relation, &constraint.foreign_columns)
    }

    /// Whether rows may get other values in a foreign key of the table's own.
    fn concern_own(&self, relation: &Relation, constraint: &Constraint) -> bool {
        self.inserts || self.assign_any(relation, &constraint.columns)
    }

    /// What they do to the rows of the table that refers to `relation`.
    fn through(&self, relation: &Relation, constraint: &Constraint) -> Changes {
        let mut further = Changes::default();
        let mut act = |action, deletes: bool, columns: &[i16]| match action {
            ForeignKeyAction::NoAction | ForeignKeyAction::Restrict => {}
            ForeignKeyAction::Cascade if deletes => further.deletes = true,
            ForeignKeyAction::Cascade | ForeignKeyAction::SetNull | ForeignKeyAction::SetDefault => {
                further.columns.extend(columns.iter().map(|attnum| column_index(*attnum)));
            }
        };
        if self.deletes {
            let some = &constraint.on_delete_columns;
            act(constraint.on_delete, true, if some.is_empty() { &constraint.columns } else { some });
        }
        if self.assign_any(relation, &constraint.foreign_columns) {
            act(constraint.on_update, false, &constraint.columns);
        }
        further
    }
}

/// What a statement does to a table, as far as it decides what must be compiled.
#[derive(Clone, Debug)]
pub struct Purpose {
    pub changes: Changes,
    /// Constraints are looked at (not so while an index is built).
    pub constraints: bool,
}

impl Targets {
    /// Compiles a table, and those that changes of it cascade to. Of tables that refer to it those count, and are locked, whose
    /// foreign keys are about what changes.
    pub fn compile(
        planner: &mut Planner<'_>,
        relation: &Arc<Relation>,
        purpose: Purpose,
    ) -> Result<Arc<Targets>> {
        let reached = if purpose.constraints {
            reach(planner, relation, purpose.changes)
        } else {
            vec![(Arc::clone(relation), Changes::default())]
        };
        let mut tables = Vec::new();
        for (table, changes) in &reached {
            let mut target = Target::compile(planner, table, purpose.constraints.then_some(changes))?;
            for constraint in table.referenced_by.iter().filter(|key| changes.concern(table, key)) {
                let Some(child) = planner.catalog().relation(constraint.table).cloned() else { continue };
                let key = ForeignKey::compile(planner, constraint, &child, table)?;
                let acts = !changes.through(table, constraint).is_nothing();
                let place =
                    acts.then(|| reached.iter().position(|(other, _)| other.oid == child.oid)).flatten();
                planner.uses(child.oid, if place.is_some() { Usage::Write } else { Usage::Read });
                target.referenced_by.push((Arc::new(key), place));
            }
            tables.push(target);
        }
        Ok(Arc::new(Targets { tables }))
    }
}

/// The table and all that changes of it cascade to, with what may become of the rows of each.
fn reach(planner: &Planner<'_>, relation: &Arc<Relation>, changes: Changes) -> Vec<(Arc<Relation>, Changes)> {
    let mut reached = vec![(Arc::clone(relation), changes)];
    // Places whose changes have not been followed yet.
    let mut pending = vec![0];
    while let Some(at) = pending.pop() {
        let (table, changes) = reached[at].clone();
        for constraint in table.referenced_by.iter().filter(|key| changes.concern(&table, key)) {
            let Some(child) = planner.catalog().relation(constraint.table) else { continue };
            let further = changes.through(&table, constraint);
            if further.is_nothing() {
                continue;
            }
            match reached.iter().position(|(other, _)| other.oid == child.oid) {
                Some(place) => {
                    if reached[place].1.add(&further) {
                        pending.push(place);
                    }
                }
                None => {
                    pending.push(reached.len());
                    reached.push((Arc::clone(child), further));
                }
            }
        }
    }
    reached
}

impl Target {
    /// `changes`: what its constraints are to be looked at for; `None`: they are not.
    fn compile(
        planner: &mut Planner<'_>,
        relation: &Arc<Relation>,
        changes: Option<&Changes>,
    ) -> Result<Target> {
        planner.enter_as_is(Arc::new(query_over(relation)))?;
        let first = planner.rel(0).first;
        let target = Self::compile_over(planner, relation, first, changes);
        planner.levels.pop();
        target
    }

    fn compile_over(
        planner: &mut Planner<'_>,
        relation: &Arc<Relation>,
        first: usize,
        changes: Option<&Changes>,
    ) -> Result<Target> {
        let layout = Arc::new(TableLayout::new(relation, planner.catalog())?);
        let is_live = |index: &usize| !relation.columns[*index].dropped;
        let live: Vec<usize> = (0..relation.columns.len()).filter(is_live).collect();
        let mut generated = Vec::new();
        for &column in &live {
            let attribute = &relation.columns[column];
            if let (true, Some(text)) = (attribute.generated, &attribute.default) {
                let expr = planner.cx.expressions.of_column(relation, column, text)?;
                generated.push((column, planner.compile(&expr)?));
            }
        }
        let mut target = Target {
            counted: Counted::new(relation.oid),
            not_null: live.iter().copied().filter(|index| relation.columns[*index].not_null).collect(),
            generated,
            checks: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            referenced_by: Vec::new(),
            key_columns: Vec::new(),
            primary: layout.key.iter().map(|(column, _)| *column).collect(),
            defaults: Vec::new(),
            layout,
            first,
            live,
        };
        for index in &relation.indexes {
            if index.unique && !index.deferrable && index.predicate.is_none() {
                let plain = |key: &cairn_catalog::IndexKey| match key.key {
                    IndexKeyColumn::Attribute(attnum) => Some(column_index(attnum)),
                    IndexKeyColumn::Expression(_) => None,
                };
                if let Some(columns) = index.keys.iter().map(plain).collect::<Option<Vec<_>>>() {
                    target.key_columns.extend(columns);
                }
            }
            if index.storage != relation.storage {
                target.indexes.push(IndexTarget::compile(planner, relation, index)?);
            }
        }
        target.key_columns.sort_unstable();
        target.key_columns.dedup();
        if let Some(changes) = changes {
            target.compile_constraints(planner, relation, changes)?;
        }
        Ok(target)
    }

    fn compile_constraints(
        &mut self,
        planner: &mut Planner<'_>,
        relation: &Arc<Relation>,
        changes: &Changes,
    ) -> Result<()> {
        for constraint in &relation.constraints {
            match constraint.kind {
                ConstraintKind::Check => {
                    if let Some(text) = &constraint.expression {
                        let expr = planner.cx.expressions.over_table(relation, text)?;
                        let code = planner.compile(&expr)?;
                        self.checks.push(Check { name: constraint.name.to_string(), code });
                    }
                }
                ConstraintKind::ForeignKey if !changes.concern_own(relation, constraint) => {}
                ConstraintKind::ForeignKey => {
                    let parent = if constraint.foreign_table == relation.oid {
                        Arc::clone(relation)
                    } else {
                        match planner.catalog().relation(constraint.foreign_table) {
                            Some(parent) => Arc::clone(parent),
                            None => continue,
                        }
                    };
                    planner.uses(parent.oid, Usage::Lock(cairn_analyze::query::LockStrength::KeyShare));
                    let key = ForeignKey::compile(planner, constraint, relation, &parent)?;
                    let sets_default = [constraint.on_delete, constraint.on_update]
                        .into_iter()
                        .any(|action| action == ForeignKeyAction::SetDefault);
                    for &column in key.child_columns.iter().filter(|_| sets_default) {
                        if let Some(expr) = default_expr(planner, relation, column)? {
                            let code = planner.compile(&expr)?;
                            self.defaults.push((column, code));
                        }
                    }
                    self.foreign_keys.push(Arc::new(key));
                }
                ConstraintKind::PrimaryKey
                | ConstraintKind::Unique
                | ConstraintKind::NotNull
                | ConstraintKind::Exclusion => {}
            }
        }
        self.checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    pub fn relation(&self) -> &Arc<Relation> {
        &self.layout.relation
    }

    /// The row in the row block.
    pub fn row<'f>(&self, frame: &'f Frame) -> &'f [Datum] {
        &frame.registers[self.first..self.first + self.layout.kinds.len()]
    }

    pub fn row_mut<'f>(&self, frame: &'f mut Frame) -> &'f mut [Datum] {
        &mut frame.registers[self.first..self.first + self.layout.kinds.len()]
    }

    /// All columns null.
    pub fn clear_row(&self, frame: &mut Frame) {
        self.row_mut(frame).fill(Datum::Null);
    }

    /// Decodes a stored row into the row block.
    pub fn load(&self, frame: &mut Frame, row: &[u8]) -> Result<()> {
        self.layout.decode(row, &self.live, self.row_mut(frame))
    }
}

impl IndexTarget {
    fn compile(
        planner: &mut Planner<'_>,
        relation: &Arc<Relation>,
        index: &Arc<Index>,
    ) -> Result<IndexTarget> {
        let mut columns = Vec::with_capacity(index.keys.len());
        let mut names = Vec::with_capacity(index.keys.len());
        let mut depends_on = Vec::new();
        let note = |depends_on: &mut Vec<usize>, expr: &Expr| {
            walk::deep(expr, 0, &mut |part, _| match part {
                Expr::Var(var) if var.attno > 0 => depends_on.push(column_index(var.attno)),
                // A whole row depends on all of them.
                Expr::Var(var) if var.attno == 0 => depends_on.extend(0..relation.columns.len()),
                _ => {}
            });
        };
        for key in &index.keys {
            match &key.key {
                IndexKeyColumn::Attribute(attnum) => {
                    let column = column_index(*attnum);
                    depends_on.push(column);
                    columns.push(IndexValue::Column(column));
                    names.push(
                        relation.columns.get(column).map_or(String::new(), |column| column.name.to_string()),
                    );
                }
                IndexKeyColumn::Expression(text) => {
                    let expr = planner.cx.expressions.over_table(relation, text)?;
                    note(&mut depends_on, &expr);
                    columns.push(IndexValue::Expression(planner.compile(&expr)?));
                    // As pg_get_indexdef prints it: parentheses around what is not a function call.
                    let bare = matches!(expr, Expr::Function(_)) || text.starts_with('(');
                    names.push(if bare { text.to_string() } else { format!("({text})") });
                }
            }
        }
        let predicate = match &index.predicate {
            Some(text) => {
                let expr = planner.cx.expressions.over_table(relation, text)?;
                note(&mut depends_on, &expr);
                Some(planner.compile(&expr)?)
            }
            None => None,
        };
        depends_on.sort_unstable();
        depends_on.dedup();
        let deferrable = (index.unique && index.deferrable)
            .then(|| {
                relation.constraints.iter().find(|constraint| constraint.oid == index.constraint).cloned()
            })
            .flatten();
        Ok(IndexTarget {
            layout: IndexLayout::new(index, planner.catalog()),
            columns,
            predicate,
            depends_on,
            deferrable,
            names,
            types: index.keys.iter().map(|key| key.ty.oid).collect(),
        })
    }

    pub fn depends_on_any(&self, columns: &[usize]) -> bool {
        columns.iter().any(|column| self.depends_on.binary_search(column).is_ok())
    }

    /// Values of the key columns of the row in the row block; `None`: a partial index without this row.
    pub(super) fn values(
        &self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        first: usize,
    ) -> Result<Option<SmallVec<[Datum; 4]>>> {
        if let Some(predicate) = &self.predicate
            && !predicate.holds(cx, frame)?
        {
            return Ok(None);
        }
        let mut values = SmallVec::new();
        for column in &self.columns {
            values.push(match column {
                IndexValue::Column(column) => frame.registers[first + column].clone(),
                IndexValue::Expression(code) => code.eval(cx, frame)?,
            });
        }
        Ok(Some(values))
    }

    pub(super) fn entry_of(&self, values: &[Datum], row_key: &[u8]) -> Result<Entry> {
        let (key, value) = self.layout.entry(values, row_key)?;
        Ok(Entry { key, value, unique: self.layout.enforces_unique(values) })
    }

    /// The entry of the row in the row block.
    pub(super) fn entry(
        &self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        first: usize,
        row_key: &[u8],
    ) -> Result<Option<Entry>> {
        let Some(values) = self.values(cx, frame, first)? else { return Ok(None) };
        self.entry_of(&values, row_key).map(Some)
    }

    /// `Key (a, b)=(1, 2)`.
    pub(super) fn describe(&self, cx: &ExecContext<'_>, values: &[Datum]) -> String {
        let values: Vec<_> = values.iter().cloned().zip(self.types.iter().copied()).collect();
        unique::describe_key(cx, &self.names, &values)
    }
}
