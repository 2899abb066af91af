//! Rows of the system catalogs for new objects.

use cairn_catalog::columns::*;
use cairn_catalog::system_table::{array_of, blank_row, int2vector, oidvector, text_array_or_null};
use cairn_catalog::{Catalog, CatalogWriter, TypeRef};
use cairn_exec::TxnResultExt;
use cairn_types::{Datum, Oid, Result, Text, types};

/// Writes a row.
pub fn put(writer: &mut CatalogWriter<'_>, catalog: Oid, row: Vec<Datum>) -> Result<()> {
    writer.put(catalog, row).sql()
}

/// An int2[] value.
pub fn int2_array(values: impl IntoIterator<Item = i16>) -> Datum {
    array_of(types::INT2, values.into_iter().map(Datum::Int2).collect())
}

pub fn oid_array(values: impl IntoIterator<Item = Oid>) -> Datum {
    array_of(types::OID, values.into_iter().map(Datum::Oid).collect())
}

/// What a pg_class row says.
pub struct Class<'a> {
    pub oid: Oid,
    pub name: &'a str,
    pub namespace: Oid,
    pub owner: Oid,
    pub kind: u8,
    pub persistence: u8,
    pub row_type: Oid,
    pub method: Oid,
    pub storage: u32,
    pub column_count: usize,
    pub options: Vec<Text>,
}

pub fn class_row(class: &Class<'_>) -> Vec<Datum> {
    use pg_class as c;
    let mut row = blank_row(c::TABLE);
    row[c::OID] = Datum::Oid(class.oid);
    row[c::RELNAME] = Datum::text(class.name);
    row[c::RELNAMESPACE] = Datum::Oid(class.namespace);
    row[c::RELTYPE] = Datum::Oid(class.row_type);
    row[c::RELOWNER] = Datum::Oid(class.owner);
    row[c::RELAM] = Datum::Oid(class.method);
    row[c::RELFILENODE] = Datum::Oid(class.storage);
    row[c::RELTUPLES] = Datum::Float4(match class.kind {
        b'i' => 0.0,
        b'S' => 1.0,
        _ => -1.0,
    });
    row[c::RELPERSISTENCE] = Datum::Char(class.persistence);
    row[c::RELKIND] = Datum::Char(class.kind);
    row[c::RELNATTS] = Datum::Int2(class.column_count as i16);
    row[c::RELISPOPULATED] = Datum::Bool(true);
    row[c::RELREPLIDENT] = Datum::Char(if matches!(class.kind, b'r' | b'm') { b'd' } else { b'n' });
    row[c::RELHASRULES] = Datum::Bool(matches!(class.kind, b'v' | b'm'));
    row[c::RELOPTIONS] = text_array_or_null(class.options.iter().cloned());
    row
}

/// What a pg_attribute row says.
pub struct Attribute<'a> {
    pub relation: Oid,
    pub number: i16,
    pub name: &'a str,
    pub ty: TypeRef,
    pub dimensions: i32,
    pub not_null: bool,
    pub has_default: bool,
    /// `a`, `d` or 0.
    pub identity: u8,
    /// `s` or 0.
    pub generated: u8,
}

pub fn attribute_row(catalog: &Catalog, attribute: &Attribute<'_>) -> Vec<Datum> {
    use pg_attribute as c;
    let mut row = blank_row(c::TABLE);
    row[c::ATTRELID] = Datum::Oid(attribute.relation);
    row[c::ATTNAME] = Datum::text(attribute.name);
    row[c::ATTSTATTARGET] = Datum::Int4(-1);
    row[c::ATTNUM] = Datum::Int2(attribute.number);
    row[c::ATTNDIMS] = Datum::Int4(attribute.dimensions);
    row[c::ATTCACHEOFF] = Datum::Int4(-1);
    row[c::ATTNOTNULL] = Datum::Bool(attribute.not_null);
    row[c::ATTHASDEF] = Datum::Bool(attribute.has_default);
    row[c::ATTIDENTITY] = Datum::Char(attribute.identity);
    row[c::ATTGENERATED] = Datum::Char(attribute.generated);
    row[c::ATTISLOCAL] = Datum::Bool(true);
    set_attribute_type(catalog, &mut row, attribute.ty);
    row
}

/// The columns of a pg_attribute row that repeat what the type says.
pub fn set_attribute_type(catalog: &Catalog, row: &mut [Datum], ty: TypeRef) {
    use pg_attribute as c;
    row[c::ATTTYPID] = Datum::Oid(ty.oid);
    row[c::ATTTYPMOD] = Datum::Int4(ty.typmod);
    row[c::ATTCOLLATION] = Datum::Oid(ty.collation);
    if let Some(object) = catalog.type_by_oid(ty.oid) {
        row[c::ATTLEN] = Datum::Int2(object.length);
        row[c::ATTBYVAL] = Datum::Bool(object.by_value);
    }
    if let Some(type_row) = catalog.row_by_oid(pg_type::TABLE, ty.oid) {
        row[c::ATTALIGN] = type_row[pg_type::TYPALIGN].clone();
        row[c::ATTSTORAGE] = type_row[pg_type::TYPSTORAGE].clone();
    }
}

/// What a pg_index row says. An attribute of 0 is the next of the expressions.
pub struct IndexRow<'a> {
    pub index: Oid,
    pub table: Oid,
    pub attributes: Vec<i16>,
    pub key_count: usize,
    pub opclasses: Vec<Oid>,
    pub collations: Vec<Oid>,
    pub options: Vec<i16>,
    pub expressions: Option<String>,
    pub predicate: Option<&'a str>,
    pub unique: bool,
    pub primary: bool,
    pub nulls_not_distinct: bool,
    pub immediate: bool,
}

pub fn index_row(index: &IndexRow<'_>) -> Vec<Datum> {
    use pg_index as c;
    let mut row = blank_row(c::TABLE);
    row[c::INDEXRELID] = Datum::Oid(index.index);
    row[c::INDRELID] = Datum::Oid(index.table);
    row[c::INDNATTS] = Datum::Int2(index.attributes.len() as i16);
    row[c::INDNKEYATTS] = Datum::Int2(index.key_count as i16);
    row[c::INDISUNIQUE] = Datum::Bool(index.unique);
    row[c::INDNULLSNOTDISTINCT] = Datum::Bool(index.nulls_not_distinct);
    row[c::INDISPRIMARY] = Datum::Bool(index.primary);
    row[c::INDIMMEDIATE] = Datum::Bool(index.immediate);
    row[c::INDISVALID] = Datum::Bool(true);
    row[c::INDISREADY] = Datum::Bool(true);
    row[c::INDISLIVE] = Datum::Bool(true);
    row[c::INDKEY] = int2vector(index.attributes.iter().copied());
    row[c::INDCOLLATION] = oidvector(index.collations.iter().copied());
    row[c::INDCLASS] = oidvector(index.opclasses.iter().copied());
    row[c::INDOPTION] = int2vector(index.options.iter().copied());
    row[c::INDEXPRS] = index.expressions.as_deref().map_or(Datum::Null, Datum::text);
    row[c::INDPRED] = index.predicate.map_or(Datum::Null, Datum::text);
    row
}

/// A pg_type row for a type that users make: `kind` c, e or d; and b for the array type of one.
pub struct TypeRow<'a> {
    pub oid: Oid,
    pub name: &'a str,
    pub namespace: Oid,
    pub owner: Oid,
    pub kind: u8,
    pub relation: Oid,
    pub element: Oid,
    pub array: Oid,
}

/// I/O functions that all types of a kind share (oids of pg_proc).
struct Functions {
    input: Oid,
    output: Oid,
    receive: Oid,
    send: Oid,
}

const ARRAY_FUNCTIONS: Functions = Functions { input: 750, output: 751, receive: 2400, send: 2401 };
const RECORD_FUNCTIONS: Functions = Functions { input: 2290, output: 2291, receive: 2402, send: 2403 };
const ENUM_FUNCTIONS: Functions = Functions { input: 3506, output: 3507, receive: 3532, send: 3533 };
/// array_typanalyze, array_subscript_handler.
const ARRAY_ANALYZE: Oid = 3816;
const ARRAY_SUBSCRIPT: Oid = 6179;

pub fn type_row(object: &TypeRow<'_>) -> Vec<Datum> {
    use pg_type as c;
    let mut row = blank_row(c::TABLE);
    let (functions, category, length, by_value, align, storage) = match object.kind {
        b'c' => (RECORD_FUNCTIONS, b'C', -1, false, b'd', b'x'),
        b'e' => (ENUM_FUNCTIONS, b'E', 4, true, b'i', b'p'),
        _ => (ARRAY_FUNCTIONS, b'A', -1, false, b'd', b'x'),
    };
    row[c::OID] = Datum::Oid(object.oid);
    row[c::TYPNAME] = Datum::text(object.name);
    row[c::TYPNAMESPACE] = Datum::Oid(object.namespace);
    row[c::TYPOWNER] = Datum::Oid(object.owner);
    row[c::TYPLEN] = Datum::Int2(length);
    row[c::TYPBYVAL] = Datum::Bool(by_value);
    row[c::TYPTYPE] = Datum::Char(object.kind);
    row[c::TYPCATEGORY] = Datum::Char(category);
    row[c::TYPISDEFINED] = Datum::Bool(true);
    row[c::TYPDELIM] = Datum::Char(b',');
    row[c::TYPRELID] = Datum::Oid(object.relation);
    row[c::TYPELEM] = Datum::Oid(object.element);
    row[c::TYPARRAY] = Datum::Oid(object.array);
    row[c::TYPINPUT] = Datum::Oid(functions.input);
    row[c::TYPOUTPUT] = Datum::Oid(functions.output);
    row[c::TYPRECEIVE] = Datum::Oid(functions.receive);
    row[c::TYPSEND] = Datum::Oid(functions.send);
    if object.kind == b'b' {
        row[c::TYPSUBSCRIPT] = Datum::Oid(ARRAY_SUBSCRIPT);
        row[c::TYPANALYZE] = Datum::Oid(ARRAY_ANALYZE);
    }
    row[c::TYPALIGN] = Datum::Char(align);
    row[c::TYPSTORAGE] = Datum::Char(storage);
    row[c::TYPTYPMOD] = Datum::Int4(-1);
    row
}

/// A name for the array type of `name`: `_name`, with more underscores until it is free.
pub fn array_type_name(catalog: &Catalog, namespace: Oid, name: &str) -> String {
    let mut array = format!("_{}", super::names::truncate_name(name, super::names::NAME_MAX - 1));
    while catalog.type_by_name(namespace, &array).is_some() {
        array = format!("_{}", super::names::truncate_name(&array, super::names::NAME_MAX - 1));
    }
    array
}

/// A pg_attrdef row.
pub fn default_row(oid: Oid, relation: Oid, number: i16, expression: &str) -> Vec<Datum> {
    use pg_attrdef as c;
    let mut row = blank_row(c::TABLE);
    row[c::OID] = Datum::Oid(oid);
    row[c::ADRELID] = Datum::Oid(relation);
    row[c::ADNUM] = Datum::Int2(number);
    row[c::ADBIN] = Datum::text(expression);
    row
}
