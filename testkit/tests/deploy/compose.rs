//! What compose.yaml promises about ports, limits and networks, and the scripts that operators run beside it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::environment_variables::{read, root};
use super::yaml::{map, texts};
use super::{assert_none, compose, port};

#[test]
fn every_published_port_is_fixed_and_on_loopback() {
    let expected = [
        ("balancer", "8070", "127.0.0.1:${PORTAL_PORT:-8070}:8070"),
        ("balancer", "8080", "127.0.0.1:${API_PORT:-8080}:8080"),
        ("balancer", "8090", "127.0.0.1:${GATEWAY_PORT:-8090}:8090"),
        ("grafana", "3000", "127.0.0.1:${GRAFANA_PORT:-3000}:3000"),
        ("prometheus", "9090", "127.0.0.1:${PROMETHEUS_PORT:-9090}:9090"),
    ];
    let compose = compose();
    let published = map(&compose["services"]).flat_map(|(name, service)| {
        let ports: Vec<String> = texts(service, "ports");
        ports.into_iter().map(|published| (name.clone(), port(&published).to_owned(), published))
    });
    let published: BTreeSet<_> = published.collect();
    let expected: BTreeSet<_> = expected.map(|(name, port, text)| (name.into(), port.into(), text.into())).into();
    assert_eq!(published, expected, "a port of a range changes whenever its container restarts");
}

#[test]
fn the_balancer_asks_every_process_for_its_readiness() {
    let config = read("deploy/compose/balancer/haproxy.cfg");
    let checks = ["http-check send meth GET uri /readyz", "http-check expect status 200", "check port 9090 inter 1s"];
    let servers = [("api", "8080"), ("portal", "8070"), ("gateway", "8090")];
    let servers = servers.map(|(name, port)| format!("server-template {name} 16 {name}:{port}\n"));
    for line in checks.into_iter().chain(servers.iter().map(String::as_str)).chain(["option forwardfor"]) {
        assert!(config.contains(line), "no {line}");
    }
    let drain = compose()["x-environment"]["DRAIN_MS"].as_str().and_then(|ms| ms.parse::<u32>().ok());
    assert!(drain.is_some_and(|ms| ms >= 3_000), "a check each second, and one that takes 2 s");
}

#[test]
fn every_container_but_postgres_is_killed_first_and_never_swaps() {
    let mut wrong = Vec::new();
    for (name, service) in map(&compose()["services"]).filter(|(name, _)| *name != "postgres") {
        if service["oom_score_adj"] != 500 {
            wrong.push(format!("{name} has no oom_score_adj"));
        }
        let memory = &service["deploy"]["resources"]["limits"]["memory"];
        if memory.is_null() || service["memswap_limit"] != *memory {
            wrong.push(format!("{name} may use {memory} of memory and {} with swap", service["memswap_limit"]));
        }
    }
    assert_none("limits", &wrong);
    assert!(compose()["services"]["postgres"].get("oom_score_adj").is_none());
}

#[test]
fn programs_have_no_shared_memory_and_as_many_files_as_the_daemon_allows() {
    let compose = compose();
    for service in ["x-program", "balancer"].map(|name| compose.get(name).unwrap_or(&compose["services"][name])) {
        assert_eq!(service["ipc"], "none", "/dev/shm is writable");
        assert_eq!(service["ulimits"]["nofile"], "${OPEN_FILES:-16384}");
    }
}

#[test]
fn the_image_needs_no_downloaded_frontend() {
    assert!(!read("Dockerfile").contains("# syntax"), "it would be fetched for every build, in any version");
}

#[test]
fn the_documents_name_the_shipped_monitoring() {
    let (compose, page) = (compose(), read("docs/operations.md"));
    for (service, name) in [("prometheus", "Prometheus"), ("grafana", "Grafana")] {
        let image = compose["services"][service]["image"].as_str().and_then(|image| image.rsplit_once(':'));
        let version = image.expect("a version").1.trim_start_matches('v');
        assert!(page.contains(&format!("**{name}** ({version}")), "docs/operations.md does not name {name} {version}");
    }
    let worker = &compose["services"]["worker"]["environment"];
    assert_eq!(worker["METRICS_ACCOUNTS"], "${METRICS_ACCOUNTS:-}", "three panels need it");
}

/// Service and its networks.
const NETWORKS: [(&str, &[&str]); 13] = [
    ("postgres", &["database"]),
    ("redis", &["redis"]),
    ("migrate", &["database"]),
    ("gateway-migrate", &["database"]),
    ("api", &["database", "front", "metrics", "redis"]),
    ("portal", &["database", "front", "metrics", "redis"]),
    ("worker", &["database", "metrics", "providers", "redis"]),
    ("scheduler", &["database", "metrics", "redis"]),
    ("gateway", &["database", "front", "metrics", "providers", "redis"]),
    ("ctl", &["database", "providers", "redis"]),
    ("balancer", &["front", "public"]),
    ("prometheus", &["dashboards", "metrics"]),
    ("grafana", &["dashboards"]),
];

#[test]
fn containers_are_in_the_networks_that_they_need() {
    let compose = compose();
    for (name, networks) in NETWORKS {
        let found: BTreeSet<String> = texts(&compose["services"][name], "networks");
        assert_eq!(found, networks.iter().map(|network| (*network).to_owned()).collect(), "{name}");
    }
    assert_eq!(map(&compose["services"]).count(), NETWORKS.len(), "another service");
    let open = map(&compose["networks"]).filter(|(_, network)| network["internal"] != true).map(|(name, _)| name);
    assert_eq!(open.collect::<Vec<_>>(), ["dashboards", "providers", "public"], "these reach the internet");
    // An api, a portal or a gateway believes X-Forwarded-For only of these networks.
    for name in ["api", "portal", "gateway"] {
        let trusted = &compose["services"][name]["environment"]["TRUSTED_PROXIES"];
        assert!(trusted.as_str().is_some_and(|networks| networks.starts_with("10.213.7.0/24,")), "{name}: {trusted}");
    }
    for (network, subnet) in [("public", "10.213.7.0/25"), ("front", "10.213.7.128/25")] {
        assert_eq!(compose["networks"][network]["ipam"]["config"][0]["subnet"], subnet);
    }
}

/// Runs a script of the repository in a folder, with this text as the program `docker`: whether it succeeds, and what it
/// prints.
pub(crate) fn run_script(folder: &Path, script: &[&str], docker: &str) -> (bool, String) {
    let programs = testkit::TempDir::new().expect("a folder");
    let (copy, docker_program) = (folder.join(script[0]), programs.path().join("docker"));
    fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
    fs::copy(root().join(script[0]), &copy).expect("copied");
    fs::write(&docker_program, docker).expect("written");
    fs::set_permissions(&docker_program, fs::Permissions::from_mode(0o755)).expect("executable");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.path().display());
    let output = Command::new(copy).args(&script[1..]).env("PATH", path).output().expect("bash");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// What `deploy/check` prints with a `docker` of these versions that has buildx or not.
fn check(version: &str, daemon: &str, compose: &str, buildx: bool) -> (bool, String) {
    let folder = testkit::TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("secrets")).expect("a folder");
    let docker = format!(
        "#!/bin/sh\ncase \"$*\" in\n--version) echo '{version}';;\n'compose version --short') echo {compose};;\n\
         'buildx version') {buildx};;\ninfo*) echo {daemon};;\nesac\n"
    );
    run_script(folder.path(), &["deploy/check"], &docker)
}

#[test]
fn deploy_check_states_what_is_missing() {
    for (daemon, compose) in [("20.10.24", "2.26.0"), ("26.1.5+dfsg1", "v2.40.3"), ("29.0.0", "2.100.1")] {
        let (ok, printed) = check("Docker", daemon, compose, true);
        assert!(ok, "{daemon} {compose}: {printed}");
    }
    for (version, daemon, compose, buildx, expected) in [
        ("Docker", "26.1.5", "1.29.2", true, "compose.yaml needs 2.26"),
        ("Docker", "26.1.5", "2.3.3", true, "compose.yaml needs 2.26"),
        ("Docker", "20.9.1", "2.26.0", true, "compose.yaml needs 20.10"),
        ("Docker", "", "2.26.0", true, "does not respond"),
        ("Docker", "26.1.5", "2.26.1", false, "no buildx"),
        ("podman", "26.1.5", "2.26.1", true, "Podman"),
    ] {
        let (ok, printed) = check(version, daemon, compose, buildx);
        assert!(!ok && printed.contains(expected), "{version} {daemon} {compose} {buildx}: {printed}");
    }
    let page = read("docs/deploying.md");
    assert!(page.contains("Docker 20.10") && page.contains("Compose 2.26"), "docs/deploying.md states the versions");
}

#[test]
fn deploy_replace_states_that_there_is_nothing_to_replace() {
    let folder = testkit::TempDir::new().expect("a folder");
    for (script, expected) in
        [(&["deploy/replace"][..], "name the services"), (&["deploy/replace", "api"], "api is not running")]
    {
        let (ok, printed) = run_script(folder.path(), script, "#!/bin/sh\n");
        assert!(!ok && printed.contains(expected), "{printed}");
    }
}

#[test]
fn the_example_lists_every_setting() {
    let (compose, example) = (read("compose.yaml"), read(".env.example"));
    let used: BTreeSet<_> = compose.split("${").skip(1).filter_map(|rest| Some(rest.split_once(':')?.0)).collect();
    assert!(used.len() > 20 && used.contains("RUST_LOG"), "{used:?}");
    for name in used {
        let is_setting = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{name}="));
        assert!(example.lines().any(is_setting), ".env.example has no {name}");
    }
}
