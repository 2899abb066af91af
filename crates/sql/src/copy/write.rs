//! COPY TO: values to bytes for the client.

use cairn_types::{Datum, Env, Oid, Result, io};

use super::options::{CopyFormat, CopyOptions};

/// Encodes rows; one per COPY.
pub struct Writer<'a> {
    options: &'a CopyOptions,
    types: Vec<Oid>,
    force_quote: Vec<bool>,
    scratch: String,
    row: Vec<u8>,
    /// The header of binary data is still to be written.
    begins: bool,
}

impl<'a> Writer<'a> {
    pub fn new(options: &'a CopyOptions, columns: &[(&str, Oid)]) -> Self {
        Writer {
            options,
            types: columns.iter().map(|(_, ty)| *ty).collect(),
            force_quote: columns.iter().map(|(name, _)| options.force_quote.contains(name)).collect(),
            scratch: String::new(),
            row: Vec::new(),
            begins: options.format == CopyFormat::Binary,
        }
    }

    /// Empties the buffer for what is sent next. The header of binary data is sent together with what comes first after
    /// it, as PostgreSQL does: clients take each message for a row.
    fn start(&mut self) {
        self.row.clear();
        if std::mem::take(&mut self.begins) {
            self.row.extend_from_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
        }
    }

    /// What stands behind the last row: nothing in the formats of text.
    pub fn trailer(&mut self) -> Option<&[u8]> {
        if self.options.format != CopyFormat::Binary {
            return None;
        }
        self.start();
        self.row.extend_from_slice(b"\xff\xff");
        Some(&self.row)
    }

    /// The line of column names.
    pub fn header(&mut self, names: &[&str]) -> &[u8] {
        self.row.clear();
        for (index, name) in names.iter().enumerate() {
            if index > 0 {
                self.row.push(self.options.delimiter);
            }
            match self.options.format {
                CopyFormat::Csv => write_csv(name, self.options, false, names.len() == 1, &mut self.row),
                _ => write_text(name, self.options.delimiter, &mut self.row),
            }
        }
        self.row.push(b'\n');
        &self.row
    }

    /// One row, its line end included.
    pub fn row(&mut self, env: &dyn Env, values: &[Datum]) -> Result<&[u8]> {
        self.start();
        if self.options.format == CopyFormat::Binary {
            self.row.extend_from_slice(&(values.len() as i16).to_be_bytes());
        }
        for (index, (value, &ty)) in values.iter().zip(&self.types).enumerate() {
            match self.options.format {
                CopyFormat::Binary => {
                    if value.is_null() {
                        self.row.extend_from_slice(&(-1i32).to_be_bytes());
                        continue;
                    }
                    let at = self.row.len();
                    self.row.extend_from_slice(&[0; 4]);
                    io::send(value, ty, env, &mut self.row)?;
                    let length = (self.row.len() - at - 4) as u32;
                    self.row[at..at + 4].copy_from_slice(&length.to_be_bytes());
                }
                CopyFormat::Text | CopyFormat::Csv => {
                    if index > 0 {
                        self.row.push(self.options.delimiter);
                    }
                    if value.is_null() {
                        self.row.extend_from_slice(self.options.null.as_bytes());
                        continue;
                    }
                    self.scratch.clear();
                    io::output(value, ty, env, &mut self.scratch)?;
                    if self.options.format == CopyFormat::Csv {
                        let force = self.force_quote.get(index).copied().unwrap_or(false);
                        write_csv(&self.scratch, self.options, force, values.len() == 1, &mut self.row);
                    } else {
                        write_text(&self.scratch, self.options.delimiter, &mut self.row);
                    }
                }
            }
        }
        if self.options.format != CopyFormat::Binary {
            self.row.push(b'\n');
        }
        Ok(&self.row)
    }
}

fn write_text(text: &str, delimiter: u8, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        let symbol = match byte {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            b'\\' => b'\\',
            other if other == delimiter => other,
            other => {
                out.push(other);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', symbol]);
    }
}

fn write_csv(text: &str, options: &CopyOptions, force: bool, single: bool, out: &mut Vec<u8>) {
    let special =
        |byte: &u8| *byte == options.delimiter || *byte == options.quote || matches!(byte, b'\n' | b'\r');
    let quote =
        force || text == options.null || single && text == "\\." || text.as_bytes().iter().any(special);
    if !quote {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(options.quote);
    for &byte in text.as_bytes() {
        if byte == options.quote || byte == options.escape {
            out.push(options.escape);
        }
        out.push(byte);
    }
    out.push(options.quote);
}
