//! The objects of `golden/schema.sql` as catalog objects, and an environment without a session.

use std::sync::Arc;

use cairn_analyze::{AnalyzeContext, Parameters};
use cairn_catalog::*;
use cairn_types::*;

pub struct TestEnv {
    pub catalog: Arc<Catalog>,
    pub path: SearchPath,
    settings: FormatSettings,
}

impl TestEnv {
    pub fn new() -> Self {
        let catalog = Arc::new(catalog());
        let path = SearchPath::new(&catalog, &["public".into()], "postgres", None);
        TestEnv { catalog, path, settings: FormatSettings::default() }
    }

    pub fn context<'a>(&'a self, parameters: Parameters<'a>) -> AnalyzeContext<'a> {
        AnalyzeContext { catalog: &self.catalog, search_path: &self.path, env: self, parameters }
    }
}

impl Env for TestEnv {
    cairn_testkit::env_of_an_idle_session!(database: "analyzer_golden", time: 0);
    fn format(&self) -> &FormatSettings {
        &self.settings
    }
    fn extension_installed(&self, _: &str) -> bool {
        false
    }
    fn type_shape(&self, type_oid: Oid) -> Option<TypeShape> {
        let found = self.catalog.type_by_oid(type_oid)?;
        let element = self.catalog.array_element(type_oid);
        Some(match found.kind {
            _ if element != 0 => TypeShape::Array { element, delimiter: ',' },
            TypeKind::Enum => TypeShape::Enum,
            TypeKind::Domain => TypeShape::Domain { base: found.base, typmod: found.base_typmod },
            TypeKind::Pseudo => TypeShape::Pseudo,
            _ => TypeShape::Base,
        })
    }
    fn format_type(&self, type_oid: Oid, typmod: i32) -> String {
        self.catalog.format_type(type_oid, typmod, &self.path)
    }
    fn parse_type(&self, name: &str) -> Result<(Oid, i32)> {
        cairn_analyze::parse_type_name(name, &self.context(Parameters::None))
    }
    fn enum_label(&self, value: Oid) -> Option<Text> {
        self.catalog.enum_label(value).map(|(_, label)| label.label.clone())
    }
    fn enum_value(&self, type_oid: Oid, label: &str) -> Option<EnumValue> {
        self.catalog.enum_value(type_oid, label)
    }
    fn reg_name(&self, _: Oid, _: Oid) -> Option<String> {
        None
    }
    fn reg_lookup(&self, reg_type: Oid, name: &str) -> Result<Oid> {
        match reg_type {
            types::REGCLASS => self
                .catalog
                .resolve_relation(
                    &self.path,
                    name.split_once('.').map(|(schema, _)| schema),
                    name.split_once('.').map_or(name, |(_, relation)| relation),
                )
                .map(|relation| relation.oid)
                .ok_or_else(|| err!(UNDEFINED_TABLE, "relation \"{name}\" does not exist")),
            types::REGPROC => self
                .catalog
                .procs_by_name(name)
                .first()
                .map(|proc| proc.oid)
                .ok_or_else(|| err!(UNDEFINED_FUNCTION, "function \"{name}\" does not exist")),
            types::REGTYPE => self.parse_type(name).map(|(oid, _)| oid),
            _ => Err(Error::internal("not here")),
        }
    }
    fn system_function(&self, _: &str, _: &[Datum], _: &CallInfo<'_>) -> Result<Datum> {
        Err(Error::internal("not here"))
    }
}

pub const PUBLIC: Oid = 2200;
const MOOD: Oid = 17000;
const MOOD_ARRAY: Oid = 17001;
const PAIR: Oid = 17010;
const POSINT: Oid = 17020;

fn ty(oid: Oid, typmod: i32) -> TypeRef {
    let collation = match oid {
        types::TEXT | types::VARCHAR | types::BPCHAR => 100,
        _ => 0,
    };
    TypeRef { oid, typmod, collation }
}

fn table(name: &str, oid: Oid, kind: RelationKind, columns: &[(&str, Oid, i32)]) -> Relation {
    Relation {
        oid,
        name: name.into(),
        namespace: PUBLIC,
        owner: 10,
        kind,
        persistence: Persistence::Permanent,
        row_type: oid + 1,
        storage: oid,
        columns: columns
            .iter()
            .enumerate()
            .map(|(i, (name, oid, typmod))| Column {
                name: (*name).into(),
                attnum: i as i16 + 1,
                ty: ty(*oid, *typmod),
                not_null: false,
                dropped: false,
                default: None,
                generated: false,
                identity: Identity::None,
                identity_sequence: 0,
                missing: None,
            })
            .collect(),
        primary_key: None,
        indexes: Vec::new(),
        constraints: Vec::new(),
        referenced_by: Vec::new(),
        view_query: None,
        sequence: None,
        options: Vec::new(),
        schema_version: 1,
        estimated_rows: 0.0,
        statistics: Default::default(),
    }
}

fn add_index(
    relation: &mut Relation,
    oid: Oid,
    name: &str,
    keys: Vec<IndexKeyColumn>,
    primary: bool,
    predicate: Option<&str>,
) {
    let index = Arc::new(Index {
        oid,
        name: name.into(),
        namespace: PUBLIC,
        table: relation.oid,
        storage: relation.storage,
        keys: keys
            .into_iter()
            .map(|key| IndexKey {
                ty: ty(types::INT4, -1),
                key,
                opclass: 0,
                opfamily: 0,
                descending: false,
                nulls_first: false,
                hash: false,
            })
            .collect(),
        include: Vec::new(),
        unique: true,
        primary,
        nulls_not_distinct: false,
        predicate: predicate.map(Into::into),
        valid: true,
        constraint: if primary { oid + 1 } else { 0 },
        deferrable: false,
    });
    if primary {
        relation.primary_key = Some(index.clone());
        relation.constraints.push(Arc::new(Constraint {
            oid: oid + 1,
            name: name.into(),
            namespace: PUBLIC,
            kind: ConstraintKind::PrimaryKey,
            table: relation.oid,
            domain: 0,
            deferrable: false,
            deferred: false,
            validated: true,
            columns: Vec::new(),
            expression: None,
            index: oid,
            foreign_table: 0,
            foreign_columns: Vec::new(),
            on_update: ForeignKeyAction::NoAction,
            on_delete: ForeignKeyAction::NoAction,
            on_delete_columns: Vec::new(),
            match_full: false,
        }));
    }
    relation.indexes.push(index);
}

fn row_type(relation: &Relation) -> Type {
    let mut found = blank_type(relation.row_type, &relation.name, TypeKind::Composite, b'C');
    found.relation = relation.oid;
    found
}

fn blank_type(oid: Oid, name: &str, kind: TypeKind, category: u8) -> Type {
    Type {
        oid,
        name: name.into(),
        namespace: PUBLIC,
        owner: 10,
        kind,
        category,
        preferred: false,
        defined: true,
        length: -1,
        by_value: false,
        delimiter: b',',
        relation: 0,
        element: 0,
        array: 0,
        input: 0,
        output: 0,
        receive: 0,
        send: 0,
        typmod_in: 0,
        typmod_out: 0,
        collation: 0,
        base: 0,
        base_typmod: -1,
        not_null: false,
        default: None,
        checks: Vec::new(),
        labels: Vec::new(),
    }
}

fn function(oid: Oid, name: &str, args: &[Oid], result: Oid) -> Proc {
    Proc {
        oid,
        name: name.into(),
        namespace: PUBLIC,
        owner: 10,
        language: 14,
        kind: ProcKind::Function,
        strict: false,
        returns_set: false,
        volatility: Volatility::Volatile,
        security_definer: false,
        return_type: result,
        arg_types: args.to_vec(),
        variadic: 0,
        all_arg_types: Vec::new(),
        arg_modes: Vec::new(),
        arg_names: Vec::new(),
        arg_defaults: Vec::new(),
        source: "".into(),
        sql_body: None,
        config: Vec::new(),
    }
}

pub fn catalog() -> Catalog {
    use IndexKeyColumn::{Attribute, Expression};
    use types::*;
    let numeric_10_2 = ((10 << 16) | 2) + 4;
    let mut t = table(
        "t",
        18000,
        RelationKind::Table,
        &[
            ("id", INT8, -1),
            ("a", INT4, -1),
            ("b", TEXT, -1),
            ("c", VARCHAR, 14),
            ("d", DATE, -1),
            ("n", NUMERIC, numeric_10_2),
            ("ts", TIMESTAMPTZ, -1),
            ("arr", INT4_ARRAY, -1),
            ("j", JSONB, -1),
            ("m", MOOD, -1),
            ("p", PAIR, -1),
            ("dom", POSINT, -1),
        ],
    );
    t.columns[0].not_null = true;
    t.columns[6].default = Some("now()".into());
    add_index(&mut t, 18010, "t_pkey", vec![Attribute(1)], true, None);
    let mut u = table(
        "u",
        18100,
        RelationKind::Table,
        &[("id", INT4, -1), ("t_id", INT8, -1), ("a", INT4, -1), ("name", TEXT, -1), ("ch", BPCHAR, 9)],
    );
    add_index(&mut u, 18110, "u_pkey", vec![Attribute(1)], true, None);
    add_index(&mut u, 18120, "u_name", vec![Attribute(4)], false, None);
    add_index(&mut u, 18130, "u_lower", vec![Expression("lower(name)".into())], false, Some("a > 0"));
    let mut queue = table(
        "job_queue",
        18200,
        RelationKind::Table,
        &[("account_id", INT4, -1), ("id", INT8, -1), ("payload", TEXT, -1)],
    );
    queue.columns[1].identity = Identity::Always;
    queue.columns[1].identity_sequence = 18250;
    add_index(&mut queue, 18210, "job_queue_pkey", vec![Attribute(1), Attribute(2)], true, None);
    let mut g =
        table("g", 18300, RelationKind::Table, &[("id", INT8, -1), ("c", BPCHAR, 64), ("v", INT4, -1)]);
    g.columns[0].identity = Identity::ByDefault;
    g.columns[0].identity_sequence = 18350;
    g.columns[1].default = Some("''::bpchar".into());
    g.columns[2].default = Some("(id % (50)::bigint)".into());
    g.columns[2].generated = true;
    add_index(&mut g, 18310, "g_pkey", vec![Attribute(1)], true, None);
    let mut sequence = table(
        "g_id_seq",
        18350,
        RelationKind::Sequence,
        &[("last_value", INT8, -1), ("log_cnt", INT8, -1), ("is_called", BOOL, -1)],
    );
    sequence.row_type = 0;
    let mut v = table("v", 18400, RelationKind::View, &[("id", INT8, -1), ("a", INT4, -1), ("b", TEXT, -1)]);
    v.view_query = Some("SELECT t.id, t.a, t.b FROM public.t WHERE (t.a > 1)".into());
    let pair = table("pair", PAIR + 1, RelationKind::CompositeType, &[("a", INT4, -1), ("b", TEXT, -1)]);

    let mut mood = blank_type(MOOD, "mood", TypeKind::Enum, b'E');
    mood.array = MOOD_ARRAY;
    mood.labels = ["sad", "ok", "happy"]
        .iter()
        .enumerate()
        .map(|(i, label)| EnumLabel {
            value: EnumValue { oid: 17100 + i as u32, sort_order: i as f32 },
            label: (*label).into(),
        })
        .collect();
    let mut mood_array = blank_type(MOOD_ARRAY, "_mood", TypeKind::Base, b'A');
    mood_array.element = MOOD;
    let mut pair_type = blank_type(PAIR, "pair", TypeKind::Composite, b'C');
    pair_type.relation = pair.oid;
    let mut posint = blank_type(POSINT, "posint", TypeKind::Domain, b'N');
    posint.base = INT4;
    let rows: Vec<Type> = [&t, &u, &queue, &g, &v].into_iter().map(row_type).collect();
    let mut all_types = vec![mood, mood_array, pair_type, posint];
    all_types.extend(rows);

    let mut add1 = function(18500, "add1", &[INT4, INT4], INT4);
    add1.arg_names = vec!["x".into(), "y".into()];
    add1.arg_defaults = vec!["1".into()];
    let mut rec = function(18501, "rec", &[], RECORD);
    rec.all_arg_types = vec![INT4, TEXT];
    rec.arg_modes = vec![ArgMode::Out, ArgMode::Out];
    rec.arg_names = vec!["x".into(), "y".into()];
    let mut srf = function(18502, "srf", &[INT4], INT4);
    srf.arg_names = vec!["n".into()];
    srf.returns_set = true;
    let mut vari = function(18503, "vari", &[INT4_ARRAY], INT4);
    vari.variadic = INT4;
    vari.all_arg_types = vec![INT4_ARRAY];
    vari.arg_modes = vec![ArgMode::Variadic];
    vari.arg_names = vec!["xs".into()];
    let mut proc = function(18504, "proc", &[INT4, TEXT], RECORD);
    proc.kind = ProcKind::Procedure;
    proc.all_arg_types = vec![INT4, TEXT];
    proc.arg_modes = vec![ArgMode::In, ArgMode::InOut];
    proc.arg_names = vec!["a".into(), "b".into()];
    Catalog::with_objects(
        vec![t, u, queue, g, sequence, v, pair],
        all_types,
        vec![add1, rec, srf, vari, proc],
    )
}
