//! SQL's SIMILAR TO expressions, rewritten as advanced regular expressions (manual, section 9.7.2).

use cairn_types::{Result, err};

use crate::string::invalid_escape_string;

/// The regular expression for a SIMILAR TO pattern; `escape` is the escape string, empty for none.
pub fn similar_to_regex(pattern: &str, escape: &str) -> Result<String> {
    let mut characters = escape.chars();
    let escape = match (characters.next(), characters.next()) {
        (single, None) => single,
        _ => return Err(invalid_escape_string()),
    };
    let mut out = String::with_capacity(pattern.len() + 10);
    out.push_str("^(?:");
    let mut after_escape = false;
    let mut in_brackets = false;
    // How far a bracket expression has got: a ] directly behind [ or [^ is a member.
    let mut bracket_members = 0;
    let mut separators = 0;
    for character in pattern.chars() {
        if after_escape {
            if character == '"' && !in_brackets {
                // substring(... similar ...): the part between two separators is the result.
                out.push_str(match separators {
                    0 => "){1,1}?(",
                    1 => "){1,1}(?:",
                    _ => {
                        return Err(err!(
                            INVALID_PARAMETER_VALUE,
                            "SQL regular expression may not contain more than two escape-double-quote separators"
                        ));
                    }
                });
                separators += 1;
            } else {
                out.push('\\');
                out.push(character);
            }
            after_escape = false;
        } else if Some(character) == escape {
            after_escape = true;
        } else if in_brackets {
            if character == '\\' {
                out.push('\\');
            }
            out.push(character);
            if character == ']' && bracket_members > 0 {
                in_brackets = false;
            } else if !(character == '^' && bracket_members == 0) {
                bracket_members += 1;
            }
        } else {
            match character {
                '[' => {
                    out.push('[');
                    in_brackets = true;
                    bracket_members = 0;
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(character);
                }
                other => out.push(other),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}
