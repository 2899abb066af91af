//! Names in scope: query levels, the entries of FROM that are visible at the moment, and what a column's or table's
//! name means there.

use std::sync::Arc;

use cairn_catalog::{Relation, TypeRef};
use cairn_types::{Error, Result, Text, err, types};
use pg_query::protobuf::{self, Node, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind, NameConflict, Parameters, expr_location, expr_type,
    names::{inner, string_value},
};
use crate::query::*;

/// State of one query level under analysis.
#[derive(Default)]
pub(crate) struct Level {
    pub range_table: Vec<RangeTableEntry>,
    pub namespace: Vec<NamespaceItem>,
    /// WITH queries of this level.
    pub ctes: Vec<CteState>,
    pub recursive: bool,
    pub kind: ExprKind,
    /// Inside of a LATERAL item: `lateral_only` names may be used.
    pub lateral_active: bool,
    pub target_relation: Option<usize>,
    /// Windows: those of the WINDOW clause first, then those written in place.
    pub windows: Vec<super::windows::WindowState>,
    pub has_aggregates: bool,
    pub has_window_functions: bool,
    pub has_target_srfs: bool,
    /// The WITH query that this level is the body of: level and index; set while its columns are not known yet.
    pub parent_cte: Option<(usize, usize)>,
    /// False for INSERT ... SELECT, whose literals take the target columns' types.
    pub resolve_unknowns: bool,
    /// VALUES rows of an INSERT may say DEFAULT.
    pub allows_default: bool,
    /// Depth of outer joins around the FROM item under analysis; recursive references must not be there.
    pub outer_join_depth: usize,
    /// This level is inside of an expression of its parent, not of its FROM.
    pub is_sublink: bool,
}

/// A WITH query and what is known of it so far.
pub(crate) struct CteState {
    pub cte: Cte,
    pub progress: CteProgress,
    pub location: Location,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CteProgress {
    /// Not looked at yet: a forward reference.
    Pending,
    /// Its query is being analyzed and cannot be recursive here.
    NotRecursive,
    /// The non-recursive term is being analyzed.
    FirstTerm,
    /// The recursive term is being analyzed: the columns are known.
    RecursiveTerm,
    Done,
}

/// A table's or join's name in scope.
#[derive(Clone)]
pub(crate) struct NamespaceItem {
    pub entry: usize,
    /// Empty: cannot be used to qualify columns.
    pub alias: Text,
    /// Columns by name; `None`: exactly those of the range table entry.
    pub columns: Option<Arc<[NamespaceColumn]>>,
    /// Whether the name qualifies columns, and whether the columns are found unqualified.
    pub relation_visible: bool,
    pub columns_visible: bool,
    /// Visible only to LATERAL items to the right, and whether such a use is legal (not inside a RIGHT or FULL join).
    pub lateral_only: bool,
    pub lateral_ok: bool,
}

/// A column in scope: where its value comes from, which for a join is mostly one of the joined tables.
#[derive(Clone)]
pub(crate) struct NamespaceColumn {
    /// Empty: dropped.
    pub name: Text,
    pub varno: usize,
    pub attno: i16,
    pub ty: TypeRef,
}

/// What a column name was found to be within one level.
enum Found {
    Nothing,
    Column(Expr),
}

impl<'a> Analyzer<'a> {
    pub(crate) fn push_level(&mut self) {
        self.levels.push(Level { resolve_unknowns: true, ..Level::default() });
    }

    pub(crate) fn pop_level(&mut self) -> Level {
        self.levels.pop().unwrap_or_default()
    }

    pub(crate) fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.push_level();
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    pub(crate) fn level_ref(&self) -> &Level {
        self.levels.last().expect("analysis always has a level")
    }

    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    pub(crate) fn levels_mut(&mut self) -> &mut Vec<Level> {
        &mut self.levels
    }

    pub(crate) fn target_relation(&self) -> Option<usize> {
        self.levels.last().and_then(|level| level.target_relation)
    }

    /// The range table entry that a Var of the current level refers to.
    pub(crate) fn entry_of(&self, var: &Var) -> &RangeTableEntry {
        let level = self.levels.len() - 1 - var.levels_up as usize;
        &self.levels[level].range_table[var.varno]
    }

    /// Puts a relation into the current level's range table and scope, as entry 0 of standalone expressions is.
    pub(crate) fn add_relation_scope(&mut self, relation: &Arc<Relation>, alias: Option<Text>) -> usize {
        let entry = self.relation_entry(relation.clone(), alias, true);
        let alias = entry.alias.clone();
        let level = self.level();
        level.range_table.push(entry);
        let index = level.range_table.len() - 1;
        level.namespace.push(NamespaceItem::whole(index, alias));
        index
    }

    pub(crate) fn relation_entry(
        &self,
        relation: Arc<Relation>,
        alias: Option<Text>,
        in_from: bool,
    ) -> RangeTableEntry {
        let columns = relation
            .columns
            .iter()
            .map(|column| RangeColumn {
                name: if column.dropped { Text::default() } else { column.name.clone() },
                ty: column.ty,
            })
            .collect();
        RangeTableEntry {
            alias: alias.unwrap_or_else(|| relation.name.clone()),
            columns,
            kind: RangeTableKind::Relation { relation, sample: None },
            lateral: false,
            in_from,
        }
    }

    /// The Var for column `attno` of entry `varno` of the level `levels_up` up.
    pub(crate) fn column_var(&self, varno: usize, attno: i16, levels_up: u32, location: Location) -> Expr {
        let level = self.levels.len() - 1 - levels_up as usize;
        let ty = usize::try_from(attno)
            .ok()
            .and_then(|attno| attno.checked_sub(1))
            .and_then(|index| self.levels[level].range_table[varno].columns.get(index))
            .map_or(TypeRef { oid: types::UNKNOWN, typmod: -1, collation: 0 }, |column| column.ty);
        Expr::Var(Var { varno, attno, levels_up, ty, location })
    }

    // ----- Column references

    pub(crate) fn column_reference(&mut self, column: &protobuf::ColumnRef) -> Result<Expr> {
        let location = column.location;
        let kind = self.level_ref().kind;
        match kind {
            ExprKind::ColumnDefault => {
                return Err(err!(FEATURE_NOT_SUPPORTED, "cannot use column reference in DEFAULT expression")
                    .at(location));
            }
            ExprKind::FunctionDefault => {
                return Err(err!(
                    INVALID_COLUMN_REFERENCE,
                    "cannot use table references in parameter default value"
                )
                .at(location));
            }
            _ => {}
        }
        let mut parts: smallvec::SmallVec<[&str; 4]> = smallvec::SmallVec::new();
        for field in &column.fields {
            match inner(field)? {
                NodeEnum::String(name) => parts.push(&name.sval),
                NodeEnum::AStar(_) => {
                    return Err(err!(FEATURE_NOT_SUPPORTED, "row expansion via \"*\" is not supported here")
                        .at(location));
                }
                _ => return Err(Error::internal("unrecognized column reference")),
            }
        }
        if let Parameters::Resolver(resolver) = self.parameters
            && resolver.on_conflict() == NameConflict::UseVariable
            && let Some(variable) = self.variable(&parts, location)?
        {
            return Ok(variable);
        }
        let found = self.find_column(&parts, location)?;
        if let Parameters::Resolver(resolver) = self.parameters
            && resolver.on_conflict() != NameConflict::UseVariable
        {
            match (&found, resolver.on_conflict()) {
                (Ok(_), NameConflict::Error) if self.variable(&parts, location)?.is_some() => {
                    return Err(err!(
                        AMBIGUOUS_COLUMN,
                        "column reference \"{}\" is ambiguous",
                        parts.join(".")
                    )
                    .detail("It could refer to either a PL/pgSQL variable or a table column.")
                    .at(location));
                }
                (Err(_), _) => {
                    if let Some(variable) = self.variable(&parts, location)? {
                        return Ok(variable);
                    }
                }
                _ => {}
            }
        }
        match found {
            Ok(expr) => Ok(expr),
            Err(missing) => Err(missing),
        }
    }

    /// The variable of plpgsql or SQL function argument that a name means, with a field of it where the name goes on.
    fn variable(&mut self, parts: &[&str], location: Location) -> Result<Option<Expr>> {
        let Parameters::Resolver(resolver) = self.parameters else { return Ok(None) };
        if let Some((number, ty)) = resolver.by_name(parts) {
            return Ok(Some(Expr::Param { number, ty, location }));
        }
        if parts.len() < 2 {
            return Ok(None);
        }
        let (field, prefix) = match parts.split_last() {
            Some((field, prefix)) => (*field, prefix),
            None => return Ok(None),
        };
        match resolver.by_name(prefix) {
            Some((number, ty))
                if ty.oid == types::RECORD || self.lookup.is_composite(self.lookup.base_type(ty.oid)) =>
            {
                let record = Expr::Param { number, ty, location };
                self.select_field(&record, field, location)
            }
            _ => Ok(None),
        }
    }

    /// The column of a dotted name. The outer error is fatal, the inner one (no such column) gives way to variables.
    fn find_column(
        &mut self,
        parts: &[&str],
        location: Location,
    ) -> Result<std::result::Result<Expr, Error>> {
        match parts {
            [column] => {
                if let Some(found) = self.unqualified_column(column, location)? {
                    return Ok(Ok(found));
                }
                // PostQUEL: a lone table name is its whole row.
                if let Some((item, levels_up)) = self.find_item(None, column, location)? {
                    return self.whole_row(&item, levels_up, location).map(Ok);
                }
                Ok(Err(self.missing_column(None, column, location)))
            }
            [relation, column] => self.qualified_column(None, relation, column, location),
            [schema, relation, column] => self.qualified_column(Some(schema), relation, column, location),
            [database, schema, relation, column] => {
                if **database != *self.context.env.current_database() {
                    return Ok(Err(err!(
                        FEATURE_NOT_SUPPORTED,
                        "cross-database references are not implemented: {}",
                        parts.join(".")
                    )
                    .at(location)));
                }
                self.qualified_column(Some(schema), relation, column, location)
            }
            _ => Ok(Err(err!(
                SYNTAX_ERROR,
                "improper qualified name (too many dotted names): {}",
                parts.join(".")
            )
            .at(location))),
        }
    }

    fn qualified_column(
        &mut self,
        schema: Option<&str>,
        relation: &str,
        column: &str,
        location: Location,
    ) -> Result<std::result::Result<Expr, Error>> {
        let Some((item, levels_up)) = self.find_item(schema, relation, location)? else {
            // `composite_column.field` without a table in scope of that name.
            return Ok(Err(self.missing_relation(relation, location)));
        };
        if let Found::Column(found) = self.item_column(&item, levels_up, column, location)? {
            return Ok(Ok(found));
        }
        // A function applied to the whole row, in attribute notation.
        let row = self.whole_row(&item, levels_up, location)?;
        if let Some(call) = self.attribute_function(row, column, location)? {
            return Ok(Ok(call));
        }
        Ok(Err(self.missing_column(Some(relation), column, location)))
    }

    /// An unqualified name's column, searched from the innermost level outwards.
    fn unqualified_column(&mut self, name: &str, location: Location) -> Result<Option<Expr>> {
        for up in 0..self.levels.len() {
            let level_index = self.levels.len() - 1 - up;
            let levels_up = u32::try_from(up).unwrap_or(u32::MAX);
            let mut found: Option<Expr> = None;
            for index in 0..self.levels[level_index].namespace.len() {
                let item = &self.levels[level_index].namespace[index];
                if !item.columns_visible {
                    continue;
                }
                if item.lateral_only && !self.levels[level_index].lateral_active {
                    continue;
                }
                if let Found::Column(column) = self.item_column(item, levels_up, name, location)? {
                    if found.is_some() {
                        return Err(
                            err!(AMBIGUOUS_COLUMN, "column reference \"{name}\" is ambiguous").at(location)
                        );
                    }
                    let item = &self.levels[level_index].namespace[index];
                    self.check_lateral(item, level_index, location)?;
                    found = Some(column);
                }
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The scope's item by name, searched from the innermost level outwards, and how many levels up it is.
    fn find_item(
        &self,
        schema: Option<&str>,
        name: &str,
        location: Location,
    ) -> Result<Option<(NamespaceItem, u32)>> {
        let relation = match schema {
            // A qualified name means the table itself, under no alias.
            Some(schema) => match self.lookup.relation_in_schema(schema, name) {
                Some(relation) => Some(relation.oid),
                None => return Ok(None),
            },
            None => None,
        };
        for up in 0..self.levels.len() {
            let level_index = self.levels.len() - 1 - up;
            let level = &self.levels[level_index];
            let mut found: Option<&NamespaceItem> = None;
            for item in &level.namespace {
                if !item.relation_visible || (item.lateral_only && !level.lateral_active) {
                    continue;
                }
                let matches = match relation {
                    None => *item.alias == *name,
                    Some(oid) => {
                        let entry = &level.range_table[item.entry];
                        matches!(&entry.kind, RangeTableKind::Relation { relation, .. }
                            if relation.oid == oid && entry.alias == relation.name)
                    }
                };
                if matches {
                    if found.is_some() {
                        return Err(
                            err!(AMBIGUOUS_ALIAS, "table reference \"{name}\" is ambiguous").at(location)
                        );
                    }
                    self.check_lateral(item, level_index, location)?;
                    found = Some(item);
                }
            }
            if let Some(item) = found {
                return Ok(Some((item.clone(), u32::try_from(up).unwrap_or(u32::MAX))));
            }
        }
        Ok(None)
    }

    fn check_lateral(&self, item: &NamespaceItem, level: usize, location: Location) -> Result<()> {
        if item.lateral_only && !item.lateral_ok {
            let name = &self.levels[level].range_table[item.entry].alias;
            let error =
                err!(INVALID_COLUMN_REFERENCE, "invalid reference to FROM-clause entry for table \"{name}\"");
            let error = if self.levels[level].target_relation == Some(item.entry) {
                error.hint(format!(
                    "There is an entry for table \"{name}\", but it cannot be referenced from this part of the query."
                ))
            } else {
                error.detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference.")
            };
            return Err(error.at(location));
        }
        Ok(())
    }

    /// A column of one item: by its name, or a system column of a table.
    fn item_column(
        &self,
        item: &NamespaceItem,
        levels_up: u32,
        name: &str,
        location: Location,
    ) -> Result<Found> {
        let level = self.levels.len() - 1 - levels_up as usize;
        let entry = &self.levels[level].range_table[item.entry];
        let mut found: Option<Expr> = None;
        let ambiguous = || err!(AMBIGUOUS_COLUMN, "column reference \"{name}\" is ambiguous").at(location);
        match &item.columns {
            None => {
                for (index, column) in entry.columns.iter().enumerate() {
                    if *column.name == *name && !name.is_empty() {
                        if found.is_some() {
                            return Err(ambiguous());
                        }
                        let attno = attribute_number(index)?;
                        found = Some(Expr::Var(Var {
                            varno: item.entry,
                            attno,
                            levels_up,
                            ty: column.ty,
                            location,
                        }));
                    }
                }
            }
            Some(columns) => {
                for column in columns.iter() {
                    if *column.name == *name && !name.is_empty() {
                        if found.is_some() {
                            return Err(ambiguous());
                        }
                        found = Some(Expr::Var(Var {
                            varno: column.varno,
                            attno: column.attno,
                            levels_up,
                            ty: column.ty,
                            location,
                        }));
                    }
                }
            }
        }
        if let Some(found) = found {
            return Ok(Found::Column(found));
        }
        if let RangeTableKind::Relation { relation, .. } = &entry.kind
            && !matches!(relation.kind, cairn_catalog::RelationKind::View)
            && let Some((attno, oid)) = system_column(name)
        {
            let kind = self.level_ref().kind;
            if kind == ExprKind::GeneratedColumn && attno != system_columns::TABLEOID {
                return Err(err!(
                    INVALID_COLUMN_REFERENCE,
                    "cannot use system column \"{name}\" in column generation expression"
                )
                .at(location));
            }
            if kind == ExprKind::CheckConstraint && attno != system_columns::TABLEOID {
                return Err(err!(
                    INVALID_COLUMN_REFERENCE,
                    "system column \"{name}\" reference in check constraint is invalid"
                )
                .at(location));
            }
            let ty = TypeRef { oid, typmod: -1, collation: 0 };
            return Ok(Found::Column(Expr::Var(Var { varno: item.entry, attno, levels_up, ty, location })));
        }
        Ok(Found::Nothing)
    }

    /// The whole row of an item: a table's row type, a scalar function's value, else a record of its columns.
    fn whole_row(&mut self, item: &NamespaceItem, levels_up: u32, location: Location) -> Result<Expr> {
        let level = self.levels.len() - 1 - levels_up as usize;
        let entry = &self.levels[level].range_table[item.entry];
        let record = TypeRef { oid: types::RECORD, typmod: -1, collation: 0 };
        let ty = match &entry.kind {
            RangeTableKind::Relation { relation, .. } if relation.row_type != 0 => {
                TypeRef { oid: relation.row_type, typmod: -1, collation: 0 }
            }
            RangeTableKind::Subquery { view: Some(view), .. } => match self.lookup.relation(*view) {
                Some(relation) if relation.row_type != 0 => {
                    TypeRef { oid: relation.row_type, typmod: -1, collation: 0 }
                }
                _ => record,
            },
            RangeTableKind::Function { functions, ordinality: false } if functions.len() == 1 => {
                let ty = expr_type(&functions[0].call);
                if self.lookup.is_composite(self.lookup.base_type(ty.oid)) {
                    ty
                } else if ty.oid != types::RECORD {
                    // A function of a scalar type: its only column.
                    let ty = entry.columns.first().map_or(ty, |column| column.ty);
                    return Ok(Expr::Var(Var { varno: item.entry, attno: 1, levels_up, ty, location }));
                } else {
                    record
                }
            }
            RangeTableKind::Join { .. } => {
                let columns = self.item_columns(item, levels_up);
                let mut fields = Vec::with_capacity(columns.len());
                let mut names = Vec::with_capacity(columns.len());
                for column in columns {
                    fields.push(Expr::Var(Var {
                        varno: column.varno,
                        attno: column.attno,
                        levels_up,
                        ty: column.ty,
                        location,
                    }));
                    names.push(column.name);
                }
                return Ok(Expr::Row { fields, names, ty: record, form: CallForm::ImplicitCast, location });
            }
            _ => record,
        };
        Ok(Expr::Var(Var { varno: item.entry, attno: 0, levels_up, ty, location }))
    }

    /// An item's columns, dropped ones left out.
    pub(crate) fn item_columns(&self, item: &NamespaceItem, levels_up: u32) -> Vec<NamespaceColumn> {
        let level = self.levels.len() - 1 - levels_up as usize;
        match &item.columns {
            Some(columns) => columns.iter().filter(|column| !column.name.is_empty()).cloned().collect(),
            None => self.levels[level].range_table[item.entry]
                .columns
                .iter()
                .enumerate()
                .filter(|(_, column)| !column.name.is_empty())
                .map(|(index, column)| NamespaceColumn {
                    name: column.name.clone(),
                    varno: item.entry,
                    attno: i16::try_from(index + 1).unwrap_or(i16::MAX),
                    ty: column.ty,
                })
                .collect(),
        }
    }

    /// The fields of a whole-row Var.
    pub(crate) fn expand_whole_row(&self, var: &Var) -> Result<Vec<Expr>> {
        let entry = self.entry_of(var);
        entry
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| !column.name.is_empty())
            .map(|(index, column)| {
                Ok(Expr::Var(Var {
                    varno: var.varno,
                    attno: attribute_number(index)?,
                    levels_up: var.levels_up,
                    ty: column.ty,
                    location: var.location,
                }))
            })
            .collect()
    }

    // ----- Stars

    /// `*` alone: all columns of what FROM makes visible.
    pub(crate) fn expand_star(&mut self, location: Location) -> Result<Vec<(Expr, Text)>> {
        let mut columns = Vec::new();
        let mut any = false;
        for index in 0..self.level_ref().namespace.len() {
            let item = self.level_ref().namespace[index].clone();
            if !item.columns_visible {
                continue;
            }
            any = true;
            for column in self.item_columns(&item, 0) {
                columns.push((
                    Expr::Var(Var {
                        varno: column.varno,
                        attno: column.attno,
                        levels_up: 0,
                        ty: column.ty,
                        location,
                    }),
                    column.name,
                ));
            }
        }
        if !any {
            return Err(err!(SYNTAX_ERROR, "SELECT * with no tables specified is not valid").at(location));
        }
        Ok(columns)
    }

    /// `*`, `t.*`, `s.t.*`, `composite.*`: expressions with names.
    pub(crate) fn expand_star_reference(
        &mut self,
        column: &protobuf::ColumnRef,
    ) -> Result<Vec<(Expr, Text)>> {
        let location = column.location;
        let parts: Vec<&str> = column.fields[..column.fields.len() - 1].iter().map(string_value).collect();
        let (schema, relation) = match parts.as_slice() {
            [] => return self.expand_star(location),
            [relation] => (None, *relation),
            [schema, relation] => (Some(*schema), *relation),
            [database, schema, relation] if **database == *self.context.env.current_database() => {
                (Some(*schema), *relation)
            }
            [_, _, _] => {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "cross-database references are not implemented: {}",
                    super::names::joined(&column.fields)
                )
                .at(location));
            }
            _ => {
                return Err(err!(
                    SYNTAX_ERROR,
                    "improper qualified name (too many dotted names): {}",
                    super::names::joined(&column.fields)
                )
                .at(location));
            }
        };
        let variables_first = matches!(self.parameters, Parameters::Resolver(resolver)
            if resolver.on_conflict() == NameConflict::UseVariable);
        if variables_first && let Some(variable) = self.variable(&parts, location)? {
            return self.expand_record(variable, location);
        }
        let Some((item, levels_up)) = self.find_item(schema, relation, location)? else {
            if let Some(variable) = self.variable(&parts, location)? {
                return self.expand_record(variable, location);
            }
            return Err(self.missing_relation(relation, location));
        };
        Ok(self
            .item_columns(&item, levels_up)
            .into_iter()
            .map(|column| {
                (
                    Expr::Var(Var {
                        varno: column.varno,
                        attno: column.attno,
                        levels_up,
                        ty: column.ty,
                        location,
                    }),
                    column.name,
                )
            })
            .collect())
    }

    /// `(expr).*`: the fields of a composite value.
    pub(crate) fn expand_record(&mut self, record: Expr, location: Location) -> Result<Vec<(Expr, Text)>> {
        if let Expr::Var(var) = &record
            && var.attno == 0
        {
            let names: Vec<Text> = self
                .entry_of(var)
                .columns
                .iter()
                .filter(|column| !column.name.is_empty())
                .map(|column| column.name.clone())
                .collect();
            return Ok(self.expand_whole_row(var)?.into_iter().zip(names).collect());
        }
        let ty = expr_type(&record).oid;
        let Some(columns) = self.record_columns(&record) else {
            if ty == types::RECORD {
                return Err(err!(WRONG_OBJECT_TYPE, "record type has not been registered").at(location));
            }
            return Err(err!(WRONG_OBJECT_TYPE, "type {} is not composite", self.type_text(ty)).at(location));
        };
        let mut fields = Vec::with_capacity(columns.len());
        for (index, column) in columns.into_iter().enumerate() {
            if column.name.is_empty() {
                continue;
            }
            let field = match &record {
                Expr::Row { fields, .. } if fields.len() > index => fields[index].clone(),
                _ => Expr::Field {
                    record: Box::new(record.clone()),
                    number: attribute_number(index)?,
                    ty: column.ty,
                },
            };
            fields.push((field, column.name));
        }
        Ok(fields)
    }

    /// The columns of a composite value (dropped ones with an empty name), where they are known.
    pub(crate) fn record_columns(&self, record: &Expr) -> Option<Vec<RangeColumn>> {
        let ty = expr_type(record).oid;
        let base = self.lookup.base_type(ty);
        if self.lookup.is_composite(base) {
            return Some(
                self.lookup
                    .composite_columns(base)
                    .iter()
                    .map(|column| RangeColumn {
                        name: if column.dropped { Text::default() } else { column.name.clone() },
                        ty: column.ty,
                    })
                    .collect(),
            );
        }
        if base != types::RECORD {
            return None;
        }
        match record {
            Expr::Var(var) if var.attno == 0 => Some(self.entry_of(var).columns.clone()),
            Expr::Var(var) => self.record_columns_of_var(var),
            Expr::Row { fields, names, .. } => Some(
                fields
                    .iter()
                    .zip(names)
                    .map(|(field, name)| RangeColumn { name: name.clone(), ty: expr_type(field) })
                    .collect(),
            ),
            Expr::Function(call) => {
                let proc = self.lookup.proc(call.function).ok()?;
                self.function_result_columns(proc, call.ty.oid, &call.args)
            }
            Expr::SubLink(link) => match link.kind {
                SubLinkKind::Expr => {
                    let target = link.query.targets.iter().find(|target| !target.junk)?;
                    // Only what does not depend on the subquery's own range table.
                    match &target.expr {
                        Expr::Row { .. } | Expr::Function(_) => self.record_columns(&target.expr),
                        Expr::Var(var) if var.levels_up == 0 && var.attno == 0 => {
                            Some(link.query.range_table.get(var.varno)?.columns.clone())
                        }
                        _ => None,
                    }
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A column of type record: what the subquery behind it makes it of.
    fn record_columns_of_var(&self, var: &Var) -> Option<Vec<RangeColumn>> {
        let entry = self.entry_of(var);
        let index = usize::try_from(var.attno).ok()?.checked_sub(1)?;
        match &entry.kind {
            RangeTableKind::Subquery { query, .. } => {
                let target = query.targets.iter().filter(|target| !target.junk).nth(index)?;
                match &target.expr {
                    Expr::Row { fields, names, .. } => Some(
                        fields
                            .iter()
                            .zip(names)
                            .map(|(field, name)| RangeColumn { name: name.clone(), ty: expr_type(field) })
                            .collect(),
                    ),
                    Expr::Var(inner) if inner.levels_up == 0 && inner.attno == 0 => {
                        Some(query.range_table.get(inner.varno)?.columns.clone())
                    }
                    Expr::Function(call) => {
                        let proc = self.lookup.proc(call.function).ok()?;
                        self.function_result_columns(proc, call.ty.oid, &call.args)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    // ----- Errors

    fn missing_column(&self, relation: Option<&str>, column: &str, location: Location) -> Error {
        let error = match relation {
            Some(relation) => err!(UNDEFINED_COLUMN, "column {relation}.{column} does not exist"),
            None => err!(UNDEFINED_COLUMN, "column \"{column}\" does not exist"),
        };
        self.column_hint(error, relation, column).at(location)
    }

    /// A near miss is worth a hint, a hidden column a detail.
    fn column_hint(&self, error: Error, relation: Option<&str>, column: &str) -> Error {
        // At most half of the name may be wrong.
        let mut best_distance = 4usize;
        let mut best: Vec<(Text, Text)> = Vec::new();
        let mut hidden: Option<Text> = None;
        for level in self.levels.iter().rev() {
            for (index, entry) in level.range_table.iter().enumerate() {
                if matches!(entry.kind, RangeTableKind::Join { .. } | RangeTableKind::Result) {
                    continue;
                }
                let penalty = match relation {
                    Some(relation) if *entry.alias != *relation => {
                        edit_distance(&entry.alias, relation).min(4)
                    }
                    _ => 0,
                };
                let _ = index;
                for found in &entry.columns {
                    if found.name.is_empty() {
                        continue;
                    }
                    if *found.name == *column && relation.is_none_or(|relation| *entry.alias == *relation) {
                        hidden.get_or_insert_with(|| entry.alias.clone());
                        continue;
                    }
                    let distance = edit_distance(&found.name, column);
                    let allowed = found.name.chars().count().max(column.chars().count()) / 2;
                    if distance > allowed || distance == 0 && penalty == 0 {
                        continue;
                    }
                    let distance = distance + penalty;
                    if distance > 3 {
                        continue;
                    }
                    match distance.cmp(&best_distance) {
                        std::cmp::Ordering::Less => {
                            best_distance = distance;
                            best = vec![(entry.alias.clone(), found.name.clone())];
                        }
                        std::cmp::Ordering::Equal => best.push((entry.alias.clone(), found.name.clone())),
                        std::cmp::Ordering::Greater => {}
                    }
                }
            }
        }
        if let Some(table) = hidden {
            return error.hint(format!(
                "There is a column named \"{column}\" in table \"{table}\", but it cannot be referenced from this part of the query."
            ));
        }
        match best.as_slice() {
            [(table, name)] => error.hint(format!("Perhaps you meant to reference the column \"{table}.{name}\".")),
            [(table, name), (other_table, other_name)] => error.hint(format!(
                "Perhaps you meant to reference the column \"{table}.{name}\" or the column \"{other_table}.{other_name}\"."
            )),
            _ => error,
        }
    }

    fn missing_relation(&self, relation: &str, location: Location) -> Error {
        let shown = relation;
        let entries = || self.levels.iter().rev().flat_map(|level| &level.range_table);
        // A table of that name hidden behind an alias, or out of reach.
        let hidden = entries().find(|entry| match &entry.kind {
            RangeTableKind::Relation { relation: found, .. } => *found.name == *relation,
            RangeTableKind::Cte { name, .. } => **name == *relation,
            _ => false,
        });
        let by_alias = entries().find(|entry| *entry.alias == *relation);
        if let Some(entry) = hidden.or(by_alias) {
            let error = err!(UNDEFINED_TABLE, "invalid reference to FROM-clause entry for table \"{shown}\"");
            let visible = self.levels.iter().rev().any(|level| {
                level.namespace.iter().any(|item| {
                    item.relation_visible
                        && item.alias == entry.alias
                        && (!item.lateral_only || level.lateral_active)
                })
            });
            if *entry.alias != *relation && visible {
                return error
                    .hint(format!("Perhaps you meant to reference the table alias \"{}\".", entry.alias))
                    .at(location);
            }
            return error
                .hint(format!(
                    "There is an entry for table \"{}\", but it cannot be referenced from this part of the query.",
                    entry.alias
                ))
                .at(location);
        }
        err!(UNDEFINED_TABLE, "missing FROM-clause entry for table \"{shown}\"").at(location)
    }

    /// `row.name` where the row has no such column: a function of that name taking the row.
    pub(crate) fn attribute_function(
        &mut self,
        row: Expr,
        name: &str,
        location: Location,
    ) -> Result<Option<Expr>> {
        let ty = expr_type(&row).oid;
        let qualified = super::QualifiedName::unqualified(name);
        let detail = self.function_detail(&qualified, &[ty], Some(&row), &[], true, false)?;
        let super::functions::FunctionDetail::Found(found) = detail else { return Ok(None) };
        if found.proc.kind != cairn_catalog::ProcKind::Function || !found.proc.arg_defaults.is_empty() {
            return Ok(None);
        }
        let call = protobuf::FuncCall {
            funcname: vec![Node { node: Some(NodeEnum::String(protobuf::String { sval: name.to_owned() })) }],
            location,
            ..Default::default()
        };
        let mut declared = found.declared.clone();
        let result = self.enforce_polymorphic(&[ty], &mut declared, found.proc.return_type)?;
        let mut args = vec![row];
        self.coerce_arguments(&mut args, &[ty], &declared)?;
        if found.proc.returns_set {
            self.note_set_returning_function(location)?;
        }
        Ok(Some(Expr::Function(Box::new(FunctionCall {
            function: found.proc.oid,
            args,
            ty: self.lookup.type_ref(result),
            returns_set: found.proc.returns_set,
            variadic: false,
            collation: 0,
            form: CallForm::Call,
            location: call.location,
        }))))
    }

    /// Whether the expression's position is worth more than the fallback.
    pub(crate) fn location_or(&self, expr: &Expr, fallback: Location) -> Location {
        match expr_location(expr) {
            location if location >= 0 => location,
            _ => fallback,
        }
    }
}

impl NamespaceItem {
    /// An item whose columns are exactly those of its entry, all visible.
    pub fn whole(entry: usize, alias: Text) -> Self {
        NamespaceItem {
            entry,
            alias,
            columns: None,
            relation_visible: true,
            columns_visible: true,
            lateral_only: false,
            lateral_ok: true,
        }
    }
}

pub(crate) fn attribute_number(index: usize) -> Result<i16> {
    i16::try_from(index + 1)
        .map_err(|_| err!(TOO_MANY_COLUMNS, "target lists can have at most {} entries", 1664))
}

/// System columns by name: number and type.
pub(crate) fn system_column(name: &str) -> Option<(i16, u32)> {
    Some(match name {
        "ctid" => (system_columns::CTID, types::TID),
        "xmin" => (system_columns::XMIN, types::XID),
        "cmin" => (system_columns::CMIN, types::CID),
        "xmax" => (system_columns::XMAX, types::XID),
        "cmax" => (system_columns::CMAX, types::CID),
        "tableoid" => (system_columns::TABLEOID, types::OID),
        _ => return None,
    })
}

/// Levenshtein distance, for hints.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let substitution = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substitution.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
