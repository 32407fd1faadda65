//! The page headers of a column of a Parquet file, checked before polars follows them.
//!
//! Polars trusts the counts in these headers: one that is corrupt makes it ask for memory that no machine
//! has, and that ends the program where no guard can catch it. The headers are few and short, so that
//! walking them costs nothing beside the reading.
//!
//! A header is a struct of Thrift's compact protocol; of its fields only sizes and counts are looked at
//! (numbers of the fields: `parquet.thrift` of the Parquet format).

use std::ops::Range;

/// The largest page, in bytes after decompression.
const MAX_PAGE_BYTES: i64 = 1 << 30;
/// Structs within structs in a header; the format needs three.
const MAX_DEPTH: usize = 8;

/// What a page header says.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    compressed: i64,
    uncompressed: i64,
    dictionary: Option<i64>,
    values: Option<i64>,
}

/// Checks the pages of a column chunk that is said to lie at `range` and to have so many values.
pub(super) fn check(file: &[u8], range: Range<u64>, values: i64) -> Result<(), &'static str> {
    let place = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
    let chunk =
        place.and_then(|(start, end)| file.get(start..end)).ok_or("a column lies outside the file")?;
    let mut thrift = Thrift { rest: chunk };
    let mut seen = 0;
    while seen < values {
        let page = thrift.page().ok_or("a page header is broken")?;
        if !(0..=MAX_PAGE_BYTES).contains(&page.uncompressed) {
            return Err("a page has an impossible size");
        }
        let body = usize::try_from(page.compressed).ok().and_then(|length| thrift.rest.get(length..));
        thrift.rest = body.ok_or("a page is longer than its column")?;
        let count = page.values.or(page.dictionary).ok_or("a page is of no known kind")?;
        // A dictionary has no more entries than it has bytes, one more if that is the empty text.
        let limit = if page.values.is_some() { values - seen } else { page.uncompressed + 1 };
        if !(0..=limit).contains(&count) {
            return Err("a page has an impossible number of values");
        }
        seen += page.values.unwrap_or(0);
    }
    Ok(())
}

/// A reader of Thrift's compact protocol. `None` stands for bytes that are none.
struct Thrift<'a> {
    rest: &'a [u8],
}

impl Thrift<'_> {
    fn page(&mut self) -> Option<Page> {
        let mut page = Page::default();
        let mut last = 0;
        loop {
            match self.field(&mut last)? {
                (_, STOP) => return Some(page),
                (2, I32) => page.uncompressed = self.number()?,
                (3, I32) => page.compressed = self.number()?,
                (5 | 8, STRUCT) => page.values = Some(self.count()?),
                (7, STRUCT) => page.dictionary = Some(self.count()?),
                (_, kind) => self.skip(kind, 0)?,
            }
        }
    }

    /// The first field of a page's own header, which is its number of values; the others are passed over.
    fn count(&mut self) -> Option<i64> {
        let mut count = None;
        let mut last = 0;
        loop {
            match self.field(&mut last)? {
                (_, STOP) => return count,
                (1, I32) => count = Some(self.number()?),
                (_, kind) => self.skip(kind, 1)?,
            }
        }
    }

    /// The next field's number and kind; the kind is [`STOP`] at the end of the struct.
    fn field(&mut self, last: &mut i64) -> Option<(i64, u8)> {
        let byte = self.byte()?;
        if byte == STOP {
            return Some((*last, STOP));
        }
        // A step from the last field's number, or the number itself.
        let number = if byte >> 4 == 0 { self.number()? } else { last.checked_add(i64::from(byte >> 4))? };
        *last = number;
        Some((number, byte & 0x0f))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I16 | I32 | I64 => drop(self.varint()?),
            DOUBLE => self.rest = self.rest.get(8..)?,
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.rest = self.rest.get(length..)?;
            }
            STRUCT => {
                let mut last = 0;
                loop {
                    match self.field(&mut last)? {
                        (_, STOP) => break,
                        (_, kind) => self.skip(kind, depth + 1)?,
                    }
                }
            }
            // Page headers hold no lists, sets or maps.
            _ => return None,
        }
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number with a sign: the sign is its last bit.
    fn number(&mut self) -> Option<i64> {
        let coded = self.varint()?;
        Some((coded >> 1) as i64 ^ -((coded & 1) as i64))
    }
}

const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const STRUCT: u8 = 12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A data page of four bytes: sizes 4 and 4, three values.
    const PAGE: [u8; 17] = [0x15, 0, 0x15, 8, 0x15, 8, 0x2c, 0x15, 6, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];

    fn chunk(change: impl FnOnce(&mut [u8])) -> Result<(), &'static str> {
        let mut bytes = [PAGE.as_slice(), &[9; 4]].concat();
        change(&mut bytes);
        check(&bytes, 0..bytes.len() as u64, 3)
    }

    #[test]
    fn sound_pages_pass_and_impossible_ones_do_not() {
        assert_eq!(chunk(|_| {}), Ok(()));
        assert_eq!(chunk(|bytes| bytes[3] = 7), Err("a page has an impossible size"));
        assert_eq!(chunk(|bytes| bytes[5] = 10), Err("a page is longer than its column"));
        assert_eq!(chunk(|bytes| bytes[5] = 7), Err("a page is longer than its column"));
        assert_eq!(chunk(|bytes| bytes[8] = 8), Err("a page has an impossible number of values"));
        assert_eq!(chunk(|bytes| bytes[8] = 5), Err("a page has an impossible number of values"));
        assert_eq!(chunk(|bytes| bytes[8] = 4), Err("a page header is broken"));
        assert_eq!(chunk(|bytes| bytes[6] = 0x6c), Err("a page is of no known kind"));
        assert_eq!(check(&PAGE, 5..99, 1), Err("a column lies outside the file"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked(bytes in prop::collection::vec(any::<u8>(), 0..60), values in 0_i64..9) {
            let _ = check(&bytes, 0..bytes.len() as u64, values);
        }
    }
}
