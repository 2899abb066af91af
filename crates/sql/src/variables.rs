//! SET, SHOW, RESET, DISCARD (manual, SQL commands).

use std::sync::Arc;

use cairn_types::{Datum, Error, Result, Row, err, types};
use pg_query::protobuf::{self, DiscardMode, Node, VariableSetKind, VariableSetStmt, node::Node as NodeEnum};

use crate::client::ResultColumn;
use crate::core::Core;
use crate::settings::definition;
use crate::statement::plain_column;
use crate::transaction::Phase;
use crate::utility::{Invocation, Outcome};

/// Settings whose value is a list of identifiers, quoted where they need it.
const NAME_LISTS: &[&str] =
    &["search_path", "temp_tablespaces", "session_preload_libraries", "local_preload_libraries"];
/// Settings whose value is a plain list.
const LISTS: &[&str] =
    &["datestyle", "wal_consistency_checking", "log_destination", "restrict_nonsystem_relation_kind"];

pub fn set(invocation: &Invocation<'_>, statement: &VariableSetStmt) -> Result<Outcome> {
    let core = invocation.core;
    let kind = VariableSetKind::try_from(statement.kind).unwrap_or(VariableSetKind::Undefined);
    let name = statement.name.as_str();
    let alone = invocation.top_level && core.phase() != Phase::Block && !invocation.in_block;
    if statement.is_local && alone {
        cairn_types::Env::notice(
            &**core,
            Error::warning(
                cairn_types::sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            ),
        );
    }
    match kind {
        VariableSetKind::VarSetValue => {
            let value = value_text(name, &statement.args)?;
            core.set_config(name, &value, statement.is_local)?;
        }
        VariableSetKind::VarSetDefault | VariableSetKind::VarReset => reset(core, name, statement.is_local)?,
        VariableSetKind::VarSetCurrent => {
            let value = core
                .show(name)
                .ok_or_else(|| err!(UNDEFINED_OBJECT, "unrecognized configuration parameter \"{name}\""))?;
            core.set_config(name, &value, statement.is_local)?;
        }
        VariableSetKind::VarResetAll => core.with_settings(|settings| settings.reset_all()),
        VariableSetKind::VarSetMulti => match name {
            "TRANSACTION" => {
                if alone {
                    cairn_types::Env::notice(
                        &**core,
                        Error::warning(
                            cairn_types::sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                            "SET TRANSACTION can only be used in transaction blocks",
                        ),
                    );
                }
                core.transaction_options(&statement.args, true)?;
            }
            "SESSION CHARACTERISTICS" => core.transaction_options(&statement.args, false)?,
            _ => return Err(Error::unsupported("SET TRANSACTION SNAPSHOT is")),
        },
        VariableSetKind::Undefined => return Err(Error::internal("SET of an unknown kind")),
    }
    let resets = matches!(kind, VariableSetKind::VarReset | VariableSetKind::VarResetAll);
    Ok(Outcome::tag(if resets { "RESET" } else { "SET" }))
}

fn reset(core: &Core, name: &str, local: bool) -> Result<()> {
    match name.to_ascii_lowercase().as_str() {
        "session_authorization" => core.set_session_authorization(None, local),
        "role" => core.set_role("none", local),
        "transaction_isolation" => {
            core.set_transaction_characteristic("transaction_isolation", core.default_isolation())
        }
        "transaction_read_only" | "transaction_deferrable" => Ok(()),
        _ => core.with_settings(|settings| settings.reset(name, local)),
    }
}

/// The value as one text. Lists are joined; other settings take one argument.
pub(crate) fn value_text(name: &str, args: &[Node]) -> Result<String> {
    let lower = name.to_ascii_lowercase();
    let names = NAME_LISTS.contains(&lower.as_str());
    if args.len() > 1 && !names && !LISTS.contains(&lower.as_str()) {
        return Err(err!(INVALID_PARAMETER_VALUE, "SET {name} takes only one argument"));
    }
    let mut parts = Vec::with_capacity(args.len());
    for node in args {
        parts.push(match &node.node {
            Some(NodeEnum::AConst(constant)) => match constant_text(constant) {
                Some(text) if names => crate::names::quote_identifier(&text),
                Some(text) => text,
                None => return Err(err!(SYNTAX_ERROR, "NULL is no value of a setting")),
            },
            Some(NodeEnum::TypeCast(cast)) => interval_zone(cast)?,
            _ => return Err(err!(SYNTAX_ERROR, "unexpected value of a setting")),
        });
    }
    Ok(parts.join(", "))
}

pub(crate) fn constant_text(constant: &protobuf::AConst) -> Option<String> {
    use protobuf::a_const::Val;
    Some(match constant.val.as_ref()? {
        Val::Ival(value) => value.ival.to_string(),
        Val::Fval(value) => value.fval.clone(),
        Val::Boolval(value) => if value.boolval { "on" } else { "off" }.to_owned(),
        Val::Sval(value) => value.sval.clone(),
        Val::Bsval(value) => value.bsval.clone(),
    })
}

/// `set time zone interval '...'`: the interval, as the setting's check reads it.
fn interval_zone(cast: &protobuf::TypeCast) -> Result<String> {
    let unexpected = || err!(SYNTAX_ERROR, "unexpected value of a setting");
    let constant = |node: Option<&NodeEnum>| match node {
        Some(NodeEnum::AConst(constant)) => constant_text(constant),
        _ => None,
    };
    let text = constant(cast.arg.as_ref().and_then(|node| node.node.as_ref())).ok_or_else(unexpected)?;
    // The fields (HOUR TO MINUTE), as the grammar gives them.
    let fields = match cast.type_name.as_ref().and_then(|name| name.typmods.first()) {
        Some(node) => constant(node.node.as_ref()).and_then(|fields| fields.parse::<i32>().ok()),
        None => None,
    };
    const ANY_PRECISION: i32 = 0xffff;
    let typmod = fields.map_or(-1, |fields| fields << 16 | ANY_PRECISION);
    let format = cairn_types::FormatSettings::default();
    let interval = cairn_types::datetime::parse_interval(&text, &format, typmod)?;
    let mut shown = String::new();
    cairn_types::datetime::format_interval(interval, &format, &mut shown);
    Ok(format!("INTERVAL '{shown}'"))
}

pub fn show_columns(name: &str) -> Arc<[ResultColumn]> {
    if name.eq_ignore_ascii_case("all") {
        return ["name", "setting", "description"].map(|name| plain_column(name, types::TEXT)).into();
    }
    let canonical = definition::find(name).map_or(name, |index| definition::all()[index].name);
    Arc::from([plain_column(canonical, types::TEXT)])
}

pub fn show(core: &Core, name: &str) -> Result<Outcome> {
    let columns = Some(show_columns(name));
    if name.eq_ignore_ascii_case("all") {
        let row = |definition: &definition::Definition| -> Row {
            let setting = core.show(definition.name).unwrap_or_default();
            vec![
                Datum::text(definition.name),
                Datum::text(setting),
                Datum::text(definition.short_description),
            ]
        };
        let rows = definition::all().iter().map(row).collect();
        return Ok(Outcome { tag: "SHOW".into(), columns, rows });
    }
    let value = core
        .show(name)
        .ok_or_else(|| err!(UNDEFINED_OBJECT, "unrecognized configuration parameter \"{name}\""))?;
    Ok(Outcome { tag: "SHOW".into(), columns, rows: vec![vec![Datum::text(value)]] })
}

pub fn discard(invocation: &Invocation<'_>, statement: &protobuf::DiscardStmt) -> Result<Outcome> {
    let core = invocation.core;
    match DiscardMode::try_from(statement.target).unwrap_or(DiscardMode::Undefined) {
        DiscardMode::DiscardAll => {
            invocation.prevent_in_block("DISCARD ALL")?;
            let portals = core.portals.borrow().all();
            for portal in portals {
                // The portal that runs this statement stays until it is done.
                if portal.try_borrow().is_ok() {
                    core.close(&portal)?;
                }
            }
            reset(core, "session_authorization", false)?;
            core.with_settings(|settings| settings.reset_all());
            core.prepared.borrow_mut().clear();
            core.unlisten(None);
            core.database.store.unlock_all(&core.entry.handle);
            *core.sequences.borrow_mut() = Default::default();
            crate::temporary::discard(core)?;
            Ok(Outcome::tag("DISCARD ALL"))
        }
        DiscardMode::DiscardPlans => Ok(Outcome::tag("DISCARD PLANS")),
        DiscardMode::DiscardSequences => {
            *core.sequences.borrow_mut() = Default::default();
            Ok(Outcome::tag("DISCARD SEQUENCES"))
        }
        DiscardMode::DiscardTemp => {
            crate::temporary::discard(core)?;
            Ok(Outcome::tag("DISCARD TEMP"))
        }
        DiscardMode::Undefined => Err(Error::internal("DISCARD of an unknown kind")),
    }
}
