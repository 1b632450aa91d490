//! The network policies of the pods.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::read;
use super::yaml::{Entry, at, documents, inline, list};
use super::{KUBERNETES, MANIFESTS};

const COMPONENT: &str = "app.kubernetes.io/component";

fn policies() -> BTreeMap<String, Vec<Entry>> {
    let documents = documents(&read(&format!("{KUBERNETES}base/network.yaml")));
    let name = |document: &[Entry]| at(document, "metadata.name").next().expect("a name").to_owned();
    documents.into_iter().map(|document| (name(&document), document)).collect()
}

/// The components that a policy selects; `*` for all pods.
fn pods(policy: &[Entry]) -> BTreeSet<String> {
    let by_label = at(policy, "spec.podSelector").flat_map(|selector| inline(selector, COMPONENT)).map(str::to_owned);
    let by_expression = at(policy, "spec.podSelector.matchExpressions")
        .filter_map(|expression| expression.split_once("values: "))
        .flat_map(|(_, values)| list(values.trim_end_matches('}')));
    let pods: BTreeSet<_> = by_label.chain(by_expression).collect();
    if pods.is_empty() { ["*".to_owned()].into() } else { pods }
}

/// Policy, pods, and the ports to which the pods may connect.
const EGRESS: [(&str, &[&str], &[&str]); 6] = [
    ("names", &["*"], &["53", "53"]),
    ("postgres", &["api", "ctl", "gateway", "gateway-migrate", "migrate", "scheduler", "worker"], &["5432"]),
    ("redis", &["api", "gateway", "scheduler", "worker"], &["6379"]),
    ("gateway", &["gateway"], &["465", "587"]),
    ("ctl", &["ctl"], &["8090"]),
    ("worker", &["worker"], &["8090"]),
];

#[test]
fn pods_may_connect_only_to_what_their_program_needs() {
    let policies = policies();
    assert_eq!(at(&policies["nothing"], "spec.podSelector").next(), Some("{}"), "must select all pods");
    assert!(
        at(&policies["nothing"], "spec.policyTypes").eq(["[Ingress, Egress]"]),
        "must deny both directions by default"
    );
    let with_egress =
        policies.iter().filter(|(_, policy)| policy.iter().any(|one| one.path.starts_with("spec.egress")));
    let expected: BTreeSet<_> = EGRESS.map(|(name, ..)| name).into();
    assert_eq!(with_egress.map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(), expected);
    for (name, components, ports) in EGRESS {
        let policy = &policies[name];
        assert_eq!(pods(policy), components.iter().map(|pod| (*pod).to_owned()).collect(), "{name}");
        let allowed: Vec<_> = at(policy, "spec.egress.ports").flat_map(|ports| inline(ports, "port")).collect();
        assert_eq!(allowed, ports, "{name}");
        // Each rule has a destination: a rule without `to` allows every address.
        let rules = at(policy, "spec.egress.ports").count();
        let destinations = policy.iter().filter(|one| one.path == "spec.egress.to" && one.value.is_empty()).count();
        let inline_destinations = at(policy, "spec.egress.to").filter(|to| to.starts_with('[')).count();
        assert_eq!(destinations + inline_destinations, rules, "{name}");
    }
}

#[test]
fn every_pod_has_a_component_label_that_the_policies_select() {
    let reaching_postgres = pods(&policies()["postgres"]);
    let components: BTreeSet<_> = MANIFESTS
        .iter()
        .flat_map(|file| documents(&read(&format!("{KUBERNETES}{file}"))))
        .filter(|document| at(document, "kind").any(|kind| ["Deployment", "Job", "Pod"].contains(&kind)))
        .flat_map(|document| {
            let labels = ["metadata.labels", "spec.template.metadata.labels"];
            labels.map(|path| at(&document, path).flat_map(|one| inline(one, COMPONENT)).map(str::to_owned).next())
        })
        .flatten()
        .collect();
    assert_eq!(components, reaching_postgres, "every program connects to Postgres");
}

#[test]
fn cloud_metadata_is_blocked_and_databases_are_not_on_the_internet() {
    let policies = policies();
    for name in ["gateway", "worker"] {
        let text =
            policies[name].iter().map(|one| format!("{} {}", one.path, one.value)).collect::<Vec<_>>().join("\n");
        assert!(text.contains("169.254.0.0/16") && text.contains("168.63.129.16/32"), "{name}: {text}");
    }
    for name in ["postgres", "redis", "names"] {
        let blocks: Vec<_> = policies[name].iter().flat_map(|one| inline(&one.value, "cidr")).collect();
        assert!(!blocks.is_empty() && !blocks.iter().any(|block| block.ends_with("/0")), "{name}: {blocks:?}");
    }
}
