//! What an object is called: pg_describe_object, pg_identify_object, and small facts about single objects.
//!
//! A reference is a catalog's oid, an object's oid in it, and a column's number or 0, as in pg_depend.

use cairn_catalog::columns::*;
use cairn_catalog::{Catalog, CatalogRow, RelationKind, RowExt, SearchPath, TypeKind};
use cairn_types::oid::access_methods;
use cairn_types::quote::{quote_identifier, quote_qualified};
use cairn_types::{Datum, Env, Error, Oid, Result, err, types};

use super::{Arguments, System, optional_text, texts, values};

/// What is known of an object's name.
pub struct Identity {
    /// For people, as in `DETAIL: view v depends on table t`; names as short as the search path allows.
    pub description: String,
    /// `table`, `table column`, `function`, ...
    pub kind: &'static str,
    pub schema: Option<String>,
    /// The object's own name, quoted where it must be; `None` where it is not unique in its schema.
    pub name: Option<String>,
    /// Unique in the database, whatever the search path.
    pub identity: String,
    /// Name and arguments, as pg_get_object_address takes them.
    pub address: (Vec<String>, Vec<String>),
}

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    let column =
        |position: usize| -> Result<i16> { Ok(i16::try_from(a.int4(position)?).unwrap_or(i16::MAX)) };
    Ok(Some(match system.name {
        "pg_describe_object" => {
            let found = system.identify(a.oid(0)?, a.oid(1)?, column(2)?)?;
            optional_text(found.map(|identity| identity.description))
        }
        "pg_identify_object" => match system.identify(a.oid(0)?, a.oid(1)?, column(2)?)? {
            Some(found) => system.record(vec![
                Datum::text(found.kind),
                optional_text(found.schema),
                optional_text(found.name),
                Datum::text(found.identity),
            ]),
            None => system.record(vec![Datum::Null; 4]),
        },
        "pg_identify_object_as_address" => match system.identify(a.oid(0)?, a.oid(1)?, column(2)?)? {
            Some(found) => {
                system.record(vec![Datum::text(found.kind), texts(found.address.0), texts(found.address.1)])
            }
            None => system.record(vec![Datum::Null; 3]),
        },
        // Without a modifier the name is that of the type in general: character, not bpchar.
        "format_type" => match (a.any(0), a.any(1)) {
            (Datum::Null, _) => Datum::Null,
            (_, Datum::Null) => Datum::text(system.catalog.type_name(a.oid(0)?, &system.path)),
            _ => Datum::text(system.catalog.format_type(a.oid(0)?, a.int4(1)?, &system.path)),
        },
        // The functions of these names are in SQL: their bodies in cairn-functions come here.
        "obj_description" => match a.len() {
            1 => optional_text(system.any_comment(a.oid(0)?)),
            _ => optional_text(system.comment(a.str(1)?, a.oid(0)?, 0)),
        },
        "col_description" => optional_text(system.comment("pg_class", a.oid(0)?, a.int4(1)?)),
        "shobj_description" => {
            let (object, class) = (a.oid(0)?, a.str(1)?);
            let class = pg_catalog_table(class);
            let rows = system.catalog.system_rows(pg_shdescription::TABLE);
            let found = rows.iter().find(|row| {
                row.oid(pg_shdescription::OBJOID) == object && row.oid(pg_shdescription::CLASSOID) == class
            });
            optional_text(found.map(|row| row.text(pg_shdescription::DESCRIPTION)))
        }
        "pg_get_userbyid" => {
            let oid = a.oid(0)?;
            Datum::text(system.role_name(oid).unwrap_or_else(|| format!("unknown (OID={oid})").into()))
        }
        "pg_collation_for" => match system.info.collation {
            0 => Datum::Null,
            collation => optional_text(system.env.reg_name(types::REGCOLLATION, collation)),
        },
        "pg_get_replica_identity_index" => {
            let relation = system.catalog.relation(a.oid(0)?);
            relation
                .and_then(|relation| relation.primary_key.as_ref())
                .map_or(Datum::Null, |key| Datum::Oid(key.oid))
        }
        // There is no logical replication.
        "pg_relation_is_publishable" => {
            system.catalog.relation(a.oid(0)?).map_or(Datum::Null, |_| Datum::Bool(false))
        }
        "pg_relation_is_updatable" => Datum::Int4(system.updatable_events(a.oid(0)?)),
        "pg_column_is_updatable" => {
            const UPDATE_AND_DELETE: i32 = 1 << 2 | 1 << 4;
            let events = system.updatable_events(a.oid(0)?);
            Datum::Bool(a.int2(1)? > 0 && events & UPDATE_AND_DELETE == UPDATE_AND_DELETE)
        }
        // Values are compressed by the storage, block by block.
        "pg_column_compression" => Datum::Null,
        "pg_index_column_has_property" => system.index_column_property(a.oid(0)?, a.int4(1)?, a.str(2)?),
        "pg_index_has_property" => system.index_property(a.oid(0)?, a.str(1)?),
        "pg_indexam_has_property" => access_method_property(a.oid(0)?, a.str(1)?),
        "enum_first" | "enum_last" | "enum_range_all" | "enum_range_bounds" => system.enum_function(a)?,
        "pg_partition_root" => Datum::Null,
        "pg_partition_tree" | "pg_partition_ancestors" => system.rows([]),
        "pg_options_to_table" => options_to_table(system, a)?,
        "pg_available_extensions" => system.available_extensions(),
        "pg_available_extension_versions" => system.available_extension_versions(),
        "pg_get_keywords" => super::settings::keywords(system),
        "pg_trigger_depth" => Datum::Int4(0),
        _ => return Ok(None),
    }))
}

/// The system catalog with this name; 0 if there is none.
fn pg_catalog_table(name: &str) -> Oid {
    let mut tables = cairn_catalog::system_table::system_tables();
    tables.find(|table| *table.name == *name).map_or(0, |table| table.oid)
}

/// `name=value` elements as rows of two columns.
fn options_to_table(system: &System<'_>, a: &Arguments<'_>) -> Result<Datum> {
    let rows = a.array(0)?.elements.iter().filter_map(|element| match element {
        Datum::Text(option) => Some(match option.split_once('=') {
            Some((name, value)) => vec![Datum::text(name), Datum::text(value)],
            None => vec![Datum::Text(option.clone()), Datum::Null],
        }),
        _ => None,
    });
    Ok(system.rows(rows))
}

fn access_method_property(method: Oid, property: &str) -> Datum {
    let btree = method == access_methods::BTREE;
    if !btree && method != access_methods::HASH {
        return Datum::Null;
    }
    match property.to_ascii_lowercase().as_str() {
        "can_order" | "can_unique" | "can_multi_col" | "can_include" => Datum::Bool(btree),
        "can_exclude" => Datum::Bool(false),
        _ => Datum::Null,
    }
}

/// An object's description for messages; `None` if there is none.
pub fn object_description(
    catalog: &std::sync::Arc<Catalog>,
    path: &SearchPath,
    env: &dyn Env,
    class: Oid,
    object: Oid,
    column: i16,
) -> Option<String> {
    identify(catalog, path, env, class, object, column).ok().flatten().map(|identity| identity.description)
}

fn relation_words(kind: RelationKind) -> &'static str {
    match kind {
        RelationKind::Table | RelationKind::PartitionedTable => "table",
        RelationKind::Index => "index",
        RelationKind::Sequence => "sequence",
        RelationKind::View => "view",
        RelationKind::MaterializedView => "materialized view",
        RelationKind::CompositeType => "composite type",
        RelationKind::Toast => "toast table",
    }
}

/// Objects without a schema whose catalog has nothing but a name to call them by: catalog, column of the name, word.
const PLAIN: &[(Oid, usize, &str)] = &[
    (pg_namespace::TABLE, pg_namespace::NSPNAME, "schema"),
    (pg_authid::TABLE, pg_authid::ROLNAME, "role"),
    (pg_database::TABLE, pg_database::DATNAME, "database"),
    (pg_extension::TABLE, pg_extension::EXTNAME, "extension"),
    (pg_language::TABLE, pg_language::LANNAME, "language"),
    (pg_am::TABLE, pg_am::AMNAME, "access method"),
    (pg_tablespace::TABLE, pg_tablespace::SPCNAME, "tablespace"),
];

fn any_row(catalog: &Catalog, class: Oid, object: Oid) -> Option<CatalogRow> {
    let table = cairn_catalog::system_table::system_table(class)?;
    if table.shared {
        return catalog.system_rows(class).into_iter().find(|row| row.oid(0) == object);
    }
    catalog.row_by_oid(class, object)
}

fn identify(
    catalog: &std::sync::Arc<Catalog>,
    path: &SearchPath,
    env: &dyn Env,
    class: Oid,
    object: Oid,
    column: i16,
) -> Result<Option<Identity>> {
    let schema_name = |oid: Oid| catalog.namespace_name(oid).to_string();
    let all_qualified = SearchPath::default();
    let type_name = |oid: Oid| catalog.type_name(oid, path);
    let full_type_name = |oid: Oid| full_type_name(catalog, oid);
    if let Some((_, name_column, word)) = PLAIN.iter().find(|(candidate, ..)| *candidate == class) {
        return Ok(any_row(catalog, class, object).map(|row| {
            let name = quote_identifier(row.str(*name_column));
            Identity {
                description: format!("{word} {}", row.str(*name_column)),
                kind: word,
                schema: None,
                address: (vec![row.str(*name_column).to_owned()], Vec::new()),
                identity: name.clone(),
                name: Some(name),
            }
        }));
    }
    let found = match class {
        pg_class::TABLE => catalog.relation(object).map(|relation| {
            let word = relation_words(relation.kind);
            let schema = schema_name(relation.namespace);
            let full = quote_qualified(&schema, &relation.name);
            let short = if catalog.is_relation_visible(path, relation) {
                quote_identifier(&relation.name)
            } else {
                full.clone()
            };
            let position = usize::try_from(column - 1).ok();
            match position.and_then(|position| relation.columns.get(position)).filter(|_| column > 0) {
                Some(column) => Identity {
                    description: format!("column {} of {word} {short}", quote_identifier(&column.name)),
                    kind: match relation.kind {
                        RelationKind::View => "view column",
                        RelationKind::MaterializedView => "materialized view column",
                        RelationKind::CompositeType => "composite type column",
                        _ => "table column",
                    },
                    schema: Some(quote_identifier(&schema)),
                    name: Some(quote_identifier(&relation.name)),
                    identity: format!("{full}.{}", quote_identifier(&column.name)),
                    address: (vec![schema, relation.name.to_string(), column.name.to_string()], Vec::new()),
                },
                None => Identity {
                    description: format!("{word} {short}"),
                    kind: word,
                    schema: Some(quote_identifier(&schema)),
                    name: Some(quote_identifier(&relation.name)),
                    identity: full,
                    address: (vec![schema, relation.name.to_string()], Vec::new()),
                },
            }
        }),
        pg_type::TABLE => catalog.type_by_oid(object).map(|ty| {
            let schema = schema_name(ty.namespace);
            let identity = catalog.type_name(object, &all_qualified);
            Identity {
                description: format!("type {}", type_name(object)),
                kind: if ty.kind == TypeKind::Domain { "domain" } else { "type" },
                schema: Some(quote_identifier(&schema)),
                name: Some(quote_identifier(&ty.name)),
                address: (vec![identity.clone()], Vec::new()),
                identity,
            }
        }),
        pg_proc::TABLE => catalog.proc(object).map(|proc| {
            use cairn_catalog::ProcKind;
            let word = match proc.kind {
                ProcKind::Procedure => "procedure",
                ProcKind::Aggregate => "aggregate",
                _ => "function",
            };
            let schema = schema_name(proc.namespace);
            let full: Vec<String> = proc.arg_types.iter().map(|oid| full_type_name(*oid)).collect();
            let short: Vec<String> = proc.arg_types.iter().map(|oid| type_name(*oid)).collect();
            let name = if catalog.is_proc_visible(path, proc) {
                quote_identifier(&proc.name)
            } else {
                quote_qualified(&schema, &proc.name)
            };
            Identity {
                description: format!(
                    "{} {name}({})",
                    if word == "aggregate" { "function" } else { word },
                    short.join(",")
                ),
                kind: word,
                schema: Some(quote_identifier(&schema)),
                name: None,
                identity: format!("{}({})", quote_qualified(&schema, &proc.name), full.join(",")),
                address: (vec![schema, proc.name.to_string()], full),
            }
        }),
        pg_constraint::TABLE => catalog.constraint(object).map(|constraint| {
            let name = quote_identifier(&constraint.name);
            let table = catalog.relation(constraint.table);
            let schema = schema_name(constraint.namespace);
            match table {
                Some(relation) => {
                    let full = quote_qualified(&schema_name(relation.namespace), &relation.name);
                    let short = if catalog.is_relation_visible(path, relation) {
                        quote_identifier(&relation.name)
                    } else {
                        full.clone()
                    };
                    Identity {
                        description: format!(
                            "constraint {name} on {} {short}",
                            relation_words(relation.kind)
                        ),
                        kind: "table constraint",
                        schema: Some(quote_identifier(&schema)),
                        name: None,
                        identity: format!("{name} on {full}"),
                        address: (
                            vec![schema, relation.name.to_string(), constraint.name.to_string()],
                            Vec::new(),
                        ),
                    }
                }
                None => {
                    let domain = catalog.type_name(constraint.domain, &all_qualified);
                    Identity {
                        description: format!("constraint {name}"),
                        kind: "domain constraint",
                        schema: Some(quote_identifier(&schema)),
                        name: None,
                        identity: format!("{name} on {domain}"),
                        address: (vec![domain], vec![constraint.name.to_string()]),
                    }
                }
            }
        }),
        pg_attrdef::TABLE => match catalog.row_by_oid(class, object) {
            Some(row) => {
                let attribute = row.int(pg_attrdef::ADNUM) as i16;
                let of =
                    identify(catalog, path, env, pg_class::TABLE, row.oid(pg_attrdef::ADRELID), attribute)?;
                of.map(|of| Identity {
                    description: format!("default value for {}", of.description),
                    kind: "default value",
                    schema: None,
                    name: None,
                    identity: format!("for {}", of.identity),
                    address: of.address,
                })
            }
            None => None,
        },
        pg_rewrite::TABLE => match catalog.row_by_oid(class, object) {
            Some(row) => {
                let name = quote_identifier(row.str(pg_rewrite::RULENAME));
                let of = identify(catalog, path, env, pg_class::TABLE, row.oid(pg_rewrite::EV_CLASS), 0)?;
                of.map(|of| {
                    let mut address = of.address.0;
                    address.push(row.str(pg_rewrite::RULENAME).to_owned());
                    Identity {
                        description: format!("rule {name} on {}", of.description),
                        kind: "rule",
                        schema: None,
                        name: None,
                        identity: format!("{name} on {}", of.identity),
                        address: (address, Vec::new()),
                    }
                })
            }
            None => None,
        },
        pg_operator::TABLE => catalog.operator(object).map(|operator| {
            let schema = schema_name(operator.namespace);
            let show = |oid: Oid, full: bool| match (oid, full) {
                (0, _) => "NONE".to_owned(),
                (oid, true) => full_type_name(oid),
                (oid, false) => type_name(oid),
            };
            let full = vec![show(operator.left, true), show(operator.right, true)];
            Identity {
                description: format!(
                    "operator {}({},{})",
                    operator.name,
                    show(operator.left, false),
                    show(operator.right, false)
                ),
                kind: "operator",
                schema: Some(quote_identifier(&schema)),
                name: None,
                identity: format!("{}.{}({})", quote_identifier(&schema), operator.name, full.join(",")),
                address: (vec![schema, operator.name.to_string()], full),
            }
        }),
        pg_cast::TABLE => catalog.row_by_oid(class, object).map(|row| {
            let (source, target) = (row.oid(pg_cast::CASTSOURCE), row.oid(pg_cast::CASTTARGET));
            Identity {
                description: format!("cast from {} to {}", type_name(source), type_name(target)),
                kind: "cast",
                schema: None,
                name: None,
                identity: format!("({} AS {})", full_type_name(source), full_type_name(target)),
                address: (vec![full_type_name(source)], vec![full_type_name(target)]),
            }
        }),
        pg_collation::TABLE => catalog.collation(object).map(|collation| {
            let schema = schema_name(collation.namespace);
            Identity {
                description: format!("collation {}", quote_identifier(&collation.name)),
                kind: "collation",
                schema: Some(quote_identifier(&schema)),
                name: Some(quote_identifier(&collation.name)),
                identity: quote_qualified(&schema, &collation.name),
                address: (vec![schema, collation.name.to_string()], Vec::new()),
            }
        }),
        pg_opclass::TABLE | pg_opfamily::TABLE => catalog.row_by_oid(class, object).map(|row| {
            let (word, kind, method) = if class == pg_opclass::TABLE {
                ("operator class", "operator class", row.oid(pg_opclass::OPCMETHOD))
            } else {
                ("operator family", "operator family", row.oid(pg_opfamily::OPFMETHOD))
            };
            let (name, namespace) = if class == pg_opclass::TABLE {
                (row.str(pg_opclass::OPCNAME), row.oid(pg_opclass::OPCNAMESPACE))
            } else {
                (row.str(pg_opfamily::OPFNAME), row.oid(pg_opfamily::OPFNAMESPACE))
            };
            let method = catalog
                .row_by_oid(pg_am::TABLE, method)
                .map_or_else(String::new, |row| row.str(pg_am::AMNAME).to_owned());
            let schema = schema_name(namespace);
            Identity {
                description: format!("{word} {} for access method {method}", quote_identifier(name)),
                kind,
                schema: Some(quote_identifier(&schema)),
                name: Some(quote_identifier(name)),
                identity: format!("{} USING {method}", quote_qualified(&schema, name)),
                address: (vec![method, schema, name.to_owned()], Vec::new()),
            }
        }),
        _ if cairn_catalog::system_table::system_table(class).is_none() => {
            return Err(Error::internal(format!("unrecognized class ID: {class}")));
        }
        _ => None,
    };
    let _ = env;
    Ok(found)
}

/// The type's name with its schema, except for those that have a name of their own in SQL.
fn full_type_name(catalog: &Catalog, oid: Oid) -> String {
    catalog.type_name(oid, &SearchPath::default())
}

impl System<'_> {
    fn identify(&self, class: Oid, object: Oid, column: i16) -> Result<Option<Identity>> {
        // 0, 0: a reference to the system itself.
        if class == 0 && object == 0 {
            return Ok(None);
        }
        identify(&self.catalog, &self.path, self.env, class, object, column)
    }

    fn comment(&self, catalog: &str, object: Oid, column: i32) -> Option<cairn_types::Text> {
        self.catalog.comment(pg_catalog_table(catalog), object, column)
    }

    /// The comment on an object of whatever catalog.
    fn any_comment(&self, object: Oid) -> Option<cairn_types::Text> {
        let rows = self.catalog.system_rows(pg_description::TABLE);
        let found = rows
            .iter()
            .find(|row| row.oid(pg_description::OBJOID) == object && row.int(pg_description::OBJSUBID) == 0);
        found.map(|row| row.text(pg_description::DESCRIPTION))
    }

    /// Bits of the events (update 2, insert 3, delete 4) that a relation takes.
    fn updatable_events(&self, oid: Oid) -> i32 {
        match self.catalog.relation(oid) {
            Some(relation)
                if matches!(relation.kind, RelationKind::Table | RelationKind::PartitionedTable) =>
            {
                1 << 2 | 1 << 3 | 1 << 4
            }
            // Views take none: Cairn has no automatically updatable ones.
            _ => 0,
        }
    }

    fn index_column_property(&self, index: Oid, column: i32, property: &str) -> Datum {
        let Some(index) = self.catalog.index(index) else { return Datum::Null };
        let Some(position) = usize::try_from(column - 1).ok() else { return Datum::Null };
        let property = property.to_ascii_lowercase();
        let Some(key) = index.keys.get(position) else {
            // An INCLUDE column has no order.
            let included = position < index.keys.len() + index.include.len();
            return match property.as_str() {
                "returnable" if included => Datum::Bool(true),
                "asc" | "desc" | "nulls_first" | "nulls_last" if included => Datum::Null,
                "orderable" | "distance_orderable" | "search_array" | "search_nulls" if included => {
                    Datum::Bool(false)
                }
                _ => Datum::Null,
            };
        };
        Datum::Bool(match property.as_str() {
            "asc" => !key.descending,
            "desc" => key.descending,
            "nulls_first" => key.nulls_first,
            "nulls_last" => !key.nulls_first,
            "orderable" | "returnable" | "search_array" | "search_nulls" => true,
            "distance_orderable" => false,
            _ => return Datum::Null,
        })
    }

    fn index_property(&self, index: Oid, property: &str) -> Datum {
        if self.catalog.index(index).is_none() {
            return Datum::Null;
        }
        match property.to_ascii_lowercase().as_str() {
            "index_scan" | "backward_scan" => Datum::Bool(true),
            "clusterable" | "bitmap_scan" => Datum::Bool(false),
            _ => Datum::Null,
        }
    }

    /// enum_first, enum_last, enum_range: the type is the first argument's, whose value may be null.
    fn enum_function(&self, a: &Arguments<'_>) -> Result<Datum> {
        let type_oid = self.info.arg_types.first().copied().unwrap_or(0);
        let type_oid = self.catalog.base_type(type_oid);
        let ty = self.catalog.type_by_oid(type_oid).filter(|ty| ty.kind == TypeKind::Enum);
        let ty = ty.ok_or_else(|| err!(FEATURE_NOT_SUPPORTED, "could not determine actual enum type"))?;
        let all: Vec<_> = ty.labels.iter().map(|label| label.value).collect();
        let empty = || err!(INVALID_PARAMETER_VALUE, "enum {} contains no values", ty.name);
        Ok(match self.name {
            "enum_first" => Datum::Enum(*all.first().ok_or_else(empty)?),
            "enum_last" => Datum::Enum(*all.last().ok_or_else(empty)?),
            _ => {
                let bound = |position: usize| match a.any(position) {
                    Datum::Enum(value) if self.name == "enum_range_bounds" => Some(value.sort_order),
                    _ => None,
                };
                let (low, high) = (bound(0), bound(1));
                let inside = all.into_iter().filter(|value| {
                    low.is_none_or(|low| value.sort_order >= low)
                        && high.is_none_or(|high| value.sort_order <= high)
                });
                values(type_oid, inside.map(Datum::Enum))
            }
        })
    }

    /// Columns name, default_version, comment.
    fn available_extensions(&self) -> Datum {
        let rows = super::extensions::AVAILABLE.iter();
        self.rows(rows.map(|extension| {
            vec![Datum::text(extension.name), Datum::text(extension.version), Datum::text(extension.comment)]
        }))
    }

    /// Columns name, version, superuser, trusted, relocatable, schema, requires, comment.
    fn available_extension_versions(&self) -> Datum {
        let rows = super::extensions::AVAILABLE.iter();
        self.rows(rows.map(|extension| {
            vec![
                Datum::text(extension.name),
                Datum::text(extension.version),
                Datum::Bool(false),
                Datum::Bool(true),
                Datum::Bool(false),
                Datum::Null,
                Datum::Null,
                Datum::text(extension.comment),
            ]
        }))
    }
}
