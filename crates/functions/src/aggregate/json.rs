//! json_agg, json_object_agg and their jsonb twins. Nulls are collected like any other value.

use cairn_types::{Datum, Jsonb, Result, Text, bail, json};

use super::collect::heap_bytes;
use super::{Accumulator, Aggregate, fresh};
use crate::json::convert::{key_text, push_json, to_jsonb};
use crate::{Args, Call};

pub fn aggregate(transition: &str) -> Option<Box<dyn Aggregate>> {
    Some(match transition {
        "json_agg_transfn" => fresh::<TextArray>(),
        "json_object_agg_transfn" => fresh::<TextObject>(),
        "jsonb_agg_transfn" => fresh::<TreeArray>(),
        "jsonb_object_agg_transfn" => fresh::<TreeObject>(),
        _ => return None,
    })
}

fn argument_type(call: &Call<'_>, i: usize) -> u32 {
    call.info.arg_types.get(i).copied().unwrap_or(cairn_types::types::UNKNOWN)
}

#[derive(Debug, Default)]
struct TextArray {
    text: Option<String>,
}

impl Accumulator for TextArray {
    fn accumulate(&mut self, call: &Call<'_>, args: &[Datum]) -> Result<()> {
        let value = args.any(0);
        let text = match &mut self.text {
            None => self.text.insert("[".to_owned()),
            Some(text) => {
                text.push_str(", ");
                if matches!(value, Datum::Array(_) | Datum::Record(_)) {
                    text.push_str("\n ");
                }
                text
            }
        };
        push_json(call, value, argument_type(call, 0), text)
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        Ok(self.text.as_ref().map_or(Datum::Null, |text| Datum::text(format!("{text}]"))))
    }

    fn heap_bytes(&self) -> usize {
        self.text.as_ref().map_or(0, String::capacity)
    }
}

#[derive(Debug, Default)]
struct TextObject {
    text: Option<String>,
}

fn refuse_null_key(args: &[Datum]) -> Result<()> {
    if args.is_null(0) {
        bail!(INVALID_PARAMETER_VALUE, "field name must not be null");
    }
    Ok(())
}

impl Accumulator for TextObject {
    fn accumulate(&mut self, call: &Call<'_>, args: &[Datum]) -> Result<()> {
        refuse_null_key(args)?;
        let text = match &mut self.text {
            None => self.text.insert("{ ".to_owned()),
            Some(text) => {
                text.push_str(", ");
                text
            }
        };
        json::escape_into(&key_text(call, args.any(0), argument_type(call, 0))?, text);
        text.push_str(" : ");
        push_json(call, args.any(1), argument_type(call, 1), text)
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        Ok(self.text.as_ref().map_or(Datum::Null, |text| Datum::text(format!("{text} }}"))))
    }

    fn heap_bytes(&self) -> usize {
        self.text.as_ref().map_or(0, String::capacity)
    }
}

#[derive(Debug, Default)]
struct TreeArray {
    items: Option<Vec<Jsonb>>,
    bytes: usize,
}

impl Accumulator for TreeArray {
    fn accumulate(&mut self, call: &Call<'_>, args: &[Datum]) -> Result<()> {
        self.bytes += 64 + heap_bytes(args.any(0));
        let item = to_jsonb(call, args.any(0), argument_type(call, 0))?;
        self.items.get_or_insert_default().push(item);
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        match &self.items {
            Some(items) => Ok(Datum::Jsonb(Jsonb::array(items.clone())?.into())),
            None => Ok(Datum::Null),
        }
    }

    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

#[derive(Debug, Default)]
struct TreeObject {
    members: Option<Vec<(Text, Jsonb)>>,
    bytes: usize,
}

impl Accumulator for TreeObject {
    fn accumulate(&mut self, call: &Call<'_>, args: &[Datum]) -> Result<()> {
        refuse_null_key(args)?;
        self.bytes += 128 + heap_bytes(args.any(0)) + heap_bytes(args.any(1));
        let key = Text::from(key_text(call, args.any(0), argument_type(call, 0))?);
        let value = to_jsonb(call, args.any(1), argument_type(call, 1))?;
        self.members.get_or_insert_default().push((key, value));
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        match &self.members {
            Some(members) => Ok(Datum::Jsonb(Jsonb::object(members.clone())?.into())),
            None => Ok(Datum::Null),
        }
    }

    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}
