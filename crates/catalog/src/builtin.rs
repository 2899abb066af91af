//! The objects that come with Cairn: PostgreSQL 15's own, parsed once from the embedded data.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cairn_types::{Datum, Oid, Text};

use crate::columns::*;
use crate::objects::{self, Objects};
use crate::rows::{self, Rows};
use crate::system_table::{CatalogRow, RowExt, blank_row, system_table};
use crate::*;

/// Everything built in. Operators, casts, aggregates and operator classes exist only here: users cannot make any yet.
pub(crate) struct Builtin {
    pub objects: Objects,
    pub operators: HashMap<Oid, Arc<Operator>>,
    pub operator_names: HashMap<Text, Vec<Arc<Operator>>>,
    pub casts: HashMap<(Oid, Oid), Cast>,
    pub aggregates: HashMap<Oid, Aggregate>,
    pub opclasses: HashMap<Oid, Arc<Opclass>>,
    /// By access method and input type.
    pub default_opclasses: HashMap<(Oid, Oid), Arc<Opclass>>,
    pub families: HashMap<Oid, Vec<OpfamilyMember>>,
    pub memberships: HashMap<Oid, Vec<OpfamilyMember>>,
    /// Operators of hash families.
    pub hash_operators: std::collections::HashSet<Oid>,
    pub languages: HashMap<Text, Oid>,
    pub language_names: HashMap<Oid, Text>,
    pub collations: HashMap<Oid, Arc<Collation>>,
    pub access_methods: HashMap<Oid, Text>,
    /// By range type: subtype and multirange type.
    pub ranges: HashMap<Oid, (Oid, Oid)>,
}

pub(crate) static BUILTIN: LazyLock<Builtin> = LazyLock::new(build);

struct BuiltinRows;

impl Rows for BuiltinRows {
    fn rows(&self, catalog: Oid) -> Box<dyn Iterator<Item = &CatalogRow> + '_> {
        Box::new(rows(catalog))
    }

    fn find(&self, catalog: Oid, wanted: &[(usize, Datum)]) -> Box<dyn Iterator<Item = &CatalogRow> + '_> {
        let Some(table) = system_table(catalog) else { return Box::new(std::iter::empty()) };
        let number = table.index_on(wanted.iter().map(|(column, _)| *column)).unwrap_or(0);
        let prefix = rows::encode(wanted.iter().map(|(_, value)| value));
        Box::new(table.builtin_by_key().find(number, prefix))
    }
}

fn rows(catalog: Oid) -> std::slice::Iter<'static, CatalogRow> {
    system_table(catalog).map_or(&[][..], |table| table.builtin_rows()).iter()
}

/// plpgsql comes installed.
pub(crate) fn extension_rows() -> Vec<CatalogRow> {
    let row: CatalogRow = Arc::from([
        Datum::Oid(13559),
        Datum::text("plpgsql"),
        Datum::Oid(cairn_types::oid::BOOTSTRAP_ROLE),
        Datum::Oid(cairn_types::oid::namespaces::PG_CATALOG),
        Datum::Bool(false),
        Datum::text("1.0"),
        Datum::Null,
        Datum::Null,
    ]);
    vec![row]
}

fn build() -> Builtin {
    let opclasses: HashMap<Oid, Arc<Opclass>> =
        rows(pg_opclass::TABLE).map(|row| (row.oid(pg_opclass::OID), Arc::new(opclass(row)))).collect();
    let lookup = |oid: Oid| opclasses.get(&oid).cloned();
    let objects = objects::build(&BuiltinRows, false, &lookup, &|_| Vec::new());
    let mut operators = HashMap::new();
    let mut operator_names: HashMap<Text, Vec<Arc<Operator>>> = HashMap::new();
    for row in rows(pg_operator::TABLE) {
        let object = Arc::new(operator(row));
        operator_names.entry(object.name.clone()).or_default().push(object.clone());
        operators.insert(object.oid, object);
    }
    let mut families: HashMap<Oid, Vec<OpfamilyMember>> = HashMap::new();
    let mut memberships: HashMap<Oid, Vec<OpfamilyMember>> = HashMap::new();
    let mut hash_operators = std::collections::HashSet::new();
    for row in rows(pg_amop::TABLE) {
        use pg_amop as c;
        if row.oid(c::AMOPMETHOD) == cairn_types::oid::access_methods::HASH {
            hash_operators.insert(row.oid(c::AMOPOPR));
        }
        if let Some(member) = family_member(row) {
            families.entry(member.family).or_default().push(member);
            memberships.entry(member.operator).or_default().push(member);
        }
    }
    Builtin {
        default_opclasses: opclasses
            .values()
            .filter(|class| class.default)
            .map(|class| ((class.method, class.input_type), class.clone()))
            .collect(),
        casts: rows(pg_cast::TABLE)
            .map(|row| cast(row))
            .map(|cast| ((cast.source, cast.target), cast))
            .collect(),
        aggregates: rows(pg_aggregate::TABLE)
            .map(|row| (row.oid(pg_aggregate::AGGFNOID), aggregate(row)))
            .collect(),
        languages: rows(pg_language::TABLE)
            .map(|row| (row.text(pg_language::LANNAME), row.oid(pg_language::OID)))
            .collect(),
        language_names: rows(pg_language::TABLE)
            .map(|row| (row.oid(pg_language::OID), row.text(pg_language::LANNAME)))
            .collect(),
        collations: rows(pg_collation::TABLE)
            .map(|row| (row.oid(pg_collation::OID), Arc::new(collation(row))))
            .collect(),
        access_methods: rows(pg_am::TABLE)
            .map(|row| (row.oid(pg_am::OID), row.text(pg_am::AMNAME)))
            .collect(),
        ranges: rows(pg_range::TABLE)
            .map(|row| {
                (
                    row.oid(pg_range::RNGTYPID),
                    (row.oid(pg_range::RNGSUBTYPE), row.oid(pg_range::RNGMULTITYPID)),
                )
            })
            .collect(),
        objects,
        operators,
        operator_names,
        opclasses,
        families,
        memberships,
        hash_operators,
    }
}

fn operator(row: &[Datum]) -> Operator {
    use pg_operator as c;
    Operator {
        oid: row.oid(c::OID),
        name: row.text(c::OPRNAME),
        namespace: row.oid(c::OPRNAMESPACE),
        left: row.oid(c::OPRLEFT),
        right: row.oid(c::OPRRIGHT),
        result: row.oid(c::OPRRESULT),
        code: row.oid(c::OPRCODE),
        commutator: row.oid(c::OPRCOM),
        negator: row.oid(c::OPRNEGATE),
        can_hash: row.bool(c::OPRCANHASH),
        can_merge: row.bool(c::OPRCANMERGE),
    }
}

fn opclass(row: &[Datum]) -> Opclass {
    use pg_opclass as c;
    Opclass {
        oid: row.oid(c::OID),
        name: row.text(c::OPCNAME),
        namespace: row.oid(c::OPCNAMESPACE),
        method: row.oid(c::OPCMETHOD),
        family: row.oid(c::OPCFAMILY),
        input_type: row.oid(c::OPCINTYPE),
        default: row.bool(c::OPCDEFAULT),
    }
}

/// `None` for operators of other methods than btree, which have no order.
fn family_member(row: &[Datum]) -> Option<OpfamilyMember> {
    use pg_amop as c;
    if row.oid(c::AMOPMETHOD) != cairn_types::oid::access_methods::BTREE {
        return None;
    }
    let strategy = match row.int(c::AMOPSTRATEGY) {
        1 => BtreeStrategy::Less,
        2 => BtreeStrategy::LessEqual,
        3 => BtreeStrategy::Equal,
        4 => BtreeStrategy::GreaterEqual,
        5 => BtreeStrategy::Greater,
        _ => return None,
    };
    Some(OpfamilyMember {
        family: row.oid(c::AMOPFAMILY),
        left: row.oid(c::AMOPLEFTTYPE),
        right: row.oid(c::AMOPRIGHTTYPE),
        strategy,
        operator: row.oid(c::AMOPOPR),
    })
}

fn cast(row: &[Datum]) -> Cast {
    use pg_cast as c;
    Cast {
        source: row.oid(c::CASTSOURCE),
        target: row.oid(c::CASTTARGET),
        context: match row.char(c::CASTCONTEXT) {
            b'i' => CastContext::Implicit,
            b'a' => CastContext::Assignment,
            _ => CastContext::Explicit,
        },
        method: match row.char(c::CASTMETHOD) {
            b'f' => CastMethod::Function(row.oid(c::CASTFUNC)),
            b'b' => CastMethod::Binary,
            _ => CastMethod::InOut,
        },
    }
}

fn aggregate(row: &[Datum]) -> Aggregate {
    use pg_aggregate as c;
    Aggregate {
        function: row.oid(c::AGGFNOID),
        kind: row.char(c::AGGKIND),
        direct_args: row.int(c::AGGNUMDIRECTARGS) as i16,
        transition: row.oid(c::AGGTRANSFN),
        final_function: row.oid(c::AGGFINALFN),
        transition_type: row.oid(c::AGGTRANSTYPE),
        sort_operator: row.oid(c::AGGSORTOP),
        initial: row.optional_text(c::AGGINITVAL),
    }
}

fn collation(row: &[Datum]) -> Collation {
    use pg_collation as c;
    Collation { oid: row.oid(c::OID), name: row.text(c::COLLNAME), namespace: row.oid(c::COLLNAMESPACE) }
}

/// pg_init_privs: what the objects of the system allow from the beginning, so that `pg_dump` does not repeat it.
pub(crate) fn first_privileges() -> Vec<CatalogRow> {
    use crate::columns::{pg_attribute, pg_class, pg_init_privs as c, pg_namespace, pg_proc};
    let sources = [
        (pg_class::TABLE, pg_class::OID, pg_class::RELACL),
        (pg_namespace::TABLE, pg_namespace::OID, pg_namespace::NSPACL),
        (pg_proc::TABLE, pg_proc::OID, pg_proc::PROACL),
    ];
    let mut result = Vec::new();
    let mut push = |class: Oid, object: &Datum, part: i32, acl: &Datum| {
        if !acl.is_null() {
            let mut row = blank_row(c::TABLE);
            row[c::OBJOID] = object.clone();
            row[c::CLASSOID] = Datum::Oid(class);
            row[c::OBJSUBID] = Datum::Int4(part);
            row[c::PRIVTYPE] = Datum::Char(b'i');
            row[c::INITPRIVS] = acl.clone();
            result.push(row.into());
        }
    };
    for (class, oid, acl) in sources {
        rows(class).for_each(|object| push(class, &object[oid], 0, &object[acl]));
    }
    for column in rows(pg_attribute::TABLE) {
        let number = i32::try_from(column.int(pg_attribute::ATTNUM)).unwrap_or(0);
        push(pg_class::TABLE, &column[pg_attribute::ATTRELID], number, &column[pg_attribute::ATTACL]);
    }
    result
}
