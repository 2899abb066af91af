//! INSERT: target columns, values with their defaults, identity and generated columns, ON CONFLICT.
//!
//! The target list that comes out holds one entry a column that gets a value, by attribute number: given values and
//! defaults. Columns without an entry get NULL; generated columns never have one, because the executor computes them
//! from the finished row.

use std::sync::Arc;

use cairn_catalog::{Column, Identity, IndexKeyColumn, Relation, RelationKind};
use cairn_types::{Error, Result, Text, err, types};
use pg_query::protobuf::{self, Node, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind, expr_location, expr_type, names::inner, scope::NamespaceItem, select::new_query,
};
use crate::{compare::same, query::*};

/// A column that INSERT names, with what follows its name.
struct TargetColumn {
    attno: i16,
    indirection: Vec<Node>,
    location: Location,
}

impl Analyzer<'_> {
    /// The table that a statement writes to. Errors: 42P01, 42809, 42501, 0A000.
    pub(crate) fn open_target(&mut self, range: &protobuf::RangeVar, verb: &str) -> Result<Arc<Relation>> {
        // A WITH query of the name is not meant, but would be surprising.
        if range.schemaname.is_empty()
            && self.levels().iter().any(|level| level.ctes.iter().any(|cte| *cte.cte.name == *range.relname))
            && self.lookup.relation_by_name(&range.relname).is_none()
        {
            return Err(err!(
                UNDEFINED_TABLE,
                "relation \"{}\" cannot be the target of a modifying statement",
                range.relname
            )
            .at(range.location));
        }
        let relation = self.open_relation(range)?;
        if self.context.catalog.is_system_catalog(&relation) {
            return Err(err!(
                INSUFFICIENT_PRIVILEGE,
                "permission denied: \"{}\" is a system catalog",
                relation.name
            ));
        }
        match relation.kind {
            RelationKind::Table | RelationKind::PartitionedTable => Ok(relation),
            RelationKind::Sequence => {
                Err(err!(WRONG_OBJECT_TYPE, "cannot change sequence \"{}\"", relation.name))
            }
            RelationKind::MaterializedView => {
                Err(err!(WRONG_OBJECT_TYPE, "cannot change materialized view \"{}\"", relation.name))
            }
            RelationKind::Toast => {
                Err(err!(WRONG_OBJECT_TYPE, "cannot change TOAST relation \"{}\"", relation.name))
            }
            _ => Err(Error::unsupported(format!("{verb} a view (\"{}\") is", relation.name))),
        }
    }

    /// Adds the target as the level's first entry; gives its index.
    pub(crate) fn add_target(
        &mut self,
        relation: Arc<Relation>,
        alias: Option<&protobuf::Alias>,
        in_from: bool,
    ) -> usize {
        let alias = alias.map(|alias| Text::from(alias.aliasname.as_str()));
        let entry = self.relation_entry(relation, alias, in_from);
        let level = self.level();
        level.range_table.push(entry);
        let index = level.range_table.len() - 1;
        level.target_relation = Some(index);
        index
    }

    pub(crate) fn insert_statement(&mut self, insert: &protobuf::InsertStmt) -> Result<Query> {
        let mut query = new_query(CommandType::Insert);
        if let Some(with) = &insert.with_clause {
            self.with_clause(with)?;
        }
        query.overriding = match protobuf::OverridingKind::try_from(insert.r#override) {
            Ok(protobuf::OverridingKind::OverridingSystemValue) => Overriding::SystemValue,
            Ok(protobuf::OverridingKind::OverridingUserValue) => Overriding::UserValue,
            _ => Overriding::None,
        };
        let range = insert.relation.as_ref().ok_or_else(|| Error::internal("INSERT without a table"))?;
        let relation = self.open_target(range, "inserting into")?;
        let target = self.add_target(relation.clone(), range.alias.as_ref(), false);
        query.result_relation = Some(target);
        let columns = self.insert_columns(&relation, &insert.cols)?;
        let explicit_columns = !insert.cols.is_empty();
        let source = insert.select_stmt.as_ref().and_then(|node| node.node.as_ref());
        match source {
            None => {}
            Some(NodeEnum::SelectStmt(select)) if is_single_values(select) => {
                let NodeEnum::List(list) = inner(&select.values_lists[0])? else {
                    return Err(Error::internal("VALUES without a list"));
                };
                self.level().allows_default = true;
                let values = self.value_list(&list.items, ExprKind::ValuesSingle);
                self.level().allows_default = false;
                let values = self.insert_row(&relation, &columns, values?, explicit_columns)?;
                for (column, value) in columns.iter().zip(values) {
                    self.push_insert_target(&mut query, &relation, column, value)?;
                }
            }
            Some(NodeEnum::SelectStmt(select)) if is_values(select) => {
                self.insert_values(&mut query, &relation, &columns, select, explicit_columns, target)?;
            }
            Some(other) => {
                self.insert_select(&mut query, &relation, &columns, other, explicit_columns)?;
            }
        }
        query.assigned = query.targets.iter().map(|target| target.resno).collect();
        self.complete_insert_targets(&mut query, &relation)?;
        if let Some(conflict) = &insert.on_conflict_clause {
            query.on_conflict = self.on_conflict(conflict, &relation, target)?;
        }
        if let Some(returning) = &insert.returning_clause {
            self.only_target_in_scope(target);
            query.returning = self.returning_list(returning)?;
        }
        self.finish_query(&mut query);
        self.take_range_table(&mut query);
        Ok(query)
    }

    fn only_target_in_scope(&mut self, target: usize) {
        let alias = self.level_ref().range_table[target].alias.clone();
        let level = self.level();
        level.namespace.clear();
        level.namespace.push(NamespaceItem::whole(target, alias));
    }

    pub(crate) fn returning_list(
        &mut self,
        returning: &protobuf::ReturningClause,
    ) -> Result<Vec<TargetEntry>> {
        if !returning.options.is_empty() {
            let location = match returning.options.first().and_then(|node| node.node.as_ref()) {
                Some(NodeEnum::ReturningOption(option)) => option.location,
                _ => -1,
            };
            return Err(self.after_15("WITH", location));
        }
        let mut targets = self.target_list(&returning.exprs, ExprKind::Returning)?;
        self.resolve_target_unknowns(&mut targets)?;
        Ok(targets)
    }

    fn insert_columns(&mut self, relation: &Relation, nodes: &[Node]) -> Result<Vec<TargetColumn>> {
        if nodes.is_empty() {
            return Ok(relation
                .columns
                .iter()
                .filter(|column| !column.dropped)
                .map(|column| TargetColumn { attno: column.attnum, indirection: Vec::new(), location: -1 })
                .collect());
        }
        let mut columns: Vec<TargetColumn> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let NodeEnum::ResTarget(target) = inner(node)? else {
                return Err(Error::internal("unrecognized INSERT column"));
            };
            let column = self.target_column(relation, &target.name, target.location)?;
            let attno = column.attnum;
            let known = columns.iter().any(|other| {
                other.attno == attno && (other.indirection.is_empty() || target.indirection.is_empty())
            });
            if known {
                return Err(err!(DUPLICATE_COLUMN, "column \"{}\" specified more than once", target.name)
                    .at(target.location));
            }
            columns.push(TargetColumn {
                attno,
                indirection: target.indirection.clone(),
                location: target.location,
            });
        }
        Ok(columns)
    }

    pub(crate) fn target_column<'r>(
        &self,
        relation: &'r Relation,
        name: &str,
        location: Location,
    ) -> Result<&'r Column> {
        if let Some(column) = relation.columns.iter().find(|column| !column.dropped && *column.name == *name)
        {
            return Ok(column);
        }
        if super::scope::system_column(name).is_some() {
            return Err(err!(FEATURE_NOT_SUPPORTED, "cannot assign to system column \"{name}\"").at(location));
        }
        Err(err!(UNDEFINED_COLUMN, "column \"{name}\" of relation \"{}\" does not exist", relation.name)
            .at(location))
    }

    /// Coerces one row's values to their columns. DEFAULT stays as it is.
    fn insert_row(
        &mut self,
        relation: &Relation,
        columns: &[TargetColumn],
        values: Vec<Expr>,
        explicit_columns: bool,
    ) -> Result<Vec<Expr>> {
        if values.len() > columns.len() {
            return Err(err!(SYNTAX_ERROR, "INSERT has more expressions than target columns")
                .at(expr_location(&values[columns.len()])));
        }
        if explicit_columns && values.len() < columns.len() {
            let error = err!(SYNTAX_ERROR, "INSERT has more target columns than expressions");
            let error = match values.as_slice() {
                [Expr::Row { .. }] => error.hint(
                    "The insertion source is a row expression containing the same number of columns expected by the \
                     INSERT. Did you accidentally use extra parentheses?",
                ),
                _ => error,
            };
            return Err(error.at(columns[values.len()].location));
        }
        let mut coerced: Vec<Expr> = Vec::with_capacity(values.len());
        for (index, (column, value)) in columns.iter().zip(values).enumerate() {
            // Two parts of one column: the later one is put into the earlier one's result.
            let earlier = columns[..index].iter().rposition(|earlier| earlier.attno == column.attno);
            let current = earlier.map(|earlier| coerced[earlier].clone());
            coerced.push(self.assigned(
                relation,
                column.attno,
                &column.indirection,
                value,
                current,
                column.location,
            )?);
        }
        Ok(coerced)
    }

    /// The value that an assignment gives its column: `column[1].field = value` rebuilds the column around the value.
    /// `current` is what the column has so far: its present value (UPDATE), or the result of an earlier assignment to
    /// another part of it; INSERT starts from NULL.
    pub(crate) fn assigned(
        &mut self,
        relation: &Relation,
        attno: i16,
        indirection: &[Node],
        value: Expr,
        current: Option<Expr>,
        location: Location,
    ) -> Result<Expr> {
        let column = column_of(relation, attno)?;
        if let Expr::Default { location: at, .. } = value {
            if !indirection.is_empty() {
                let what = match indirection.first().and_then(|node| node.node.as_ref()) {
                    Some(NodeEnum::AIndices(_)) => "cannot set an array element to DEFAULT",
                    _ => "cannot set a subfield to DEFAULT",
                };
                return Err(err!(FEATURE_NOT_SUPPORTED, "{what}").at(location));
            }
            return Ok(Expr::Default { ty: column.ty, location: at });
        }
        if indirection.is_empty() {
            return self.coerce_for_column(value, &column.name, column.ty, location);
        }
        let base = match current {
            Some(current) => current,
            None => Expr::Const { value: cairn_types::Datum::Null, ty: column.ty, location },
        };
        let name = column.name.clone();
        self.assign_into(base, column.ty, &name, indirection, value, location)
    }

    fn assign_into(
        &mut self,
        base: Expr,
        ty: cairn_catalog::TypeRef,
        name: &str,
        indirection: &[Node],
        value: Expr,
        location: Location,
    ) -> Result<Expr> {
        let Some(first) = indirection.first() else {
            let source = expr_type(&value).oid;
            let at = self.location_or(&value, location);
            let coerced = self.coerce_to_target(
                value,
                source,
                ty.oid,
                ty.typmod,
                super::Coercion::Assignment,
                CallForm::ImplicitCast,
                -1,
            )?;
            return coerced.ok_or_else(|| {
                err!(
                    DATATYPE_MISMATCH,
                    "subfield \"{name}\" is of type {} but expression is of type {}",
                    self.type_text(ty.oid),
                    self.type_text(source)
                )
                .hint("You will need to rewrite or cast the expression.")
                .at(at)
            });
        };
        match inner(first)? {
            NodeEnum::AIndices(_) => {
                let count = indirection
                    .iter()
                    .take_while(|node| matches!(node.node, Some(NodeEnum::AIndices(_))))
                    .count();
                let mut indices = Vec::with_capacity(count);
                for node in &indirection[..count] {
                    if let NodeEnum::AIndices(index) = inner(node)? {
                        indices.push(&**index);
                    }
                }
                let rest = &indirection[count..];
                let value = if rest.is_empty() {
                    value
                } else {
                    // Read the element, change it, and put it back.
                    let element = self.subscript(base.clone(), &indices, None)?;
                    let element_type = expr_type(&element);
                    self.assign_into(element, element_type, name, rest, value, location)?
                };
                let assignment = super::expression::Assignment { name, value };
                let assigned = self.subscript(base, &indices, Some(assignment))?;
                let context = super::Coercion::Assignment;
                self.coerce_to_domain(assigned, ty.oid, -1, context, CallForm::ImplicitCast, -1, false)
            }
            NodeEnum::String(field) => {
                let composite = self.lookup.base_type(ty.oid);
                if !self.lookup.is_composite(composite) {
                    return Err(err!(
                        DATATYPE_MISMATCH,
                        "cannot assign to field \"{}\" of column \"{name}\" because its type {} is not a composite type",
                        field.sval,
                        self.type_text(ty.oid)
                    )
                    .at(location));
                }
                let columns = self.lookup.composite_columns(composite);
                let Some(position) =
                    columns.iter().position(|column| !column.dropped && *column.name == *field.sval)
                else {
                    return Err(err!(
                        UNDEFINED_COLUMN,
                        "cannot assign to field \"{}\" of column \"{name}\" because there is no such column in data type {}",
                        field.sval,
                        self.type_text(ty.oid)
                    )
                    .at(location));
                };
                // A row of the old fields with one exchanged.
                let mut fields = Vec::with_capacity(columns.len());
                let mut names = Vec::with_capacity(columns.len());
                let mut value = Some(value);
                for (index, column) in columns.iter().enumerate() {
                    names.push(column.name.clone());
                    let number = super::scope::attribute_number(index)?;
                    let old = match &base {
                        Expr::Row { fields, form: CallForm::ImplicitCast, .. } if index < fields.len() => {
                            fields[index].clone()
                        }
                        _ => Expr::Field { record: Box::new(base.clone()), number, ty: column.ty },
                    };
                    match value.take_if(|_| index == position) {
                        Some(value) => {
                            fields.push(self.assign_into(
                                old,
                                column.ty,
                                &field.sval,
                                &indirection[1..],
                                value,
                                location,
                            )?);
                        }
                        None => fields.push(old),
                    }
                }
                let row = Expr::Row {
                    fields,
                    names,
                    ty: self.lookup.type_ref(composite),
                    form: CallForm::ImplicitCast,
                    location: -1,
                };
                if composite != ty.oid {
                    return self.coerce_to_domain(
                        row,
                        ty.oid,
                        -1,
                        super::Coercion::Assignment,
                        CallForm::ImplicitCast,
                        -1,
                        false,
                    );
                }
                Ok(row)
            }
            _ => Err(Error::internal("unrecognized assignment target")),
        }
    }

    fn push_insert_target(
        &mut self,
        query: &mut Query,
        relation: &Relation,
        column: &TargetColumn,
        value: Expr,
    ) -> Result<()> {
        // Of several parts of one column the last has them all.
        if let Some(target) = query.targets.iter_mut().find(|target| target.resno == column.attno) {
            target.expr = value;
            return Ok(());
        }
        let name = column_of(relation, column.attno)?.name.clone();
        query.targets.push(TargetEntry {
            expr: value,
            resno: column.attno,
            name,
            sort_group_ref: 0,
            junk: false,
            origin_table: 0,
            origin_column: 0,
        });
        Ok(())
    }

    fn insert_values(
        &mut self,
        query: &mut Query,
        relation: &Arc<Relation>,
        columns: &[TargetColumn],
        select: &protobuf::SelectStmt,
        explicit_columns: bool,
        target: usize,
    ) -> Result<()> {
        let _ = target;
        if let Some(with) = &select.with_clause {
            self.with_clause(with)?;
        }
        let mut rows: Vec<Vec<Expr>> = Vec::with_capacity(select.values_lists.len());
        let mut width: Option<usize> = None;
        let mut given_default = Vec::new();
        for list in &select.values_lists {
            let NodeEnum::List(list) = inner(list)? else {
                return Err(Error::internal("VALUES without a list"));
            };
            self.level().allows_default = true;
            let row = self.value_list(&list.items, ExprKind::Values);
            self.level().allows_default = false;
            let row = row?;
            match width {
                None => {
                    width = Some(row.len());
                    given_default = vec![true; row.len()];
                }
                Some(width) if width != row.len() => {
                    return Err(err!(SYNTAX_ERROR, "VALUES lists must all be the same length")
                        .at(row.first().map_or(-1, expr_location)));
                }
                Some(_) => {}
            }
            for (flag, value) in given_default.iter_mut().zip(&row) {
                *flag &= matches!(value, Expr::Default { .. });
            }
            rows.push(self.insert_row(relation, columns, row, explicit_columns)?);
        }
        let width = width.unwrap_or(0);
        // DEFAULT in a row: the column's default is evaluated for that row.
        let mut skipped = vec![false; width];
        for index in 0..width {
            let column = column_of(relation, columns[index].attno)?.clone();
            let all_default = given_default[index];
            let any_value = rows.iter().any(|row| !matches!(row[index], Expr::Default { .. }));
            if any_value {
                self.check_given(&column, query.overriding)?;
            }
            let ignored = query.overriding == Overriding::UserValue && column.identity != Identity::None;
            if all_default || column.generated || ignored {
                // As if the column had not been named.
                skipped[index] = true;
                continue;
            }
            if rows.iter().any(|row| matches!(row[index], Expr::Default { .. })) {
                let default = match self.column_default(&column)? {
                    Some(default) => default,
                    None => self.null_of(column.ty)?,
                };
                for row in &mut rows {
                    if matches!(row[index], Expr::Default { .. }) {
                        row[index] = default.clone();
                    }
                }
            }
        }
        let mut entry_columns = Vec::with_capacity(width);
        for index in 0..width {
            let ty = if skipped[index] {
                for row in &mut rows {
                    row[index] = Expr::Const {
                        value: cairn_types::Datum::Null,
                        ty: self.lookup.type_ref(types::TEXT),
                        location: -1,
                    };
                }
                self.lookup.type_ref(types::TEXT)
            } else {
                rows.first().map_or(self.lookup.type_ref(types::TEXT), |row| expr_type(&row[index]))
            };
            entry_columns.push(RangeColumn { name: format!("column{}", index + 1).into(), ty });
        }
        let mut lateral = false;
        for expr in rows.iter().flatten() {
            crate::walk::deep(expr, 0, &mut |expr, level| {
                lateral |= matches!(expr, Expr::Var(var) if var.levels_up == level);
            });
        }
        let level = self.level();
        level.range_table.push(RangeTableEntry {
            kind: RangeTableKind::Values { rows },
            alias: "*VALUES*".into(),
            columns: entry_columns,
            lateral,
            in_from: true,
        });
        let index = level.range_table.len() - 1;
        query.from.push(JoinTree::Range(index));
        for (position, column) in columns.iter().enumerate().take(width) {
            if skipped[position] {
                continue;
            }
            let attno = super::scope::attribute_number(position)?;
            let var = self.column_var(index, attno, 0, -1);
            self.push_insert_target(query, relation, column, var)?;
        }
        // ORDER BY and LIMIT of a VALUES list make it a query of its own; see `is_values`.
        Ok(())
    }

    fn insert_select(
        &mut self,
        query: &mut Query,
        relation: &Arc<Relation>,
        columns: &[TargetColumn],
        source: &NodeEnum,
        explicit_columns: bool,
    ) -> Result<()> {
        // The source does not see the target.
        let mut subquery = self.subquery(source, false, false)?;
        if subquery.command != CommandType::Select {
            return Err(Error::internal("unexpected non-SELECT command in INSERT ... SELECT"));
        }
        let index = self.level_ref().range_table.len();
        let mut values = Vec::new();
        let unknown = self.lookup.type_ref(types::TEXT);
        for (position, target) in subquery.targets.iter_mut().filter(|target| !target.junk).enumerate() {
            let ty = expr_type(&target.expr);
            // Literals go straight to the column's type.
            if ty.oid == types::UNKNOWN && matches!(target.expr, Expr::Const { .. } | Expr::Param { .. }) {
                values.push(target.expr.clone());
                if target.sort_group_ref == 0 {
                    target.expr = Expr::Const {
                        value: cairn_types::Datum::Null,
                        ty: unknown,
                        location: expr_location(&target.expr),
                    };
                }
                continue;
            }
            values.push(Expr::Var(Var {
                varno: index,
                attno: super::scope::attribute_number(position)?,
                levels_up: 0,
                ty,
                location: expr_location(&target.expr),
            }));
        }
        self.resolve_query_unknowns(&mut subquery)?;
        let entry_columns = super::from::query_columns(&subquery);
        self.level().range_table.push(RangeTableEntry {
            kind: RangeTableKind::Subquery { query: Box::new(subquery), view: None },
            alias: "*SELECT*".into(),
            columns: entry_columns,
            lateral: false,
            in_from: true,
        });
        query.from.push(JoinTree::Range(index));
        let values = self.insert_row(relation, columns, values, explicit_columns)?;
        for (column, value) in columns.iter().zip(values) {
            self.push_insert_target(query, relation, column, value)?;
        }
        Ok(())
    }

    fn resolve_query_unknowns(&mut self, query: &mut Query) -> Result<()> {
        self.resolve_target_unknowns(&mut query.targets)
    }

    /// A value was given for the column: may it be? Errors: 428C9.
    fn check_given(&self, column: &Column, overriding: Overriding) -> Result<()> {
        if column.generated {
            return Err(err!(
                GENERATED_ALWAYS,
                "cannot insert a non-DEFAULT value into column \"{}\"",
                column.name
            )
            .detail(format!("Column \"{}\" is a generated column.", column.name)));
        }
        if column.identity == Identity::Always && overriding == Overriding::None {
            return Err(err!(
                GENERATED_ALWAYS,
                "cannot insert a non-DEFAULT value into column \"{}\"",
                column.name
            )
            .detail(format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name))
            .hint("Use OVERRIDING SYSTEM VALUE to override."));
        }
        Ok(())
    }

    /// Fills in defaults and puts the targets into attribute order.
    fn complete_insert_targets(&mut self, query: &mut Query, relation: &Relation) -> Result<()> {
        let mut given: Vec<TargetEntry> = std::mem::take(&mut query.targets);
        let mut targets = Vec::with_capacity(relation.columns.len());
        for column in &relation.columns {
            if column.dropped {
                continue;
            }
            let position = given.iter().position(|target| target.resno == column.attnum);
            let mut value = position.map(|position| given.swap_remove(position));
            if let Some(target) = &value {
                if !matches!(target.expr, Expr::Default { .. }) {
                    let values_entry = matches!(&target.expr, Expr::Var(var) if var.levels_up == 0);
                    // VALUES rows were looked at one by one.
                    let checked = values_entry
                        && matches!(&target.expr, Expr::Var(var)
                            if matches!(self.level_ref().range_table[var.varno].kind, RangeTableKind::Values { .. }));
                    if !checked {
                        self.check_given(column, query.overriding)?;
                    }
                    if query.overriding == Overriding::UserValue && column.identity != Identity::None {
                        value = None;
                    }
                } else {
                    value = None;
                }
            }
            let target = match value {
                Some(target) => Some(target),
                None if column.generated => None,
                None => self.column_default(column)?.map(|expr| TargetEntry {
                    expr,
                    resno: column.attnum,
                    name: column.name.clone(),
                    sort_group_ref: 0,
                    junk: false,
                    origin_table: 0,
                    origin_column: 0,
                }),
            };
            targets.extend(target);
        }
        query.targets = targets;
        Ok(())
    }

    // ----- ON CONFLICT

    fn on_conflict(
        &mut self,
        conflict: &protobuf::OnConflictClause,
        relation: &Arc<Relation>,
        target: usize,
    ) -> Result<Option<Box<OnConflict>>> {
        let is_update = conflict.action == protobuf::OnConflictAction::OnconflictUpdate as i32;
        if is_update && conflict.infer.is_none() {
            return Err(err!(
                SYNTAX_ERROR,
                "ON CONFLICT DO UPDATE requires inference specification or constraint name"
            )
            .hint("For example, ON CONFLICT (column_name).")
            .at(conflict.location));
        }
        self.only_target_in_scope(target);
        let (arbiters, partial) = match &conflict.infer {
            Some(infer) => self.arbiters(infer, relation, target)?,
            None => (Vec::new(), None),
        };
        if !is_update {
            return Ok(Some(Box::new(OnConflict { arbiters, partial, update: None })));
        }
        let entry = self.relation_entry(relation.clone(), Some("excluded".into()), false);
        let level = self.level();
        level.range_table.push(entry);
        let excluded = level.range_table.len() - 1;
        level.namespace.push(NamespaceItem::whole(excluded, "excluded".into()));
        let targets = self.update_targets(&conflict.target_list, relation, target)?;
        let filter = match &conflict.where_clause {
            Some(node) => Some(self.condition(node, ExprKind::Where, "WHERE")?),
            None => None,
        };
        Ok(Some(Box::new(OnConflict {
            arbiters,
            partial,
            update: Some(OnConflictUpdate { targets, filter, excluded }),
        })))
    }

    /// The unique indexes that ON CONFLICT (...) or ON CONSTRAINT means, and the partial ones that it may mean. Errors:
    /// 42P10, 42704, 55000.
    fn arbiters(
        &mut self,
        infer: &protobuf::InferClause,
        relation: &Arc<Relation>,
        target: usize,
    ) -> Result<(Vec<u32>, Option<PartialArbiters>)> {
        if !infer.conname.is_empty() {
            let constraint = relation
                .constraints
                .iter()
                .find(|constraint| *constraint.name == *infer.conname)
                .ok_or_else(|| {
                    err!(
                        UNDEFINED_OBJECT,
                        "constraint \"{}\" for table \"{}\" does not exist",
                        infer.conname,
                        relation.name
                    )
                })?;
            if constraint.index == 0
                || matches!(
                    constraint.kind,
                    cairn_catalog::ConstraintKind::ForeignKey
                        | cairn_catalog::ConstraintKind::Check
                        | cairn_catalog::ConstraintKind::NotNull
                )
            {
                return Err(err!(
                    WRONG_OBJECT_TYPE,
                    "constraint in ON CONFLICT clause has no associated index"
                ));
            }
            if constraint.deferrable {
                return Err(err!(
                    OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters"
                ));
            }
            return Ok((vec![constraint.index], None));
        }
        let mut attributes: Vec<i16> = Vec::new();
        let mut expressions: Vec<Expr> = Vec::new();
        for node in &infer.index_elems {
            let NodeEnum::IndexElem(element) = inner(node)? else {
                return Err(Error::internal("unrecognized inference element"));
            };
            if element.ordering != protobuf::SortByDir::SortbyDefault as i32 {
                return Err(err!(INVALID_COLUMN_REFERENCE, "ASC/DESC is not allowed in ON CONFLICT clause"));
            }
            if element.nulls_ordering != protobuf::SortByNulls::SortbyNullsDefault as i32 {
                return Err(err!(
                    INVALID_COLUMN_REFERENCE,
                    "NULLS FIRST/LAST is not allowed in ON CONFLICT clause"
                ));
            }
            if !element.name.is_empty() {
                let column = protobuf::ColumnRef {
                    fields: vec![Node {
                        node: Some(NodeEnum::String(protobuf::String { sval: element.name.clone() })),
                    }],
                    location: infer.location,
                };
                match self.expression(&NodeEnum::ColumnRef(column), ExprKind::IndexExpression)? {
                    Expr::Var(var) if var.attno > 0 => attributes.push(var.attno),
                    Expr::Var(_) => {
                        return Err(err!(
                            INVALID_COLUMN_REFERENCE,
                            "whole row unique index inference specifications are not supported"
                        ));
                    }
                    _ => return Err(Error::internal("inference column is no column")),
                }
            } else {
                let expr = self.expression_of_kind(element.expr.as_deref(), ExprKind::IndexExpression)?;
                match expr {
                    Expr::Var(var) if var.attno > 0 && var.levels_up == 0 => attributes.push(var.attno),
                    mut expr => {
                        self.assign_expression_collations(&mut expr)?;
                        expressions.push(expr);
                    }
                }
            }
        }
        let predicate = match &infer.where_clause {
            Some(node) => {
                let mut predicate = self.condition(node, ExprKind::IndexPredicate, "WHERE")?;
                self.assign_expression_collations(&mut predicate)?;
                Some(predicate)
            }
            None => None,
        };
        let (mut found, mut partial) = (Vec::new(), Vec::new());
        for index in &relation.indexes {
            if !index.unique || !index.valid {
                continue;
            }
            let mut fits = true;
            let mut index_attributes: Vec<i16> = Vec::new();
            let mut index_expressions: Vec<Expr> = Vec::new();
            for key in &index.keys {
                match &key.key {
                    IndexKeyColumn::Attribute(attno) => index_attributes.push(*attno),
                    IndexKeyColumn::Expression(text) => {
                        index_expressions.push(self.relation_expression(text, relation, target)?)
                    }
                }
            }
            fits &= attributes.iter().all(|attno| index_attributes.contains(attno));
            fits &= index_attributes.iter().all(|attno| attributes.contains(attno));
            fits &= expressions.iter().all(|expr| index_expressions.iter().any(|other| same(expr, other)));
            fits &= index_expressions.iter().all(|expr| expressions.iter().any(|other| same(expr, other)));
            let is_partial = index.predicate.is_some();
            fits &= !is_partial || predicate.is_some();
            if fits && index.deferrable {
                return Err(err!(
                    OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters"
                ));
            }
            if fits && is_partial {
                partial.push(index.oid);
            } else if fits {
                found.push(index.oid);
            }
        }
        let partial = match predicate {
            Some(condition) if !partial.is_empty() => Some(PartialArbiters { indexes: partial, condition }),
            _ => None,
        };
        if found.is_empty() && partial.is_none() {
            return Err(err!(
                INVALID_COLUMN_REFERENCE,
                "there is no unique or exclusion constraint matching the ON CONFLICT specification"
            ));
        }
        Ok((found, partial))
    }

    /// Stored SQL text over a relation's columns, as an expression over entry `range`.
    pub(crate) fn relation_expression(
        &mut self,
        text: &str,
        relation: &Arc<Relation>,
        range: usize,
    ) -> Result<Expr> {
        let relation = relation.clone();
        self.isolated(|analyzer| {
            let node = crate::parse::parse_expression(text)?;
            analyzer.push_level();
            analyzer.add_relation_scope(&relation, None);
            let mut expr = analyzer.expression_of_kind(Some(&node), ExprKind::Other)?;
            analyzer.assign_expression_collations(&mut expr)?;
            super::type_names::forget_locations(&mut expr);
            crate::walk::deep_mut(&mut expr, 0, &mut |expr, level| {
                if let Expr::Var(var) = expr
                    && var.levels_up == level
                {
                    var.varno = range;
                }
            });
            Ok(expr)
        })
    }
}

pub(crate) fn column_of(relation: &Relation, attno: i16) -> Result<&Column> {
    usize::try_from(attno)
        .ok()
        .and_then(|attno| attno.checked_sub(1))
        .and_then(|index| relation.columns.get(index))
        .ok_or_else(|| Error::internal("no such attribute"))
}

fn is_values(select: &protobuf::SelectStmt) -> bool {
    !select.values_lists.is_empty()
        && select.sort_clause.is_empty()
        && select.limit_offset.is_none()
        && select.limit_count.is_none()
        && select.locking_clause.is_empty()
        && select.with_clause.is_none()
}

fn is_single_values(select: &protobuf::SelectStmt) -> bool {
    is_values(select) && select.values_lists.len() == 1
}
