//! A CA for the certificates of agents and clients.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use jeton_ca::certificate::{Holder, Role, self_signed_tbs};
use jeton_ca::issuer::{Issuer, Order, Revoked, profile};
use jeton_pki::signer::{Signer, assemble};
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::ext::pkix::CrlReason;

/// A CA whose key is in memory. It writes the files of a directory.
pub struct Authority<'a> {
    directory: &'a Path,
    name: &'static str,
    key: EcdsaKeyPair,
    issuer: Issuer,
}

impl<'a> Authority<'a> {
    /// Makes a CA, and writes its certificate. The name of the CA is that of its files.
    pub fn new(directory: &'a Path, name: &'static str) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
        let info = public_key(&key);
        let holder = Holder::parse(&format!("CN={name}"), &[]).expect("a subject");
        let signer = Signer::of(&info).expect("a P-256 key");
        let tbs = self_signed_tbs(&info, &holder, &signer, Role::Authority, 2, [1; 16]);
        let der = signed(&key, &signer, &tbs.expect("a certificate"));
        write_pem(&directory.join(format!("{name}.pem")), "CERTIFICATE", &der);
        Self { directory, name, key, issuer: Issuer::new(&der).expect("a CA") }
    }

    /// Issues a certificate with this serial number for a host, and writes it with its key.
    pub fn issue(&self, host: &str, serial: [u8; 16]) {
        self.issue_for(host, &[format!("dns:{host}")], serial);
    }

    pub fn issue_for(&self, host: &str, names: &[String], serial: [u8; 16]) {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
        let order = Order {
            profile: profile(if matches!(host, "localhost" | "agent") { "tls-server" } else { "tls-client" })
                .expect("a profile"),
            holder: Holder::parse(&format!("CN={host}"), names).expect("a name"),
            public_key: &public_key(&key),
            days: Some(1),
            path_length: 0,
            permitted: Vec::new(),
            excluded: Vec::new(),
            crl_url: None,
            ocsp_url: None,
        };
        let tbs = self.issuer.certificate_tbs(&order, serial).expect("a certificate");
        let der = signed(&self.key, &self.issuer.signer, &tbs);
        let file = |extension: &str| self.directory.join(format!("{host}.{extension}"));
        write_pem(&file("pem"), "CERTIFICATE", &der);
        write_pem(&file("key"), "PRIVATE KEY", key.to_pkcs8v1().expect("a key").as_ref());
    }

    /// Writes a CRL with these serial numbers.
    pub fn revoke(&self, serials: &[[u8; 16]]) {
        self.revoke_for(serials, 2);
    }

    /// Writes a CRL that ends after this number of days.
    pub fn revoke_for(&self, serials: &[[u8; 16]], days: u32) {
        self.write_list(serials, days, |_| ());
    }

    /// Writes a CRL whose first time, `thisUpdate`, is in the year 2049.
    pub fn revoke_later(&self) {
        self.write_list(&[], 20_000, |tbs| {
            let at = tbs.windows(2).position(|bytes| bytes == [0x17, 13]).expect("a UTCTime");
            tbs[at + 2..][..2].copy_from_slice(b"49");
        });
    }

    fn write_list(&self, serials: &[[u8; 16]], days: u32, change: impl Fn(&mut Vec<u8>)) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
        let revoked =
            |serial: &[u8; 16]| Revoked { serial: serial.to_vec(), time, reason: CrlReason::Unspecified };
        let revoked: Vec<_> = serials.iter().map(revoked).collect();
        let mut tbs = self.issuer.crl_tbs(1, &revoked, time, days).expect("a CRL");
        change(&mut tbs);
        let der = signed(&self.key, &self.issuer.signer, &tbs);
        write_pem(&self.directory.join(format!("{}.crl", self.name)), "X509 CRL", &der);
    }
}

fn public_key(key: &EcdsaKeyPair) -> Vec<u8> {
    key.public_key().as_der().expect("a public key").as_ref().to_vec()
}

fn signed(key: &EcdsaKeyPair, signer: &Signer, tbs: &[u8]) -> Vec<u8> {
    let signature = key.sign(&SystemRandom::new(), tbs).expect("a signature");
    assemble(tbs, signer, signature.as_ref()).expect("DER")
}

fn write_pem(path: &Path, label: &str, der: &[u8]) {
    std::fs::write(path, encode_string(label, LineEnding::LF, der).expect("PEM")).expect("a file");
}

/// Returns a serial number that [`Issuer::certificate_tbs`] does not change: positive and long.
pub const fn serial(number: u8) -> [u8; 16] {
    [0x40 | number; 16]
}
