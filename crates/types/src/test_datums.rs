//! Random datums for the property tests of this crate.

use std::sync::Arc;

use proptest::prelude::*;

use crate::{Array, Datum, EnumValue, Interval, Jsonb, Numeric, Record, RecordField, TimeTz, types};

fn small_text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab\0 ]{0,4}", "\\PC{0,8}"]
}

pub fn json() -> impl Strategy<Value = Jsonb> {
    let leaf = prop_oneof![
        Just(Jsonb::Null),
        any::<bool>().prop_map(Jsonb::Bool),
        (-3i64..3, 0u16..2).prop_map(|(c, s)| Jsonb::number(Numeric::new(i128::from(c), s))),
        "[ab]{0,2}".prop_map(Jsonb::string),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(|items| Jsonb::array(items).unwrap()),
            proptest::collection::vec(("[ab]{0,2}", inner), 0..3).prop_map(|members| {
                Jsonb::object(members.into_iter().map(|(key, value)| (key.into(), value)).collect()).unwrap()
            }),
        ]
    })
}

fn numeric() -> impl Strategy<Value = Numeric> {
    prop_oneof![
        (-200i64..200, 0u16..5).prop_map(|(c, s)| Numeric::new(i128::from(c), s)),
        (any::<i64>(), 0u16..400).prop_map(|(c, s)| Numeric::new(i128::from(c), s)),
        "-?[1-9][0-9]{0,60}(\\.[0-9]{1,40})?(e-?[0-9]{1,3})?".prop_map(|text| Numeric::parse(&text).unwrap()),
        Just(Numeric::NAN),
        Just(Numeric::INFINITY),
        Just(Numeric::NEG_INFINITY),
    ]
}

/// A strategy for each kind, so that a test can draw two datums of the same one.
fn of_kind(kind: usize) -> BoxedStrategy<Datum> {
    let near_i64 = prop_oneof![-600i64..600, any::<i64>(), Just(i64::MIN), Just(i64::MAX)];
    match kind {
        0 => any::<bool>().prop_map(Datum::Bool).boxed(),
        1 => any::<u8>().prop_map(Datum::Char).boxed(),
        2 => any::<i16>().prop_map(Datum::Int2).boxed(),
        3 => prop_oneof![any::<i32>(), -600..600i32].prop_map(Datum::Int4).boxed(),
        4 => near_i64.prop_map(Datum::Int8).boxed(),
        5 => any::<u32>().prop_map(Datum::Oid).boxed(),
        6 => any::<u64>().prop_map(Datum::UInt8).boxed(),
        7 => prop_oneof![any::<f32>(), Just(0.0), Just(-0.0), Just(f32::NAN)].prop_map(Datum::Float4).boxed(),
        8 => prop_oneof![any::<f64>(), Just(0.0), Just(-0.0), Just(f64::NAN), Just(f64::INFINITY)]
            .prop_map(Datum::Float8)
            .boxed(),
        9 => numeric().prop_map(|value| Datum::Numeric(Arc::new(value))).boxed(),
        10 => small_text().prop_map(Datum::text).boxed(),
        11 => proptest::collection::vec(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 0..5)
            .prop_map(|bytes| Datum::Bytea(bytes.into()))
            .boxed(),
        12 => any::<i32>().prop_map(Datum::Date).boxed(),
        13 => (0i64..=86_400_000_000).prop_map(Datum::Time).boxed(),
        14 => (0i64..=86_400_000_000, -57_600i32..57_600)
            .prop_map(|(time_us, zone_seconds_west)| Datum::TimeTz(TimeTz { time_us, zone_seconds_west }))
            .boxed(),
        15 => any::<i64>().prop_map(Datum::Timestamp).boxed(),
        16 => any::<i64>().prop_map(Datum::TimestampTz).boxed(),
        17 => (prop_oneof![-3i32..3, any::<i32>()], prop_oneof![-90i32..90, any::<i32>()], any::<i64>())
            .prop_map(|(months, days, time_us)| Datum::Interval(Interval { months, days, time_us }))
            .boxed(),
        18 => any::<[u8; 16]>().prop_map(Datum::Uuid).boxed(),
        19 => json().prop_map(|value| Datum::Jsonb(Arc::new(value))).boxed(),
        20 => (any::<u32>(), -5i32..5)
            .prop_map(|(oid, order)| Datum::Enum(EnumValue { oid, sort_order: order as f32 / 2.0 }))
            .boxed(),
        21 => any::<u64>().prop_map(Datum::Tid).boxed(),
        22 => {
            proptest::collection::vec(prop_oneof![Just(Datum::Null), (0..3i32).prop_map(Datum::Int4)], 0..4)
                .prop_map(|elements| Datum::Array(Arc::new(Array::from_elements(types::INT4, elements))))
                .boxed()
        }
        23 => proptest::collection::vec(small_text().prop_map(Datum::text), 0..4)
            .prop_map(|elements| Datum::Array(Arc::new(Array::from_elements(types::TEXT, elements))))
            .boxed(),
        _ => (small_text(), prop_oneof![Just(Datum::Null), any::<bool>().prop_map(Datum::Bool)])
            .prop_map(|(text, second)| {
                let field = |name: &str, type_oid| RecordField { name: name.into(), type_oid, typmod: -1 };
                Datum::Record(Arc::new(Record {
                    type_oid: types::RECORD,
                    fields: vec![field("f1", types::TEXT), field("f2", types::BOOL)].into(),
                    values: vec![Datum::text(text), second],
                }))
            })
            .boxed(),
    }
}

pub fn datum() -> BoxedStrategy<Datum> {
    (0usize..25).prop_flat_map(of_kind).boxed()
}

/// Two datums of one kind, equal more often than chance has it.
pub fn datum_pair() -> BoxedStrategy<(Datum, Datum)> {
    (0usize..25)
        .prop_flat_map(|kind| (of_kind(kind), of_kind(kind), 0..8u8))
        .prop_map(|(a, b, same)| if same == 0 { (a.clone(), a) } else { (a, b) })
        .boxed()
}

/// A pair of a text or bytea and another datum.
pub fn same_kind_datums() -> BoxedStrategy<(Datum, Datum)> {
    (10usize..12, prop_oneof![Just(4usize), Just(9), Just(10)])
        .prop_flat_map(|(first, second)| (of_kind(first), of_kind(second)))
        .boxed()
}
