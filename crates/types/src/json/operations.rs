//! The operators and functions on `jsonb` that change or search a value (manual, section 9.16).

use std::collections::HashSet;

use super::{Jsonb, key_order};
use crate::{Error, Result, Text, err};

/// What a walk along a path does at its end.
enum PathEdit<'a> {
    Set { value: &'a Jsonb, create: bool },
    Insert { value: &'a Jsonb, after: bool },
    Delete,
}

/// The place of an index that counts from the end if negative; `None` if outside of the array.
fn array_index(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 { index + length as i64 } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

fn cannot(what: &str) -> Error {
    err!(INVALID_PARAMETER_VALUE, "cannot {what}")
}

impl Jsonb {
    pub fn is_container(&self) -> bool {
        matches!(self, Jsonb::Array(_) | Jsonb::Object(_))
    }

    /// `jsonb_typeof`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Jsonb::Null => "null",
            Jsonb::Bool(_) => "boolean",
            Jsonb::Number(_) => "number",
            Jsonb::String(_) => "string",
            Jsonb::Array(_) => "array",
            Jsonb::Object(_) => "object",
        }
    }

    /// `jsonb -> text`.
    pub fn get_key(&self, key: &str) -> Option<&Jsonb> {
        match self {
            Jsonb::Object(object) => object.get(key),
            _ => None,
        }
    }

    /// `jsonb -> integer`; a negative index counts from the end.
    pub fn get_index(&self, index: i64) -> Option<&Jsonb> {
        match self {
            Jsonb::Array(array) => array.items.get(array_index(index, array.items.len())?),
            _ => None,
        }
    }

    /// `jsonb #> text[]`. A null in the path (`None`) finds nothing.
    pub fn get_path(&self, path: &[Option<&str>]) -> Option<&Jsonb> {
        let mut value = self;
        for step in path {
            value = match value {
                Jsonb::Object(object) => object.get((*step)?)?,
                Jsonb::Array(_) => value.get_index(parse_index((*step)?)?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// `jsonb ? text`: a key of an object, or a string in an array or as the value itself.
    pub fn exists(&self, key: &str) -> bool {
        match self {
            Jsonb::Object(object) => object.get(key).is_some(),
            Jsonb::Array(array) => {
                array.items.iter().any(|item| matches!(item, Jsonb::String(text) if **text == *key))
            }
            Jsonb::String(text) => **text == *key,
            _ => false,
        }
    }

    /// `jsonb @> jsonb`.
    pub fn contains(&self, other: &Jsonb) -> bool {
        match (self, other) {
            // An array contains a scalar as if it were an element; only at the top level.
            (Jsonb::Array(array), scalar) if !scalar.is_container() => array.items.contains(scalar),
            _ => contains_nested(self, other),
        }
    }

    /// `jsonb || jsonb`.
    pub fn concat(&self, other: &Jsonb) -> Result<Jsonb> {
        if let (Jsonb::Object(a), Jsonb::Object(b)) = (self, other) {
            if a.members.is_empty() {
                return Ok(other.clone());
            }
            let mut members = Vec::with_capacity(a.members.len() + b.members.len());
            let (mut left, mut right) = (a.members.iter().peekable(), b.members.iter().peekable());
            // Both are in key order: a merge, in which the right one wins.
            while let (Some((key_a, _)), Some((key_b, _))) = (left.peek(), right.peek()) {
                match key_order(key_a, key_b) {
                    std::cmp::Ordering::Less => members.extend(left.next().cloned()),
                    std::cmp::Ordering::Greater => members.extend(right.next().cloned()),
                    std::cmp::Ordering::Equal => {
                        left.next();
                        members.extend(right.next().cloned());
                    }
                }
            }
            members.extend(left.cloned());
            members.extend(right.cloned());
            return Jsonb::object(members);
        }
        let mut items = Vec::new();
        for side in [self, other] {
            match side {
                Jsonb::Array(array) => items.extend(array.items.iter().cloned()),
                single => items.push(single.clone()),
            }
        }
        Jsonb::array(items)
    }

    /// `jsonb - text` and `jsonb - text[]`: keys of an object, or strings of an array.
    pub fn delete_keys(&self, keys: &[&str]) -> Result<Jsonb> {
        match self {
            Jsonb::Object(object) => {
                let keys: HashSet<&str> = keys.iter().copied().collect();
                let kept = object.members.iter().filter(|(key, _)| !keys.contains(&**key)).cloned().collect();
                Jsonb::object(kept)
            }
            Jsonb::Array(array) => {
                let keys: HashSet<&str> = keys.iter().copied().collect();
                let kept = array
                    .items
                    .iter()
                    .filter(|item| !matches!(item, Jsonb::String(text) if keys.contains(&**text)))
                    .cloned()
                    .collect();
                Jsonb::array(kept)
            }
            _ => Err(cannot("delete from scalar")),
        }
    }

    /// `jsonb - integer`.
    pub fn delete_index(&self, index: i64) -> Result<Jsonb> {
        match self {
            Jsonb::Array(array) => {
                let mut items = array.items.clone();
                if let Some(index) = array_index(index, items.len()) {
                    items.remove(index);
                }
                Jsonb::array(items)
            }
            Jsonb::Object(_) => Err(cannot("delete from object using integer index")),
            _ => Err(cannot("delete from scalar")),
        }
    }

    /// `jsonb #- text[]`.
    pub fn delete_path(&self, path: &[Option<&str>]) -> Result<Jsonb> {
        if !self.is_container() {
            return Err(cannot("delete path in scalar"));
        }
        self.edit(path, &PathEdit::Delete)
    }

    /// `jsonb_set`.
    pub fn set_path(&self, path: &[Option<&str>], value: &Jsonb, create: bool) -> Result<Jsonb> {
        if !self.is_container() {
            return Err(cannot("set path in scalar"));
        }
        // An empty container has nothing to replace.
        if self.member_count() == 0 && !create {
            return Ok(self.clone());
        }
        self.edit(path, &PathEdit::Set { value, create })
    }

    /// `jsonb_insert`.
    pub fn insert_path(&self, path: &[Option<&str>], value: &Jsonb, after: bool) -> Result<Jsonb> {
        if !self.is_container() {
            return Err(cannot("set path in scalar"));
        }
        self.edit(path, &PathEdit::Insert { value, after })
    }

    fn member_count(&self) -> usize {
        match self {
            Jsonb::Array(array) => array.items.len(),
            Jsonb::Object(object) => object.members.len(),
            _ => 0,
        }
    }

    fn edit(&self, path: &[Option<&str>], edit: &PathEdit<'_>) -> Result<Jsonb> {
        if path.is_empty() || (self.member_count() == 0 && matches!(edit, PathEdit::Delete)) {
            return Ok(self.clone());
        }
        self.edit_at(path, 0, edit)
    }

    fn edit_at(&self, path: &[Option<&str>], level: usize, edit: &PathEdit<'_>) -> Result<Jsonb> {
        let Some(step) = path.get(level) else {
            return Ok(self.clone());
        };
        match self {
            Jsonb::Object(object) => {
                let key = step.ok_or_else(|| null_step(level))?;
                let last = level + 1 == path.len();
                let mut members = object.members.clone();
                match (members.binary_search_by(|(have, _)| key_order(have, key)), last) {
                    (Ok(at), true) => match edit {
                        PathEdit::Set { value, .. } => members[at].1 = (*value).clone(),
                        PathEdit::Delete => {
                            members.remove(at);
                        }
                        PathEdit::Insert { .. } => {
                            return Err(err!(INVALID_PARAMETER_VALUE, "cannot replace existing key")
                                .hint("Try using the function jsonb_set to replace key value."));
                        }
                    },
                    (Ok(at), false) => members[at].1 = members[at].1.edit_at(path, level + 1, edit)?,
                    (Err(at), true) => match edit {
                        PathEdit::Set { value, create: true } | PathEdit::Insert { value, .. } => {
                            members.insert(at, (Text::from(key), (*value).clone()));
                        }
                        _ => {}
                    },
                    (Err(_), false) => {}
                }
                Jsonb::object(members)
            }
            Jsonb::Array(array) => {
                let step = step.ok_or_else(|| null_step(level))?;
                let index = parse_index(step).ok_or_else(|| not_an_integer(level, step))?;
                self.edit_array(&array.items, index, path, level, edit)
            }
            scalar => Ok(scalar.clone()),
        }
    }

    fn edit_array(
        &self,
        items: &[Jsonb],
        index: i64,
        path: &[Option<&str>],
        level: usize,
        edit: &PathEdit<'_>,
    ) -> Result<Jsonb> {
        let mut items = items.to_vec();
        let found = array_index(index, items.len());
        if level + 1 < path.len() {
            if let Some(at) = found {
                items[at] = items[at].edit_at(path, level + 1, edit)?;
            }
            return Jsonb::array(items);
        }
        match (edit, found) {
            (PathEdit::Set { value, .. }, Some(at)) => items[at] = (*value).clone(),
            (PathEdit::Delete, Some(at)) => {
                items.remove(at);
            }
            (PathEdit::Insert { value, after }, Some(at)) => {
                items.insert(at + usize::from(*after), (*value).clone());
            }
            (PathEdit::Set { value, create: true } | PathEdit::Insert { value, .. }, None) => {
                if index < 0 {
                    items.insert(0, (*value).clone());
                } else {
                    items.push((*value).clone());
                }
            }
            _ => {}
        }
        Jsonb::array(items)
    }

    /// `container['a'][1] = value`: what the path needs and is not there is made, gaps in arrays are filled with
    /// nulls. A container that is null (`None`) becomes an array if the first subscript was an integer. Errors:
    /// 22023 where the path leads through a scalar or before the beginning of an array, 22P02 for a key of an array.
    pub fn assign(
        container: Option<&Jsonb>,
        path: &[&str],
        first_is_index: bool,
        value: &Jsonb,
    ) -> Result<Jsonb> {
        match container {
            Some(container) => assign_at(container, path, 0, value),
            None if first_is_index => assign_at(&Jsonb::array(Vec::new())?, path, 0, value),
            None => assign_at(&Jsonb::object(Vec::new())?, path, 0, value),
        }
    }

    /// `jsonb_strip_nulls`: members whose value is null are left out, at every level; array elements stay.
    pub fn strip_nulls(&self) -> Result<Jsonb> {
        match self {
            Jsonb::Array(array) => {
                Jsonb::array(array.items.iter().map(Jsonb::strip_nulls).collect::<Result<_>>()?)
            }
            Jsonb::Object(object) => {
                let mut members = Vec::with_capacity(object.members.len());
                for (key, value) in &object.members {
                    if !matches!(value, Jsonb::Null) {
                        members.push((key.clone(), value.strip_nulls()?));
                    }
                }
                Jsonb::object(members)
            }
            scalar => Ok(scalar.clone()),
        }
    }
}

fn not_an_integer(level: usize, step: &str) -> Error {
    err!(INVALID_TEXT_REPRESENTATION, "path element at position {} is not an integer: \"{step}\"", level + 1)
}

/// The most elements that filling a gap may make.
const FILLED_MAX: usize = 1 << 25;

fn assign_at(target: &Jsonb, path: &[&str], level: usize, value: &Jsonb) -> Result<Jsonb> {
    let Some(step) = path.get(level) else {
        return Ok(value.clone());
    };
    match target {
        Jsonb::Object(object) => {
            let mut members = object.members.clone();
            match members.binary_search_by(|(have, _)| key_order(have, step)) {
                Ok(at) => members[at].1 = assign_at(&members[at].1, path, level + 1, value)?,
                Err(at) => members.insert(at, (Text::from(*step), new_branch(&path[level + 1..], value)?)),
            }
            Jsonb::object(members)
        }
        Jsonb::Array(array) => {
            let index = parse_index(step).ok_or_else(|| not_an_integer(level, step))?;
            let mut items = array.items.clone();
            let at = if index < 0 { index + items.len() as i64 } else { index };
            let at = usize::try_from(at).map_err(|_| {
                err!(
                    INVALID_PARAMETER_VALUE,
                    "path element at position {} is out of range: {index}",
                    level + 1
                )
            })?;
            if at < items.len() {
                items[at] = assign_at(&items[at], path, level + 1, value)?;
            } else {
                let branch = new_branch(&path[level + 1..], value)?;
                fill_up_to(&mut items, at)?;
                items.push(branch);
            }
            Jsonb::array(items)
        }
        // The last step replaces whatever is there; an earlier one cannot lead through a scalar.
        _ => Err(err!(INVALID_PARAMETER_VALUE, "cannot replace existing key")
            .detail("The path assumes key is a composite object, but it is a scalar value.")),
    }
}

/// A value inside of new containers: an array for a step that is a number, an object for any other.
fn new_branch(path: &[&str], value: &Jsonb) -> Result<Jsonb> {
    let mut branch = value.clone();
    for step in path.iter().rev() {
        branch = match parse_index(step) {
            Some(index) => {
                let mut items = Vec::new();
                fill_up_to(&mut items, usize::try_from(index).unwrap_or(0))?;
                items.push(branch);
                Jsonb::array(items)?
            }
            None => Jsonb::object(vec![(Text::from(*step), branch)])?,
        };
    }
    Ok(branch)
}

fn fill_up_to(items: &mut Vec<Jsonb>, length: usize) -> Result<()> {
    if length >= FILLED_MAX {
        return Err(err!(
            PROGRAM_LIMIT_EXCEEDED,
            "number of jsonb array elements exceeds the maximum allowed ({FILLED_MAX})"
        ));
    }
    items.resize(length, Jsonb::Null);
    Ok(())
}

fn null_step(level: usize) -> Error {
    err!(NULL_VALUE_NOT_ALLOWED, "path element at position {} is null", level + 1)
}

/// A path's step as an array index: an optional sign and digits, all of the text.
pub(super) fn parse_index(step: &str) -> Option<i64> {
    let trimmed = step.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    trimmed.parse::<i32>().ok().map(i64::from)
}

fn contains_nested(a: &Jsonb, b: &Jsonb) -> bool {
    match (a, b) {
        (Jsonb::Object(a), Jsonb::Object(b)) => {
            b.members.len() <= a.members.len()
                && b.members
                    .iter()
                    .all(|(key, wanted)| a.get(key).is_some_and(|have| contains_nested(have, wanted)))
        }
        (Jsonb::Array(a), Jsonb::Array(b)) => b.items.iter().all(|wanted| {
            if wanted.is_container() {
                a.items.iter().any(|have| have.is_container() && contains_nested(have, wanted))
            } else {
                a.items.contains(wanted)
            }
        }),
        (a, b) if a.is_container() || b.is_container() => false,
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use crate::Jsonb;
    use crate::json::parse;

    /// PostgreSQL 15's answers.
    #[test]
    fn subscript_assignment() {
        let assign = |container: &str, path: &[&str], index: bool| {
            let container = (container != "NULL").then(|| parse(container).unwrap());
            match Jsonb::assign(container.as_ref(), path, index, &parse("9").unwrap()) {
                Ok(value) => value.to_string(),
                Err(error) => error.message().to_owned(),
            }
        };
        for (container, path, index, expected) in [
            ("{\"a\":1}", &["a"][..], false, "{\"a\": 9}"),
            ("NULL", &["1"], true, "[null, 9]"),
            ("NULL", &["1"], false, "{\"1\": 9}"),
            ("[1, 2]", &["-1"], true, "[1, 9]"),
            ("[1, 2]", &["-5"], true, "path element at position 1 is out of range: -5"),
            ("[1, 2]", &["3", "q"], true, "[1, 2, null, {\"q\": 9}]"),
            ("[1, 2]", &["a"], false, "path element at position 1 is not an integer: \"a\""),
            ("{}", &["x", "y", "2", "z"], false, "{\"x\": {\"y\": [null, null, {\"z\": 9}]}}"),
            ("{\"a\":1}", &["a", "b"], false, "cannot replace existing key"),
            ("5", &["0"], true, "cannot replace existing key"),
            ("{\"a\":{\"b\":[1]}}", &["a", "b", "3"], false, "{\"a\": {\"b\": [1, null, null, 9]}}"),
            (
                "[]",
                &["33554433"],
                true,
                "number of jsonb array elements exceeds the maximum allowed (33554432)",
            ),
        ] {
            assert_eq!(assign(container, path, index), expected, "{container} {path:?}");
        }
    }
}
