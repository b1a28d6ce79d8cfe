//! The wire format of protobuf: numbers, and bytes with their length.

/// Bytes that are no protobuf, or not of a message that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// How a value is written.
#[derive(Clone, Copy)]
enum Format {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

/// A field's value, as far as the wire format tells.
#[derive(Clone, Copy)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// What no field has that Kubernetes writes here.
    Other,
}

/// Takes the next field of a message: its number and value; none at the end.
pub(super) fn field<'a>(rest: &mut &'a [u8]) -> Result<Option<(u64, Wire<'a>)>, Malformed> {
    if rest.is_empty() {
        return Ok(None);
    }
    let tag = varint(rest)?;
    let value = match tag & 7 {
        format if format == Format::Varint as u64 => Wire::Varint(varint(rest)?),
        format if format == Format::Bytes as u64 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| Malformed)?;
            Wire::Bytes(take(rest, length)?)
        }
        format if format == Format::Fixed32 as u64 => take(rest, 4).map(|_| Wire::Other)?,
        format if format == Format::Fixed64 as u64 => take(rest, 8).map(|_| Wire::Other)?,
        _ => return Err(Malformed),
    };
    Ok(Some((tag >> 3, value)))
}

fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first().ok_or(Malformed)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (taken, left) = rest.split_at_checked(count).ok_or(Malformed)?;
    *rest = left;
    Ok(taken)
}

impl<'a> Wire<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Other => Err(Malformed),
        }
    }

    pub(super) fn text(self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Malformed)
    }

    /// Negative numbers are their two's complement in 64 bits.
    pub(super) fn integer(self) -> Result<i64, Malformed> {
        match self {
            Self::Varint(value) => Ok(value.cast_signed()),
            Self::Bytes(_) | Self::Other => Err(Malformed),
        }
    }
}

pub(super) fn put_integer(number: u64, value: i64, to: &mut Vec<u8>) {
    put_tag(number, Format::Varint, to);
    put_varint(value.cast_unsigned(), to);
}

pub(super) fn put_bytes(number: u64, value: &[u8], to: &mut Vec<u8>) {
    put_length(number, value.len(), to);
    to.extend_from_slice(value);
}

/// What stands before so many bytes.
pub(super) fn put_length(number: u64, length: usize, to: &mut Vec<u8>) {
    put_tag(number, Format::Bytes, to);
    put_varint(length as u64, to);
}

/// Writes a message whose length is known once it is written.
pub(super) fn put_message(number: u64, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_tag(number, Format::Bytes, to);
    let start = to.len();
    write(to);
    let mut length = Vec::with_capacity(5);
    put_varint((to.len() - start) as u64, &mut length);
    to.splice(start..start, length);
}

/// A value in a wire format that no field of Kubernetes has. A reader that knows the field refuses it; others skip it.
pub(super) fn put_misfit(number: u64, to: &mut Vec<u8>) {
    put_tag(number, Format::Fixed32, to);
    to.extend_from_slice(&[0; 4]);
}

fn put_tag(number: u64, format: Format, to: &mut Vec<u8>) {
    put_varint(number << 3 | format as u64, to);
}

#[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn put_varint(mut value: u64, to: &mut Vec<u8>) {
    while value > 0x7f {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
