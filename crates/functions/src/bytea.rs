//! Functions on bytea: parts, bits, text encodings, digests.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use cairn_types::{Datum, Error, Result, bail, err, io};
use sha2::Digest;

use crate::string::int4;
use crate::{Args, Call, ScalarFn};

fn bytea(bytes: impl Into<std::sync::Arc<[u8]>>) -> Datum {
    Datum::Bytea(bytes.into())
}

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("byteaoctetlen", |_, a| int4(a.bytea(0)?.len())),
    ("byteacat", |_, a| Ok(bytea([&**a.bytea(0)?, &**a.bytea(1)?].concat()))),
    ("bytea_substr", |_, a| Ok(bytea(part(a.bytea(0)?, a.int4(1)?, Some(a.int4(2)?))?))),
    ("bytea_substr_no_len", |_, a| Ok(bytea(part(a.bytea(0)?, a.int4(1)?, None)?))),
    ("byteapos", |_, a| {
        let (bytes, wanted) = (a.bytea(0)?, a.bytea(1)?);
        if wanted.is_empty() {
            return Ok(Datum::Int4(1));
        }
        int4(bytes.windows(wanted.len()).position(|window| *window == **wanted).map_or(0, |at| at + 1))
    }),
    ("byteaoverlay", |_, a| overlay(a, a.int4(3)?)),
    ("byteaoverlay_no_len", |_, a| overlay(a, i32::try_from(a.bytea(1)?.len()).unwrap_or(i32::MAX))),
    ("byteatrim", |_, a| trim(a, true, true)),
    ("bytealtrim", |_, a| trim(a, true, false)),
    ("byteartrim", |_, a| trim(a, false, true)),
    ("bytea_bit_count", |_, a| {
        Ok(Datum::Int8(a.bytea(0)?.iter().map(|byte| i64::from(byte.count_ones())).sum()))
    }),
    ("byteaGetByte", |_, a| {
        let bytes = a.bytea(0)?;
        Ok(Datum::Int4(i32::from(bytes[byte_index(a.int4(1)?.into(), bytes.len())?])))
    }),
    ("byteaSetByte", |_, a| {
        let mut bytes = a.bytea(0)?.to_vec();
        let at = byte_index(a.int4(1)?.into(), bytes.len())?;
        bytes[at] = a.int4(2)? as u8;
        Ok(bytea(bytes))
    }),
    ("byteaGetBit", |_, a| {
        let bytes = a.bytea(0)?;
        let (at, bit) = bit_index(a.int8(1)?, bytes.len())?;
        Ok(Datum::Int4(i32::from(bytes[at] >> bit & 1)))
    }),
    ("byteaSetBit", |_, a| {
        let mut bytes = a.bytea(0)?.to_vec();
        let (at, bit) = bit_index(a.int8(1)?, bytes.len())?;
        match a.int4(2)? {
            0 => bytes[at] &= !(1 << bit),
            1 => bytes[at] |= 1 << bit,
            _ => bail!(INVALID_PARAMETER_VALUE, "new bit must be 0 or 1"),
        }
        Ok(bytea(bytes))
    }),
    ("binary_encode", encode),
    ("binary_decode", decode),
    ("pg_convert_to", |_, a| Ok(bytea(to_encoding(a.str(0)?, a.str(1)?)?))),
    ("pg_convert_from", |_, a| Ok(Datum::text(from_encoding(a.bytea(0)?, a.str(1)?)?))),
    ("pg_convert", |_, a| {
        let text = from_encoding(a.bytea(0)?, a.str(1)?)?;
        Ok(bytea(to_encoding(&text, a.str(2)?)?))
    }),
    ("length_in_encoding", |_, a| int4(from_encoding(a.bytea(0)?, a.str(1)?)?.chars().count())),
    ("md5_text", |_, a| Ok(hex(&md5::Md5::digest(a.str(0)?.as_bytes())))),
    ("md5_bytea", |_, a| Ok(hex(&md5::Md5::digest(a.bytea(0)?)))),
    ("sha224_bytea", |_, a| Ok(bytea(sha2::Sha224::digest(a.bytea(0)?).to_vec()))),
    ("sha256_bytea", |_, a| Ok(bytea(sha2::Sha256::digest(a.bytea(0)?).to_vec()))),
    ("sha384_bytea", |_, a| Ok(bytea(sha2::Sha384::digest(a.bytea(0)?).to_vec()))),
    ("sha512_bytea", |_, a| Ok(bytea(sha2::Sha512::digest(a.bytea(0)?).to_vec()))),
];

fn hex(bytes: &[u8]) -> Datum {
    let mut text = String::new();
    io::encode_hex_into(bytes, &mut text);
    Datum::text(text)
}

/// `substring(bytes from start for length)`, as for text.
fn part(bytes: &[u8], start: i32, length: Option<i32>) -> Result<&[u8]> {
    let from = i64::from(start);
    let end = match length {
        Some(length) if length < 0 => bail!(SUBSTRING_ERROR, "negative substring length not allowed"),
        Some(length) => from + i64::from(length),
        None => i64::MAX,
    };
    let within = |position: i64| usize::try_from(position - 1).unwrap_or(0).min(bytes.len());
    let (first, last) = (within(from.max(1)), within(end.max(1)));
    Ok(&bytes[first..last.max(first)])
}

fn overlay(args: &[Datum], length: i32) -> Result<Datum> {
    let (bytes, replacement, start) = (args.bytea(0)?, args.bytea(1)?, args.int4(2)?);
    if start <= 0 {
        bail!(SUBSTRING_ERROR, "negative substring length not allowed");
    }
    let Some(rest) = start.checked_add(length) else {
        bail!(NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
    };
    let head = part(bytes, 1, Some(start - 1))?;
    Ok(bytea([head, replacement, part(bytes, rest, None)?].concat()))
}

fn trim(args: &[Datum], left: bool, right: bool) -> Result<Datum> {
    let (mut bytes, set) = (&**args.bytea(0)?, args.bytea(1)?);
    while left
        && let [first, rest @ ..] = bytes
        && set.contains(first)
    {
        bytes = rest;
    }
    while right
        && let [rest @ .., last] = bytes
        && set.contains(last)
    {
        bytes = rest;
    }
    Ok(bytea(bytes))
}

fn index_error(index: i64, limit: i64) -> Error {
    err!(ARRAY_SUBSCRIPT_ERROR, "index {index} out of valid range, 0..{limit}")
}

fn byte_index(index: i64, length: usize) -> Result<usize> {
    usize::try_from(index)
        .ok()
        .filter(|index| *index < length)
        .ok_or_else(|| index_error(index, length as i64 - 1))
}

fn bit_index(index: i64, length: usize) -> Result<(usize, u32)> {
    let limit = length as i64 * 8 - 1;
    if index < 0 || index > limit {
        return Err(index_error(index, limit));
    }
    Ok(((index / 8) as usize, (index % 8) as u32))
}

fn encode(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let bytes = args.bytea(0)?;
    let format = args.str(1)?;
    match format.to_ascii_lowercase().as_str() {
        "hex" => Ok(hex(bytes)),
        "base64" => {
            let plain = base64::engine::general_purpose::STANDARD.encode(bytes);
            // Lines of 76 characters, as in MIME.
            let mut text = String::with_capacity(plain.len() + plain.len() / 76);
            for (index, character) in plain.chars().enumerate() {
                if index > 0 && index % 76 == 0 {
                    text.push('\n');
                }
                text.push(character);
            }
            Ok(Datum::text(text))
        }
        "escape" => {
            let mut text = String::with_capacity(bytes.len());
            for byte in bytes.iter() {
                match byte {
                    b'\\' => text.push_str("\\\\"),
                    0 | 0x80.. => {
                        text.push('\\');
                        text.extend([6, 3, 0].map(|shift| char::from(b'0' + (byte >> shift & 7))));
                    }
                    _ => text.push(char::from(*byte)),
                }
            }
            Ok(Datum::text(text))
        }
        _ => Err(err!(INVALID_PARAMETER_VALUE, "unrecognized encoding: \"{format}\"")),
    }
}

fn decode(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let text = args.str(0)?;
    let format = args.str(1)?;
    match format.to_ascii_lowercase().as_str() {
        "hex" => Ok(bytea(io::decode_hex(text)?)),
        "base64" => Ok(bytea(decode_base64(text)?)),
        // A text that begins with \x would be taken for hex otherwise.
        "escape" if text.starts_with("\\x") => {
            Err(err!(INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea"))
        }
        "escape" => Ok(bytea(io::parse_bytea(text)?)),
        _ => Err(err!(INVALID_PARAMETER_VALUE, "unrecognized encoding: \"{format}\"")),
    }
}

fn decode_base64(text: &str) -> Result<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
    );
    let compact: String = text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')).collect();
    if let Some(bad) = compact.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')))
    {
        bail!(INVALID_PARAMETER_VALUE, "invalid symbol \"{bad}\" found while decoding base64 sequence");
    }
    LENIENT.decode(&compact).map_err(|error| match error {
        base64::DecodeError::InvalidByte(..) => {
            err!(INVALID_PARAMETER_VALUE, "unexpected \"=\" while decoding base64 sequence")
        }
        _ => err!(INVALID_PARAMETER_VALUE, "invalid base64 end sequence")
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted."),
    })
}

/// The encodings that a conversion may name.
enum Encoding {
    Utf8,
    Latin1,
    Ascii,
}

fn encoding(name: &str, role: &str) -> Result<Encoding> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match plain.as_str() {
        "utf8" | "unicode" => Ok(Encoding::Utf8),
        "latin1" | "iso88591" => Ok(Encoding::Latin1),
        "sqlascii" => Ok(Encoding::Ascii),
        _ => Err(err!(INVALID_PARAMETER_VALUE, "invalid {role} encoding name \"{name}\"")),
    }
}

fn to_encoding(text: &str, name: &str) -> Result<Vec<u8>> {
    match encoding(name, "destination")? {
        Encoding::Utf8 | Encoding::Ascii => Ok(text.as_bytes().to_vec()),
        Encoding::Latin1 => text
            .chars()
            .map(|c| {
                u8::try_from(c as u32).map_err(|_| {
                    let mut buffer = [0; 4];
                    let bytes: Vec<String> =
                        c.encode_utf8(&mut buffer).bytes().map(|byte| format!("0x{byte:02x}")).collect();
                    err!(
                        UNTRANSLATABLE_CHARACTER,
                        "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\"",
                        bytes.join(" ")
                    )
                })
            })
            .collect(),
    }
}

fn from_encoding(bytes: &[u8], name: &str) -> Result<String> {
    match encoding(name, "source")? {
        Encoding::Latin1 if bytes.contains(&0) => {
            bail!(CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"LATIN1\": 0x00")
        }
        Encoding::Latin1 => Ok(bytes.iter().copied().map(char::from).collect()),
        Encoding::Utf8 | Encoding::Ascii => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
            Ok(_) => bail!(CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\": 0x00"),
            Err(error) => {
                let bad = &bytes[error.valid_up_to()..];
                // As many bytes as the first one announces.
                let announced = (bad[0].leading_ones() as usize).clamp(1, 4).min(bad.len());
                let shown: Vec<String> =
                    bad[..announced].iter().map(|byte| format!("0x{byte:02x}")).collect();
                bail!(
                    CHARACTER_NOT_IN_REPERTOIRE,
                    "invalid byte sequence for encoding \"UTF8\": {}",
                    shown.join(" ")
                )
            }
        },
    }
}
