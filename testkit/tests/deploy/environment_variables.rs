//! The environment variables that each program reads, parsed from the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit is in the repository").to_owned()
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The variables that a function in a config.rs reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(crate) all: BTreeSet<String>,
    /// The process does not start without these.
    pub(crate) required: BTreeSet<String>,
}

impl Variables {
    fn add(&mut self, other: &Self) {
        self.all.extend(other.all.iter().cloned());
        self.required.extend(other.required.iter().cloned());
    }
}

fn is_variable(name: &str) -> bool {
    name.len() > 3 && name.contains('_') && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

/// The functions of a config.rs by name, with the variables that each reads.
fn functions(path: &str) -> BTreeMap<String, Variables> {
    let text = read(path);
    let mut functions = BTreeMap::new();
    for function in text.split("\npub fn ").skip(1) {
        let name: String = function.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let body = function.split("\n}\n").next().unwrap_or_default();
        let mut variables = Variables::default();
        // The pieces with an odd index are the quoted strings.
        let pieces: Vec<_> = body.split('"').collect();
        for pair in pieces.chunks_exact(2).filter(|pair| is_variable(pair[1])) {
            variables.all.insert(pair[1].to_owned());
            if ["required(", "parsed("].iter().any(|call| pair[0].trim_end().ends_with(call)) {
                variables.required.insert(pair[1].to_owned());
            }
        }
        functions.insert(name, variables);
    }
    functions
}

fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    paths
        .filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "rs"))
        .flat_map(|path| rust_files(&path))
        .collect()
}

/// The variables that the program in these files reads through a config.rs.
fn configured(sources: &[&str]) -> Variables {
    let (common, gateway) = (functions("common/foundation/src/config.rs"), functions("gateway/src/config.rs"));
    let mut variables = Variables::default();
    for file in sources.iter().flat_map(|source| rust_files(&root().join(source))) {
        let text = fs::read_to_string(&file).expect("a source can be read");
        let is_gateway = file.starts_with(root().join("gateway"));
        for (at, mark) in text.match_indices("config::") {
            let of_common = !is_gateway || text[..at].ends_with("foundation::");
            let rest = &text[at + mark.len()..];
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if let Some(function) = if of_common { &common } else { &gateway }.get(&name) {
                variables.add(function);
            }
        }
    }
    variables
}

/// The programs of the image and the variables that each reads.
pub(crate) fn programs() -> BTreeMap<&'static str, Variables> {
    let migrate = read("migrations/src/program.rs");
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let roles = ["PROGRAMS_DATABASE_URL", "READER_DATABASE_URL"];
    assert!(["DATABASE_URL"].iter().chain(&roles).all(|name| migrate.contains(&format!("\"{name}\""))), "{migrate}");
    let database = |roles: &[&str]| Variables {
        all: named(&[&["DATABASE_URL"], roles].concat()),
        required: named(&["DATABASE_URL"]),
    };
    // DATABASE_URL is read by a function that a function of config.rs calls, which `configured` does not see.
    let with_database = |sources: &[&str]| {
        let mut variables = configured(sources);
        variables.add(&database(&["GATEWAY_DATABASE_URL"]));
        variables
    };
    // The portal includes the API, but not its listener.
    let mut portal = configured(&["portal/src", "api/src"]);
    portal.all.remove("API_BIND");
    portal.required.remove("API_BIND");
    let programs = BTreeMap::from([
        ("api", configured(&["api/src"])),
        ("portal", portal),
        ("worker", configured(&["worker/src"])),
        ("scheduler", configured(&["scheduler/src"])),
        ("gateway", with_database(&["gateway/src"])),
        ("migrate", database(&roles)),
        ("gateway migrate", database(&["GATEWAY_DATABASE_URL"])),
        // ctl includes the operator commands of the gateway.
        ("ctl", with_database(&["ctl/src", "gateway/src/commands/mod.rs", "gateway/src/commands/keys.rs"])),
    ]);
    for (program, minimum) in [("api", 7), ("portal", 8), ("worker", 5), ("scheduler", 4), ("gateway", 6), ("ctl", 5)] {
        let required = &programs[program].required;
        assert!(
            required.len() >= minimum,
            "{program} seems to require only {required:?}: this parser no longer sees them all"
        );
    }
    programs
}

/// Every variable that any program reads.
pub(crate) fn known_variables() -> BTreeSet<String> {
    let of_migrate = ["PROGRAMS_DATABASE_URL", "READER_DATABASE_URL"];
    let mut known: BTreeSet<_> = ["LOG_FORMAT", "RUST_LOG"].into_iter().chain(of_migrate).map(str::to_owned).collect();
    for path in ["common/foundation/src/config.rs", "gateway/src/config.rs"] {
        known.extend(functions(path).into_values().flat_map(|function| function.all));
    }
    // Named where they are used: the function that reads them is for two programs.
    let of_mail = ["SMTP_URL", "MAIL_FOLDER", "MAIL_FROM", "MAIL_BOUNCES"];
    known.extend(of_mail.iter().flat_map(|name| [(*name).to_owned(), format!("GATEWAY_{name}")]));
    known
}

/// The value of a Duration constant in a source file, in seconds.
pub(crate) fn seconds(path: &str, constant: &str) -> u64 {
    let text = read(path);
    let mark = format!("const {constant}: Duration = Duration::from_secs(");
    let rest = text.split(&mark).nth(1).unwrap_or_else(|| panic!("{path} has no {constant} in seconds"));
    rest.split(')').next().and_then(|number| number.parse().ok()).expect("a number")
}
