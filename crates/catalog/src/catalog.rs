//! An immutable picture of all catalog objects at one time.
//!
//! Built-in objects are shared by all pictures; user objects are built from the rows that the database's store had
//! at that time. Lookups never fail and never block: what is not there is `None` or empty.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cairn_types::oid::{access_methods, namespaces};
use cairn_types::row::PhysicalKind;
use cairn_types::{Datum, Oid, Text, types};

use crate::builtin::{BUILTIN, Builtin};
use crate::columns::*;
use crate::objects::{self, Objects, Touched};
use crate::rows::{self, RowTable, Rows, StoredRows};
use crate::shared::SharedCatalogs;
use crate::shared_map::SharedMap;
use crate::system_table::{CatalogRow, RowExt, SystemTable, physical_kind, system_table};
use crate::*;

#[derive(Clone)]
pub struct Catalog {
    builtin: &'static Builtin,
    stored: StoredRows,
    user: Objects,
    namespace_names: SharedMap<Text, Arc<Namespace>>,
    extensions: HashMap<Text, Oid>,
    /// Number of the picture, for plan caches: pictures with the same number are the same.
    version: u64,
    /// Number of the committed picture that was changed, step by step, into this one.
    root: u64,
    shared: Option<Arc<dyn SharedCatalogs>>,
}

/// Whether the relation has ctid, xmin and the others, as what stores rows does.
fn has_system_columns(relation: &Relation) -> bool {
    matches!(relation.kind, RelationKind::Table | RelationKind::MaterializedView | RelationKind::Sequence)
}

/// The rows of pg_attribute for a user relation's system columns: they are the same for all, and not stored.
fn system_attributes(relation: Oid) -> impl Iterator<Item = CatalogRow> {
    static ROWS: OnceLock<Vec<CatalogRow>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        let of_pg_class = |row: &&CatalogRow| {
            row.oid(pg_attribute::ATTRELID) == pg_class::TABLE && row.int(pg_attribute::ATTNUM) < 0
        };
        let rows = system_table(pg_attribute::TABLE).map_or(&[][..], |table| table.builtin_rows());
        rows.iter().filter(of_pg_class).cloned().collect()
    });
    rows.iter().map(move |row| {
        let mut row = row.to_vec();
        row[pg_attribute::ATTRELID] = Datum::Oid(relation);
        row.into()
    })
}

impl Catalog {
    /// The objects that every database begins with.
    pub fn builtin() -> Arc<Catalog> {
        Arc::new(Catalog::from_rows(StoredRows::default(), 0))
    }

    /// The built-in objects and the given ones, without a store behind them: for tests of name resolution.
    pub fn with_objects(relations: Vec<Relation>, types: Vec<Type>, procs: Vec<Proc>) -> Catalog {
        let mut catalog = Catalog::from_rows(StoredRows::default(), 0);
        for relation in relations.into_iter().map(Arc::new) {
            for index in &relation.indexes {
                catalog.user.indexes.insert(index.oid, index.clone());
            }
            for constraint in &relation.constraints {
                catalog.user.constraints.insert(constraint.oid, constraint.clone());
            }
            let named = catalog.user.relation_names.or_default(&relation.name);
            named.push((relation.namespace, relation.clone()));
            catalog.user.relations.insert(relation.oid, relation);
        }
        for object in types.into_iter().map(Arc::new) {
            let named = catalog.user.type_names.or_default(&object.name);
            named.push((object.namespace, object.clone()));
            for label in &object.labels {
                catalog.user.enum_labels.insert(label.value.oid, (object.oid, label.clone()));
            }
            catalog.user.types.insert(object.oid, object);
        }
        for proc in procs.into_iter().map(Arc::new) {
            objects::add_proc(&mut catalog.user, proc, &builtin_procs);
        }
        catalog
    }

    pub(crate) fn from_rows(stored: StoredRows, version: u64) -> Catalog {
        let user = objects::build(&stored, true, &opclass, &builtin_procs);
        let extensions = extensions(&stored);
        let namespace_names = namespace_names(&user);
        Catalog {
            builtin: &BUILTIN,
            stored,
            user,
            namespace_names,
            extensions,
            version,
            root: version,
            shared: None,
        }
    }

    /// The picture after a change of rows; what was not touched is shared with this one.
    pub(crate) fn changed(&self, stored: StoredRows, touched: &Touched, version: u64) -> Catalog {
        let mut user = self.user.clone();
        objects::update(&mut user, &stored, touched, &opclass, &builtin_procs);
        let extensions = extensions(&stored);
        let namespace_names = match touched.namespaces.is_empty() {
            true => self.namespace_names.clone(),
            false => namespace_names(&user),
        };
        Catalog {
            builtin: self.builtin,
            stored,
            user,
            namespace_names,
            extensions,
            version,
            root: self.root,
            shared: self.shared.clone(),
        }
    }

    /// The version of the committed picture of which this one is what a transaction's changes have made: its own, if nothing was
    /// changed.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// The same picture, now that its changes are committed.
    pub(crate) fn committed(&self) -> Catalog {
        Catalog { root: self.version, ..self.clone() }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn with_shared(mut self, shared: Option<Arc<dyn SharedCatalogs>>) -> Self {
        self.shared = shared;
        self
    }

    /// Databases and roles; `None` where the picture was made without a cluster.
    pub fn shared(&self) -> Option<&Arc<dyn SharedCatalogs>> {
        self.shared.as_ref()
    }

    pub(crate) fn stored(&self) -> &StoredRows {
        &self.stored
    }

    // Namespaces.

    pub fn namespace(&self, oid: Oid) -> Option<&Arc<Namespace>> {
        let found = self.user.namespaces.get(&oid).or_else(|| self.builtin.objects.namespaces.get(&oid))?;
        (!found.name.is_empty()).then_some(found)
    }

    pub fn namespace_by_name(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespace_names.get(name)
    }

    /// The schema's name; "" where there is none with the oid.
    pub fn namespace_name(&self, oid: Oid) -> Text {
        self.namespace(oid).map_or_else(|| Text::from(""), |namespace| namespace.name.clone())
    }

    // Relations.

    /// A table, view, sequence, composite type or index.
    pub fn relation(&self, oid: Oid) -> Option<&Arc<Relation>> {
        self.user.relations.get(&oid).or_else(|| self.builtin.objects.relations.get(&oid))
    }

    pub fn relation_by_name(&self, namespace: Oid, name: &str) -> Option<&Arc<Relation>> {
        let find = |objects: &'_ Objects| -> Option<Oid> {
            let named = objects.relation_names.get(name)?;
            named.iter().find(|(schema, _)| *schema == namespace).map(|(_, relation)| relation.oid)
        };
        self.relation(find(&self.user).or_else(|| find(&self.builtin.objects))?)
    }

    /// The user's relations, in no order.
    pub fn user_relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.user.relations.values()
    }

    pub fn index(&self, oid: Oid) -> Option<&Arc<Index>> {
        self.user.indexes.get(&oid).or_else(|| self.builtin.objects.indexes.get(&oid))
    }

    pub fn constraint(&self, oid: Oid) -> Option<&Arc<Constraint>> {
        self.user.constraints.get(&oid).or_else(|| self.builtin.objects.constraints.get(&oid))
    }

    // Types.

    pub fn type_by_oid(&self, oid: Oid) -> Option<&Arc<Type>> {
        self.user.types.get(&oid).or_else(|| self.builtin.objects.types.get(&oid))
    }

    pub fn type_by_name(&self, namespace: Oid, name: &str) -> Option<&Arc<Type>> {
        let find = |objects: &'_ Objects| -> Option<Oid> {
            let named = objects.type_names.get(name)?;
            named.iter().find(|(schema, _)| *schema == namespace).map(|(_, object)| object.oid)
        };
        self.type_by_oid(find(&self.user).or_else(|| find(&self.builtin.objects))?)
    }

    /// Enum type and label of a pg_enum row.
    pub fn enum_label(&self, value: Oid) -> Option<(Oid, &EnumLabel)> {
        self.user.enum_labels.get(&value).map(|(type_oid, label)| (*type_oid, label))
    }

    /// The value of an enum type with this label.
    pub fn enum_value(&self, type_oid: Oid, label: &str) -> Option<cairn_types::EnumValue> {
        let labels = &self.type_by_oid(type_oid)?.labels;
        labels.iter().find(|candidate| &*candidate.label == label).map(|found| found.value)
    }

    /// What a domain is made of, through all layers; any other type is its own base.
    pub fn base_type(&self, mut oid: Oid) -> Oid {
        while let Some(object) = self.type_by_oid(oid) {
            if object.kind != TypeKind::Domain {
                break;
            }
            oid = object.base;
        }
        oid
    }

    /// Element type of a true array (`int4[]`, not int2vector or name); 0 for any other type.
    pub fn array_element(&self, oid: Oid) -> Oid {
        match self.type_by_oid(oid) {
            // Arrays of pseudo-types are pseudo-types themselves.
            Some(object) if oid == types::RECORD_ARRAY => object.element,
            Some(object)
                if object.category == b'A' && object.length == -1 && object.kind == TypeKind::Base =>
            {
                object.element
            }
            _ => 0,
        }
    }

    /// Subtype and multirange type of a range type.
    pub fn range(&self, oid: Oid) -> Option<(Oid, Oid)> {
        self.builtin.ranges.get(&oid).copied()
    }

    /// The form of a type's values in memory and in rows.
    pub fn physical_kind(&self, oid: Oid) -> PhysicalKind {
        let base = self.base_type(oid);
        if self.array_element(base) != 0 {
            return PhysicalKind::Array;
        }
        match self.type_by_oid(base).map(|object| object.kind) {
            Some(TypeKind::Enum) => return PhysicalKind::Enum,
            Some(TypeKind::Composite) => return PhysicalKind::Record,
            _ => {}
        }
        match base {
            types::NUMERIC => PhysicalKind::Numeric,
            types::ANYENUM => PhysicalKind::Enum,
            types::DATE => PhysicalKind::Date,
            types::TIME => PhysicalKind::Time,
            types::TIMETZ => PhysicalKind::TimeTz,
            types::TIMESTAMP => PhysicalKind::Timestamp,
            types::INTERVAL => PhysicalKind::Interval,
            types::UUID => PhysicalKind::Uuid,
            types::JSONB => PhysicalKind::Jsonb,
            types::RECORD => PhysicalKind::Record,
            types::XID8 => PhysicalKind::UInt8,
            types::REGPROCEDURE
            | types::REGOPER
            | types::REGOPERATOR
            | types::REGCLASS
            | types::REGTYPE
            | types::REGCONFIG
            | types::REGDICTIONARY
            | types::REGNAMESPACE
            | types::REGROLE
            | types::REGCOLLATION => PhysicalKind::Oid,
            other => physical_kind(other),
        }
    }

    // Functions, operators, casts.

    pub fn proc(&self, oid: Oid) -> Option<&Arc<Proc>> {
        self.user.procs.get(&oid).or_else(|| self.builtin.objects.procs.get(&oid))
    }

    /// All functions, procedures and aggregates with this name, of all schemas.
    pub fn procs_by_name(&self, name: &str) -> &[Arc<Proc>] {
        self.user
            .proc_names
            .get(name)
            .or_else(|| self.builtin.objects.proc_names.get(name))
            .map_or(&[], Vec::as_slice)
    }

    pub fn user_procs(&self) -> impl Iterator<Item = &Arc<Proc>> {
        self.user.procs.values()
    }

    pub fn operator(&self, oid: Oid) -> Option<&Arc<Operator>> {
        self.builtin.operators.get(&oid)
    }

    pub fn operators_by_name(&self, name: &str) -> &[Arc<Operator>] {
        self.builtin.operator_names.get(name).map_or(&[], Vec::as_slice)
    }

    /// The operator with exactly these argument types (`left` 0: prefix).
    pub fn operator_by(&self, name: &str, left: Oid, right: Oid) -> Option<&Arc<Operator>> {
        self.operators_by_name(name).iter().find(|operator| operator.left == left && operator.right == right)
    }

    pub fn cast(&self, source: Oid, target: Oid) -> Option<&Cast> {
        self.builtin.casts.get(&(source, target))
    }

    pub fn aggregate(&self, function: Oid) -> Option<&Aggregate> {
        self.builtin.aggregates.get(&function)
    }

    /// Whether values of `source` are values of `target` as they are: the same type, a domain over it, a binary cast
    /// that applies implicitly, arrays as anyarray, enums as anyenum, composite types as record.
    pub fn is_binary_coercible(&self, source: Oid, target: Oid) -> bool {
        if source == target || matches!(target, types::ANY | types::ANYELEMENT | types::ANYCOMPATIBLE) {
            return true;
        }
        let source = self.base_type(source);
        if source == target {
            return true;
        }
        let kind = self.type_by_oid(source).map(|object| object.kind);
        match target {
            types::ANYARRAY | types::ANYCOMPATIBLEARRAY if self.array_element(source) != 0 => return true,
            types::ANYENUM if kind == Some(TypeKind::Enum) => return true,
            types::ANYRANGE | types::ANYCOMPATIBLERANGE if kind == Some(TypeKind::Range) => return true,
            types::ANYMULTIRANGE | types::ANYCOMPATIBLEMULTIRANGE if kind == Some(TypeKind::Multirange) => {
                return true;
            }
            types::RECORD if kind == Some(TypeKind::Composite) => return true,
            types::RECORD_ARRAY => {
                let element = self.array_element(source);
                if self.type_by_oid(element).is_some_and(|object| object.kind == TypeKind::Composite) {
                    return true;
                }
            }
            _ => {}
        }
        self.cast(source, target)
            .is_some_and(|cast| cast.method == CastMethod::Binary && cast.context == CastContext::Implicit)
    }

    // Operator classes.

    pub fn opclass(&self, oid: Oid) -> Option<&Arc<Opclass>> {
        self.builtin.opclasses.get(&oid)
    }

    /// The operator class with this name for a method; its input type is then checked by the caller.
    pub fn opclass_by_name(&self, method: Oid, name: &str) -> Option<&Arc<Opclass>> {
        self.builtin.opclasses.values().find(|class| class.method == method && &*class.name == name)
    }

    /// The class that an index on a column of this type has where none is named.
    pub fn default_opclass(&self, method: Oid, type_oid: Oid) -> Option<&Arc<Opclass>> {
        let base = self.base_type(type_oid);
        if let Some(class) = self.builtin.default_opclasses.get(&(method, base)) {
            return Some(class);
        }
        // Several may fit a binary-coercible type: the preferred type of its category wins, as in PostgreSQL.
        let fitting = self
            .builtin
            .default_opclasses
            .iter()
            .filter(|((of, input), _)| *of == method && self.is_binary_coercible(base, *input))
            .map(|(_, class)| class);
        fitting.max_by_key(|class| {
            let preferred = self.type_by_oid(class.input_type).is_some_and(|input| input.preferred);
            (preferred, class.input_type == types::TEXT, std::cmp::Reverse(class.oid))
        })
    }

    /// Btree members of a family.
    pub fn opfamily_members(&self, family: Oid) -> &[OpfamilyMember] {
        self.builtin.families.get(&family).map_or(&[], Vec::as_slice)
    }

    pub fn opfamily_operator(
        &self,
        family: Oid,
        left: Oid,
        right: Oid,
        strategy: BtreeStrategy,
    ) -> Option<Oid> {
        let members = self.opfamily_members(family).iter();
        let mut fitting = members.filter(|m| m.left == left && m.right == right && m.strategy == strategy);
        fitting.next().map(|member| member.operator)
    }

    /// In which btree families, and as what, an operator serves.
    pub fn operator_memberships(&self, operator: Oid) -> &[OpfamilyMember] {
        self.builtin.memberships.get(&operator).map_or(&[], Vec::as_slice)
    }

    /// Whether the equality operator belongs to a hash family.
    pub fn is_hash_operator(&self, operator: Oid) -> bool {
        self.builtin.hash_operators.contains(&operator)
    }

    /// How values of a type are ordered; `None` for types without order (json, point).
    pub fn sort_operators(&self, type_oid: Oid) -> Option<SortOperators> {
        let class = self.default_opclass(access_methods::BTREE, type_oid)?;
        let input = class.input_type;
        // An array is ordered only if its elements are.
        let element = self.array_element(self.base_type(type_oid));
        if input == types::ANYARRAY && element != 0 && self.sort_operators(element).is_none() {
            return None;
        }
        let operator = |strategy| self.opfamily_operator(class.family, input, input, strategy);
        let equal = operator(BtreeStrategy::Equal)?;
        Some(SortOperators {
            less: operator(BtreeStrategy::Less)?,
            equal,
            greater: operator(BtreeStrategy::Greater)?,
            opclass: class.oid,
            opfamily: class.family,
            input_type: input,
            can_hash: self.operator(equal).is_some_and(|operator| operator.can_hash),
        })
    }

    // The rest.

    pub fn collation(&self, oid: Oid) -> Option<&Arc<Collation>> {
        self.builtin.collations.get(&oid)
    }

    pub fn collation_by_name(&self, name: &str) -> Option<&Arc<Collation>> {
        self.builtin.collations.values().find(|collation| &*collation.name == name)
    }

    pub fn language_by_name(&self, name: &str) -> Option<Oid> {
        self.builtin.languages.get(name).copied()
    }

    pub fn language_name(&self, oid: Oid) -> Option<&Text> {
        self.builtin.language_names.get(&oid)
    }

    pub fn access_method_by_name(&self, name: &str) -> Option<Oid> {
        self.builtin.access_methods.iter().find(|(_, method)| &***method == name).map(|(oid, _)| *oid)
    }

    /// pg_extension row of an installed extension.
    pub fn extension(&self, name: &str) -> Option<Oid> {
        self.extensions.get(name).copied()
    }

    /// The comment on an object (`class`: oid of its catalog) or column (`subid`).
    pub fn comment(&self, class: Oid, object: Oid, subid: i32) -> Option<Text> {
        let key = [Datum::Oid(object), Datum::Oid(class), Datum::Int4(subid)];
        let comment = self.row(pg_description::TABLE, &key)?.text(pg_description::DESCRIPTION);
        (!comment.is_empty()).then_some(comment)
    }

    // Rows.

    /// All rows of a system catalog in PostgreSQL's column layout. Those of the shared catalogs (databases, roles) are
    /// the cluster's of this moment. Empty for an oid that is no system catalog.
    pub fn system_rows(&self, catalog: Oid) -> Vec<CatalogRow> {
        let Some(table) = system_table(catalog) else { return Vec::new() };
        if table.shared {
            return self.shared.as_ref().map_or_else(Vec::new, |shared| shared.rows(catalog));
        }
        let builtin = table.builtin_rows().iter();
        let mut rows = self.visible_rows(table, builtin, self.stored.table(catalog));
        if catalog == pg_attribute::TABLE {
            let tables = self.user.relations.values().filter(|relation| has_system_columns(relation));
            rows.extend(tables.flat_map(|relation| system_attributes(relation.oid)));
        }
        rows
    }

    /// How many rows a system catalog has, about.
    pub fn system_row_count(&self, catalog: Oid) -> usize {
        let builtin = system_table(catalog).map_or(0, |table| table.builtin_rows().len());
        builtin + self.stored.of(catalog).map_or(0, RowTable::len)
    }

    /// The rows of [`Catalog::system_rows`] that have these values in the first columns of one of the catalog's indexes, by its number in
    /// [`SystemTable::indexes`]. Empty for a shared catalog.
    pub fn system_rows_by_key(&self, catalog: Oid, index: usize, values: &[Datum]) -> Vec<CatalogRow> {
        let Some(table) = system_table(catalog).filter(|table| !table.shared) else { return Vec::new() };
        let prefix = rows::encode(values);
        let builtin = table.builtin_by_key().find(index, prefix.clone());
        let stored = self.stored.of(catalog).map(|rows| rows.find(index, prefix));
        let mut rows = self.visible_rows(table, builtin, stored.into_iter().flatten());
        if catalog == pg_attribute::TABLE
            && let Some(Datum::Oid(oid)) = values.first()
            && self.user.relations.get(oid).is_some_and(|relation| has_system_columns(relation))
            && let Some(index) = table.indexes.get(index)
        {
            // Both indexes of pg_attribute begin with the relation.
            let fits = |row: &CatalogRow| {
                index
                    .columns
                    .iter()
                    .zip(values)
                    .all(|(column, value)| cairn_types::compare::equal(&row[*column], value, false))
            };
            rows.extend(system_attributes(*oid).filter(fits));
        }
        rows
    }

    /// Built-in and stored rows as SQL sees them.
    fn visible_rows<'a>(
        &self,
        table: &SystemTable,
        builtin: impl Iterator<Item = &'a CatalogRow>,
        stored: impl Iterator<Item = &'a CatalogRow>,
    ) -> Vec<CatalogRow> {
        let shadowed = |row: &CatalogRow| -> bool {
            table.row_key(row).is_ok_and(|key| self.stored.get(table.oid, &key).is_some())
        };
        // Only these have built-in rows that a user can change.
        let may_shadow =
            matches!(table.oid, pg_namespace::TABLE | pg_extension::TABLE | pg_description::TABLE);
        let mut rows: Vec<CatalogRow> =
            builtin.filter(|row| !may_shadow || !shadowed(row)).cloned().collect();
        for row in stored {
            if table.oid == pg_namespace::TABLE && row.str(pg_namespace::NSPNAME).is_empty() {
                continue;
            }
            rows.push(if table.oid == pg_statistic::TABLE {
                crate::statistics::shown(row)
            } else if row.len() > table.columns.len() {
                row[..table.columns.len()].into()
            } else {
                row.clone()
            });
        }
        rows
    }

    /// One row of a system catalog by the columns of its primary key.
    pub fn row(&self, catalog: Oid, key: &[cairn_types::Datum]) -> Option<CatalogRow> {
        let table = system_table(catalog)?;
        let mut encoded = Vec::new();
        for value in key {
            cairn_types::key::encode_key_column(value, cairn_types::key::ColumnOrder::ASC, &mut encoded)
                .ok()?;
        }
        if let Some(row) = self.stored.get(catalog, &encoded) {
            return Some(row.clone());
        }
        table.builtin_by_key().get(&encoded).cloned()
    }

    /// The row of a catalog whose primary key is its oid.
    pub fn row_by_oid(&self, catalog: Oid, oid: Oid) -> Option<CatalogRow> {
        self.row(catalog, &[cairn_types::Datum::Oid(oid)])
    }

    /// User rows of a catalog as they are stored, Cairn's own columns included.
    pub fn user_rows(&self, catalog: Oid) -> impl Iterator<Item = &CatalogRow> {
        self.stored.table(catalog)
    }

    /// [`Catalog::user_rows`] that have these values in the first columns of one of the catalog's indexes: columns and values, in
    /// the index's order.
    pub fn user_rows_by(&self, catalog: Oid, key: &[(usize, Datum)]) -> impl Iterator<Item = &CatalogRow> {
        self.stored.find(catalog, key)
    }

    /// Whether the relation is one of the system's own, whose rows come from [`Catalog::system_rows`].
    pub fn is_system_catalog(&self, relation: &Relation) -> bool {
        relation.namespace == namespaces::PG_CATALOG && system_table(relation.oid).is_some()
    }
}

fn opclass(oid: Oid) -> Option<Arc<Opclass>> {
    BUILTIN.opclasses.get(&oid).cloned()
}

/// The built-in functions with a name: the users' stand in one list with them.
fn builtin_procs(name: &str) -> Vec<Arc<Proc>> {
    BUILTIN.objects.proc_names.get(name).cloned().unwrap_or_default()
}

fn namespace_names(user: &Objects) -> SharedMap<Text, Arc<Namespace>> {
    let mut names = SharedMap::default();
    let hidden = |oid: &Oid| user.namespaces.get(oid).is_some();
    let builtin = BUILTIN.objects.namespaces.iter().filter(|(oid, _)| !hidden(oid));
    for (_, namespace) in builtin.chain(user.namespaces.iter()) {
        if !namespace.name.is_empty() {
            names.insert(namespace.name.clone(), namespace.clone());
        }
    }
    names
}

fn extensions(stored: &StoredRows) -> HashMap<Text, Oid> {
    let builtin = system_table(pg_extension::TABLE).map_or(&[][..], |table| table.builtin_rows());
    let rows = builtin.iter().chain(stored.table(pg_extension::TABLE));
    rows.map(|row| (row.text(pg_extension::EXTNAME), row.oid(pg_extension::OID))).collect()
}

#[cfg(test)]
mod tests {
    use cairn_types::oid::catalogs;

    use super::*;

    #[test]
    fn builtin_objects() {
        let start = std::time::Instant::now();
        let catalog = Catalog::builtin();
        eprintln!("built in {:?}", start.elapsed());
        assert_eq!(&*catalog.relation(catalogs::PG_CLASS).unwrap().name, "pg_class");
        assert_eq!(catalog.relation(catalogs::PG_CLASS).unwrap().columns.len(), 33);
        assert_eq!(catalog.type_by_name(namespaces::PG_CATALOG, "int4").unwrap().oid, types::INT4);
        assert!(catalog.procs_by_name("max").len() > 10);
        let plus = catalog.operator_by("+", types::INT4, types::INT4).unwrap();
        assert_eq!(&*catalog.proc(plus.code).unwrap().source, "int4pl");
        assert_eq!(catalog.aggregate(2050).unwrap().transition, 515);
        assert_eq!(catalog.proc(3464).unwrap().arg_defaults.len(), 7);
        assert_eq!(catalog.system_rows(catalogs::PG_CLASS).len(), BUILTIN.objects.relations.len());
        assert!(catalog.system_rows(catalogs::PG_ENUM).is_empty());
        assert_eq!(
            catalog.comment(catalogs::PG_NAMESPACE, 2200, 0).as_deref(),
            Some("standard public schema")
        );
    }

    #[test]
    fn order_of_types() {
        let catalog = Catalog::builtin();
        let less = |oid| catalog.sort_operators(oid).map(|found| found.less);
        assert_eq!(less(types::INT4), Some(97));
        assert_eq!(less(types::TEXT), Some(664));
        assert_eq!(less(types::VARCHAR), Some(664));
        assert_eq!(less(types::INT4_ARRAY), Some(1072));
        assert_eq!(less(types::NAME), Some(660));
        assert_eq!(less(types::RECORD), Some(2990));
        assert_eq!(less(types::JSON), None);
        assert_eq!(less(types::JSON_ARRAY), None);
        assert_eq!(less(types::REGCLASS), Some(609));
        let member = catalog.operator_memberships(97)[0];
        assert_eq!((member.family, member.strategy), (1976, BtreeStrategy::Less));
        assert_eq!(catalog.opfamily_operator(1976, types::INT4, types::INT8, BtreeStrategy::Equal), Some(15));
    }

    #[test]
    fn expressions_are_split_at_top_level_commas() {
        let parts = crate::system_table::split_expressions("lower(a, b), 'x,''y', (c, d), \"q,\"");
        assert_eq!(
            parts.iter().map(|part| &**part).collect::<Vec<_>>(),
            ["lower(a, b)", "'x,''y'", "(c, d)", "\"q,\""]
        );
    }
}
