use proptest::prelude::*;

use super::Numeric;

fn n(text: &str) -> Numeric {
    Numeric::parse(text).unwrap()
}

fn show(result: crate::Result<Numeric>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(error) => error.message().to_owned(),
    }
}

/// Expected values are PostgreSQL 15's.
#[test]
fn results_as_postgresql_prints_them() {
    let binary = |op: &str, a: &str, b: &str| {
        let (a, b) = (n(a), n(b));
        show(match op {
            "+" => a.add(&b),
            "-" => a.sub(&b),
            "*" => a.mul(&b),
            "/" => a.div(&b),
            "%" => a.rem(&b),
            "^" => a.power(&b),
            "div" => a.div_truncated(&b),
            "gcd" => a.gcd(&b),
            "lcm" => a.lcm(&b),
            "log" => b.log(&a),
            other => panic!("{other}"),
        })
    };
    for (op, a, b, expected) in [
        ("%", "7.5", "2.25", "0.75"),
        ("%", "-7.5", "2", "-1.5"),
        ("/", "1", "3.0", "0.33333333333333333333"),
        ("/", "2", "3.0", "0.66666666666666666667"),
        ("/", "1e10", "3.0", "3333333333.33333333"),
        ("/", "1e-10", "3.0", "0.0000000000333333333333333333"),
        ("/", "1.0", "0", "division by zero"),
        ("^", "2.0", "3", "8.0000000000000000"),
        ("^", "10.0", "2", "100.0000000000000000"),
        ("^", "123456.789", "3", "1881676371789154.8608970690000000"),
        ("^", "1.0001", "10000", "2.7181459268252249"),
        ("^", "12.3", "-5", "0.0000035520121512"),
        ("^", "0.1", "-3", "1000.0000000000000000"),
        ("^", "1.5", "2.5", "2.7556759606310754"),
        ("^", "-8", "3.0", "-512.0000000000000000"),
        ("^", "1e10", "0.33", "1995.2623149688796"),
        ("^", "2", "-0.5", "0.7071067811865475"),
        ("^", "100", "-20.0", "0.0000000000000000"),
        ("^", "0.0", "0.5", "0.0000000000000000"),
        ("^", "1.1", "-1", "0.9090909090909091"),
        ("^", "2", "0.5", "1.4142135623730950"),
        ("^", "3.00", "0", "1.0000000000000000"),
        ("div", "7.5", "2", "3"),
        ("gcd", "12.5", "7.5", "2.5"),
        ("lcm", "12.5", "7.5", "37.5"),
        ("log", "2.0", "64.0", "6.0000000000000000"),
        ("-", "Infinity", "Infinity", "NaN"),
        ("*", "Infinity", "0", "NaN"),
        ("/", "0", "inf", "0"),
        ("%", "5", "inf", "5"),
        ("%", "inf", "5", "NaN"),
    ] {
        assert_eq!(binary(op, a, b), expected, "{a} {op} {b}");
    }
    for (function, a, expected) in [
        ("sqrt", "2.0", "1.414213562373095"),
        ("sqrt", "1e-10", "0.000010000000000000000"),
        ("sqrt", "1e20", "10000000000.00000"),
        ("sqrt", "0.0", "0.000000000000000"),
        ("sqrt", "12345678901234567890.0", "3513641828.8201443"),
        ("exp", "1.0", "2.7182818284590452"),
        ("exp", "-10.0", "0.00004539992976248485"),
        ("exp", "50.5", "8548134287298057692257.9"),
        ("ln", "2.0", "0.6931471805599453"),
        ("ln", "0.000001", "-13.815510557964274"),
        ("ln", "1.00001", "0.000009999950000333331"),
        ("ln", "1e100", "230.25850929940457"),
        ("log", "100.0", "2.0000000000000000"),
        ("ceil", "-1.5", "-1"),
        ("floor", "-1.5", "-2"),
        ("ceil", "1.2", "2"),
        ("trim", "1.2300", "1.23"),
        ("ln", "0", "cannot take logarithm of zero"),
    ] {
        let a_value = n(a);
        let result = match function {
            "sqrt" => a_value.sqrt(),
            "exp" => a_value.exp(),
            "ln" => a_value.ln(),
            "log" => a_value.log10(),
            "ceil" => a_value.ceil(),
            "floor" => a_value.floor(),
            "trim" => Ok(a_value.trim_scale()),
            other => panic!("{other}"),
        };
        assert_eq!(show(result), expected, "{function}({a})");
    }
    assert_eq!(show(Numeric::factorial(25)), "15511210043330985984000000");
    assert_eq!(n("5.35").width_bucket(&n("0.024"), &n("10.06"), 5).unwrap(), 3);
    assert_eq!(Numeric::from_f64(0.1 + 0.2).to_string(), "0.3");
    assert_eq!(Numeric::from_f64(1e300).to_f64().unwrap(), 1e300);
    assert_eq!(show(Numeric::parse("1e131072")), "value overflows numeric format");
    assert_eq!(show(Numeric::parse("1e-16384")), "value overflows numeric format");
    assert_eq!(show(Numeric::parse(".")), "invalid input syntax for type numeric: \".\"");
    assert_eq!(show(n("12345.678").round(-2)), "12300");
    assert_eq!(show(n("0.005").round(2)), "0.01");
    assert_eq!(show(n("99.995").apply_typmod(((4 << 16) | 2) + 4)), "numeric field overflow");
    assert_eq!(show(n("99.994").apply_typmod(((4 << 16) | 2) + 4)), "99.99");
}

fn decimal() -> impl Strategy<Value = Numeric> {
    prop_oneof![
        (any::<i64>(), 0u16..30).prop_map(|(c, s)| Numeric::new(i128::from(c), s)),
        (any::<i128>(), 0u16..60).prop_map(|(c, s)| Numeric::new(c, s)),
        "-?[1-9][0-9]{0,80}(\\.[0-9]{1,40})?".prop_map(|text| n(&text)),
    ]
}

proptest! {
    #[test]
    fn text_and_binary_round_trip(value in decimal()) {
        let text = value.to_string();
        let back = n(&text);
        prop_assert_eq!(back.to_string(), text.clone());
        let mut wire = Vec::new();
        value.send(&mut wire);
        prop_assert_eq!(Numeric::recv(&wire).unwrap().to_string(), text);
    }

    #[test]
    fn arithmetic_laws(a in decimal(), b in decimal()) {
        prop_assert_eq!(a.add(&b).unwrap().sub(&b).unwrap(), a.clone());
        prop_assert_eq!(a.mul(&b).unwrap(), b.mul(&a).unwrap());
        if !b.is_zero() {
            let rest = a.rem(&b).unwrap();
            let whole = a.div_truncated(&b).unwrap();
            prop_assert_eq!(whole.mul(&b).unwrap().add(&rest).unwrap(), a.clone());
        }
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
    }

    #[test]
    fn recv_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
        let _ = Numeric::recv(&bytes);
    }
}

#[test]
fn zeros_of_any_scale_are_equal() {
    let zeros: Vec<Numeric> = [0, 1, 38, 39, 60, super::SCALE_MAX].map(|scale| Numeric::new(0, scale)).into();
    for zero in &zeros {
        for other in &zeros {
            assert_eq!(zero, other, "{zero} {other}");
        }
        for (text, greater) in [("1e-16383", true), ("-1e-16383", false), ("1e131071", true)] {
            assert_eq!(n(text) > *zero, greater, "{text} {zero}");
            assert_eq!(n(text) < *zero, !greater, "{text} {zero}");
        }
    }
}
