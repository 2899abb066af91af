//! FROM: the range table, the join tree, and the names that each item brings into scope.

use std::sync::Arc;

use cairn_catalog::{Relation, RelationKind, TypeRef};
use cairn_types::{Error, Oid, Result, Text, err, types};
use pg_query::protobuf::{self, Node, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind, expr_location, expr_type,
    names::{inner, inner_box, string_value},
    scope::{NamespaceColumn, NamespaceItem, attribute_number},
};
use crate::query::*;

/// A FROM item after analysis: its place in the join tree and what it makes visible.
struct FromItem {
    tree: JoinTree,
    /// The item's own names, as they are if it stands alone.
    namespace: Vec<NamespaceItem>,
    /// All columns, for a join above.
    columns: Vec<NamespaceColumn>,
}

impl Analyzer<'_> {
    /// Analyzes a FROM list into the level's scope; gives the join tree.
    pub(crate) fn analyze_from(&mut self, items: &[Node]) -> Result<Vec<JoinTree>> {
        // For the items to the right, names are there only LATERALly until FROM is done.
        let trees = self.analyze_from_beside(items)?;
        for name in &mut self.level().namespace {
            name.lateral_only = false;
            name.lateral_ok = true;
        }
        Ok(trees)
    }

    /// [`Self::from_clause`] beside items that are in scope already and keep what LATERAL may see of them.
    pub(crate) fn analyze_from_beside(&mut self, items: &[Node]) -> Result<Vec<JoinTree>> {
        let mut trees = Vec::with_capacity(items.len());
        for node in items {
            let item = self.analyze_from_item(inner(node)?)?;
            self.check_conflicts(&item.namespace)?;
            for name in item.namespace {
                self.level().namespace.push(NamespaceItem { lateral_only: true, lateral_ok: true, ..name });
            }
            trees.push(item.tree);
        }
        Ok(trees)
    }

    /// Two items of one name at one level. Errors: 42712.
    pub(crate) fn check_conflicts(&self, added: &[NamespaceItem]) -> Result<()> {
        let level = self.level_ref();
        let conflict = |a: &NamespaceItem, b: &NamespaceItem| {
            a.relation_visible && b.relation_visible && a.alias == b.alias && !a.alias.is_empty()
        };
        let plain = |item: &NamespaceItem| match &level.range_table[item.entry].kind {
            RangeTableKind::Relation { relation, .. }
                if level.range_table[item.entry].alias == relation.name =>
            {
                Some(relation.oid)
            }
            _ => None,
        };
        for (index, item) in added.iter().enumerate() {
            for other in level.namespace.iter().chain(&added[..index]) {
                if conflict(item, other) {
                    // Two tables of the same name in different schemas are told apart by their schemas.
                    if let (Some(a), Some(b)) = (plain(item), plain(other))
                        && a != b
                    {
                        continue;
                    }
                    return Err(err!(
                        DUPLICATE_ALIAS,
                        "table name \"{}\" specified more than once",
                        item.alias
                    ));
                }
            }
        }
        Ok(())
    }

    fn analyze_from_item(&mut self, node: &NodeEnum) -> Result<FromItem> {
        self.enter()?;
        let result = stacker::maybe_grow(256 << 10, 4 << 20, || match node {
            NodeEnum::RangeVar(range) => self.range_var(range),
            NodeEnum::RangeSubselect(subselect) => self.range_subselect(subselect),
            NodeEnum::RangeFunction(function) => self.range_function(function),
            NodeEnum::JoinExpr(join) => self.join(join),
            NodeEnum::RangeTableSample(sample) => self.table_sample(sample),
            NodeEnum::RangeTableFunc(func) => Err(Error::unsupported("XMLTABLE is").at(func.location)),
            NodeEnum::JsonTable(table) => Err(self.after_15("JSON_TABLE", table.location)),
            _ => Err(Error::internal("unrecognized FROM item")),
        });
        self.leave();
        result
    }

    fn add_entry(&mut self, entry: RangeTableEntry) -> usize {
        let level = self.level();
        level.range_table.push(entry);
        level.range_table.len() - 1
    }

    fn simple_item(&mut self, index: usize) -> FromItem {
        let alias = self.level_ref().range_table[index].alias.clone();
        let item = NamespaceItem::whole(index, alias);
        FromItem { tree: JoinTree::Range(index), namespace: vec![item], columns: Vec::new() }
    }

    /// The columns a join above an item sees; dropped ones left out.
    fn columns_of(&self, item: &FromItem) -> Vec<NamespaceColumn> {
        if !item.columns.is_empty() {
            return item.columns.clone();
        }
        item.namespace.first().map_or_else(Vec::new, |name| self.item_columns(name, 0))
    }

    // ----- Tables, views, WITH queries

    fn range_var(&mut self, range: &protobuf::RangeVar) -> Result<FromItem> {
        let alias = range.alias.as_ref();
        if range.schemaname.is_empty()
            && let Some(entry) = self.cte_reference(range)?
        {
            let index = self.add_entry(entry);
            return Ok(self.simple_item(index));
        }
        let relation = self.open_relation(range)?;
        let name = alias.map(|alias| Text::from(alias.aliasname.as_str()));
        let mut entry = match relation.kind {
            RelationKind::View => self.view_entry(&relation, name, range.location)?,
            _ => self.relation_entry(relation, name, true),
        };
        if let Some(alias) = alias {
            rename_columns(&mut entry, &alias.colnames)?;
        }
        let index = self.add_entry(entry);
        Ok(self.simple_item(index))
    }

    /// Finds a relation that rows can be read from. Errors: 42P01, 42809.
    pub(crate) fn open_relation(&mut self, range: &protobuf::RangeVar) -> Result<Arc<Relation>> {
        let relation = self.find_relation(range)?;
        let what = match relation.kind {
            RelationKind::Index => Some("an index"),
            RelationKind::CompositeType => Some("a composite type"),
            _ => None,
        };
        if let Some(_what) = what {
            let detail = match relation.kind {
                RelationKind::Index => "This operation is not supported for indexes.",
                _ => "This operation is not supported for composite types.",
            };
            return Err(err!(WRONG_OBJECT_TYPE, "cannot open relation \"{}\"", relation.name)
                .detail(detail)
                .at(range.location));
        }
        Ok(relation)
    }

    pub(crate) fn find_relation(&self, range: &protobuf::RangeVar) -> Result<Arc<Relation>> {
        if !range.catalogname.is_empty() && *range.catalogname != *self.context.env.current_database() {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "cross-database references are not implemented: \"{}.{}.{}\"",
                range.catalogname,
                range.schemaname,
                range.relname
            )
            .at(range.location));
        }
        if range.schemaname.is_empty() {
            if let Some(relation) = self.lookup.relation_by_name(&range.relname) {
                return Ok(relation);
            }
            // A WITH query that is there, but not yet: say so.
            if self.levels().iter().any(|level| level.ctes.iter().any(|cte| *cte.cte.name == *range.relname))
            {
                return Err(err!(UNDEFINED_TABLE, "relation \"{}\" does not exist", range.relname)
                    .detail(format!(
                        "There is a WITH item named \"{}\", but it cannot be referenced from this part of the query.",
                        range.relname
                    ))
                    .hint("Use WITH RECURSIVE, or re-order the WITH items to remove forward references.")
                    .at(range.location));
            }
            return Err(
                err!(UNDEFINED_TABLE, "relation \"{}\" does not exist", range.relname).at(range.location)
            );
        }
        self.lookup.check_schema(&range.schemaname).map_err(|error| error.at(range.location))?;
        self.lookup.relation_in_schema(&range.schemaname, &range.relname).ok_or_else(|| {
            err!(UNDEFINED_TABLE, "relation \"{}.{}\" does not exist", range.schemaname, range.relname)
                .at(range.location)
        })
    }

    fn table_sample(&mut self, sample: &protobuf::RangeTableSample) -> Result<FromItem> {
        let item = self.analyze_from_item(inner_box(&sample.relation)?)?;
        let JoinTree::Range(index) = item.tree else {
            return Err(Error::internal("TABLESAMPLE of a join"));
        };
        let method: Text = sample.method.last().map_or("", string_value).into();
        if !matches!(&*method, "system" | "bernoulli") {
            return Err(
                err!(UNDEFINED_OBJECT, "tablesample method {method} does not exist").at(sample.location)
            );
        }
        if sample.args.len() != 1 {
            return Err(err!(
                SYNTAX_ERROR,
                "tablesample method {method} requires 1 argument, not {}",
                sample.args.len()
            )
            .at(sample.location));
        }
        let mut args = Vec::new();
        for arg in &sample.args {
            let arg = self.expression_of_kind(Some(arg), ExprKind::FromFunction)?;
            args.push(self.coerce_to_specific(arg, types::FLOAT4, "TABLESAMPLE")?);
        }
        let repeatable = match &sample.repeatable {
            Some(seed) => {
                let seed = self.expression_of_kind(Some(seed), ExprKind::FromFunction)?;
                Some(self.coerce_to_specific(seed, types::FLOAT8, "REPEATABLE")?)
            }
            None => None,
        };
        match &mut self.level().range_table[index].kind {
            RangeTableKind::Relation { relation, sample }
                if matches!(
                    relation.kind,
                    RelationKind::Table | RelationKind::MaterializedView | RelationKind::PartitionedTable
                ) =>
            {
                *sample = Some(TableSample { method, args, repeatable });
            }
            _ => {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "TABLESAMPLE clause can only be applied to tables and materialized views"
                )
                .at(sample.location));
            }
        }
        Ok(item)
    }

    // ----- Subqueries

    fn range_subselect(&mut self, subselect: &protobuf::RangeSubselect) -> Result<FromItem> {
        let Some(alias) = &subselect.alias else {
            let location = subselect_location(&subselect.subquery);
            let (what, example) = match inner_box(&subselect.subquery)? {
                NodeEnum::SelectStmt(select) if !select.values_lists.is_empty() => {
                    ("VALUES in FROM must have an alias", "For example, FROM (VALUES ...) [AS] foo.")
                }
                _ => ("subquery in FROM must have an alias", "For example, FROM (SELECT ...) [AS] foo."),
            };
            return Err(err!(SYNTAX_ERROR, "{what}").hint(example).at(location));
        };
        let before = std::mem::replace(&mut self.level().lateral_active, subselect.lateral);
        let query = self.subquery(inner_box(&subselect.subquery)?, false, true);
        self.level().lateral_active = before;
        let query = query?;
        let mut entry = RangeTableEntry {
            alias: alias.aliasname.as_str().into(),
            columns: query_columns(&query),
            kind: RangeTableKind::Subquery { query: Box::new(query), view: None },
            lateral: subselect.lateral,
            in_from: true,
        };
        rename_columns(&mut entry, &alias.colnames)?;
        let index = self.add_entry(entry);
        Ok(self.simple_item(index))
    }

    // ----- Functions

    fn range_function(&mut self, range: &protobuf::RangeFunction) -> Result<FromItem> {
        let lateral_before = std::mem::replace(&mut self.level().lateral_active, true);
        let result = self.range_function_entry(range);
        self.level().lateral_active = lateral_before;
        let entry = result?;
        let index = self.add_entry(entry);
        Ok(self.simple_item(index))
    }

    fn range_function_entry(&mut self, range: &protobuf::RangeFunction) -> Result<RangeTableEntry> {
        let mut calls: Vec<(Expr, String, Vec<Node>)> = Vec::new();
        for item in &range.functions {
            let NodeEnum::List(pair) = inner(item)? else {
                return Err(Error::internal("unrecognized function in FROM"));
            };
            let node = pair.items.first().ok_or_else(|| Error::internal("empty function in FROM"))?;
            let definitions = match pair.items.get(1).and_then(|node| node.node.as_ref()) {
                Some(NodeEnum::List(list)) => list.items.clone(),
                _ => Vec::new(),
            };
            // unnest(a, b) is ROWS FROM(unnest(a), unnest(b)).
            if let NodeEnum::FuncCall(call) = inner(node)?
                && call.args.len() > 1
                && !call.agg_star
                && !call.func_variadic
                && call.funcname.len() == 1
                && string_value(&call.funcname[0]) == "unnest"
                && definitions.is_empty()
                && range.coldeflist.is_empty()
            {
                for arg in &call.args {
                    let single = protobuf::FuncCall { args: vec![arg.clone()], ..(**call).clone() };
                    let expr =
                        self.expression(&NodeEnum::FuncCall(Box::new(single)), ExprKind::FromFunction)?;
                    calls.push((expr, "unnest".to_owned(), Vec::new()));
                }
                continue;
            }
            let name = figure_column_name(inner(node)?).unwrap_or_else(|| "?column?".to_owned());
            let expr = self.expression_of_kind(Some(node), ExprKind::FromFunction)?;
            calls.push((expr, name, definitions));
        }
        if !range.coldeflist.is_empty() {
            if calls.len() != 1 {
                let location = column_definition_location(&range.coldeflist);
                let error = if range.is_rowsfrom {
                    err!(
                        SYNTAX_ERROR,
                        "ROWS FROM() with multiple functions cannot have a column definition list"
                    )
                    .hint("Put a separate column definition list for each function inside ROWS FROM().")
                } else {
                    err!(SYNTAX_ERROR, "UNNEST() with multiple arguments cannot have a column definition list")
                        .hint("Use separate UNNEST() calls inside ROWS FROM(), and attach a column definition list to each one.")
                };
                return Err(error.at(location));
            }
            if range.ordinality {
                return Err(err!(
                    SYNTAX_ERROR,
                    "WITH ORDINALITY cannot be used with a column definition list"
                )
                .hint("Put the column definition list inside ROWS FROM().")
                .at(column_definition_location(&range.coldeflist)));
            }
            calls[0].2 = range.coldeflist.clone();
        }
        let alias_name = range.alias.as_ref().map(|alias| alias.aliasname.clone());
        let single = calls.len() == 1;
        let entry_name = alias_name
            .clone()
            .unwrap_or_else(|| calls.first().map_or_else(String::new, |call| call.1.clone()));
        let mut functions = Vec::with_capacity(calls.len());
        let mut columns: Vec<RangeColumn> = Vec::new();
        for (mut call, name, definitions) in calls {
            let location = expr_location(&call);
            self.assign_expression_collations(&mut call)?;
            let ty = expr_type(&call);
            let base = self.lookup.base_type(ty.oid);
            let described = self.record_columns(&call);
            let is_record = base == types::RECORD;
            if !definitions.is_empty() {
                match (&described, is_record) {
                    (Some(_), true) => {
                        return Err(err!(
                            SYNTAX_ERROR,
                            "a column definition list is redundant for a function with OUT parameters"
                        )
                        .at(column_definition_location(&definitions)));
                    }
                    (Some(_), false) => {
                        return Err(err!(
                            SYNTAX_ERROR,
                            "a column definition list is redundant for a function returning a named composite type"
                        )
                        .at(column_definition_location(&definitions)));
                    }
                    (None, false) => {
                        return Err(err!(
                            SYNTAX_ERROR,
                            "a column definition list is only allowed for functions returning \"record\""
                        )
                        .at(column_definition_location(&definitions)));
                    }
                    (None, true) => {}
                }
            } else if is_record && described.is_none() {
                return Err(err!(
                    SYNTAX_ERROR,
                    "a column definition list is required for functions returning \"record\""
                )
                .at(location));
            }
            let mut given: Vec<RangeColumn>;
            let mut composite = true;
            if let Some(described) = described {
                given = described;
            } else if is_record {
                given = Vec::with_capacity(definitions.len());
                for definition in &definitions {
                    let NodeEnum::ColumnDef(definition) = inner(definition)? else {
                        return Err(Error::internal("unrecognized column definition"));
                    };
                    let type_name = definition
                        .type_name
                        .as_ref()
                        .ok_or_else(|| Error::internal("column without a type"))?;
                    if type_name.setof {
                        return Err(err!(
                            INVALID_TABLE_DEFINITION,
                            "column \"{}\" cannot be declared SETOF",
                            definition.colname
                        )
                        .at(definition.location));
                    }
                    let (oid, typmod) = self.resolve_type(type_name)?;
                    let mut ty = TypeRef { typmod, ..self.lookup.type_ref(oid) };
                    if let Some(collation) = &definition.coll_clause {
                        ty.collation = self.collation_by_name(&collation.collname)?;
                    }
                    if given.iter().any(|column: &RangeColumn| *column.name == *definition.colname) {
                        return Err(err!(
                            DUPLICATE_COLUMN,
                            "column name \"{}\" specified more than once",
                            definition.colname
                        )
                        .at(definition.location));
                    }
                    given.push(RangeColumn { name: definition.colname.as_str().into(), ty });
                }
            } else {
                composite = false;
                // A scalar's only column is named by the alias, a parameter's name, or the function.
                let column_name = match &alias_name {
                    Some(alias) if single => alias.clone(),
                    _ => match &call {
                        Expr::Function(function) => self
                            .lookup
                            .proc(function.function)
                            .ok()
                            .and_then(|proc| only_output_name(proc))
                            .unwrap_or(name),
                        _ => name,
                    },
                };
                let column_name = match &call {
                    Expr::Function(function) if single => self
                        .lookup
                        .proc(function.function)
                        .ok()
                        .and_then(|proc| only_output_name(proc))
                        .unwrap_or(column_name),
                    _ => column_name,
                };
                given = vec![RangeColumn { name: column_name.into(), ty }];
                if ty.oid == types::VOID {
                    composite = false;
                }
            }
            functions.push(RangeFunction {
                call,
                column_count: given.len(),
                column_types: if composite {
                    given.iter().map(|column| column.ty).collect()
                } else {
                    Vec::new()
                },
            });
            columns.append(&mut given);
        }
        if range.ordinality {
            columns.push(RangeColumn { name: "ordinality".into(), ty: self.lookup.type_ref(types::INT8) });
        }
        if columns.len() > 1664 {
            return Err(err!(TOO_MANY_COLUMNS, "functions in FROM can return at most {} columns", 1664));
        }
        let mut entry = RangeTableEntry {
            alias: entry_name.into(),
            columns,
            kind: RangeTableKind::Function { functions, ordinality: range.ordinality },
            lateral: range.lateral,
            in_from: true,
        };
        // A function in FROM is LATERAL where it uses what is to its left.
        if !entry.lateral {
            let mut uses = false;
            if let RangeTableKind::Function { functions, .. } = &entry.kind {
                for function in functions {
                    crate::walk::deep(&function.call, 0, &mut |expr, level| {
                        uses |= matches!(expr, Expr::Var(var) if var.levels_up == level);
                    });
                }
            }
            entry.lateral = uses;
        }
        if let Some(alias) = &range.alias {
            rename_columns(&mut entry, &alias.colnames)?;
        }
        Ok(entry)
    }

    // ----- Joins

    fn join(&mut self, join: &protobuf::JoinExpr) -> Result<FromItem> {
        let kind = match protobuf::JoinType::try_from(join.jointype) {
            Ok(protobuf::JoinType::JoinInner) => JoinKind::Inner,
            Ok(protobuf::JoinType::JoinLeft) => JoinKind::Left,
            Ok(protobuf::JoinType::JoinRight) => JoinKind::Right,
            Ok(protobuf::JoinType::JoinFull) => JoinKind::Full,
            _ => return Err(Error::internal("unrecognized join type")),
        };
        let scope_before = self.level_ref().namespace.len();
        let outer = |side: bool| usize::from(side);
        self.level().outer_join_depth += outer(matches!(kind, JoinKind::Right | JoinKind::Full));
        let left = self.analyze_from_item(inner_box(&join.larg)?);
        self.level().outer_join_depth -= outer(matches!(kind, JoinKind::Right | JoinKind::Full));
        let left = left?;
        // The right side sees the left one LATERALly, legally so only for an inner or left join.
        let lateral_ok = matches!(kind, JoinKind::Inner | JoinKind::Left);
        for item in &left.namespace {
            self.level().namespace.push(NamespaceItem { lateral_only: true, lateral_ok, ..item.clone() });
        }
        self.level().outer_join_depth += outer(matches!(kind, JoinKind::Left | JoinKind::Full));
        let right = self.analyze_from_item(inner_box(&join.rarg)?);
        self.level().outer_join_depth -= outer(matches!(kind, JoinKind::Left | JoinKind::Full));
        let right = right?;
        self.level().namespace.truncate(scope_before);
        // The two sides must not have a name in common.
        for item in &left.namespace {
            self.level().namespace.push(item.clone());
        }
        let conflict = self.check_conflicts_from(&right.namespace, scope_before);
        self.level().namespace.truncate(scope_before);
        conflict?;

        let left_columns = self.columns_of(&left);
        let right_columns = self.columns_of(&right);
        let mut using: Vec<Text> = Vec::new();
        if join.is_natural {
            for column in &left_columns {
                if right_columns.iter().any(|other| other.name == column.name)
                    && !using.contains(&column.name)
                {
                    using.push(column.name.clone());
                }
            }
        } else {
            for name in &join.using_clause {
                let name: Text = string_value(name).into();
                if using.contains(&name) {
                    return Err(err!(
                        DUPLICATE_COLUMN,
                        "column name \"{name}\" appears more than once in USING clause"
                    ));
                }
                using.push(name);
            }
        }
        let mut joined: Vec<NamespaceColumn> = Vec::with_capacity(left_columns.len() + right_columns.len());
        let mut expressions: Vec<Expr> = Vec::with_capacity(joined.capacity());
        let mut condition = None;
        let join_index = self.level_ref().range_table.len();
        if !using.is_empty() {
            let mut tests = Vec::with_capacity(using.len());
            for name in &using {
                let left_column = using_column(&left_columns, name, "left")?;
                let right_column = using_column(&right_columns, name, "right")?;
                let equal = super::QualifiedName::operator("=");
                let test = self.make_operator(&equal, Some(left_column.var()), right_column.var(), -1)?;
                tests.push(self.coerce_to_boolean(test, "JOIN/USING")?);
                let merged = self.merge_column(kind, left_column, right_column)?;
                let index = joined.len();
                joined.push(match &merged {
                    Expr::Var(var) => {
                        NamespaceColumn { name: name.clone(), varno: var.varno, attno: var.attno, ty: var.ty }
                    }
                    other => NamespaceColumn {
                        name: name.clone(),
                        varno: join_index,
                        attno: attribute_number(index)?,
                        ty: expr_type(other),
                    },
                });
                expressions.push(merged);
            }
            condition = Some(if tests.len() == 1 { tests.swap_remove(0) } else { Expr::And(tests) });
        }
        for column in left_columns.iter().chain(&right_columns) {
            if using.contains(&column.name) {
                continue;
            }
            joined.push(column.clone());
            expressions.push(column.var());
        }
        if let Some(quals) = &join.quals {
            // ON sees both sides, and nothing else of this level.
            let outside: Vec<NamespaceItem> = self.level().namespace.drain(..).collect();
            let level = self.level();
            level.namespace.extend(left.namespace.iter().cloned());
            level.namespace.extend(right.namespace.iter().cloned());
            for item in &mut level.namespace {
                item.lateral_only = false;
            }
            let result = self.condition(quals, ExprKind::JoinOn, "JOIN/ON");
            self.level().namespace = outside;
            condition = Some(result?);
        }

        let alias = join.alias.as_ref();
        let columns: Vec<RangeColumn> =
            joined.iter().map(|column| RangeColumn { name: column.name.clone(), ty: column.ty }).collect();
        let mut entry = RangeTableEntry {
            alias: alias.map_or_else(|| Text::from("unnamed_join"), |alias| alias.aliasname.as_str().into()),
            columns,
            kind: RangeTableKind::Join {
                kind,
                left: tree_index(&left.tree),
                right: tree_index(&right.tree),
                using: using.clone(),
                columns: expressions,
            },
            lateral: false,
            in_from: true,
        };
        if let Some(alias) = alias {
            rename_columns(&mut entry, &alias.colnames)?;
            for (column, renamed) in joined.iter_mut().zip(&entry.columns) {
                column.name = renamed.name.clone();
            }
        }
        let index = self.add_entry(entry);
        let all: Arc<[NamespaceColumn]> = joined.clone().into();
        let mut namespace = Vec::new();
        if alias.is_none() {
            // The joined tables keep their names, but their columns are found through the join.
            for mut item in left.namespace.into_iter().chain(right.namespace) {
                item.columns_visible = false;
                namespace.push(item);
            }
            if let Some(using_alias) = &join.join_using_alias {
                let merged: Vec<NamespaceColumn> = joined[..using.len()].to_vec();
                namespace.push(NamespaceItem {
                    entry: index,
                    alias: using_alias.aliasname.as_str().into(),
                    columns: Some(merged.into()),
                    relation_visible: true,
                    columns_visible: false,
                    lateral_only: false,
                    lateral_ok: true,
                });
            }
        }
        namespace.push(NamespaceItem {
            entry: index,
            alias: alias.map_or_else(Text::default, |alias| alias.aliasname.as_str().into()),
            columns: Some(all),
            relation_visible: alias.is_some(),
            columns_visible: true,
            lateral_only: false,
            lateral_ok: true,
        });
        Ok(FromItem {
            tree: JoinTree::Join {
                kind,
                left: Box::new(left.tree),
                right: Box::new(right.tree),
                condition,
                range: index,
            },
            namespace,
            columns: joined,
        })
    }

    fn check_conflicts_from(&mut self, added: &[NamespaceItem], from: usize) -> Result<()> {
        let outside: Vec<NamespaceItem> = self.level().namespace.drain(..from).collect();
        let result = self.check_conflicts(added);
        let inside = std::mem::take(&mut self.level().namespace);
        let level = self.level();
        level.namespace = outside;
        level.namespace.extend(inside);
        result
    }

    /// The one column that USING makes of two.
    fn merge_column(
        &mut self,
        kind: JoinKind,
        left: &NamespaceColumn,
        right: &NamespaceColumn,
    ) -> Result<Expr> {
        let (l, r) = (left.var(), right.var());
        let common = self.select_common_type(&[&l, &r], Some("JOIN/USING"))?.unwrap_or(types::TEXT);
        let typmod = self.select_common_typmod(&[&l, &r], common);
        let l = self.merge_side(l, common, typmod)?;
        let r = self.merge_side(r, common, typmod)?;
        Ok(match kind {
            JoinKind::Inner => {
                if matches!(l, Expr::Var(_)) || !matches!(r, Expr::Var(_)) {
                    l
                } else {
                    r
                }
            }
            JoinKind::Left => l,
            JoinKind::Right => r,
            JoinKind::Full => {
                let ty = TypeRef { typmod, ..self.lookup.type_ref(common) };
                Expr::Coalesce { args: vec![l, r], ty, location: -1 }
            }
        })
    }

    fn merge_side(&mut self, side: Expr, common: Oid, typmod: i32) -> Result<Expr> {
        let ty = expr_type(&side);
        if ty.oid != common {
            return self.coerce_to_common(side, common, "JOIN/USING");
        }
        if ty.typmod != typmod {
            return Ok(self.relabel(side, common, typmod, CallForm::ImplicitCast, -1));
        }
        Ok(side)
    }
}

impl NamespaceColumn {
    fn var(&self) -> Expr {
        Expr::Var(Var { varno: self.varno, attno: self.attno, levels_up: 0, ty: self.ty, location: -1 })
    }
}

fn using_column<'c>(columns: &'c [NamespaceColumn], name: &str, side: &str) -> Result<&'c NamespaceColumn> {
    let mut matching = columns.iter().filter(|column| *column.name == *name);
    match (matching.next(), matching.next()) {
        (None, _) => Err(err!(
            UNDEFINED_COLUMN,
            "column \"{name}\" specified in USING clause does not exist in {side} table"
        )),
        (Some(_), Some(_)) => Err(err!(
            AMBIGUOUS_COLUMN,
            "common column name \"{name}\" appears more than once in {side} table"
        )),
        (Some(column), None) => Ok(column),
    }
}

/// The range table entry that a part of the join tree stands for.
fn tree_index(tree: &JoinTree) -> usize {
    match tree {
        JoinTree::Range(index) => *index,
        JoinTree::Join { range, .. } => *range,
    }
}

/// `t (a, b)`: the first columns get new names. Errors: 42P10.
pub(crate) fn rename_columns(entry: &mut RangeTableEntry, names: &[Node]) -> Result<()> {
    let available = entry.columns.iter().filter(|column| !column.name.is_empty()).count();
    if names.len() > available {
        return Err(err!(
            INVALID_COLUMN_REFERENCE,
            "table \"{}\" has {available} columns available but {} columns specified",
            entry.alias,
            names.len()
        ));
    }
    let visible = entry.columns.iter_mut().filter(|column| !column.name.is_empty());
    for (column, name) in visible.zip(names) {
        column.name = string_value(name).into();
    }
    Ok(())
}

/// Output columns of a query.
pub(crate) fn query_columns(query: &Query) -> Vec<RangeColumn> {
    query
        .output()
        .iter()
        .filter(|target| !target.junk)
        .map(|target| RangeColumn { name: target.name.clone(), ty: expr_type(&target.expr) })
        .collect()
}

/// The name of a function's only output parameter.
fn only_output_name(proc: &cairn_catalog::Proc) -> Option<String> {
    use cairn_catalog::ArgMode;
    let mut outputs = proc
        .arg_modes
        .iter()
        .enumerate()
        .filter(|(_, mode)| matches!(mode, ArgMode::Out | ArgMode::InOut | ArgMode::Table));
    match (outputs.next(), outputs.next()) {
        (Some((index, _)), None) => {
            proc.arg_names.get(index).filter(|name| !name.is_empty()).map(|name| name.to_string())
        }
        _ => None,
    }
}

fn column_definition_location(definitions: &[Node]) -> Location {
    match definitions.first().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::ColumnDef(definition)) => definition.location,
        _ => -1,
    }
}

fn subselect_location(_subquery: &Option<Box<Node>>) -> Location {
    -1
}

/// The name that a select list gives to an expression that has none written: the column's, function's or type's.
pub(crate) fn figure_column_name(node: &NodeEnum) -> Option<String> {
    let mut name = None;
    figure_name(node, &mut name);
    name
}

/// Returns how sure the name is: 0 none, 1 weak (a type's), 2 strong.
fn figure_name(node: &NodeEnum, name: &mut Option<String>) -> u8 {
    let boxed = |node: &Option<Box<Node>>, name: &mut Option<String>| -> u8 {
        node.as_ref().and_then(|node| node.node.as_ref()).map_or(0, |node| figure_name(node, name))
    };
    let mut set = |text: &str| -> u8 {
        *name = Some(text.to_owned());
        2
    };
    match node {
        NodeEnum::ColumnRef(column) => {
            let last = column.fields.iter().rev().find_map(|field| match &field.node {
                Some(NodeEnum::String(string)) => Some(string.sval.as_str()),
                _ => None,
            });
            last.map_or(0, set)
        }
        NodeEnum::AIndirection(indirection) => {
            let last = indirection.indirection.iter().rev().find_map(|step| match &step.node {
                Some(NodeEnum::String(string)) => Some(string.sval.as_str()),
                _ => None,
            });
            match last {
                Some(last) => set(last),
                None => boxed(&indirection.arg, name),
            }
        }
        NodeEnum::FuncCall(call) => call.funcname.last().map_or(0, |last| set(string_value(last))),
        NodeEnum::AExpr(expr) if expr.kind == protobuf::AExprKind::AexprNullif as i32 => set("nullif"),
        NodeEnum::TypeCast(cast) => {
            let strength = boxed(&cast.arg, name);
            if strength <= 1
                && let Some(last) = cast.type_name.as_ref().and_then(|type_name| type_name.names.last())
            {
                *name = Some(string_value(last).to_owned());
                return 1;
            }
            strength
        }
        NodeEnum::CollateClause(collate) => boxed(&collate.arg, name),
        NodeEnum::GroupingFunc(_) => set("grouping"),
        NodeEnum::MergeSupportFunc(_) => set("merge_action"),
        NodeEnum::SubLink(link) => match protobuf::SubLinkType::try_from(link.sub_link_type) {
            Ok(protobuf::SubLinkType::ExistsSublink) => set("exists"),
            Ok(protobuf::SubLinkType::ArraySublink) => set("array"),
            Ok(protobuf::SubLinkType::ExprSublink) => {
                // The subquery's only column.
                let Some(NodeEnum::SelectStmt(select)) =
                    link.subselect.as_ref().and_then(|node| node.node.as_ref())
                else {
                    return 0;
                };
                let mut select = select.as_ref();
                while let Some(left) = &select.larg {
                    select = left;
                }
                match select.target_list.first().and_then(|node| node.node.as_ref()) {
                    Some(NodeEnum::ResTarget(target)) if !target.name.is_empty() => set(&target.name),
                    Some(NodeEnum::ResTarget(target)) => boxed(&target.val, name),
                    _ => 0,
                }
            }
            _ => 0,
        },
        NodeEnum::CaseExpr(case) => {
            let strength = boxed(&case.defresult, name);
            if strength <= 1 {
                *name = Some("case".to_owned());
                return 1;
            }
            strength
        }
        NodeEnum::AArrayExpr(_) => set("array"),
        NodeEnum::RowExpr(_) => set("row"),
        NodeEnum::CoalesceExpr(_) => set("coalesce"),
        NodeEnum::MinMaxExpr(minmax) => {
            set(if minmax.op == protobuf::MinMaxOp::IsGreatest as i32 { "greatest" } else { "least" })
        }
        NodeEnum::SqlvalueFunction(function) => {
            use protobuf::SqlValueFunctionOp as Op;
            match Op::try_from(function.op).unwrap_or(Op::SqlvalueFunctionOpUndefined) {
                Op::SvfopCurrentDate => set("current_date"),
                Op::SvfopCurrentTime | Op::SvfopCurrentTimeN => set("current_time"),
                Op::SvfopCurrentTimestamp | Op::SvfopCurrentTimestampN => set("current_timestamp"),
                Op::SvfopLocaltime | Op::SvfopLocaltimeN => set("localtime"),
                Op::SvfopLocaltimestamp | Op::SvfopLocaltimestampN => set("localtimestamp"),
                Op::SvfopCurrentRole => set("current_role"),
                Op::SvfopCurrentUser => set("current_user"),
                Op::SvfopUser => set("user"),
                Op::SvfopSessionUser => set("session_user"),
                Op::SvfopCurrentCatalog => set("current_catalog"),
                Op::SvfopCurrentSchema => set("current_schema"),
                Op::SqlvalueFunctionOpUndefined => 0,
            }
        }
        _ => 0,
    }
}
