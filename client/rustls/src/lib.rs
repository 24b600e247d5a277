//! Keys of a PKCS#11 token for [rustls]: a server or a client signs its handshakes through
//! `C_Sign`, and the private key stays in the token.
//!
//! This package works with every module (Jeton, SoftHSMv2, NSS, a hardware token), and with every
//! cryptography provider of rustls. The provider computes everything except the signature.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use jeton_client::Module;
//! use jeton_rustls::{Find, Resolver, Token};
//! use rustls::ServerConfig;
//! use rustls::pki_types::{CertificateDer, pem::PemObject};
//!
//! # fn server(pin: &str) -> Result<ServerConfig, Box<dyn std::error::Error>> {
//! let module = Module::load("/usr/lib/x86_64-linux-gnu/libjeton_pkcs11.so")?;
//! module.initialize(None)?;
//! let token = Token::find(&module, Some("web"), Some(pin))?;
//! let key = token.signing_key(&Find::label("www.example.org"))?;
//! let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter("chain.pem")?.collect();
//! let resolver = Resolver::new([(chain?, key)])?;
//! let config = ServerConfig::builder().with_no_client_auth();
//! let config = config.with_cert_resolver(Arc::new(resolver));
//! # Ok(config)
//! # }
//! ```
//!
//! # Algorithms
//!
//! | key | signature schemes | TLS |
//! |---|---|---|
//! | RSA | PSS and PKCS #1 with SHA-256, SHA-384, SHA-512 | 1.2 and 1.3 (1.3: PSS only) |
//! | P-256, P-384, P-521 | ECDSA with SHA-256, SHA-384, SHA-512, in this order | 1.2 and 1.3 |
//! | Ed25519 | Ed25519 | 1.2 and 1.3 |
//! | ML-DSA-44, -65, -87 | ML-DSA | 1.3 |
//!
//! A key has a scheme if the token has a mechanism for it, and if `CKA_ALLOWED_MECHANISMS` of the
//! key permits this mechanism. If the token has `CKM_ECDSA`, but no mechanism that also hashes, the
//! token computes the digest with `C_Digest`.
//!
//! The peer must be able to verify the signature. rustls 0.23.46 verifies ML-DSA with its aws-lc-rs
//! provider, and not with ring. rustls limits TLS 1.2 to RSA, ECDSA and EdDSA, so a server with
//! only an ML-DSA key serves only TLS 1.3.
//!
//! # Threads
//!
//! [`Token`], [`SigningKey`] and [`Resolver`] can be shared by all threads. PKCS#11 gives a session
//! one signature at a time, so a token keeps a pool of sessions. A signature takes an idle session,
//! or opens a new one. The pool grows to the largest number of signatures that ran at the same
//! time. It shrinks only if a signature or a lookup fails.
//!
//! `C_Sign` blocks its thread. An asynchronous server with a slow token (a smart card, a network
//! HSM) needs several threads. A process that forks must load the module after `fork`, not before.
//!
//! # Errors
//!
//! If a function of the module fails, the [`Error`] names the function, its return code and the
//! step. If a signature fails, the handshake ends with [`rustls::Error::Other`], which contains the
//! [`Error`], and the session of the signature is closed. The token stays logged in as long as
//! the [`Token`] or one of its keys exists. If another part of the process calls `C_Logout`, or if
//! the token is removed, this package does not log in again: open the token again.
//!
//! A key with `CKA_ALWAYS_AUTHENTICATE` is refused, because each handshake would need the PIN.

#![forbid(unsafe_code)]

mod error;
mod key;
mod pool;
mod resolver;
mod scheme;
mod token;

pub use error::Error;
pub use jeton_client as client;
pub use key::SigningKey;
pub use resolver::Resolver;
pub use token::{Find, Token};
