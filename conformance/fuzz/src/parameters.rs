//! Mechanisms and their parameters: each structure of the standard with arbitrary values in its
//! fields, and sometimes with a wrong length.

use std::ffi::c_void;
use std::ptr::null_mut;

use cryptoki_sys::*;
use jeton::backend::{AeadScheme, CipherMode};
use jeton::id::MechanismType;
use jeton::mechanism::sp800_108::Kdf;
use jeton::mechanism::{self, Shape};

use crate::run::Run;

const HASHES: [CK_MECHANISM_TYPE; 6] =
    [CKM_SHA256, CKM_SHA_1, CKM_SHA512, CKM_SHA3_256, CKM_SHA384, CKM_SHA224];
const PRFS: [CK_MECHANISM_TYPE; 5] =
    [CKM_SHA256_HMAC, CKM_AES_CMAC, CKM_AES_XCBC_MAC, CKM_SHA_1_HMAC, CKM_SHA512_HMAC];
const AEADS: [CK_MECHANISM_TYPE; 3] = [CKM_AES_GCM, CKM_AES_CCM, CKM_CHACHA20_POLY1305];
const TAGS: [CK_ULONG; 8] = [128, 96, 32, 64, 16, 12, 4, 8];

/// The bytes of a structure, and their number.
type Parameter = (*mut u8, usize);

impl Run<'_> {
    /// Returns a mechanism, or `NULL`, which ends an operation.
    pub(crate) fn mechanism(&mut self) -> *mut CK_MECHANISM {
        if self.source.once_in(32) {
            return null_mut();
        }
        let mechanism = self.mechanism_number();
        let (parameter, len) = match mechanism::find(MechanismType(mechanism)) {
            Some(row) if !self.source.once_in(32) => self.shaped(row.shape),
            _ => self.plain(),
        };
        let (pParameter, ulParameterLen) = self.cut(parameter, len);
        self.memory.put(CK_MECHANISM { mechanism, pParameter, ulParameterLen })
    }

    /// Returns the parameter of a message. [`len`](Self::len) returns its length.
    pub(crate) fn parameter(&mut self) -> *mut c_void {
        let (parameter, len) = match self.source.below(8) {
            0 => (null_mut(), 0),
            1..4 => self.gcm_message(),
            4..6 => self.ccm_message(),
            _ => self.poly1305_message(),
        };
        let (parameter, len) = self.cut(parameter, len);
        self.next_len = len;
        parameter
    }

    /// Returns a mechanism of message-based functions, with the parameter of a message.
    pub(crate) fn message_mechanism(&mut self) -> *mut CK_MECHANISM {
        let mechanism = if self.source.once_in(16) { CKM_AES_CBC } else { self.source.one(&AEADS) };
        let pParameter = self.parameter();
        self.memory.put(CK_MECHANISM { mechanism, pParameter, ulParameterLen: self.next_len })
    }

    /// Returns a mechanism for authenticated wrapping. An AEAD cipher gets the parameter of a
    /// message. Another structure of the same length is not allowed, because it may have a number
    /// where the module reads a pointer.
    pub(crate) fn wrapping_mechanism(&mut self) -> *mut CK_MECHANISM {
        let given = self.mechanism();
        // SAFETY: NULL, or made just now.
        let taken = !given.is_null() && AEADS.contains(&unsafe { given.read_unaligned() }.mechanism);
        if taken || self.source.once_in(2) { self.message_mechanism() } else { given }
    }

    pub(crate) fn mechanism_number(&mut self) -> CK_MECHANISM_TYPE {
        if self.source.once_in(64) {
            return self.source.number();
        }
        let index = self.source.below(self.token.mechanisms.len());
        self.token.mechanisms[index]
    }

    /// Returns the parameter, usually unchanged. A length that is shorter than the structure is
    /// odd. No structure has an odd length, so the module reads no pointer from such a parameter.
    fn cut(&mut self, parameter: *mut u8, len: usize) -> (*mut c_void, CK_ULONG) {
        let len = match self.source.below(32) {
            29 => CK_ULONG::MAX - CK_ULONG::from(self.source.byte()),
            30 => return (null_mut(), self.source.number()),
            31 if len > 2 => (self.source.below(len - 1) | 1) as CK_ULONG,
            _ => len as CK_ULONG,
        };
        (parameter.cast(), len)
    }

    fn put<T: Copy>(&mut self, value: T) -> Parameter {
        (self.memory.put(value).cast(), size_of::<T>())
    }

    /// Returns an odd number of bytes. The module reads no pointer from them, because structures
    /// with pointers are a whole number of words.
    fn plain(&mut self) -> Parameter {
        let mut bytes = self.source.bytes();
        if bytes.len().is_multiple_of(2) {
            bytes.push(0);
        }
        (self.memory.copy(&bytes), bytes.len())
    }

    fn flat(&mut self, len: usize) -> Parameter {
        let mut bytes = self.source.bytes();
        if !self.source.once_in(16) {
            bytes.resize(len, 0);
        }
        (self.memory.copy(&bytes), bytes.len())
    }

    fn hash(&mut self) -> CK_MECHANISM_TYPE {
        if self.source.once_in(8) { self.mechanism_number() } else { self.source.one(&HASHES) }
    }

    fn prf(&mut self) -> CK_MECHANISM_TYPE {
        if self.source.once_in(8) { self.mechanism_number() } else { self.source.one(&PRFS) }
    }

    fn tag(&mut self) -> CK_ULONG {
        if self.source.once_in(8) { self.source.number() } else { self.source.one(&TAGS) }
    }

    fn shaped(&mut self, shape: Shape) -> Parameter {
        match shape {
            Shape::None => (null_mut(), 0),
            Shape::Gmac => self.flat(12),
            Shape::Integer => self.flat(128),
            Shape::Version => self.flat(2),
            Shape::Length | Shape::Bit => {
                let number = self.source.number();
                self.put(number)
            }
            Shape::Key => {
                let key = self.object();
                self.put(key)
            }
            Shape::Pss | Shape::Oaep | Shape::RsaAesWrap => self.rsa(shape),
            Shape::Eddsa | Shape::SignContext | Shape::HashSignContext => self.context(shape),
            Shape::Cipher(mode) => self.cipher(mode),
            Shape::Ecdh | Shape::EcdhAesWrap | Shape::Hkdf | Shape::Data | Shape::CbcData => {
                self.derivation(shape)
            }
            Shape::Otp => self.otp(),
            Shape::Sp800_108(kdf) => self.sp800_108(kdf),
            Shape::Pbkdf2 => self.pbkdf2(),
            Shape::IkePrf | Shape::Ike1Prf | Shape::Ike1Extended | Shape::Ike2PrfPlus => self.ike(shape),
            _ => self.tls(shape),
        }
    }

    fn rsa(&mut self, shape: Shape) -> Parameter {
        let (hashAlg, mgf) = (self.hash(), self.source.below(12) as CK_ULONG);
        if shape == Shape::Pss {
            let sLen = self.source.number();
            return self.put(CK_RSA_PKCS_PSS_PARAMS { hashAlg, mgf, sLen });
        }
        let source = self.source.below(3) as CK_ULONG;
        let (label, ulSourceDataLen) = self.input();
        let oaep =
            CK_RSA_PKCS_OAEP_PARAMS { hashAlg, mgf, source, pSourceData: label.cast(), ulSourceDataLen };
        if shape == Shape::Oaep {
            return self.put(oaep);
        }
        let ulAESKeyBits = self.key_bits();
        let pOAEPParams = if self.source.once_in(16) { null_mut() } else { self.memory.put(oaep) };
        self.put(CK_RSA_AES_KEY_WRAP_PARAMS { ulAESKeyBits, pOAEPParams })
    }

    fn key_bits(&mut self) -> CK_ULONG {
        if self.source.once_in(16) { self.source.number() } else { self.source.one(&[128, 192, 256]) }
    }

    fn context(&mut self, shape: Shape) -> Parameter {
        let (pContext, ulContextLen) = self.input();
        let hedgeVariant = self.source.below(4) as CK_ULONG;
        match shape {
            Shape::Eddsa => {
                let phFlag = self.source.boolean();
                self.put(CK_EDDSA_PARAMS { phFlag, ulContextDataLen: ulContextLen, pContextData: pContext })
            }
            Shape::SignContext => {
                self.put(CK_SIGN_ADDITIONAL_CONTEXT { hedgeVariant, pContext, ulContextLen })
            }
            _ => {
                let hash = self.hash();
                self.put(CK_HASH_SIGN_ADDITIONAL_CONTEXT { hedgeVariant, pContext, ulContextLen, hash })
            }
        }
    }

    fn cipher(&mut self, mode: CipherMode) -> Parameter {
        let iv = (0..=16).rev().find(|len| mode.scheme(&[0; 16][..*len]).is_ok());
        match (mode, iv) {
            (CipherMode::Aead(cipher), _) => self.aead(cipher),
            (CipherMode::AesCtr, _) => {
                let bits = self.source.number();
                self.put(CK_AES_CTR_PARAMS { ulCounterBits: bits, cb: [255; 16] })
            }
            (CipherMode::ChaCha20, _) => {
                let (counter, nonce) = self.source.one(&[(64, 64), (32, 96), (32, 64), (0, 0)]);
                let (pBlockCounter, pNonce) = (self.memory.copy(&[255; 8]), self.memory.copy(&[1; 12]));
                self.put(CK_CHACHA20_PARAMS {
                    pBlockCounter,
                    blockCounterBits: counter,
                    pNonce,
                    ulNonceBits: nonce,
                })
            }
            (_, Some(len)) if len > 0 => self.flat(len),
            _ => (null_mut(), 0),
        }
    }

    fn aead(&mut self, cipher: AeadScheme) -> Parameter {
        let ((pIv, ulIvLen), (pAAD, ulAADLen), tag) = (self.nonce(), self.input(), self.tag());
        match cipher {
            AeadScheme::AesGcm if self.source.once_in(4) => {
                // `CK_GCM_PARAMS` without the field `ulIvBits`, as in the first text of 2.40.
                let words =
                    [pIv.expose_provenance() as CK_ULONG, ulIvLen, pAAD.expose_provenance() as CK_ULONG];
                self.put([words[0], words[1], words[2], ulAADLen, tag])
            }
            AeadScheme::AesGcm if self.source.once_in(4) => {
                let (ivGenerator, ulIvFixedBits) = self.generator();
                self.put(CK_GCM_WRAP_PARAMS {
                    pIv,
                    ulIvLen,
                    ulIvFixedBits,
                    ivGenerator,
                    pAAD,
                    ulAADLen,
                    ulTagBits: tag,
                })
            }
            AeadScheme::AesGcm => {
                let ulIvBits = if self.source.once_in(8) { self.source.number() } else { 0 };
                self.put(CK_GCM_PARAMS { pIv, ulIvLen, ulIvBits, pAAD, ulAADLen, ulTagBits: tag })
            }
            AeadScheme::AesCcm => {
                let ulDataLen = self.announced();
                let (pNonce, ulNonceLen, ulMACLen) = (pIv, ulIvLen, tag);
                if self.source.once_in(4) {
                    let (nonceGenerator, ulNonceFixedBits) = self.generator();
                    return self.put(CK_CCM_WRAP_PARAMS {
                        ulDataLen,
                        pNonce,
                        ulNonceLen,
                        ulNonceFixedBits,
                        nonceGenerator,
                        pAAD,
                        ulAADLen,
                        ulMACLen,
                    });
                }
                self.put(CK_CCM_PARAMS { ulDataLen, pNonce, ulNonceLen, pAAD, ulAADLen, ulMACLen })
            }
            AeadScheme::ChaCha20Poly1305 => {
                let (pNonce, ulNonceLen) = self.poly1305_nonce();
                self.put(CK_SALSA20_CHACHA20_POLY1305_PARAMS { pNonce, ulNonceLen, pAAD, ulAADLen })
            }
        }
    }

    /// Returns the announced length of a message: usually a small one.
    fn announced(&mut self) -> CK_ULONG {
        if self.source.once_in(4) { self.source.number() } else { self.source.byte().into() }
    }

    fn nonce(&mut self) -> (*mut u8, CK_ULONG) {
        if self.source.once_in(4) {
            return self.input();
        }
        let len = self.source.one(&[12, 13, 7, 16, 1]);
        (self.memory.copy(&vec![0; len]), len as CK_ULONG)
    }

    fn poly1305_nonce(&mut self) -> (*mut u8, CK_ULONG) {
        let len = if self.source.once_in(8) { self.source.number() } else { self.source.one(&[12, 96]) };
        (self.memory.copy(&[0; 12]), len)
    }

    fn generator(&mut self) -> (CK_GENERATOR_FUNCTION, CK_ULONG) {
        (self.source.below(6) as CK_ULONG, self.source.number())
    }

    /// Returns memory for a tag, which is at most 16 bytes long, or `NULL`.
    fn tag_place(&mut self) -> *mut u8 {
        if self.source.once_in(16) { null_mut() } else { self.memory.copy(&[0; 16]) }
    }

    fn gcm_message(&mut self) -> Parameter {
        let ((pIv, ulIvLen), (ivGenerator, ulIvFixedBits)) = (self.nonce(), self.generator());
        let (pTag, ulTagBits) = (self.tag_place(), self.tag());
        self.put(CK_GCM_MESSAGE_PARAMS { pIv, ulIvLen, ulIvFixedBits, ivGenerator, pTag, ulTagBits })
    }

    fn ccm_message(&mut self) -> Parameter {
        let ((pNonce, ulNonceLen), (nonceGenerator, ulNonceFixedBits)) = (self.nonce(), self.generator());
        let (pMAC, ulMACLen, ulDataLen) = (self.tag_place(), self.tag(), self.announced());
        self.put(CK_CCM_MESSAGE_PARAMS {
            ulDataLen,
            pNonce,
            ulNonceLen,
            ulNonceFixedBits,
            nonceGenerator,
            pMAC,
            ulMACLen,
        })
    }

    fn poly1305_message(&mut self) -> Parameter {
        let ((pNonce, ulNonceLen), pTag) = (self.poly1305_nonce(), self.tag_place());
        self.put(CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS { pNonce, ulNonceLen, pTag })
    }

    fn derivation(&mut self, shape: Shape) -> Parameter {
        let (data, len) = self.input();
        let kdf = self.source.below(18) as CK_ULONG;
        match shape {
            Shape::Ecdh => {
                let (pPublicData, ulPublicDataLen) = self.peer();
                self.put(CK_ECDH1_DERIVE_PARAMS {
                    kdf,
                    ulSharedDataLen: len,
                    pSharedData: data,
                    ulPublicDataLen,
                    pPublicData,
                })
            }
            Shape::EcdhAesWrap => {
                let ulAESKeyBits = self.key_bits();
                self.put(CK_ECDH_AES_KEY_WRAP_PARAMS {
                    ulAESKeyBits,
                    kdf,
                    ulSharedDataLen: len,
                    pSharedData: data,
                })
            }
            Shape::Hkdf => {
                let (pInfo, ulInfoLen) = self.input();
                let (bExtract, bExpand) = (self.source.boolean(), self.source.boolean());
                let (prfHashMechanism, hSaltKey) = (self.hash(), self.object());
                let ulSaltType =
                    self.source.one(&[CKF_HKDF_SALT_NULL, CKF_HKDF_SALT_DATA, CKF_HKDF_SALT_KEY, 0]);
                self.put(CK_HKDF_PARAMS {
                    bExtract,
                    bExpand,
                    prfHashMechanism,
                    ulSaltType,
                    pSalt: data,
                    ulSaltLen: len,
                    hSaltKey,
                    pInfo,
                    ulInfoLen,
                })
            }
            Shape::Data => self.put(CK_KEY_DERIVATION_STRING_DATA { pData: data, ulLen: len }),
            _ => self.put(CK_AES_CBC_ENCRYPT_DATA_PARAMS { iv: [3; 16], pData: data, length: len }),
        }
    }

    /// Returns a public key of the token, sometimes altered, or other bytes.
    fn peer(&mut self) -> (*mut u8, CK_ULONG) {
        if self.source.once_in(2) {
            return self.input();
        }
        let index = self.source.below(self.token.points.len());
        let mut point = self.token.points[index].clone();
        if self.source.once_in(4) {
            let at = self.source.below(point.len());
            point[at] ^= self.source.byte();
        }
        (self.memory.copy(&point), point.len() as CK_ULONG)
    }

    fn otp(&mut self) -> Parameter {
        let params: Vec<_> = (0..self.source.below(4))
            .map(|_| {
                let type_ = self.source.below(9) as CK_ULONG;
                let (pValue, ulValueLen) =
                    if self.source.once_in(2) { self.input() } else { self.number_at() };
                CK_OTP_PARAM { type_, pValue: pValue.cast(), ulValueLen }
            })
            .collect();
        let pParams = if params.is_empty() { null_mut() } else { self.memory.put_all(&params) };
        let ulCount = if self.source.once_in(16) { 17 } else { params.len() as CK_ULONG };
        self.put(CK_OTP_PARAMS { pParams, ulCount })
    }

    fn number_at(&mut self) -> (*mut u8, CK_ULONG) {
        let number = self.source.number();
        (self.memory.put(number).cast(), size_of::<CK_ULONG>() as CK_ULONG)
    }

    fn sp800_108(&mut self, kdf: Kdf) -> Parameter {
        let prfType = self.prf();
        let fields: Vec<_> = (0..self.source.below(5)).map(|_| self.field()).collect();
        let keys: Vec<_> = (0..self.source.below(3)).map(|_| self.derived_key()).collect();
        let (pIV, ulIVLen) = self.input();
        let (ulNumberOfDataParams, ulAdditionalDerivedKeys) =
            (fields.len() as CK_ULONG, keys.len() as CK_ULONG);
        let pDataParams = if fields.is_empty() { null_mut() } else { self.memory.put_all(&fields) };
        let pAdditionalDerivedKeys = if keys.is_empty() { null_mut() } else { self.memory.put_all(&keys) };
        if kdf == Kdf::Feedback {
            return self.put(CK_SP800_108_FEEDBACK_KDF_PARAMS {
                prfType,
                ulNumberOfDataParams,
                pDataParams,
                ulIVLen,
                pIV,
                ulAdditionalDerivedKeys,
                pAdditionalDerivedKeys,
            });
        }
        self.put(CK_SP800_108_KDF_PARAMS {
            prfType,
            ulNumberOfDataParams,
            pDataParams,
            ulAdditionalDerivedKeys,
            pAdditionalDerivedKeys,
        })
    }

    fn field(&mut self) -> CK_PRF_DATA_PARAM {
        let type_ = self.source.below(7) as CK_ULONG;
        let (bLittleEndian, ulWidthInBits) =
            (self.source.boolean(), CK_ULONG::from(self.source.byte() & 0x48));
        let (pValue, len) = match self.source.below(5) {
            0 => self.input_word(),
            1 => (null_mut(), 0),
            2 => self.put(CK_SP800_108_COUNTER_FORMAT { bLittleEndian, ulWidthInBits }),
            3 => {
                let dkmLengthMethod = self.source.below(4) as CK_ULONG;
                self.put(CK_SP800_108_DKM_LENGTH_FORMAT { dkmLengthMethod, bLittleEndian, ulWidthInBits })
            }
            _ => {
                let key = self.object();
                self.put(key)
            }
        };
        CK_PRF_DATA_PARAM { type_, pValue: pValue.cast(), ulValueLen: len as CK_ULONG }
    }

    fn input_word(&mut self) -> Parameter {
        let (pointer, len) = self.input();
        (pointer, len as usize)
    }

    fn derived_key(&mut self) -> CK_DERIVED_KEY {
        let pTemplate = self.attributes();
        let ulAttributeCount = self.len();
        CK_DERIVED_KEY { pTemplate, ulAttributeCount, phKey: self.handle() }
    }

    fn pbkdf2(&mut self) -> Parameter {
        let ((salt, ulSaltSourceDataLen), password) = (self.input(), self.source.bytes());
        let (saltSource, prf) = (self.source.below(3) as CK_ULONG, self.source.below(10) as CK_ULONG);
        // A number of iterations that a run has time for, or a number that the module refuses.
        let iterations = self.source.one(&[1, 2, 100, 0, 10_000_001, CK_ULONG::MAX]);
        let pPassword = self.memory.copy(&password);
        // The older structure has a pointer to the length here.
        let ulPasswordLen = if self.source.once_in(4) {
            let place = Box::leak(Box::new(0 as CK_ULONG));
            *place = password.len() as CK_ULONG;
            self.lengths.push(place);
            std::ptr::from_mut(place).expose_provenance() as CK_ULONG
        } else {
            password.len() as CK_ULONG
        };
        let ulPrfDataLen = if self.source.once_in(16) { 1 } else { 0 };
        self.put(CK_PKCS5_PBKD2_PARAMS2 {
            saltSource,
            pSaltSourceData: salt.cast(),
            ulSaltSourceDataLen,
            iterations,
            prf,
            pPrfData: null_mut(),
            ulPrfDataLen,
            pPassword,
            ulPasswordLen,
        })
    }

    fn ike(&mut self, shape: Shape) -> Parameter {
        let ((first, first_len), (second, second_len)) = (self.input(), self.input());
        let (prfMechanism, flag, other) = (self.prf(), self.source.boolean(), self.source.boolean());
        let (key, previous) = (self.object(), self.object());
        match shape {
            Shape::IkePrf => self.put(CK_IKE_PRF_DERIVE_PARAMS {
                prfMechanism,
                bDataAsKey: flag,
                bRekey: other,
                pNi: first,
                ulNiLen: first_len,
                pNr: second,
                ulNrLen: second_len,
                hNewKey: key,
            }),
            Shape::Ike1Prf => {
                let keyNumber = self.source.byte();
                self.put(CK_IKE1_PRF_DERIVE_PARAMS {
                    prfMechanism,
                    bHasPrevKey: flag,
                    hKeygxy: key,
                    hPrevKey: previous,
                    pCKYi: first,
                    ulCKYiLen: first_len,
                    pCKYr: second,
                    ulCKYrLen: second_len,
                    keyNumber,
                })
            }
            Shape::Ike1Extended => self.put(CK_IKE1_EXTENDED_DERIVE_PARAMS {
                prfMechanism,
                bHasKeygxy: flag,
                hKeygxy: key,
                pExtraData: first,
                ulExtraDataLen: first_len,
            }),
            _ => self.put(CK_IKE2_PRF_PLUS_DERIVE_PARAMS {
                prfMechanism,
                bHasSeedKey: flag,
                hSeedKey: key,
                pSeedData: first,
                ulSeedDataLen: first_len,
            }),
        }
    }

    fn tls(&mut self, shape: Shape) -> Parameter {
        let ((client, client_len), (server, server_len)) = (self.input(), self.input());
        let RandomInfo = CK_SSL3_RANDOM_DATA {
            pClientRandom: client,
            ulClientRandomLen: client_len,
            pServerRandom: server,
            ulServerRandomLen: server_len,
        };
        let (pVersion, prfHashMechanism) = (self.info::<CK_VERSION>(), self.hash());
        match shape {
            Shape::TlsMaster => self.put(CK_SSL3_MASTER_KEY_DERIVE_PARAMS { RandomInfo, pVersion }),
            Shape::Tls12Master => {
                self.put(CK_TLS12_MASTER_KEY_DERIVE_PARAMS { RandomInfo, pVersion, prfHashMechanism })
            }
            Shape::Tls12ExtendedMaster => self.put(CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS {
                prfHashMechanism,
                pSessionHash: client,
                ulSessionHashLen: client_len,
                pVersion,
            }),
            Shape::TlsKdf => {
                let (pContextData, ulContextDataLength) = self.input();
                let (pLabel, ulLabelLength) = self.input();
                let prfMechanism = if self.source.once_in(4) { CKM_TLS_PRF } else { prfHashMechanism };
                self.put(CK_TLS_KDF_PARAMS {
                    prfMechanism,
                    pLabel,
                    ulLabelLength,
                    RandomInfo,
                    pContextData,
                    ulContextDataLength,
                })
            }
            Shape::TlsMac => {
                let (ulMacLength, ulServerOrClient) =
                    (self.source.number(), self.source.below(4) as CK_ULONG);
                let prfHashMechanism = if self.source.once_in(4) { CKM_TLS_PRF } else { prfHashMechanism };
                self.put(CK_TLS_MAC_PARAMS { prfHashMechanism, ulMacLength, ulServerOrClient })
            }
            Shape::TlsPrf => {
                let (pOutput, pulOutputLen) = (self.room(), self.room_len());
                self.put(CK_TLS_PRF_PARAMS {
                    pSeed: client,
                    ulSeedLen: client_len,
                    pLabel: server,
                    ulLabelLen: server_len,
                    pOutput,
                    pulOutputLen,
                })
            }
            _ => self.tls_keys(shape, RandomInfo, prfHashMechanism),
        }
    }

    fn tls_keys(
        &mut self,
        shape: Shape,
        RandomInfo: CK_SSL3_RANDOM_DATA,
        hash: CK_MECHANISM_TYPE,
    ) -> Parameter {
        let bits = |run: &mut Self| {
            if run.source.once_in(8) { run.source.number() } else { 8 * run.source.below(33) as CK_ULONG }
        };
        let (ulMacSizeInBits, ulKeySizeInBits, ulIVSizeInBits) = (bits(self), bits(self), bits(self));
        // The module refuses more bits, so a larger buffer is not needed.
        let ivs = vec![0; if ulIVSizeInBits <= 4096 { ulIVSizeInBits as usize / 8 } else { 0 }];
        let mut out = CK_SSL3_KEY_MAT_OUT {
            hClientMacSecret: 0,
            hServerMacSecret: 0,
            hClientKey: 0,
            hServerKey: 0,
            pIVClient: self.memory.copy(&ivs),
            pIVServer: self.memory.copy(&ivs),
        };
        if self.source.once_in(8) {
            out.pIVServer = null_mut();
        }
        let pReturnedKeyMaterial = if self.source.once_in(16) { null_mut() } else { self.memory.put(out) };
        let bIsExport = if self.source.once_in(8) { self.source.byte() } else { CK_FALSE };
        if shape == Shape::TlsKeys {
            return self.put(CK_SSL3_KEY_MAT_PARAMS {
                ulMacSizeInBits,
                ulKeySizeInBits,
                ulIVSizeInBits,
                bIsExport,
                RandomInfo,
                pReturnedKeyMaterial,
            });
        }
        self.put(CK_TLS12_KEY_MAT_PARAMS {
            ulMacSizeInBits,
            ulKeySizeInBits,
            ulIVSizeInBits,
            bIsExport,
            RandomInfo,
            pReturnedKeyMaterial,
            prfHashMechanism: hash,
        })
    }
}
