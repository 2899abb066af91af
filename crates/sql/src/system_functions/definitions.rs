//! SQL text of what the catalog keeps: pg_get_expr, pg_get_indexdef, pg_get_constraintdef, pg_get_viewdef and their kin.
//!
//! Stored expressions are canonical text. They are analyzed again and printed for display, so that names are as short
//! as the session's search path allows and later renames show.

use std::sync::Arc;

use cairn_analyze::deparse::{
    DeparseContext, Form, RelationColumns, VarNames, deparse_expression, deparse_query,
};
use cairn_analyze::query::{Expr, Statement, Var};
use cairn_analyze::{analyze, analyze_expression, parse};
use cairn_catalog::columns::{pg_class, pg_constraint, pg_depend};
use cairn_catalog::system_table::split_expressions;
use cairn_catalog::{
    Column, Constraint, ConstraintKind, ForeignKeyAction, Identity, Index, IndexKey, IndexKeyColumn,
    Persistence, Relation, RelationKind, RowExt, SearchPath, Type, TypeRef,
};
use cairn_types::quote::{push_identifier, quote_identifier, quote_qualified};
use cairn_types::{Datum, Error, Oid, Result, err, oid::access_methods, types};

use super::{Arguments, System};

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    let pretty =
        |position: usize| -> Result<bool> { if a.len() > position { a.bool(position) } else { Ok(false) } };
    let text = match system.name {
        "pg_get_expr" | "pg_get_expr_ext" => system.stored_expression(a.str(0)?, a.oid(1)?, pretty(2)?)?,
        "pg_get_indexdef" => system.index_definition(a.oid(0)?, false)?,
        "pg_get_indexdef_ext" => match a.int4(1)? {
            0 => system.index_definition(a.oid(0)?, a.bool(2)?)?,
            column => system.index_column(a.oid(0)?, column, a.bool(2)?)?,
        },
        "pg_get_constraintdef" | "pg_get_constraintdef_ext" => match system.catalog.constraint(a.oid(0)?) {
            Some(constraint) => Some(system.constraint_definition(constraint, pretty(1)?)?),
            None => None,
        },
        "pg_get_viewdef" | "pg_get_viewdef_ext" => system.view_definition(a.oid(0)?, pretty(1)?)?,
        // The width at which lines wrap; PostgreSQL's own default of 0 puts every column on a line of its own.
        "pg_get_viewdef_wrap" => system.view_definition(a.oid(0)?, true)?,
        "pg_get_viewdef_name" | "pg_get_viewdef_name_ext" => {
            let oid = system.env.reg_lookup(types::REGCLASS, a.str(0)?)?;
            system.view_definition(oid, pretty(1)?)?
        }
        "pg_get_functiondef" => system.function_definition(a.oid(0)?)?,
        "pg_get_function_arguments" => system.function_arguments(a.oid(0)?, true)?,
        "pg_get_function_identity_arguments" => system.function_arguments(a.oid(0)?, false)?,
        "pg_get_function_result" => system.function_result(a.oid(0)?),
        "pg_get_function_arg_default" => system.function_argument_default(a.oid(0)?, a.int4(1)?)?,
        "pg_get_function_sqlbody" => system.function_body(a.oid(0)?),
        "pg_get_serial_sequence" => system.serial_sequence(a.str(0)?, a.str(1)?)?,
        "pg_get_ruledef" | "pg_get_ruledef_ext" => system.rule_definition(a.oid(0)?, pretty(1)?)?,
        // There are no such objects in Cairn, so none has the oid.
        "pg_get_partkeydef"
        | "pg_get_partition_constraintdef"
        | "pg_get_statisticsobjdef"
        | "pg_get_statisticsobjdef_columns"
        | "pg_get_statisticsobjdef_expressions"
        | "pg_get_triggerdef"
        | "pg_get_triggerdef_ext" => None,
        _ => return Ok(None),
    };
    Ok(Some(super::optional_text(text)))
}

/// What a domain's check sees: one column, which is written `VALUE`.
struct DomainValue;

impl VarNames for DomainValue {
    fn name(&self, _: &Var) -> String {
        "VALUE".to_owned()
    }
}

/// A relation with the one column `value`, for reading the checks of a domain.
fn domain_relation(system: &System<'_>, domain: &Type) -> Arc<Relation> {
    let base = system.catalog.base_type(domain.oid);
    let collation = system.catalog.type_by_oid(base).map_or(0, |ty| ty.collation);
    Arc::new(Relation {
        oid: 0,
        name: "value".into(),
        namespace: 0,
        owner: 0,
        kind: RelationKind::CompositeType,
        persistence: Persistence::Permanent,
        row_type: 0,
        storage: 0,
        columns: vec![Column {
            name: "value".into(),
            attnum: 1,
            ty: TypeRef { oid: base, typmod: domain.base_typmod, collation },
            not_null: false,
            dropped: false,
            default: None,
            generated: false,
            identity: Identity::None,
            identity_sequence: 0,
            missing: None,
        }],
        primary_key: None,
        indexes: Vec::new(),
        constraints: Vec::new(),
        referenced_by: Vec::new(),
        view_query: None,
        sequence: None,
        options: Vec::new(),
        schema_version: 0,
        estimated_rows: 0.0,
        statistics: Default::default(),
    })
}

/// Whether an expression prints as a call with its own parentheses, so that an index key needs none around it.
fn looks_like_function(expr: &Expr) -> bool {
    use cairn_analyze::query::CallForm;
    match expr {
        Expr::Function(call) => matches!(call.form, CallForm::Call),
        Expr::Coalesce { .. } | Expr::MinMax { .. } | Expr::NullIf(_) | Expr::SqlValue { .. } => true,
        _ => false,
    }
}

impl System<'_> {
    pub(super) fn deparse_context(&self, pretty: bool) -> DeparseContext<'_> {
        DeparseContext {
            catalog: &self.catalog,
            path: &self.path,
            env: self.env,
            form: Form::Display { pretty },
        }
    }

    /// Canonical text over a relation's columns, analyzed.
    fn analyzed(&self, text: &str, relation: Option<&Arc<Relation>>) -> Result<Expr> {
        analyze_expression(text, relation, &self.analyze_context(&SearchPath::pg_catalog()))
    }

    /// Canonical text, for display.
    pub(super) fn displayed(
        &self,
        text: &str,
        relation: Option<&Arc<Relation>>,
        pretty: bool,
    ) -> Result<String> {
        let expr = self.analyzed(text, relation)?;
        let context = self.deparse_context(pretty);
        Ok(match relation {
            Some(relation) => deparse_expression(&expr, &RelationColumns(relation), &context),
            None => deparse_expression(&expr, &DomainValue, &context),
        })
    }

    /// `pg_get_expr`: a stored expression, or a list of them.
    fn stored_expression(&self, text: &str, relation: Oid, pretty: bool) -> Result<Option<String>> {
        let relation = match relation {
            0 => None,
            oid => match self.catalog.relation(oid) {
                Some(relation) => Some(relation),
                None => return Ok(None),
            },
        };
        let parts = split_expressions(text);
        let shown: Result<Vec<String>> =
            parts.iter().map(|part| self.displayed(part, relation, pretty)).collect();
        Ok(Some(shown?.join(", ")))
    }

    /// The relation's name, qualified where the search path needs it.
    fn relation_name(&self, relation: &Relation) -> String {
        if self.catalog.is_relation_visible(&self.path, relation) {
            quote_identifier(&relation.name)
        } else {
            self.qualified_relation_name(relation)
        }
    }

    fn qualified_relation_name(&self, relation: &Relation) -> String {
        quote_qualified(&self.catalog.namespace_name(relation.namespace), &relation.name)
    }

    fn column_name(relation: &Relation, attribute: i16) -> String {
        let column = usize::try_from(attribute - 1).ok().and_then(|column| relation.columns.get(column));
        column.map_or_else(|| "?".to_owned(), |column| quote_identifier(&column.name))
    }

    fn column_list(relation: &Relation, attributes: &[i16]) -> String {
        let names: Vec<String> =
            attributes.iter().map(|attribute| Self::column_name(relation, *attribute)).collect();
        names.join(", ")
    }

    // Indexes.

    fn index_and_table(&self, oid: Oid) -> Option<(&Arc<Index>, &Arc<Relation>)> {
        let index = self.catalog.index(oid)?;
        Some((index, self.catalog.relation(index.table)?))
    }

    /// `create index ...`; `None` if the oid is no index.
    fn index_definition(&self, oid: Oid, pretty: bool) -> Result<Option<String>> {
        let Some((index, table)) = self.index_and_table(oid) else { return Ok(None) };
        let unique = if index.unique { "UNIQUE " } else { "" };
        let table_name = if pretty { self.relation_name(table) } else { self.qualified_relation_name(table) };
        let method = self.catalog.row_by_oid(pg_class::TABLE, oid).map_or(0, |row| row.oid(pg_class::RELAM));
        let is_hash = method == access_methods::HASH;
        let method = if is_hash { "hash" } else { "btree" };
        let mut text = format!(
            "CREATE {unique}INDEX {} ON {table_name} USING {method} (",
            quote_identifier(&index.name)
        );
        for (position, key) in index.keys.iter().enumerate() {
            if position > 0 {
                text.push_str(", ");
            }
            text.push_str(&self.index_key_text(key, table, pretty)?);
            self.push_index_key_options(key, table, &mut text)?;
            // `using hash` says it of all columns.
            if key.hash && !is_hash {
                text.push_str(" HASH");
            }
        }
        text.push(')');
        if !index.include.is_empty() {
            text.push_str(&format!(" INCLUDE ({})", Self::column_list(table, &index.include)));
        }
        if index.nulls_not_distinct {
            text.push_str(" NULLS NOT DISTINCT");
        }
        if let Some(relation) = self.catalog.relation(oid)
            && !relation.options.is_empty()
        {
            text.push_str(&format!(" WITH ({})", reloptions_text(&relation.options)));
        }
        if let Some(predicate) = &index.predicate {
            text.push_str(" WHERE ");
            text.push_str(&self.displayed(predicate, Some(table), pretty)?);
        }
        Ok(Some(text))
    }

    /// One column of an index, from 1, INCLUDE columns counted; without its options. An empty text for a number past
    /// the last.
    fn index_column(&self, oid: Oid, column: i32, pretty: bool) -> Result<Option<String>> {
        let Some((index, table)) = self.index_and_table(oid) else { return Ok(None) };
        let Some(position) = usize::try_from(column - 1).ok() else { return Ok(Some(String::new())) };
        if let Some(key) = index.keys.get(position) {
            return self.index_key_text(key, table, pretty).map(Some);
        }
        let included = index.include.get(position - index.keys.len());
        Ok(Some(included.map_or_else(String::new, |attribute| Self::column_name(table, *attribute))))
    }

    fn index_key_text(&self, key: &IndexKey, table: &Arc<Relation>, pretty: bool) -> Result<String> {
        match &key.key {
            IndexKeyColumn::Attribute(attribute) => Ok(Self::column_name(table, *attribute)),
            IndexKeyColumn::Expression(text) => {
                let expr = self.analyzed(text, Some(table))?;
                let shown = deparse_expression(&expr, &RelationColumns(table), &self.deparse_context(pretty));
                Ok(if looks_like_function(&expr) { shown } else { format!("({shown})") })
            }
        }
    }

    /// Collation, operator class and order, as far as they are not what they would be anyway.
    fn push_index_key_options(&self, key: &IndexKey, table: &Arc<Relation>, text: &mut String) -> Result<()> {
        let own = match &key.key {
            IndexKeyColumn::Attribute(attribute) => usize::try_from(attribute - 1)
                .ok()
                .and_then(|column| table.columns.get(column))
                .map(|column| column.ty),
            IndexKeyColumn::Expression(text) => {
                Some(cairn_analyze::expr_type(&self.analyzed(text, Some(table))?))
            }
        };
        let own = own.unwrap_or(key.ty);
        if key.ty.collation != 0 && key.ty.collation != own.collation {
            text.push_str(" COLLATE ");
            text.push_str(&self.env.reg_name(types::REGCOLLATION, key.ty.collation).unwrap_or_default());
        }
        let method = self.catalog.opclass(key.opclass).map(|class| class.method);
        if let (Some(class), Some(method)) = (self.catalog.opclass(key.opclass), method)
            && self.catalog.default_opclass(method, own.oid).map(|default| default.oid) != Some(class.oid)
        {
            text.push(' ');
            push_identifier(&class.name, text);
        }
        match (key.hash, key.descending, key.nulls_first) {
            (false, true, true) => text.push_str(" DESC"),
            (false, true, false) => text.push_str(" DESC NULLS LAST"),
            (false, false, true) => text.push_str(" NULLS FIRST"),
            _ => {}
        }
        Ok(())
    }

    // Constraints.

    pub(super) fn constraint_definition(&self, constraint: &Constraint, pretty: bool) -> Result<String> {
        let table = self.catalog.relation(constraint.table);
        let mut text = match constraint.kind {
            ConstraintKind::ForeignKey => self.foreign_key_text(constraint),
            ConstraintKind::PrimaryKey | ConstraintKind::Unique => self.key_text(constraint, table)?,
            ConstraintKind::Check => {
                let stored = constraint.expression.as_deref().unwrap_or("true");
                let shown = match (table, self.catalog.type_by_oid(constraint.domain)) {
                    (None, Some(domain)) => {
                        let relation = domain_relation(self, domain);
                        let expr = self.analyzed(stored, Some(&relation))?;
                        deparse_expression(&expr, &DomainValue, &self.deparse_context(pretty))
                    }
                    _ => self.displayed(stored, table, pretty)?,
                };
                let row = self.catalog.row_by_oid(pg_constraint::TABLE, constraint.oid);
                let no_inherit = row.is_some_and(|row| row.bool(pg_constraint::CONNOINHERIT));
                format!("CHECK ({shown}){}", if no_inherit { " NO INHERIT" } else { "" })
            }
            ConstraintKind::NotNull => {
                let columns = table.map(|table| Self::column_list(table, &constraint.columns));
                format!("NOT NULL {}", columns.unwrap_or_default())
            }
            ConstraintKind::Exclusion => return Err(Error::unsupported("exclusion constraints are")),
        };
        if constraint.deferrable {
            text.push_str(" DEFERRABLE");
        }
        if constraint.deferred {
            text.push_str(" INITIALLY DEFERRED");
        }
        if !constraint.validated {
            text.push_str(" NOT VALID");
        }
        Ok(text)
    }

    fn foreign_key_text(&self, constraint: &Constraint) -> String {
        let columns = |table: Oid, attributes: &[i16]| -> String {
            self.catalog
                .relation(table)
                .map_or_else(String::new, |table| Self::column_list(table, attributes))
        };
        let target = self.catalog.relation(constraint.foreign_table);
        let mut text = format!(
            "FOREIGN KEY ({}) REFERENCES {}({})",
            columns(constraint.table, &constraint.columns),
            target.map_or_else(String::new, |target| self.relation_name(target)),
            columns(constraint.foreign_table, &constraint.foreign_columns)
        );
        if constraint.match_full {
            text.push_str(" MATCH FULL");
        }
        for (event, action) in [(" ON UPDATE ", constraint.on_update), (" ON DELETE ", constraint.on_delete)]
        {
            if let Some(action) = action_text(action) {
                text.push_str(event);
                text.push_str(action);
            }
        }
        if !constraint.on_delete_columns.is_empty() {
            text.push_str(&format!(" ({})", columns(constraint.table, &constraint.on_delete_columns)));
        }
        text
    }

    fn key_text(&self, constraint: &Constraint, table: Option<&Arc<Relation>>) -> Result<String> {
        let index = self.catalog.index(constraint.index);
        let mut text = match constraint.kind {
            ConstraintKind::PrimaryKey => "PRIMARY KEY (".to_owned(),
            _ if index.is_some_and(|index| index.nulls_not_distinct) => {
                "UNIQUE NULLS NOT DISTINCT (".to_owned()
            }
            _ => "UNIQUE (".to_owned(),
        };
        let Some(table) = table else { return Ok(text) };
        match index {
            Some(index) => {
                for (position, key) in index.keys.iter().enumerate() {
                    if position > 0 {
                        text.push_str(", ");
                    }
                    text.push_str(&self.index_key_text(key, table, false)?);
                    // Only Cairn's own grammar can give a key column an order.
                    if key.hash {
                        text.push_str(" HASH");
                    } else if key.descending {
                        text.push_str(" DESC");
                    }
                }
                text.push(')');
                if !index.include.is_empty() {
                    text.push_str(&format!(" INCLUDE ({})", Self::column_list(table, &index.include)));
                }
            }
            None => {
                text.push_str(&Self::column_list(table, &constraint.columns));
                text.push(')');
            }
        }
        Ok(text)
    }

    // Views.

    /// The query of a view, with a semicolon; `None` for anything else.
    pub(super) fn view_definition(&self, oid: Oid, pretty: bool) -> Result<Option<String>> {
        let Some(text) = self.catalog.relation(oid).and_then(|relation| relation.view_query.as_ref()) else {
            return Ok(None);
        };
        let path = SearchPath::pg_catalog();
        let mut statements = parse(text)?;
        let Some(statement) = statements.pop() else { return Ok(None) };
        match analyze(&statement, &self.analyze_context(&path))? {
            Statement::Query(query) => {
                let text = deparse_query(&query, &self.deparse_context(pretty));
                // PostgreSQL's layout begins with a blank, unless a parenthesis comes first.
                let blank = if text.starts_with('(') { "" } else { " " };
                Ok(Some(format!("{blank}{text};")))
            }
            _ => Ok(None),
        }
    }

    /// The only rules are those of views.
    fn rule_definition(&self, oid: Oid, pretty: bool) -> Result<Option<String>> {
        use cairn_catalog::columns::pg_rewrite as c;
        let Some(row) = self.catalog.row_by_oid(c::TABLE, oid) else { return Ok(None) };
        let Some(view) = self.catalog.relation(row.oid(c::EV_CLASS)) else { return Ok(None) };
        let Some(query) = self.view_definition(view.oid, pretty)? else { return Ok(None) };
        let name = if pretty { self.relation_name(view) } else { self.qualified_relation_name(view) };
        Ok(Some(format!(
            "CREATE RULE {} AS\n    ON SELECT TO {name} DO INSTEAD {query}",
            quote_identifier(row.str(c::RULENAME)),
        )))
    }

    // Sequences of columns.

    /// `pg_get_serial_sequence`: the sequence that a column owns, qualified.
    fn serial_sequence(&self, table: &str, column: &str) -> Result<Option<String>> {
        let oid = self.env.reg_lookup(types::REGCLASS, table)?;
        let relation = self.catalog.relation(oid).ok_or_else(|| Error::internal("relation vanished"))?;
        let column = relation
            .columns
            .iter()
            .find(|candidate| !candidate.dropped && *candidate.name == *column)
            .ok_or_else(|| {
                err!(UNDEFINED_COLUMN, "column \"{column}\" of relation \"{}\" does not exist", relation.name)
            })?;
        let key = [
            (pg_depend::REFCLASSID, Datum::Oid(pg_class::TABLE)),
            (pg_depend::REFOBJID, Datum::Oid(oid)),
            (pg_depend::REFOBJSUBID, Datum::Int4(i32::from(column.attnum))),
        ];
        let owned = self.catalog.user_rows_by(pg_depend::TABLE, &key).find_map(|row| {
            let fits = row.oid(pg_depend::CLASSID) == pg_class::TABLE
                && matches!(row.char(pg_depend::DEPTYPE), b'a' | b'i');
            let dependent = self.catalog.relation(row.oid(pg_depend::OBJID)).filter(|_| fits)?;
            (dependent.kind == RelationKind::Sequence).then_some(dependent)
        });
        Ok(owned.map(|sequence| self.qualified_relation_name(sequence)))
    }
}

/// `None` for the action that is not written.
fn action_text(action: ForeignKeyAction) -> Option<&'static str> {
    match action {
        ForeignKeyAction::NoAction => None,
        ForeignKeyAction::Restrict => Some("RESTRICT"),
        ForeignKeyAction::Cascade => Some("CASCADE"),
        ForeignKeyAction::SetNull => Some("SET NULL"),
        ForeignKeyAction::SetDefault => Some("SET DEFAULT"),
    }
}

/// `fillfactor='70', ...` of a WITH clause.
fn reloptions_text(options: &[cairn_types::Text]) -> String {
    let shown: Vec<String> = options
        .iter()
        .map(|option| {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let plain = !value.is_empty() && quote_identifier(value) == value;
            let value = if plain { value.to_owned() } else { cairn_types::quote::quote_literal(value) };
            format!("{}={value}", quote_identifier(name))
        })
        .collect();
    shown.join(", ")
}
