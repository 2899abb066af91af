//! From rows of the system catalogs to the objects of [`crate::model`].
//!
//! The same code builds the objects that come with Cairn and those of users. Rows that do not fit together (a column
//! of a table that is not there) are passed over: a picture can always be built.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cairn_types::{Datum, EnumValue, Oid, Text, types};

use crate::columns::*;
use crate::rows::Rows;
use crate::shared_map::SharedMap;
use crate::system_table::{
    CatalogRow, INDOPTION_DESC, INDOPTION_HASH, INDOPTION_NULLS_FIRST, RowExt, SCHEMA_VERSION,
    split_expressions,
};
use crate::*;

/// What a change of rows has changed.
#[derive(Default)]
pub(crate) struct Touched {
    pub relations: HashSet<Oid>,
    pub types: HashSet<Oid>,
    pub procs: HashSet<Oid>,
    pub constraints: HashSet<Oid>,
    pub namespaces: HashSet<Oid>,
}

impl Touched {
    /// Notes what a row (written or removed) is part of.
    pub fn note(&mut self, catalog: Oid, row: &[Datum]) {
        match catalog {
            pg_namespace::TABLE => self.note_oid(catalog, row.oid(pg_namespace::OID)),
            pg_type::TABLE => self.note_oid(catalog, row.oid(pg_type::OID)),
            pg_enum::TABLE => self.note_oid(pg_type::TABLE, row.oid(pg_enum::ENUMTYPID)),
            pg_proc::TABLE => self.note_oid(catalog, row.oid(pg_proc::OID)),
            pg_class::TABLE => self.note_oid(catalog, row.oid(pg_class::OID)),
            pg_attribute::TABLE => self.note_oid(pg_class::TABLE, row.oid(pg_attribute::ATTRELID)),
            pg_attrdef::TABLE => self.note_oid(pg_class::TABLE, row.oid(pg_attrdef::ADRELID)),
            pg_sequence::TABLE => self.note_oid(pg_class::TABLE, row.oid(pg_sequence::SEQRELID)),
            pg_rewrite::TABLE => self.note_oid(pg_class::TABLE, row.oid(pg_rewrite::EV_CLASS)),
            pg_statistic::TABLE => self.note_oid(pg_class::TABLE, row.oid(pg_statistic::STARELID)),
            pg_index::TABLE => {
                self.note_oid(pg_class::TABLE, row.oid(pg_index::INDRELID));
                self.note_oid(pg_class::TABLE, row.oid(pg_index::INDEXRELID));
            }
            pg_constraint::TABLE => {
                self.note_oid(catalog, row.oid(pg_constraint::OID));
                self.note_oid(pg_class::TABLE, row.oid(pg_constraint::CONRELID));
                self.note_oid(pg_class::TABLE, row.oid(pg_constraint::CONFRELID));
                self.note_oid(pg_type::TABLE, row.oid(pg_constraint::CONTYPID));
            }
            // The sequence of an identity column.
            pg_depend::TABLE
                if row.char(pg_depend::DEPTYPE) == b'i' && row.int(pg_depend::REFOBJSUBID) > 0 =>
            {
                self.note_oid(pg_class::TABLE, row.oid(pg_depend::REFOBJID));
            }
            _ => {}
        }
    }

    fn note_oid(&mut self, class: Oid, oid: Oid) {
        if oid == 0 {
            return;
        }
        match class {
            pg_class::TABLE => self.relations.insert(oid),
            pg_type::TABLE => self.types.insert(oid),
            pg_proc::TABLE => self.procs.insert(oid),
            pg_constraint::TABLE => self.constraints.insert(oid),
            _ => self.namespaces.insert(oid),
        };
    }
}

/// Objects by oid and by name.
#[derive(Default, Clone)]
pub(crate) struct Objects {
    pub namespaces: SharedMap<Oid, Arc<Namespace>>,
    pub types: SharedMap<Oid, Arc<Type>>,
    /// By name: namespace and object.
    pub type_names: SharedMap<Text, Vec<(Oid, Arc<Type>)>>,
    /// Tables, views, sequences, composite types and indexes.
    pub relations: SharedMap<Oid, Arc<Relation>>,
    pub relation_names: SharedMap<Text, Vec<(Oid, Arc<Relation>)>>,
    pub indexes: SharedMap<Oid, Arc<Index>>,
    pub constraints: SharedMap<Oid, Arc<Constraint>>,
    pub procs: SharedMap<Oid, Arc<Proc>>,
    /// Where users have a function, the built-in ones of its name are in the list too.
    pub proc_names: SharedMap<Text, Vec<Arc<Proc>>>,
    pub enum_labels: SharedMap<Oid, (Oid, EnumLabel)>,
}

fn type_kind(byte: u8) -> TypeKind {
    match byte {
        b'c' => TypeKind::Composite,
        b'd' => TypeKind::Domain,
        b'e' => TypeKind::Enum,
        b'p' => TypeKind::Pseudo,
        b'r' => TypeKind::Range,
        b'm' => TypeKind::Multirange,
        _ => TypeKind::Base,
    }
}

pub(crate) fn namespace(row: &[Datum]) -> Namespace {
    use pg_namespace as c;
    Namespace { oid: row.oid(c::OID), name: row.text(c::NSPNAME), owner: row.oid(c::NSPOWNER) }
}

fn type_object(row: &[Datum], labels: Vec<EnumLabel>, checks: Vec<Arc<Constraint>>) -> Type {
    use pg_type as c;
    Type {
        oid: row.oid(c::OID),
        name: row.text(c::TYPNAME),
        namespace: row.oid(c::TYPNAMESPACE),
        owner: row.oid(c::TYPOWNER),
        kind: type_kind(row.char(c::TYPTYPE)),
        category: row.char(c::TYPCATEGORY),
        preferred: row.bool(c::TYPISPREFERRED),
        defined: row.bool(c::TYPISDEFINED),
        length: row.int(c::TYPLEN) as i16,
        by_value: row.bool(c::TYPBYVAL),
        delimiter: row.char(c::TYPDELIM),
        relation: row.oid(c::TYPRELID),
        element: row.oid(c::TYPELEM),
        array: row.oid(c::TYPARRAY),
        input: row.oid(c::TYPINPUT),
        output: row.oid(c::TYPOUTPUT),
        receive: row.oid(c::TYPRECEIVE),
        send: row.oid(c::TYPSEND),
        typmod_in: row.oid(c::TYPMODIN),
        typmod_out: row.oid(c::TYPMODOUT),
        collation: row.oid(c::TYPCOLLATION),
        base: row.oid(c::TYPBASETYPE),
        base_typmod: row.int(c::TYPTYPMOD) as i32,
        not_null: row.bool(c::TYPNOTNULL),
        default: row.optional_text(c::TYPDEFAULTBIN).or_else(|| row.optional_text(c::TYPDEFAULT)),
        checks,
        labels,
    }
}

pub(crate) fn proc_object(row: &[Datum]) -> Proc {
    use pg_proc as c;
    let modes = row.elements(c::PROARGMODES).iter().map(|mode| match mode {
        Datum::Char(b'o') => ArgMode::Out,
        Datum::Char(b'b') => ArgMode::InOut,
        Datum::Char(b'v') => ArgMode::Variadic,
        Datum::Char(b't') => ArgMode::Table,
        _ => ArgMode::In,
    });
    Proc {
        oid: row.oid(c::OID),
        name: row.text(c::PRONAME),
        namespace: row.oid(c::PRONAMESPACE),
        owner: row.oid(c::PROOWNER),
        language: row.oid(c::PROLANG),
        kind: match row.char(c::PROKIND) {
            b'p' => ProcKind::Procedure,
            b'a' => ProcKind::Aggregate,
            b'w' => ProcKind::Window,
            _ => ProcKind::Function,
        },
        strict: row.bool(c::PROISSTRICT),
        returns_set: row.bool(c::PRORETSET),
        volatility: match row.char(c::PROVOLATILE) {
            b'i' => Volatility::Immutable,
            b's' => Volatility::Stable,
            _ => Volatility::Volatile,
        },
        security_definer: row.bool(c::PROSECDEF),
        return_type: row.oid(c::PRORETTYPE),
        arg_types: row.oids(c::PROARGTYPES),
        variadic: row.oid(c::PROVARIADIC),
        all_arg_types: row.oids(c::PROALLARGTYPES),
        arg_modes: modes.collect(),
        arg_names: row.texts(c::PROARGNAMES),
        arg_defaults: split_expressions(row.str(c::PROARGDEFAULTS)),
        source: row.text(c::PROSRC),
        sql_body: row.optional_text(c::PROSQLBODY),
        config: row
            .texts(c::PROCONFIG)
            .iter()
            .filter_map(|setting| setting.split_once('=').map(|(name, value)| (name.into(), value.into())))
            .collect(),
    }
}

fn relation_kind(byte: u8) -> RelationKind {
    match byte {
        b'i' => RelationKind::Index,
        b'S' => RelationKind::Sequence,
        b'v' => RelationKind::View,
        b'm' => RelationKind::MaterializedView,
        b'c' => RelationKind::CompositeType,
        b'p' | b'I' => RelationKind::PartitionedTable,
        b't' => RelationKind::Toast,
        _ => RelationKind::Table,
    }
}

fn column(row: &[Datum]) -> Column {
    use pg_attribute as c;
    Column {
        name: row.text(c::ATTNAME),
        attnum: row.int(c::ATTNUM) as i16,
        ty: TypeRef {
            oid: row.oid(c::ATTTYPID),
            typmod: row.int(c::ATTTYPMOD) as i32,
            collation: row.oid(c::ATTCOLLATION),
        },
        not_null: row.bool(c::ATTNOTNULL),
        dropped: row.bool(c::ATTISDROPPED),
        default: None,
        generated: row.char(c::ATTGENERATED) == b's',
        identity: match row.char(c::ATTIDENTITY) {
            b'a' => Identity::Always,
            b'd' => Identity::ByDefault,
            _ => Identity::None,
        },
        identity_sequence: 0,
        missing: if row.bool(c::ATTHASMISSING) {
            row.elements(c::ATTMISSINGVAL).first().cloned()
        } else {
            None
        },
    }
}

pub(crate) fn constraint(row: &[Datum]) -> Constraint {
    use pg_constraint as c;
    let action = |column| match row.char(column) {
        b'r' => ForeignKeyAction::Restrict,
        b'c' => ForeignKeyAction::Cascade,
        b'n' => ForeignKeyAction::SetNull,
        b'd' => ForeignKeyAction::SetDefault,
        _ => ForeignKeyAction::NoAction,
    };
    Constraint {
        oid: row.oid(c::OID),
        name: row.text(c::CONNAME),
        namespace: row.oid(c::CONNAMESPACE),
        kind: match row.char(c::CONTYPE) {
            b'f' => ConstraintKind::ForeignKey,
            b'p' => ConstraintKind::PrimaryKey,
            b'u' => ConstraintKind::Unique,
            b'n' => ConstraintKind::NotNull,
            b'x' => ConstraintKind::Exclusion,
            _ => ConstraintKind::Check,
        },
        table: row.oid(c::CONRELID),
        domain: row.oid(c::CONTYPID),
        deferrable: row.bool(c::CONDEFERRABLE),
        deferred: row.bool(c::CONDEFERRED),
        validated: row.bool(c::CONVALIDATED),
        columns: row.int2s(c::CONKEY),
        expression: row.optional_text(c::CONBIN),
        index: row.oid(c::CONINDID),
        foreign_table: row.oid(c::CONFRELID),
        foreign_columns: row.int2s(c::CONFKEY),
        on_update: action(c::CONFUPDTYPE),
        on_delete: action(c::CONFDELTYPE),
        on_delete_columns: row.int2s(c::CONFDELSETCOLS),
        match_full: row.char(c::CONFMATCHTYPE) == b'f',
    }
}

/// What building indexes must ask about operator classes: family and input type.
pub(crate) type OpclassOf<'a> = &'a dyn Fn(Oid) -> Option<Arc<Opclass>>;

fn index(
    row: &[Datum],
    class: &[Datum],
    table: &Relation,
    constraints: &[Arc<Constraint>],
    opclass: OpclassOf,
) -> Index {
    use pg_index as c;
    let attributes = row.int2s(c::INDKEY);
    let (classes, options, collations) =
        (row.oids(c::INDCLASS), row.int2s(c::INDOPTION), row.oids(c::INDCOLLATION));
    let key_count = (row.int(c::INDNKEYATTS).max(0) as usize).min(attributes.len());
    let mut expressions = split_expressions(row.str(c::INDEXPRS)).into_iter();
    let keys = attributes[..key_count].iter().enumerate().map(|(position, &attribute)| {
        let option = options.get(position).copied().unwrap_or(0);
        let opclass_oid = classes.get(position).copied().unwrap_or(0);
        let class = opclass(opclass_oid);
        let column = usize::try_from(attribute - 1).ok().and_then(|column| table.columns.get(column));
        let collation = collations.get(position).copied().unwrap_or(0);
        let ty = match column {
            Some(column) => TypeRef { collation, ..column.ty },
            None => {
                TypeRef { oid: class.as_ref().map_or(0, |class| class.input_type), typmod: -1, collation }
            }
        };
        IndexKey {
            key: if attribute == 0 {
                IndexKeyColumn::Expression(expressions.next().unwrap_or_else(|| Text::from("NULL")))
            } else {
                IndexKeyColumn::Attribute(attribute)
            },
            ty,
            opclass: opclass_oid,
            opfamily: class.map_or(0, |class| class.family),
            descending: option & INDOPTION_DESC != 0,
            nulls_first: option & INDOPTION_NULLS_FIRST != 0,
            hash: option & INDOPTION_HASH != 0,
        }
    });
    let keys = keys.collect();
    let oid = row.oid(c::INDEXRELID);
    let key_constraint = constraints.iter().find(|constraint| {
        constraint.index == oid
            && matches!(constraint.kind, ConstraintKind::PrimaryKey | ConstraintKind::Unique)
    });
    let primary = row.bool(c::INDISPRIMARY);
    Index {
        oid,
        name: class.text(pg_class::RELNAME),
        namespace: class.oid(pg_class::RELNAMESPACE),
        table: row.oid(c::INDRELID),
        storage: match storage_id(class.oid(pg_class::RELFILENODE)) {
            0 if primary => table.storage,
            own => own,
        },
        keys,
        include: attributes[key_count..].to_vec(),
        unique: row.bool(c::INDISUNIQUE),
        primary,
        nulls_not_distinct: row.bool(c::INDNULLSNOTDISTINCT),
        predicate: row.optional_text(c::INDPRED),
        valid: row.bool(c::INDISVALID),
        constraint: key_constraint.map_or(0, |constraint| constraint.oid),
        deferrable: !row.bool(c::INDIMMEDIATE),
    }
}

/// pg_class.relfilenode as a storage id.
pub(crate) fn storage_id(relfilenode: Oid) -> cairn_txn::StorageId {
    relfilenode
}

fn relation(row: &[Datum]) -> Relation {
    use pg_class as c;
    Relation {
        oid: row.oid(c::OID),
        name: row.text(c::RELNAME),
        namespace: row.oid(c::RELNAMESPACE),
        owner: row.oid(c::RELOWNER),
        kind: relation_kind(row.char(c::RELKIND)),
        persistence: match row.char(c::RELPERSISTENCE) {
            b'u' => Persistence::Unlogged,
            b't' => Persistence::Temporary,
            _ => Persistence::Permanent,
        },
        row_type: row.oid(c::RELTYPE),
        storage: if row.oid(c::OID) < cairn_types::oid::FIRST_USER_OID {
            0
        } else {
            storage_id(row.oid(c::RELFILENODE))
        },
        columns: Vec::new(),
        primary_key: None,
        indexes: Vec::new(),
        constraints: Vec::new(),
        referenced_by: Vec::new(),
        view_query: None,
        sequence: None,
        options: row.texts(c::RELOPTIONS),
        schema_version: row.int(SCHEMA_VERSION) as u32,
        estimated_rows: match row.datum(c::RELTUPLES) {
            Datum::Float4(rows) => f64::from(*rows),
            _ => -1.0,
        },
        statistics: TableStatistics::default(),
    }
}

fn sequence_info(row: &[Datum]) -> SequenceInfo {
    use pg_sequence as c;
    SequenceInfo {
        type_oid: row.oid(c::SEQTYPID),
        start: row.int(c::SEQSTART),
        increment: row.int(c::SEQINCREMENT),
        min: row.int(c::SEQMIN),
        max: row.int(c::SEQMAX),
        cache: row.int(c::SEQCACHE),
        cycle: row.bool(c::SEQCYCLE),
    }
}

/// The columns that `select * from sequence` shows.
fn sequence_columns() -> Vec<Column> {
    let column = |attnum, name: &str, oid| Column {
        name: name.into(),
        attnum,
        ty: TypeRef { oid, typmod: -1, collation: 0 },
        not_null: true,
        dropped: false,
        default: None,
        generated: false,
        identity: Identity::None,
        identity_sequence: 0,
        missing: None,
    };
    vec![
        column(1, "last_value", types::INT8),
        column(2, "log_cnt", types::INT8),
        column(3, "is_called", types::BOOL),
    ]
}

/// Which objects are to be built.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    All,
    These(&'a HashSet<Oid>),
}

impl<'a> Wanted<'a> {
    fn has(self, oid: Oid) -> bool {
        match self {
            Wanted::All => true,
            Wanted::These(oids) => oids.contains(&oid),
        }
    }

    /// The rows that have one of these oids in a column: the first column of an index.
    fn rows(
        self,
        rows: &'a dyn Rows,
        catalog: Oid,
        column: usize,
    ) -> Box<dyn Iterator<Item = &'a CatalogRow> + 'a> {
        match self {
            Wanted::All => rows.rows(catalog),
            Wanted::These(oids) => {
                Box::new(oids.iter().flat_map(move |oid| rows.find(catalog, &[(column, Datum::Oid(*oid))])))
            }
        }
    }

    fn grouped(self, rows: &'a dyn Rows, catalog: Oid, column: usize) -> HashMap<Oid, Vec<&'a CatalogRow>> {
        let mut groups: HashMap<Oid, Vec<&CatalogRow>> = HashMap::new();
        for row in self.rows(rows, catalog, column) {
            groups.entry(row.oid(column)).or_default().push(row);
        }
        groups
    }

    /// The constraints that have one of these oids in a column of pg_constraint.
    fn constraints(
        self,
        rows: &'a dyn Rows,
        objects: &Objects,
        column: usize,
    ) -> HashMap<Oid, Vec<Arc<Constraint>>> {
        let mut groups: HashMap<Oid, Vec<Arc<Constraint>>> = HashMap::new();
        for row in self.rows(rows, pg_constraint::TABLE, column).filter(|row| row.oid(column) != 0) {
            if let Some(constraint) = objects.constraints.get(&row.oid(pg_constraint::OID)) {
                groups.entry(row.oid(column)).or_default().push(constraint.clone());
            }
        }
        groups
    }
}

/// The built-in functions with a name.
pub(crate) type BuiltinProcs<'a> = &'a dyn Fn(&str) -> Vec<Arc<Proc>>;

/// Builds all objects of `rows`. `with_indexes` is false for system catalogs, whose rows the catalog itself keeps: the
/// planner must not see their indexes.
pub(crate) fn build(
    rows: &dyn Rows,
    with_indexes: bool,
    opclass: OpclassOf,
    builtin_procs: BuiltinProcs,
) -> Objects {
    let mut objects = Objects::default();
    build_namespaces(rows, &mut objects, Wanted::All);
    build_constraints(rows, &mut objects, Wanted::All);
    build_types(rows, &mut objects, Wanted::All);
    build_procs(rows, &mut objects, Wanted::All, builtin_procs);
    build_relations(rows, with_indexes, opclass, &mut objects, Wanted::All);
    objects
}

/// Builds what was touched anew, and leaves the rest as it is.
pub(crate) fn update(
    objects: &mut Objects,
    rows: &dyn Rows,
    touched: &Touched,
    opclass: OpclassOf,
    builtin_procs: BuiltinProcs,
) {
    for oid in &touched.namespaces {
        objects.namespaces.remove(oid);
    }
    for oid in &touched.constraints {
        objects.constraints.remove(oid);
    }
    for oid in &touched.types {
        if let Some(old) = objects.types.remove(oid) {
            remove_name(&mut objects.type_names, &old.name, |(_, object)| object.oid == *oid);
            for label in &old.labels {
                objects.enum_labels.remove(&label.value.oid);
            }
        }
    }
    for oid in &touched.procs {
        if let Some(old) = objects.procs.remove(oid) {
            remove_name(&mut objects.proc_names, &old.name, |object| object.oid == *oid);
        }
    }
    // An index is part of its table.
    let mut relations = touched.relations.clone();
    for oid in &touched.relations {
        if let Some(index) = objects.indexes.get(oid) {
            relations.insert(index.table);
        }
    }
    for oid in &relations {
        if let Some(old) = objects.relations.remove(oid) {
            remove_name(&mut objects.relation_names, &old.name, |(_, object)| object.oid == *oid);
            for index in &old.indexes {
                objects.indexes.remove(&index.oid);
            }
        }
    }
    build_namespaces(rows, objects, Wanted::These(&touched.namespaces));
    build_constraints(rows, objects, Wanted::These(&touched.constraints));
    build_types(rows, objects, Wanted::These(&touched.types));
    build_procs(rows, objects, Wanted::These(&touched.procs), builtin_procs);
    build_relations(rows, true, opclass, objects, Wanted::These(&relations));
}

fn remove_name<T: Clone>(names: &mut SharedMap<Text, Vec<T>>, name: &Text, is_it: impl Fn(&T) -> bool) {
    if let Some(named) = names.get_mut(name) {
        named.retain(|object| !is_it(object));
        if named.is_empty() {
            names.remove(name);
        }
    }
}

fn build_namespaces(rows: &dyn Rows, objects: &mut Objects, wanted: Wanted<'_>) {
    for row in wanted.rows(rows, pg_namespace::TABLE, pg_namespace::OID) {
        let namespace = namespace(row);
        objects.namespaces.insert(namespace.oid, Arc::new(namespace));
    }
}

fn build_constraints(rows: &dyn Rows, objects: &mut Objects, wanted: Wanted<'_>) {
    for row in wanted.rows(rows, pg_constraint::TABLE, pg_constraint::OID) {
        let constraint = constraint(row);
        objects.constraints.insert(constraint.oid, Arc::new(constraint));
    }
}

fn build_types(rows: &dyn Rows, objects: &mut Objects, wanted: Wanted<'_>) {
    let mut labels: HashMap<Oid, Vec<EnumLabel>> = HashMap::new();
    for row in wanted.rows(rows, pg_enum::TABLE, pg_enum::ENUMTYPID) {
        use pg_enum as c;
        let sort_order = if let Datum::Float4(order) = row.datum(c::ENUMSORTORDER) { *order } else { 0.0 };
        let value = EnumValue { oid: row.oid(c::OID), sort_order };
        let label = EnumLabel { value, label: row.text(c::ENUMLABEL) };
        objects.enum_labels.insert(value.oid, (row.oid(c::ENUMTYPID), label.clone()));
        labels.entry(row.oid(c::ENUMTYPID)).or_default().push(label);
    }
    for labels in labels.values_mut() {
        labels.sort_by(|a, b| a.value.sort_order.total_cmp(&b.value.sort_order));
    }
    let mut checks = wanted.constraints(rows, objects, pg_constraint::CONTYPID);
    for row in wanted.rows(rows, pg_type::TABLE, pg_type::OID) {
        let oid = row.oid(pg_type::OID);
        let mut checks = checks.remove(&oid).unwrap_or_default();
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        let object = Arc::new(type_object(row, labels.remove(&oid).unwrap_or_default(), checks));
        objects.type_names.or_default(&object.name).push((object.namespace, object.clone()));
        objects.types.insert(oid, object);
    }
}

fn build_procs(rows: &dyn Rows, objects: &mut Objects, wanted: Wanted<'_>, builtin_procs: BuiltinProcs) {
    for row in wanted.rows(rows, pg_proc::TABLE, pg_proc::OID) {
        add_proc(objects, Arc::new(proc_object(row)), builtin_procs);
    }
}

pub(crate) fn add_proc(objects: &mut Objects, proc: Arc<Proc>, builtin_procs: BuiltinProcs) {
    if objects.proc_names.get(&proc.name).is_none() {
        objects.proc_names.insert(proc.name.clone(), builtin_procs(&proc.name));
    }
    objects.proc_names.or_default(&proc.name).push(proc.clone());
    objects.procs.insert(proc.oid, proc);
}

fn build_relations(
    rows: &dyn Rows,
    with_indexes: bool,
    opclass: OpclassOf,
    objects: &mut Objects,
    wanted: Wanted<'_>,
) {
    let attributes = wanted.grouped(rows, pg_attribute::TABLE, pg_attribute::ATTRELID);
    let defaults = wanted.grouped(rows, pg_attrdef::TABLE, pg_attrdef::ADRELID);
    let mut indexes = wanted.grouped(rows, pg_index::TABLE, pg_index::INDRELID);
    let rules = wanted.grouped(rows, pg_rewrite::TABLE, pg_rewrite::EV_CLASS);
    let sequences = wanted.grouped(rows, pg_sequence::TABLE, pg_sequence::SEQRELID);
    // An index needs its own row even if only its table is wanted.
    let index_oids: HashSet<Oid> =
        indexes.values().flatten().map(|row| row.oid(pg_index::INDEXRELID)).collect();
    let mut statistics = wanted.grouped(rows, pg_statistic::TABLE, pg_statistic::STARELID);
    if let Wanted::These(_) = wanted {
        let of_indexes = Wanted::These(&index_oids);
        statistics.extend(of_indexes.grouped(rows, pg_statistic::TABLE, pg_statistic::STARELID));
    }
    let of_indexes = match wanted {
        Wanted::All => None,
        Wanted::These(_) => Some(Wanted::These(&index_oids).rows(rows, pg_class::TABLE, pg_class::OID)),
    };
    let classes: HashMap<Oid, &CatalogRow> = wanted
        .rows(rows, pg_class::TABLE, pg_class::OID)
        .chain(of_indexes.into_iter().flatten())
        .map(|row| (row.oid(pg_class::OID), row))
        .collect();
    let mut constraints = wanted.constraints(rows, objects, pg_constraint::CONRELID);
    let mut references = wanted.constraints(rows, objects, pg_constraint::CONFRELID);
    let identity_sequences = identity_sequences(rows, wanted);
    for (&oid, row) in classes.iter().filter(|(oid, _)| wanted.has(**oid)) {
        let mut object = relation(row);
        object.columns = columns(oid, &attributes, &defaults, &identity_sequences);
        if let Some(sequence) = sequences.get(&oid).and_then(|rows| rows.first()) {
            object.sequence = Some(sequence_info(sequence));
            object.columns = sequence_columns();
        }
        object.view_query = rules
            .get(&oid)
            .and_then(|rows| rows.iter().find(|row| row.str(pg_rewrite::RULENAME) == "_RETURN"))
            .and_then(|row| row.optional_text(pg_rewrite::EV_ACTION));
        object.constraints = constraints.remove(&oid).unwrap_or_default();
        object.constraints.sort_by(|a, b| a.name.cmp(&b.name));
        object.referenced_by = references.remove(&oid).unwrap_or_default();
        object.referenced_by.sort_by_key(|constraint| constraint.oid);
        if let Some(rows) = indexes.remove(&oid) {
            for row in rows {
                let Some(class) = classes.get(&row.oid(pg_index::INDEXRELID)) else { continue };
                let index = Arc::new(index(row, class, &object, &object.constraints, opclass));
                objects.indexes.insert(index.oid, index.clone());
                if with_indexes {
                    object.indexes.push(index);
                }
            }
            object.indexes.sort_by_key(|index| index.oid);
            object.primary_key =
                object.indexes.iter().find(|index| index.primary && index.storage == object.storage).cloned();
        }
        let of_indexes = object.indexes.iter().map(|index| index.oid);
        let own: Vec<&CatalogRow> = std::iter::once(oid)
            .chain(of_indexes)
            .filter_map(|relation| statistics.remove(&relation))
            .flatten()
            .collect();
        object.statistics = TableStatistics::new(own.into_iter().cloned());
        let object = Arc::new(object);
        objects.relation_names.or_default(&object.name).push((object.namespace, object.clone()));
        objects.relations.insert(oid, object);
    }
}

/// Identity columns own their sequence by an internal dependency: the sequence of each column, a relation and its number.
fn identity_sequences(rows: &dyn Rows, wanted: Wanted<'_>) -> HashMap<(Oid, i64), Oid> {
    use pg_depend as c;
    let found: Box<dyn Iterator<Item = &CatalogRow>> = match wanted {
        Wanted::All => rows.rows(c::TABLE),
        Wanted::These(oids) => Box::new(oids.iter().flat_map(|oid| {
            let class = (c::REFCLASSID, Datum::Oid(pg_class::TABLE));
            rows.find(c::TABLE, &[class, (c::REFOBJID, Datum::Oid(*oid))])
        })),
    };
    let of_identity = |row: &&CatalogRow| {
        row.char(c::DEPTYPE) == b'i' && row.oid(c::CLASSID) == pg_class::TABLE && row.int(c::REFOBJSUBID) > 0
    };
    found
        .filter(of_identity)
        .map(|row| ((row.oid(c::REFOBJID), row.int(c::REFOBJSUBID)), row.oid(c::OBJID)))
        .collect()
}

fn columns(
    relation: Oid,
    attributes: &HashMap<Oid, Vec<&CatalogRow>>,
    defaults: &HashMap<Oid, Vec<&CatalogRow>>,
    identity_sequences: &HashMap<(Oid, i64), Oid>,
) -> Vec<Column> {
    let rows = attributes.get(&relation).map_or(&[][..], Vec::as_slice);
    let mut columns: Vec<Column> =
        rows.iter().map(|row| column(row)).filter(|column| column.attnum > 0).collect();
    columns.sort_by_key(|column| column.attnum);
    for row in defaults.get(&relation).map_or(&[][..], Vec::as_slice) {
        let attnum = row.int(pg_attrdef::ADNUM);
        if let Some(column) = columns.iter_mut().find(|column| i64::from(column.attnum) == attnum) {
            column.default = row.optional_text(pg_attrdef::ADBIN);
        }
    }
    for column in &mut columns {
        let key = (relation, i64::from(column.attnum));
        column.identity_sequence = identity_sequences.get(&key).copied().unwrap_or(0);
    }
    columns
}
