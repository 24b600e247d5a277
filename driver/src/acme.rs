//! Clients of an ACME server (RFC 8555): each orders certificates with http-01 on the loopback
//! interface, and verifies them. The server is another program.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use der::{Decode, Encode};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, OrderStatus,
};
use jeton_ca::certificate::{Holder, request_tbs};
use jeton_laboratory::percentile;
use jeton_pki::signer::{Signer, assemble};
use rustix::time::{ClockId, clock_gettime};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, RootCertStore};
use spki::SubjectPublicKeyInfoOwned;
use tokio::runtime::{Builder, Runtime};
use x509_cert::Certificate;

use crate::algorithm::Algorithm;
use crate::pipeline::KeyPair;
use crate::{Error, Result};

/// The longest that an order may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first pause between two questions for the state of an order. Each further one is twice as
/// long, up to the longest pause.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// The name in each certificate.
const NAME: &str = "localhost";

/// What all orders of a measurement share.
pub struct Setting {
    trusted: RootCertStore,
    verifier: Arc<WebPkiServerVerifier>,
    challenges: Challenges,
}

/// The key authorizations by their tokens.
type Challenges = Arc<Mutex<HashMap<String, String>>>;

impl Setting {
    /// Reads trusted certificates in PEM, and answers challenges on this port of 127.0.0.1.
    pub fn new(trusted: &[Vec<u8>], port: u16) -> Result<Self> {
        let mut store = RootCertStore::empty();
        for certificate in trusted.iter().flat_map(|file| CertificateDer::pem_slice_iter(file)) {
            store.add(certificate.map_err(failed)?).map_err(failed)?;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(
            Arc::new(store.clone()),
            Arc::new(default_provider()),
        );
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(Error::io(format!("port {port}")))?;
        let challenges = Challenges::default();
        let answers = challenges.clone();
        thread::spawn(move || answer(&listener, &answers));
        Ok(Self { trusted: store, verifier: verifier.build().map_err(failed)?, challenges })
    }

    fn verify(&self, chain: &[CertificateDer<'_>], key: &SubjectPublicKeyInfoOwned) -> Result<()> {
        let (leaf, between) =
            chain.split_first().ok_or_else(|| Error::Failed("there is no certificate".to_owned()))?;
        let name = ServerName::try_from(NAME).map_err(failed)?;
        self.verifier.verify_server_cert(leaf, between, &name, &[], UnixTime::now()).map_err(failed)?;
        if Certificate::from_der(leaf)?.tbs_certificate.subject_public_key_info != *key {
            return Err(Error::Failed("the certificate has another key".to_owned()));
        }
        Ok(())
    }
}

/// Answers the questions of a server for challenges.
fn answer(listener: &TcpListener, challenges: &Challenges) {
    for mut stream in listener.incoming().flatten() {
        let mut bytes = [0; 2048];
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let read = stream.read(&mut bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[..read]);
        let token = text.split(' ').nth(1).and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let body = challenges.lock().expect("no holder panics").get(token).cloned().unwrap_or_default();
        let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        // The server reports a response that it did not get.
        let _ = stream.write_all((head + &body).as_bytes());
    }
}

/// The figures of a run, by their names in the table. Times are in milliseconds.
pub const FIGURES: [&str; 13] = [
    "certs\nper s",
    "mean\nms",
    "p50\nms",
    "p95\nms",
    "p99\nms",
    "new\norder",
    "chal-\nlenge",
    "fina-\nlize",
    "down-\nload",
    "key\nms",
    "polls\n",
    "client\nCPU ms",
    "errors\n",
];

pub type Figures = [f64; FIGURES.len()];

/// The milliseconds of the phases of an order and of its key, and the number of questions for its
/// state.
#[derive(Clone, Default)]
struct Order {
    phases: [f64; 4],
    key: f64,
    polls: f64,
}

/// Accounts of a server, one for each client.
pub struct Clients<'a> {
    setting: &'a Setting,
    all: Vec<(Runtime, Account)>,
}

impl<'a> Clients<'a> {
    pub fn register(setting: &'a Setting, directory: &str, count: usize) -> Result<Self> {
        let all = (0..count).map(|_| {
            let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
            let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
            let config = config.with_safe_default_protocol_versions().map_err(failed)?;
            let config = config.with_root_certificates(setting.trusted.clone()).with_no_client_auth();
            let mut tcp = HttpConnector::new();
            tcp.enforce_http(false);
            // Otherwise an order waits for delayed acknowledgements: 308 ms in place of 10 ms.
            tcp.set_nodelay(true);
            let connector =
                HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1();
            let web = Client::builder(TokioExecutor::new()).build(connector.wrap_connector(tcp));
            let new = NewAccount { contact: &[], terms_of_service_agreed: true, only_return_existing: false };
            let account = Account::builder_with_http(Box::new(web));
            let account = runtime.block_on(account.create(&new, directory.to_owned(), None));
            Ok((runtime, account.map_err(failed)?.0))
        });
        Ok(Self { setting, all: all.collect::<Result<_>>()? })
    }

    /// Orders this number of certificates, but begins none after `limit`. Returns the first error
    /// too.
    pub fn run(
        &self,
        algorithm: &Algorithm,
        count: u64,
        limit: Duration,
    ) -> Result<(Figures, Option<Error>)> {
        let (next, start, processor) = (AtomicU64::new(0), Instant::now(), processor_seconds());
        let client = |(runtime, account): &(Runtime, Account)| {
            let mut orders = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < count && start.elapsed() < limit {
                orders.push(self.order(runtime, account, algorithm));
            }
            orders
        };
        let all = thread::scope(|scope| {
            let threads: Vec<_> = self.all.iter().map(|one| scope.spawn(move || client(one))).collect();
            let ended = threads.into_iter().map(|thread| thread.join().expect("a client does not panic"));
            ended.flatten().collect::<Vec<_>>()
        });
        let (seconds, processor) = (start.elapsed().as_secs_f64(), processor_seconds() - processor);
        let (orders, errors): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
        let errors: Vec<_> = errors.into_iter().filter_map(Result::err).collect();
        let orders: Vec<_> = orders.into_iter().flatten().collect();
        let (count, failures) = (orders.len() as f64, errors.len() as f64);
        let error = errors.into_iter().next();
        if orders.is_empty() {
            return Err(error.unwrap_or_else(|| Error::Failed("no order began in time".to_owned())));
        }
        let mean = |of: &dyn Fn(&Order) -> f64| orders.iter().map(of).sum::<f64>() / count;
        let phase = |at: usize| mean(&|order| order.phases[at]);
        let mut totals: Vec<f64> = orders.iter().map(|order| order.phases.iter().sum()).collect();
        totals.sort_by(f64::total_cmp);
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|part| percentile(&totals, part));
        let (key, polls) = (mean(&|order| order.key), mean(&|order| order.polls));
        let average = totals.iter().sum::<f64>() / count;
        let [new, challenge, finalize, download] = [0, 1, 2, 3].map(phase);
        let (rate, processor) = (count / seconds, 1e3 * processor / count);
        #[rustfmt::skip]
        let figures = [
            rate, average, p50, p95, p99, new, challenge, finalize, download, key, polls, processor, failures,
        ];
        Ok((figures, error))
    }

    /// Orders a certificate and verifies it.
    fn order(&self, runtime: &Runtime, account: &Account, algorithm: &Algorithm) -> Result<Order> {
        let start = Instant::now();
        let (key, csr) = request(algorithm)?;
        let mut order = Order { key: 1e3 * start.elapsed().as_secs_f64(), ..Order::default() };
        let chain = runtime.block_on(async {
            let steps = self.steps(account, &csr, &mut order);
            tokio::time::timeout(PATIENCE, steps).await.map_err(failed)?
        })?;
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>().map_err(failed)?;
        self.setting.verify(&chain, &key)?;
        Ok(order)
    }

    async fn steps(&self, account: &Account, csr: &[u8], measured: &mut Order) -> Result<String> {
        let mut last = Instant::now();
        let mut lap = || 1e3 * std::mem::replace(&mut last, Instant::now()).elapsed().as_secs_f64();
        let names = [Identifier::Dns(NAME.to_owned())];
        let mut order = account.new_order(&NewOrder::new(&names)).await.map_err(failed)?;
        measured.phases[0] = lap();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(failed)?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let challenge = authorization.challenge(ChallengeType::Http01);
            let mut challenge =
                challenge.ok_or_else(|| Error::Failed("the server offers no http-01".to_owned()))?;
            let response = challenge.key_authorization().as_str().to_owned();
            self.setting
                .challenges
                .lock()
                .expect("no holder panics")
                .insert(challenge.token.clone(), response);
            challenge.set_ready().await.map_err(failed)?;
        }
        self.wait(&mut order, OrderStatus::Ready, measured).await?;
        measured.phases[1] = lap();
        order.finalize_csr(csr).await.map_err(failed)?;
        self.wait(&mut order, OrderStatus::Valid, measured).await?;
        measured.phases[2] = lap();
        let chain = order.certificate().await.map_err(failed)?;
        measured.phases[3] = lap();
        chain.ok_or_else(|| Error::Failed("the order has no certificate".to_owned()))
    }

    /// Waits until the order has this state. `Order::poll_ready` would also honour `Retry-After`,
    /// which is five seconds with acme-proxy.
    async fn wait(
        &self,
        order: &mut instant_acme::Order,
        status: OrderStatus,
        measured: &mut Order,
    ) -> Result<()> {
        let mut pause = FIRST_PAUSE;
        while order.state().status != status {
            if order.state().status == OrderStatus::Invalid {
                return Err(Error::Failed(format!("the order is invalid: {:?}", order.state().error)));
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
            measured.polls += 1.0;
            order.refresh().await.map_err(failed)?;
        }
        Ok(())
    }
}

/// Makes a key pair and a request. Returns the public key and the request in DER.
fn request(algorithm: &Algorithm) -> Result<(SubjectPublicKeyInfoOwned, Vec<u8>)> {
    let pair = KeyPair::generate(algorithm)?;
    let key = pair.public_key()?;
    let holder = Holder::parse(&format!("CN={NAME}"), &[format!("dns:{NAME}")])?;
    let info = key.to_der()?;
    let tbs = request_tbs(&info, &holder)?;
    Ok((key, assemble(&tbs, &Signer::of(&info)?, &pair.sign(&tbs)?)?))
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}
