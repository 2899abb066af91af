//! The operators `~` and friends, `substring ... from`, and the `regexp_` functions (manual, section 9.7.3).

use std::rc::Rc;
use std::sync::Arc;

use cairn_types::{Array, Datum, Error, Result, Text, err, types};

use super::similar::similar_to_regex;
use super::{Flags, Match, Regex, compiled, find_all};
use crate::string::int4;
use crate::{Args, Call, RowStream, Rows, ScalarFn, SetFn};

const IGNORE_CASE: Flags = Flags {
    ignore_case: true,
    expanded: false,
    quote: false,
    newline_stops_dot: false,
    newline_anchors: false,
};

fn matches(args: &[Datum], flags: Flags) -> Result<bool> {
    compiled(args.str(1)?, flags)?.is_match(args.str(0)?)
}

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("textregexeq", |_, a| Ok(Datum::Bool(matches(a, Flags::default())?))),
    ("textregexne", |_, a| Ok(Datum::Bool(!matches(a, Flags::default())?))),
    ("texticregexeq", |_, a| Ok(Datum::Bool(matches(a, IGNORE_CASE)?))),
    ("texticregexne", |_, a| Ok(Datum::Bool(!matches(a, IGNORE_CASE)?))),
    ("nameregexeq", |_, a| Ok(Datum::Bool(matches(a, Flags::default())?))),
    ("nameregexne", |_, a| Ok(Datum::Bool(!matches(a, Flags::default())?))),
    ("nameicregexeq", |_, a| Ok(Datum::Bool(matches(a, IGNORE_CASE)?))),
    ("nameicregexne", |_, a| Ok(Datum::Bool(!matches(a, IGNORE_CASE)?))),
    ("textregexsubstr", |_, a| {
        let text = a.str(0)?;
        let found = compiled(a.str(1)?, Flags::default())?.find_at(text, 0)?;
        // The first group if there is one, else the whole match.
        Ok(found.map_or(Datum::Null, |found| {
            let group = if found.groups.len() > 1 { found.groups[1] } else { found.groups[0] };
            slice(text, group)
        }))
    }),
    ("similar_to_escape_1", |_, a| Ok(Datum::text(similar_to_regex(a.str(0)?, "\\")?))),
    ("similar_to_escape_2", |_, a| Ok(Datum::text(similar_to_regex(a.str(0)?, a.str(1)?)?))),
    ("similar_escape", |_, a| {
        if a.is_null(0) {
            return Ok(Datum::Null);
        }
        let escape = if a.is_null(1) { "\\" } else { a.str(1)? };
        Ok(Datum::text(similar_to_regex(a.str(0)?, escape)?))
    }),
    ("regexp_like", regexp_like),
    ("regexp_like_no_flags", regexp_like),
    ("regexp_match", regexp_match),
    ("regexp_match_no_flags", regexp_match),
    ("regexp_split_to_array", split_to_array),
    ("regexp_split_to_array_no_flags", split_to_array),
    ("textregexreplace_noopt", |_, a| {
        replace(a.text(0)?, &*compiled(a.str(1)?, Flags::default())?, a.str(2)?, 0, 1)
    }),
    ("textregexreplace", textregexreplace),
    ("textregexreplace_extended", replace_extended),
    ("textregexreplace_extended_no_flags", replace_extended),
    ("textregexreplace_extended_no_n", replace_extended),
    ("regexp_count", regexp_count),
    ("regexp_count_no_flags", regexp_count),
    ("regexp_count_no_start", regexp_count),
    ("regexp_instr", regexp_instr),
    ("regexp_instr_no_subexpr", regexp_instr),
    ("regexp_instr_no_flags", regexp_instr),
    ("regexp_instr_no_endoption", regexp_instr),
    ("regexp_instr_no_n", regexp_instr),
    ("regexp_instr_no_start", regexp_instr),
    ("regexp_substr", regexp_substr),
    ("regexp_substr_no_subexpr", regexp_substr),
    ("regexp_substr_no_flags", regexp_substr),
    ("regexp_substr_no_n", regexp_substr),
    ("regexp_substr_no_start", regexp_substr),
];

pub const SET_BODIES: &[(&str, SetFn)] = &[
    ("regexp_matches", regexp_matches),
    ("regexp_matches_no_flags", regexp_matches),
    ("regexp_split_to_table", split_to_table),
    ("regexp_split_to_table_no_flags", split_to_table),
];

fn slice(text: &str, group: Option<(usize, usize)>) -> Datum {
    match group {
        Some((start, end)) => Datum::text(&text[start..end]),
        None => Datum::Null,
    }
}

/// The flags in argument `i`, `g` refused in the name of a function that has no use for it.
fn flags_without_global(args: &[Datum], i: usize, function: &str) -> Result<Flags> {
    let (flags, global) = if args.len() > i { Flags::parse(args.str(i)?)? } else { Default::default() };
    if global {
        let error = err!(INVALID_PARAMETER_VALUE, "{function}() does not support the \"global\" option");
        return Err(if function == "regexp_match" {
            error.hint("Use the regexp_matches function instead.")
        } else {
            error
        });
    }
    Ok(flags)
}

fn invalid_parameter(name: &str, value: i32) -> Error {
    err!(INVALID_PARAMETER_VALUE, "invalid value for parameter \"{name}\": {value}")
}

/// An optional integer argument with its least value.
fn option(args: &[Datum], i: usize, name: &str, least: i32, default: i32) -> Result<i32> {
    if args.len() <= i {
        return Ok(default);
    }
    let value = args.int4(i)?;
    if value < least { Err(invalid_parameter(name, value)) } else { Ok(value) }
}

/// The byte where character `start` (from 1) begins; `None` behind the end.
fn byte_of(text: &str, start: i32) -> Option<usize> {
    let index = start as usize - 1;
    if index == 0 {
        return Some(0);
    }
    match text.char_indices().nth(index) {
        Some((at, _)) => Some(at),
        None => (text.chars().count() == index).then_some(text.len()),
    }
}

fn regexp_like(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let flags = flags_without_global(args, 2, "regexp_like")?;
    Ok(Datum::Bool(matches(args, flags)?))
}

/// The groups of a match as `text[]`; the whole match where there are no groups.
fn match_array(text: &str, found: &Match) -> Datum {
    let groups = if found.groups.len() > 1 { &found.groups[1..] } else { &found.groups[..] };
    let elements = groups.iter().map(|group| slice(text, *group)).collect();
    Datum::Array(Arc::new(Array::from_elements(types::TEXT, elements)))
}

fn regexp_match(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let flags = flags_without_global(args, 2, "regexp_match")?;
    let text = args.str(0)?;
    let found = compiled(args.str(1)?, flags)?.find_at(text, 0)?;
    Ok(found.map_or(Datum::Null, |found| match_array(text, &found)))
}

fn regexp_matches(_: &Call<'_>, args: &[Datum]) -> Result<Box<dyn RowStream>> {
    let (flags, global) = if args.len() > 2 { Flags::parse(args.str(2)?)? } else { Default::default() };
    let text = args.str(0)?;
    let regex = compiled(args.str(1)?, flags)?;
    let found =
        if global { find_all(&regex, text, 0)? } else { regex.find_at(text, 0)?.into_iter().collect() };
    Ok(Rows::of_values(found.iter().map(|found| match_array(text, found)).collect::<Vec<_>>()))
}

/// The pieces between the matches. An empty match at the text's ends or directly behind another splits nothing.
fn split_pieces(args: &[Datum], function: &str) -> Result<Vec<Datum>> {
    let flags = flags_without_global(args, 2, function)?;
    let text = args.str(0)?;
    let regex = compiled(args.str(1)?, flags)?;
    let mut pieces = Vec::new();
    let mut piece_start = 0;
    for found in find_all(&regex, text, 0)? {
        let empty = found.start() == found.end();
        if empty && (found.start() == piece_start || found.start() >= text.len()) {
            continue;
        }
        pieces.push(Datum::text(&text[piece_start..found.start()]));
        piece_start = found.end();
    }
    pieces.push(Datum::text(&text[piece_start..]));
    Ok(pieces)
}

fn split_to_array(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let pieces = split_pieces(args, "regexp_split_to_array")?;
    Ok(Datum::Array(Arc::new(Array::from_elements(types::TEXT, pieces))))
}

fn split_to_table(_: &Call<'_>, args: &[Datum]) -> Result<Box<dyn RowStream>> {
    Ok(Rows::of_values(split_pieces(args, "regexp_split_to_table")?))
}

/// `regexp_replace(text, pattern, replacement, flags)`.
fn textregexreplace(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let options = args.str(3)?;
    // A digit here is somebody's start parameter that was quoted by mistake.
    if options.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "invalid regular expression option: \"{}\"",
            &options[..1]
        )
        .hint("If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly."));
    }
    let (flags, global) = Flags::parse(options)?;
    replace(args.text(0)?, &*compiled(args.str(1)?, flags)?, args.str(2)?, 0, i32::from(!global))
}

/// `regexp_replace(text, pattern, replacement, start [, n [, flags]])`.
fn replace_extended(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let start = option(args, 3, "start", 1, 1)?;
    let (flags, global) = if args.len() > 5 { Flags::parse(args.str(5)?)? } else { Default::default() };
    // Without n the g flag (which then is not there) decides: the first match.
    let n = option(args, 4, "n", 0, i32::from(!global))?;
    let text = args.text(0)?;
    let Some(from) = byte_of(text, start) else {
        return Ok(Datum::Text(text.clone()));
    };
    replace(text, &*compiled(args.str(1)?, flags)?, args.str(2)?, from, n)
}

/// Replaces match number `n` from byte `from` on; every match if `n` is 0.
fn replace(text: &Text, regex: &Regex, replacement: &str, from: usize, n: i32) -> Result<Datum> {
    let mut out = String::new();
    let mut copied = 0;
    let mut number = 0;
    let mut at = from;
    while at <= text.len() {
        let Some(found) = regex.find_at(text, at)? else {
            break;
        };
        number += 1;
        at =
            if found.end() > found.start() { found.end() } else { super::after_character(text, found.end()) };
        if n != 0 && number != n {
            continue;
        }
        out.push_str(&text[copied..found.start()]);
        push_replacement(&mut out, replacement, text, &found);
        copied = found.end();
        if n != 0 {
            break;
        }
    }
    if copied == 0 && out.is_empty() && number == 0 {
        return Ok(Datum::Text(text.clone()));
    }
    out.push_str(&text[copied..]);
    Ok(Datum::text(out))
}

/// Writes a replacement: `\1` to `\9` are groups, `\&` the match, `\\` a backslash.
fn push_replacement(out: &mut String, replacement: &str, text: &str, found: &Match) {
    let mut characters = replacement.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        let group = match characters.peek() {
            Some('&') => Some(0),
            Some(digit @ '1'..='9') => digit.to_digit(10).map(|digit| digit as usize),
            Some('\\') => {
                characters.next();
                out.push('\\');
                continue;
            }
            // Anything else stays as it is, backslash and all.
            _ => None,
        };
        match group {
            Some(group) => {
                characters.next();
                if let Some((start, end)) = found.groups.get(group).copied().flatten() {
                    out.push_str(&text[start..end]);
                }
            }
            None => out.push('\\'),
        }
    }
}

fn regexp_count(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let start = option(args, 2, "start", 1, 1)?;
    let flags = flags_without_global(args, 3, "regexp_count")?;
    let text = args.str(0)?;
    let regex = compiled(args.str(1)?, flags)?;
    match byte_of(text, start) {
        Some(from) => int4(find_all(&regex, text, from)?.len()),
        None => Ok(Datum::Int4(0)),
    }
}

/// Match number `n` from character `start` on.
fn nth_match(regex: &Rc<Regex>, text: &str, start: i32, n: i32) -> Result<Option<Match>> {
    let Some(from) = byte_of(text, start) else {
        return Ok(None);
    };
    Ok(find_all(regex, text, from)?.into_iter().nth(n as usize - 1))
}

/// The group that a function's argument names. An expression without groups is its own group 1.
fn numbered_group(regex: &Regex, group: i32) -> usize {
    if regex.group_count() == 0 && group == 1 { 0 } else { group as usize }
}

/// `regexp_instr(text, pattern [, start [, n [, endoption [, flags [, group]]]]])`.
fn regexp_instr(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let start = option(args, 2, "start", 1, 1)?;
    let n = option(args, 3, "n", 1, 1)?;
    let end_option = option(args, 4, "endoption", 0, 0)?;
    if end_option > 1 {
        return Err(invalid_parameter("endoption", end_option));
    }
    let flags = flags_without_global(args, 5, "regexp_instr")?;
    let group = option(args, 6, "subexpr", 0, 0)?;
    let text = args.str(0)?;
    let regex = compiled(args.str(1)?, flags)?;
    let group = numbered_group(&regex, group);
    let found = nth_match(&regex, text, start, n)?;
    match found.and_then(|found| found.groups.get(group).copied().flatten()) {
        Some((from, to)) => int4(text[..if end_option == 1 { to } else { from }].chars().count() + 1),
        None => Ok(Datum::Int4(0)),
    }
}

/// `regexp_substr(text, pattern [, start [, n [, flags [, group]]]])`.
fn regexp_substr(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let start = option(args, 2, "start", 1, 1)?;
    let n = option(args, 3, "n", 1, 1)?;
    let flags = flags_without_global(args, 4, "regexp_substr")?;
    let group = option(args, 5, "subexpr", 0, 0)?;
    let text = args.str(0)?;
    let regex = compiled(args.str(1)?, flags)?;
    let group = numbered_group(&regex, group);
    let found = nth_match(&regex, text, start, n)?;
    Ok(slice(text, found.and_then(|found| found.groups.get(group).copied().flatten())))
}
