//! Reads DER with synta, the fastest reader in docs/benchmarks/parse.md. This code borrows from the
//! input and allocates nothing. `x509-cert` builds the structures, because it builds them faster
//! than synta.

use synta::{Decode, Decoder, DecoderConfig, Encoding, Error, RawDer, Tag};

/// The tag of SEQUENCE.
pub(super) const SEQUENCE: Tag = Tag::universal_constructed(synta::tag::TAG_SEQUENCE);
/// The tag of SET.
pub(super) const SET: Tag = Tag::universal_constructed(synta::tag::TAG_SET);

/// synta's default limit for the length of an element is 16 MiB. A CRL of a million certificates is
/// longer.
static LIMITS: DecoderConfig =
    DecoderConfig { max_depth: 32, max_sequence_elements: usize::MAX, max_length: 1 << 28 };

/// The elements of a constructed element, in their order.
pub(super) struct Elements<'a>(Decoder<'a>);

impl<'a> Elements<'a> {
    /// Opens the element at the start of `der`. Fails if bytes follow it.
    pub(super) fn of(der: &'a [u8], tag: Tag) -> synta::Result<Self> {
        let mut outer = Self(Decoder::new_with_config(der, Encoding::Der, &LIMITS));
        let inner = outer.open(tag)?;
        outer.end()?;
        Ok(inner)
    }

    /// Opens the next element.
    pub(super) fn open(&mut self, tag: Tag) -> synta::Result<Self> {
        self.0.enter_constructed(tag).map(Self)
    }

    /// Decodes the next element.
    pub(super) fn next<T: Decode<'a>>(&mut self) -> synta::Result<T> {
        self.0.decode()
    }

    /// Returns the tag and the content of the next element.
    pub(super) fn element(&mut self) -> synta::Result<(Tag, &'a [u8])> {
        let tag = self.0.read_tag()?;
        let length = self.0.read_length()?.definite()?;
        Ok((tag, self.0.read_bytes(length)?))
    }

    /// Returns the next element with its tag and length.
    pub(super) fn raw(&mut self) -> synta::Result<&'a [u8]> {
        self.next::<RawDer<'_>>().map(|element| element.as_bytes())
    }

    /// Returns whether the next element has this tag.
    pub(super) fn is_next(&self, tag: Tag) -> bool {
        self.0.peek_tag().is_ok_and(|next| next == tag)
    }

    /// Returns whether no element is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if an element is left.
    pub(super) fn end(self) -> synta::Result<()> {
        if self.is_empty() { Ok(()) } else { Err(Error::TrailingData { position: self.0.position() }) }
    }
}
