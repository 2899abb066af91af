//! Which object an unqualified name means, and whether an object can be named without its schema.

use std::sync::Arc;

use cairn_types::oid::namespaces;
use cairn_types::{Error, Oid, Result, Text, err};

use crate::{Catalog, Proc, Relation, Type};

/// The schemas in which unqualified names are looked up, resolved from `search_path`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SearchPath {
    /// In order, `pg_catalog` and the temporary schema included where they are searched implicitly.
    pub namespaces: Vec<Oid>,
    /// Where new objects go; `None` if no schema of the path exists.
    pub creation: Option<Oid>,
    /// The session's temporary schema, once it has one; searched for relations and types only.
    pub temporary: Option<Oid>,
    /// The schemas that `search_path` itself named (`current_schemas(false)`).
    pub explicit: Vec<Oid>,
    /// Schemas that the role may not use (no USAGE), sorted: names in them are not found. Empty for a superuser.
    pub forbidden: Vec<Oid>,
}

impl SearchPath {
    /// `names` are the elements of the setting, unquoted; `$user` is the current user's schema, `pg_temp` the
    /// session's temporary one. Schemas that do not exist are passed over.
    pub fn new(catalog: &Catalog, names: &[Text], user: &str, temporary: Option<Oid>) -> SearchPath {
        let mut explicit = Vec::new();
        for name in names {
            let found = match &**name {
                "$user" => catalog.namespace_by_name(user).map(|namespace| namespace.oid),
                "pg_temp" => temporary,
                name => catalog.namespace_by_name(name).map(|namespace| namespace.oid),
            };
            if let Some(oid) = found.filter(|oid| !explicit.contains(oid)) {
                explicit.push(oid);
            }
        }
        let creation = explicit.first().copied();
        let mut namespaces = Vec::with_capacity(explicit.len() + 2);
        if let Some(temporary) = temporary.filter(|oid| !explicit.contains(oid)) {
            namespaces.push(temporary);
        }
        if !explicit.contains(&namespaces::PG_CATALOG) {
            namespaces.push(namespaces::PG_CATALOG);
        }
        namespaces.extend(&explicit);
        SearchPath { namespaces, creation, temporary, explicit, forbidden: Vec::new() }
    }

    /// Only `pg_catalog`: the path under which stored SQL text is read and written.
    pub fn pg_catalog() -> SearchPath {
        let namespaces = vec![namespaces::PG_CATALOG];
        SearchPath { explicit: namespaces.clone(), namespaces, ..SearchPath::default() }
    }

    /// Takes the schemas out that the role may not use.
    pub fn without(mut self, mut forbidden: Vec<Oid>) -> SearchPath {
        forbidden.sort_unstable();
        self.namespaces.retain(|oid| !forbidden.contains(oid));
        self.explicit.retain(|oid| !forbidden.contains(oid));
        self.creation = self.explicit.first().copied();
        self.forbidden = forbidden;
        self
    }

    fn allows(&self, namespace: Oid) -> bool {
        self.forbidden.binary_search(&namespace).is_err()
    }
}

impl Catalog {
    /// The schema with this name, `pg_temp` meaning the session's own; `None` also for one that the role may not use
    /// ([`Catalog::missing_namespace`] tells the two apart).
    pub fn resolve_namespace(&self, path: &SearchPath, name: &str) -> Option<Oid> {
        self.any_namespace(path, name).filter(|oid| path.allows(*oid))
    }

    /// The schema with this name, whether the role may use it or not.
    pub fn any_namespace(&self, path: &SearchPath, name: &str) -> Option<Oid> {
        match name {
            "pg_temp" => path.temporary,
            name => self.namespace_by_name(name).map(|namespace| namespace.oid),
        }
    }

    /// Why [`Catalog::resolve_namespace`] has no answer: 42501 or 3F000.
    pub fn missing_namespace(&self, path: &SearchPath, name: &str) -> Error {
        match self.any_namespace(path, name) {
            Some(_) => err!(INSUFFICIENT_PRIVILEGE, "permission denied for schema {name}"),
            None => err!(INVALID_SCHEMA_NAME, "schema \"{name}\" does not exist"),
        }
    }

    /// 42501 for a schema that is there but closed to the role.
    pub fn check_namespace(&self, path: &SearchPath, name: &str) -> Result<()> {
        match self.any_namespace(path, name) {
            Some(oid) if !path.allows(oid) => Err(self.missing_namespace(path, name)),
            _ => Ok(()),
        }
    }

    pub fn resolve_relation(
        &self,
        path: &SearchPath,
        schema: Option<&str>,
        name: &str,
    ) -> Option<&Arc<Relation>> {
        match schema {
            Some(schema) => self.relation_by_name(self.resolve_namespace(path, schema)?, name),
            None => path.namespaces.iter().find_map(|namespace| self.relation_by_name(*namespace, name)),
        }
    }

    pub fn resolve_type(&self, path: &SearchPath, schema: Option<&str>, name: &str) -> Option<&Arc<Type>> {
        match schema {
            Some(schema) => self.type_by_name(self.resolve_namespace(path, schema)?, name),
            None => path.namespaces.iter().find_map(|namespace| self.type_by_name(*namespace, name)),
        }
    }

    /// Whether the relation is what its plain name means (`pg_table_is_visible`).
    pub fn is_relation_visible(&self, path: &SearchPath, relation: &Relation) -> bool {
        path.namespaces.contains(&relation.namespace)
            && self
                .resolve_relation(path, None, &relation.name)
                .is_some_and(|found| found.oid == relation.oid)
    }

    pub fn is_type_visible(&self, path: &SearchPath, object: &Type) -> bool {
        path.namespaces.contains(&object.namespace)
            && self.resolve_type(path, None, &object.name).is_some_and(|found| found.oid == object.oid)
    }

    /// Whether no function with the same name and arguments stands before it in the path.
    pub fn is_proc_visible(&self, path: &SearchPath, proc: &Proc) -> bool {
        let position = |namespace: Oid| path.namespaces.iter().position(|candidate| *candidate == namespace);
        let Some(own) = position(proc.namespace) else { return false };
        !self.procs_by_name(&proc.name).iter().any(|other| {
            other.arg_types == proc.arg_types && position(other.namespace).is_some_and(|other| other < own)
        })
    }
}
