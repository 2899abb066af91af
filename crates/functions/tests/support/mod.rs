//! What the tests of this crate share: the catalog's rows, and a session.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;

use cairn_types::{Env, Error, FormatSettings, Oid, Result, TypeShape};

pub mod data {
    pub const PROC: &str = include_str!("../../../catalog/data/pg_proc.tsv");
    pub const TYPE: &str = include_str!("../../../catalog/data/pg_type.tsv");
    pub const AGGREGATE: &str = include_str!("../../../catalog/data/pg_aggregate.tsv");
}

/// Rows of a catalog file as maps from column name to value.
pub fn rows(file: &'static str) -> impl Iterator<Item = HashMap<&'static str, &'static str>> {
    let mut lines = file.lines();
    let names: Vec<_> = lines.next().unwrap_or("").split('\t').collect();
    lines.map(move |line| names.iter().copied().zip(line.split('\t')).collect())
}

pub struct TestEnv {
    pub settings: FormatSettings,
    pub extension: bool,
    pub elements: HashMap<Oid, Oid>,
    pub type_names: HashMap<Oid, &'static str>,
}

impl TestEnv {
    pub fn new() -> Self {
        let mut elements = HashMap::new();
        let mut type_names = HashMap::new();
        for row in rows(data::TYPE) {
            let oid: Oid = row["oid"].parse().unwrap();
            type_names.insert(oid, row["typname"]);
            if row["typcategory"] == "A" {
                elements.insert(oid, row["typelem"].parse().unwrap());
            }
        }
        TestEnv { settings: FormatSettings::default(), extension: false, elements, type_names }
    }
}

impl Env for TestEnv {
    cairn_testkit::env_of_an_idle_session!(database: "postgres", time: 800_000_000_000_000);
    cairn_testkit::env_without_objects!();
    fn format(&self) -> &FormatSettings {
        &self.settings
    }
    fn type_shape(&self, type_oid: Oid) -> Option<TypeShape> {
        match self.elements.get(&type_oid) {
            Some(element) => Some(TypeShape::Array { element: *element, delimiter: ',' }),
            None => self.type_names.contains_key(&type_oid).then_some(TypeShape::Base),
        }
    }
    fn format_type(&self, type_oid: Oid, _: i32) -> String {
        self.type_names.get(&type_oid).map_or_else(String::new, |name| (*name).to_owned())
    }
    fn parse_type(&self, _: &str) -> Result<(Oid, i32)> {
        Err(Error::internal("not here"))
    }
    fn extension_installed(&self, name: &str) -> bool {
        self.extension && name == "orafce"
    }
}
