//! The binary wire format of `numeric`: four 16-bit words (count of digits, weight of the first, sign,
//! display scale), then digits in base 10,000, all big-endian.

use num_bigint::BigInt;
use num_traits::Signed;

use super::{Finite, Numeric, SCALE_MAX};
use crate::{Result, err};

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const POSITIVE_INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

impl Numeric {
    /// Appends the binary form.
    pub fn send(&self, out: &mut Vec<u8>) {
        let Some(value) = self.finite() else {
            let sign = match self.special_rank() {
                1 => POSITIVE_INFINITY,
                -1 => NEGATIVE_INFINITY,
                _ => NAN,
            };
            // PostgreSQL's infinities carry this scale, which no reader looks at.
            let scale = if sign == NAN { 0 } else { 0x20 };
            for word in [0, 0, sign, scale] {
                out.extend_from_slice(&word.to_be_bytes());
            }
            return;
        };
        let scale = usize::from(value.scale());
        let negative = match &value {
            Finite::Small(coefficient, _) => *coefficient < 0,
            Finite::Big(coefficient, _) => coefficient.is_negative(),
        };
        let digits = value.digit_text();
        let digits = digits.trim_start_matches('0').as_bytes();
        let mut groups: Vec<u16> = Vec::with_capacity(digits.len() / 4 + 2);
        let mut weight: i64 = 0;
        if !digits.is_empty() {
            // Groups are aligned on the decimal point: the first one may have fewer digits, the last is padded.
            let integer_digits = digits.len() as i64 - scale as i64;
            weight = (integer_digits - 1).div_euclid(4);
            let mut first = ((integer_digits - 1).rem_euclid(4) + 1) as usize;
            let mut rest = digits;
            while !rest.is_empty() {
                let (group, tail) = rest.split_at(first.min(rest.len()));
                let mut word = group.iter().fold(0u16, |word, digit| word * 10 + u16::from(digit - b'0'));
                for _ in group.len()..first {
                    word *= 10;
                }
                groups.push(word);
                rest = tail;
                first = 4;
            }
            while groups.last() == Some(&0) {
                groups.pop();
            }
        }
        out.extend_from_slice(&(groups.len() as u16).to_be_bytes());
        out.extend_from_slice(&(weight as i16).to_be_bytes());
        out.extend_from_slice(&(if negative { NEGATIVE } else { POSITIVE }).to_be_bytes());
        out.extend_from_slice(&(scale as u16).to_be_bytes());
        for group in groups {
            out.extend_from_slice(&group.to_be_bytes());
        }
    }

    /// Reads the binary form; digits beyond the display scale are cut off, as PostgreSQL does.
    /// Errors: 22P03 for what is not a numeric.
    pub fn recv(bytes: &[u8]) -> Result<Numeric> {
        let mut words = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let mut word =
            || words.next().ok_or_else(|| err!(PROTOCOL_VIOLATION, "insufficient data left in message"));
        let count = usize::from(word()?);
        let weight = word()? as i16;
        let sign = word()?;
        let scale = word()?;
        match sign {
            NAN => return Ok(Numeric::NAN),
            POSITIVE_INFINITY => return Ok(Numeric::INFINITY),
            NEGATIVE_INFINITY => return Ok(Numeric::NEG_INFINITY),
            POSITIVE | NEGATIVE => {}
            _ => {
                return Err(err!(
                    INVALID_BINARY_REPRESENTATION,
                    "invalid sign in external \"numeric\" value"
                ));
            }
        }
        if scale > SCALE_MAX {
            return Err(err!(INVALID_BINARY_REPRESENTATION, "invalid scale in external \"numeric\" value"));
        }
        let mut digits = String::with_capacity(count * 4);
        for _ in 0..count {
            let group = word()?;
            if group >= 10_000 {
                return Err(err!(
                    INVALID_BINARY_REPRESENTATION,
                    "invalid digit in external \"numeric\" value"
                ));
            }
            digits.push_str(&format!("{group:04}"));
        }
        if count == 0 {
            return Ok(Numeric::new(0, scale));
        }
        // The coefficient's last digit stands at 10^last_exponent.
        let last_exponent = (i64::from(weight) - count as i64 + 1) * 4;
        let coefficient = BigInt::parse_bytes(digits.as_bytes(), 10).unwrap_or_default();
        let coefficient = if sign == NEGATIVE { -coefficient } else { coefficient };
        let shift = last_exponent + i64::from(scale);
        let coefficient = if shift >= 0 {
            coefficient * super::big_power_of_ten(shift as u32)
        } else {
            coefficient / super::big_power_of_ten((-shift) as u32)
        };
        Numeric::from_big(coefficient, scale)
    }
}
