//! The algorithms of keys and signatures, and the lengths of their outputs.

/// Defines an enum and the lists of its variants.
macro_rules! listed {
    ($(#[$meta:meta])* $type:ident { $($(#[$doc:meta])* $list:ident: $($variant:ident),+;)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are the standard's")]
        pub enum $type {
            $($($variant,)+)+
        }

        impl $type {
            $($(#[$doc])* pub const $list: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];)+
        }
    };
}

listed! {
    /// Elliptic curves for ECDSA (SP 800-186, RFC 5639).
    Curve {
        /// All curves.
        ALL: P224, P256, P384, P521, Secp256k1, BrainpoolP256r1, BrainpoolP256t1, BrainpoolP384r1,
            BrainpoolP384t1;
    }
}

impl Curve {
    /// Checks whether the curve is one of RFC 5639. Some backends do not support those.
    pub const fn is_brainpool(self) -> bool {
        matches!(
            self,
            Self::BrainpoolP256r1 | Self::BrainpoolP256t1 | Self::BrainpoolP384r1 | Self::BrainpoolP384t1
        )
    }

    /// Returns the size of the order in bits.
    pub const fn bits(self) -> usize {
        match self {
            Self::P224 => 224,
            Self::P256 | Self::Secp256k1 | Self::BrainpoolP256r1 | Self::BrainpoolP256t1 => 256,
            Self::P384 | Self::BrainpoolP384r1 | Self::BrainpoolP384t1 => 384,
            Self::P521 => 521,
        }
    }

    /// Returns the order of the group (SP 800-186; SEC 2, 2.4.1; RFC 5639, 3.4 and 3.6).
    pub(in crate::backend) const fn order(self) -> &'static [u8] {
        const fn hex<const N: usize>(digits: &[u8]) -> [u8; N] {
            assert!(digits.len() == 2 * N);
            let (mut bytes, mut at) = ([0; N], 0);
            while at < digits.len() {
                let digit = (digits[at] as char).to_digit(16).unwrap() as u8;
                bytes[at / 2] = bytes[at / 2] << 4 | digit;
                at += 1;
            }
            bytes
        }
        const P224: [u8; 28] = hex(b"ffffffffffffffffffffffffffff16a2e0b8f03e13dd29455c5c2a3d");
        const P256: [u8; 32] = hex(b"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
        const P384: [u8; 48] = hex(b"ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973");
        const P521: [u8; 66] = hex(b"01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409");
        const SECP256K1: [u8; 32] = hex(b"fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
        const BRAINPOOL_256: [u8; 32] =
            hex(b"a9fb57dba1eea9bc3e660a909d838d718c397aa3b561a6f7901e0e82974856a7");
        const BRAINPOOL_384: [u8; 48] = hex(b"8cb91e82a3386d280f5d6f7e50e641df152f7109ed5456b31f166e6cac0425a7cf3ab6af6b7fc3103b883202e9046565");
        match self {
            Self::P224 => &P224,
            Self::P256 => &P256,
            Self::P384 => &P384,
            Self::P521 => &P521,
            Self::Secp256k1 => &SECP256K1,
            Self::BrainpoolP256r1 | Self::BrainpoolP256t1 => &BRAINPOOL_256,
            Self::BrainpoolP384r1 | Self::BrainpoolP384t1 => &BRAINPOOL_384,
        }
    }

    /// Returns the length in bytes of a coordinate, of a scalar, and of half a signature.
    #[allow(clippy::len_without_is_empty, reason = "no scalar is empty")]
    pub const fn len(self) -> usize {
        self.bits().div_ceil(8)
    }
}

listed! {
    /// Parameter sets of ML-DSA (FIPS 204, table 1).
    MlDsa {
        /// All sets.
        ALL: MlDsa44, MlDsa65, MlDsa87;
    }
}

impl MlDsa {
    /// The length of a seed in bytes.
    pub const SEED_LEN: usize = 32;
    /// The length of the longest context in bytes.
    pub const MAX_CONTEXT: usize = 255;

    /// Returns the length of a public key in bytes.
    pub const fn public_len(self) -> usize {
        match self {
            Self::MlDsa44 => 1312,
            Self::MlDsa65 => 1952,
            Self::MlDsa87 => 2592,
        }
    }

    /// Returns the length of an expanded private key in bytes.
    pub const fn private_len(self) -> usize {
        match self {
            Self::MlDsa44 => 2560,
            Self::MlDsa65 => 4032,
            Self::MlDsa87 => 4896,
        }
    }

    /// Returns the length of a signature in bytes.
    pub const fn signature_len(self) -> usize {
        match self {
            Self::MlDsa44 => 2420,
            Self::MlDsa65 => 3309,
            Self::MlDsa87 => 4627,
        }
    }
}

listed! {
    /// Parameter sets of ML-KEM (FIPS 203, table 2).
    MlKem {
        /// All sets.
        ALL: MlKem512, MlKem768, MlKem1024;
    }
}

impl MlKem {
    /// The length of a seed (d || z) in bytes.
    pub const SEED_LEN: usize = 64;
    /// The length of the shared secret in bytes.
    pub const SECRET_LEN: usize = 32;

    /// Returns the length of an encapsulation key in bytes.
    pub const fn public_len(self) -> usize {
        match self {
            Self::MlKem512 => 800,
            Self::MlKem768 => 1184,
            Self::MlKem1024 => 1568,
        }
    }

    /// Returns the length of a decapsulation key in bytes.
    pub const fn private_len(self) -> usize {
        match self {
            Self::MlKem512 => 1632,
            Self::MlKem768 => 2400,
            Self::MlKem1024 => 3168,
        }
    }

    /// Returns the length of a ciphertext in bytes.
    pub const fn ciphertext_len(self) -> usize {
        match self {
            Self::MlKem512 => 768,
            Self::MlKem768 => 1088,
            Self::MlKem1024 => 1568,
        }
    }
}

listed! {
    /// Parameter sets of SLH-DSA (FIPS 205, table 2). The order is that of `CKP_SLH_DSA_*`.
    SlhDsa {
        /// All sets.
        ALL: Sha2_128s, Shake128s, Sha2_128f, Shake128f, Sha2_192s, Shake192s, Sha2_192f, Shake192f,
            Sha2_256s, Shake256s, Sha2_256f, Shake256f;
    }
}

impl SlhDsa {
    /// Returns the security parameter n in bytes. A public key has 2n bytes and a private key 4n.
    pub const fn n(self) -> usize {
        match self {
            Self::Sha2_128s | Self::Shake128s | Self::Sha2_128f | Self::Shake128f => 16,
            Self::Sha2_192s | Self::Shake192s | Self::Sha2_192f | Self::Shake192f => 24,
            Self::Sha2_256s | Self::Shake256s | Self::Sha2_256f | Self::Shake256f => 32,
        }
    }

    /// Returns the length of a signature in bytes.
    pub const fn signature_len(self) -> usize {
        match self {
            Self::Sha2_128s | Self::Shake128s => 7856,
            Self::Sha2_128f | Self::Shake128f => 17088,
            Self::Sha2_192s | Self::Shake192s => 16224,
            Self::Sha2_192f | Self::Shake192f => 35664,
            Self::Sha2_256s | Self::Shake256s => 29792,
            Self::Sha2_256f | Self::Shake256f => 49856,
        }
    }
}

/// Stateful hash-based signatures (SP 800-208). A key names its parameter set itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stateful {
    /// HSS with one or more levels of LMS (RFC 8554).
    Hss,
    /// XMSS (RFC 8391).
    Xmss,
    /// XMSS^MT (RFC 8391).
    XmssMt,
}
