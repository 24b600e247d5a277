//! The blocks of a PEM file. RFC 7468, 2: text outside of a block is ignored, and so are blanks and
//! line breaks inside. A block may be encrypted, with headers as in RFC 1421.

use std::borrow::Cow;

use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

use super::{Error, Password, ber, pbe};

pub(crate) const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// A block: its label, and its text between the lines BEGIN and END.
pub(crate) struct Block<'a> {
    /// The words after BEGIN.
    pub(crate) label: &'a str,
    text: &'a str,
}

/// Returns a file as text without its byte order mark. Windows writes UTF-16 with a mark. Bytes
/// that are not UTF-8 are replaced, because PEM files may have comments in other encodings.
pub(crate) fn text(file: &[u8]) -> Cow<'_, str> {
    let utf_16 = |units: &[u8], decode: fn([u8; 2]) -> u16| {
        let units = units.as_chunks().0.iter().map(|unit| decode(*unit));
        String::from_utf16_lossy(&Zeroizing::new(units.collect::<Vec<_>>())).into()
    };
    match file {
        [0xff, 0xfe, units @ ..] => utf_16(units, u16::from_le_bytes),
        [0xfe, 0xff, units @ ..] => utf_16(units, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, file @ ..] | file => String::from_utf8_lossy(file),
    }
}

/// Returns the blocks of a text in their order. Text between blocks is ignored.
pub(crate) fn blocks(text: &str) -> Result<Vec<Block<'_>>, Error> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, block)) = rest.split_once(BEGIN) {
        let (label, after) =
            block.split_once(DASHES).ok_or(Error::Damaged("PEM file: a line BEGIN has no end"))?;
        if label.contains('\n') {
            return Err(Error::Damaged("PEM file: a line BEGIN has no end"));
        }
        let (text, end) = after.split_once(END).ok_or(Error::Damaged("PEM file: a block has no line END"))?;
        found.push(Block { label: label.trim(), text });
        rest = end.split_once(DASHES).ok_or(Error::Damaged("PEM file: a line END has no end"))?.1;
    }
    Ok(found)
}

/// Returns the bytes before, between and after the blocks.
fn outside(file: &[u8]) -> Vec<&[u8]> {
    fn split<'a>(bytes: &'a [u8], at: &str) -> Option<(&'a [u8], &'a [u8])> {
        let start = bytes.windows(at.len()).position(|window| window == at.as_bytes())?;
        Some((&bytes[..start], &bytes[start + at.len()..]))
    }
    let mut found = Vec::new();
    let mut rest = file;
    while let Some((before, block)) = split(rest, BEGIN) {
        found.push(before);
        rest = split(block, END).and_then(|(_, end)| split(end, DASHES)).map_or(&[], |(_, after)| after);
    }
    found.push(rest);
    found
}

/// The labels of blocks that may be beside the wanted ones (RFC 7468; OpenSSL). Private keys and
/// parameters have further ones.
const LABELS: [&str; 12] = [
    "CERTIFICATE",
    "X509 CERTIFICATE",
    "TRUSTED CERTIFICATE",
    "ATTRIBUTE CERTIFICATE",
    "CERTIFICATE REQUEST",
    "NEW CERTIFICATE REQUEST",
    "X509 CRL",
    "PUBLIC KEY",
    "RSA PUBLIC KEY",
    "PKCS7",
    "CMS",
    "PKCS12",
];

/// Returns the contents of the blocks with these labels, or the structures in a file that has no
/// blocks. Refuses a file with both. A block with an unknown label may be a wanted one, so it is
/// refused too.
pub fn contents(file: &[u8], labels: &[&str]) -> Result<Vec<Vec<u8>>, Error> {
    let text = text(file);
    let blocks = blocks(&text)?;
    if blocks.is_empty() {
        let all = ber::all_to_der(file).unwrap_or_default();
        return Ok(all.iter().map(|der| der.to_vec()).collect());
    }
    let is_structure = |bytes: &&[u8]| {
        ber::first_to_der(bytes.trim_ascii_start()).is_some_and(|(der, _)| der[0] == ber::SEQUENCE)
    };
    if outside(file).iter().any(is_structure) {
        return Err(Error::Damaged("PEM file: it has a structure in DER beside the blocks"));
    }
    let is_known = |label: &str| {
        LABELS.contains(&label) || ["PRIVATE KEY", "PARAMETERS"].iter().any(|end| label.ends_with(end))
    };
    if blocks.iter().any(|block| !is_known(block.label) && !labels.contains(&block.label)) {
        return Err(Error::Refused("a block of the PEM file has an unknown label"));
    }
    let wanted = blocks.iter().filter(|block| labels.contains(&block.label));
    let mut no_password = || None;
    let mut password = Password::new(&mut no_password);
    wanted.map(|block| Ok(block.der(&mut password)?.to_vec())).collect()
}

impl Block<'_> {
    /// Decodes the block, and decrypts it if a header says that it is encrypted.
    pub(crate) fn der(&self, password: &mut Password<'_>) -> Result<Zeroizing<Vec<u8>>, Error> {
        let data = self.data()?;
        if self.header("Proc-Type:").is_none() {
            return Ok(data);
        }
        let dek_info = self.header("DEK-Info:");
        let dek_info =
            dek_info.ok_or(Error::Damaged("PEM file: it has the header Proc-Type and no DEK-Info"))?;
        let plain = pbe::decrypt_pem(dek_info, &data, password)?;
        // A wrong password may leave a padding that looks right.
        ber::to_der(&plain).ok_or(Error::PasswordWrong)
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.split(['\r', '\n'])
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.lines().find_map(|line| line.trim_start().strip_prefix(name))
    }

    /// Decodes the Base64. A line with a colon is a header.
    fn data(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        // The buffers have their sizes from the start: growing them would leave copies of the key.
        let mut text = Zeroizing::new(String::with_capacity(self.text.len()));
        for line in self.lines().filter(|line| !line.contains(':')) {
            text.extend(line.chars().filter(|letter| !letter.is_whitespace()));
        }
        let mut der = Zeroizing::new(vec![0; text.len()]);
        let length = Base64::decode(text.as_bytes(), &mut der)
            .map_err(|_| Error::Damaged("PEM file: a block is not Base64"))?
            .len();
        der.truncate(length);
        Ok(der)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_text_outside_of_blocks_are_ignored() {
        for file in [
            "-----BEGIN A-----\nAAEC\nAwQF\n-----END A-----\n",
            "\u{feff}text\r\n-----BEGIN A-----\r\n\r\n  AAECAw \r\nQF\t\r\n-----END A-----\r\ntext\n\n",
            "-----BEGIN CMS-----\n!\n-----END CMS----------BEGIN A-----AAECAwQF-----END A-----",
            "-----BEGIN A-----\nX-Name: value\n\nA\nAECA\nwQF\n-----END A-----",
        ] {
            let marked = || file.trim_start_matches('\u{feff}').encode_utf16();
            let little: Vec<_> = [0xfeff].into_iter().chain(marked()).flat_map(u16::to_le_bytes).collect();
            let big: Vec<_> = [0xfeff].into_iter().chain(marked()).flat_map(u16::to_be_bytes).collect();
            for file in [file.as_bytes(), &little, &big] {
                assert_eq!(contents(file, &["A", "NEW A"]), Ok(vec![vec![0, 1, 2, 3, 4, 5]]), "{file:?}");
            }
        }
        assert_eq!(contents(b"-----BEGIN CMS-----\nAAEC\n-----END CMS-----", &["A"]), Ok(Vec::new()));
        assert_eq!(contents(b"\x02\x01\x07\n", &["A"]), Ok(vec![vec![2, 1, 7]]));
    }

    #[test]
    fn a_block_whose_label_is_unknown_is_not_left_out() {
        for label in ["CRL", "X509  CRL", "x509 crl", "CERTIFICATE REVOCATION LIST", ""] {
            let block = format!("-----BEGIN {label}-----\nAAEC\n-----END {label}-----\n");
            for file in [block.clone(), block + "-----BEGIN X509 CRL-----\nAAEC\n-----END X509 CRL-----\n"] {
                assert!(matches!(contents(file.as_bytes(), &["X509 CRL"]), Err(Error::Refused(_))), "{file}");
            }
        }
        let key = b"-----BEGIN EC PARAMETERS-----\nAAEC\n-----END EC PARAMETERS-----\n-----BEGIN X509 CRL-----\nAAEC\n\
            -----END X509 CRL-----\n";
        assert_eq!(contents(key, &["X509 CRL"]), Ok(vec![vec![0, 1, 2]]));
    }

    #[test]
    fn a_file_with_der_and_pem_is_refused() {
        const DER: &[u8] = b"\x30\x03\x02\x01\x07";
        const PEM: &[u8] = b"-----BEGIN A-----\nAAEC\n-----END A-----\n";
        for file in
            [vec![DER, PEM], vec![DER, b"\n", PEM], vec![PEM, DER], vec![PEM, b"\r\n", DER, b"\n", PEM]]
        {
            assert!(matches!(contents(&file.concat(), &["A"]), Err(Error::Damaged(_))), "{file:x?}");
        }
        // Text that begins with the tag of a structure.
        assert_eq!(
            contents(&[b"0 = zero, and more text than the second byte says\n", PEM].concat(), &["A"]),
            Ok(vec![vec![0, 1, 2]])
        );
    }
}
