//! The btree order of `jsonb` (manual, section 8.14.4): Object > Array > Boolean > Number > String > Null,
//! containers with more members above those with fewer, then member by member.
//!
//! An oddity of PostgreSQL that indexes depend on: at the top level, an empty array sorts below everything
//! else; inside of containers it sorts among the arrays.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::Jsonb;

fn rank(value: &Jsonb) -> u8 {
    match value {
        Jsonb::Null => 0,
        Jsonb::String(_) => 1,
        Jsonb::Number(_) => 2,
        Jsonb::Bool(_) => 3,
        Jsonb::Array(_) => 4,
        Jsonb::Object(_) => 5,
    }
}

fn is_empty_array(value: &Jsonb) -> bool {
    matches!(value, Jsonb::Array(array) if array.items.is_empty())
}

impl Ord for Jsonb {
    fn cmp(&self, other: &Self) -> Ordering {
        match (is_empty_array(self), is_empty_array(other)) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => compare_nested(self, other),
        }
    }
}

fn compare_nested(a: &Jsonb, b: &Jsonb) -> Ordering {
    match (a, b) {
        (Jsonb::Bool(a), Jsonb::Bool(b)) => a.cmp(b),
        (Jsonb::Number(a), Jsonb::Number(b)) => a.cmp(b),
        (Jsonb::String(a), Jsonb::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Jsonb::Array(a), Jsonb::Array(b)) => {
            let members = a.items.iter().zip(&b.items).map(|(a, b)| compare_nested(a, b));
            a.items.len().cmp(&b.items.len()).then_with(|| first_difference(members))
        }
        (Jsonb::Object(a), Jsonb::Object(b)) => {
            let members = a.members.iter().zip(&b.members).map(|((key_a, value_a), (key_b, value_b))| {
                key_a.as_bytes().cmp(key_b.as_bytes()).then_with(|| compare_nested(value_a, value_b))
            });
            a.members.len().cmp(&b.members.len()).then_with(|| first_difference(members))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl PartialOrd for Jsonb {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Jsonb {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Jsonb {}

impl Hash for Jsonb {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(rank(self));
        match self {
            Jsonb::Null => {}
            Jsonb::Bool(value) => value.hash(state),
            Jsonb::Number(number) => number.hash(state),
            Jsonb::String(text) => text.hash(state),
            Jsonb::Array(array) => array.items.hash(state),
            Jsonb::Object(object) => object.members.hash(state),
        }
    }
}
