//! Protobuf's wire format.

/// Bytes that are no protobuf, or not of the message that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads the fields of a message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A field's value, as far as the wire format tells.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field's number and value; none at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u64, Wire<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.try_into().map_err(|_| Malformed)?;
                Wire::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(Malformed),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first().ok_or(Malformed)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Wire<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed),
        }
    }

    pub(super) fn text(self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Malformed)
    }

    /// Negative numbers are their two's complement in 64 bits.
    pub(super) fn integer(self) -> Result<i64, Malformed> {
        match self {
            Self::Varint(value) => Ok(value.cast_signed()),
            _ => Err(Malformed),
        }
    }

    pub(super) fn float(self) -> Result<f64, Malformed> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(Malformed),
        }
    }
}
