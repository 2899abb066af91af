//! Which privileges running a query takes.
//!
//! Worked out once, when the query is planned; asked of the access lists each time it runs, because roles change under a
//! plan (SET ROLE, SECURITY DEFINER). The rules are PostgreSQL's (manual, sections 5.7 and 41.5):
//!
//! - a table that is read needs SELECT on every column that the query mentions, on any one if it mentions none;
//! - the target of INSERT, UPDATE, DELETE needs that privilege, SELECT only where its columns are read;
//! - FOR UPDATE and its kin need UPDATE as well;
//! - what stands inside a view is asked of the view's owner, unless the view is `security_invoker`;
//! - functions need EXECUTE, asked of the current role wherever they stand.

use std::collections::HashSet;
use std::sync::LazyLock;

use cairn_catalog::acl::{self, Privileges};
use cairn_catalog::columns::pg_proc;
use cairn_catalog::system_table::system_table;
use cairn_catalog::{Catalog, IndexKeyColumn, RowExt};
use cairn_types::Oid;
use cairn_types::oid::{BOOTSTRAP_ROLE, FIRST_USER_OID};

use crate::query::*;
use crate::walk;

/// What a query takes.
#[derive(Clone, Debug, Default)]
pub struct RequiredAccess {
    pub relations: Vec<RelationAccess>,
    /// Functions that not everybody may call.
    pub functions: Vec<Oid>,
    /// Whether anything is asked of another role than the current one.
    pub asks_owners: bool,
}

/// What one range table entry takes.
#[derive(Clone, Debug)]
pub struct RelationAccess {
    pub relation: Oid,
    /// The role that is asked; `None`: the current one.
    pub role: Option<Oid>,
    pub privileges: Privileges,
    /// Columns that need SELECT, INSERT, UPDATE; 0: all of them (a whole-row reference).
    pub selected: Vec<i16>,
    pub inserted: Vec<i16>,
    pub updated: Vec<i16>,
}

/// What running the query takes.
pub fn required_access(query: &Query, catalog: &Catalog) -> RequiredAccess {
    let mut collector = Collector {
        catalog,
        found: RequiredAccess::default(),
        functions: HashSet::new(),
        levels: Vec::new(),
        role: None,
    };
    collector.query(query);
    let mut functions: Vec<Oid> = collector.functions.into_iter().filter(|oid| *oid != 0).collect();
    functions.sort_unstable();
    let mut found = collector.found;
    found.asks_owners = found.relations.iter().any(|access| access.role.is_some());
    found.functions = functions;
    found
}

/// Built-in functions that have an access list.
static RESTRICTED: LazyLock<HashSet<Oid>> = LazyLock::new(|| {
    let rows = system_table(pg_proc::TABLE).map(|table| table.builtin_rows()).unwrap_or_default();
    let listed = rows.iter().filter(|row| !row.datum(pg_proc::PROACL).is_null());
    listed.map(|row| row.oid(pg_proc::OID)).collect()
});

struct Collector<'a> {
    catalog: &'a Catalog,
    found: RequiredAccess,
    functions: HashSet<Oid>,
    /// The queries around, outermost first: each with the index into `found.relations` of its entries.
    levels: Vec<(&'a Query, Vec<Option<usize>>)>,
    role: Option<Oid>,
}

fn add(columns: &mut Vec<i16>, column: i16) {
    if let Err(at) = columns.binary_search(&column) {
        columns.insert(at, column);
    }
}

impl<'a> Collector<'a> {
    fn query(&mut self, query: &'a Query) {
        let mut slots = Vec::with_capacity(query.range_table.len());
        let excluded =
            query.on_conflict.as_ref().and_then(|conflict| Some(conflict.update.as_ref()?.excluded));
        for (index, entry) in query.range_table.iter().enumerate() {
            let relation = match &entry.kind {
                RangeTableKind::Relation { relation, .. } if excluded != Some(index) => relation.oid,
                RangeTableKind::Subquery { view: Some(view), .. } => *view,
                _ => {
                    slots.push(None);
                    continue;
                }
            };
            let mut privileges = match query.command {
                CommandType::Insert if query.result_relation == Some(index) => acl::INSERT,
                CommandType::Update if query.result_relation == Some(index) => acl::UPDATE,
                CommandType::Delete if query.result_relation == Some(index) => acl::DELETE,
                _ => acl::SELECT,
            };
            if query.row_marks.iter().any(|mark| mark.range == index) {
                privileges |= acl::UPDATE;
            }
            slots.push(Some(self.found.relations.len()));
            self.found.relations.push(RelationAccess {
                relation,
                role: self.role,
                privileges,
                selected: Vec::new(),
                inserted: Vec::new(),
                updated: Vec::new(),
            });
        }
        self.levels.push((query, slots));
        self.targets(query);
        // Columns of a join count where they are referred to.
        let mut of_joins: HashSet<*const Expr> = HashSet::new();
        for entry in &query.range_table {
            if let RangeTableKind::Join { columns, .. } = &entry.kind {
                of_joins.extend(columns.iter().map(std::ptr::from_ref));
            }
        }
        let mut own = Vec::new();
        walk::query_expressions(query, &mut |expr| {
            if !of_joins.contains(&std::ptr::from_ref(expr)) {
                own.push(expr);
            }
        });
        for expr in own {
            self.expr(expr);
        }
        for entry in &query.range_table {
            if let RangeTableKind::Subquery { query, view } = &entry.kind {
                match view {
                    Some(view) => self.view(*view, query),
                    None => self.query(query),
                }
            }
        }
        for cte in &query.ctes {
            self.query(&cte.query);
        }
        self.levels.pop();
    }

    /// A view's query: its owner is asked.
    fn view(&mut self, view: Oid, query: &'a Query) {
        let around = self.role;
        if let Some(relation) = self.catalog.relation(view) {
            let invoker = relation.options.iter().any(|option| {
                matches!(&**option, "security_invoker=true" | "security_invoker=on" | "security_invoker=1")
            });
            if !invoker {
                self.role = Some(relation.owner);
            }
        }
        if self.role == Some(BOOTSTRAP_ROLE) {
            // Nothing is forbidden to it; its functions still count.
            let known = self.found.relations.len();
            self.query(query);
            self.found.relations.truncate(known);
        } else {
            self.query(query);
        }
        self.role = around;
    }

    /// Columns that the command writes, and those by which ON CONFLICT looks for rows.
    fn targets(&mut self, query: &'a Query) {
        let slot = query.result_relation.and_then(|index| self.slot(self.levels.len() - 1, index));
        let Some(access) = slot.and_then(|slot| self.found.relations.get_mut(slot)) else { return };
        match query.command {
            CommandType::Insert => {
                for column in &query.assigned {
                    add(&mut access.inserted, *column);
                }
            }
            CommandType::Update => {
                for target in query.targets.iter().filter(|target| !target.junk) {
                    add(&mut access.updated, target.resno);
                }
            }
            CommandType::Select | CommandType::Delete => {}
        }
        let Some(conflict) = &query.on_conflict else { return };
        let partial = conflict.partial.iter().flat_map(|partial| &partial.indexes);
        for index in conflict.arbiters.iter().chain(partial).filter_map(|oid| self.catalog.index(*oid)) {
            access.privileges |= acl::SELECT;
            for key in &index.keys {
                if let IndexKeyColumn::Attribute(column) = key.key {
                    add(&mut access.selected, column);
                }
            }
        }
        if let Some(update) = &conflict.update {
            access.privileges |= acl::UPDATE;
            for target in update.targets.iter().filter(|target| !target.junk) {
                add(&mut access.updated, target.resno);
            }
        }
    }

    fn slot(&self, level: usize, index: usize) -> Option<usize> {
        self.levels.get(level).and_then(|(_, slots)| slots.get(index).copied().flatten())
    }

    fn column(&mut self, level: usize, index: usize, column: i16) {
        if let Some(access) = self.slot(level, index).and_then(|slot| self.found.relations.get_mut(slot)) {
            access.privileges |= acl::SELECT;
            add(&mut access.selected, column);
            return;
        }
        let Some((query, _)) = self.levels.get(level) else { return };
        let Some(RangeTableEntry { kind: RangeTableKind::Join { columns, .. }, .. }) =
            query.range_table.get(index)
        else {
            return;
        };
        let of_join: &'a [Expr] = match usize::try_from(column - 1) {
            Ok(at) => columns.get(at..=at).unwrap_or_default(),
            Err(_) => columns,
        };
        for expr in of_join {
            let mut vars = Vec::new();
            walk::deep(expr, 0, &mut |expr, depth| {
                if let Expr::Var(var) = expr
                    && var.levels_up == depth
                {
                    vars.push((var.varno, var.attno));
                }
            });
            for (index, column) in vars {
                self.column(level, index, column);
            }
        }
    }

    fn function(&mut self, oid: Oid) {
        let restricted = if oid < FIRST_USER_OID {
            RESTRICTED.contains(&oid)
        } else {
            // Its default lets everybody call it.
            self.catalog
                .row_by_oid(pg_proc::TABLE, oid)
                .is_some_and(|row| !row.datum(pg_proc::PROACL).is_null())
        };
        if restricted {
            self.functions.insert(oid);
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Var(var) => {
                if let Some(level) = self.levels.len().checked_sub(1 + var.levels_up as usize) {
                    self.column(level, var.varno, var.attno);
                }
            }
            Expr::Function(call) => self.function(call.function),
            Expr::Operator(call) | Expr::DistinctFrom(call) | Expr::NullIf(call) => {
                self.function(call.function);
            }
            Expr::ArrayOperator(call) => self.function(call.function),
            Expr::Aggregate(call) => self.function(call.function),
            Expr::Window(call) => self.function(call.function),
            _ => {}
        }
        let mut operands = Vec::new();
        walk::children(expr, &mut |child| operands.push(child));
        for child in operands {
            self.expr(child);
        }
        if let Expr::SubLink(link) = expr {
            self.query(&link.query);
        }
    }
}
