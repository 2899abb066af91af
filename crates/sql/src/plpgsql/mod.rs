//! PL/pgSQL: functions, procedures and DO blocks (manual, chapter 43).

pub mod ast;
pub mod interpreter;
pub mod parse;
mod session;
pub mod spi;

use cairn_types::{Env, Severity};

/// How a check of `plpgsql.extra_errors` and `plpgsql.extra_warnings` reports what it finds; `None`: it is off.
pub fn check_level(env: &dyn Env, check: &str) -> Option<Severity> {
    let lists = |setting: &str| {
        env.setting(setting).is_some_and(|list| {
            let mut names = list.split(',').map(|name| name.trim().to_ascii_lowercase());
            names.any(|name| name == "all" || name == check)
        })
    };
    if lists("plpgsql.extra_errors") {
        return Some(Severity::Error);
    }
    lists("plpgsql.extra_warnings").then_some(Severity::Warning)
}
