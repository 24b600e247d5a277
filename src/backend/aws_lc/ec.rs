//! The NIST curves and secp256k1: ECDSA with signatures as r || s, and ECDH.

use std::sync::Arc;

use super::{ffi, output, verdict};
use crate::backend::{Curve, PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier};
use crate::error::{Error, Result};
use crate::secret::Secret;

pub(super) fn generate(curve: Curve) -> Result<(PublicParts, PrivateParts)> {
    let key = ffi::EcKey::generate(curve)?;
    let public = PublicParts::Ec { curve, point: key.point()? };
    Ok((public, PrivateParts::Ec { curve, scalar: key.scalar()? }))
}

/// A private key on a curve.
pub(super) struct Private {
    curve: Curve,
    key: ffi::EcKey,
}

impl Private {
    pub(super) fn parse(curve: Curve, scalar: &[u8]) -> Result<Self> {
        if scalar.len() != curve.len() {
            return Err(Error::DataInvalid);
        }
        Ok(Self { curve, key: ffi::EcKey::private(curve, scalar)? })
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::Ec { curve: self.curve, point: self.key.point()? })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        match scheme {
            Scheme::Ecdsa => Ok(Box::new(EcdsaSigner(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        // The first byte decides the length. AWS-LC checks the rest.
        let len = match peer.first() {
            Some(4) => 1 + 2 * self.curve.len(),
            Some(2 | 3) => 1 + self.curve.len(),
            _ => return Err(Error::DataInvalid),
        };
        if peer.len() != len {
            return Err(Error::DataInvalid);
        }
        self.key.agree(&ffi::EcKey::public(self.curve, peer)?)
    }
}

/// A public key on a curve.
pub(super) struct Public {
    curve: Curve,
    key: ffi::EcKey,
}

impl Public {
    pub(super) fn parse(curve: Curve, point: &[u8]) -> Result<Self> {
        // AWS-LC would also accept compressed points.
        if point.len() != 1 + 2 * curve.len() || point[0] != 4 {
            return Err(Error::DataInvalid);
        }
        Ok(Self { curve, key: ffi::EcKey::public(curve, point)? })
    }
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        match scheme {
            Scheme::Ecdsa => Ok(Box::new(EcdsaVerifier { key: self, signature: ffi::EcdsaSig::new()? })),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct EcdsaSigner(Arc<Private>);

impl Signer for EcdsaSigner {
    fn signature_len(&self) -> usize {
        2 * self.0.curve.len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let len = self.0.curve.len();
        let (r, s) = output(out, 2 * len)?.split_at_mut(len);
        self.0.key.sign(input, r, s)
    }
}

struct EcdsaVerifier {
    key: Arc<Public>,
    signature: ffi::EcdsaSig,
}

impl Verifier for EcdsaVerifier {
    fn signature_len(&self) -> usize {
        2 * self.key.curve.len()
    }

    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let len = signature.len();
        if len == 0 || len > self.signature_len() || !len.is_multiple_of(2) {
            return Err(Error::SignatureLenRange);
        }
        let (r, s) = signature.split_at(len / 2);
        self.signature.set(r, s)?;
        verdict(self.key.key.verify(input, &self.signature))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{generate, hex, sign, verifier, verify};
    use super::*;
    use crate::backend::{Hash, PairSpec};

    /// RFC 6979, A.2.4 to A.2.7, message "sample": private key, hash, r, s.
    const RFC_6979: [(Curve, &str, Hash, &str, &str); 4] = [
        (
            Curve::P224,
            "F220266E1105BFE3083E03EC7A3A654651F45E37167E88600BF257C1",
            Hash::Sha256,
            "61AA3DA010E8E8406C656BC477A7A7189895E7E840CDFE8FF42307BA",
            "BC814050DAB5D23770879494F9E0A680DC1AF7161991BDE692B10101",
        ),
        (
            Curve::P256,
            "C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721",
            Hash::Sha256,
            "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716",
            "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8",
        ),
        (
            Curve::P384,
            "6B9D3DAD2E1B8C1C05B19875B6659F4DE23C3B667BF297BA9AA47740787137D8\
             96D5724E4C70A825F872C9EA60D2EDF5",
            Hash::Sha384,
            "94EDBB92A5ECB8AAD4736E56C691916B3F88140666CE9FA73D64C4EA95AD133C\
             81A648152E44ACF96E36DD1E80FABE46",
            "99EF4AEB15F178CEA1FE40DB2603138F130E740A19624526203B6351D0A3A94F\
             A329C145786E679E7B82C71A38628AC8",
        ),
        (
            Curve::P521,
            "00FAD06DAA62BA3B25D2FB40133DA757205DE67F5BB0018FEE8C86E1B68C7E75\
             CAA896EB32F1F47C70855836A6D16FCC1466F6D8FBEC67DB89EC0C08B0E996B83538",
            Hash::Sha512,
            "00C328FAFCBD79DD77850370C46325D987CB525569FB63C5D3BC53950E6D4C5F\
             174E25A1EE9017B5D450606ADD152B534931D7D4E8455CC91F9B15BF05EC36E377FA",
            "00617CCE7CF5064806C467F678D3B4080D6F1CC50AF26CA209417308281B68AF\
             282623EAA63E5B5C0723D8B8C37FF0777B1A20F8CCB1DCCC43997F1EE0E44DA4A67A",
        ),
    ];

    /// Returns the curves that AWS-LC itself supports.
    fn own_curves() -> impl Iterator<Item = Curve> {
        Curve::ALL.into_iter().filter(|curve| !curve.is_brainpool())
    }

    /// The order of P-256 (SP 800-186).
    const P256_ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";

    #[test]
    fn published_signatures_verify_with_the_derived_public_key() {
        for (curve, scalar, hash, r, s) in RFC_6979 {
            let key = Private::parse(curve, &hex(scalar)).unwrap();
            let mut digest = vec![0; hash.len()];
            super::super::PROVIDER.digest.hash(hash, b"sample", &mut digest).unwrap();
            let signature = [hex(r), hex(s)].concat();
            verify(&key.public().unwrap(), &Scheme::Ecdsa, &digest, &signature).unwrap();
        }
    }

    #[test]
    fn the_public_key_is_the_published_one() {
        let PublicParts::Ec { point, .. } =
            Private::parse(Curve::P256, &hex(RFC_6979[1].1)).unwrap().public().unwrap()
        else {
            panic!("not EC")
        };
        let x = "60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6";
        let y = "7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299";
        assert_eq!(point, hex(&format!("04{x}{y}")));
    }

    #[test]
    fn digests_of_every_length_are_signed_and_truncated_to_the_order() {
        for curve in own_curves() {
            let (public, private) = generate(PairSpec::Ec(curve));
            for len in [0, 1, 20, 32, 48, 64, 66, 67, 200] {
                let digest: Vec<u8> = (1..=len).collect();
                let signature = sign(&private, &Scheme::Ecdsa, &digest).unwrap();
                assert_eq!(signature.len(), 2 * curve.len());
                verify(&public, &Scheme::Ecdsa, &digest, &signature).unwrap();
            }
            let mut long = [5; 100];
            let signature = sign(&private, &Scheme::Ecdsa, &long).unwrap();
            long[curve.len()] ^= 0xff;
            verify(&public, &Scheme::Ecdsa, &long, &signature).unwrap();
            long[0] ^= 0xff;
            assert_eq!(verify(&public, &Scheme::Ecdsa, &long, &signature), Err(Error::SignatureInvalid));
        }
    }

    #[test]
    fn a_changed_bit_another_key_and_a_number_out_of_range_are_refused() {
        let (public, private) = generate(PairSpec::Ec(Curve::P256));
        let (other, _) = generate(PairSpec::Ec(Curve::P256));
        let signature = sign(&private, &Scheme::Ecdsa, &[1; 32]).unwrap();
        let wrong = Err(Error::SignatureInvalid);
        assert_eq!(verify(&other, &Scheme::Ecdsa, &[1; 32], &signature), wrong);
        for byte in [0, 31, 32, 63] {
            let mut changed = signature.clone();
            changed[byte] ^= 1;
            assert_eq!(verify(&public, &Scheme::Ecdsa, &[1; 32], &changed), wrong);
        }
        for number in [vec![0; 32], hex(P256_ORDER), vec![0xff; 32]] {
            let (r, s) = signature.split_at(32);
            assert_eq!(verify(&public, &Scheme::Ecdsa, &[1; 32], &[&number, s].concat()), wrong);
            assert_eq!(verify(&public, &Scheme::Ecdsa, &[1; 32], &[r, &number].concat()), wrong);
        }
    }

    #[test]
    fn shorter_halves_verify_and_other_lengths_are_refused() {
        let (public, private) = generate(PairSpec::Ec(Curve::P521));
        let mut verifier = verifier(&public, &Scheme::Ecdsa).unwrap();
        // The top byte of a P-521 number has one bit. In a quarter of all signatures it is zero in
        // both numbers.
        let short = (0..200).find_map(|_| {
            let signature = sign(&private, &Scheme::Ecdsa, &[1; 32]).unwrap();
            let (r, s) = signature.split_at(66);
            (r[0] == 0 && s[0] == 0).then(|| [&r[1..], &s[1..]].concat())
        });
        verifier.verify(&[1; 32], &short.unwrap()).unwrap();
        for len in [0, 1, 131, 133, 134] {
            assert_eq!(verifier.verify(&[1; 32], &vec![1; len]), Err(Error::SignatureLenRange));
        }
    }

    #[test]
    fn scalars_outside_one_to_the_order_minus_one_are_refused() {
        let mut order = hex(P256_ORDER);
        for scalar in [&[0; 32][..], &order, &[0xff; 32], &[1; 31], &[1; 33], &[]] {
            assert_eq!(Private::parse(Curve::P256, scalar).err(), Some(Error::DataInvalid));
        }
        order[31] -= 1;
        let mut one = [0; 32];
        one[31] = 1;
        for scalar in [&order[..], &one] {
            let private = PrivateParts::Ec { curve: Curve::P256, scalar: Secret::from(scalar) };
            let signature = sign(&private, &Scheme::Ecdsa, &[1; 32]).unwrap();
            let public = Private::parse(Curve::P256, scalar).unwrap().public().unwrap();
            verify(&public, &Scheme::Ecdsa, &[1; 32], &signature).unwrap();
        }
    }

    #[test]
    fn points_off_the_curve_out_of_range_at_infinity_or_compressed_are_refused() {
        for curve in own_curves() {
            let (PublicParts::Ec { point, .. }, _) = generate(PairSpec::Ec(curve)) else { panic!("not EC") };
            Public::parse(curve, &point).unwrap();
            let half = 1 + curve.len();
            let mut off = point.clone();
            off[2 * curve.len()] ^= 1;
            let compressed = [&[2 | point[2 * curve.len()] & 1], &point[1..half]].concat();
            let hybrid = [&[6 | point[2 * curve.len()] & 1], &point[1..]].concat();
            let out_of_range = [&[4][..], &vec![0xff; curve.len()], &point[half..]].concat();
            let zero = [&[4][..], &vec![0; 2 * curve.len()]].concat();
            for bad in [&off[..], &compressed, &hybrid, &out_of_range, &zero, &point[1..], &[0], &[]] {
                assert_eq!(Public::parse(curve, bad).err(), Some(Error::DataInvalid), "{curve:?}");
            }
        }
    }

    #[test]
    fn secp256k1_signature_verifies_with_the_derived_public_key() {
        // The RFC 6979 vector of the Bitcoin developers with the key 1.
        let mut one = [0; 32];
        one[31] = 1;
        let public = Private::parse(Curve::Secp256k1, &one).unwrap().public().unwrap();
        let mut digest = [0; 32];
        super::super::PROVIDER.digest.hash(Hash::Sha256, b"Satoshi Nakamoto", &mut digest).unwrap();
        let signature = hex("934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8\
             2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5");
        verify(&public, &Scheme::Ecdsa, &digest, &signature).unwrap();
    }

    #[test]
    fn rfc_5903_diffie_hellman() {
        let i = hex("C88F01F510D9AC3F70A292DAA2316DE544E9AAB8AFE84049C62A9C57862D1433");
        let r = hex("C6EF9C5D78AE012A011164ACB397CE2088685D8F06BF9BE0B283AB46476BEE53");
        let secret = hex("D6840F6B42F6EDAFD13116E0E12565202FEF8E9ECE7DCE03812464D04B9442DE");
        let [i, r] = [i, r].map(|scalar| Private::parse(Curve::P256, &scalar).unwrap());
        assert_eq!(i.agree(&r.key.point().unwrap()).unwrap()[..], secret);
        assert_eq!(r.agree(&i.key.point().unwrap()).unwrap()[..], secret);
    }

    #[test]
    fn the_point_of_a_peer_may_be_compressed_but_must_be_valid() {
        for curve in own_curves() {
            let pair = || {
                let (PublicParts::Ec { point, .. }, PrivateParts::Ec { scalar, .. }) =
                    generate(PairSpec::Ec(curve))
                else {
                    panic!("not EC")
                };
                (point, Private::parse(curve, &scalar).unwrap())
            };
            let ((point, own), (_, other)) = (pair(), pair());
            let len = curve.len();
            let compressed = [&[2 | point[2 * len] & 1], &point[1..=len]].concat();
            let secret = other.agree(&point).unwrap();
            assert_eq!(secret.len(), len);
            assert_eq!(other.agree(&compressed).unwrap()[..], secret[..]);
            assert_eq!(own.agree(&other.key.point().unwrap()).unwrap()[..], secret[..]);

            let mut off = point.clone();
            off[2 * len] ^= 1;
            let hybrid = [&[6 | point[2 * len] & 1], &point[1..]].concat();
            let out_of_range = [&[2][..], &vec![0xff; len]].concat();
            for bad in [&off[..], &hybrid, &out_of_range, &point[1..], &point[..len], &[0], &[]] {
                assert_eq!(own.agree(bad).err(), Some(Error::DataInvalid), "{curve:?}");
            }
        }
    }
}
