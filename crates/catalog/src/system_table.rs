//! The system catalogs as tables: columns, keys, and the rows that come with Cairn.
//!
//! Their layout is PostgreSQL 15's, column for column. A row is a [`CatalogRow`]; its columns are reached by the
//! constants of [`crate::columns`] through [`RowExt`].
//!
//! Stored (user) rows of some catalogs have columns of Cairn's own behind PostgreSQL's; SQL never sees them:
//!
//! | catalog | column | content |
//! |---|---|---|
//! | pg_class | [`SCHEMA_VERSION`] | version of the row's form, int4 |
//!
//! Others live in PostgreSQL's own columns: pg_class.relfilenode is the storage id, bit 4 of pg_index.indoption says
//! that `hash` was written, pg_attribute.attmissingval is an array with the one missing value, and expressions
//! (pg_node_tree) are canonical SQL text, lists of them joined with `, `. The arrays of pg_statistic are packed
//! ([`crate::statistics`]).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use cairn_types::key::{ColumnOrder, encode_key_column};
use cairn_types::row::PhysicalKind;
use cairn_types::{Array, Datum, Dimension, Oid, Result, Text, types};

use crate::columns::*;
use crate::rows::RowTable;
use crate::tsv::Tsv;

/// One row of a system catalog.
pub type CatalogRow = Arc<[Datum]>;

/// Cairn's own column of a pg_class row.
pub const SCHEMA_VERSION: usize = pg_class::COLUMN_COUNT;

/// Bit of pg_index.indoption: DESC, NULLS FIRST as in PostgreSQL, and Cairn's `hash`.
pub const INDOPTION_DESC: i16 = 1;
pub const INDOPTION_NULLS_FIRST: i16 = 2;
pub const INDOPTION_HASH: i16 = 4;

pub struct SystemColumn {
    pub name: Text,
    pub type_oid: Oid,
    pub kind: PhysicalKind,
}

/// One system catalog.
pub struct SystemTable {
    pub oid: Oid,
    pub name: Text,
    /// PostgreSQL's columns.
    pub columns: Vec<SystemColumn>,
    /// By what rows are found. The first is the primary key; all columns where PostgreSQL has none.
    pub indexes: Vec<SystemIndex>,
    /// Shared by all databases (pg_class.relisshared).
    pub shared: bool,
    /// Whether PostgreSQL has one.
    has_primary_key: bool,
    rows: OnceLock<Vec<CatalogRow>>,
    by_key: OnceLock<RowTable>,
}

/// An index of a system catalog.
pub struct SystemIndex {
    /// 0 for one that PostgreSQL does not have.
    pub oid: Oid,
    /// Columns, from 0.
    pub columns: Vec<usize>,
    pub unique: bool,
}

macro_rules! data_files {
    ($($name:literal),* $(,)?) => {
        fn data_file(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../data/", $name, ".tsv"))),)*
                _ => None,
            }
        }
    };
}

data_files!(
    "pg_type",
    "pg_proc",
    "pg_operator",
    "pg_cast",
    "pg_aggregate",
    "pg_am",
    "pg_opclass",
    "pg_opfamily",
    "pg_amop",
    "pg_amproc",
    "pg_namespace",
    "pg_language",
    "pg_collation",
    "pg_range",
    "pg_class",
    "pg_attribute",
    "pg_index",
    "pg_constraint",
    "pg_rewrite",
);

impl SystemTable {
    /// The physical kinds of a stored row's columns, Cairn's own included.
    pub fn stored_kinds(&self) -> Vec<PhysicalKind> {
        let mut kinds: Vec<_> = self.columns.iter().map(|column| column.kind).collect();
        if self.oid == pg_class::TABLE {
            kinds.push(PhysicalKind::Int4);
        }
        if self.oid == pg_statistic::TABLE {
            for (column, kind) in kinds.iter_mut().enumerate() {
                *kind = crate::statistics::stored_kind(column).unwrap_or(*kind);
            }
        }
        kinds
    }

    /// A row whose columns are their types' zeros: for DDL to fill in. Columns of variable length are null, except names
    /// and vectors, which PostgreSQL declares NOT NULL.
    pub fn blank_row(&self) -> Vec<Datum> {
        let mut row: Vec<Datum> = self.columns.iter().map(|column| blank(column.type_oid)).collect();
        row.resize(self.stored_kinds().len(), Datum::Int4(0));
        row
    }

    /// The key of a row without the storage id. Errors: 0A000 for a value that has no order.
    pub fn row_key(&self, row: &[Datum]) -> Result<Vec<u8>> {
        let mut key = Vec::with_capacity(16);
        for &column in &self.indexes[0].columns {
            encode_key_column(row.get(column).unwrap_or(&Datum::Null), ColumnOrder::ASC, &mut key)?;
        }
        Ok(key)
    }

    /// The rows that come with Cairn.
    pub fn builtin_rows(&self) -> &[CatalogRow] {
        self.rows.get_or_init(|| {
            let mut rows = match self.name.as_ref() {
                "pg_description" => descriptions(),
                "pg_extension" => crate::builtin::extension_rows(),
                "pg_init_privs" => crate::builtin::first_privileges(),
                "pg_rewrite" => crate::views::rewrite_rows(
                    data_file("pg_rewrite").map_or_else(Vec::new, |text| parse(self, text)),
                ),
                name => data_file(name).map_or_else(Vec::new, |text| parse(self, text)),
            };
            rows.extend(crate::own::rows(self));
            rows
        })
    }

    /// The rows that come with Cairn, by their keys.
    pub(crate) fn builtin_by_key(&'static self) -> &'static RowTable {
        self.by_key.get_or_init(|| RowTable::of_rows(self, self.builtin_rows().iter().cloned()))
    }

    /// The number of an index whose first columns are these, in this order.
    pub(crate) fn index_on(&self, columns: impl Iterator<Item = usize> + Clone) -> Option<usize> {
        let begins = |index: &SystemIndex| {
            let mut own = index.columns.iter();
            columns.clone().all(|column| own.next() == Some(&column))
        };
        self.indexes.iter().position(begins)
    }

    /// The index by which rows with given values in these columns are best found, and how many of its first columns these are.
    pub fn best_index(&self, columns: &[usize]) -> Option<(usize, usize)> {
        let covered =
            |index: &SystemIndex| index.columns.iter().take_while(|column| columns.contains(column)).count();
        let counted = self.indexes.iter().enumerate().map(|(number, index)| (number, covered(index)));
        let whole = |(number, covered): &(usize, usize)| {
            let index = &self.indexes[*number];
            index.unique && index.columns.len() == *covered
        };
        // The first of those that are alike: the primary key.
        counted.rev().max_by_key(|found| (whole(found), found.1)).filter(|(_, covered)| *covered > 0)
    }

    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| &*column.name == name)
    }
}

fn blank(type_oid: Oid) -> Datum {
    match type_oid {
        types::BOOL => Datum::Bool(false),
        types::CHAR => Datum::Char(0),
        types::INT2 => Datum::Int2(0),
        types::INT4 => Datum::Int4(0),
        types::INT8 => Datum::Int8(0),
        types::FLOAT4 => Datum::Float4(0.0),
        types::OID | types::REGPROC | types::XID => Datum::Oid(0),
        types::NAME => Datum::text(""),
        types::INT2VECTOR => int2vector([]),
        types::OIDVECTOR => oidvector([]),
        _ => Datum::Null,
    }
}

/// [`SystemTable::blank_row`] of the catalog with this oid; empty if there is none.
pub fn blank_row(catalog: Oid) -> Vec<Datum> {
    system_table(catalog).map(SystemTable::blank_row).unwrap_or_default()
}

/// The system catalog with this oid.
pub fn system_table(oid: Oid) -> Option<&'static SystemTable> {
    TABLES.get(&oid)
}

pub fn system_tables() -> impl Iterator<Item = &'static SystemTable> {
    TABLES.values()
}

static TABLES: LazyLock<HashMap<Oid, SystemTable>> = LazyLock::new(layouts);

fn layouts() -> HashMap<Oid, SystemTable> {
    let number = |field: &Option<std::borrow::Cow<'_, str>>| -> i64 {
        field.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let position = |tsv: &Tsv, name: &str| tsv.header.iter().position(|column| *column == name).unwrap_or(0);
    let mut tables = HashMap::new();
    let classes = Tsv::new(include_str!("../data/pg_class.tsv"));
    let (kind, shared) = (position(&classes, "relkind"), position(&classes, "relisshared"));
    for row in classes {
        if row[kind].as_deref() == Some("r") {
            let oid = number(&row[0]) as Oid;
            let name: Text = row[1].as_deref().unwrap_or("").into();
            let shared = row[shared].as_deref() == Some("t");
            tables.insert(
                oid,
                SystemTable {
                    oid,
                    name,
                    columns: Vec::new(),
                    indexes: Vec::new(),
                    shared,
                    has_primary_key: false,
                    rows: OnceLock::new(),
                    by_key: OnceLock::new(),
                },
            );
        }
    }
    let attributes = Tsv::new(include_str!("../data/pg_attribute.tsv"));
    let attnum = position(&attributes, "attnum");
    let mut columns: Vec<(Oid, i64, SystemColumn)> = Vec::new();
    for row in attributes {
        let (oid, attnum) = (number(&row[0]) as Oid, number(&row[attnum]));
        if attnum > 0 && tables.contains_key(&oid) {
            let type_oid = number(&row[2]) as Oid;
            let name: Text = row[1].as_deref().unwrap_or("").into();
            columns.push((oid, attnum, SystemColumn { name, type_oid, kind: physical_kind(type_oid) }));
        }
    }
    columns.sort_by_key(|(oid, attnum, _)| (*oid, *attnum));
    for (oid, _, column) in columns {
        if let Some(table) = tables.get_mut(&oid) {
            table.columns.push(column);
        }
    }
    let indexes = Tsv::new(include_str!("../data/pg_index.tsv"));
    let (primary, unique, keys) =
        (position(&indexes, "indisprimary"), position(&indexes, "indisunique"), position(&indexes, "indkey"));
    for row in indexes {
        let Some(table) = tables.get_mut(&(number(&row[1]) as Oid)) else { continue };
        let columns = row[keys].as_deref().unwrap_or("").split(' ');
        let index = SystemIndex {
            oid: number(&row[0]) as Oid,
            columns: columns.filter_map(|column| column.parse::<usize>().ok()?.checked_sub(1)).collect(),
            unique: row[unique].as_deref() == Some("t"),
        };
        if row[primary].as_deref() == Some("t") {
            table.indexes.insert(0, index);
            table.has_primary_key = true;
        } else {
            table.indexes.push(index);
        }
    }
    for table in tables.values_mut() {
        if !table.has_primary_key {
            let columns = (0..table.columns.len()).collect();
            table.indexes.insert(0, SystemIndex { oid: 0, columns, unique: true });
        }
        // Who is referenced must find who references it.
        if table.oid == pg_constraint::TABLE {
            table.indexes.push(SystemIndex {
                oid: 0,
                columns: vec![pg_constraint::CONFRELID],
                unique: false,
            });
        }
    }
    tables
}

/// The physical form of the types that system catalogs use.
pub(crate) fn physical_kind(type_oid: Oid) -> PhysicalKind {
    match type_oid {
        types::BOOL => PhysicalKind::Bool,
        types::CHAR => PhysicalKind::Char,
        types::INT2 => PhysicalKind::Int2,
        types::INT4 => PhysicalKind::Int4,
        types::INT8 => PhysicalKind::Int8,
        types::FLOAT4 => PhysicalKind::Float4,
        types::FLOAT8 => PhysicalKind::Float8,
        types::TIMESTAMPTZ => PhysicalKind::TimestampTz,
        types::BYTEA => PhysicalKind::Bytea,
        types::PG_LSN => PhysicalKind::UInt8,
        types::OID | types::REGPROC | types::XID | types::CID => PhysicalKind::Oid,
        types::TID => PhysicalKind::Tid,
        types::NAME | types::TEXT | types::PG_NODE_TREE => PhysicalKind::Text,
        types::INT2VECTOR
        | types::OIDVECTOR
        | types::CHAR_ARRAY
        | types::INT2_ARRAY
        | types::TEXT_ARRAY
        | types::FLOAT4_ARRAY
        | types::OID_ARRAY
        | types::ACLITEM_ARRAY
        | types::ANYARRAY => PhysicalKind::Array,
        _ => PhysicalKind::Text,
    }
}

fn parse(table: &SystemTable, text: &'static str) -> Vec<CatalogRow> {
    let tsv = Tsv::new(text);
    let positions: Vec<Option<usize>> = table
        .columns
        .iter()
        .map(|column| tsv.header.iter().position(|name| *name == &*column.name))
        .collect();
    tsv.map(|fields| {
        positions
            .iter()
            .zip(&table.columns)
            .map(|(position, column)| match position.and_then(|position| fields.get(position)) {
                Some(Some(text)) => builtin_datum(text, column.type_oid),
                _ => Datum::Null,
            })
            .collect()
    })
    .collect()
}

/// A value of a data file. They are ours and tested: what does not parse is null.
fn builtin_datum(text: &str, type_oid: Oid) -> Datum {
    fn number<T: std::str::FromStr>(text: &str, make: impl Fn(T) -> Datum) -> Datum {
        text.parse().map_or(Datum::Null, make)
    }
    match type_oid {
        types::BOOL => Datum::Bool(text == "t"),
        types::CHAR => Datum::Char(text.bytes().next().unwrap_or(0)),
        types::INT2 => number(text, Datum::Int2),
        types::INT4 => number(text, Datum::Int4),
        types::INT8 => number(text, Datum::Int8),
        types::FLOAT4 => number(text, Datum::Float4),
        types::OID | types::REGPROC | types::XID => number(text, Datum::Oid),
        types::INT2VECTOR => vector(types::INT2, text),
        types::OIDVECTOR => vector(types::OID, text),
        types::CHAR_ARRAY => array(types::CHAR, text),
        types::INT2_ARRAY => array(types::INT2, text),
        types::OID_ARRAY => array(types::OID, text),
        types::TEXT_ARRAY => array(types::TEXT, text),
        types::ACLITEM_ARRAY => array(types::ACLITEM, text),
        _ => Datum::text(text),
    }
}

fn vector(element_type: Oid, text: &str) -> Datum {
    let elements = text.split(' ').filter(|part| !part.is_empty());
    vector_of(element_type, elements.map(|part| builtin_datum(part, element_type)).collect())
}

/// int2vector and oidvector: arrays that count from 0.
pub fn vector_of(element_type: Oid, elements: Vec<Datum>) -> Datum {
    let dimensions = vec![Dimension { length: elements.len(), lower_bound: 0 }];
    Datum::Array(Arc::new(Array { element_type, dimensions, elements }))
}

pub fn int2vector(elements: impl IntoIterator<Item = i16>) -> Datum {
    vector_of(types::INT2, elements.into_iter().map(Datum::Int2).collect())
}

pub fn oidvector(elements: impl IntoIterator<Item = Oid>) -> Datum {
    vector_of(types::OID, elements.into_iter().map(Datum::Oid).collect())
}

/// A one-dimensional array.
pub fn array_of(element_type: Oid, elements: Vec<Datum>) -> Datum {
    Datum::Array(Arc::new(Array::from_elements(element_type, elements)))
}

/// A text[] value; null if there is nothing in it.
pub fn text_array_or_null<T: Into<Text>>(elements: impl IntoIterator<Item = T>) -> Datum {
    let elements: Vec<Datum> = elements.into_iter().map(|text| Datum::Text(text.into())).collect();
    if elements.is_empty() { Datum::Null } else { array_of(types::TEXT, elements) }
}

fn array(element_type: Oid, text: &str) -> Datum {
    let mut elements = Vec::new();
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or("");
    let mut characters = inner.chars().peekable();
    while characters.peek().is_some() {
        let mut element = String::new();
        let mut quoted = false;
        while let Some(character) = characters.next() {
            match character {
                '"' => quoted = !quoted,
                '\\' => element.extend(characters.next()),
                ',' if !quoted => break,
                other => element.push(other),
            }
        }
        elements.push(builtin_datum(&element, element_type));
    }
    array_of(element_type, elements)
}

fn descriptions() -> Vec<CatalogRow> {
    let catalogs: HashMap<&str, Oid> = TABLES.values().map(|table| (&*table.name, table.oid)).collect();
    let oid = |text: &str| Datum::Oid(text.parse().unwrap_or(0));
    Tsv::new(include_str!("../data/pg_description.tsv"))
        .filter_map(|fields| {
            let class = *catalogs.get(fields.get(1)?.as_deref()?)?;
            let text = Datum::text(fields.get(2)?.as_deref()?);
            let row: CatalogRow =
                Arc::from([oid(fields.first()?.as_deref()?), Datum::Oid(class), Datum::Int4(0), text]);
            Some(row)
        })
        .collect()
}

/// Typed access to a catalog row's columns. A null, or a value of another kind, reads as the type's zero.
pub trait RowExt {
    fn datum(&self, column: usize) -> &Datum;

    fn oid(&self, column: usize) -> Oid {
        match self.datum(column) {
            Datum::Oid(oid) => *oid,
            _ => 0,
        }
    }

    fn bool(&self, column: usize) -> bool {
        matches!(self.datum(column), Datum::Bool(true))
    }

    fn char(&self, column: usize) -> u8 {
        match self.datum(column) {
            Datum::Char(byte) => *byte,
            _ => 0,
        }
    }

    /// int2, int4 or int8.
    fn int(&self, column: usize) -> i64 {
        match self.datum(column) {
            Datum::Int2(value) => i64::from(*value),
            Datum::Int4(value) => i64::from(*value),
            Datum::Int8(value) => *value,
            _ => 0,
        }
    }

    fn text(&self, column: usize) -> Text {
        self.optional_text(column).unwrap_or_else(|| Text::from(""))
    }

    fn str(&self, column: usize) -> &str {
        match self.datum(column) {
            Datum::Text(text) => text,
            _ => "",
        }
    }

    fn optional_text(&self, column: usize) -> Option<Text> {
        match self.datum(column) {
            Datum::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn elements(&self, column: usize) -> &[Datum] {
        match self.datum(column) {
            Datum::Array(array) => &array.elements,
            _ => &[],
        }
    }

    fn oids(&self, column: usize) -> Vec<Oid> {
        let oid = |datum: &Datum| if let Datum::Oid(oid) = datum { *oid } else { 0 };
        self.elements(column).iter().map(oid).collect()
    }

    fn int2s(&self, column: usize) -> Vec<i16> {
        let int = |datum: &Datum| if let Datum::Int2(value) = datum { *value } else { 0 };
        self.elements(column).iter().map(int).collect()
    }

    fn texts(&self, column: usize) -> Vec<Text> {
        let text = |datum: &Datum| if let Datum::Text(text) = datum { text.clone() } else { Text::from("") };
        self.elements(column).iter().map(text).collect()
    }
}

impl RowExt for [Datum] {
    fn datum(&self, column: usize) -> &Datum {
        self.get(column).unwrap_or(&Datum::Null)
    }
}

/// Splits canonical SQL texts that were joined with `, ` (default arguments, index expressions): at commas outside
/// of parentheses, brackets and quotes.
pub fn split_expressions(text: &str) -> Vec<Text> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(' | b'[') => depth += 1,
            (None, b')' | b']') => depth = depth.saturating_sub(1),
            (None, b',') if depth == 0 => {
                parts.push(Text::from(text[start..at].trim()));
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(Text::from(last));
    }
    parts
}
