//! Message authentication codes: HMAC, CMAC, GMAC, and CBC-MAC in two forms, which are built on
//! CBC.

use zeroize::Zeroizing;

use super::ffi::{self, CipherCtx, Mode};
use super::{elsewhere, output};
use crate::backend::{Direction, Hash, Mac, MacScheme, Macs};
use crate::error::{Error, Result};
use crate::secret::Secret;

const BLOCK: usize = 16;

pub(super) struct AllMacs;

impl Macs for AllMacs {
    fn mac(&self, scheme: &MacScheme, key: &[u8]) -> Result<Box<dyn Mac>> {
        match scheme {
            MacScheme::Hmac(hash) if hash.is_blake2b() => elsewhere()?.macs.mac(scheme, key),
            MacScheme::Hmac(hash) => {
                Ok(Box::new(Hmac { context: ffi::Hmac::new(*hash, key)?, len: hash.len() }))
            }
            MacScheme::AesCmac => Ok(Box::new(Cmac(ffi::Cmac::new(key)?))),
            MacScheme::AesGmac { iv } => gmac(key, iv),
            MacScheme::AesCbcMac => cbc_mac(key),
            MacScheme::AesXcbc => xcbc(key),
            MacScheme::HmacMd5 => {
                Ok(Box::new(Hmac { context: ffi::Hmac::md5(key)?, len: ffi::Hmac::MD5_LEN }))
            }
        }
    }

    fn pbkdf2(
        &self,
        hash: Hash,
        password: &[u8],
        salt: &[u8],
        iterations: u32,
        out: &mut [u8],
    ) -> Result<()> {
        if iterations == 0 {
            return Err(Error::MechanismParamInvalid);
        }
        ffi::pbkdf2(hash, password, salt, iterations, out)
    }
}

struct Hmac {
    context: ffi::Hmac,
    len: usize,
}

impl Mac for Hmac {
    fn mac_len(&self) -> usize {
        self.len
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.context.update(data)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        self.context.finish(output(out, self.len)?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.context.reset()
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(Self { context: self.context.duplicate()?, len: self.len }))
    }
}

struct Cmac(ffi::Cmac);

impl Mac for Cmac {
    fn mac_len(&self) -> usize {
        ffi::Cmac::LEN
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.0.update(data)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        self.0.finish(out.first_chunk_mut().ok_or(Error::BufferTooSmall { needed: ffi::Cmac::LEN })?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.0.reset()
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        self.0.duplicate().map(|copy| Box::new(Self(copy)) as _)
    }
}

fn gmac(key: &[u8], iv: &[u8]) -> Result<Box<dyn Mac>> {
    if !(1..=256).contains(&iv.len()) {
        return Err(Error::MechanismParamInvalid);
    }
    let mut gmac = Gmac { context: CipherCtx::gcm(key, iv.len(), Direction::Encrypt)?, iv: iv.into() };
    gmac.reset()?;
    Ok(Box::new(gmac))
}

/// GCM without a message to encrypt.
struct Gmac {
    context: CipherCtx,
    iv: Box<[u8]>,
}

impl Mac for Gmac {
    fn mac_len(&self) -> usize {
        BLOCK
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.context.authenticate(data)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        self.context.gcm_tag(output(out, BLOCK)?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.context.start(&self.iv)
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(Self { context: self.context.duplicate()?, iv: self.iv.clone() }))
    }
}

fn cbc_mac(key: &[u8]) -> Result<Box<dyn Mac>> {
    Chain::boxed(CipherCtx::new(Mode::Cbc, key, Direction::Encrypt)?, None)
}

/// Builds XCBC (RFC 3566, 4). Each of its three keys is the encryption of a constant under the
/// caller's key.
fn xcbc(key: &[u8]) -> Result<Box<dyn Mac>> {
    if key.len() != BLOCK {
        return Err(Error::KeySizeRange);
    }
    let mut aes = CipherCtx::new(Mode::Ecb, key, Direction::Encrypt)?;
    let mut keys = Secret::zeroed(3 * BLOCK);
    for (number, key) in (1..).zip(keys.chunks_mut(BLOCK)) {
        aes.update(&[number; BLOCK], key)?;
    }
    let (chaining, last) = keys.split_at(BLOCK);
    Chain::boxed(CipherCtx::new(Mode::Cbc, chaining, Direction::Encrypt)?, Some(Secret::from(last)))
}

/// CBC encryption of which only the last block matters.
struct Chain {
    context: CipherCtx,
    /// Only for XCBC: the masks of a complete and of an incomplete last block.
    masks: Option<Secret>,
    /// The block that is held back because it may be the last. XCBC treats the last block
    /// differently.
    held: Zeroizing<[u8; BLOCK]>,
    held_len: usize,
}

impl Chain {
    /// The largest number of bytes that one CBC call encrypts. The output goes to scratch memory,
    /// because only its last block is needed.
    const BATCH: usize = 32 * BLOCK;

    fn boxed(context: CipherCtx, masks: Option<Secret>) -> Result<Box<dyn Mac>> {
        let mut chain = Self { context, masks, held: Zeroizing::new([0; BLOCK]), held_len: 0 };
        chain.reset()?;
        Ok(Box::new(chain))
    }

    /// Returns the last block, padded and masked for the cipher.
    fn last(&self) -> Zeroizing<[u8; BLOCK]> {
        let mut last = self.held.clone();
        last[self.held_len..].fill(0);
        if let Some(masks) = &self.masks {
            let (of_whole, of_padded) = masks.split_at(BLOCK);
            let whole = self.held_len == BLOCK;
            if !whole {
                last[self.held_len] = 0x80;
            }
            for (byte, mask) in last.iter_mut().zip(if whole { of_whole } else { of_padded }) {
                *byte ^= mask;
            }
        }
        last
    }
}

impl Mac for Chain {
    fn mac_len(&self) -> usize {
        BLOCK
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        let (fill, data) = data.split_at(data.len().min(BLOCK - self.held_len));
        self.held[self.held_len..][..fill.len()].copy_from_slice(fill);
        self.held_len += fill.len();
        if data.is_empty() {
            return Ok(());
        }
        // More data follows the held block, so it is not the last. The whole blocks before the rest
        // are not the last either.
        let mut scratch = [0; Self::BATCH];
        self.context.update(&*self.held, &mut scratch[..BLOCK])?;
        let (whole, rest) = data.split_at((data.len() - 1) / BLOCK * BLOCK);
        for batch in whole.chunks(Self::BATCH) {
            self.context.update(batch, &mut scratch[..batch.len()])?;
        }
        self.held[..rest.len()].copy_from_slice(rest);
        self.held_len = rest.len();
        Ok(())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        let out = output(out, BLOCK)?;
        let last = self.last();
        self.context.update(&*last, out)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.held_len = 0;
        self.context.start(&[0; BLOCK])
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(Self {
            context: self.context.duplicate()?,
            masks: self.masks.as_ref().map(Secret::duplicate),
            held: self.held.clone(),
            held_len: self.held_len,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cipher::AllCiphers;
    use super::super::tests::hex;
    use super::*;
    use crate::backend::AeadScheme;
    use crate::backend::{CipherScheme, Ciphers, Direction, Hash};

    fn mac(scheme: &MacScheme, key: &[u8]) -> Result<Box<dyn Mac>> {
        AllMacs.mac(scheme, key)
    }

    /// Checks the MAC in one part and in parts of several lengths, each time after a reset.
    fn check(scheme: &MacScheme, key: &[u8], data: &[u8], expected: &[u8]) {
        let mut mac = mac(scheme, key).unwrap();
        assert_eq!(mac.mac_len(), expected.len());
        for part in [usize::MAX, 1, 3, 15, 16, 17, 31, 33] {
            mac.update(b"forgotten").unwrap();
            mac.reset().unwrap();
            for part in data.chunks(part) {
                mac.update(part).unwrap();
            }
            mac.update(b"").unwrap();
            let mut out = vec![0; expected.len() + 1];
            let needed = expected.len();
            assert_eq!(mac.finish(&mut out[..needed - 1]), Err(Error::BufferTooSmall { needed }));
            mac.finish(&mut out).unwrap();
            assert_eq!(out[..needed], *expected, "in parts of {part}");
        }
    }

    /// RFC 4231, 4.2 (RFC 2202 for SHA-1), and the same message with the later hashes.
    const HI_THERE: [(Hash, &str); 11] = [
        (Hash::Sha1, "b617318655057264e28bc0b6fb378c8ef146be00"),
        (Hash::Sha224, "896fb1128abbdf196832107cd49df33f47b4b1169912ba4f53684b22"),
        (Hash::Sha256, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            Hash::Sha384,
            "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59c\
             faea9ea9076ede7f4af152e8b2fa9cb6",
        ),
        (
            Hash::Sha512,
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde\
             daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
        ),
        (Hash::Sha512_224, "b244ba01307c0e7a8ccaad13b1067a4cf6b961fe0c6a20bda3d92039"),
        (Hash::Sha512_256, "9f9126c3d9c3c330d760425ca8a217e31feae31bfe70196ff81642b868402eab"),
        (Hash::Sha3_224, "3b16546bbc7be2706a031dcafd56373d9884367641d8c59af3c860f7"),
        (Hash::Sha3_256, "ba85192310dffa96e2a3a40e69774351140bb7185e1202cdcc917589f95e16bb"),
        (
            Hash::Sha3_384,
            "68d2dcf7fd4ddd0a2240c8a437305f61fb7334cfb5d0226e1bc27dc10a2e723a\
             20d370b47743130e26ac7e3d532886bd",
        ),
        (
            Hash::Sha3_512,
            "eb3fbd4b2eaab8f5c504bd3a41465aacec15770a7cabac531e482f860b5ec7ba\
             47ccb2c6f2afce8f88d22b6dc61380f23a668fd3888bb80537c0a0b86407689e",
        ),
    ];

    #[test]
    fn rfc_4231_hmac() {
        for (hash, expected) in HI_THERE {
            check(&MacScheme::Hmac(hash), &[0x0b; 20], b"Hi There", &hex(expected));
        }
        let scheme = MacScheme::Hmac(Hash::Sha256);
        // 4.3 and 4.7: a key shorter than the digest, and one longer than the block.
        let jefe = hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        check(&scheme, b"Jefe", b"what do ya want for nothing?", &jefe);
        let long = hex("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
        check(&scheme, &[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First", &long);
        let empty = hex("b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
        check(&scheme, b"", b"", &empty);
        for hash in [Hash::Shake128, Hash::Shake256] {
            assert_eq!(mac(&MacScheme::Hmac(hash), b"key").err(), Some(Error::MechanismInvalid));
        }
    }

    /// The plaintext of SP 800-38A.
    const PLAIN: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

    #[test]
    fn sp_800_38b_cmac() {
        let key = "2b7e151628aed2a6abf7158809cf4f3c";
        let key_192 = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
        let key_256 = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
        for (key, len, expected) in [
            (key, 0, "bb1d6929e95937287fa37d129b756746"),
            (key, 16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (key, 40, "dfa66747de9ae63030ca32611497c827"),
            (key, 64, "51f0bebf7e3b9d92fc49741779363cfe"),
            (key_192, 0, "d17ddf46adaacde531cac483de7a9367"),
            (key_256, 0, "028962f61b7bf89efc6b551f4667d983"),
        ] {
            check(&MacScheme::AesCmac, &hex(key), &hex(PLAIN)[..len], &hex(expected));
        }
    }

    #[test]
    fn rfc_3566_xcbc() {
        let key: Vec<u8> = (0..16).collect();
        for (len, expected) in [
            (0, "75f0251d528ac01c4573dfd584d79f29"),
            (3, "5b376580ae2f19afe7219ceef172756f"),
            (16, "d2a246fa349b68a79998a4394ff7a263"),
            (20, "47f51b4564966215b8985c63055ed308"),
            (32, "f54f0ec8d2b9f3d36807734bd5283fd4"),
            (34, "becbb3bccdb518a30677d5481fb6b4d8"),
        ] {
            let message: Vec<u8> = (0..len).collect();
            check(&MacScheme::AesXcbc, &key, &message, &hex(expected));
        }
        check(&MacScheme::AesXcbc, &key, &[0; 1000], &hex("f0dafee895db30253761103b5d84528f"));
    }

    fn sealed(scheme: &CipherScheme, key: &[u8], plain: &[u8]) -> Vec<u8> {
        let mut cipher = AllCiphers.cipher(scheme, Direction::Encrypt, key).unwrap();
        let mut out = vec![0; plain.len() + BLOCK];
        let len = cipher.update(plain, &mut out).unwrap();
        let len = len + cipher.finish(&mut out[len..]).unwrap();
        out.truncate(len);
        out
    }

    #[test]
    fn cbc_mac_is_the_last_block_of_cbc_over_zero_padding() {
        let key = [7; 24];
        for len in 1..66 {
            let message = &hex(&PLAIN.repeat(2))[..len];
            let mut padded = message.to_vec();
            padded.resize(len.next_multiple_of(BLOCK), 0);
            let encrypted = sealed(&CipherScheme::AesCbc { iv: [0; 16], padded: false }, &key, &padded);
            check(&MacScheme::AesCbcMac, &key, message, &encrypted[padded.len() - BLOCK..]);
        }
        // ISO/IEC 9797-1, 6.3.2: an empty message is padded to one block.
        check(&MacScheme::AesCbcMac, &key, b"", &sealed(&CipherScheme::AesEcb, &key, &[0; 16]));
    }

    #[test]
    fn gmac_is_the_tag_of_gcm_over_an_empty_message() {
        let iv: Box<[u8]> = [0; 12].into();
        let specification = hex("58e2fccefa7e3061367f1d57a4e7455a");
        check(&MacScheme::AesGmac { iv: iv.clone() }, &[0; 16], b"", &specification);
        for iv_len in [1, 12, 16, 256] {
            let iv: Box<[u8]> = vec![3; iv_len].into();
            let aad: Box<[u8]> = hex(PLAIN)[..45].into();
            let gcm = CipherScheme::Aead {
                cipher: AeadScheme::AesGcm,
                nonce: (&iv).into(),
                aad: aad.clone(),
                tag_len: 16,
                data_len: 0,
            };
            check(&MacScheme::AesGmac { iv }, &[5; 32], &aad, &sealed(&gcm, &[5; 32], b""));
        }
        for iv_len in [0, 257] {
            let refused = mac(&MacScheme::AesGmac { iv: vec![0; iv_len].into() }, &[0; 16]).err();
            assert_eq!(refused, Some(Error::MechanismParamInvalid));
        }
    }

    #[test]
    fn wrong_lengths_of_keys_are_refused() {
        let gmac = MacScheme::AesGmac { iv: [0; 12].into() };
        for scheme in [MacScheme::AesCmac, gmac, MacScheme::AesCbcMac, MacScheme::AesXcbc] {
            for len in [0, 8, 15, 17, 31, 33] {
                assert_eq!(mac(&scheme, &vec![0; len]).err(), Some(Error::KeySizeRange));
            }
        }
        for len in [24, 32] {
            assert_eq!(mac(&MacScheme::AesXcbc, &vec![0; len]).err(), Some(Error::KeySizeRange));
        }
    }
}
