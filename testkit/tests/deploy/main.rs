//! compose.yaml, deploy/ and the Dockerfile repeat facts about the programs, such as variables, secrets and ports.
//! These tests compare the files with the sources, without a container engine or a cluster: they find omissions, not
//! files that do not run.

mod compose;
mod environment_variables;
mod network;
mod release;
mod schemas;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use environment_variables::{known_variables, programs, read, root, seconds};
use serde_json::{Value, json};
use yaml::{at, documents, map, text, texts};

const KUBERNETES: &str = "deploy/kubernetes/";
/// The files that define pods.
const MANIFESTS: [&str; 7] = [
    "base/api.yaml",
    "base/portal.yaml",
    "base/worker.yaml",
    "base/scheduler.yaml",
    "base/gateway.yaml",
    "migrate/jobs.yaml",
    "ctl/pod.yaml",
];
/// Variables whose value must be in a file (`NAME_FILE`).
const SECRETS: [&str; 15] = [
    "DATABASE_URL",
    "PROGRAMS_DATABASE_URL",
    "READER_DATABASE_URL",
    "GATEWAY_DATABASE_URL",
    "REDIS_URL",
    "KEY_PEPPER",
    "OLD_KEY_PEPPERS",
    "ENCRYPTION_KEY",
    "OLD_ENCRYPTION_KEYS",
    "GATEWAY_CARD_KEY",
    "GATEWAY_OLD_CARD_KEYS",
    "GATEWAY_PEPPER",
    "GATEWAY_SMTP_URL",
    "SMTP_URL",
    "POSTGRES_PASSWORD",
];

/// How one program is started: by a service of Compose or by a pod.
struct Launch {
    /// File and service, for messages.
    place: String,
    /// For example `gateway migrate`.
    program: String,
    environment: BTreeMap<String, String>,
    /// Names of the files in /run/secrets.
    secrets: BTreeSet<String>,
    image: String,
    /// Seconds between SIGTERM and SIGKILL.
    grace: u64,
}

fn command(value: &Value) -> String {
    texts::<Vec<_>>(value, "").join(" ")
}

fn compose() -> Value {
    documents(&read("compose.yaml")).remove(0)
}

/// The services of compose.yaml that run one of the programs.
fn compose_launches() -> Vec<Launch> {
    let compose = compose();
    let is_ours = |(_, service): &(&String, &Value)| service["image"] == compose["x-program"]["image"];
    let launch = |(name, service): (&String, &Value)| Launch {
        place: format!("compose.yaml, {name}"),
        program: command(service.get("entrypoint").unwrap_or(&service["command"])),
        environment: map(&service["environment"]).map(|(name, value)| (name.clone(), text(value))).collect(),
        secrets: texts(service, "secrets"),
        image: text(&service["image"]),
        grace: text(&service["stop_grace_period"]).trim_end_matches('s').parse().expect("seconds"),
    };
    let launches: Vec<_> = map(&compose["services"]).filter(is_ours).map(launch).collect();
    assert_eq!(launches.len(), 8, "services that run one of the programs");
    launches
}

/// The pods, jobs and deployments. program.yaml applies to every deployment.
fn kubernetes_launches() -> Vec<Launch> {
    let common = documents(&read(&format!("{KUBERNETES}base/program.yaml"))).remove(0);
    let mut launches = Vec::new();
    for file in MANIFESTS {
        for document in documents(&read(&format!("{KUBERNETES}{file}"))) {
            let (spec, is_deployment) = match text(&document["kind"]).as_str() {
                "Deployment" => ("spec.template.spec", true),
                "Job" => ("spec.template.spec", false),
                "Pod" => ("spec", false),
                _ => continue,
            };
            let shared = Some(&common).filter(|_| is_deployment);
            let all = |path: &str| {
                let path = format!("{spec}.{path}");
                shared.into_iter().chain([&document]).flat_map(|document| at(document, &path)).collect::<Vec<_>>()
            };
            assert!(all("containers.volumeMounts").iter().any(|mount| mount["mountPath"] == "/run/secrets"), "{file}");
            let variable = |variable: &Value| {
                let value = variable.get("value").unwrap_or(&variable["valueFrom"]);
                (text(&variable["name"]), text(value))
            };
            let program = match texts::<Vec<_>>(&document, &format!("{spec}.containers.command")).join(" ").as_str() {
                "sleep 3600" => "ctl".to_owned(),
                program => program.to_owned(),
            };
            let grace = all("terminationGracePeriodSeconds").first().map_or(Some(30), |value| value.as_u64());
            launches.push(Launch {
                place: format!("{KUBERNETES}{file}, {program}"),
                program,
                environment: all("containers.env").into_iter().map(variable).collect(),
                secrets: texts(&document, &format!("{spec}.volumes.projected.sources.secret.items.path")),
                image: text(all("containers.image")[0]),
                grace: grace.expect("seconds"),
            });
        }
    }
    assert_eq!(launches.len(), 8, "pods that run one of the programs");
    launches
}

fn launches() -> Vec<Launch> {
    compose_launches().into_iter().chain(kubernetes_launches()).collect()
}

fn variable(name: &str) -> &str {
    name.strip_suffix("_FILE").unwrap_or(name)
}

/// The secret file that a variable of a program refers to. Only migrations connect as the owner of the database. With
/// Compose each program has a user of Redis; the portal includes the API, and is the same user.
fn secret(launch: &Launch, variable: &str) -> String {
    match (launch.program.as_str(), variable) {
        ("portal", "REDIS_URL") if launch.place.starts_with("compose.yaml") => "api_redis_url".to_owned(),
        (program, "REDIS_URL") if launch.place.starts_with("compose.yaml") => format!("{program}_redis_url"),
        ("migrate" | "gateway migrate", "DATABASE_URL") => "database_url".to_owned(),
        ("gateway", "DATABASE_URL") => "gateway_database_url".to_owned(),
        (_, "DATABASE_URL") => "programs_database_url".to_owned(),
        (_, "REDIS_CA") => "authority".to_owned(),
        _ => variable.to_lowercase(),
    }
}

fn assert_none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}

#[test]
fn programs_get_every_required_variable_and_no_unknown_one() {
    let (programs, known) = (programs(), known_variables());
    let mut wrong = Vec::new();
    for launch in launches() {
        let Some(variables) = programs.get(launch.program.as_str()) else {
            wrong.push(format!("{}: there is no program {}", launch.place, launch.program));
            continue;
        };
        let given: BTreeSet<_> = launch.environment.keys().map(|name| variable(name)).collect();
        let missing = variables.required.iter().filter(|name| !given.contains(name.as_str()));
        wrong.extend(missing.map(|name| format!("{}: {name} is not set", launch.place)));
        let unread = given.iter().filter(|name| !known.contains(**name));
        wrong.extend(unread.map(|name| format!("{}: no program reads {name}", launch.place)));
        let clear = launch.environment.keys().filter(|name| SECRETS.contains(&name.as_str()));
        wrong.extend(clear.map(|name| format!("{}: {name} must be a file", launch.place)));
    }
    assert_none("variables", &wrong);
}

#[test]
fn kubernetes_passes_every_variable_that_compose_passes() {
    // The authority is a choice of the overlay, and only what the balancer finds drains.
    const OTHERWISE: [&str; 2] = ["REDIS_CA_FILE", "DRAIN_MS"];
    let kubernetes: BTreeMap<_, _> =
        kubernetes_launches().into_iter().map(|launch| (launch.program, launch.environment)).collect();
    let mut wrong = Vec::new();
    for launch in compose_launches().into_iter().filter(|launch| launch.program != "ctl") {
        let given = &kubernetes[&launch.program];
        let names = launch.environment.keys().filter(|name| !OTHERWISE.contains(&name.as_str()));
        let missing = names.filter(|name| !given.contains_key(*name));
        wrong.extend(missing.map(|name| format!("{}: {name}", launch.program)));
    }
    assert_none("variables that only compose.yaml passes", &wrong);
}

#[test]
fn every_referenced_secret_is_mounted_and_no_other() {
    let mut wrong = Vec::new();
    for launch in launches() {
        let files = launch.environment.iter().filter(|(name, _)| name.ends_with("_FILE"));
        let mut named = BTreeSet::new();
        for (name, path) in files {
            match path.strip_prefix("/run/secrets/") {
                Some(file) if file == secret(&launch, variable(name)) => _ = named.insert(file.to_owned()),
                _ => wrong.push(format!("{}: {name} is {path}", launch.place)),
            }
        }
        // The Postgres URLs refer to the certificate authority. For ctl, a user with read access passes the reader's URL
        // on the command line.
        named.extend(launch.secrets.get("authority").cloned());
        named.extend(launch.secrets.get("reader_database_url").filter(|_| launch.program == "ctl").cloned());
        if named != launch.secrets {
            wrong.push(format!("{}: refers to {named:?} and mounts {:?}", launch.place, launch.secrets));
        }
    }
    assert_none("secrets", &wrong);
}

#[test]
fn the_script_creates_every_secret_of_compose_once() {
    let compose = compose();
    let defined: BTreeMap<String, &Value> =
        map(&compose["secrets"]).map(|(name, value)| (name.clone(), value)).collect();
    let used: BTreeSet<String> =
        map(&compose["services"]).flat_map(|(_, service)| texts::<Vec<_>>(service, "secrets")).collect();
    assert_eq!(used, defined.keys().cloned().collect(), "used secrets and defined secrets differ");

    let folder = std::env::temp_dir().join(format!("secrets-{}", std::process::id()));
    let run = || {
        let status = Command::new(root().join("deploy/secrets.sh")).arg(&folder).status().expect("bash");
        assert!(status.success());
        let mode = |path: &std::path::Path| fs::metadata(path).expect("created").permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700, "the folder is open to its owner only");
        let file = |name: &String| {
            let path = folder.join(name);
            assert_eq!(mode(&path), 0o444, "{name} must be readable, since a container has its own user");
            fs::read_to_string(path).expect("readable")
        };
        defined.keys().map(|name| (name.clone(), file(name))).collect::<BTreeMap<_, _>>()
    };
    let created = run();
    assert_eq!(run(), created, "a second run changed a secret");
    fs::remove_dir_all(&folder).expect("removable");
    for (name, file) in &defined {
        assert_eq!(*file, &json!({"file": format!("secrets/{name}")}));
    }
    let keys: BTreeSet<_> =
        ["key_pepper", "encryption_key", "gateway_card_key", "gateway_pepper"].map(|key| &created[key]).into();
    assert_eq!(keys.len(), 4, "two keys are equal");
    for key in keys {
        assert!(key.trim_end().len() == 64 && key.trim_end().bytes().all(|b| b.is_ascii_hexdigit()), "64 digits");
    }
    let roles = ["", "programs_", "gateway_", "reader_"].map(|role| format!("{role}database_url"));
    let users: BTreeSet<_> = roles.iter().filter_map(|url| created[url].split('@').next()).collect();
    assert_eq!(users.len(), 4, "two roles share a user name and a password");
    assert!(roles.iter().all(|url| created[url].contains("?sslmode=verify-full&sslrootcert=/run/secrets/authority")));
    assert!(created["database_url"].contains(&format!(":{}@", created["postgres_password"].trim_end())));
    for role in ["api", "worker", "scheduler", "gateway", "ctl"] {
        let users = &created["redis_users"];
        let rest =
            users.split(&format!("\nuser {role} on >")).nth(1).unwrap_or_else(|| panic!("no user {role}: {users}"));
        let (password, rights) = rest.split_once(' ').expect("rights");
        assert_eq!(created[&format!("{role}_redis_url")].trim_end(), format!("rediss://{role}:{password}@redis:6379"));
        assert!(rights.starts_with("-@all ") && users.matches(password).count() == 1, "{role}: {users}");
    }
    assert!(read(".gitignore").contains("/secrets*\n") && read(".dockerignore").contains("/secrets*\n"));
}

#[test]
fn every_image_has_a_version_and_ours_has_every_program() {
    let compose = compose();
    let mut images: Vec<_> = launches().into_iter().map(|launch| launch.image).collect();
    images.extend(map(&compose["services"]).map(|(_, service)| text(&service["image"])));
    let dockerfile = read("Dockerfile");
    let from = dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")?.split(' ').next());
    images.extend(from.map(str::to_owned));
    assert!(images.len() > 25, "{images:?}");
    let unversioned =
        |image: &String| image.rsplit_once(':').is_none_or(|(_, tag)| tag == "latest" || tag.contains('/'));
    let wrong: Vec<_> = images.into_iter().filter(unversioned).collect();
    assert_none("images without a version", &wrong);
    let links = dockerfile.split("for program in ").nth(1).and_then(|rest| rest.split(';').next()).expect("links");
    let links: BTreeSet<_> = links.split(' ').collect();
    let started = read("programs/src/lib.rs");
    for launch in launches() {
        let binary = launch.program.split(' ').next().unwrap_or_default();
        let is_there = links.contains(binary) && started.contains(&format!("Some(\"{binary}\") => "));
        assert!(is_there, "the image has no {binary}: {}", launch.place);
    }
    let version = read("Cargo.toml")
        .split("version = \"")
        .nth(1)
        .map(|rest| rest.split('"').next().unwrap_or_default().to_owned());
    for launch in kubernetes_launches() {
        assert_eq!(launch.image.strip_prefix("unified-payments:"), version.as_deref(), "{}", launch.place);
    }
}

#[test]
fn only_one_service_builds_the_image() {
    let compose = compose();
    let builds: Vec<_> = map(&compose["services"]).filter(|(_, service)| service.get("build").is_some()).collect();
    assert!(matches!(builds[..], [(name, _)] if name == "migrate"), "concurrent builds of one image name may fail");
    assert_eq!(compose["x-program"]["pull_policy"], "never");
}

fn port(address: &str) -> &str {
    address.rsplit_once(':').expect("an address with a port").1
}

#[test]
fn ports_agree() {
    let compose = compose();
    let binds = [("METRICS_BIND", "9090"), ("API_BIND", "8080"), ("PORTAL_BIND", "8070"), ("GATEWAY_BIND", "8090")];
    for launch in launches() {
        for (variable, expected) in binds {
            let address = launch.environment.get(variable);
            assert!(
                address.is_none_or(|address| port(address) == expected && address.starts_with("0.0.0.0:")),
                "{}",
                launch.place
            );
        }
    }
    let health_check = compose["x-program"]["healthcheck"]["test"].to_string();
    assert!(health_check.contains("127.0.0.1/9090") && health_check.contains("/readyz"));

    for (program, expected) in [("api", "8080"), ("portal", "8070"), ("gateway", "8090")] {
        let file = format!("{KUBERNETES}base/{program}.yaml");
        let documents = documents(&read(&file));
        let container = at(&documents[0], "spec.template.spec.containers.ports")[0];
        assert_eq!(text(&container["containerPort"]), expected, "{file}");
        let service = documents.iter().find(|document| document["kind"] == "Service").expect("a Service");
        assert_eq!(service["metadata"]["name"], program);
        let port = at(service, "spec.ports")[0];
        assert_eq!((text(&port["port"]).as_str(), &port["targetPort"]), (expected, &container["name"]));
        let network = read(&format!("{KUBERNETES}base/network.yaml"));
        assert!(
            network.contains(&format!("ports: [{{protocol: TCP, port: {expected}}}]")),
            "{program} is not reachable"
        );
    }
    let gateway = "http://gateway:8090";
    assert_eq!(compose["services"]["worker"]["environment"]["CARD_GATEWAY_URL"], gateway);
    assert!(read(&format!("{KUBERNETES}base/kustomization.yaml")).contains(&format!("- CARD_GATEWAY_URL={gateway}\n")));
    assert!(read("dashboards/prometheus.yml").contains("port: 9090"));
}

#[test]
fn prometheus_finds_every_program() {
    let expected = BTreeSet::from(["api", "portal", "worker", "scheduler", "gateway"].map(str::to_owned));
    let jobs = documents(&read("dashboards/prometheus.yml")).remove(0);
    for path in ["scrape_configs.job_name", "scrape_configs.dns_sd_configs.names"] {
        assert_eq!(texts::<BTreeSet<_>>(&jobs, path), expected, "{path}");
    }
    let monitor = documents(&read(&format!("{KUBERNETES}monitoring/podmonitor.yaml"))).remove(0);
    assert_eq!(texts::<BTreeSet<_>>(&monitor, "spec.selector.matchExpressions.values"), expected);
}

#[test]
fn the_grace_period_covers_the_shutdown_of_each_program() {
    let responses = seconds("common/foundation/src/server.rs", "STOP_TIMEOUT");
    // Plus 2 s for Redis.
    let worker = seconds("worker/src/lib.rs", "SHUTDOWN_TIMEOUT") + 2;
    let mut seen = 0;
    for launch in launches() {
        let needs = match launch.program.as_str() {
            "api" | "portal" | "gateway" => {
                launch.environment["DRAIN_MS"].parse::<u64>().expect("a number") / 1_000 + responses
            }
            "worker" => worker,
            "scheduler" => 15,
            _ => continue,
        };
        seen += 1;
        // A margin for the rest of the shutdown.
        assert!(launch.grace >= needs + 5, "{} has {} s and needs {needs} s", launch.place, launch.grace);
    }
    assert_eq!(seen, 10);
}

#[test]
fn no_pod_is_restarted_while_postgres_is_unavailable() {
    let program = documents(&read(&format!("{KUBERNETES}base/program.yaml"))).remove(0);
    let path = |probe: &str| texts::<Vec<_>>(&program, &format!("spec.template.spec.containers.{probe}.httpGet.path"));
    assert_eq!(path("startupProbe"), ["/healthz"]);
    assert_eq!(path("livenessProbe"), ["/healthz"]);
    assert_eq!(path("readinessProbe"), ["/readyz"]);
}

#[test]
fn autoscaled_programs_set_no_replica_count() {
    for program in ["api", "portal", "worker", "scheduler", "gateway"] {
        let documents = documents(&read(&format!("{KUBERNETES}base/{program}.yaml")));
        let has = |kind: &str| documents.iter().any(|document| document["kind"] == kind);
        assert!(has("PodDisruptionBudget"), "{program}");
        assert_eq!(at(&documents[0], "spec.replicas").is_empty(), has("HorizontalPodAutoscaler"), "{program}");
    }
    let name = "payments_queue_unread_age_seconds";
    let rule = read(&format!("{KUBERNETES}monitoring/prometheus-adapter.yaml"));
    assert!(rule.contains(&format!("as: {name}")) && read(&format!("{KUBERNETES}base/worker.yaml")).contains(name));
    let scheduler = read("scheduler/src/gauges.rs");
    for metric in ["queue_oldest_age_seconds", "queue_waiting"] {
        assert!(rule.contains(metric) && scheduler.contains(&format!("\"{metric}\"")), "{metric}");
    }
}

#[test]
fn postgres_has_room_for_a_rollout() {
    let mut most = 0;
    for (program, connections) in [("api", 17), ("portal", 17), ("worker", 26), ("scheduler", 9), ("gateway", 21)] {
        let documents = documents(&read(&format!("{KUBERNETES}base/{program}.yaml")));
        let numbers = documents.iter().flat_map(|one| [&one["spec"]["maxReplicas"], &one["spec"]["replicas"]]);
        let pods = numbers.filter_map(Value::as_u64).max().expect("some pods");
        // A rollout starts one more pod, and terminating pods are in no replica count.
        most += connections * (pods + 1 + pods.min(3));
    }
    let page = read("docs/deploying.md");
    let room = page.split("`max_connections=").nth(1).and_then(|rest| rest.split('`').next());
    let room: u64 = room.and_then(|room| room.parse().ok()).expect("max_connections in docs/deploying.md");
    assert!(
        page.contains(&format!("makes {most},")) && room >= most + 10,
        "up to {most} connections, but max_connections={room}"
    );
}

#[test]
fn mounted_folders_exist_and_are_read_only() {
    let compose = compose();
    let mounts = map(&compose["services"]).flat_map(|(_, service)| texts::<Vec<_>>(service, "volumes"));
    let mounts: Vec<_> = mounts.filter(|mount| mount.starts_with("./")).collect();
    assert!(mounts.len() >= 4, "{mounts:?}");
    for mount in mounts {
        let (source, target) = mount.split_once(':').expect("source and target");
        assert!(root().join(source).is_dir() && target.ends_with(":ro"), "{mount}");
    }
}

#[test]
fn referenced_settings_and_secrets_are_defined() {
    let (settings, page) = (read(&format!("{KUBERNETES}base/kustomization.yaml")), read("docs/deploying.md"));
    let (mut keys, mut files, mut wrong) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for file in MANIFESTS {
        for document in documents(&read(&format!("{KUBERNETES}{file}"))) {
            for spec in ["spec", "spec.template.spec"].into_iter().flat_map(|path| at(&document, path)) {
                keys.extend(texts::<Vec<_>>(spec, "containers.env.valueFrom.configMapKeyRef.key"));
                files.extend(texts::<Vec<_>>(spec, "volumes.projected.sources.secret.items.key"));
                let names = texts::<Vec<_>>(spec, "volumes.projected.sources.secret.name").into_iter();
                let missing = names.filter(|name| !page.contains(&format!("kubectl create secret generic {name} ")));
                wrong.extend(
                    missing.map(|name| {
                        format!("docs/deploying.md does not create the secret {name}, which {file} mounts")
                    }),
                );
            }
        }
    }
    keys.insert("RUST_LOG".to_owned());
    let unset = keys.iter().filter(|key| !settings.contains(&format!("- {key}=")));
    wrong.extend(unset.map(|key| format!("{key} is not in kustomization.yaml")));
    let missing = files.iter().filter(|file| !page.contains(&format!("--from-file={file}")));
    wrong.extend(missing.map(|file| format!("no secret in docs/deploying.md has {file}")));
    assert_none("settings and secrets", &wrong);
    assert!(keys.len() >= 7 && files.len() >= 8, "{keys:?} {files:?}");
    // deploy/secrets.sh writes those of compose.yaml, or none.
    for url in ["redis_url", "database_url", "programs_database_url", "gateway_database_url", "reader_database_url"] {
        assert!(page.contains(&format!("\nwrite {url} <<< ")), "docs/deploying.md does not write {url}");
    }

    let (compose, example) = (read("compose.yaml"), read(".env.example"));
    let names = example.lines().filter_map(|line| line.trim_start_matches("# ").split_once('=')).map(|(name, _)| name);
    let names: Vec<_> = names.filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')).collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        assert!(compose.contains(&format!("${{{name}:")), "compose.yaml does not use {name}");
    }
}
