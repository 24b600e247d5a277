//! The encodings of a point on a Weierstrass curve (SEC 1, 2.3.3; ANSI X9.62, 4.3.6).

use std::borrow::Cow;

use crate::backend::api::Curve;
use crate::error::{Error, Result, require};

/// Returns a compressed or uncompressed point of the right length. A hybrid point becomes an
/// uncompressed one. Fails with `DataInvalid` for another encoding. Whether the point is on the
/// curve is for the library to check.
pub(in crate::backend) fn encoding(curve: Curve, point: &[u8]) -> Result<Cow<'_, [u8]>> {
    let (Some(first), Some(last)) = (point.first(), point.last()) else { return Err(Error::DataInvalid) };
    let len = match first {
        2 | 3 => 1 + curve.len(),
        4 | 6 | 7 => 1 + 2 * curve.len(),
        _ => return Err(Error::DataInvalid),
    };
    require(point.len() == len, Error::DataInvalid)?;
    if *first < 6 {
        return Ok(point.into());
    }
    // The last bit of the first byte repeats that of y.
    require(first & 1 == last & 1, Error::DataInvalid)?;
    Ok([&[4], &point[1..]].concat().into())
}
