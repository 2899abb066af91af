//! What a `jsonpath` finds in a jsonb: `jsonb_path_query` and its kin, `@?` and `@@` (manual, section 9.16.2).
//!
//! Items are shared parts of the value, so lists of them are cheap. Two kinds of failure are told apart: those that
//! the language defines (a missing member in strict mode, an operand that is not a number), which a filter turns
//! into "unknown" and the `silent` argument into no result; and all others, which end the statement.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cairn_types::json::path::{ArithmeticOp, CompareOp, JsonPath, Method, Node, Step, parse_path};
use cairn_types::{Datum, Error, Jsonb, Numeric, Result, Text, err, io};

use super::{invalid, jsonb};
use crate::regex::{Flags, compiled};
use crate::{Args, RowStream, Rows, ScalarFn, SetFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("jsonb_path_exists", |_, a| exists(a)),
    ("jsonb_path_exists_tz", |_, a| exists(a)),
    ("jsonb_path_exists_opr", |_, a| exists(a)),
    ("jsonb_path_match", |_, a| matches(a)),
    ("jsonb_path_match_tz", |_, a| matches(a)),
    ("jsonb_path_match_opr", |_, a| matches(a)),
    ("jsonb_path_query_array", |_, a| Ok(jsonb(Jsonb::array(query(a)?)?))),
    ("jsonb_path_query_array_tz", |_, a| Ok(jsonb(Jsonb::array(query(a)?)?))),
    ("jsonb_path_query_first", |_, a| first(a)),
    ("jsonb_path_query_first_tz", |_, a| first(a)),
];

pub const SET_BODIES: &[(&str, SetFn)] =
    &[("jsonb_path_query", rows), ("jsonb_path_query_tz", |c, a| rows(c, a))];

fn rows(_: &crate::Call<'_>, args: &[Datum]) -> Result<Box<dyn RowStream>> {
    Ok(Rows::of_values(query(args)?.into_iter().map(jsonb)))
}

fn first(args: &[Datum]) -> Result<Datum> {
    Ok(query(args)?.into_iter().next().map_or(Datum::Null, jsonb))
}

fn exists(args: &[Datum]) -> Result<Datum> {
    let path = parsed(args.text(1)?)?;
    let search = search(&path, args)?;
    match search.finds(&path.root, search.start()) {
        Ok(found) => Ok(Datum::Bool(found)),
        Err(Failure::Soft(_)) if is_silent(args)? => Ok(Datum::Null),
        Err(Failure::Soft(error) | Failure::Hard(error)) => Err(error),
    }
}

fn matches(args: &[Datum]) -> Result<Datum> {
    match query(args)?.as_slice() {
        [Jsonb::Bool(value)] => Ok(Datum::Bool(*value)),
        [Jsonb::Null] => Ok(Datum::Null),
        _ if is_silent(args)? => Ok(Datum::Null),
        _ => Err(err!(SINGLETON_SQL_JSON_ITEM_REQUIRED, "single boolean result is expected")),
    }
}

/// The operators have two arguments and are silent.
fn is_silent(args: &[Datum]) -> Result<bool> {
    if args.len() > 3 { args.bool(3) } else { Ok(true) }
}

/// The search that a call's arguments describe. Errors: 22023 for variables that are no object.
fn search<'a>(path: &JsonPath, args: &'a [Datum]) -> Result<Search<'a>> {
    let variables = if args.len() > 2 { Some(&**args.jsonb(2)?) } else { None };
    if variables.is_some_and(|variables| !matches!(variables, Jsonb::Object(_))) {
        return Err(invalid("\"vars\" argument is not an object")
            .detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object."));
    }
    Ok(Search { root: &**args.jsonb(0)?, variables, strict: path.strict })
}

/// The items that a path finds. A silent call that fails has what was found before.
fn query(args: &[Datum]) -> Result<Vec<Jsonb>> {
    let path = parsed(args.text(1)?)?;
    let search = search(&path, args)?;
    let mut items = Vec::new();
    match search.collect(&path.root, search.start(), &mut items) {
        Ok(()) => Ok(items),
        Err(Failure::Soft(_)) if is_silent(args)? => Ok(items),
        Err(Failure::Soft(error) | Failure::Hard(error)) => Err(error),
    }
}

/// The path's tree; the last ones are kept.
fn parsed(text: &Text) -> Result<Rc<JsonPath>> {
    thread_local! {
        static CACHE: RefCell<Vec<(Text, Rc<JsonPath>)>> = const { RefCell::new(Vec::new()) };
    }
    CACHE.with(|cache| {
        let mut cache = cache.borrow_mut();
        if let Some((_, path)) = cache.iter().find(|(have, _)| Arc::ptr_eq(have, text) || have == text) {
            return Ok(path.clone());
        }
        let path = Rc::new(parse_path(text)?);
        cache.truncate(7);
        cache.insert(0, (text.clone(), path.clone()));
        Ok(path)
    })
}

enum Failure {
    /// Defined by the language: unknown in a filter, nothing when silent.
    Soft(Error),
    Hard(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Hard(error)
    }
}

type Found<T> = std::result::Result<T, Failure>;

macro_rules! soft {
    ($state:ident, $($arg:tt)*) => {
        Failure::Soft(err!($state, $($arg)*))
    };
}

/// Three-valued logic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Truth {
    False,
    True,
    Unknown,
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Truth::True } else { Truth::False }
    }
}

/// Where in the value an expression is evaluated.
#[derive(Clone, Copy)]
struct At<'a> {
    /// `@`
    current: &'a Jsonb,
    /// `last`, inside of subscripts.
    last: Option<i64>,
    /// Structural errors are passed over: lax mode, and everything behind `.**`.
    lenient: bool,
}

struct Search<'a> {
    root: &'a Jsonb,
    variables: Option<&'a Jsonb>,
    strict: bool,
}

impl<'a> Search<'a> {
    fn start(&self) -> At<'a> {
        At { current: self.root, last: None, lenient: !self.strict }
    }

    /// Whether an expression gives any item. In lax mode the search ends with the first one, so that an error behind
    /// it does not count, and a sign passes over what is no number.
    fn finds(&self, node: &Node, at: At<'_>) -> Found<bool> {
        if !self.strict
            && let Node::Plus(arg) | Node::Minus(arg) = node
        {
            return Ok(self.operand(arg, at)?.iter().any(|item| matches!(item, Jsonb::Number(_))));
        }
        let mut items = Vec::new();
        match self.collect(node, at, &mut items) {
            Err(Failure::Soft(error)) if self.strict || items.is_empty() => Err(Failure::Soft(error)),
            Err(Failure::Hard(error)) => Err(Failure::Hard(error)),
            _ => Ok(!items.is_empty()),
        }
    }

    /// The items that an expression gives.
    fn node(&self, node: &Node, at: At<'_>) -> Found<Vec<Jsonb>> {
        let mut items = Vec::new();
        self.collect(node, at, &mut items)?;
        Ok(items)
    }

    /// As [`Search::node`]; a failure leaves what was found before it.
    fn collect(&self, node: &Node, at: At<'_>, out: &mut Vec<Jsonb>) -> Found<()> {
        out.push(match node {
            Node::Root => self.root.clone(),
            Node::Current => at.current.clone(),
            Node::Last => match at.last {
                Some(last) => Jsonb::number(Numeric::from(last)),
                None => return Err(Error::internal("LAST outside of an array subscript").into()),
            },
            Node::Variable(name) => self.variable(name)?,
            Node::Null => Jsonb::Null,
            Node::Bool(value) => Jsonb::Bool(*value),
            Node::Number(number) => Jsonb::number(number.clone()),
            Node::String(text) => Jsonb::string(text.as_str()),
            Node::Path(base, steps) => {
                for item in self.node(base, at)? {
                    self.walk(steps, item, at, out)?;
                }
                return Ok(());
            }
            Node::Arithmetic(op, left, right) => self.arithmetic(*op, left, right, at)?,
            Node::Plus(arg) => return self.signed(arg, at, "+", |number| number.clone(), out),
            Node::Minus(arg) => return self.signed(arg, at, "-", Numeric::neg, out),
            predicate => match self.truth(predicate, at)? {
                Truth::True => Jsonb::Bool(true),
                Truth::False => Jsonb::Bool(false),
                Truth::Unknown => Jsonb::Null,
            },
        });
        Ok(())
    }

    /// Follows the accessors depth first.
    fn walk(&self, steps: &[Step], item: Jsonb, at: At<'_>, out: &mut Vec<Jsonb>) -> Found<()> {
        let Some((step, rest)) = steps.split_first() else {
            out.push(item);
            return Ok(());
        };
        let mut next = Vec::new();
        let outcome = self.step(step, &item, at, true, &mut next);
        // What .** finds need not have the members that are asked for next.
        let at = At { lenient: at.lenient || matches!(step, Step::AnyLevel { .. }), ..at };
        for item in next {
            self.walk(rest, item, at, out)?;
        }
        outcome
    }

    fn variable(&self, name: &str) -> Found<Jsonb> {
        let value = self.variables.and_then(|variables| variables.get_key(name));
        value.cloned().ok_or_else(|| {
            Failure::Hard(err!(UNDEFINED_OBJECT, "could not find jsonpath variable \"{name}\""))
        })
    }

    /// The items of an operand: in lax mode arrays stand for their elements.
    fn operand(&self, node: &Node, at: At<'_>) -> Found<Vec<Jsonb>> {
        let items = self.node(node, at)?;
        if self.strict || !items.iter().any(|item| matches!(item, Jsonb::Array(_))) {
            return Ok(items);
        }
        let mut unwrapped = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Jsonb::Array(array) => unwrapped.extend(array.items.iter().cloned()),
                other => unwrapped.push(other),
            }
        }
        Ok(unwrapped)
    }

    fn arithmetic(&self, op: ArithmeticOp, left: &Node, right: &Node, at: At<'_>) -> Found<Jsonb> {
        // Both are evaluated before either is looked at.
        let (left, right) = (self.operand(left, at)?, self.operand(right, at)?);
        let number = |items: &[Jsonb], side: &str| match items {
            [Jsonb::Number(number)] => Ok(number.clone()),
            _ => Err(soft!(
                SINGLETON_SQL_JSON_ITEM_REQUIRED,
                "{side} operand of jsonpath operator {} is not a single numeric value",
                op.symbol()
            )),
        };
        let (a, b) = (number(&left, "left")?, number(&right, "right")?);
        let result = match op {
            ArithmeticOp::Add => a.add(&b),
            ArithmeticOp::Subtract => a.sub(&b),
            ArithmeticOp::Multiply => a.mul(&b),
            ArithmeticOp::Divide => a.div(&b),
            ArithmeticOp::Modulo => a.rem(&b),
        };
        result.map(Jsonb::number).map_err(Failure::Soft)
    }

    fn signed(
        &self,
        arg: &Node,
        at: At<'_>,
        sign: &str,
        apply: fn(&Numeric) -> Numeric,
        out: &mut Vec<Jsonb>,
    ) -> Found<()> {
        for item in self.operand(arg, at)? {
            let Jsonb::Number(number) = item else {
                return Err(soft!(
                    SQL_JSON_NUMBER_NOT_FOUND,
                    "operand of unary jsonpath operator {sign} is not a numeric value"
                ));
            };
            out.push(Jsonb::number(apply(&number)));
        }
        Ok(())
    }

    /// Applies one accessor. `unwrap`: in lax mode an array may stand for its elements.
    fn step(&self, step: &Step, item: &Jsonb, at: At<'_>, unwrap: bool, out: &mut Vec<Jsonb>) -> Found<()> {
        let unwrappable = unwrap && !self.strict;
        let each = |search: &Self, out: &mut Vec<Jsonb>| -> Found<bool> {
            match item {
                Jsonb::Array(array) if unwrappable => {
                    for element in &array.items {
                        search.step(step, element, at, false, out)?;
                    }
                    Ok(true)
                }
                _ => Ok(false),
            }
        };
        match step {
            Step::Key(key) => match item {
                Jsonb::Object(object) => match object.get(key) {
                    Some(value) => out.push(value.clone()),
                    None if at.lenient => {}
                    None => {
                        return Err(soft!(
                            SQL_JSON_MEMBER_NOT_FOUND,
                            "JSON object does not contain key \"{key}\""
                        ));
                    }
                },
                _ if each(self, out)? || at.lenient => {}
                _ => {
                    return Err(soft!(
                        SQL_JSON_MEMBER_NOT_FOUND,
                        "jsonpath member accessor can only be applied to an object"
                    ));
                }
            },
            Step::AnyKey => match item {
                Jsonb::Object(object) => out.extend(object.members.iter().map(|(_, value)| value.clone())),
                _ if each(self, out)? || at.lenient => {}
                _ => {
                    return Err(soft!(
                        SQL_JSON_OBJECT_NOT_FOUND,
                        "jsonpath wildcard member accessor can only be applied to an object"
                    ));
                }
            },
            Step::AnyElement => match item {
                Jsonb::Array(array) => out.extend(array.items.iter().cloned()),
                // A single item is an array of one.
                other if !self.strict => out.push(other.clone()),
                _ if at.lenient => {}
                _ => {
                    return Err(soft!(
                        SQL_JSON_ARRAY_NOT_FOUND,
                        "jsonpath wildcard array accessor can only be applied to an array"
                    ));
                }
            },
            Step::AnyLevel { first, last } => any_level(item, 0, *first, *last, out),
            Step::Elements(elements) => self.elements(elements, item, at, out)?,
            Step::Filter(predicate) => {
                if !each(self, out)? && self.truth(predicate, At { current: item, ..at })? == Truth::True {
                    out.push(item.clone());
                }
            }
            Step::Method(method) => {
                let of_container = matches!(method, Method::Size | Method::Type);
                if of_container || !each(self, out)? {
                    out.extend(self.method(*method, item, at)?);
                }
            }
            Step::Datetime(_) => return Err(Error::unsupported("jsonpath item method .datetime() is").into()),
        }
        Ok(())
    }

    /// `[a, b to c]`
    fn elements(
        &self,
        elements: &[(Node, Option<Node>)],
        item: &Jsonb,
        at: At<'_>,
        out: &mut Vec<Jsonb>,
    ) -> Found<()> {
        let items: &[Jsonb] = match item {
            Jsonb::Array(array) => &array.items,
            other if !self.strict => std::slice::from_ref(other),
            _ if at.lenient => return Ok(()),
            _ => {
                return Err(soft!(
                    SQL_JSON_ARRAY_NOT_FOUND,
                    "jsonpath array accessor can only be applied to an array"
                ));
            }
        };
        let length = items.len() as i64;
        let inside = At { last: Some(length - 1), ..at };
        for (from, to) in elements {
            let low = self.subscript(from, inside)?;
            let high = match to {
                Some(to) => self.subscript(to, inside)?,
                None => low,
            };
            if !at.lenient && (low < 0 || low > high || high >= length) {
                return Err(soft!(INVALID_SQL_JSON_SUBSCRIPT, "jsonpath array subscript is out of bounds"));
            }
            let range = low.max(0)..(high + 1).min(length);
            out.extend(range.filter_map(|index| items.get(index as usize).cloned()));
        }
        Ok(())
    }

    fn subscript(&self, node: &Node, at: At<'_>) -> Found<i64> {
        match self.node(node, at)?.as_slice() {
            [Jsonb::Number(number)] => {
                let whole = number.trunc(0).and_then(|number| number.to_i32());
                whole.map(i64::from).map_err(|_| {
                    soft!(INVALID_SQL_JSON_SUBSCRIPT, "jsonpath array subscript is out of integer range")
                })
            }
            _ => Err(soft!(
                INVALID_SQL_JSON_SUBSCRIPT,
                "jsonpath array subscript is not a single numeric value"
            )),
        }
    }

    fn method(&self, method: Method, item: &Jsonb, at: At<'_>) -> Found<Vec<Jsonb>> {
        let name = method.name();
        let numeric = |apply: fn(&Numeric) -> Result<Numeric>| match item {
            Jsonb::Number(number) => Ok(vec![Jsonb::number(apply(number)?)]),
            _ => Err(soft!(
                NON_NUMERIC_SQL_JSON_ITEM,
                "jsonpath item method .{name}() can only be applied to a numeric value"
            )),
        };
        match method {
            Method::Type => Ok(vec![Jsonb::string(item.type_name())]),
            Method::Size => match item {
                Jsonb::Array(array) => Ok(vec![Jsonb::number(Numeric::from(array.items.len() as i64))]),
                _ if !self.strict => Ok(vec![Jsonb::number(Numeric::ONE)]),
                _ if at.lenient => Ok(Vec::new()),
                _ => Err(soft!(
                    SQL_JSON_ARRAY_NOT_FOUND,
                    "jsonpath item method .size() can only be applied to an array"
                )),
            },
            Method::Abs => numeric(|number| Ok(number.abs())),
            Method::Floor => numeric(Numeric::floor),
            Method::Ceiling => numeric(Numeric::ceil),
            Method::Double => double(item).map(|item| vec![item]),
            Method::KeyValue => self.key_value(item),
        }
    }

    /// `.keyvalue()`: an object for each member, with an id of the object that it is from. The ids are PostgreSQL's
    /// only for the root, 0: elsewhere they are offsets in its storage format.
    fn key_value(&self, item: &Jsonb) -> Found<Vec<Jsonb>> {
        let Jsonb::Object(object) = item else {
            return Err(soft!(
                SQL_JSON_OBJECT_NOT_FOUND,
                "jsonpath item method .keyvalue() can only be applied to an object"
            ));
        };
        let is_root = matches!(self.root, Jsonb::Object(root) if Arc::ptr_eq(root, object));
        if !is_root {
            return Err(Error::unsupported("jsonpath item method .keyvalue() of a nested object is").into());
        }
        object
            .members
            .iter()
            .map(|(key, value)| {
                Ok(Jsonb::object(vec![
                    (Text::from("id"), Jsonb::number(Numeric::ZERO)),
                    (Text::from("key"), Jsonb::String(key.clone())),
                    (Text::from("value"), value.clone()),
                ])?)
            })
            .collect()
    }

    fn truth(&self, predicate: &Node, at: At<'_>) -> Found<Truth> {
        Ok(match predicate {
            Node::And(left, right) => match self.truth(left, at)? {
                Truth::False => Truth::False,
                first => match self.truth(right, at)? {
                    Truth::True => first,
                    second => second,
                },
            },
            Node::Or(left, right) => match self.truth(left, at)? {
                Truth::True => Truth::True,
                first => match self.truth(right, at)? {
                    Truth::False => first,
                    second => second,
                },
            },
            Node::Not(arg) => match self.truth(arg, at)? {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                Truth::Unknown => Truth::Unknown,
            },
            Node::IsUnknown(arg) => Truth::from(self.truth(arg, at)? == Truth::Unknown),
            Node::Exists(arg) => match self.finds(arg, at) {
                Ok(found) => Truth::from(found),
                Err(Failure::Soft(_)) => Truth::Unknown,
                Err(hard) => return Err(hard),
            },
            Node::Compare(op, left, right) => {
                self.pairs(left, Some(right), at, |a, b| Ok(compare(*op, a, b)))?
            }
            Node::StartsWith(left, right) => self.pairs(left, Some(right), at, |a, b| {
                Ok(match (a, b) {
                    (Jsonb::String(text), Jsonb::String(prefix)) => Truth::from(text.starts_with(&**prefix)),
                    _ => Truth::Unknown,
                })
            })?,
            Node::LikeRegex { text, pattern, flags } => {
                let flags = Flags {
                    ignore_case: flags.contains('i'),
                    quote: flags.contains('q'),
                    newline_stops_dot: !flags.contains('s'),
                    newline_anchors: flags.contains('m'),
                    expanded: false,
                };
                let regex = compiled(pattern, flags)?;
                self.pairs(text, None, at, |a, _| match a {
                    Jsonb::String(text) => Ok(Truth::from(regex.is_match(text)?)),
                    _ => Ok(Truth::Unknown),
                })?
            }
            _ => return Err(Error::internal("jsonpath expression where a predicate should be").into()),
        })
    }

    /// A predicate over sequences holds if it does for any pair. In strict mode one pair for which it is unknown makes
    /// it unknown.
    fn pairs(
        &self,
        left: &Node,
        right: Option<&Node>,
        at: At<'_>,
        test: impl Fn(&Jsonb, &Jsonb) -> Result<Truth>,
    ) -> Found<Truth> {
        let items = |node: &Node| match self.operand(node, at) {
            Ok(items) => Ok(Some(items)),
            Err(Failure::Soft(_)) => Ok(None),
            Err(hard) => Err(hard),
        };
        let Some(left) = items(left)? else {
            return Ok(Truth::Unknown);
        };
        let right = match right {
            Some(right) => items(right)?,
            None => Some(vec![Jsonb::Null]),
        };
        let Some(right) = right else {
            return Ok(Truth::Unknown);
        };
        let (mut found, mut unknown) = (false, false);
        for a in &left {
            for b in &right {
                match test(a, b)? {
                    Truth::True if !self.strict => return Ok(Truth::True),
                    Truth::True => found = true,
                    Truth::Unknown if self.strict => return Ok(Truth::Unknown),
                    Truth::Unknown => unknown = true,
                    Truth::False => {}
                }
            }
        }
        Ok(match (found, unknown) {
            (true, _) => Truth::True,
            (false, true) => Truth::Unknown,
            (false, false) => Truth::False,
        })
    }
}

/// The item and what it contains, from level `first` to level `last` below it; `None` is the level of leaves.
fn any_level(item: &Jsonb, level: u32, first: Option<u32>, last: Option<u32>, out: &mut Vec<Jsonb>) {
    let wanted = match first {
        Some(first) => level >= first,
        // The item itself is no leaf of its own.
        None => level > 0 && !item.is_container(),
    };
    if wanted && last.is_none_or(|last| level <= last) {
        out.push(item.clone());
    }
    if last.is_some_and(|last| level >= last) {
        return;
    }
    match item {
        Jsonb::Array(array) => {
            array.items.iter().for_each(|item| any_level(item, level + 1, first, last, out))
        }
        Jsonb::Object(object) => {
            object.members.iter().for_each(|(_, value)| any_level(value, level + 1, first, last, out));
        }
        _ => {}
    }
}

fn compare(op: CompareOp, a: &Jsonb, b: &Jsonb) -> Truth {
    let order = match (a, b) {
        (Jsonb::Null, Jsonb::Null) => std::cmp::Ordering::Equal,
        (Jsonb::Bool(a), Jsonb::Bool(b)) => a.cmp(b),
        (Jsonb::Number(a), Jsonb::Number(b)) => a.cmp(b),
        (Jsonb::String(a), Jsonb::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        // Null differs from everything else; other kinds cannot be compared.
        (Jsonb::Null, _) | (_, Jsonb::Null) => return Truth::from(op == CompareOp::NotEqual),
        _ => return Truth::Unknown,
    };
    Truth::from(match op {
        CompareOp::Equal => order.is_eq(),
        CompareOp::NotEqual => order.is_ne(),
        CompareOp::Less => order.is_lt(),
        CompareOp::Greater => order.is_gt(),
        CompareOp::LessOrEqual => order.is_le(),
        CompareOp::GreaterOrEqual => order.is_ge(),
    })
}

fn double(item: &Jsonb) -> Found<Jsonb> {
    let value = match item {
        Jsonb::Number(number) => number.to_f64().map_err(|_| {
            soft!(
                NON_NUMERIC_SQL_JSON_ITEM,
                "numeric argument of jsonpath item method .double() is out of range for type double precision"
            )
        })?,
        Jsonb::String(text) => io::parse_float8(text).ok().filter(|value| value.is_finite()).ok_or_else(|| {
            soft!(
                NON_NUMERIC_SQL_JSON_ITEM,
                "string argument of jsonpath item method .double() is not a valid representation of a double precision number"
            )
        })?,
        _ => {
            return Err(soft!(
                NON_NUMERIC_SQL_JSON_ITEM,
                "jsonpath item method .double() can only be applied to a string or numeric value"
            ));
        }
    };
    // A number stays as it was written; a string becomes the number that it names.
    Ok(match item {
        Jsonb::Number(_) => item.clone(),
        _ => Jsonb::number(Numeric::from_f64(value)),
    })
}
