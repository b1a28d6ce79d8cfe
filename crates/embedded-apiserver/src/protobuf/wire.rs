//! The wire format of protobuf: integers, and bytes with their length.

/// Bytes that are not protobuf, or a message of an unknown kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The wire types.
#[derive(Clone, Copy)]
enum Format {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

/// The value of a field in the wire format.
#[derive(Clone, Copy)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A wire type that Kubernetes does not use.
    Other,
}

/// Removes the next field from a message and returns its number and value; `None` at the end.
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

    /// The integer. Negative ones are sent as their two's complement in 64 bits.
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

/// Starts a field of `length` bytes.
pub(super) fn put_length(number: u64, length: usize, to: &mut Vec<u8>) {
    put_tag(number, Format::Bytes, to);
    put_varint(length as u64, to);
}

/// Writes a message and inserts its length, known only afterwards.
pub(super) fn put_message(number: u64, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_tag(number, Format::Bytes, to);
    let start = to.len();
    write(to);
    let mut length = Vec::with_capacity(5);
    put_varint((to.len() - start) as u64, &mut length);
    to.splice(start..start, length);
}

/// Writes a value in a wire format that no field of Kubernetes has. Readers that know the field refuse it; others skip
/// it.
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
