//! Whether an object is what its plain name means now, and the schemas in which plain names are looked up.

use cairn_catalog::RowExt;
use cairn_catalog::columns::{
    pg_collation, pg_conversion, pg_opclass, pg_operator, pg_opfamily, pg_statistic_ext, pg_ts_config,
    pg_ts_dict, pg_ts_parser, pg_ts_template,
};
use cairn_types::{Datum, Oid, Result, oid::namespaces, types};

use super::{Arguments, System, optional_text, values};

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    let (catalog, path) = (&system.catalog, &*system.path);
    let visible = match system.name {
        "pg_table_is_visible" => {
            catalog.relation(a.oid(0)?).map(|relation| catalog.is_relation_visible(path, relation))
        }
        "pg_type_is_visible" => catalog.type_by_oid(a.oid(0)?).map(|ty| catalog.is_type_visible(path, ty)),
        "pg_function_is_visible" => catalog.proc(a.oid(0)?).map(|proc| catalog.is_proc_visible(path, proc)),
        "pg_operator_is_visible" => system.in_path(pg_operator::TABLE, pg_operator::OPRNAMESPACE, a.oid(0)?),
        "pg_opclass_is_visible" => system.in_path(pg_opclass::TABLE, pg_opclass::OPCNAMESPACE, a.oid(0)?),
        "pg_opfamily_is_visible" => system.in_path(pg_opfamily::TABLE, pg_opfamily::OPFNAMESPACE, a.oid(0)?),
        "pg_collation_is_visible" => {
            system.in_path(pg_collation::TABLE, pg_collation::COLLNAMESPACE, a.oid(0)?)
        }
        "pg_conversion_is_visible" => {
            system.in_path(pg_conversion::TABLE, pg_conversion::CONNAMESPACE, a.oid(0)?)
        }
        "pg_statistics_obj_is_visible" => {
            system.in_path(pg_statistic_ext::TABLE, pg_statistic_ext::STXNAMESPACE, a.oid(0)?)
        }
        "pg_ts_config_is_visible" => {
            system.in_path(pg_ts_config::TABLE, pg_ts_config::CFGNAMESPACE, a.oid(0)?)
        }
        "pg_ts_dict_is_visible" => system.in_path(pg_ts_dict::TABLE, pg_ts_dict::DICTNAMESPACE, a.oid(0)?),
        "pg_ts_parser_is_visible" => {
            system.in_path(pg_ts_parser::TABLE, pg_ts_parser::PRSNAMESPACE, a.oid(0)?)
        }
        "pg_ts_template_is_visible" => {
            system.in_path(pg_ts_template::TABLE, pg_ts_template::TMPLNAMESPACE, a.oid(0)?)
        }
        "pg_is_other_temp_schema" => {
            let oid = a.oid(0)?;
            let name = catalog.namespace_name(oid);
            Some(
                path.temporary != Some(oid)
                    && (name.starts_with("pg_temp_") || name.starts_with("pg_toast_temp_")),
            )
        }
        "pg_my_temp_schema" => return Ok(Some(Datum::Oid(path.temporary.unwrap_or(0)))),
        "current_schema" => {
            let first = path.explicit.iter().find_map(|oid| catalog.namespace(*oid));
            return Ok(Some(optional_text(first.map(|namespace| namespace.name.clone()))));
        }
        "current_schemas" => {
            let listed: &[Oid] = if a.bool(0)? { &path.namespaces } else { &path.explicit };
            let names = listed.iter().filter_map(|oid| catalog.namespace(*oid));
            return Ok(Some(values(types::NAME, names.map(|namespace| Datum::Text(namespace.name.clone())))));
        }
        _ => return Ok(None),
    };
    Ok(Some(visible.map_or(Datum::Null, Datum::Bool)))
}

impl System<'_> {
    /// For kinds of objects of which no two in the search path can have the same name, because users cannot make any.
    fn in_path(&self, catalog: Oid, namespace: usize, oid: Oid) -> Option<bool> {
        let row = self.catalog.row_by_oid(catalog, oid)?;
        let schema = row.oid(namespace);
        Some(schema == namespaces::PG_CATALOG || self.path.namespaces.contains(&schema))
    }
}
