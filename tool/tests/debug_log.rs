//! What the log says at level `debug` about refused templates and parameters. A file of its own,
//! because the log belongs to the process.

mod common;

use common::*;
use cryptoki_sys::*;
use jeton_tool::client::{Attribute, Mechanism, ObjectHandle};

/// Returns the lines that the log got since the last call.
struct Log(String, usize);

impl Log {
    fn news(&mut self) -> String {
        let text = fs::read_to_string(&self.0).expect("the log");
        let news = text[self.1..].to_owned();
        self.1 = text.len();
        news
    }
}

#[test]
fn the_log_names_the_attribute_and_the_field_that_are_refused() {
    let Some(tool) = Tool::new() else { return };
    let library = peer(Known::Jeton).expect("the module");
    let log = tool.file("log");
    let parameters = format!(
        "token-dir = '{}', pin = {{ memory-kib = 8, passes = 1 }}, log = {{ file = '{log}', level = 'debug' }}",
        tool.file("tokens")
    );
    let (_module, session) = log_in(library, Some(&parameters));
    let mut log = Log(log, 0);
    log.news();

    let number = Attribute::number;
    let rsa = |bits| [number(CKA_MODULUS_BITS, bits), Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1])];
    let generate = |mechanism, public: &[Attribute], private: &[Attribute]| {
        let pair = session.generate_key_pair(&Mechanism::new(mechanism), public, private);
        pair.expect_err("a refused template");
    };
    let create = |template: &[Attribute]| {
        session.create_object(template).expect_err("a refused template");
    };
    let curve = |name: &[u8]| Attribute::bytes(CKA_EC_PARAMS, name);
    let aes = [number(CKA_CLASS, CKO_SECRET_KEY), number(CKA_KEY_TYPE, CKK_AES)];
    let with = |more: &[Attribute]| [&aes[..], more].concat();
    let value = |len| Attribute::bytes(CKA_VALUE, vec![7; len]);
    let templates: [(&dyn Fn(), &str); 13] = [
        (
            &|| generate(CKM_RSA_PKCS_KEY_PAIR_GEN, &rsa(512), &[]),
            "attribute=CKA_MODULUS_BITS len=8 clause=\"C_GetMechanismInfo",
        ),
        (
            &|| generate(CKM_RSA_PKCS_KEY_PAIR_GEN, &rsa(2048)[1..], &[]),
            "attribute=CKA_MODULUS_BITS clause=\"Common footnotes, 3",
        ),
        (
            &|| generate(CKM_RSA_PKCS_KEY_PAIR_GEN, &rsa(2048), &[Attribute::bytes(CKA_SIGN, [1, 0])]),
            "attribute=CKA_SIGN len=2 clause=\"Creating objects\" error=AttributeValueInvalid",
        ),
        (
            &|| generate(CKM_RSA_PKCS_KEY_PAIR_GEN, &rsa(2048), &[value(3)]),
            "attribute=CKA_VALUE len=3 clause=\"Objects: the object has no such attribute\"",
        ),
        (
            &|| generate(CKM_RSA_PKCS_KEY_PAIR_GEN, &rsa(2048), &[Attribute::flag(CKA_LOCAL, true)]),
            "attribute=CKA_LOCAL len=1 clause=\"Common footnotes, 4",
        ),
        (
            &|| generate(CKM_EC_KEY_PAIR_GEN, &[curve(b"\x06\x03\x55\x04\x03")], &[]),
            "attribute=CKA_EC_PARAMS len=5",
        ),
        (
            &|| generate(CKM_ML_DSA_KEY_PAIR_GEN, &[number(CKA_PARAMETER_SET, 99)], &[]),
            "attribute=CKA_PARAMETER_SET len=8",
        ),
        (&|| create(&with(&[value(15)])), "attribute=CKA_VALUE len=15 clause=\"C_GetMechanismInfo"),
        (&|| create(&aes), "attribute=CKA_VALUE clause=\"Common footnotes, 1"),
        (
            &|| create(&[value(16)]),
            "attribute=CKA_CLASS clause=\"Creating objects\" error=TemplateIncomplete",
        ),
        (
            &|| create(&with(&[value(16), Attribute::flag(CKA_TRUSTED, true)])),
            "attribute=CKA_TRUSTED len=1 clause=\"Common footnotes, 10",
        ),
        (
            &|| create(&with(&[value(16), number(CKA_KEY_TYPE, CKK_DES3)])),
            "attribute=CKA_KEY_TYPE len=8 clause=\"Creating objects, CKR_TEMPLATE_INCONSISTENT\"",
        ),
        (
            &|| {
                let dates = [
                    Attribute::bytes(CKA_START_DATE, *b"20300101"),
                    Attribute::bytes(CKA_END_DATE, *b"20290101"),
                ];
                create(&[&with(&[value(16)])[..], &dates].concat());
            },
            "attribute=CKA_END_DATE len=8 clause=\"Key objects: it is before CKA_START_DATE\"",
        ),
    ];
    for (refused, expected) in templates {
        refused();
        let news = log.news();
        assert!(news.contains(expected), "no {expected} in:\n{news}");
        assert!(!news.contains("07070707"), "a value in the log:\n{news}");
    }

    let key = session.create_object(&with(&[value(16), Attribute::flag(CKA_DERIVE, true)])).expect("a key");
    let pair = session.generate_key_pair(&Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN), &rsa(2048), &[]);
    let (_, private) = pair.expect("a pair");
    let sign = |mechanism: Mechanism, key: ObjectHandle| {
        session.sign_init(&mechanism, key).expect_err("a refused parameter");
    };
    let pss = |numbers: [CK_ULONG; 3]| Mechanism::with_numbers(CKM_SHA256_RSA_PKCS_PSS, &numbers);
    let parameters: [(&dyn Fn(), &str); 5] = [
        (&|| sign(pss([CKM_SHA256, 99, 32]), private), "field=mgf = 0x63"),
        (&|| sign(pss([CKM_RSA_PKCS, CKG_MGF1_SHA256, 32]), private), "field=hashAlg = 0x1"),
        (
            &|| sign(Mechanism::with_bytes(CKM_RSA_PKCS_PSS, &[0; 7]), private),
            "field=ulParameterLen: the struct has 24 bytes",
        ),
        (
            &|| sign(Mechanism::with_numbers(CKM_AES_CMAC_GENERAL, &[17]), key),
            "field=\"CK_MAC_GENERAL_PARAMS\"",
        ),
        (&|| sign(Mechanism::with_numbers(CKM_AES_CMAC_GENERAL, &[65]), key), "field=pParameter = 0x41"),
    ];
    for (refused, expected) in parameters {
        refused();
        let news = log.news();
        assert!(news.contains(expected), "no {expected} in:\n{news}");
    }
}
