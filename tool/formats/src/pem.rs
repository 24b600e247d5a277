//! The blocks of a PEM file.

use pem_rfc7468::Decoder;
use zeroize::Zeroizing;

use crate::Error;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// A block: its label, and its text from the line BEGIN to the line END.
pub(crate) struct Block<'a> {
    /// The words after BEGIN.
    pub(crate) label: &'a str,
    /// The block from its first dash to its last one.
    pub(crate) text: &'a str,
}

/// Returns the blocks of a text in their order. Text between blocks is ignored.
pub(crate) fn blocks(text: &str) -> Result<Vec<Block<'_>>, Error> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(BEGIN) {
        let block = &rest[start..];
        let label = block[BEGIN.len()..].split(DASHES).next().unwrap_or_default();
        if label.contains('\n') {
            return Err(Error::Damaged("PEM file"));
        }
        let end = block.find(END).ok_or(Error::Damaged("PEM file"))?;
        let after = block[end + END.len()..].find(DASHES).ok_or(Error::Damaged("PEM file"))?;
        let length = end + END.len() + after + DASHES.len();
        found.push(Block { label, text: &block[..length] });
        rest = &block[length..];
    }
    Ok(found)
}

impl Block<'_> {
    /// Decodes the block.
    pub(crate) fn der(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        if self.text.contains("Proc-Type:") {
            return Err(Error::Refused(
                "this old encryption of PEM files is not supported; convert the file with `openssl pkcs8 -topk8`",
            ));
        }
        let damaged = |_| Error::Damaged("PEM file");
        let mut decoder = Decoder::new_detect_wrap(self.text.as_bytes()).map_err(damaged)?;
        // The buffer has its size from the start: growing it would leave copies of the key.
        let mut der = Zeroizing::new(Vec::with_capacity(decoder.remaining_len()));
        decoder.decode_to_end(&mut der).map_err(damaged)?;
        Ok(der)
    }
}
