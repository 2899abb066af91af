//! The questions that analysis asks the catalog, along the search path.

use std::sync::Arc;

use cairn_catalog::{
    Aggregate, BtreeStrategy, Cast, Catalog, Column, Operator, Proc, Relation, SearchPath, SortOperators,
    Type, TypeKind, TypeRef,
};
use cairn_types::oid::collations;
use cairn_types::{Error, Oid, Result, types};

use super::names::QualifiedName;

#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub catalog: &'a Catalog,
    pub path: &'a SearchPath,
}

impl<'a> Lookup<'a> {
    pub fn new(catalog: &'a Catalog, path: &'a SearchPath) -> Self {
        Lookup { catalog, path }
    }

    // ----- Types

    pub fn type_by_oid(&self, oid: Oid) -> Option<&'a Arc<Type>> {
        self.catalog.type_by_oid(oid)
    }

    /// Type, no modifier, the type's own collation.
    pub fn type_ref(&self, oid: Oid) -> TypeRef {
        // The types that most expressions have, without a look at the catalog.
        let collation = match oid {
            types::INT4
            | types::INT8
            | types::BOOL
            | types::UNKNOWN
            | types::NUMERIC
            | types::TIMESTAMPTZ
            | types::DATE
            | types::RECORD => 0,
            types::TEXT | types::VARCHAR => collations::DEFAULT,
            _ => self.type_collation(oid),
        };
        TypeRef { oid, typmod: -1, collation }
    }

    pub fn type_collation(&self, oid: Oid) -> Oid {
        self.type_by_oid(oid).map_or(0, |found| found.collation)
    }

    pub fn kind(&self, oid: Oid) -> Option<TypeKind> {
        self.type_by_oid(oid).map(|found| found.kind)
    }

    /// A named composite type; a domain over one is not.
    pub fn is_composite(&self, oid: Oid) -> bool {
        self.kind(oid) == Some(TypeKind::Composite)
    }

    pub fn base_type(&self, oid: Oid) -> Oid {
        match oid {
            types::INT4 | types::INT8 | types::TEXT | types::BOOL | types::UNKNOWN => oid,
            _ => self.catalog.base_type(oid),
        }
    }

    /// The base type of a domain and the modifier that the domain gives it; any other type is its own.
    pub fn base_type_and_typmod(&self, oid: Oid) -> (Oid, i32) {
        let mut oid = oid;
        let mut typmod = -1;
        while let Some(found) = self.type_by_oid(oid) {
            if found.kind != TypeKind::Domain {
                break;
            }
            oid = found.base;
            if found.base_typmod >= 0 {
                typmod = found.base_typmod;
            }
        }
        (oid, typmod)
    }

    pub fn category(&self, oid: Oid) -> u8 {
        match oid {
            types::UNKNOWN => b'X',
            _ => self.type_by_oid(oid).map_or(0, |found| found.category),
        }
    }

    pub fn category_and_preference(&self, oid: Oid) -> (u8, bool) {
        self.type_by_oid(oid).map_or((0, false), |found| (found.category, found.preferred))
    }

    /// Element type of a true array; 0 for any other type.
    pub fn array_element(&self, oid: Oid) -> Oid {
        match oid {
            // Vectors pass for arrays where functions take anyarray.
            types::INT2VECTOR => types::INT2,
            types::OIDVECTOR => types::OID,
            0 => 0,
            _ => self.catalog.array_element(oid),
        }
    }

    pub fn array_of(&self, oid: Oid) -> Oid {
        self.type_by_oid(oid).map_or(0, |found| found.array)
    }

    pub fn range_subtype(&self, oid: Oid) -> Oid {
        self.catalog.range(oid).map_or(0, |(subtype, _)| subtype)
    }

    pub fn range_multirange(&self, oid: Oid) -> Oid {
        self.catalog.range(oid).map_or(0, |(_, multirange)| multirange)
    }

    /// The range type of a multirange type. Only looked for among the built-in ones.
    pub fn multirange_range(&self, oid: Oid) -> Oid {
        const RANGES: [Oid; 6] = [3904, 3906, 3908, 3910, 3912, 3926];
        RANGES.into_iter().find(|&range| self.range_multirange(range) == oid).unwrap_or(0)
    }

    /// Attributes of a composite type, dropped ones included.
    pub fn composite_columns(&self, oid: Oid) -> &'a [Column] {
        self.type_by_oid(oid)
            .and_then(|found| self.catalog.relation(found.relation))
            .map_or(&[], |relation| relation.columns.as_slice())
    }

    pub fn type_by_name(&self, name: &QualifiedName) -> Result<Option<Oid>> {
        if let Some(schema) = &name.schema {
            self.require_schema(schema)?;
        }
        Ok(self.catalog.resolve_type(self.path, name.schema.as_deref(), &name.name).map(|found| found.oid))
    }

    pub fn cast(&self, source: Oid, target: Oid) -> Option<&'a Cast> {
        self.catalog.cast(source, target)
    }

    pub fn collation_by_name(&self, name: &QualifiedName) -> Option<Oid> {
        if name.schema.as_deref().is_some_and(|schema| schema != "pg_catalog") {
            return None;
        }
        self.catalog.collation_by_name(&name.name).map(|collation| collation.oid)
    }

    // ----- Relations

    pub fn relation(&self, oid: Oid) -> Option<Arc<Relation>> {
        self.catalog.relation(oid).cloned()
    }

    pub fn relation_by_name(&self, name: &str) -> Option<Arc<Relation>> {
        self.catalog.resolve_relation(self.path, None, name).cloned()
    }

    pub fn relation_in_schema(&self, schema: &str, name: &str) -> Option<Arc<Relation>> {
        self.catalog.resolve_relation(self.path, Some(schema), name).cloned()
    }

    /// 42501 for a schema that is closed to the role.
    pub fn check_schema(&self, schema: &str) -> Result<()> {
        self.catalog.check_namespace(self.path, schema)
    }

    /// Errors: 3F000, 42501.
    fn require_schema(&self, schema: &str) -> Result<Oid> {
        self.catalog
            .resolve_namespace(self.path, schema)
            .ok_or_else(|| self.catalog.missing_namespace(self.path, schema))
    }

    // ----- Functions and operators

    pub fn proc(&self, oid: Oid) -> Result<&'a Arc<Proc>> {
        self.catalog
            .proc(oid)
            .ok_or_else(|| Error::internal(format!("cache lookup failed for function {oid}")))
    }

    pub fn aggregate(&self, oid: Oid) -> Result<&'a Aggregate> {
        self.catalog
            .aggregate(oid)
            .ok_or_else(|| Error::internal(format!("cache lookup failed for aggregate {oid}")))
    }

    /// All functions of the name that are in reach, with the position of their schema in the search path.
    pub fn functions(
        &self,
        name: &QualifiedName,
    ) -> Result<impl Iterator<Item = (&'a Arc<Proc>, usize)> + use<'a>> {
        let schema = match &name.schema {
            Some(schema) => Some(self.require_schema(schema)?),
            None => None,
        };
        let path = self.path;
        Ok(self.catalog.procs_by_name(&name.name).iter().filter_map(move |proc| match schema {
            Some(schema) => (proc.namespace == schema).then_some((proc, 0)),
            None => {
                // The temporary schema is never searched for functions.
                let searched =
                    |namespace: &Oid| *namespace == proc.namespace && Some(*namespace) != path.temporary;
                path.namespaces.iter().position(searched).map(|position| (proc, position))
            }
        }))
    }

    pub fn operator_exact(
        &self,
        name: &QualifiedName,
        left: Oid,
        right: Oid,
    ) -> Result<Option<Arc<Operator>>> {
        if let Some(schema) = &name.schema {
            self.require_schema(schema)?;
            if **schema != *"pg_catalog" {
                return Ok(None);
            }
        }
        Ok(self.catalog.operator_by(&name.name, left, right).cloned())
    }

    pub fn operators(&self, name: &QualifiedName, binary: bool) -> Result<Vec<Arc<Operator>>> {
        if let Some(schema) = &name.schema {
            self.require_schema(schema)?;
            if **schema != *"pg_catalog" {
                return Ok(Vec::new());
            }
        }
        let operators = self.catalog.operators_by_name(&name.name).iter();
        Ok(operators.filter(|operator| (operator.left != 0) == binary).cloned().collect())
    }

    /// Whether some btree family has the operator in this place.
    pub fn has_strategy(&self, operator: Oid, strategy: BtreeStrategy) -> bool {
        self.catalog.operator_memberships(operator).iter().any(|member| member.strategy == strategy)
    }

    /// Whether the operator is the negator of some btree equality.
    pub fn is_not_equal(&self, operator: Oid) -> bool {
        self.catalog
            .operator(operator)
            .is_some_and(|found| found.negator != 0 && self.has_strategy(found.negator, BtreeStrategy::Equal))
    }

    pub fn sort_operators(&self, ty: Oid) -> Option<SortOperators> {
        self.catalog.sort_operators(ty)
    }
}
