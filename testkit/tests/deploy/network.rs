//! The network policies of the pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::environment_variables::read;
use super::yaml::{at, documents, text, texts};
use super::{KUBERNETES, MANIFESTS};

const COMPONENT: &str = "app.kubernetes.io/component";

const EXAMPLE: &str = "deploy/kubernetes/overlays/example/";

fn policies() -> BTreeMap<String, Value> {
    let documents = documents(&read(&format!("{KUBERNETES}base/network.yaml")));
    documents.into_iter().map(|document| (text(&document["metadata"]["name"]), document)).collect()
}

/// The components that a policy selects; `*` for all pods.
fn pods(policy: &Value) -> BTreeSet<String> {
    let selector = &policy["spec"]["podSelector"];
    let mut pods: BTreeSet<String> = texts(selector, "matchExpressions.values");
    pods.extend(selector["matchLabels"].get(COMPONENT).map(text));
    if pods.is_empty() { ["*".to_owned()].into() } else { pods }
}

/// Policy, pods, and the ports to which the pods may connect.
const EGRESS: [(&str, &[&str], &[&str]); 6] = [
    ("names", &["*"], &["53", "53"]),
    ("postgres", &["api", "ctl", "gateway", "gateway-migrate", "migrate", "portal", "scheduler", "worker"], &["5432"]),
    ("redis", &["api", "gateway", "portal", "scheduler", "worker"], &["6379"]),
    ("gateway", &["gateway"], &["465", "587"]),
    ("ctl", &["ctl"], &["8090", "443"]),
    ("worker", &["worker"], &["8090"]),
];

#[test]
fn pods_may_connect_only_to_what_their_program_needs() {
    let policies = policies();
    let nothing = &policies["nothing"]["spec"];
    assert_eq!(nothing["podSelector"], json!({}), "must select all pods");
    assert_eq!(nothing["policyTypes"], json!(["Ingress", "Egress"]), "must deny both directions by default");
    let with_egress = policies.iter().filter(|(_, policy)| policy["spec"].get("egress").is_some());
    let expected: BTreeSet<_> = EGRESS.map(|(name, ..)| name).into();
    assert_eq!(with_egress.map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(), expected);
    for (name, components, ports) in EGRESS {
        let policy = &policies[name];
        assert_eq!(pods(policy), components.iter().map(|pod| (*pod).to_owned()).collect(), "{name}");
        let allowed: Vec<String> = texts(policy, "spec.egress.ports.port");
        assert_eq!(allowed, ports, "{name}");
        for rule in at(policy, "spec.egress") {
            // A rule without `to` allows every address, and one without ports every port.
            assert!(!at(rule, "to").is_empty() && !at(rule, "ports").is_empty(), "{name}: {rule}");
        }
    }
}

#[test]
fn every_pod_has_a_component_label_that_the_policies_select() {
    let reaching_postgres = pods(&policies()["postgres"]);
    let components: BTreeSet<_> = MANIFESTS
        .iter()
        .flat_map(|file| documents(&read(&format!("{KUBERNETES}{file}"))))
        .filter(|document| ["Deployment", "Job", "Pod"].contains(&text(&document["kind"]).as_str()))
        .flat_map(|document| {
            let labels = ["metadata.labels", "spec.template.metadata.labels"];
            labels.map(|path| at(&document, path).first().map(|labels| text(&labels[COMPONENT])))
        })
        .flatten()
        .collect();
    assert_eq!(components, reaching_postgres, "every program connects to Postgres");
}

#[test]
fn cloud_metadata_is_blocked_and_databases_are_not_on_the_internet() {
    let policies = policies();
    for name in ["gateway", "worker", "ctl"] {
        let text = policies[name].to_string();
        assert!(text.contains("169.254.0.0/16") && text.contains("168.63.129.16/32"), "{name}: {text}");
    }
    for name in ["postgres", "redis", "names"] {
        let blocks: Vec<String> = texts(&policies[name], "spec.egress.to.ipBlock.cidr");
        assert!(!blocks.is_empty() && !blocks.iter().any(|block| block.ends_with("/0")), "{name}: {blocks:?}");
    }
}

#[test]
fn patches_of_the_example_change_what_exists() {
    let files = MANIFESTS.iter().copied().chain(["base/network.yaml"]);
    let resources: Vec<_> = files.flat_map(|file| documents(&read(&format!("{KUBERNETES}{file}")))).collect();
    let mut seen = 0;
    for file in ["kustomization.yaml", "ctl/kustomization.yaml", "authority/kustomization.yaml"] {
        let overlay = documents(&read(&format!("{EXAMPLE}{file}"))).remove(0);
        for patch in at(&overlay, "patches") {
            let (kind, name) = (&patch["target"]["kind"], patch["target"]["name"].as_str());
            let names: Vec<_> = name.into_iter().flat_map(|names| names.split('|')).collect();
            let is_target = |resource: &&Value| {
                let has = |name: &&str| resource["metadata"]["name"] == *name;
                resource["kind"] == *kind && (names.is_empty() || names.iter().any(has))
            };
            let targets: Vec<_> = resources.iter().filter(is_target).collect();
            assert!(targets.len() >= names.len().max(1), "{file}: {patch}");
            let operations = documents(patch["patch"].as_str().expect("operations"));
            for operation in at(&operations[0], "") {
                let path = operation["path"].as_str().expect("a path");
                // An addition needs only the list or the object to which it adds.
                let place =
                    if operation["op"] == "add" { path.rsplit_once('/').map_or("", |(place, _)| place) } else { path };
                for target in &targets {
                    assert!(target.pointer(place).is_some(), "{file}: {} has no {place}", target["metadata"]);
                    seen += 1;
                }
            }
        }
    }
    assert!(seen >= 15, "{seen}");
    let ctl = documents(&read(&format!("{KUBERNETES}ctl/pod.yaml"))).remove(0);
    assert_eq!(ctl["spec"]["containers"][0]["env"][0]["name"], "PUBLIC_URL", "the example changes the first variable");
}

#[test]
fn components_that_the_example_offers_exist() {
    let example = read(&format!("{EXAMPLE}kustomization.yaml"));
    for name in ["image", "mail-relay", "authority", "../../monitoring"] {
        assert!(example.contains(&format!("- {name}\n")), "the example does not name {name}");
        let component = documents(&read(&format!("{EXAMPLE}{name}/kustomization.yaml"))).remove(0);
        assert_eq!(component["kind"], "Component", "{name}");
    }
    let relay = documents(&read(&format!("{EXAMPLE}mail-relay/policy.yaml"))).remove(0);
    assert_eq!(pods(&relay), ["gateway", "worker"].map(str::to_owned).into(), "these send e-mails");
    let blocks: Vec<String> = texts(&relay, "spec.egress.to.ipBlock.cidr");
    assert!(matches!(&blocks[..], [block] if block.ends_with("/32")), "{blocks:?}");
}
