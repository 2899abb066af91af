//! The SQL name of a type, as `format_type` prints it.

use cairn_types::quote::{push_identifier, quote_qualified};
use cairn_types::{Oid, types};

use crate::{Catalog, SearchPath};

impl Catalog {
    /// For example `character varying(10)`, `timestamp(3) without time zone[]`, `"My Type"`, `other_schema.color`.
    /// A `typmod` of -1 means none. `-` for oid 0, `???` for one that does not exist.
    pub fn format_type(&self, oid: Oid, typmod: i32, path: &SearchPath) -> String {
        if oid == 0 {
            return "-".to_owned();
        }
        let Some(object) = self.type_by_oid(oid) else { return "???".to_owned() };
        let element = self.array_element(oid);
        if element != 0 && object.name.starts_with('_') {
            let mut name = self.format_type(element, typmod, path);
            name.push_str("[]");
            return name;
        }
        if let Some(name) = standard_name(oid, typmod) {
            return name;
        }
        let mut name = if self.is_type_visible(path, object) {
            let mut name = String::new();
            push_identifier(&object.name, &mut name);
            name
        } else {
            quote_qualified(&self.namespace_name(object.namespace), &object.name)
        };
        if typmod >= 0 {
            name.push_str(&format!("({typmod})"));
        }
        name
    }

    /// Like [`Catalog::format_type`], but where no modifier is known at all (error messages, signatures): `character`
    /// instead of `bpchar`.
    pub fn type_name(&self, oid: Oid, path: &SearchPath) -> String {
        match (oid, self.array_element(oid)) {
            (types::BPCHAR, _) => "character".to_owned(),
            (types::BIT, _) => "bit".to_owned(),
            (_, types::BPCHAR) => "character[]".to_owned(),
            (_, types::BIT) => "bit[]".to_owned(),
            _ => self.format_type(oid, -1, path),
        }
    }
}

/// Types whose names come from the SQL standard.
fn standard_name(oid: Oid, typmod: i32) -> Option<String> {
    let with_length = |name: &str| {
        if typmod > 4 { format!("{name}({})", typmod - 4) } else { name.to_owned() }
    };
    let bits = |name: &str| if typmod > 0 { format!("{name}({typmod})") } else { name.to_owned() };
    let precision = |name: &str, rest: &str| {
        if typmod >= 0 { format!("{name}({typmod}){rest}") } else { format!("{name}{rest}") }
    };
    Some(match oid {
        types::BIT => match typmod {
            // Plain `bit` means bit(1): a bit of any length needs quotes.
            -1 => "\"bit\"".to_owned(),
            _ => bits("bit"),
        },
        types::BOOL => "boolean".to_owned(),
        types::BPCHAR => {
            if typmod < 0 {
                "bpchar".to_owned()
            } else {
                with_length("character")
            }
        }
        types::FLOAT4 => "real".to_owned(),
        types::FLOAT8 => "double precision".to_owned(),
        types::INT2 => "smallint".to_owned(),
        types::INT4 => "integer".to_owned(),
        types::INT8 => "bigint".to_owned(),
        types::NUMERIC if typmod >= 4 => {
            let value = typmod - 4;
            let scale = ((value & 0x7FF) ^ 1024) - 1024;
            format!("numeric({},{scale})", (value >> 16) & 0xFFFF)
        }
        types::NUMERIC => "numeric".to_owned(),
        types::INTERVAL => interval_name(typmod),
        types::TIME => precision("time", " without time zone"),
        types::TIMETZ => precision("time", " with time zone"),
        types::TIMESTAMP => precision("timestamp", " without time zone"),
        types::TIMESTAMPTZ => precision("timestamp", " with time zone"),
        types::VARBIT => bits("bit varying"),
        types::VARCHAR => with_length("character varying"),
        types::CHAR => "\"char\"".to_owned(),
        _ => return None,
    })
}

fn interval_name(typmod: i32) -> String {
    if typmod < 0 {
        return "interval".to_owned();
    }
    // High half: bits of the fields, low half: precision (0xFFFF: none).
    const MONTH: i32 = 1 << 1;
    const YEAR: i32 = 1 << 2;
    const DAY: i32 = 1 << 3;
    const HOUR: i32 = 1 << 10;
    const MINUTE: i32 = 1 << 11;
    const SECOND: i32 = 1 << 12;
    let fields = (typmod >> 16) & 0x7FFF;
    let fields = [
        (YEAR, " year"),
        (MONTH, " month"),
        (DAY, " day"),
        (HOUR, " hour"),
        (MINUTE, " minute"),
        (SECOND, " second"),
        (YEAR | MONTH, " year to month"),
        (DAY | HOUR, " day to hour"),
        (DAY | HOUR | MINUTE, " day to minute"),
        (DAY | HOUR | MINUTE | SECOND, " day to second"),
        (HOUR | MINUTE, " hour to minute"),
        (HOUR | MINUTE | SECOND, " hour to second"),
        (MINUTE | SECOND, " minute to second"),
    ]
    .iter()
    .find(|(bits, _)| *bits == fields)
    .map_or("", |(_, text)| text);
    match typmod & 0xFFFF {
        0xFFFF => format!("interval{fields}"),
        precision => format!("interval{fields}({precision})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let catalog = Catalog::builtin();
        let path = SearchPath::pg_catalog();
        let name = |oid, typmod| catalog.format_type(oid, typmod, &path);
        assert_eq!(name(types::VARCHAR, 14), "character varying(10)");
        assert_eq!(name(types::BPCHAR, 5), "character(1)");
        assert_eq!(name(types::NUMERIC, (10 << 16 | 2) + 4), "numeric(10,2)");
        assert_eq!(name(types::TIMESTAMPTZ, 3), "timestamp(3) with time zone");
        assert_eq!(name(types::INT4_ARRAY, -1), "integer[]");
        assert_eq!(name(types::INTERVAL, (0x7FFF << 16) | 3), "interval(3)");
        assert_eq!(name(types::NAME, -1), "name");
        assert_eq!(name(types::INT2VECTOR, -1), "int2vector");
        assert_eq!(name(0, -1), "-");
        assert_eq!(name(999_999, -1), "???");
        assert_eq!(name(13224, -1), "information_schema.character_data");
    }
}
