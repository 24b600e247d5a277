//! The loads of each table, and the tables of the results. `--all-tables` makes the tables of
//! source document 003 (docs/benchmarks/seeds.md).

use std::path::Path;

use serde::Serialize;

use super::load::{Load, MeasuredLoad, Metric, PHASES, Phase, Storage};
use crate::selection::shown;
use jeton_laboratory::figure::ratio_text;
use jeton_laboratory::{Ratio, distinct};

/// The values of the options. Every combination is a load.
#[derive(Clone, Debug)]
pub struct Options {
    pub clients: Vec<usize>,
    pub key_types: Vec<String>,
    pub ca_key_types: Vec<String>,
    pub pools: Vec<usize>,
    pub storages: Vec<Storage>,
}

#[derive(Clone, Debug)]
pub struct TablePlan {
    title: &'static str,
    columns: &'static [Column],
    loads: Vec<Load>,
}

/// A table of results: a row for each load and module.
#[derive(Clone, Debug, Serialize)]
pub struct ResultTable {
    pub title: String,
    pub label: String,
    /// The headers of the other columns. Each has a line break, which keeps the column narrow.
    pub columns: Vec<&'static str>,
    /// The rows. Those of a load follow each other.
    pub rows: Vec<TableRow>,
    /// A text for each module: what limits the load with the most clients. Only the table of the
    /// phases has these texts.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct TableRow {
    /// The values in which the load differs from the other loads of the table.
    pub label: String,
    pub module: String,
    pub cells: Vec<String>,
}

/// A header, and the function that formats the cells below it.
#[derive(Debug)]
struct Column {
    header: &'static str,
    cell: fn(&MeasuredLoad) -> String,
}

const fn column(header: &'static str, cell: fn(&MeasuredLoad) -> String) -> Column {
    Column { header, cell }
}

const THROUGHPUT: Column = column("certs\nper s", |one| number(one.median(Metric::Throughput)));
const MEAN: Column = column("mean\nms", |one| milliseconds(one, Metric::Mean));
const P50: Column = column("p50\nms", |one| milliseconds(one, Metric::P50));
const P95: Column = column("p95\nms", |one| milliseconds(one, Metric::P95));
const P99: Column = column("p99\nms", |one| milliseconds(one, Metric::P99));
const FINALIZE: Column = column("finalize\nms", |one| milliseconds(one, Metric::Finalize));
const OWN: Column = column("\nms/cert", |one| of_ratio(one, |ratio| number(1e3 * ratio.figure)));
const DIRECT: Column = column("AWS-LC\nms/cert", |one| of_ratio(one, |ratio| number(1e3 * ratio.baseline)));
const RATIO: Column = column("\nratio", |one| of_ratio(one, |ratio| ratio_text(ratio.quotient)));
const ERRORS: Column = column("\nerrors", |one| format!("{:.0}", one.median(Metric::Errors)));

const LATENCY: &[Column] = &[THROUGHPUT, MEAN, P50, P95, P99, FINALIZE, OWN, DIRECT, RATIO];
const SATURATION: &[Column] = &[THROUGHPUT, MEAN, P99, FINALIZE, OWN, DIRECT, RATIO];
const PRESSURE: &[Column] = &[
    THROUGHPUT,
    column("requested\nKiB/cert", |one| kib(one.median(Metric::HeapRequested))),
    column("allocations\nper cert", |one| number(one.median(Metric::Allocations))),
    OWN,
    DIRECT,
    RATIO,
];
const BUSY: &[Column] = &[THROUGHPUT, ERRORS, MEAN, P95, OWN, DIRECT, RATIO];
const SHARES: &[Column] = &[
    column("\nkey", |one| share(one, Phase::Key)),
    column("\nCSR", |one| share(one, Phase::Request)),
    column("verify\nCSR", |one| share(one, Phase::RequestVerify)),
    column("\npolicy", |one| share(one, Phase::Policy)),
    column("\nsign", |one| share(one, Phase::Sign)),
    column("db\nwait", |one| share(one, Phase::DatabaseWait)),
    column("\ndb", |one| share(one, Phase::Database)),
    column("verify\ncert", |one| share(one, Phase::Verify)),
    column("cores\nbusy", |one| format!("{:.2}", one.median(Metric::BusyCores))),
];
const MEMORY: &[Column] = &[
    column("heap KiB\nstart", |one| kib(one.median(Metric::HeapStart))),
    column("\nready", |one| kib(one.median(Metric::HeapReady))),
    column("\nafter", |one| kib(one.median(Metric::HeapAfter))),
    column("\npeak", |one| kib(one.median(Metric::HeapPeak))),
    column("requested\nKiB/cert", |one| kib(one.median(Metric::HeapRequested))),
    column("process MiB\nready", |one| mib(one.median(Metric::ResidentReady))),
    column("\npeak", |one| mib(one.median(Metric::ResidentPeak))),
];

const ISSUANCE_TITLE: &str = "Issuance";
const SHARES_TITLE: &str = "Where the time goes (% of an issuance)";
const MEMORY_TITLE: &str = "Memory";

impl Options {
    /// Returns a load for every combination of the values. A database in memory has one connection.
    fn loads(&self) -> Vec<Load> {
        let mut loads = Vec::new();
        for ca_key_type in &self.ca_key_types {
            for key_type in &self.key_types {
                for storage in &self.storages {
                    for pool in &self.pools {
                        for clients in &self.clients {
                            let load = Load {
                                clients: *clients,
                                key_type: key_type.clone(),
                                ca_key_type: ca_key_type.clone(),
                                pool: if *storage == Storage::Memory { 1 } else { *pool },
                                storage: storage.clone(),
                            };
                            loads.push(load);
                        }
                    }
                }
            }
        }
        distinct(loads)
    }
}

pub fn ordinary_tables(options: &Options) -> Vec<TablePlan> {
    tables_of(options.loads())
}

pub fn tables_of(loads: Vec<Load>) -> Vec<TablePlan> {
    let busy = loads.iter().any(|load| load.pool > 1);
    let mut plans = vec![TablePlan { title: ISSUANCE_TITLE, columns: LATENCY, loads: loads.clone() }];
    if busy {
        plans.push(TablePlan { title: "Database", columns: BUSY, loads: loads.clone() });
    }
    plans.push(TablePlan { title: SHARES_TITLE, columns: SHARES, loads: loads.clone() });
    plans.push(TablePlan { title: MEMORY_TITLE, columns: MEMORY, loads });
    plans
}

pub fn document_tables() -> Vec<TablePlan> {
    let shared_memory = Path::new("/dev/shm");
    let tmpfs =
        if shared_memory.is_dir() { Storage::Directory(shared_memory.to_owned()) } else { Storage::File };
    let some = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let base = Options {
        clients: vec![25],
        key_types: some(&["ecdsa-p256"]),
        ca_key_types: some(&["ecdsa-p256"]),
        pools: vec![1],
        storages: vec![Storage::Memory],
    };
    let clients = vec![1, 5, 10, 25, 50];
    let scaling = Options { clients: clients.clone(), ..base.clone() }.loads();
    let keys =
        ["ecdsa-p256", "ed25519", "ecdsa-p384", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87", "rsa2048", "rsa4096"];
    let keys = Options { key_types: some(&keys), ..base.clone() }.loads();
    let saturation =
        Options { clients: vec![1, 10, 25, 50], key_types: some(&["rsa4096"]), ..base.clone() }.loads();
    let chains = ["ml-dsa-44", "ml-dsa-65", "ml-dsa-87", "ecdsa-p256"].into_iter().flat_map(|name| {
        Options { key_types: some(&[name]), ca_key_types: some(&[name]), ..base.clone() }.loads()
    });
    let authorities = ["ecdsa-p256", "ecdsa-p384", "ed25519", "rsa2048", "rsa3072", "rsa4096"];
    let authorities = Options { ca_key_types: some(&authorities), ..base.clone() }.loads();
    let storages =
        Options { clients: clients.clone(), storages: vec![Storage::Memory, tmpfs.clone()], ..base.clone() };
    let pools = Options { clients, pools: vec![1, 2, 4, 8], storages: vec![tmpfs], ..base.clone() }.loads();
    let shares = distinct(scaling.iter().chain(&authorities).cloned());
    vec![
        TablePlan { title: "Concurrency scaling", columns: LATENCY, loads: scaling },
        TablePlan { title: "Key types", columns: LATENCY, loads: keys },
        TablePlan { title: "RSA-4096 saturation", columns: SATURATION, loads: saturation },
        TablePlan { title: "Post-quantum chains", columns: PRESSURE, loads: chains.collect() },
        TablePlan { title: "CA key types", columns: LATENCY, loads: authorities },
        TablePlan { title: "Database in memory and on tmpfs", columns: BUSY, loads: storages.loads() },
        TablePlan { title: "Connections", columns: BUSY, loads: pools },
        TablePlan { title: SHARES_TITLE, columns: SHARES, loads: shares },
        TablePlan { title: MEMORY_TITLE, columns: MEMORY, loads: base.loads() },
    ]
}

pub fn distinct_loads(plans: &[TablePlan]) -> Vec<Load> {
    distinct(plans.iter().flat_map(|plan| plan.loads.iter().cloned()))
}

/// Returns the tables of the results. `modules` has the name and the loads of each module. Leaves
/// out tables without a row.
pub fn tables(plans: &[TablePlan], modules: &[(&str, &[MeasuredLoad])], cores: usize) -> Vec<ResultTable> {
    let tables = plans.iter().map(|plan| plan.table(modules, cores));
    tables.filter(|table| !table.rows.is_empty()).collect()
}

impl TablePlan {
    fn table(&self, modules: &[(&str, &[MeasuredLoad])], cores: usize) -> ResultTable {
        let parts = Parts::of(&self.loads);
        let mut rows = Vec::new();
        for load in &self.loads {
            for (module, measured) in modules {
                let Some(one) = measured.iter().find(|one| one.load == *load) else { continue };
                rows.push(TableRow {
                    label: parts.label(load),
                    module: shown(module).to_owned(),
                    cells: self.columns.iter().map(|column| (column.cell)(one)).collect(),
                });
            }
        }
        let remarks = if self.title == SHARES_TITLE { remarks(self, modules, cores) } else { Vec::new() };
        ResultTable {
            title: format!("{}{}", self.title, parts.common(self.loads.first())),
            label: parts.header(),
            columns: self.columns.iter().map(|column| column.header).collect(),
            rows,
            remarks,
        }
    }
}

fn remarks(plan: &TablePlan, modules: &[(&str, &[MeasuredLoad])], cores: usize) -> Vec<String> {
    let Some(load) = plan.loads.iter().max_by_key(|load| load.clients) else { return Vec::new() };
    let measured = modules
        .iter()
        .filter_map(|(module, measured)| Some((module, measured.iter().find(|one| one.load == *load)?)));
    measured.map(|(module, one)| format!("{}: {}", shown(module), limit(one, cores))).collect()
}

/// Returns a text that names what limits a load.
fn limit(one: &MeasuredLoad, cores: usize) -> String {
    /// If more than this part of the cores is busy, the processor is the limit.
    const BUSY: f64 = 0.85;
    let (busy, clients) = (one.median(Metric::BusyCores), one.load.clients);
    let seconds = |index: usize| one.values[Metric::Key as usize + index].value;
    let largest = (0..PHASES.len()).max_by(|a, b| seconds(*a).total_cmp(&seconds(*b))).unwrap_or_default();
    let (phase, name) = PHASES[largest];
    let limit = match phase {
        _ if busy >= BUSY * cores as f64 => "the processor",
        Phase::DatabaseWait | Phase::Database => "the database",
        Phase::Sign => "the CA's signature",
        _ if clients < cores => "the number of clients",
        // The longest step is a computation, but few cores are busy with it: other programs use the
        // cores.
        _ => "the processor, which other programs used too,",
    };
    let mut text = format!(
        "{limit} is the limit with {clients} clients ({busy:.2} of {cores} cores are busy). Most time goes to {name}, \
         {} %.",
        share(one, phase)
    );
    if phase != Phase::Sign {
        text += &format!(" The CA's signature takes {} %.", share(one, Phase::Sign));
    }
    text
}

/// The parts of a load that differ between the loads of a table.
struct Parts {
    clients: bool,
    key_type: bool,
    ca_key_type: bool,
    pool: bool,
    storage: bool,
}

impl Parts {
    fn of(loads: &[Load]) -> Self {
        fn differ<T: PartialEq>(loads: &[Load], part: impl Fn(&Load) -> T) -> bool {
            loads.windows(2).any(|pair| part(&pair[0]) != part(&pair[1]))
        }
        let same_type = loads.iter().all(|load| load.key_type == load.ca_key_type);
        let mut parts = Self {
            clients: differ(loads, |load| load.clients),
            key_type: differ(loads, |load| load.key_type.clone()),
            // If the CA and the clients of each load have keys of one algorithm, the label names it
            // once.
            ca_key_type: differ(loads, |load| load.ca_key_type.clone()) && !same_type,
            pool: differ(loads, |load| load.pool),
            storage: differ(loads, |load| load.storage.clone()),
        };
        let any = parts.key_type || parts.ca_key_type || parts.pool || parts.storage;
        parts.clients |= !any;
        parts
    }

    fn chosen<T>(&self, all: [T; 5]) -> Vec<T> {
        let flags = [self.clients, self.key_type, self.ca_key_type, self.pool, self.storage];
        all.into_iter().zip(flags).filter(|(_, chosen)| *chosen).map(|(part, _)| part).collect()
    }

    fn header(&self) -> String {
        self.chosen(["clients", "key", "CA key", "pool", "database"]).join(", ")
    }

    fn label(&self, load: &Load) -> String {
        let all = [
            load.clients.to_string(),
            load.key_type.clone(),
            load.ca_key_type.clone(),
            load.pool.to_string(),
            load.storage.to_string(),
        ];
        self.chosen(all).join(", ")
    }

    /// Returns the values that all loads share, for the title.
    fn common(&self, load: Option<&Load>) -> String {
        let Some(load) = load else { return String::new() };
        let mut parts = Vec::new();
        if !self.clients {
            parts.push(format!("{} clients", load.clients));
        }
        if !self.key_type {
            parts.push(format!("keys {}", load.key_type));
        }
        let is_chain = self.key_type && load.key_type == load.ca_key_type;
        if !(self.ca_key_type || is_chain) {
            parts.push(format!("CA key {}", load.ca_key_type));
        }
        if !self.storage {
            parts.push(format!("database: {}", load.storage));
        }
        if !self.pool {
            parts.push(format!("connections: {}", load.pool));
        }
        if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
    }
}

fn of_ratio(one: &MeasuredLoad, text: fn(Ratio) -> String) -> String {
    one.ratio.map(text).unwrap_or_default()
}

/// Returns a phase's part of the time of all phases, in percent.
fn share(one: &MeasuredLoad, phase: Phase) -> String {
    let phases = &one.values[Metric::Key as usize..][..PHASES.len()];
    let all: f64 = phases.iter().map(|seconds| seconds.value).sum();
    format!("{:.0}", 100.0 * phases[phase as usize].value / all)
}

fn milliseconds(one: &MeasuredLoad, metric: Metric) -> String {
    number(1e3 * one.median(metric))
}

fn kib(bytes: f64) -> String {
    number(bytes / 1024.0)
}

fn mib(bytes: f64) -> String {
    number(bytes / f64::from(1 << 20))
}

/// Formats a number with at least three digits.
fn number(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value if value >= 0.9995 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_of_several_tables_is_measured_once() {
        let plans = document_tables();
        let loads = distinct_loads(&plans);
        let all: usize = plans.iter().map(|plan| plan.loads.len()).sum();
        assert!(loads.len() < all, "{} of {all}", loads.len());
    }

    #[test]
    fn a_database_in_memory_has_one_connection() {
        let options = Options {
            clients: vec![1, 2],
            key_types: vec!["ed25519".to_owned()],
            ca_key_types: vec!["ed25519".to_owned()],
            pools: vec![1, 2, 4],
            storages: vec![Storage::Memory, Storage::File],
        };
        let loads = distinct_loads(&ordinary_tables(&options));
        assert_eq!(loads.len(), 2 + 6);
        let memory = loads.iter().filter(|load| load.storage == Storage::Memory);
        assert_eq!(memory.map(|load| load.pool).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn a_label_has_the_parts_that_differ() {
        let plans = document_tables();
        let of = |title: &str| plans.iter().find(|plan| plan.title == title).expect("a table");
        let header = |title| Parts::of(&of(title).loads).header();
        assert_eq!(header("Concurrency scaling"), "clients");
        assert_eq!(header("Key types"), "key");
        assert_eq!(header("Post-quantum chains"), "key");
        assert_eq!(header("CA key types"), "CA key");
        assert_eq!(header("Connections"), "clients, pool");
        assert_eq!(header(MEMORY_TITLE), "clients");
    }
}
