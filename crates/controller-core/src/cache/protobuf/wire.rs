//! Fields as the wire has them.

use prost::encoding::{WireType, decode_key, decode_varint};
use serde::de::Error as _;

use super::Error;

/// The value of a field, as far as the wire tells.
#[derive(Clone, Copy)]
pub(super) enum Wire<'de> {
    Varint(u64),
    Bytes(&'de [u8]),
    /// A fixed number of bytes; no message that is read has such a field.
    Fixed,
}

/// Takes the next field of a message.
pub(super) fn next_field<'de>(rest: &mut &'de [u8]) -> Result<Option<(u32, Wire<'de>)>, Error> {
    if rest.is_empty() {
        return Ok(None);
    }
    let (number, wire_type) = decode_key(rest).map_err(Error::custom)?;
    let wire = match wire_type {
        WireType::Varint => Wire::Varint(decode_varint(rest).map_err(Error::custom)?),
        WireType::LengthDelimited => {
            let length = decode_varint(rest).map_err(Error::custom)?;
            Wire::Bytes(take(rest, length)?)
        }
        WireType::ThirtyTwoBit => take(rest, 4).map(|_| Wire::Fixed)?,
        WireType::SixtyFourBit => take(rest, 8).map(|_| Wire::Fixed)?,
        WireType::StartGroup | WireType::EndGroup => return Err(malformed()),
    };
    Ok(Some((number, wire)))
}

fn take<'de>(rest: &mut &'de [u8], length: u64) -> Result<&'de [u8], Error> {
    let length = usize::try_from(length).map_err(Error::custom)?;
    let (taken, left) = rest.split_at_checked(length).ok_or_else(malformed)?;
    *rest = left;
    Ok(taken)
}

/// The bytes of the last field of this number; empty if there is none.
pub(super) fn bytes_of(mut rest: &[u8], number: u32) -> Result<&[u8], Error> {
    let mut found: &[u8] = &[];
    while let Some((at, wire)) = next_field(&mut rest)? {
        if let (true, Wire::Bytes(bytes)) = (at == number, wire) {
            found = bytes;
        }
    }
    Ok(found)
}

pub(super) fn malformed() -> Error {
    Error::custom("malformed protobuf")
}
