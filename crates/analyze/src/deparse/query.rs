//! Queries as text, laid out over lines as PostgreSQL shows a view's definition.

use std::collections::HashSet;

use super::{Deparser, Level};
use crate::query::*;

/// Columns by which the query's clauses stand left of its target list.
const CLAUSE_INDENT: usize = 1;
const TARGET_INDENT: usize = 4;

impl<'a> Deparser<'a> {
    /// Writes a query; `columns` are the output names that its user knows it by, where they differ from its own.
    pub(super) fn query(&mut self, query: &'a Query, columns: Option<&[RangeColumn]>) {
        let level = self.level(query);
        self.levels.push(level);
        self.ctes(query);
        match query.command {
            CommandType::Select => self.select(query, columns),
            CommandType::Insert => self.insert(query),
            CommandType::Update => self.update(query),
            CommandType::Delete => self.delete(query),
        }
        self.levels.pop();
    }

    /// A query in parentheses inside a line; the caller writes the parentheses.
    pub(super) fn subquery(&mut self, query: &'a Query, names_visible: bool) {
        let (outer, visible) = (self.indent, self.names_visible);
        self.indent += 8;
        self.names_visible = names_visible;
        self.push(" ");
        self.query(query, None);
        self.indent = outer;
        self.names_visible = visible;
    }

    /// Gives every range table entry a name that no other entry in sight has.
    pub(super) fn level(&self, query: &'a Query) -> Level<'a> {
        let mut taken: HashSet<String> =
            self.levels.iter().flat_map(|level| level.aliases.iter().cloned()).collect();
        let mut aliases = Vec::with_capacity(query.range_table.len());
        for entry in &query.range_table {
            if matches!(entry.kind, RangeTableKind::Join { .. }) {
                aliases.push(String::new());
                continue;
            }
            let base = if entry.alias.is_empty() { "unnamed_subquery" } else { &*entry.alias };
            let mut name = base.to_owned();
            let mut number = 0;
            while !name.is_empty() && taken.contains(&name) {
                number += 1;
                name = format!("{base}_{number}");
            }
            taken.insert(name.clone());
            aliases.push(name);
        }
        let columns = query
            .range_table
            .iter()
            .map(|entry| entry.columns.iter().map(|column| column.name.to_string()).collect())
            .collect();
        let qualify = query.command != CommandType::Insert
            && (query.range_table.len() > 1 || !self.levels.is_empty() || self.names.is_none());
        Level { query, aliases, columns, qualify }
    }

    fn ctes(&mut self, query: &'a Query) {
        if query.ctes.is_empty() {
            return;
        }
        let outer = self.indent;
        self.push(if query.recursive { "WITH RECURSIVE " } else { "WITH " });
        for (index, cte) in query.ctes.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.identifier(&cte.name);
            let own_names = cte.query.targets.iter().filter(|target| !target.junk).map(|target| &target.name);
            if !own_names.eq(cte.columns.iter().map(|column| &column.name)) {
                self.column_list(cte.columns.iter().map(|column| &*column.name));
            }
            self.push(match cte.materialized {
                Materialize::Default => " AS (",
                Materialize::Always => " AS MATERIALIZED (",
                Materialize::Never => " AS NOT MATERIALIZED (",
            });
            self.indent += 8;
            self.new_line(1);
            self.query(&cte.query, None);
            self.indent = outer + 8;
            self.new_line(0);
            self.push(")");
            self.indent = outer;
        }
        self.new_line(CLAUSE_INDENT);
    }

    fn select(&mut self, query: &'a Query, columns: Option<&[RangeColumn]>) {
        match &query.set_operation {
            Some(operation) => {
                // Every branch shows the names that the whole has.
                let own: Vec<RangeColumn> = query
                    .targets
                    .iter()
                    .filter(|target| !target.junk)
                    .filter_map(|target| {
                        Some(RangeColumn {
                            name: target.name.clone(),
                            ty: super::expression::var_type(&target.expr)?,
                        })
                    })
                    .collect();
                self.set_operation(query, operation, columns.or(Some(&own)));
            }
            None => {
                if self.values(query) {
                    return;
                }
                self.select_body(query, columns);
            }
        }
        if !query.sort.is_empty() {
            self.clause("ORDER BY ");
            self.sort_list(query, &query.sort, query.set_operation.is_some());
        }
        if let Some(offset) = &query.offset {
            self.clause("OFFSET ");
            self.expr(without_implicit_casts(offset), None);
        }
        if let Some(limit) = &query.limit {
            if query.limit_with_ties {
                self.clause("FETCH FIRST ");
                self.expr(without_implicit_casts(limit), None);
                self.push(" ROWS WITH TIES");
            } else {
                self.clause("LIMIT ");
                self.expr(without_implicit_casts(limit), None);
            }
        }
        for mark in &query.row_marks {
            self.clause(match mark.strength {
                LockStrength::KeyShare => "FOR KEY SHARE",
                LockStrength::Share => "FOR SHARE",
                LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
                LockStrength::Update => "FOR UPDATE",
            });
            if let Some(alias) = self.alias(mark.range) {
                self.push(" OF ");
                self.identifier(&alias);
            }
            self.push(match mark.wait {
                LockWait::Block => "",
                LockWait::Skip => " SKIP LOCKED",
                LockWait::Error => " NOWAIT",
            });
        }
    }

    /// A bare VALUES list; `false` if the query is more than that.
    fn values(&mut self, query: &'a Query) -> bool {
        let [entry] = query.range_table.as_slice() else { return false };
        let RangeTableKind::Values { rows } = &entry.kind else { return false };
        let plain =
            query.filter.is_none() && query.group.is_empty() && matches!(query.distinct, Distinct::None);
        let as_it_is = query.targets.iter().enumerate().all(|(index, target)| {
            matches!(&target.expr, Expr::Var(var) if usize::try_from(var.attno).is_ok_and(|attno| attno == index + 1))
        });
        if !plain || !as_it_is || query.targets.len() != entry.columns.len() {
            return false;
        }
        self.values_rows(rows);
        true
    }

    fn values_rows(&mut self, rows: &'a [Vec<Expr>]) {
        self.push("VALUES ");
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.push("(");
            for (index, value) in row.iter().enumerate() {
                if index > 0 {
                    self.push(",");
                }
                self.expr(value, None);
            }
            self.push(")");
        }
    }

    fn select_body(&mut self, query: &'a Query, columns: Option<&[RangeColumn]>) {
        self.push("SELECT ");
        match &query.distinct {
            Distinct::None => {}
            Distinct::All(_) => self.push("DISTINCT "),
            Distinct::On(clauses) => {
                self.push("DISTINCT ON (");
                self.sort_expressions(query, clauses);
                self.push(") ");
            }
        }
        self.targets(&query.targets, columns);
        self.from_clause(&query.from, "FROM ");
        if let Some(filter) = &query.filter {
            self.clause("WHERE ");
            self.expr(filter, None);
        }
        if !query.grouping_sets.is_empty() {
            self.clause("GROUP BY GROUPING SETS (");
            for (index, set) in query.grouping_sets.iter().enumerate() {
                if index > 0 {
                    self.push(", ");
                }
                self.push("(");
                let clauses: Vec<SortGroupClause> =
                    query.group.iter().filter(|clause| set.contains(&clause.target)).cloned().collect();
                self.sort_expressions(query, &clauses);
                self.push(")");
            }
            self.push(")");
        } else if !query.group.is_empty() {
            self.clause("GROUP BY ");
            self.sort_expressions(query, &query.group);
        }
        if let Some(having) = &query.having {
            self.clause("HAVING ");
            self.expr(having, None);
        }
        let named: Vec<&WindowClause> = query.windows.iter().filter(|window| window.name.is_some()).collect();
        for (index, window) in named.iter().enumerate() {
            if index == 0 {
                self.clause("WINDOW ");
            } else {
                self.push(", ");
            }
            if let Some(name) = &window.name {
                self.identifier(name);
            }
            self.push(" AS ");
            self.window_definition(query, window);
        }
    }

    fn targets(&mut self, targets: &'a [TargetEntry], columns: Option<&[RangeColumn]>) {
        let mut first = true;
        for (index, target) in targets.iter().filter(|target| !target.junk).enumerate() {
            if !first {
                self.push(",");
                self.new_line(TARGET_INDENT);
            }
            first = false;
            self.expr(&target.expr, None);
            let name =
                columns.and_then(|columns| columns.get(index)).map_or(&target.name, |column| &column.name);
            let own_name = match &target.expr {
                Expr::Var(var) => self.var_column(var),
                _ if !self.names_visible => Some("?column?".to_owned()),
                _ => None,
            };
            if own_name.as_deref() != Some(&**name) {
                self.push(" AS ");
                self.identifier(name);
            }
        }
    }

    fn var_column(&self, var: &Var) -> Option<String> {
        let depth = self.levels.len().checked_sub(var.levels_up as usize + 1)?;
        let columns = self.levels.get(depth)?.columns.get(var.varno)?;
        columns.get(usize::try_from(var.attno).ok()?.checked_sub(1)?).cloned()
    }

    fn alias(&self, range: usize) -> Option<String> {
        self.levels.last()?.aliases.get(range).cloned()
    }

    fn clause(&mut self, word: &str) {
        self.new_line(clause_indent(word));
        self.push(word);
    }

    fn from_clause(&mut self, from: &'a [JoinTree], word: &str) {
        let mut first = true;
        for item in from {
            if first {
                self.clause(word);
            } else {
                self.push(",");
                self.new_line(TARGET_INDENT);
            }
            first = false;
            self.from_item(item);
        }
    }

    fn from_item(&mut self, item: &'a JoinTree) {
        match item {
            JoinTree::Range(range) => self.range(*range),
            JoinTree::Join { kind, left, right, condition, range } => {
                if !self.pretty() {
                    self.push("(");
                }
                self.from_item(left);
                let using = self.join_using(*range);
                let crossed = condition.is_none() && using.is_empty() && *kind == JoinKind::Inner;
                self.new_line(CLAUSE_INDENT + 4);
                self.push(match kind {
                    JoinKind::Inner if crossed => "CROSS JOIN ",
                    JoinKind::Inner => "JOIN ",
                    JoinKind::Left => "LEFT JOIN ",
                    JoinKind::Right => "RIGHT JOIN ",
                    JoinKind::Full => "FULL JOIN ",
                });
                self.from_item(right);
                if !using.is_empty() {
                    self.push(" USING");
                    self.push(" (");
                    for (index, name) in using.iter().enumerate() {
                        if index > 0 {
                            self.push(", ");
                        }
                        self.identifier(name);
                    }
                    self.push(")");
                } else if let Some(condition) = condition {
                    self.push(" ON ");
                    if self.pretty() {
                        self.expr(condition, None);
                    } else {
                        self.push("(");
                        self.expr(condition, None);
                        self.push(")");
                    }
                } else if !crossed {
                    self.push(" ON (true)");
                }
                if !self.pretty() {
                    self.push(")");
                }
            }
        }
    }

    // FROM.

    fn join_using(&self, range: usize) -> Vec<String> {
        let entry = self.levels.last().and_then(|level| level.query.range_table.get(range));
        match entry.map(|entry| &entry.kind) {
            Some(RangeTableKind::Join { using, .. }) => using.iter().map(|name| name.to_string()).collect(),
            _ => Vec::new(),
        }
    }

    fn range(&mut self, range: usize) {
        let Some(level) = self.levels.last() else { return };
        let query = level.query;
        let Some(entry) = query.range_table.get(range) else { return };
        let alias = level.aliases.get(range).cloned().unwrap_or_default();
        if entry.lateral && !matches!(entry.kind, RangeTableKind::Function { .. }) {
            self.push("LATERAL ");
        }
        let mut columns = Vec::new();
        let show_alias = match &entry.kind {
            RangeTableKind::Relation { relation, .. } => {
                self.relation_name(relation);
                let renamed = entry
                    .columns
                    .iter()
                    .zip(&relation.columns)
                    .any(|(column, own)| !own.dropped && column.name != own.name);
                if renamed {
                    columns = live_columns(entry);
                }
                alias != *relation.name || renamed
            }
            RangeTableKind::Subquery { view: Some(view), .. } if self.catalog.relation(*view).is_some() => {
                if let Some(relation) = self.catalog.relation(*view) {
                    self.relation_name(relation);
                    let renamed = entry
                        .columns
                        .iter()
                        .zip(&relation.columns)
                        .any(|(column, own)| column.name != own.name);
                    if renamed {
                        columns = live_columns(entry);
                    }
                    alias != *relation.name || renamed
                } else {
                    true
                }
            }
            RangeTableKind::Subquery { query, .. } => {
                self.push("(");
                self.subquery(query, true);
                self.push(")");
                let own = query.targets.iter().filter(|target| !target.junk).map(|target| &target.name);
                if !own.eq(entry.columns.iter().map(|column| &column.name)) {
                    columns = live_columns(entry);
                }
                true
            }
            RangeTableKind::Function { functions, ordinality } => {
                self.range_functions(functions, *ordinality);
                columns = live_columns(entry);
                true
            }
            RangeTableKind::Values { rows } => {
                self.push("( ");
                self.values_rows(rows);
                self.push(")");
                columns = live_columns(entry);
                true
            }
            RangeTableKind::Cte { name, .. } => {
                self.identifier(name);
                alias != **name
            }
            RangeTableKind::Join { .. } | RangeTableKind::Result => false,
        };
        if !show_alias || alias.is_empty() {
            return;
        }
        self.push(" ");
        self.identifier(&alias);
        match &entry.kind {
            RangeTableKind::Function { functions, .. } if functions.iter().any(is_record_function) => {
                self.column_definitions(entry, functions);
            }
            _ if !columns.is_empty() => self.column_list(columns.iter().map(String::as_str)),
            _ => {}
        }
    }

    /// The array that a plain call of unnest() takes apart.
    fn unnested(&self, function: &'a RangeFunction) -> Option<&'a Expr> {
        let Expr::Function(call) = &function.call else { return None };
        let name = &self.catalog.proc(call.function)?.source;
        match call.args.as_slice() {
            [array] if &**name == "array_unnest" => Some(array),
            _ => None,
        }
    }

    fn range_functions(&mut self, functions: &'a [RangeFunction], ordinality: bool) {
        if let [function] = functions {
            self.expr(&function.call, None);
        } else if let Some(arrays) =
            functions.iter().map(|function| self.unnested(function)).collect::<Option<Vec<_>>>()
        {
            self.push("UNNEST(");
            for (index, array) in arrays.into_iter().enumerate() {
                if index > 0 {
                    self.push(", ");
                }
                self.expr(array, None);
            }
            self.push(")");
        } else {
            self.push("ROWS FROM(");
            for (index, function) in functions.iter().enumerate() {
                if index > 0 {
                    self.push(", ");
                }
                self.expr(&function.call, None);
            }
            self.push(")");
        }
        if ordinality {
            self.push(" WITH ORDINALITY");
        }
    }

    /// `(a integer, b text)` behind a function that returns record.
    fn column_definitions(&mut self, entry: &RangeTableEntry, functions: &[RangeFunction]) {
        let types: Vec<_> =
            functions.iter().flat_map(|function| function.column_types.iter().copied()).collect();
        self.push("(");
        for (index, (column, ty)) in entry.columns.iter().zip(types).enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.identifier(&column.name);
            self.push(" ");
            self.type_name(ty);
        }
        self.push(")");
    }

    fn column_list<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        self.push("(");
        for (index, name) in names.enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.identifier(name);
        }
        self.push(")");
    }

    // Clauses over the target list.

    /// The expression that a clause refers to.
    fn clause_target(&self, query: &'a Query, reference: u32) -> Option<&'a TargetEntry> {
        query.targets.iter().find(|target| target.sort_group_ref == reference)
    }

    fn sort_expressions(&mut self, query: &'a Query, clauses: &[SortGroupClause]) {
        for (index, clause) in clauses.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            if let Some(target) = self.clause_target(query, clause.target) {
                self.clause_expression(&target.expr);
            }
        }
    }

    /// A bare constant would be read as a column's position, a bare name as an output column's: a cast and parentheses tell
    /// that it is an expression.
    pub(super) fn clause_expression(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Const { value, ty, .. } => {
                self.constant(value, *ty, false);
                self.push("::");
                self.type_name(*ty);
            }
            Expr::Var(_) => self.expr(expr, None),
            Expr::Function(_)
            | Expr::Aggregate(_)
            | Expr::Window(_)
            | Expr::Relabel { .. }
            | Expr::CoerceViaIo { .. } => {
                self.push("(");
                self.expr(expr, None);
                self.push(")");
            }
            _ if self.pretty() => {
                self.push("(");
                self.expr(expr, None);
                self.push(")");
            }
            _ => self.expr(expr, None),
        }
    }

    fn sort_list(&mut self, query: &'a Query, clauses: &[SortGroupClause], by_position: bool) {
        for (index, clause) in clauses.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            if let Some(target) = self.clause_target(query, clause.target) {
                if by_position && !target.junk {
                    self.push(&target.resno.to_string());
                } else {
                    self.clause_expression(&target.expr);
                }
            }
            self.direction(clause.descending, clause.nulls_first);
        }
    }

    pub(super) fn window_reference(&mut self, window: usize) {
        let Some(query) = self.levels.last().map(|level| level.query) else { return };
        let Some(clause) = query.windows.get(window) else { return };
        match &clause.name {
            Some(name) => self.identifier(name),
            None => self.window_definition(query, clause),
        }
    }

    fn window_definition(&mut self, query: &'a Query, window: &'a WindowClause) {
        self.push("(");
        let mut space = false;
        if !window.partition.is_empty() {
            self.push("PARTITION BY ");
            self.sort_expressions(query, &window.partition);
            space = true;
        }
        if !window.order.is_empty() {
            self.push(if space { " ORDER BY " } else { "ORDER BY " });
            self.sort_list(query, &window.order, false);
            space = true;
        }
        if window.frame.explicit {
            if space {
                self.push(" ");
            }
            self.frame(&window.frame);
        }
        self.push(")");
    }

    fn frame(&mut self, frame: &'a WindowFrame) {
        self.push(match frame.mode {
            FrameMode::Range => "RANGE BETWEEN ",
            FrameMode::Rows => "ROWS BETWEEN ",
            FrameMode::Groups => "GROUPS BETWEEN ",
        });
        self.frame_bound(&frame.start);
        self.push(" AND ");
        self.frame_bound(&frame.end);
        self.push(match frame.exclusion {
            FrameExclusion::None => "",
            FrameExclusion::CurrentRow => " EXCLUDE CURRENT ROW",
            FrameExclusion::Group => " EXCLUDE GROUP",
            FrameExclusion::Ties => " EXCLUDE TIES",
        });
    }

    fn frame_bound(&mut self, bound: &'a FrameBound) {
        match bound {
            FrameBound::UnboundedPreceding => self.push("UNBOUNDED PRECEDING"),
            FrameBound::CurrentRow => self.push("CURRENT ROW"),
            FrameBound::UnboundedFollowing => self.push("UNBOUNDED FOLLOWING"),
            FrameBound::Preceding(offset) => {
                self.expr(without_implicit_casts(offset), None);
                self.push(" PRECEDING");
            }
            FrameBound::Following(offset) => {
                self.expr(without_implicit_casts(offset), None);
                self.push(" FOLLOWING");
            }
        }
    }

    // Set operations.

    fn set_operation(
        &mut self,
        query: &'a Query,
        operation: &'a SetOperation,
        columns: Option<&[RangeColumn]>,
    ) {
        match operation {
            SetOperation::Leaf(range) => {
                let entry = query.range_table.get(*range);
                let Some(RangeTableKind::Subquery { query, .. }) = entry.map(|entry| &entry.kind) else {
                    return;
                };
                // A leaf with clauses of its own stands in parentheses.
                let parentheses = !query.ctes.is_empty()
                    || !query.sort.is_empty()
                    || query.limit.is_some()
                    || query.offset.is_some()
                    || !query.row_marks.is_empty()
                    || query.set_operation.is_some();
                self.optional_parentheses(parentheses, |this| this.query(query, columns));
            }
            SetOperation::Node { operation, all, left, right, .. } => {
                let same = |side: &SetOperation| matches!(side, SetOperation::Node { operation: inner, all: inner_all, .. } if inner == operation && inner_all == all);
                let nested_left = matches!(**left, SetOperation::Node { .. }) && !same(left);
                self.optional_parentheses(nested_left, |this| this.set_operation(query, left, columns));
                if nested_left {
                    self.push(" ");
                } else {
                    self.new_line(0);
                }
                self.push(match operation {
                    SetOperator::Union => "UNION ",
                    SetOperator::Intersect => "INTERSECT ",
                    SetOperator::Except => "EXCEPT ",
                });
                if *all {
                    self.push("ALL ");
                }
                let nested_right = matches!(**right, SetOperation::Node { .. });
                // The names of the result are those of the left side.
                let visible = std::mem::replace(&mut self.names_visible, false);
                if nested_right {
                    self.optional_parentheses(true, |this| this.set_operation(query, right, columns));
                } else {
                    self.new_line(1);
                    self.set_operation(query, right, columns);
                }
                self.names_visible = visible;
            }
        }
    }

    fn optional_parentheses(&mut self, parentheses: bool, body: impl FnOnce(&mut Self)) {
        if !parentheses {
            return body(self);
        }
        let outer = self.indent;
        self.push("(");
        self.indent += 8;
        self.new_line(1);
        body(self);
        self.indent = outer;
        self.new_line(0);
        self.push(")");
    }

    // Data-modifying statements, as they occur in WITH and in SQL functions' bodies.

    fn target_relation(&mut self, query: &'a Query) {
        let range = query.result_relation.unwrap_or_default();
        let Some(entry) = query.range_table.get(range) else { return };
        if let RangeTableKind::Relation { relation, .. } = &entry.kind {
            self.relation_name(relation);
            let alias = self.alias(range).unwrap_or_default();
            if alias != *relation.name {
                self.push(" AS ");
                self.identifier(&alias);
            }
        }
    }

    fn target_column(&self, query: &Query, resno: i16) -> String {
        let entry = query.result_relation.and_then(|range| query.range_table.get(range));
        let index = usize::try_from(resno).unwrap_or(0).checked_sub(1);
        let column = entry.zip(index).and_then(|(entry, index)| entry.columns.get(index));
        column.map_or_else(|| "???".to_owned(), |column| column.name.to_string())
    }

    fn insert(&mut self, query: &'a Query) {
        self.push("INSERT INTO ");
        self.target_relation(query);
        let written: Vec<&TargetEntry> = query.targets.iter().filter(|target| !target.junk).collect();
        if written.is_empty() {
            self.push(" DEFAULT VALUES");
        } else {
            self.push(" ");
            let names: Vec<String> =
                written.iter().map(|target| self.target_column(query, target.resno)).collect();
            self.column_list(names.iter().map(String::as_str));
            self.push(match query.overriding {
                Overriding::None => "",
                Overriding::SystemValue => " OVERRIDING SYSTEM VALUE",
                Overriding::UserValue => " OVERRIDING USER VALUE",
            });
            self.new_line(CLAUSE_INDENT);
            self.insert_source(query, &written);
        }
        if let Some(conflict) = &query.on_conflict {
            self.on_conflict(query, conflict);
        }
        self.returning(query);
    }

    fn insert_source(&mut self, query: &'a Query, written: &[&'a TargetEntry]) {
        let source = query.from.iter().find_map(|item| match item {
            JoinTree::Range(range) => query.range_table.get(*range),
            JoinTree::Join { .. } => None,
        });
        match source.map(|entry| &entry.kind) {
            Some(RangeTableKind::Subquery { query, .. }) => self.query(query, None),
            Some(RangeTableKind::Values { rows }) => self.values_rows(rows),
            _ => {
                self.push("VALUES (");
                for (index, target) in written.iter().enumerate() {
                    if index > 0 {
                        self.push(", ");
                    }
                    self.expr(&target.expr, None);
                }
                self.push(")");
            }
        }
    }

    fn on_conflict(&mut self, query: &'a Query, conflict: &'a OnConflict) {
        self.push(" ON CONFLICT");
        let constraint = conflict
            .arbiters
            .iter()
            .chain(conflict.partial.iter().flat_map(|partial| &partial.indexes))
            .next()
            .and_then(|arbiter| self.catalog.index(*arbiter))
            .map(|index| index.name.clone());
        if let Some(name) = constraint {
            self.push(" ON CONSTRAINT ");
            self.identifier(&name);
        }
        let Some(update) = &conflict.update else { return self.push(" DO NOTHING") };
        self.push(" DO UPDATE SET ");
        self.assignments(query, &update.targets);
        if let Some(filter) = &update.filter {
            self.clause("WHERE ");
            self.expr(filter, None);
        }
    }

    fn assignments(&mut self, query: &'a Query, targets: &'a [TargetEntry]) {
        for (index, target) in targets.iter().filter(|target| !target.junk).enumerate() {
            if index > 0 {
                self.push(", ");
            }
            let name = self.target_column(query, target.resno);
            self.identifier(&name);
            self.push(" = ");
            self.expr(&target.expr, None);
        }
    }

    fn update(&mut self, query: &'a Query) {
        self.push("UPDATE ");
        self.target_relation(query);
        self.push(" SET ");
        self.assignments(query, &query.targets);
        self.other_tables(query, "FROM ");
        self.returning(query);
    }

    fn delete(&mut self, query: &'a Query) {
        self.push("DELETE FROM ");
        self.target_relation(query);
        self.other_tables(query, "USING ");
        self.returning(query);
    }

    /// FROM without the target itself, and WHERE.
    fn other_tables(&mut self, query: &'a Query, word: &str) {
        let target = query.result_relation;
        let mut first = true;
        for item in &query.from {
            if matches!(item, JoinTree::Range(range) if Some(*range) == target) {
                continue;
            }
            if first {
                self.clause(word);
            } else {
                self.push(", ");
            }
            first = false;
            self.from_item(item);
        }
        if let Some(filter) = &query.filter {
            self.clause("WHERE ");
            self.expr(filter, None);
        }
    }

    fn returning(&mut self, query: &'a Query) {
        if !query.returning.is_empty() {
            self.clause("RETURNING ");
            self.targets(&query.returning, None);
        }
    }
}

fn live_columns(entry: &RangeTableEntry) -> Vec<String> {
    entry
        .columns
        .iter()
        .filter(|column| !column.name.is_empty())
        .map(|column| column.name.to_string())
        .collect()
}

fn is_record_function(function: &RangeFunction) -> bool {
    !function.column_types.is_empty()
        && matches!(&function.call, Expr::Function(call) if call.ty.oid == cairn_types::types::RECORD)
}

/// PostgreSQL right-aligns the clauses' words a little: `FROM` two columns in, `WHERE` one.
fn clause_indent(word: &str) -> usize {
    match word.trim_end() {
        "FROM" | "USING" => 3,
        "WHERE" => 2,
        "GROUP BY" | "GROUP BY GROUPING SETS (" => 2,
        "HAVING" => 1,
        "WINDOW" => 2,
        "ORDER BY" => 2,
        "LIMIT" | "OFFSET" | "FETCH FIRST" => 1,
        _ => 1,
    }
}

/// An expression as it was written where the clause itself asks for a type.
pub fn without_implicit_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Function(call) if call.form == CallForm::ImplicitCast => {
            call.args.first().map_or(expr, without_implicit_casts)
        }
        Expr::Relabel { arg, form: CallForm::ImplicitCast, .. }
        | Expr::CoerceViaIo { arg, form: CallForm::ImplicitCast, .. }
        | Expr::ArrayCoerce { arg, form: CallForm::ImplicitCast, .. }
        | Expr::CoerceToDomain { arg, form: CallForm::ImplicitCast, .. } => without_implicit_casts(arg),
        _ => expr,
    }
}
