//! COPY FROM: bytes from the client to fields.
//!
//! Data arrives in pieces that know nothing of rows. [`Reader`] gathers them, cuts lines (text and csv) or tuples
//! (binary), and splits a line into fields. It holds one line at a time, however long the data is. A line's
//! end is decided by the first one seen, as PostgreSQL does.

use cairn_types::{Error, Result, err};

use super::options::{CopyFormat, CopyOptions};

/// Where the data comes from: appends the next piece; `false` at the end.
pub type Source<'a> = dyn FnMut(&mut Vec<u8>) -> Result<bool> + 'a;

const BINARY_SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Unknown,
    Newline,
    Return,
    ReturnNewline,
}

/// One field: its range in [`Reader::data`], or NULL. `quoted`: it stood in quotes (csv), so that it is never NULL
/// by its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    range: std::ops::Range<usize>,
    pub null: bool,
    pub quoted: bool,
}

pub struct Reader<'a> {
    options: &'a CopyOptions,
    buffer: Vec<u8>,
    start: usize,
    finished: bool,
    line_end: LineEnd,
    /// Lines read so far, for error messages.
    pub line_number: u64,
    /// The current line as it came.
    line: std::ops::Range<usize>,
    /// The fields' bytes, unescaped.
    data: Vec<u8>,
    fields: Vec<Field>,
}

impl<'a> Reader<'a> {
    pub fn new(options: &'a CopyOptions) -> Self {
        Reader {
            options,
            buffer: Vec::new(),
            start: 0,
            finished: false,
            line_end: LineEnd::Unknown,
            line_number: 0,
            line: 0..0,
            data: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// The current line's text, for CONTEXT.
    pub fn line(&self) -> &[u8] {
        self.buffer.get(self.line.clone()).unwrap_or_default()
    }

    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    pub fn bytes(&self, field: &Field) -> &[u8] {
        self.data.get(field.range.clone()).unwrap_or_default()
    }

    /// Gets the next piece; `false` at the end. What has been taken goes first, so that memory holds a line and a
    /// piece: `at`, an index into the buffer, moves with the rest.
    fn more(&mut self, at: &mut usize, source: &mut Source<'_>) -> Result<bool> {
        if self.finished {
            return Ok(false);
        }
        self.buffer.drain(..self.start);
        *at -= self.start;
        self.start = 0;
        self.finished = !source(&mut self.buffer)?;
        Ok(!self.finished)
    }

    /// Reads to the end of the data, dropping it: what follows `\.` is ignored.
    pub fn drain(&mut self, source: &mut Source<'_>) -> Result<()> {
        while !self.finished {
            self.buffer.clear();
            self.start = 0;
            self.finished = !source(&mut self.buffer)?;
        }
        Ok(())
    }

    /// The next row's fields; `false` after the last.
    pub fn next(&mut self, source: &mut Source<'_>) -> Result<bool> {
        match self.options.format {
            CopyFormat::Binary => self.next_tuple(source),
            CopyFormat::Text | CopyFormat::Csv => {
                if !self.next_line(source)? {
                    return Ok(false);
                }
                match self.options.format {
                    CopyFormat::Csv => self.split_csv()?,
                    _ => self.split_text(),
                }
                Ok(true)
            }
        }
    }

    /// Cuts the next line off; `false` at the end of the data or at `\.`.
    pub fn next_line(&mut self, source: &mut Source<'_>) -> Result<bool> {
        self.line = 0..0;
        self.line_number += 1;
        let csv = self.options.format == CopyFormat::Csv;
        let quote = self.options.quote;
        // A doubled quote closes and opens again: nothing to look out for.
        let escape = Some(self.options.escape).filter(|escape| *escape != quote);
        let (mut at, mut in_quotes, mut last_was_escape) = (self.start, false, false);
        let mut escaped = false;
        loop {
            let Some(&byte) = self.buffer.get(at) else {
                if self.more(&mut at, source)? {
                    continue;
                }
                if csv && in_quotes && at > self.start {
                    self.line = self.start..at;
                    return Err(err!(BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field"));
                }
                if at == self.start {
                    return Ok(false);
                }
                // The last line has no end of its own.
                return self.take_line(at, at, source);
            };
            if csv {
                // The rule of quotes is that of split_csv, followed closely enough to know a line's end.
                if in_quotes && Some(byte) == escape {
                    last_was_escape = !last_was_escape;
                }
                if byte == quote && !last_was_escape {
                    in_quotes = !in_quotes;
                }
                if Some(byte) != escape {
                    last_was_escape = false;
                }
                if in_quotes {
                    at += 1;
                    continue;
                }
            } else if escaped {
                escaped = false;
                at += 1;
                continue;
            } else if byte == b'\\' {
                escaped = true;
                at += 1;
                continue;
            }
            match (byte, self.line_end) {
                (b'\n', LineEnd::Unknown | LineEnd::Newline) => {
                    self.line_end = LineEnd::Newline;
                    return self.take_line(at, at + 1, source);
                }
                (b'\r', LineEnd::Unknown | LineEnd::ReturnNewline) => {
                    // Whether a newline follows may be in the next piece.
                    if self.buffer.get(at + 1).is_none() && self.more(&mut at, source)? {
                        last_was_escape = false;
                        continue;
                    }
                    if self.buffer.get(at + 1) == Some(&b'\n') {
                        self.line_end = LineEnd::ReturnNewline;
                        return self.take_line(at, at + 2, source);
                    }
                    if self.line_end == LineEnd::ReturnNewline {
                        self.line = self.start..at;
                        return Err(self.stray("carriage return", "\\r"));
                    }
                    self.line_end = LineEnd::Return;
                    return self.take_line(at, at + 1, source);
                }
                (b'\r', LineEnd::Return) => return self.take_line(at, at + 1, source),
                (b'\r', LineEnd::Newline) => {
                    self.line = self.start..at;
                    return Err(self.stray("carriage return", "\\r"));
                }
                (b'\n', LineEnd::Return | LineEnd::ReturnNewline) => {
                    self.line = self.start..at;
                    return Err(self.stray("newline", "\\n"));
                }
                _ => at += 1,
            }
        }
    }

    fn stray(&self, what: &str, symbol: &str) -> Error {
        if self.options.format == CopyFormat::Csv {
            err!(BAD_COPY_FILE_FORMAT, "unquoted {what} found in data")
                .hint(format!("Use quoted CSV field to represent {what}."))
        } else {
            err!(BAD_COPY_FILE_FORMAT, "literal {what} found in data")
                .hint(format!("Use \"{symbol}\" to represent {what}."))
        }
    }

    /// The line is `start..end`; the next begins at `next`.
    fn take_line(&mut self, end: usize, next: usize, source: &mut Source<'_>) -> Result<bool> {
        self.line = self.start..end;
        self.start = next;
        if self.line() == b"\\." {
            self.drain(source)?;
            self.line = 0..0;
            return Ok(false);
        }
        Ok(true)
    }

    /// Text format: fields between delimiters, backslash sequences.
    pub fn split_text(&mut self) {
        self.data.clear();
        self.fields.clear();
        let line = self.buffer.get(self.line.clone()).unwrap_or_default();
        let null = self.options.null.as_bytes();
        let mut at = 0;
        loop {
            let (raw_start, start) = (at, self.data.len());
            let mut ended = true;
            while let Some(&byte) = line.get(at) {
                at += 1;
                if byte == self.options.delimiter {
                    ended = false;
                    break;
                }
                if byte == b'\\' && at < line.len() {
                    let (value, taken) = unescape(&line[at..]);
                    self.data.push(value);
                    at += taken;
                } else {
                    self.data.push(byte);
                }
            }
            let raw_end = if ended { at } else { at - 1 };
            let is_null = &line[raw_start..raw_end] == null;
            self.fields.push(Field { range: start..self.data.len(), null: is_null, quoted: false });
            if ended {
                return;
            }
        }
    }

    /// Csv: a field may stand in quotes, wholly or in part.
    pub fn split_csv(&mut self) -> Result<()> {
        self.data.clear();
        self.fields.clear();
        let line = self.buffer.get(self.line.clone()).unwrap_or_default();
        let CopyOptions { delimiter, quote, escape, .. } = *self.options;
        let mut at = 0;
        loop {
            let start = self.data.len();
            let (mut quoted, mut in_quotes, mut ended) = (false, false, true);
            while let Some(&byte) = line.get(at) {
                at += 1;
                if in_quotes {
                    let next = line.get(at).copied();
                    if byte == escape && next.is_some_and(|next| next == escape || next == quote) {
                        self.data.extend(next);
                        at += 1;
                    } else if byte == quote {
                        in_quotes = false;
                    } else {
                        self.data.push(byte);
                    }
                } else if byte == delimiter {
                    ended = false;
                    break;
                } else if byte == quote {
                    quoted = true;
                    in_quotes = true;
                } else {
                    self.data.push(byte);
                }
            }
            if in_quotes {
                return Err(err!(BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field"));
            }
            let null = !quoted && self.data[start..] == *self.options.null.as_bytes();
            self.fields.push(Field { range: start..self.data.len(), null, quoted });
            if ended {
                return Ok(());
            }
        }
    }

    /// Makes sure that so many bytes are there; `false` if the data ends before.
    fn need(&mut self, count: usize, source: &mut Source<'_>) -> Result<bool> {
        while self.buffer.len() - self.start < count {
            let mut at = self.start;
            if !self.more(&mut at, source)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take<const N: usize>(&mut self, source: &mut Source<'_>) -> Result<Option<[u8; N]>> {
        if !self.need(N, source)? {
            return Ok(None);
        }
        let taken = self.buffer[self.start..].first_chunk::<N>().copied();
        self.start += N;
        Ok(taken)
    }

    /// The header of binary data.
    pub fn binary_header(&mut self, source: &mut Source<'_>) -> Result<()> {
        let bad = |what: &str| err!(BAD_COPY_FILE_FORMAT, "{what}");
        if self.take::<11>(source)?.as_ref() != Some(BINARY_SIGNATURE) {
            return Err(bad("COPY file signature not recognized"));
        }
        let flags = self.take::<4>(source)?.ok_or_else(|| bad("invalid COPY file header (missing flags)"))?;
        let flags = u32::from_be_bytes(flags);
        if flags & (1 << 16) != 0 {
            return Err(bad("invalid COPY file header (WITH OIDS)"));
        }
        if flags >> 16 != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let length =
            self.take::<4>(source)?.ok_or_else(|| bad("invalid COPY file header (missing length)"))?;
        let length = usize::try_from(i32::from_be_bytes(length))
            .map_err(|_| bad("invalid COPY file header (missing length)"))?;
        for _ in 0..length {
            if self.take::<1>(source)?.is_none() {
                return Err(bad("invalid COPY file header (wrong length)"));
            }
        }
        Ok(())
    }

    fn next_tuple(&mut self, source: &mut Source<'_>) -> Result<bool> {
        self.line_number += 1;
        self.line = 0..0;
        self.data.clear();
        self.fields.clear();
        let Some(count) = self.take::<2>(source)? else {
            // The trailer may be missing where the connection says that the data ends.
            return Ok(false);
        };
        let count = i16::from_be_bytes(count);
        if count == -1 {
            if self.need(1, source)? {
                return Err(err!(BAD_COPY_FILE_FORMAT, "received copy data after EOF marker"));
            }
            return Ok(false);
        }
        let eof = || err!(BAD_COPY_FILE_FORMAT, "unexpected EOF in COPY data");
        for _ in 0..count.max(0) {
            let length = i32::from_be_bytes(self.take::<4>(source)?.ok_or_else(eof)?);
            let start = self.data.len();
            if length == -1 {
                self.fields.push(Field { range: start..start, null: true, quoted: false });
                continue;
            }
            let length =
                usize::try_from(length).map_err(|_| err!(BAD_COPY_FILE_FORMAT, "invalid field size"))?;
            if !self.need(length, source)? {
                return Err(eof());
            }
            self.data.extend_from_slice(&self.buffer[self.start..self.start + length]);
            self.start += length;
            self.fields.push(Field { range: start..start + length, null: false, quoted: true });
        }
        Ok(true)
    }
}

/// What a backslash and the bytes behind it mean: the byte, and how many were taken.
fn unescape(rest: &[u8]) -> (u8, usize) {
    let octal = |byte: &u8| (b'0'..=b'7').contains(byte);
    match rest[0] {
        b'b' => (0x08, 1),
        b'f' => (0x0c, 1),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        b'v' => (0x0b, 1),
        b'0'..=b'7' => {
            let digits = rest.iter().take(3).take_while(|byte| octal(byte)).count();
            let value = rest[..digits].iter().fold(0u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
            (value as u8, digits)
        }
        b'x' => {
            let digits = rest[1..].iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
            if digits == 0 {
                return (b'x', 1);
            }
            let value = rest[1..=digits]
                .iter()
                .fold(0u32, |sum, digit| sum * 16 + char::from(*digit).to_digit(16).unwrap_or(0));
            (value as u8, 1 + digits)
        }
        other => (other, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::{Columns, Header};
    use super::*;

    fn options(format: CopyFormat) -> CopyOptions {
        CopyOptions {
            format,
            freeze: false,
            delimiter: if format == CopyFormat::Csv { b',' } else { b'\t' },
            null: if format == CopyFormat::Csv { String::new() } else { "\\N".into() },
            header: Header::None,
            quote: b'"',
            escape: b'"',
            force_quote: Columns::None,
            force_not_null: Columns::None,
            force_null: Columns::None,
        }
    }

    /// All rows, the data coming in pieces of `piece` bytes.
    fn rows(
        format: CopyFormat,
        data: &[u8],
        piece: usize,
    ) -> std::result::Result<Vec<Vec<Option<String>>>, String> {
        let options = options(format);
        let mut reader = Reader::new(&options);
        let mut pieces = data.chunks(piece.max(1));
        let mut source =
            |buffer: &mut Vec<u8>| Ok(pieces.next().map(|piece| buffer.extend_from_slice(piece)).is_some());
        let mut rows = Vec::new();
        let message = |error: Error| error.message().to_owned();
        if format == CopyFormat::Binary {
            reader.binary_header(&mut source).map_err(message)?;
        }
        while reader.next(&mut source).map_err(message)? {
            let text = |field: &Field| {
                (!field.null).then(|| String::from_utf8_lossy(reader.bytes(field)).into_owned())
            };
            rows.push(reader.fields().iter().map(text).collect());
        }
        Ok(rows)
    }

    fn row(fields: &[Option<&str>]) -> Vec<Option<String>> {
        fields.iter().map(|field| field.map(str::to_owned)).collect()
    }

    #[test]
    fn text_in_pieces_of_any_size() {
        let data = b"1\ta\\tb\n\\N\tx\\\ny\\x41\\101\\q\n2\t\r\n";
        for piece in 1..data.len() {
            let error = rows(CopyFormat::Text, data, piece);
            assert_eq!(error, Err("literal carriage return found in data".into()), "{piece}");
            let rows = rows(CopyFormat::Text, &data[..data.len() - 2], piece).expect("valid");
            assert_eq!(rows[0], row(&[Some("1"), Some("a\tb")]));
            assert_eq!(rows[1], row(&[None, Some("x\nyAAq")]));
            assert_eq!(rows[2], row(&[Some("2"), Some("")]));
        }
    }

    #[test]
    fn line_ends() {
        for end in ["\n", "\r\n", "\r"] {
            let data = format!("a\tb{end}c\td{end}\\.{end}ignored");
            for piece in 1..data.len() {
                let rows = rows(CopyFormat::Text, data.as_bytes(), piece).expect("valid");
                assert_eq!(
                    rows,
                    [row(&[Some("a"), Some("b")]), row(&[Some("c"), Some("d")])],
                    "{end:?} {piece}"
                );
            }
        }
    }

    #[test]
    fn csv() {
        let data = b"1,\"a,\"\"b\"\"\nc\",\n,\"\",x\"y\"z\n";
        for piece in 1..data.len() {
            let rows = rows(CopyFormat::Csv, data, piece).expect("valid");
            assert_eq!(rows[0], row(&[Some("1"), Some("a,\"b\"\nc"), None]));
            assert_eq!(rows[1], row(&[None, Some(""), Some("xyz")]));
        }
        assert_eq!(rows(CopyFormat::Csv, b"1,\"abc\n", 3), Err("unterminated CSV quoted field".into()));
    }

    #[test]
    fn binary() {
        let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
        data.extend_from_slice(b"\0\x02\0\0\0\x02hi\xff\xff\xff\xff");
        data.extend_from_slice(b"\xff\xff");
        for piece in 1..data.len() {
            assert_eq!(rows(CopyFormat::Binary, &data, piece), Ok(vec![row(&[Some("hi"), None])]));
        }
        assert!(rows(CopyFormat::Binary, &data[..25], 100).is_err());
        assert!(rows(CopyFormat::Binary, b"PGCOPY", 100).is_err());
    }

    proptest::proptest! {
        #[test]
        fn never_panics(data in proptest::collection::vec(proptest::sample::select(b"a\\\"\n\r\t,.N\0\xff".to_vec()), 0..40), piece in 1usize..8) {
            for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
                let _ = rows(format, &data, piece);
            }
        }
    }
}
