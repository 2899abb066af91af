//! Types of users: enums, composite types, domains.

use cairn_catalog::columns::*;
use cairn_catalog::system_table::blank_row;
use cairn_catalog::{EnumLabel, RelationKind, RowExt, Type, TypeKind};
use cairn_exec::TxnResultExt;
use cairn_txn::TableLockMode;
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::{self, ConstrType, Node, node::Node as NodeEnum};

use super::context::DdlContext;
use super::depend::{self, Address, Dependency};
use super::node::{inner, qualified, range_var, required, strings};
use super::relation::{self, ColumnSpec, RelationSpec};
use super::rows::{self, TypeRow};
use super::{names, table, text};

/// Schema and name of a new type; 42710 if it is taken.
fn new_type(cx: &mut DdlContext<'_>, name: &[Node]) -> Result<(Oid, String)> {
    let name = range_var(cx, name)?;
    let namespace = names::creation_namespace(cx, &name)?;
    cx.lock_name(pg_type::TABLE, namespace, &name.relname)?;
    if cx.catalog.type_by_name(namespace, &name.relname).is_some() {
        return Err(err!(DUPLICATE_OBJECT, "type \"{}\" already exists", name.relname));
    }
    Ok((namespace, name.relname))
}

/// Writes a type that is no relation's, its array type, and what they depend on.
fn put_type(
    cx: &mut DdlContext<'_>,
    namespace: Oid,
    name: &str,
    make: impl Fn(Oid, Oid) -> Vec<Datum>,
    more: impl FnOnce(&mut cairn_catalog::CatalogWriter<'_>, Oid) -> Result<()>,
) -> Result<Oid> {
    let (oid, array) = (cx.new_oid()?, cx.new_oid()?);
    let array_name = rows::array_type_name(&cx.catalog, namespace, name);
    let owner = cx.user;
    cx.change(|writer| {
        rows::put(writer, pg_type::TABLE, make(oid, array))?;
        let array_row = TypeRow {
            oid: array,
            name: &array_name,
            namespace,
            owner,
            kind: b'b',
            relation: 0,
            element: oid,
            array: 0,
        };
        rows::put(writer, pg_type::TABLE, rows::type_row(&array_row))?;
        let this = Address::new(pg_type::TABLE, oid);
        let schema = Address::new(pg_namespace::TABLE, namespace);
        depend::record(writer, this, schema, Dependency::Normal)?;
        depend::record(writer, Address::new(pg_type::TABLE, array), this, Dependency::Internal)?;
        more(writer, oid)
    })?;
    Ok(oid)
}

fn enum_row(oid: Oid, type_oid: Oid, order: f32, label: &str) -> Vec<Datum> {
    use pg_enum as c;
    let mut row = blank_row(c::TABLE);
    row[c::OID] = Datum::Oid(oid);
    row[c::ENUMTYPID] = Datum::Oid(type_oid);
    row[c::ENUMSORTORDER] = Datum::Float4(order);
    row[c::ENUMLABEL] = Datum::text(label);
    row
}

fn check_label(label: &str) -> Result<()> {
    if label.len() > names::NAME_MAX {
        return Err(err!(INVALID_NAME, "invalid enum label \"{label}\"")
            .detail(format!("Labels must be {} bytes or less.", names::NAME_MAX)));
    }
    Ok(())
}

pub fn create_enum(cx: &mut DdlContext<'_>, statement: &protobuf::CreateEnumStmt) -> Result<()> {
    let (namespace, name) = new_type(cx, &statement.type_name)?;
    let labels = strings(&statement.vals);
    for (at, label) in labels.iter().enumerate() {
        check_label(label)?;
        if labels[..at].contains(label) {
            return Err(err!(
                UNIQUE_VIOLATION,
                "duplicate key value violates unique constraint \"pg_enum_typid_label_index\""
            ));
        }
    }
    let oids = labels.iter().map(|_| cx.new_oid()).collect::<Result<Vec<_>>>()?;
    let owner = cx.user;
    let make = |oid, array| {
        rows::type_row(&TypeRow {
            oid,
            name: &name,
            namespace,
            owner,
            kind: b'e',
            relation: 0,
            element: 0,
            array,
        })
    };
    put_type(cx, namespace, &name, make, |writer, type_oid| {
        for (at, (label, oid)) in labels.iter().zip(&oids).enumerate() {
            rows::put(writer, pg_enum::TABLE, enum_row(*oid, type_oid, (at + 1) as f32, label))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// The enum type of a name. 42704, 42809.
fn find_enum(cx: &mut DdlContext<'_>, name: &[Node]) -> Result<std::sync::Arc<Type>> {
    let (schema, plain) = qualified(cx, name)?;
    let schema_part = (!schema.is_empty()).then_some(&*schema);
    let shown = if schema.is_empty() { plain.clone() } else { format!("{schema}.{plain}") };
    let found = cx.catalog.resolve_type(&cx.search_path, schema_part, &plain).cloned();
    let found = found.ok_or_else(|| err!(UNDEFINED_OBJECT, "type \"{shown}\" does not exist"))?;
    if found.kind != TypeKind::Enum {
        return Err(err!(WRONG_OBJECT_TYPE, "{shown} is not an enum"));
    }
    cx.require_owner(cairn_catalog::acl::ObjectKind::Type, found.oid)?;
    cx.lock(pg_type::TABLE, found.oid, TableLockMode::Exclusive)?;
    let again = cx.catalog.type_by_oid(found.oid).cloned();
    again.ok_or_else(|| err!(UNDEFINED_OBJECT, "type \"{shown}\" does not exist"))
}

pub fn alter_enum(cx: &mut DdlContext<'_>, statement: &protobuf::AlterEnumStmt) -> Result<()> {
    let object = find_enum(cx, &statement.type_name)?;
    let label = &*statement.new_val;
    check_label(label)?;
    let find = |label: &str| object.labels.iter().position(|known| &*known.label == label);
    let unknown = |label: &str| err!(INVALID_PARAMETER_VALUE, "\"{label}\" is not an existing enum label");
    if !statement.old_val.is_empty() {
        let at = find(&statement.old_val).ok_or_else(|| unknown(&statement.old_val))?;
        if find(label).is_some() {
            return Err(err!(DUPLICATE_OBJECT, "enum label \"{label}\" already exists"));
        }
        let before = cx.catalog.clone();
        let oid = object.labels[at].value.oid;
        cx.change(|writer| {
            writer
                .update_where(
                    pg_enum::TABLE,
                    |row| row.oid(pg_enum::OID) == oid,
                    |row| row[pg_enum::ENUMLABEL] = Datum::text(label),
                )
                .sql()?;
            Ok(())
        })?;
        return super::rename::refresh_texts(cx, &before, &statement.old_val);
    }
    if find(label).is_some() {
        if statement.skip_if_new_val_exists {
            cx.env.notice(
                err!(DUPLICATE_OBJECT, "enum label \"{label}\" already exists, skipping")
                    .severity(cairn_types::Severity::Notice),
            );
            return Ok(());
        }
        return Err(err!(DUPLICATE_OBJECT, "enum label \"{label}\" already exists"));
    }
    let order = match &*statement.new_val_neighbor {
        "" => object.labels.last().map_or(1.0, |last| last.value.sort_order + 1.0),
        neighbor => {
            let at = find(neighbor).ok_or_else(|| unknown(neighbor))?;
            between(&object.labels, at, statement.new_val_is_after)?
        }
    };
    let (oid, type_oid) = (cx.new_oid()?, object.oid);
    cx.change(|writer| rows::put(writer, pg_enum::TABLE, enum_row(oid, type_oid, order, label)))
}

/// A sort order next to the label at `at`. Orders of labels never change: values carry them.
fn between(labels: &[EnumLabel], at: usize, after: bool) -> Result<f32> {
    let order = |at: usize| labels.get(at).map(|label| label.value.sort_order);
    let here = order(at).unwrap_or(0.0);
    let other = if after { order(at + 1) } else { at.checked_sub(1).and_then(order) };
    let Some(other) = other else { return Ok(if after { here + 1.0 } else { here - 1.0 }) };
    let middle = (here + other) / 2.0;
    if middle == here || middle == other {
        return Err(Error::unsupported("another label between these two is"));
    }
    Ok(middle)
}

pub fn create_composite(cx: &mut DdlContext<'_>, statement: &protobuf::CompositeTypeStmt) -> Result<()> {
    let name = required(&statement.typevar)?;
    let namespace = names::creation_namespace(cx, name)?;
    cx.lock_name(pg_type::TABLE, namespace, &name.relname)?;
    if cx.catalog.type_by_name(namespace, &name.relname).is_some() {
        return Err(err!(DUPLICATE_OBJECT, "type \"{}\" already exists", name.relname));
    }
    relation::check_name_is_free(cx, namespace, &name.relname, false)?;
    let mut columns = Vec::new();
    for node in &statement.coldeflist {
        let NodeEnum::ColumnDef(column) = inner(node)? else { continue };
        let mut spec = ColumnSpec::new(column.colname.clone(), table::column_type(cx, column)?);
        spec.dimensions = column.type_name.as_ref().map_or(0, |name| name.array_bounds.len() as i32);
        columns.push(spec);
    }
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name == column.name) {
            return Err(err!(DUPLICATE_COLUMN, "attribute \"{}\" specified more than once", column.name));
        }
    }
    let spec = RelationSpec {
        name: &name.relname,
        namespace,
        kind: RelationKind::CompositeType,
        persistence: b'p',
        columns: &columns,
        options: Vec::new(),
    };
    relation::create(cx, &spec)?;
    Ok(())
}

pub fn create_domain(cx: &mut DdlContext<'_>, statement: &protobuf::CreateDomainStmt) -> Result<()> {
    let (namespace, name) = new_type(cx, &statement.domainname)?;
    let type_name = required(&statement.type_name)?;
    let (base, typmod) = cairn_analyze::resolve_type_name(type_name, &cx.analyze_context())?;
    let base_type = cx
        .catalog
        .type_by_oid(base)
        .cloned()
        .ok_or_else(|| Error::internal("a type that was just found is gone"))?;
    if matches!(base_type.kind, TypeKind::Pseudo) {
        return Err(err!(
            DATATYPE_MISMATCH,
            "\"{}\" is not a valid base type for a domain",
            cx.catalog.type_name(base, &cx.search_path)
        ));
    }
    let base_row =
        cx.catalog.row_by_oid(pg_type::TABLE, base).ok_or_else(|| Error::internal("a type without a row"))?;
    let mut not_null = false;
    let mut default: Option<String> = None;
    let mut checks = Vec::new();
    let mut ty = text::type_ref(&cx.catalog, base, typmod);
    if let Some(clause) = &statement.coll_clause {
        ty.collation = super::table::collation(cx, clause, ty).map_err(|mut error| {
            // PostgreSQL tells no position of a type that has none.
            if error.sqlstate() == cairn_types::sqlstate::DATATYPE_MISMATCH {
                error.report_mut().location = None;
            }
            error
        })?;
    }
    for node in &statement.constraints {
        let NodeEnum::Constraint(constraint) = inner(node)? else { continue };
        match constraint.contype() {
            ConstrType::ConstrNotnull => not_null = true,
            ConstrType::ConstrNull => not_null = false,
            ConstrType::ConstrDefault => {
                if default.is_some() {
                    return Err(err!(SYNTAX_ERROR, "multiple default expressions"));
                }
                if let Some(node) = constraint.raw_expr.as_deref() {
                    let expr = text::default_expression(cx, node, &name, ty)?;
                    default = Some(text::stored_value(&expr, None, &cx.catalog, cx.env)?);
                }
            }
            ConstrType::ConstrCheck => checks.push((**constraint).clone()),
            _ => return Err(Error::unsupported("this constraint of a domain is")),
        }
    }
    let owner = cx.user;
    let make = |oid: Oid, array: Oid| {
        use pg_type as c;
        let mut row = base_row.to_vec();
        row[c::OID] = Datum::Oid(oid);
        row[c::TYPNAME] = Datum::text(&*name);
        row[c::TYPNAMESPACE] = Datum::Oid(namespace);
        row[c::TYPOWNER] = Datum::Oid(owner);
        row[c::TYPTYPE] = Datum::Char(b'd');
        row[c::TYPISPREFERRED] = Datum::Bool(false);
        row[c::TYPISDEFINED] = Datum::Bool(true);
        row[c::TYPRELID] = Datum::Oid(0);
        row[c::TYPSUBSCRIPT] = Datum::Oid(0);
        row[c::TYPELEM] = Datum::Oid(0);
        row[c::TYPARRAY] = Datum::Oid(array);
        row[c::TYPINPUT] = Datum::Oid(DOMAIN_IN);
        row[c::TYPRECEIVE] = Datum::Oid(DOMAIN_RECV);
        row[c::TYPMODIN] = Datum::Oid(0);
        row[c::TYPMODOUT] = Datum::Oid(0);
        row[c::TYPNOTNULL] = Datum::Bool(not_null);
        row[c::TYPBASETYPE] = Datum::Oid(base);
        row[c::TYPTYPMOD] = Datum::Int4(typmod);
        row[c::TYPCOLLATION] = Datum::Oid(ty.collation);
        row[c::TYPDEFAULTBIN] = default.as_deref().map_or(Datum::Null, Datum::text);
        row[c::TYPDEFAULT] = default.as_deref().map_or(Datum::Null, Datum::text);
        row[c::TYPACL] = Datum::Null;
        row
    };
    let base_address = depend::of_type(base, &cx.catalog);
    let oid = put_type(cx, namespace, &name, make, |writer, oid| match base_address {
        Some(on) => depend::record(writer, Address::new(pg_type::TABLE, oid), on, Dependency::Normal),
        None => Ok(()),
    })?;
    for check in &checks {
        add_domain_check(cx, oid, namespace, &name, check)?;
    }
    Ok(())
}

const DOMAIN_IN: Oid = 2597;
const DOMAIN_RECV: Oid = 2598;

fn add_domain_check(
    cx: &mut DdlContext<'_>,
    domain: Oid,
    namespace: Oid,
    domain_name: &str,
    check: &protobuf::Constraint,
) -> Result<()> {
    let node = check.raw_expr.as_deref().ok_or_else(|| Error::internal("a check without expression"))?;
    let expr = text::domain_check(cx, node, domain)?;
    let stored = text::stored_domain_expression(&expr, &cx.catalog, cx.env)?;
    let name = if check.conname.is_empty() {
        names::free_constraint_name(&cx.catalog, namespace, domain_name, None, "check", &[])
    } else {
        check.conname.clone()
    };
    let oid = cx.new_oid()?;
    let on: Vec<Address> = depend::of_expression(&expr, 0, &cx.catalog);
    cx.change(|writer| {
        let row = super::constraint::Row {
            oid,
            name: &name,
            namespace,
            kind: b'c',
            domain,
            expression: Some(&stored),
            ..super::constraint::Row::default()
        };
        rows::put(writer, pg_constraint::TABLE, super::constraint::row(&row))?;
        let address = Address::new(pg_constraint::TABLE, oid);
        depend::record(writer, address, Address::new(pg_type::TABLE, domain), Dependency::Auto)?;
        for on in on {
            depend::record(writer, address, on, Dependency::Normal)?;
        }
        Ok(())
    })
}
