//! Polymorphic types (manual, section 38.2.5): `anyelement` and its kin stand for one concrete type within a call,
//! `anycompatible` and its kin for the common type of several.

use cairn_types::{Oid, Result, err, types};

use super::{Analyzer, coerce::Coercion};

/// The family of types that are resolved together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Element,
    Array,
    Range,
    Multirange,
}

/// Family and whether it belongs to the `anycompatible` group.
fn classify(ty: Oid) -> Option<(Family, bool)> {
    Some(match ty {
        types::ANYELEMENT | types::ANYNONARRAY | types::ANYENUM => (Family::Element, false),
        types::ANYARRAY => (Family::Array, false),
        types::ANYRANGE => (Family::Range, false),
        types::ANYMULTIRANGE => (Family::Multirange, false),
        types::ANYCOMPATIBLE | types::ANYCOMPATIBLENONARRAY => (Family::Element, true),
        types::ANYCOMPATIBLEARRAY => (Family::Array, true),
        types::ANYCOMPATIBLERANGE => (Family::Range, true),
        types::ANYCOMPATIBLEMULTIRANGE => (Family::Multirange, true),
        _ => return None,
    })
}

pub(crate) fn is_polymorphic(ty: Oid) -> bool {
    classify(ty).is_some()
}

/// What the exact group of a call stands for.
#[derive(Default)]
struct Exact {
    element: Oid,
    array: Oid,
    range: Oid,
    multirange: Oid,
    non_array: bool,
    enumeration: bool,
}

impl Analyzer<'_> {
    /// Whether the actual types can stand for the declared polymorphic ones.
    pub(crate) fn check_polymorphic(&self, actual: &[Oid], declared: &[Oid]) -> bool {
        let mut declared = declared.to_vec();
        self.resolve_polymorphic(actual, &mut declared, None, false).is_ok()
    }

    /// Replaces the polymorphic types among `declared` by what the actual types make of them, and gives the result
    /// type. Errors: 42804, 42P18.
    pub(crate) fn enforce_polymorphic(
        &self,
        actual: &[Oid],
        declared: &mut [Oid],
        result: Oid,
    ) -> Result<Oid> {
        if !is_polymorphic(result) && !declared.iter().any(|&ty| is_polymorphic(ty)) {
            return Ok(result);
        }
        self.resolve_polymorphic(actual, declared, Some(result), true)
    }

    fn resolve_polymorphic(
        &self,
        actual: &[Oid],
        declared: &mut [Oid],
        result: Option<Oid>,
        enforce: bool,
    ) -> Result<Oid> {
        let mut exact = Exact::default();
        let mut exact_used = false;
        let mut exact_unknown = false;
        let mut common: Vec<Oid> = Vec::new();
        let mut common_used = false;
        let mut common_array = 0;
        let mut common_range = 0;
        let mut common_non_array = false;
        let not_alike = |what: &str, first: Oid, second: Oid| {
            err!(DATATYPE_MISMATCH, "arguments declared \"{what}\" are not all alike").detail(format!(
                "{} versus {}",
                self.type_text(first),
                self.type_text(second)
            ))
        };
        for (&declared, &given) in declared.iter().zip(actual) {
            let Some((family, compatible)) = classify(declared) else { continue };
            match declared {
                types::ANYNONARRAY => exact.non_array = true,
                types::ANYENUM => exact.enumeration = true,
                types::ANYCOMPATIBLENONARRAY => common_non_array = true,
                _ => {}
            }
            if compatible {
                common_used = true;
            } else {
                exact_used = true;
            }
            if given == types::UNKNOWN {
                exact_unknown |= !compatible;
                continue;
            }
            let base = if family == Family::Element { given } else { self.lookup.base_type(given) };
            match (family, compatible) {
                (Family::Element, false) => {
                    if exact.element != 0 && exact.element != given {
                        return Err(not_alike("anyelement", exact.element, given));
                    }
                    exact.element = given;
                }
                (Family::Array, false) => {
                    if exact.array != 0 && exact.array != base {
                        return Err(not_alike("anyarray", exact.array, base));
                    }
                    exact.array = base;
                }
                (Family::Range, false) => {
                    if exact.range != 0 && exact.range != base {
                        return Err(not_alike("anyrange", exact.range, base));
                    }
                    exact.range = base;
                }
                (Family::Multirange, false) => {
                    if exact.multirange != 0 && exact.multirange != base {
                        return Err(not_alike("anymultirange", exact.multirange, base));
                    }
                    exact.multirange = base;
                }
                (Family::Element, true) => common.push(given),
                (Family::Array, true) => {
                    let element = self.lookup.array_element(base);
                    if element == 0 {
                        return Err(err!(
                            DATATYPE_MISMATCH,
                            "argument declared {} is not an array but type {}",
                            "anycompatiblearray",
                            self.type_text(base)
                        ));
                    }
                    common_array = base;
                    common.push(element);
                }
                (Family::Range | Family::Multirange, true) => {
                    let subtype = self.lookup.range_subtype(base);
                    if subtype == 0 || (common_range != 0 && common_range != base) {
                        return Err(err!(
                            DATATYPE_MISMATCH,
                            "argument declared {} is not a range type but type {}",
                            "anycompatiblerange",
                            self.type_text(base)
                        ));
                    }
                    common_range = base;
                    common.push(subtype);
                }
            }
        }
        if exact_used {
            self.complete_exact(&mut exact, actual, exact_unknown, enforce)?;
        }
        let mut common_type = 0;
        if common_used {
            common_type = self.common_of_types(&common)?;
            if common_type == 0 {
                common_type = types::TEXT;
            }
            if common_non_array && self.lookup.array_element(self.lookup.base_type(common_type)) != 0 {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "type matched to anycompatiblenonarray is an array type: {}",
                    self.type_text(common_type)
                ));
            }
            if !common.iter().all(|&ty| self.can_coerce(&[ty], &[common_type], Coercion::Implicit)) {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "arguments of anycompatible family cannot be cast to a common type"
                ));
            }
        }
        let _ = common_array;
        let array_of = |element: Oid| -> Result<Oid> {
            match self.lookup.array_of(element) {
                0 => Err(err!(
                    UNDEFINED_OBJECT,
                    "could not find array type for data type {}",
                    self.type_text(element)
                )),
                array => Ok(array),
            }
        };
        let concrete = |ty: Oid| -> Result<Oid> {
            let found = match classify(ty) {
                None => return Ok(ty),
                Some((Family::Element, false)) => exact.element,
                Some((Family::Array, false)) => {
                    if exact.array != 0 {
                        exact.array
                    } else if exact.element != 0 {
                        array_of(exact.element)?
                    } else {
                        0
                    }
                }
                Some((Family::Range, false)) => exact.range,
                Some((Family::Multirange, false)) => exact.multirange,
                Some((Family::Element, true)) => common_type,
                Some((Family::Array, true)) if common_type != 0 => array_of(common_type)?,
                Some((Family::Array, true)) => 0,
                Some((Family::Range | Family::Multirange, true)) => common_range,
            };
            if found == 0 {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "could not determine polymorphic type {} because input has type {}",
                    self.type_text(ty),
                    "unknown"
                ));
            }
            Ok(found)
        };
        if enforce {
            for (declared, &given) in declared.iter_mut().zip(actual) {
                if !is_polymorphic(*declared) {
                    continue;
                }
                *declared = concrete(*declared)?;
                // A domain over the type is given as it is.
                if given == types::UNKNOWN {
                    continue;
                }
            }
        }
        match result {
            None => Ok(0),
            Some(result) => concrete(result),
        }
    }

    fn complete_exact(&self, exact: &mut Exact, actual: &[Oid], unknown: bool, enforce: bool) -> Result<()> {
        if exact.array != 0 && exact.array != types::ANYARRAY {
            let element = self.lookup.array_element(exact.array);
            if element == 0 {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "argument declared {} is not an array but type {}",
                    "anyarray",
                    self.type_text(exact.array)
                ));
            }
            if exact.element == 0 {
                exact.element = element;
            } else if exact.element != element {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "argument declared {} is not consistent with argument declared {}",
                    "anyarray",
                    "anyelement"
                )
                .detail(format!(
                    "{} versus {}",
                    self.type_text(exact.array),
                    self.type_text(exact.element)
                )));
            }
        } else if exact.array == types::ANYARRAY && exact.element == 0 {
            // Only pg_statistic has columns declared anyarray.
            exact.element = types::ANYELEMENT;
        }
        if exact.multirange != 0 {
            let range = self.lookup.multirange_range(exact.multirange);
            if range == 0 {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "argument declared {} is not a multirange type but type {}",
                    "anymultirange",
                    self.type_text(exact.multirange)
                ));
            }
            if exact.range == 0 {
                exact.range = range;
            } else if exact.range != range {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "argument declared {} is not consistent with argument declared {}",
                    "anymultirange",
                    "anyrange"
                )
                .detail(format!(
                    "{} versus {}",
                    self.type_text(exact.multirange),
                    self.type_text(exact.range)
                )));
            }
        }
        if exact.range != 0 {
            let subtype = self.lookup.range_subtype(exact.range);
            if subtype == 0 {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "argument declared {} is not a range type but type {}",
                    "anyrange",
                    self.type_text(exact.range)
                ));
            }
            if exact.element == 0 {
                exact.element = subtype;
            } else if exact.element != subtype {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "argument declared {} is not consistent with argument declared {}",
                    "anyrange",
                    "anyelement"
                )
                .detail(format!(
                    "{} versus {}",
                    self.type_text(exact.range),
                    self.type_text(exact.element)
                )));
            }
            if exact.multirange == 0 {
                exact.multirange = self.lookup.range_multirange(exact.range);
            }
        }
        if exact.element == 0 {
            if enforce && unknown && !actual.is_empty() {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "could not determine polymorphic type because input has type {}",
                    "unknown"
                ));
            }
            return Ok(());
        }
        if exact.non_array && self.lookup.array_element(self.lookup.base_type(exact.element)) != 0 {
            return Err(err!(
                DATATYPE_MISMATCH,
                "type matched to anynonarray is an array type: {}",
                self.type_text(exact.element)
            ));
        }
        if exact.enumeration
            && self.lookup.kind(self.lookup.base_type(exact.element)) != Some(cairn_catalog::TypeKind::Enum)
        {
            return Err(err!(
                DATATYPE_MISMATCH,
                "type matched to anyenum is not an enum type: {}",
                self.type_text(exact.element)
            ));
        }
        Ok(())
    }

    /// The common type of plain types by the rules of UNION; 0 for none.
    fn common_of_types(&self, inputs: &[Oid]) -> Result<Oid> {
        let Some((&first, rest)) = inputs.split_first() else { return Ok(0) };
        if rest.iter().all(|&ty| ty == first) {
            return Ok(first);
        }
        let mut chosen = self.lookup.base_type(first);
        let (category, mut preferred) = self.lookup.category_and_preference(chosen);
        for &input in rest {
            let next = self.lookup.base_type(input);
            if next == chosen {
                continue;
            }
            let (next_category, next_preferred) = self.lookup.category_and_preference(next);
            if next_category != category {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "argument types {} and {} cannot be matched",
                    self.type_text(chosen),
                    self.type_text(next)
                ));
            }
            if !preferred
                && self.can_coerce(&[chosen], &[next], Coercion::Implicit)
                && !self.can_coerce(&[next], &[chosen], Coercion::Implicit)
            {
                chosen = next;
                preferred = next_preferred;
            }
        }
        Ok(chosen)
    }
}
