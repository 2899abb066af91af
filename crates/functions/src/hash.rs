//! PostgreSQL's hash support functions, with PostgreSQL's values: applications use `hashtext` to choose advisory
//! locks and partitions, so the numbers must not differ.
//!
//! The function under them is Bob Jenkins' lookup3 (public domain), read as little-endian words.

use cairn_types::{Array, Datum, Interval, Jsonb, Numeric, Record, Result, err, types};

use crate::{Args, ScalarFn};

struct Mixer {
    a: u32,
    b: u32,
    c: u32,
}

impl Mixer {
    fn mix(&mut self) {
        let Mixer { a, b, c } = self;
        macro_rules! step {
            ($x:ident, $y:ident, $z:ident, $bits:literal) => {
                *$x = $x.wrapping_sub(*$z) ^ $z.rotate_left($bits);
                *$z = $z.wrapping_add(*$y);
            };
        }
        step!(a, b, c, 4);
        step!(b, c, a, 6);
        step!(c, a, b, 8);
        step!(a, b, c, 16);
        step!(b, c, a, 19);
        step!(c, a, b, 4);
    }

    fn finish(&mut self) {
        let Mixer { a, b, c } = self;
        macro_rules! step {
            ($x:ident, $y:ident, $bits:literal) => {
                *$x = (*$x ^ *$y).wrapping_sub($y.rotate_left($bits));
            };
        }
        step!(c, b, 14);
        step!(a, c, 11);
        step!(b, a, 25);
        step!(c, b, 16);
        step!(a, c, 4);
        step!(b, a, 14);
        step!(c, b, 24);
    }
}

/// The hash of a byte string; `seed` 0 gives the plain (not "extended") hash in the low half.
fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    let start = 0x9e37_79b9u32.wrapping_add(bytes.len() as u32).wrapping_add(3_923_095);
    let mut mixer = Mixer { a: start, b: start, c: start };
    if seed != 0 {
        mixer.a = mixer.a.wrapping_add((seed >> 32) as u32);
        mixer.b = mixer.b.wrapping_add(seed as u32);
        mixer.mix();
    }
    let word = |chunk: &[u8], at: usize| {
        (0..4).fold(0u32, |word, byte| {
            word | u32::from(chunk.get(at + byte).copied().unwrap_or(0)) << (8 * byte)
        })
    };
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        mixer.a = mixer.a.wrapping_add(word(chunk, 0));
        mixer.b = mixer.b.wrapping_add(word(chunk, 4));
        mixer.c = mixer.c.wrapping_add(word(chunk, 8));
        mixer.mix();
    }
    let tail = chunks.remainder();
    mixer.a = mixer.a.wrapping_add(word(tail, 0));
    mixer.b = mixer.b.wrapping_add(word(tail, 4));
    // The lowest byte of the last word is reserved for the length.
    mixer.c = mixer.c.wrapping_add(word(tail, 8) << 8);
    mixer.finish();
    u64::from(mixer.b) << 32 | u64::from(mixer.c)
}

fn hash_word(value: u32, seed: u64) -> u64 {
    let start = 0x9e37_79b9u32.wrapping_add(4).wrapping_add(3_923_095);
    let mut mixer = Mixer { a: start, b: start, c: start };
    if seed != 0 {
        mixer.a = mixer.a.wrapping_add((seed >> 32) as u32);
        mixer.b = mixer.b.wrapping_add(seed as u32);
        mixer.mix();
    }
    mixer.a = mixer.a.wrapping_add(value);
    mixer.finish();
    u64::from(mixer.b) << 32 | u64::from(mixer.c)
}

/// Folded so that equal integers of all widths hash alike.
fn hash_int8(value: i64, seed: u64) -> u64 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    hash_word(if value >= 0 { low ^ high } else { low ^ !high }, seed)
}

fn hash_float(value: f64, seed: u64) -> u64 {
    // All zeros hash to the seed, all NaNs alike.
    if value == 0.0 {
        return seed;
    }
    let value = if value.is_nan() { f64::NAN } else { value };
    hash_bytes(&value.to_le_bytes(), seed)
}

/// A datum's hash under its type's default hash operator class. Errors: 42883 where there is none.
fn hash_datum(value: &Datum, type_oid: u32, seed: u64) -> Result<u64> {
    Ok(match value {
        Datum::Null => 0,
        Datum::Bool(value) => hash_word(u32::from(*value), seed),
        Datum::Char(value) => hash_word(*value as i8 as u32, seed),
        Datum::Int2(value) => hash_word(i32::from(*value) as u32, seed),
        Datum::Int4(value) | Datum::Date(value) => hash_word(*value as u32, seed),
        Datum::Oid(value) => hash_word(*value, seed),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::TimestampTz(value) => {
            hash_int8(*value, seed)
        }
        Datum::UInt8(value) => hash_int8(*value as i64, seed),
        Datum::Float4(value) => hash_float(f64::from(*value), seed),
        Datum::Float8(value) => hash_float(*value, seed),
        Datum::Text(text) if type_oid == types::BPCHAR => {
            hash_bytes(text.trim_end_matches(' ').as_bytes(), seed)
        }
        Datum::Text(text) => hash_bytes(text.as_bytes(), seed),
        Datum::Bytea(bytes) => hash_bytes(bytes, seed),
        Datum::Uuid(bytes) => hash_bytes(bytes, seed),
        Datum::Enum(value) => hash_word(value.oid, seed),
        Datum::Interval(value) => hash_int8(interval_span(value) as i64, seed),
        Datum::Numeric(value) => hash_numeric(value, seed),
        Datum::Jsonb(value) => hash_jsonb(value, seed),
        Datum::TimeTz(value) => {
            hash_int8(value.time_us, seed) ^ hash_word(value.zone_seconds_west as u32, seed)
        }
        Datum::Array(array) => hash_array(array, seed)?,
        Datum::Record(record) => hash_record(record, seed)?,
        Datum::Tid(_) => {
            return Err(err!(UNDEFINED_FUNCTION, "could not identify a hash function for type tid"));
        }
    })
}

fn interval_span(value: &Interval) -> i128 {
    let days = i128::from(value.months) * 30 + i128::from(value.days);
    days * 86_400_000_000 + i128::from(value.time_us)
}

/// PostgreSQL hashes the groups of four decimal digits, which are the binary format's too.
fn hash_numeric(value: &Numeric, seed: u64) -> u64 {
    if !value.is_finite() {
        return seed;
    }
    let mut wire = Vec::new();
    value.trim_scale().send(&mut wire);
    if wire.len() <= 8 {
        // Zero.
        return if seed == 0 { u64::from(u32::MAX) } else { seed.wrapping_sub(1) };
    }
    let weight = i16::from_be_bytes([wire[2], wire[3]]);
    let digits: Vec<u8> = wire[8..].chunks_exact(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    let hash = hash_bytes(&digits, seed);
    if seed == 0 { (hash as u32 ^ weight as i32 as u32).into() } else { hash ^ weight as i64 as u64 }
}

fn hash_jsonb(value: &Jsonb, seed: u64) -> u64 {
    hash_bytes(value.to_string().as_bytes(), seed)
}

fn hash_array(array: &Array, seed: u64) -> Result<u64> {
    let mut result: u64 = 1;
    for element in &array.elements {
        let hash = hash_datum(element, array.element_type, seed)?;
        result = if seed == 0 {
            u64::from((result as u32).wrapping_mul(31).wrapping_add(hash as u32))
        } else {
            result.wrapping_mul(31).wrapping_add(hash)
        };
    }
    Ok(result)
}

fn hash_record(record: &Record, seed: u64) -> Result<u64> {
    let mut result: u64 = 0;
    for (value, field) in record.values.iter().zip(record.fields.iter()) {
        let hash = hash_datum(value, field.type_oid, seed)?;
        result = if seed == 0 {
            u64::from((result as u32).wrapping_mul(31).wrapping_add(hash as u32))
        } else {
            result.wrapping_mul(31).wrapping_add(hash)
        };
    }
    Ok(result)
}

fn plain(args: &[Datum], type_oid: u32) -> Result<Datum> {
    Ok(Datum::Int4(hash_datum(args.any(0), type_oid, 0)? as u32 as i32))
}

fn extended(args: &[Datum], type_oid: u32) -> Result<Datum> {
    let seed = args.int8(1)? as u64;
    Ok(Datum::Int8(hash_datum(args.any(0), type_oid, seed)? as i64))
}

macro_rules! hashes {
    ($($name:literal, $extended:literal, $type_oid:expr;)*) => {
        &[$(
            ($name, |_, a| plain(a, $type_oid)),
            ($extended, |_, a| extended(a, $type_oid)),
        )*]
    };
}

pub const BODIES: &[(&str, ScalarFn)] = hashes! {
    "hashtext", "hashtextextended", types::TEXT;
    "hashbpchar", "hashbpcharextended", types::BPCHAR;
    "hashname", "hashnameextended", types::NAME;
    "hashchar", "hashcharextended", types::CHAR;
    "hashint2", "hashint2extended", types::INT2;
    "hashint4", "hashint4extended", types::INT4;
    "hashint8", "hashint8extended", types::INT8;
    "hashoid", "hashoidextended", types::OID;
    "hashfloat4", "hashfloat4extended", types::FLOAT4;
    "hashfloat8", "hashfloat8extended", types::FLOAT8;
    "hash_numeric", "hash_numeric_extended", types::NUMERIC;
    "hashenum", "hashenumextended", types::ANYENUM;
    "hashvarlena", "hashvarlenaextended", types::BYTEA;
    "uuid_hash", "uuid_hash_extended", types::UUID;
    "timestamp_hash", "timestamp_hash_extended", types::TIMESTAMP;
    "time_hash", "time_hash_extended", types::TIME;
    "timetz_hash", "timetz_hash_extended", types::TIMETZ;
    "interval_hash", "interval_hash_extended", types::INTERVAL;
    "hash_array", "hash_array_extended", types::ANYARRAY;
    "hash_record", "hash_record_extended", types::RECORD;
};
