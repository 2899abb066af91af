//! Numbers in words: ordinal endings, and `SP` as orafce's users expect it.

use super::template::Case;

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] =
    ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const SCALES: [(u64, &str); 6] = [
    (1_000_000_000_000_000_000, "quintillion"),
    (1_000_000_000_000_000, "quadrillion"),
    (1_000_000_000_000, "trillion"),
    (1_000_000_000, "billion"),
    (1_000_000, "million"),
    (1000, "thousand"),
];

/// `twenty-three`, `eighty-six thousand three hundred ninety-nine`
pub fn cardinal(value: u64) -> String {
    if value < 20 {
        return SMALL[value as usize].to_owned();
    }
    if value < 100 {
        let tens = TENS[(value / 10) as usize];
        return match value % 10 {
            0 => tens.to_owned(),
            ones => format!("{tens}-{}", SMALL[ones as usize]),
        };
    }
    let (scale, name) = SCALES.iter().copied().find(|(scale, _)| value >= *scale).unwrap_or((100, "hundred"));
    let head = format!("{} {name}", cardinal(value / scale));
    match value % scale {
        0 => head,
        rest => format!("{head} {}", cardinal(rest)),
    }
}

/// The digits spelled out, in the case of the pattern.
pub fn spelled(digits: &str, case: Case) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("minus ", digits),
        None => ("", digits),
    };
    let Ok(value) = digits.trim().parse::<u64>() else { return digits.to_owned() };
    let words = format!("{sign}{}", cardinal(value));
    match case {
        Case::Upper => words.to_uppercase(),
        Case::Lower => words,
        Case::Capital => {
            let mut chars = words.chars();
            chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
        }
    }
}

/// `ST`, `nd`, ...: the ending of an ordinal number that ends in these digits.
pub fn ordinal_ending(digits: &str, case: Case) -> &'static str {
    let bytes = digits.as_bytes();
    let teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    let (lower, upper) = match bytes.last() {
        Some(b'1') if !teen => ("st", "ST"),
        Some(b'2') if !teen => ("nd", "ND"),
        Some(b'3') if !teen => ("rd", "RD"),
        _ => ("th", "TH"),
    };
    if case == Case::Upper { upper } else { lower }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(cardinal(0), "zero");
        assert_eq!(cardinal(23), "twenty-three");
        assert_eq!(cardinal(86_399), "eighty-six thousand three hundred ninety-nine");
        assert_eq!(cardinal(2_459_000), "two million four hundred fifty-nine thousand");
        assert_eq!(spelled("07", Case::Upper), "SEVEN");
        assert_eq!(ordinal_ending("112", Case::Lower), "th");
        assert_eq!(ordinal_ending("122", Case::Upper), "ND");
    }
}
