//! pg_show_all_settings, and the key words of the grammar.

use cairn_types::{Datum, Result};

use super::{Arguments, System, optional_text, texts};

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    Ok(Some(match system.name {
        "show_all_settings" => system.rows(system.host.settings().into_iter().map(|setting| {
            vec![
                Datum::text(setting.name),
                Datum::text(setting.value),
                optional_text(setting.unit),
                Datum::text(setting.category),
                Datum::text(setting.short_description),
                optional_text(setting.extra_description),
                Datum::text(setting.context),
                Datum::text(setting.kind),
                Datum::text(setting.source),
                optional_text(setting.min),
                optional_text(setting.max),
                setting.labels.map_or(Datum::Null, texts),
                optional_text(setting.boot),
                optional_text(setting.reset),
                // There is no configuration file.
                Datum::Null,
                Datum::Null,
                Datum::Bool(false),
            ]
        })),
        "pg_settings_get_flags" => {
            let name = a.str(0)?.to_ascii_lowercase();
            let known =
                system.host.settings().iter().any(|setting| setting.name.to_ascii_lowercase() == name);
            if known { texts::<&str>([]) } else { Datum::Null }
        }
        "show_all_file_settings" | "pg_hba_file_rules" => system.rows([]),
        _ => return Ok(None),
    }))
}

/// Word, category and whether it may be a bare column label, as the grammar has them; one line each.
const KEYWORDS: &str = include_str!("keywords.tsv");

/// Columns word, catcode, barelabel, catdesc, baredesc.
pub(super) fn keywords(system: &System<'_>) -> Datum {
    let rows = KEYWORDS.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let (word, category, bare) = (fields.next()?, fields.next()?, fields.next()? == "t");
        let meaning = match category {
            "U" => "unreserved",
            "C" => "unreserved (cannot be function or type name)",
            "T" => "reserved (can be function or type name)",
            _ => "reserved",
        };
        let label = if bare { "can be bare label" } else { "requires AS" };
        Some(vec![
            Datum::text(word),
            Datum::Char(category.bytes().next()?),
            Datum::Bool(bare),
            Datum::text(meaning),
            Datum::text(label),
        ])
    });
    system.rows(rows)
}
